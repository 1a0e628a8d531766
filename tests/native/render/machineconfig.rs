//! `render machineconfig`.

use crate::{CONFIG, Dir, IMAGE, NO_SECRETS, SECRET, content, files, program, tool};
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
        ("/etc/etcd-lun/program", 0o644, order().into_bytes()),
        ("/etc/udev/rules.d/90-etcd-lun.rules", 0o644, rule.into_bytes()),
        ("/usr/local/lib/etcd-lun/program.sh", 0o644, unit::program_script().into_bytes()),
        (
            "/usr/local/lib/systemd/catalog/etcd-lun.catalog",
            0o644,
            include_bytes!("../../../units/etcd-lun.catalog").to_vec(),
        ),
    ];
    let names = |files: &[(&str, u64, Vec<u8>)]| {
        files.iter().map(|(path, mode, _)| format!("{path} {mode:o}")).collect::<Vec<_>>()
    };
    assert_eq!(names(&found), names(&expected));
    for ((path, _, found), (_, _, expected)) in found.iter().zip(&expected) {
        assert!(found == expected, "{path} is not what it was rendered from");
    }
    let units = object["spec"]["config"]["systemd"]["units"].as_array().unwrap();
    let (code, _, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &dir.path("pool.toml")]);
    assert_eq!(code, 0, "{err}");
    let expected = [
        ("crio.service", None),
        ("etcd-lun-hands.socket", None),
        ("etcd-lun-hands@.service", None),
        ("etcd-lun-health.service", None),
        ("etcd-lun-health.timer", None),
        ("etcd-lun-lost.service", None),
        ("etcd-lun-path@.target", None),
        ("etcd-lun-portals.socket", None),
        ("etcd-lun-portals@.service", None),
        ("etcd-lun-program-fetch.service", None),
        ("etcd-lun-program.service", None),
        ("etcd-lun-selinux.service", None),
        ("etcd-lun-shutdown.service", None),
        ("etcd-lun.service", None),
        ("kubelet-dependencies.target", None),
        ("kubelet.service", None),
        ("multi-user.target", None),
    ];
    for (unit, (name, enabled)) in units.iter().zip(expected) {
        assert_eq!((unit["name"].as_str().unwrap(), unit.get("enabled")), (name, enabled));
        if !name.starts_with("etcd-lun") {
            let file = "50-etcd-lun.conf";
            let text = fs::read_to_string(dir.0.join(format!("{name}.d/{file}"))).unwrap();
            let drop_in =
                serde_json::json!({ "name": name, "dropins": [{ "name": file, "contents": text }] });
            assert_eq!(*unit, drop_in);
            continue;
        }
        // `render units` is for a program that a person has put in place.
        let by_hand = fs::read_to_string(dir.0.join(name)).ok();
        let text = match by_hand {
            Some(text) => text,
            None => fs::read_to_string(format!("{EXAMPLES}/{name}")).unwrap(),
        };
        assert_eq!(unit["contents"], text);
    }
    assert_eq!(units.len(), expected.len());
}

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../units/example");

/// What the nodes read. sha256sum(1) computes the checksum, not our own code.
fn order() -> String {
    let sum = tool("sha256sum", &["-"], &program()).unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap();
    format!(
        "# The program of etcd-lun for each architecture, by its sha256. etcd-lun-program.service reads this file.\n\
         image={IMAGE}\n{}={}\n",
        std::env::consts::ARCH,
        sum.split_whitespace().next().unwrap()
    )
}

/// For nodes with the package: nothing in the object brings a program or the catalog, and its units are for the package's
/// paths.
#[test]
fn without_the_program() {
    let dir = Dir::new("without-program");
    let (whole, object) =
        (dir.object("machineconfig", &[]), dir.object("machineconfig", &["--without-program"]));
    let is_packages = |file: &&Value| {
        let path = file["path"].as_str().unwrap();
        path.starts_with("/usr/local/") || path == "/etc/etcd-lun/program"
    };
    let rest: Vec<_> = files(&whole).iter().filter(|file| !is_packages(file)).collect();
    assert_eq!(files(&object).iter().collect::<Vec<_>>(), rest);
    assert_eq!(rest.len() + 3, files(&whole).len());
    let units = |object: &Value| object["spec"]["config"]["systemd"]["units"].as_array().unwrap().clone();
    let is_program = |unit: &Value| unit["name"].as_str().unwrap().starts_with("etcd-lun-program");
    let delivered: Vec<_> = units(&whole).into_iter().filter(|unit| !is_program(unit)).collect();
    assert_eq!((delivered.len(), units(&whole).len()), (units(&object).len(), delivered.len() + 2));
    for (unit, delivered) in units(&object).iter().zip(delivered) {
        assert_eq!(unit.get("dropins"), delivered.get("dropins"));
        let text =
            delivered["contents"].as_str().unwrap_or("").replace("/var/lib/etcd-lun/bin/", "/usr/bin/");
        assert_eq!(unit["contents"].as_str().unwrap_or(""), text.replace("/usr/local/lib/", "/usr/lib/"));
        assert_eq!((&unit["name"], unit.get("enabled")), (&delivered["name"], delivered.get("enabled")));
    }
    let butane = dir.object("butane", &["--without-program"]);
    assert_eq!(butane["systemd"], object["spec"]["config"]["systemd"]);
    assert_eq!(butane["storage"]["files"].as_array().unwrap().len(), rest.len());
}

