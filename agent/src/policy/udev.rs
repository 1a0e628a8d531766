//! The udev rule that labels the LUN's device node.

use super::DEVICE_LABEL;
use crate::config::{NodeEntry, Pool};

/// Where the rule lies on a node. After the rules that find the names of disks (60) and of maps (11).
pub const RULE: &str = "/etc/udev/rules.d/90-etcd-lun.rules";

const HEAD: &str =
    "# Labels the LUN of etcd for SELinux, so that etcd-lun can write to it and to no other disk.
# Rendered by `etcd-lun render udev`, and the same for every node: change the config, not this file.

# A path to a LUN of the target (udev's path_id: ip-PORTAL-iscsi-TARGET-lun-N).
";

const MAPS: &str = "
# The multipath map of such paths (multipath-tools: mpath-WWID). A map doesn't say which target it leads to, so only
# the WWIDs that the config gives are known here.
";

/// Renders the rule, the same bytes for the same pool.
///
/// SELinux tells the LUN from the system's disk by the label of its node and by nothing else: with this rule, what runs
/// in the domain can open the LUN's device, and no other.
pub fn rule(pool: &Pool, nodes: &[NodeEntry]) -> String {
    let rule = |matched: &str| {
        format!(
            "ACTION!=\"remove\", SUBSYSTEM==\"block\", {matched}, SECLABEL{{selinux}}=\"{DEVICE_LABEL}\"\n"
        )
    };
    let mut text =
        format!("{HEAD}{}", rule(&format!("ENV{{ID_PATH}}==\"ip-*-iscsi-{}-lun-*\"", pool.target.iqn)));
    let mut maps: Vec<_> =
        nodes.iter().filter_map(|node| node.wwid.as_ref()).filter_map(|wwid| wwid.multipath()).collect();
    maps.sort();
    maps.dedup();
    if !maps.is_empty() {
        text += MAPS;
    }
    for wwid in maps {
        text += &rule(&format!("ENV{{DM_UUID}}==\"mpath-{wwid}\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    #[test]
    fn rules() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"10.0.0.1\"]\n[etcd]\nruntime = \"static-pod\"\n\
            [[node]]\nhostname = \"a\"\ninitiator = \"iqn.2024-02.x:a\"\nlun = 1\nwwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\n\
            [[node]]\nhostname = \"b\"\ninitiator = \"iqn.2024-02.x:b\"\nlun = 2\n";
        let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
        let text = rule(&pool, &pool.nodes().unwrap());
        let rules: Vec<_> = text.lines().filter(|line| line.starts_with("ACTION")).collect();
        assert_eq!(
            rules,
            [
                "ACTION!=\"remove\", SUBSYSTEM==\"block\", ENV{ID_PATH}==\"ip-*-iscsi-iqn.2024-02.com.example:etcd-lun-*\", SECLABEL{selinux}=\"system_u:object_r:etcd_lun_device_t:s0\"",
                "ACTION!=\"remove\", SUBSYSTEM==\"block\", ENV{DM_UUID}==\"mpath-360014051d8e4a3bd5a94f3f9a1a2b3c4\", SECLABEL{selinux}=\"system_u:object_r:etcd_lun_device_t:s0\"",
            ]
        );
        assert!(rule(&pool, &pool.nodes().unwrap()[1..]).lines().all(|line| !line.contains("mpath-3")));
    }
}
