//! `render` for a config with a local disk.

use crate::{Dir, IMAGE, content, files, tool};
use std::fs;

const DEVICE: &str = r#"[device]
path = "/dev/disk/by-path/pci-0000:00:1f.0-nvme-1"
[etcd]
runtime = "static-pod"
"#;

#[test]
fn units_have_nothing_of_the_network() {
    let dir = Dir::new("device-units");
    for gate in ["etcd", "kubelet"] {
        let config = dir.write("device.toml", format!("{DEVICE}[boot]\ngate = \"{gate}\"\n"));
        let (code, out, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &config]);
        assert_eq!(code, 0, "{err}");
        let paths: Vec<_> = out.lines().map(|line| line.trim_start_matches("wrote ")).collect();
        let (drop_ins, paths): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|path| path.ends_with("/50-etcd-lun.conf"));
        assert_eq!(drop_ins.len(), 4);
        let names: Vec<_> = paths.iter().filter_map(|path| path.rsplit('/').next()).collect();
        assert_eq!(
            names,
            [
                "etcd-lun-hands.socket",
                "etcd-lun-hands@.service",
                "etcd-lun-health.service",
                "etcd-lun-health.timer",
                "etcd-lun-selinux.service",
                "etcd-lun.service",
            ]
        );
        for path in &paths {
            let text = fs::read_to_string(path).unwrap();
            let settings: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
            for word in ["network", "iscsi", "_netdev", "ovs-configuration", "br-ex", "etcd-lun-shutdown"] {
                assert!(settings.iter().all(|line| !line.contains(word)), "{word} in {path}: {text}");
            }
            fs::write(
                path,
                text.replace("/var/lib/etcd-lun/bin/etcd-lun", env!("CARGO_BIN_EXE_native-program")),
            )
            .unwrap();
        }
        let service = fs::read_to_string(dir.path("etcd-lun.service")).unwrap();
        for line in [
            "Before=kubelet-dependencies.target crio.service kubelet.service",
            "After= node-valid-hostname.service machine-config-daemon-firstboot.service multipathd.service",
            "RequiresMountsFor=/var/lib",
            "After=modprobe@xfs.service",
        ] {
            assert!(service.lines().any(|found| found == line), "{line}: {service}");
        }
        let args = [&["verify", "--man=no", "--recursive-errors=no"], &paths[..]].concat();
        let Some(output) = tool("systemd-analyze", &args, b"") else { continue };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && names.iter().all(|name| !said.contains(name)), "{said}");
    }
}

/// A pool of the role `etcd` inherits the control plane's configs. The pool selects the object by the
/// object's own label.
#[test]
fn an_object_for_a_pool_of_its_own() {
    let dir = Dir::new("device-object");
    let config = dir.write("device.toml", DEVICE);
    let (code, out, err) = dir.run(&[
        "machineconfig",
        "--config",
        &config,
        "--image",
        IMAGE,
        "--program",
        &dir.path("etcd-lun"),
        "--role",
        "etcd",
    ]);
    assert_eq!(code, 0, "{err}");
    let object: serde_json::Value = serde_norway::from_str(&out).unwrap();
    assert_eq!(object["metadata"]["labels"]["machineconfiguration.openshift.io/role"], "etcd");
    assert_eq!(object["metadata"]["name"], "98-etcd-etcd-lun");
    let paths: Vec<_> = files(&object).iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    assert!(paths.iter().all(|path| !path.contains("iscsi") && !path.contains("secret")), "{paths:?}");
    let files = files(&object);
    let rule = files.iter().find(|file| file["path"] == "/etc/udev/rules.d/90-etcd-lun.rules").unwrap();
    let rule = String::from_utf8(content(rule)).unwrap();
    assert!(rule.contains("SYMLINK==\"disk/by-path/pci-0000:00:1f.0-nvme-1\""), "{rule}");
}

#[test]
fn there_is_no_target_to_make() {
    let dir = Dir::new("device-target");
    let config = dir.write("device.toml", DEVICE);
    let (code, out, err) = dir.run(&["target", "--config", &config]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("[device] and no [target]"), "{err}");
    let kernel_name =
        dir.write("device.toml", DEVICE.replace("/dev/disk/by-path/pci-0000:00:1f.0-nvme-1", "/dev/nvme1n1"));
    let (code, _, err) = dir.run(&["udev", "--config", &kernel_name]);
    assert_eq!(code, 2);
    assert!(err.contains("device.toml, line 2") && err.contains("change from boot to boot"), "{err}");
}