/// The complete text, except long files and the units' lines. The tests above check them.
#[test]
fn the_same_text_every_time() {
    let dir = Dir::new("golden");
    let (code, out, err) = dir.render("machineconfig", &["--role", "etcd"]);
    assert_eq!((code, dir.render("machineconfig", &["--role", "etcd"])), (0, (0, out.clone(), err)));
    let (mut short, mut of_unit) = (String::new(), false);
    for line in out.lines() {
        of_unit =
            line.ends_with("contents: |") || of_unit && (line.is_empty() || line.starts_with("          "));
        let words = [("data:;base64,IyBUaGUgcHJvZ3JhbSBv", "ORDER"), ("data:;base64,", "LONG")];
        let short_of = |(begins, word)| Some(format!("{}{word}\"", line.split_once(begins)?.0));
        let is_long = |word: &str| word == "ORDER" || line.len() > 1000;
        let words = words.into_iter().filter(|(_, word)| is_long(word));
        let line = &words.into_iter().find_map(short_of).unwrap_or_else(|| line.to_owned());
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
    for more in [&["--role", "etcd", "--name", "my-own.name"][..], &[NO_SECRETS]] {
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
fn secrets_are_left_out_unless_they_are_asked_for() {
    let dir = Dir::new("without");
    let object = dir.object("machineconfig", &[NO_SECRETS]);
    let paths: Vec<_> = files(&object).iter().map(|file| &file["path"]).collect();
    assert_eq!(
        paths,
        [
            "/etc/etcd-lun/config.toml",
            "/etc/etcd-lun/program",
            "/etc/udev/rules.d/90-etcd-lun.rules",
            "/usr/local/lib/etcd-lun/program.sh",
            "/usr/local/lib/systemd/catalog/etcd-lun.catalog"
        ]
    );
    let (_, _, err) = dir.render("machineconfig", &[NO_SECRETS]);
    assert!(err.contains("note: /etc/etcd-lun/chap.secret"), "{err}");
    let inline =
        CONFIG.replace("password_file = \"/etc/etcd-lun/chap.secret\"", "password = \"hunter2hunter2\"");
    let inline = dir.write("inline.toml", inline);
    let (code, out, err) = dir.render("machineconfig", &[NO_SECRETS, "--config", &inline]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("set `credential` or `password_file` instead"), "{err}");
    let object = dir.object("machineconfig", &["--config", &inline]);
    assert_eq!(files(&object).len(), 5);
}

/// Argo CD reads its options from an annotation. Without the option there is none.
#[test]
fn for_argo_cd() {
    let dir = Dir::new("argo-cd");
    let config = dir.write("config.toml", CONFIG);
    let rendered = |more: &[&str]| {
        let (code, out, err) = dir.render("machineconfig", &[&["--config", &config][..], more].concat());
        assert_eq!(code, 0, "{err}");
        serde_norway::from_str::<Value>(&out).unwrap()["metadata"].clone()
    };
    let with = rendered(&["--argo-cd"]);
    assert_eq!(
        with["annotations"],
        serde_json::json!({ "argocd.argoproj.io/sync-options": "ServerSideApply=true,Prune=false" })
    );
    let without = rendered(&[]);
    assert!(without.get("annotations").is_none(), "{without}");
    assert_eq!((&with["name"], &with["labels"]), (&without["name"], &without["labels"]));
    let (code, _, err) = dir.render("butane", &["--config", &config, "--argo-cd"]);
    assert!(code == 2 && err.contains("a Butane config has no annotations"), "{err}");
}

/// The guide's examples of a storage network are what their readers take.
#[test]
fn the_guides_storage_network_is_valid() {
    let page = include_str!("../../../docs/guide.md");
    let mut blocks = page.split("### The storage network").nth(1).unwrap().split("```yaml\n").skip(1);
    let mut parsed =
        || -> Value { serde_norway::from_str(blocks.next().unwrap().split("```").next().unwrap()).unwrap() };
    let config = parsed()["spec"]["config"].to_string().replace("KEYFILE", "W2Nvbm5lY3Rpb25dCg==");
    assert!(config.contains("\"mode\":384"), "{config}");
    let state = &parsed()["spec"]["desiredState"];
    assert_eq!(state["interfaces"][1]["vlan"]["base-iface"], state["interfaces"][0]["name"]);
    let Some(output) = tool("ignition-validate", &["-"], config.as_bytes()) else { return };
    assert!(output.status.success(), "{output:?}");
}
