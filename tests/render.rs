//! `render machineconfig` and `render butane`, as a person meets them, and what other programs say of the result.
//! Needs no root and changes nothing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use serde_json::Value;
use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

const CONFIG: &str = r#"[target]
iqn = "iqn.2024-02.com.example:etcd"
portals = ["192.168.10.5:3260"]
[target.chap]
username = "initiator1"
password_file = "/etc/etcd-lun/chap.secret"
[target.discovery_chap]
username = "finder"
password_file = "/etc/etcd-lun/chap.secret"
[etcd]
runtime = "static-pod"
[[node]]
hostname = "master-0"
initiator = "iqn.1994-05.com.redhat:master0"
lun = 1
[[node]]
hostname = "master-1"
initiator = "iqn.1994-05.com.redhat:master1"
lun = 1
"#;

const SECRET: &str = "hunter2 hunter2\n";

/// A directory with a config, a secret and a program, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("etcd-lun-render-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let dir = Self(path);
        dir.write("pool.toml", CONFIG);
        dir.write("chap.secret", SECRET);
        dir.write("etcd-lun", program());
        dir
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }

    /// `render` with the directory's own config, secrets and program unless others are given.
    fn render(&self, verb: &str, more: &[&str]) -> (i32, String, String) {
        let mut args = vec!["render".to_owned(), verb.to_owned()];
        for (option, value) in [("--config", "pool.toml"), ("--binary", "etcd-lun"), ("--secrets-from", "")] {
            let other = option == "--secrets-from" && more.contains(&"--without-secrets");
            if !more.contains(&option) && !other {
                args.extend([option.to_owned(), self.path(value)]);
            }
        }
        args.extend(more.iter().map(|&arg| arg.to_owned()));
        let Output { status, stdout, stderr } =
            Command::new(env!("CARGO_BIN_EXE_etcd-lun")).args(args).output().unwrap();
        let err = String::from_utf8(stderr).unwrap();
        assert!(!err.contains("hunter2"), "{err}");
        (status.code().unwrap(), String::from_utf8(stdout).unwrap(), err)
    }

    fn object(&self, verb: &str, more: &[&str]) -> Value {
        let (code, out, err) = self.render(verb, more);
        assert_eq!(code, 0, "{err}");
        serde_norway::from_str(&out).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The smallest static program for this machine: an ELF header and one segment to load.
fn program() -> Vec<u8> {
    let own = fs::read("/proc/self/exe").unwrap();
    let mut file = vec![0; 4096];
    file[..20].copy_from_slice(&own[..20]);
    file[32..40].copy_from_slice(&64u64.to_ne_bytes());
    for (at, value) in [(54, 56u16), (56, 1)] {
        file[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
    file[64..68].copy_from_slice(&1u32.to_ne_bytes());
    file
}

/// Runs a tool on some bytes; nothing where there is no such tool.
fn tool(program: &str, args: &[&str], input: &[u8]) -> Option<Output> {
    let mut command = Command::new(program);
    let spawned =
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else {
        eprintln!("{program} is not installed: what it says was not looked at");
        return None;
    };
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    Some(output)
}

/// A file's bytes, unpacked by programs that are none of ours.
fn content(file: &Value) -> Vec<u8> {
    let encoded = file["contents"]["source"].as_str().unwrap().strip_prefix("data:;base64,").unwrap();
    let bytes = tool("base64", &["--decode"], encoded.as_bytes()).unwrap().stdout;
    match file["contents"].get("compression") {
        None => bytes,
        Some(kind) => {
            assert_eq!(kind, "gzip");
            tool("gzip", &["--decompress"], &bytes).unwrap().stdout
        }
    }
}

fn files(object: &Value) -> &Vec<Value> {
    object["spec"]["config"]["storage"]["files"].as_array().unwrap()
}

#[test]
fn every_file_arrives_byte_for_byte() {
    let dir = Dir::new("files");
    let object = dir.object("machineconfig", &[]);
    let found: Vec<_> = files(&object)
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["mode"].as_u64().unwrap(), content(file)))
        .collect();
    let expected = [
        ("/etc/etcd-lun/chap.secret", 0o600, SECRET.as_bytes().to_vec()),
        ("/etc/etcd-lun/config.toml", 0o600, CONFIG.as_bytes().to_vec()),
        ("/usr/local/bin/etcd-lun", 0o755, program()),
    ];
    assert_eq!(found, expected);
    let units = object["spec"]["config"]["systemd"]["units"].as_array().unwrap();
    let (code, _, err) = {
        let into = dir.path("");
        let args = ["render", "units", "--into", &into, "--config", &dir.path("pool.toml")];
        let Output { status, stdout, stderr } =
            Command::new(env!("CARGO_BIN_EXE_etcd-lun")).args(args).output().unwrap();
        (status.code().unwrap(), stdout, String::from_utf8(stderr).unwrap())
    };
    assert_eq!(code, 0, "{err}");
    for (unit, (name, enabled)) in
        units.iter().zip([("etcd-lun.service", Some(&Value::Bool(true))), ("var-lib-etcd.mount", None)])
    {
        assert_eq!((unit["name"].as_str().unwrap(), unit.get("enabled")), (name, enabled));
        assert_eq!(unit["contents"], fs::read_to_string(dir.0.join(name)).unwrap());
    }
    assert_eq!(units.len(), 2);
}

/// The whole text but what is long: the program and the units' lines, which are looked at above.
#[test]
fn the_same_text_every_time() {
    let dir = Dir::new("golden");
    let (code, out, err) = dir.render("machineconfig", &["--role", "etcd"]);
    assert_eq!((code, dir.render("machineconfig", &["--role", "etcd"])), (0, (0, out.clone(), err)));
    let (mut short, mut of_unit) = (String::new(), false);
    for line in out.lines() {
        of_unit =
            line.ends_with("contents: |") || of_unit && (line.is_empty() || line.starts_with("            "));
        let line = match line.split_once("data:;base64,H4sI") {
            Some((before, _)) => &format!("{before}PROGRAM\""),
            None => line,
        };
        if !of_unit || line.ends_with("contents: |") {
            short = short + line + "\n";
        }
    }
    let golden = include_str!("machineconfig.yaml");
    assert!(short == golden, "{short}");
}

/// What the operator can't reconcile isn't there, and Ignition takes what is.
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
    assert_eq!(lines[0], "98-master-etcd-lun, for the pool of role master:");
    let bytes = |line: &str| line.split_whitespace().next().unwrap().parse::<usize>().unwrap();
    assert_eq!(bytes(lines[1]), out.len());
    assert_eq!(lines[2..].iter().map(|line| bytes(line)).sum::<usize>(), out.len());
    // Noise, which can't be packed.
    let mut state = 1u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    let mut large = program();
    large.extend(noise.take(800_000));
    let (code, out, err) = dir.render("machineconfig", &["--binary", &dir.write("large", &large)]);
    assert_eq!((code, out.is_empty()), (0, false), "{err}");
    assert!(err.contains("assisted installer") && !err.contains("80 %"), "{err}");
    large.extend_from_within(4096..404_096);
    let (code, out, err) = dir.render("machineconfig", &["--binary", &dir.write("large", &large)]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("\nerror: MachineConfig 98-master-etcd-lun would have 1"), "{err}");
    assert!(err.contains("may have 1572864: give a smaller build"), "{err}");
}

