//! Wrong inputs of `render`, and the messages about them.

use crate::{CONFIG, Dir, IMAGE, SECRET, tested_program};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

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
    // `twice.toml` uses this file as its secret.
    dir.write("config.toml", SECRET);
    let dynamic = std::env::current_exe().unwrap();
    let cases: [(&[&str], &str); 13] = [
        (&["--program", &text], "is not a program (not an ELF executable): name a build of packaging/build"),
        (&["--program", &dir.path("")], "Is a directory"),
        (&["--program", "/nonexistent/etcd-lun"], "--program: /nonexistent/etcd-lun: No such file"),
        (&["--program", dynamic.to_str().unwrap()], "is linked dynamically"),
        (&["--config", "/nonexistent/pool.toml"], "there is no config /nonexistent/pool.toml: name the file"),
        (&["--config", &none], "`node` in the config: there is none, expected one table for each node"),
        (&["--config", &same], "iqn.1994-05.com.redhat:master0 in two entries"),
        (&["--config", &twice], "two files of the delivery have the path /etc/etcd-lun/config.toml"),
        (&["--config", &missing], "name its directory with --secrets-from"),
        (&["--config", &credential], "`target.chap`: the CHAP secret of the target equals the initiator's"),
        (&["--name", "98-Master"], "`98-Master` is not an object's name"),
        (&["--role", "master/worker"], "`master/worker` is not the role"),
        (&["--role", ""], "`` is not the role"),
    ];
    for verb in ["machineconfig", "butane"] {
        for (more, said) in cases {
            let (code, out, err) = dir.render(verb, more);
            assert_eq!((code, out.as_str()), (2, ""), "{more:?}: {err}");
            assert!(err.contains(said), "{more:?}: {err}");
        }
    }
    // Another program than that of this build is static.
    if !cfg!(target_feature = "crt-static")
        && tested_program() == Path::new(env!("CARGO_BIN_EXE_native-program"))
    {
        let config = dir.path("pool.toml");
        let (code, out, err) = dir.run(&["machineconfig", "--config", &config, "--image", IMAGE]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("name a static build with --program"), "{err}");
    }
}

#[test]
fn a_full_disk_is_an_error_and_a_reader_that_left_is_none() {
    let dir = Dir::new("full");
    let render = |to: Stdio| {
        let args =
            ["--config", "pool.toml", "--secrets-from", ".", "--program", "etcd-lun", "--image", IMAGE];
        let mut command = Command::new(tested_program());
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
