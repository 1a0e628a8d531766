//! `render machineconfig`.

use crate::{CONFIG, Dir, SECRET, content, files, program, tool};
use serde_json::Value;
use std::fs;

#[test]
fn every_file_arrives_byte_for_byte() {
    let dir = Dir::new("files");
    let object = dir.object("machineconfig", &[]);
    let found: Vec<_> = files(&object)
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["mode"].as_u64().unwrap(), content(file)))
        .collect();
    let (code, rule, err) = dir.run(&["udev", "--config", &dir.path("pool.toml")]);
    assert_eq!(code, 0, "{err}");
    let expected = [
        ("/etc/etcd-lun/chap.secret", 0o600, SECRET.as_bytes().to_vec()),
        ("/etc/etcd-lun/config.toml", 0o600, CONFIG.as_bytes().to_vec()),
        ("/etc/udev/rules.d/90-etcd-lun.rules", 0o644, rule.into_bytes()),
        ("/usr/local/bin/etcd-lun", 0o755, program()),
        (
            "/usr/local/lib/systemd/catalog/etcd-lun.catalog",
            0o644,
            include_bytes!("../../units/etcd-lun.catalog").to_vec(),
        ),
    ];
    let names = |files: &[(&str, u64, Vec<u8>)]| {
        files.iter().map(|(path, mode, _)| format!("{path} {mode:o}")).collect::<Vec<_>>()
    };
    assert_eq!(names(&found), names(&expected));
    // Not compared as a whole, so that a failure does not print a whole program.
    for ((path, _, found), (_, _, expected)) in found.iter().zip(&expected) {
        assert!(found == expected, "{path} is not what it was rendered from");
    }
    let units = object["spec"]["config"]["systemd"]["units"].as_array().unwrap();
    let (code, _, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &dir.path("pool.toml")]);
    assert_eq!(code, 0, "{err}");
    let expected = [
        ("etcd-lun-health.service", None),
        ("etcd-lun-health.timer", Some(&Value::Bool(true))),
        ("etcd-lun-park.service", None),
        ("etcd-lun-put-back.service", None),
        ("etcd-lun-selinux.service", None),
        ("etcd-lun-shutdown.service", None),
        ("etcd-lun.service", Some(&Value::Bool(true))),
        ("var-lib-etcd.mount", None),
    ];
    for (unit, (name, enabled)) in units.iter().zip(expected) {
        assert_eq!((unit["name"].as_str().unwrap(), unit.get("enabled")), (name, enabled));
        assert_eq!(unit["contents"], fs::read_to_string(dir.0.join(name)).unwrap());
    }
    assert_eq!(units.len(), expected.len());
}

/// For nodes with the package: the object has neither program nor catalog, and its units are for the
/// package's paths.
#[test]
fn without_the_program() {
    let dir = Dir::new("without-program");
    let (whole, object) =
        (dir.object("machineconfig", &[]), dir.object("machineconfig", &["--without-program"]));
    let is_packages = |file: &&Value| file["path"].as_str().unwrap().starts_with("/usr/local/");
    let rest: Vec<_> = files(&whole).iter().filter(|file| !is_packages(file)).collect();
    assert_eq!(files(&object).iter().collect::<Vec<_>>(), rest);
    assert_eq!(rest.len() + 2, files(&whole).len());
    let units = |object: &Value| object["spec"]["config"]["systemd"]["units"].as_array().unwrap().clone();
    for (unit, delivered) in units(&object).iter().zip(units(&whole)) {
        let text = delivered["contents"].as_str().unwrap().replace("/usr/local/bin/", "/usr/bin/");
        assert_eq!(unit["contents"], text.replace("/usr/local/lib/", "/usr/lib/"));
        assert_eq!((&unit["name"], unit.get("enabled")), (&delivered["name"], delivered.get("enabled")));
    }
    let butane = dir.object("butane", &["--without-program"]);
    assert_eq!(butane["systemd"], object["spec"]["config"]["systemd"]);
    assert_eq!(butane["storage"]["files"].as_array().unwrap().len(), rest.len());
    let (code, _, err) = dir.run(&["machineconfig", "--without-program", "--program", &dir.path("etcd-lun")]);
    assert_eq!(code, 2, "{err}");
}

/// The complete text, except the program and the units' lines. They are long, and the tests above check them.
#[test]
fn the_same_text_every_time() {
    let dir = Dir::new("golden");
    let (code, out, err) = dir.render("machineconfig", &["--role", "etcd"]);
    assert_eq!((code, dir.render("machineconfig", &["--role", "etcd"])), (0, (0, out.clone(), err)));
    let (mut short, mut of_unit) = (String::new(), false);
    for line in out.lines() {
        of_unit =
            line.ends_with("contents: |") || of_unit && (line.is_empty() || line.starts_with("            "));
        let long = [
            ("data:;base64,H4sI", "PROGRAM"),
            ("data:;base64,IyBMYWJlbHM", "RULE"),
            ("data:;base64,IyBFeHBs", "CATALOG"),
        ];
        let short_of = |(begins, word)| Some(format!("{}{word}\"", line.split_once(begins)?.0));
        let line = &long.into_iter().find_map(short_of).unwrap_or_else(|| line.to_owned());
        if !of_unit || line.ends_with("contents: |") {
            short = short + line + "\n";
        }
    }
    let golden = include_str!("machineconfig.yaml");
    assert!(short == golden, "{short}");
}

