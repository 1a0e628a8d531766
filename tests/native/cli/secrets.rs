//! Secrets before they reach a node: `config check --secrets-from` judges as `render` does, and `render --output`.

use crate::{Dir, GOOD, run};
use std::{fs, os::unix::fs::PermissionsExt as _};

/// A config whose secrets are in files, and the directory that it is in.
fn pool(dir: &Dir) -> String {
    dir.config(&GOOD.replace("HOST", "master-0").replace(
        "password = \"hunter2hunter2\"",
        "password_file = \"/etc/etcd-lun/chap.secret\"\nusername_in = \"target\"\npassword_in_file = \"/etc/etcd-lun/in.secret\"",
    ))
}

/// Puts the secrets of that config beside it.
fn put_secrets(dir: &Dir, chap: &str) {
    fs::write(dir.0.join("chap.secret"), chap).unwrap();
    fs::write(dir.0.join("in.secret"), "another secret").unwrap();
}

#[test]
fn check_judges_what_render_judges() {
    let dir = Dir::new("judge");
    let config = pool(&dir);
    let here = dir.0.to_str().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.0.join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    put("in.secret", b"another secret of the target\n");
    let long = "x".repeat(300);
    for (secret, code, said) in [
        (Some(&b"hunter2hunter2"[..]), 0, ""),
        (Some(b"hunter2hunter2\n"), 0, ""),
        (Some(b"hunter2hunter2\r\n"), 0, ""),
        (Some(b""), 2, "is empty"),
        (Some(b"\n"), 2, "is empty"),
        (Some(b"hunter2hunter2\n\n"), 2, "holds a control character or a line break"),
        (Some(b"hunter2\nhunter2"), 2, "holds a control character or a line break"),
        (Some(b" hunter2hunter2"), 2, "begins or ends with white space"),
        (Some(long.as_bytes()), 2, "is longer than 255 bytes"),
        (Some(b"another secret of the target"), 2, "the CHAP secret of the target equals the initiator's"),
        (Some("\u{feff}hunter2hunter2".as_bytes()), 2, "begins with a byte order mark"),
        (Some(b"\xff\xfeh\0u\0"), 2, "it is UTF-16: save it as UTF-8"),
        (Some(b"hunter2\xe4hunter2"), 2, "it is not UTF-8"),
        (None, 2, "No such file or directory"),
    ] {
        match secret {
            Some(secret) => put("chap.secret", secret),
            None => fs::remove_file(dir.0.join("chap.secret")).unwrap(),
        }
        let check = ["config", "check", "--node", "master-0", "--secrets-from", here, "--config", &config];
        let render =
            ["render", "machineconfig", "--without-program", "--secrets-from", here, "--config", &config];
        for args in [&check[..], &render[..]] {
            let (found, out, err) = run(args);
            assert_eq!(found, code, "{args:?} {secret:?}: {err}");
            assert!(err.contains(said), "{args:?} {said}: {err}");
            assert!(!err.contains("hunter2"), "{err}");
            assert!(args[0] == "render" || !out.contains("hunter2"), "{out}");
        }
    }
}

#[test]
fn an_object_is_written_for_its_owner_only_and_says_what_changed() {
    let dir = Dir::new("output");
    let config = pool(&dir);
    let here = dir.0.to_str().unwrap();
    put_secrets(&dir, "hunter2hunter2");
    let file = dir.0.join("98.yaml");
    let name = file.to_str().unwrap();
    let arguments = |verb| ["render", verb, "--without-program", "--secrets-from", here, "--config", &config];
    let render_to = |verb, to| run(&[&arguments(verb)[..], &["--output", to]].concat());
    let render = |verb| render_to(verb, name);
    let (code, out, err) = render("machineconfig");
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with(&format!("wrote {name}: ")) && out.contains("mode 0600"), "{out}");
    let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let printed = run(&arguments("machineconfig")).1;
    assert_eq!(fs::read_to_string(&file).unwrap(), printed, "the file has what is printed without it");
    assert_eq!(render("machineconfig").1.trim(), format!("{name} is up to date"));
    fs::write(dir.0.join("chap.secret"), "hunter3hunter3").unwrap();
    let (_, out, _) = render("machineconfig");
    let said: Vec<&str> = out.lines().skip(1).collect();
    assert_eq!(said, ["  changed  /etc/etcd-lun/chap.secret"], "{out}");
    let (code, out, err) = render("butane");
    assert!(code == 0 && out.contains("changed  the object's own fields"), "{out}{err}");
    assert_eq!(mode(), 0o600);
    let missing = dir.0.join("none/98.yaml");
    let (code, _, err) = run(&["render", "udev", "--config", &config]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = render_to("machineconfig", missing.to_str().unwrap());
    assert!(code == 2 && err.contains("--output: there is no directory"), "{code}: {err}");
}