#[test]
fn secrets_can_be_left_out() {
    let dir = Dir::new("without");
    let object = dir.object("machineconfig", &["--without-secrets"]);
    let paths: Vec<_> = files(&object).iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["/etc/etcd-lun/config.toml", "/usr/local/bin/etcd-lun"]);
    let (_, _, err) = dir.render("machineconfig", &["--without-secrets"]);
    assert!(err.contains("note: without /etc/etcd-lun/chap.secret"), "{err}");
    let inline =
        CONFIG.replace("password_file = \"/etc/etcd-lun/chap.secret\"", "password = \"hunter2hunter2\"");
    let inline = dir.write("inline.toml", inline);
    let (code, out, err) = dir.render("machineconfig", &["--without-secrets", "--config", &inline]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("move the secret to a file"), "{err}");
    let object = dir.object("machineconfig", &["--config", &inline]);
    assert_eq!(files(&object).len(), 2);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_printed() {
    let dir = Dir::new("wrong");
    let variant = |name: &str, from: &str, to: &str| {
        assert!(CONFIG.contains(from));
        dir.write(name, CONFIG.replacen(from, to, 1))
    };
    let same = variant("same.toml", "redhat:master1", "redhat:master0");
    let none = dir.write("none.toml", &CONFIG[..CONFIG.find("[[node]]").unwrap()]);
    let twice = variant("twice.toml", "chap.secret", "config.toml");
    let missing = variant("missing.toml", "chap.secret", "other.secret");
    let credential = variant(
        "mutual.toml",
        "username = \"initiator1\"",
        "username = \"initiator1\"\nusername_in = \"target\"\npassword_in_file = \"/x/chap.secret\"",
    );
    let text = dir.write("text", "#!/bin/sh\n");
    // What `twice.toml` takes for its secret.
    dir.write("config.toml", SECRET);
    let dynamic = std::env::current_exe().unwrap();
    let cases: [(&[&str], &str); 14] = [
        (&["--binary", &text], "is no program (no ELF executable): name a build of packaging/build"),
        (&["--binary", &dir.path("")], "Is a directory"),
        (&["--binary", "/nonexistent/etcd-lun"], "--binary: /nonexistent/etcd-lun: No such file"),
        (&["--binary", dynamic.to_str().unwrap()], "is linked dynamically"),
        (&["--config", "/nonexistent/pool.toml"], "/nonexistent/pool.toml: No such file"),
        (&["--config", &none], "`node.hostname` is missing"),
        (&["--config", &same], "iqn.1994-05.com.redhat:master0 in two entries"),
        (&["--config", &twice], "/etc/etcd-lun/config.toml is to be"),
        (&["--config", &missing], "--secrets-from, or leave it out with --without-secrets"),
        (&["--config", &credential], "`target.chap`: the CHAP secret of the target equals the initiator's"),
        (&["--name", "98-Master"], "`98-Master` is not an object's name"),
        (&["--role", "master/worker"], "`master/worker` is not the role"),
        (&["--role", ""], "`` is not the role"),
        (&["--secrets-from", "/x", "--without-secrets"], "cannot be used with"),
    ];
    for verb in ["machineconfig", "butane"] {
        for (more, said) in cases {
            let (code, out, err) = dir.render(verb, more);
            assert_eq!((code, out.as_str()), (2, ""), "{more:?}: {err}");
            assert!(err.contains(said), "{more:?}: {err}");
        }
    }
    let own = Command::new(env!("CARGO_BIN_EXE_etcd-lun"))
        .args(["render", "machineconfig", "--config", &dir.path("pool.toml"), "--without-secrets"])
        .output()
        .unwrap();
    if !cfg!(target_feature = "crt-static") {
        let err = String::from_utf8(own.stderr).unwrap();
        assert_eq!(own.status.code(), Some(2), "{err}");
        assert!(err.contains("name a static build with --binary"), "{err}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_a_reader_that_left_is_none() {
    let dir = Dir::new("full");
    let render = |to: Stdio| {
        let args = ["--config", "pool.toml", "--secrets-from", ".", "--binary", "etcd-lun"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_etcd-lun"));
        command
            .args(["render", "machineconfig"])
            .args(args)
            .current_dir(&dir.0)
            .stdout(to)
            .stderr(Stdio::null());
        command.status().unwrap().code()
    };
    assert_eq!(render(fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into()), Some(1));
    let mut left = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = left.stdin.take().unwrap();
    left.wait().unwrap();
    assert_eq!(render(pipe.into()), Some(0));
}

/// The MachineConfig and the Butane config say the same.
#[test]
fn butane_says_the_same() {
    let dir = Dir::new("butane");
    let (object, butane) = (dir.object("machineconfig", &[]), dir.object("butane", &[]));
    assert_eq!((&butane["variant"], &butane["version"]), (&"openshift".into(), &"4.12.0".into()));
    assert_eq!(butane["metadata"], object["metadata"]);
    assert_eq!(butane["systemd"], object["spec"]["config"]["systemd"]);
    let theirs = butane["storage"]["files"].as_array().unwrap();
    assert_eq!(theirs.len(), files(&object).len());
    for (theirs, ours) in theirs.iter().zip(files(&object)) {
        let contents = &theirs["contents"];
        let bytes = match contents.get("local") {
            Some(local) => fs::read(dir.0.join(local.as_str().unwrap())).unwrap(),
            None => contents["inline"].as_str().unwrap().as_bytes().to_vec(),
        };
        assert_eq!((&theirs["path"], bytes), (&ours["path"], content(ours)));
        assert_eq!(theirs["overwrite"], true);
    }
    let (_, text, err) = dir.render("butane", &[]);
    assert!(err.contains(&format!("--files-dir {}", dir.0.display())), "{err}");
    // YAML 1.1's octal, as Butane's own examples have it; the reader above takes YAML 1.2's.
    assert_eq!(
        (text.matches("\n      mode: 0600\n").count(), text.matches("\n      mode: 0755\n").count()),
        (2, 1)
    );
    // Debian has no Butane; where somebody has it, it makes the same object but for how it packs.
    let Some(output) = tool("butane", &["--strict", "--files-dir", &dir.path("")], text.as_bytes()) else {
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made: Value = serde_norway::from_slice(&output.stdout).unwrap();
    for part in ["/apiVersion", "/kind", "/metadata", "/spec/config/ignition", "/spec/config/systemd"] {
        let sorted = |value: &Value| {
            let mut value = value.pointer(part).unwrap().clone();
            value
                .get_mut("units")
                .and_then(Value::as_array_mut)
                .into_iter()
                .for_each(|units| units.sort_by_key(|unit| unit["name"].to_string()));
            value
        };
        assert_eq!(sorted(&made), sorted(&object), "{part}");
    }
    for (made, ours) in files(&made).iter().zip(files(&object)) {
        assert_eq!(
            (&made["path"], &made["mode"], &made["overwrite"]),
            (&ours["path"], &ours["mode"], &ours["overwrite"])
        );
        assert_eq!(made["contents"].get("compression"), ours["contents"].get("compression"));
    }
}
