//! The udev rule that labels the LUN's device node, and tells systemd of each path to the LUN.

use super::DEVICE_LABEL;
use config::{IscsiNode, Nodes};
use std::collections::BTreeSet;
use terms::{Iqn, LunNumber, Wwid};
use unit::{LOST_SERVICE, PATH_TARGET};

/// The path of the rule on a node. It sorts after the rules that find the names of multipath maps (11) and of disks (60).
pub const RULE: &str = "/etc/udev/rules.d/90-etcd-lun.rules";

const HEAD: &str =
    "# Labels the LUN of etcd for SELinux, so that etcd-lun can write to it and to no other disk.
# Rendered by `etcd-lun render udev`, and the same for every node: change the config, not this file.
";

/// The paths as SCSI devices. systemd starts etcd-lun-path@.target for each, and so notices when the kernel loses one. Not for the
/// disk of a path, because multipathd hides it from systemd. udev finds `ID_PATH` for block devices only, so the first rule asks for
/// it for the SCSI devices of sessions.
const SCSI: &str = "\
ACTION!=\"remove\", SUBSYSTEM==\"scsi\", ENV{DEVTYPE}==\"scsi_device\", DEVPATH==\"*/session*\", IMPORT{builtin}=\"path_id\"
";

/// The kernel announces these unit attentions of a disk (`drivers/scsi/scsi_lib.c`, `scsi_evt_emit`). An array reports the last one
/// alone after a restart (SAM-5, 5.14).
const CHANGES: &str = "INQUIRY_DATA_HAS_CHANGED|REPORTED_LUNS_DATA_HAS_CHANGED|POWER_ON_RESET_OCCURRED";

/// udev labels a map at its first event, when DM_UUID is not set yet: by a WWID of the config (multipath-tools: mpath-WWID). A map of
/// paths that all have the label gets it when etcd-lun asks, whoever made the map. A shell of its own has `stat` say the labels of
/// the map's paths. Without a path it fails.
const OF_PATHS: &str = "ATTR{dm/uuid}==\"mpath-*\", PROGRAM==\"/bin/sh -c 'cd /sys$devpath/slaves && for path in *; do \
    stat -c %%C /dev/$$path | grep -q :etcd_lun_device_t: || exit 1; done'\"";

/// Renders the rule, the same bytes for the same pool.
///
/// SELinux distinguishes the LUN from the system's disk only by the label of the device node. With this rule a process in the
/// domain can open the LUN's device, and no other.
pub fn rule(nodes: &Nodes) -> String {
    let rule = |matched: &str| {
        format!(
            "ACTION!=\"remove\", SUBSYSTEM==\"block\", {matched}, SECLABEL{{selinux}}=\"{DEVICE_LABEL}\"\n"
        )
    };
    let mut text = HEAD.to_owned();
    let wwids: Vec<_> = match nodes {
        Nodes::Iscsi(nodes) => {
            let luns: BTreeSet<_> = nodes.iter().flat_map(paths_to).collect();
            for lun in &luns {
                text += &rule(lun);
            }
            // Where a LUN has several names, the kernel's may be another one (drivers/scsi/scsi_lib.c, `designator_prio`).
            let serials: BTreeSet<_> =
                nodes.iter().filter_map(|node| node.entry.wwid.as_ref()?.multipath()).collect();
            for serial in serials {
                text += &rule(&format!("ENV{{ID_PATH}}==\"ip-*-iscsi-*\", ENV{{ID_SERIAL}}==\"{serial}\""));
            }
            text += SCSI;
            for lun in &luns {
                text += &format!(
                    "ACTION!=\"remove\", SUBSYSTEM==\"scsi\", {lun}, TAG+=\"systemd\", ENV{{SYSTEMD_WANTS}}+=\"{PATH_TARGET}\"\n"
                );
            }
            // Not by WWID: the kernel may have read that of the new volume already.
            let names: BTreeSet<_> = nodes.iter().flat_map(|node| node.target.iqn.all()).collect();
            for name in names {
                text += &format!(
                    "ACTION==\"change\", SUBSYSTEM==\"scsi\", ENV{{SDEV_UA}}==\"{CHANGES}\", ENV{{ID_PATH}}==\"ip-*-iscsi-{name}-lun-*\", \
                     TAG+=\"systemd\", ENV{{SYSTEMD_WANTS}}+=\"{LOST_SERVICE}\"\n"
                );
            }
            nodes.iter().filter_map(|node| node.entry.wwid.as_ref()).collect()
        }
        Nodes::Device(nodes) => {
            // No character of a link is special in a match: see `DiskLink`.
            let links: BTreeSet<_> = nodes.iter().map(|node| node.path.in_udev()).collect();
            for link in links {
                text += &rule(&format!("SYMLINK==\"{link}\""));
            }
            nodes.iter().filter_map(|node| node.wwid.as_ref()).collect()
        }
    };
    let maps: BTreeSet<_> = wwids.into_iter().filter_map(Wwid::multipath).collect();
    for wwid in maps {
        text += &rule(&format!("ATTR{{dm/uuid}}==\"mpath-{wwid}\""));
    }
    text + &rule(OF_PATHS)
}

/// Returns the matches for the paths to the LUN of a node: by its WWID where the config has one, else by its number at the target,
/// in each form in which SCSI may address it. The target's other LUNs may be somebody else's.
fn paths_to(node: &IscsiNode) -> Vec<String> {
    let of_name = |name: &Iqn| {
        let path = |lun: &str| format!("ENV{{ID_PATH}}==\"ip-*-iscsi-{name}-lun-{lun}\"");
        match (&node.entry.wwid, node.lun) {
            (Some(wwid), _) => vec![format!("{}, ATTRS{{wwid}}==\"{}\"", path("*"), in_udev(wwid))],
            (None, Some(number)) => addresses(number).iter().map(|lun| path(lun)).collect(),
            (None, None) => Vec::new(),
        }
    };
    node.target.iqn.all().flat_map(of_name).collect()
}