/// The object has only what the Machine Config Operator can apply, and Ignition accepts it.
#[test]
fn ignition_takes_it() {
    let dir = Dir::new("ignition");
    for more in [&["--role", "etcd", "--name", "my-own.name"][..], &["--without-secrets"]] {
        let object = dir.object("machineconfig", more);
        let config = &object["spec"]["config"];
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&object["spec"]), ["config"]);
        assert_eq!(keys(config), ["ignition", "storage", "systemd"]);
        assert_eq!(
            (keys(&config["storage"]), keys(&config["systemd"])),
            (vec!["files".into()], vec!["units".into()])
        );
        assert_eq!(config["ignition"]["version"], "3.2.0");
        for file in files(&object) {
            assert!(file["overwrite"] == true && file["mode"].as_u64().unwrap() <= 0o777, "{file}");
        }
        let text = serde_json::to_vec(config).unwrap();
        let Some(output) = tool("ignition-validate", &["-"], &text) else { return };
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.is_empty(), "{said}");
    }
}

#[test]
fn its_size_is_told() {
    let dir = Dir::new("size");
    let (_, out, err) = dir.render("machineconfig", &[]);
    let lines: Vec<_> = err.lines().collect();
    let (first, lines) = lines.split_first().unwrap();
    assert_eq!(*first, format!("the program is for nodes of the architecture {}", std::env::consts::ARCH));
    assert_eq!(lines[0], "98-master-etcd-lun, for the pool of role master:");
    let bytes = |line: &str| line.split_whitespace().next().unwrap().parse::<usize>().unwrap();
    assert_eq!(bytes(lines[1]), out.len());
    assert_eq!(lines[2..].iter().map(|line| bytes(line)).sum::<usize>(), out.len());
    // Random bytes, which cannot be compressed.
    let mut state = 1u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    let mut large = program();
    large.extend(noise.take(800_000));
    let (code, out, err) = dir.render("machineconfig", &["--program", &dir.write("large", &large)]);
    assert_eq!((code, out.is_empty()), (0, false), "{err}");
    assert!(err.contains("assisted installer") && !err.contains("80 %"), "{err}");
    large.extend_from_within(4096..404_096);
    let (code, out, err) = dir.render("machineconfig", &["--program", &dir.write("large", &large)]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("\nerror: MachineConfig 98-master-etcd-lun would have 1"), "{err}");
    assert!(err.contains("may have 1572864: give a smaller build"), "{err}");
}

#[test]
fn secrets_can_be_left_out() {
    let dir = Dir::new("without");
    let object = dir.object("machineconfig", &["--without-secrets"]);
    let paths: Vec<_> = files(&object).iter().map(|file| &file["path"]).collect();
    assert_eq!(
        paths,
        [
            "/etc/etcd-lun/config.toml",
            "/etc/udev/rules.d/90-etcd-lun.rules",
            "/usr/local/bin/etcd-lun",
            "/usr/local/lib/systemd/catalog/etcd-lun.catalog"
        ]
    );
    let (_, _, err) = dir.render("machineconfig", &["--without-secrets"]);
    assert!(err.contains("note: /etc/etcd-lun/chap.secret"), "{err}");
    let inline =
        CONFIG.replace("password_file = \"/etc/etcd-lun/chap.secret\"", "password = \"hunter2hunter2\"");
    let inline = dir.write("inline.toml", inline);
    let (code, out, err) = dir.render("machineconfig", &["--without-secrets", "--config", &inline]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("move the secret to a file"), "{err}");
    let object = dir.object("machineconfig", &["--config", &inline]);
    assert_eq!(files(&object).len(), 4);
}

/// A desk of one architecture renders for a pool of another.
#[test]
fn the_architecture_of_the_program_is_named() {
    let dir = Dir::new("architecture");
    for (machine, name) in [(62u16, "x86_64"), (183, "aarch64"), (21, "ppc64le")] {
        let mut file = program();
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        let (code, out, err) = dir.render("machineconfig", &["--program", &dir.write("other", &file)]);
        assert_eq!((code, out.is_empty()), (0, false), "{err}");
        assert!(err.contains(&format!("for nodes of the architecture {name}\n")), "{err}");
    }
    let mut file = program();
    file[18..20].copy_from_slice(&243u16.to_le_bytes());
    let (code, out, err) = dir.render("machineconfig", &["--program", &dir.write("other", &file)]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("another architecture than x86_64, aarch64, ppc64le and s390x"), "{err}");
}
