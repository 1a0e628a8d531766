//! The udev rule that labels the LUN's device node.

use super::DEVICE_LABEL;
use crate::{config::Nodes, terms::Wwid};
use std::collections::BTreeSet;

/// The path of the rule on a node. It sorts after the rules that find the names of multipath maps (11) and of disks (60).
pub const RULE: &str = "/etc/udev/rules.d/90-etcd-lun.rules";

const HEAD: &str =
    "# Labels the LUN of etcd for SELinux, so that etcd-lun can write to it and to no other disk.
# Rendered by `etcd-lun render udev`, and the same for every node: change the config, not this file.
";

const PATHS: &str = "
# A path to a LUN of the target (udev's path_id: ip-PORTAL-iscsi-TARGET-lun-N).
";

const DISKS: &str = "
# The disk of the config, by the link that udev's own rules make (60-persistent-storage.rules).
";

const MAPS: &str = "
# The multipath map of such paths (multipath-tools: mpath-WWID). udev doesn't know which target a map leads to, so this
# rule has only the WWIDs of the config. udev labels a device at its first event, when DM_UUID is not set yet.
";

/// Renders the rule, the same bytes for the same pool.
///
/// SELinux distinguishes the LUN from the system's disk only by the label of the device node. With this rule a process in the
/// domain can open the LUN's device, and no other.
pub fn rule(nodes: &Nodes<'_>) -> String {
    let rule = |matched: &str| {
        format!(
            "ACTION!=\"remove\", SUBSYSTEM==\"block\", {matched}, SECLABEL{{selinux}}=\"{DEVICE_LABEL}\"\n"
        )
    };
    let mut text = HEAD.to_owned();
    let wwids: Vec<_> = match nodes {
        Nodes::Iscsi { target, nodes } => {
            text += PATHS;
            text += &rule(&format!("ENV{{ID_PATH}}==\"ip-*-iscsi-{}-lun-*\"", target.iqn));
            nodes.iter().filter_map(|node| node.entry.wwid.as_ref()).collect()
        }
        Nodes::Device(nodes) => {
            text += DISKS;
            // No character of a link is special in a match: see `DiskLink`.
            let links: BTreeSet<_> = nodes.iter().map(|node| node.path.in_udev()).collect();
            for link in links {
                text += &rule(&format!("SYMLINK==\"{link}\""));
            }
            nodes.iter().filter_map(|node| node.wwid.as_ref()).collect()
        }
    };
    let maps: BTreeSet<_> = wwids.into_iter().filter_map(Wwid::multipath).collect();
    if !maps.is_empty() {
        text += MAPS;
    }
    for wwid in maps {
        text += &rule(&format!("ATTR{{dm/uuid}}==\"mpath-{wwid}\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Pool, Source};

    const TARGET: &str = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"10.0.0.1\"]\n[etcd]\nruntime = \"static-pod\"\n\
        [[node]]\nhostname = \"a\"\ninitiator = \"iqn.2024-02.x:a\"\nlun = 1\nwwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\n\
        [[node]]\nhostname = \"b\"\ninitiator = \"iqn.2024-02.x:b\"\nlun = 2\n";
    const DEVICE: &str =
        "[device]\npath = \"/dev/disk/by-path/pci-0000:00:1f.0-nvme-1\"\n[etcd]\nruntime = \"static-pod\"\n";

    fn rendered(text: &str) -> String {
        let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
        rule(&pool.nodes().unwrap())
    }

    fn matches(text: &str) -> Vec<String> {
        let rules = text.lines().filter(|line| line.starts_with("ACTION"));
        let matched = rules.map(|line| {
            let line = line.strip_prefix("ACTION!=\"remove\", SUBSYSTEM==\"block\", ").unwrap();
            line.strip_suffix(", SECLABEL{selinux}=\"system_u:object_r:etcd_lun_device_t:s0\"")
                .unwrap()
                .to_owned()
        });
        matched.collect()
    }

    #[test]
    fn of_a_target() {
        let text = rendered(TARGET);
        assert_eq!(
            matches(&text),
            [
                "ENV{ID_PATH}==\"ip-*-iscsi-iqn.2024-02.com.example:etcd-lun-*\"",
                "ATTR{dm/uuid}==\"mpath-360014051d8e4a3bd5a94f3f9a1a2b3c4\"",
            ]
        );
        let without = rendered(&TARGET.replace("wwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\n", ""));
        assert_eq!(matches(&without).len(), 1);
        assert!(!without.contains("map"), "{without}");
    }

    #[test]
    fn of_devices() {
        let shared = "SYMLINK==\"disk/by-path/pci-0000:00:1f.0-nvme-1\"";
        assert_eq!(matches(&rendered(DEVICE)), [shared]);
        let own = format!(
            "{DEVICE}[[node]]\nhostname = \"a\"\npath = \"/dev/disk/by-id/virtio-etcd0\"\n[[node]]\nhostname = \"b\"\n\
             [[node]]\nhostname = \"c\"\nwwid = \"360014051d8e4a3bd5a94f3f9a1a2b3c4\"\n"
        );
        assert_eq!(
            matches(&rendered(&own)),
            [
                "SYMLINK==\"disk/by-id/virtio-etcd0\"",
                shared,
                "ATTR{dm/uuid}==\"mpath-360014051d8e4a3bd5a94f3f9a1a2b3c4\"",
            ]
        );
    }

    /// Asks udevadm, where it has the verb (systemd 254 and later).
    #[test]
    #[allow(clippy::disallowed_methods)] // the oracle of a test
    fn udev_accepts_it() {
        let path = std::env::temp_dir().join(format!("etcd-lun-{}.rules", std::process::id()));
        for text in [rendered(TARGET), rendered(DEVICE)] {
            std::fs::write(&path, text).unwrap();
            let Ok(output) = std::process::Command::new("udevadm").arg("verify").arg(&path).output() else {
                break;
            };
            let said = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            if said.contains("Unknown command verb") {
                break;
            }
            assert!(output.status.success(), "{said}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
