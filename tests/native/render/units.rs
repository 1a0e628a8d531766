//! `render units`, and what systemd reports about the units.

use crate::{CONFIG, Dir, tool};
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

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
                assert_eq!(code, 0, "{err}");
                let wrote: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("wrote ")).collect();
                let (drop_ins, paths): (Vec<_>, Vec<_>) =
                    wrote.into_iter().partition(|path| path.ends_with("/50-etcd-lun.conf"));
                assert_eq!(
                    (paths.len(), drop_ins.len()),
                    (11, if runtime == "systemd" { 5 } else { 4 }),
                    "{out}"
                );
                for path in &paths {
                    // systemd checks that the program exists. On this machine it has another path.
                    let text = fs::read_to_string(path).unwrap();
                    fs::write(
                        path,
                        text.replace("/var/lib/etcd-lun/bin/etcd-lun", env!("CARGO_BIN_EXE_native-program")),
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

/// Writes the units of this gate into the directory.
fn with_gate(dir: &Dir, gate: &str) {
    let config = dir.write("gate.toml", format!("{CONFIG}[boot]\ngate = \"{gate}\"\n"));
    let (code, _, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &config]);
    assert_eq!(code, 0, "{err}");
}

/// The gate is what the files say after each change of the config, whatever an earlier release has left.
#[test]
fn the_gate_follows_the_config() {
    let dir = Dir::new("gate");
    let has = |path: &str| fs::symlink_metadata(dir.path(path)).is_ok();
    let units = ["crio.service", "kubelet-dependencies.target", "kubelet.service"];
    let links = ["kubelet.service.requires/etcd-lun.service", "multi-user.target.wants/etcd-lun.service"];
    for (gate, links) in [("etcd", &links[..]), ("kubelet", &[]), ("etcd", &[]), ("kubelet", &links)] {
        for link in links {
            fs::create_dir_all(Path::new(&dir.path(link)).parent().unwrap()).unwrap();
            symlink("../etcd-lun.service", dir.path(link)).unwrap();
        }
        with_gate(&dir, gate);
        for unit in units {
            let text = fs::read_to_string(dir.path(&format!("{unit}.d/50-etcd-lun.conf"))).unwrap();
            assert!(text.contains("\nAfter=var-lib-etcd.mount\n"), "{text}");
            assert_eq!(text.contains("\nRequires=etcd-lun.service\n"), gate == "kubelet", "{unit}");
        }
        assert!(has("multi-user.target.d/50-etcd-lun.conf"));
        assert!(!links.iter().any(|link| has(link)), "{gate}");
    }
}

/// Names and order of units of OpenShift's nodes, restated (openshift/machine-config-operator `templates/common/_base/units`). The
/// kubelet, CRI-O and their target are those of the test bed.
const OPENSHIFT: [(&str, &str); 10] = [
    ("NetworkManager-wait-online.service", "Before=network-online.target"),
    ("openvswitch.service", "Before=network.target"),
    (
        "nodeip-configuration.service",
        "Wants=NetworkManager-wait-online.service\nAfter=NetworkManager-wait-online.service\n\
         Before=kubelet-dependencies.target ovs-configuration.service",
    ),
    (
        "ovs-configuration.service",
        "Requires=openvswitch.service\nAfter=NetworkManager-wait-online.service openvswitch.service nodeip-configuration.service\n\
         Before=kubelet-dependencies.target node-valid-hostname.service",
    ),
    ("node-valid-hostname.service", "Before=network-online.target"),
    ("crio-wipe.service", "Before=crio.service kubelet-dependencies.target"),
    ("machine-config-daemon-pull.service", "Wants=network-online.target\nAfter=network-online.target"),
    (
        "machine-config-daemon-firstboot.service",
        "After=machine-config-daemon-pull.service\nBefore=crio.service crio-wipe.service kubelet.service",
    ),
    ("kubens.service", "Before=kubelet.service crio.service"),
    ("iscsid.service", "After=network-online.target\nBefore=remote-fs-pre.target"),
];

/// With either gate a boot of such a node has an order without a cycle. systemd breaks a cycle by leaving a unit out.
#[test]
fn the_order_of_a_boot_has_no_cycle() {
    for gate in ["etcd", "kubelet"] {
        let dir = Dir::new(&format!("order-{gate}"));
        with_gate(&dir, gate);
        for name in ["kubelet.service", "crio.service", "kubelet-dependencies.target"] {
            let text =
                fs::read_to_string(format!("{}/../nodes/guest/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
            dir.write(name, text);
        }
        let wants: Vec<_> = OPENSHIFT.iter().map(|(name, _)| *name).collect();
        for (name, order) in OPENSHIFT {
            dir.write(name, format!("[Unit]\n{order}\n[Service]\nType=oneshot\nExecStart=/bin/true\n"));
        }
        let all = format!("[Unit]\nWants=kubelet.service {}\n", wants.join(" "));
        dir.write("multi-user.target.d/90-openshift.conf", all);
        let boot = dir.write("multi-user.target", "[Unit]\nRequires=basic.target\nAfter=basic.target\n");
        let cycle = |what: &str| {
            let output = Command::new("systemd-analyze")
                .args(["verify", "--man=no", &boot])
                .env("SYSTEMD_UNIT_PATH", format!("{}:/usr/lib/systemd/system", dir.path("")))
                .output();
            let Ok(output) = output else {
                println!("not checked: systemd-analyze is not installed");
                return what.to_owned();
            };
            let said = String::from_utf8_lossy(&output.stderr);
            said.lines().filter(|line| line.contains("cycle")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(cycle(""), "", "{gate}");
        // What this test is for is found.
        fs::create_dir(dir.path("etcd-lun.service.d")).unwrap();
        dir.write("etcd-lun.service.d/wrong.conf", "[Unit]\nAfter=crio.service\n");
        assert!(cycle("cycle").contains("cycle"), "{gate}");
    }
}

/// Another's unit of this name has etcd on another disk. What would move the stale data beneath is not written beside it.
#[test]
fn nothing_is_written_where_another_disk_has_a_claim() {
    let dir = Dir::new("claimed");
    for (into, name) in
        [("etc/systemd/system", "var-lib-etcd.mount"), ("usr/lib/systemd/system", "etc/fstab")]
    {
        let (config, into) = (dir.write("config.toml", CONFIG), dir.path(into));
        fs::create_dir_all(&into).unwrap();
        let claim = if name.contains('/') { dir.path(name) } else { format!("{into}/{name}") };
        fs::write(&claim, "/dev/sdc /var/lib/etcd xfs defaults 0 0\n").unwrap();
        let (code, _, err) = dir.run(&["units", "--into", &format!("{into}/"), "--config", &config]);
        assert_eq!(code, 3, "{err}");
        assert!(err.starts_with("refused [claimed]") && err.contains(&claim), "{err}");
        assert!(!Path::new(&format!("{into}/etcd-lun.service")).exists());
        fs::remove_file(claim).unwrap();
    }
}

/// By systemd's own figure, in tenths (systemd-analyze(1), `security`). Later releases may count otherwise.
#[test]
fn no_unit_may_more_than_it_has_to() {
    let dir = Dir::new("security");
    let all = crate::multipath::config().replace("[target]\n", "[target]\nsafe_logout = true\n");
    let object = dir.object("machineconfig", &["--config", &dir.write("all.toml", all)]);
    for unit in object["spec"]["config"]["systemd"]["units"].as_array().unwrap() {
        let (name, text) = (unit["name"].as_str().unwrap(), unit["contents"].as_str());
        let most = match name {
            // On purpose: the one changes the policy, the other runs podman.
            "etcd-lun-selinux.service" | "etcd-lun-program-fetch.service" => continue,
            "etcd-lun.service" | "etcd-lun-lost.service" => 30,
            "etcd-lun-hands@.service" => 35,
            _ if name.ends_with(".service") && text.is_some() => 40,
            _ => continue,
        };
        let args =
            ["security", "--offline=yes", &format!("--threshold={most}"), &dir.write(name, text.unwrap())];
        let Some(output) = tool("systemd-analyze", &args, b"") else { return };
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}