/// The WWID as a pattern of udev. The kernel pads a name with blanks, and a name may have characters that a pattern has too.
fn in_udev(wwid: &Wwid) -> String {
    let in_pattern = |letter: char| match letter {
        ' ' => '*',
        letter if letter.is_ascii_alphanumeric() || "._:-".contains(letter) => letter,
        _ => '?',
    };
    wwid.as_str().chars().map(in_pattern).collect()
}

/// Returns udev's names of the LUN with this number at the array, for the addressing methods that
/// [`LunAddress::number`] knows (systemd
/// `src/udev/udev-builtin-path_id.c`, `format_lun_number`). Of long extended addressing udev leaves out the end of the number, so
/// there only a WWID tells one LUN from another.
///
/// [`LunAddress::number`]: terms::LunAddress::number
fn addresses(LunNumber(number): LunNumber) -> Vec<String> {
    let words = |first: u32, second: u32| format!("0x{first:04x}{second:04x}00000000");
    let (high, low) = (number >> 16, number & 0xffff);
    let mut forms = vec![words(0xd200 | high, low)];
    if number < 1 << 14 {
        forms.push(if number < 256 { number.to_string() } else { words(number, 0) });
        forms.push(words(0x4000 | number, 0));
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Pool, Source};

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
        let rules = text.lines().filter(|line| line.contains(", SUBSYSTEM==\"block\", "));
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
                "ENV{ID_PATH}==\"ip-*-iscsi-iqn.2024-02.com.example:etcd-lun-*\", ATTRS{wwid}==\"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"",
                "ENV{ID_PATH}==\"ip-*-iscsi-iqn.2024-02.com.example:etcd-lun-0x4002000000000000\"",
                "ENV{ID_PATH}==\"ip-*-iscsi-iqn.2024-02.com.example:etcd-lun-0xd200000200000000\"",
                "ENV{ID_PATH}==\"ip-*-iscsi-iqn.2024-02.com.example:etcd-lun-2\"",
                "ENV{ID_PATH}==\"ip-*-iscsi-*\", ENV{ID_SERIAL}==\"360014051d8e4a3bd5a94f3f9a1a2b3c4\"",
                "ATTR{dm/uuid}==\"mpath-360014051d8e4a3bd5a94f3f9a1a2b3c4\"",
                OF_PATHS,
            ]
        );
        // systemd is told of the same paths.
        let told: Vec<_> = text.lines().filter(|line| line.contains("+=\"etcd-lun-path@")).collect();
        let end = ", TAG+=\"systemd\", ENV{SYSTEMD_WANTS}+=\"etcd-lun-path@.target\"";
        let start = "ACTION!=\"remove\", SUBSYSTEM==\"scsi\", ";
        let of: Vec<_> =
            told.iter().map(|line| line.strip_prefix(start).unwrap().strip_suffix(end).unwrap()).collect();
        assert_eq!(of, matches(&text)[..4]);
        let change = "ACTION==\"change\", SUBSYSTEM==\"scsi\", ENV{SDEV_UA}==\"INQUIRY_DATA_HAS_CHANGED|REPORTED_LUNS_DATA_HAS_CHANGED|\
            POWER_ON_RESET_OCCURRED\", ENV{ID_PATH}==\"ip-*-iscsi-iqn.2024-02.com.example:etcd-lun-*\", TAG+=\"systemd\", \
            ENV{SYSTEMD_WANTS}+=\"etcd-lun-lost.service\"\n";
        assert!(text.contains(change), "{text}");
        let without = rendered(&TARGET.replace("wwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\n", ""));
        assert_eq!(matches(&without).len(), 7);
        assert!(!without.contains("mpath-3"), "{without}");
        let port = "{ address = \"10.0.0.2\", iqn = \"iqn.2024-02.com.example:port\" }";
        let named = rendered(&TARGET.replace("[\"10.0.0.1\"]", &format!("[\"10.0.0.1\", {port}]")));
        assert_eq!(matches(&named).len(), 4 + 4 + 1 + 2);
        for rules in
            ["SECLABEL", "ENV{SYSTEMD_WANTS}+=\"etcd-lun-path@", "ENV{SYSTEMD_WANTS}+=\"etcd-lun-lost"]
        {
            let at =
                |name: &str| named.lines().filter(|line| line.contains(rules) && line.contains(name)).count();
            assert!(at(":port-lun-") > 0 && at(":port-lun-") == at(":etcd-lun-"), "{rules}: {named}");
        }
    }

    #[test]
    fn of_devices() {
        let shared = "SYMLINK==\"disk/by-path/pci-0000:00:1f.0-nvme-1\"";
        assert_eq!(matches(&rendered(DEVICE)), [shared, OF_PATHS]);
        assert!(!rendered(DEVICE).contains("scsi"), "a disk has no session");
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
                OF_PATHS,
            ]
        );
    }

    #[test]
    fn each_form_of_a_number() {
        assert_eq!(
            addresses(LunNumber(300)),
            ["0xd200012c00000000", "0x012c000000000000", "0x412c000000000000"]
        );
        assert_eq!(addresses(LunNumber(70_000)), ["0xd201117000000000"]);
    }

    #[test]
    fn a_name_with_blanks_and_odd_characters() {
        assert_eq!(in_udev(&"t10.ATA  Disk [1]*".parse().unwrap()), "t10.ATA*Disk*?1??");
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
