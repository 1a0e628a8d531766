//! `render units`, and what systemd reports about the units.

use crate::{CONFIG, Dir, tool};
use std::fs;

/// Checks both gates and both runtimes, with and without credentials.
#[test]
fn systemd_takes_them() {
    let dir = Dir::new("systemd");
    for runtime in ["static-pod", "systemd"] {
        for gate in ["etcd", "kubelet"] {
            for secret in ["password_file = \"/etc/etcd-lun/chap.secret\"", "credential = \"chap\""] {
                let text = CONFIG
                    .replace("static-pod", runtime)
                    .replace("password_file = \"/etc/etcd-lun/chap.secret\"", secret);
                let config = dir.write("variant.toml", format!("{text}[boot]\ngate = \"{gate}\"\n"));
                let (code, out, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &config]);
                assert_eq!((code, out.lines().count()), (0, 10), "{err}");
                let paths: Vec<_> = out.lines().map(|line| line.trim_start_matches("wrote ")).collect();
                for path in &paths {
                    // systemd checks that the program exists. On this machine it has another path.
                    let text = fs::read_to_string(path).unwrap();
                    fs::write(
                        path,
                        text.replace("/var/lib/etcd-lun/bin/etcd-lun", env!("CARGO_BIN_EXE_etcd-lun")),
                    )
                    .unwrap();
                }
                // man=no: the manual page of etcd-lun may not be installed here.
                let args = [&["verify", "--man=no", "--recursive-errors=no"], &paths[..]].concat();
                let Some(output) = tool("systemd-analyze", &args, b"") else { return };
                let said = String::from_utf8_lossy(&output.stderr);
                let about_ours = paths.iter().any(|path| said.contains(path.rsplit('/').next().unwrap()));
                assert!(output.status.success() && !about_ours, "{runtime}, {gate}, {secret}: {said}");
            }
        }
    }
}
