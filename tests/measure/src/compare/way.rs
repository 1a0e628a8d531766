//! The ways to move an etcd, and the files that each of them needs on a node.

use std::fmt;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use nodes::delivery;
use nodes::etcd::base64;
use nodes::scenarios::boot;
use nodes::scene::Wanted;
use nodes::stage::Stage;

/// A way to move an etcd to another disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// etcd-lun.
    Ours,
    /// The MachineConfig from OpenShift's documentation for a second disk.
    SecondDisk,
    /// iSCSI by hand, with a runbook, on a node that does not enforce SELinux.
    ByHand,
}

impl Way {
    /// All of them, in the order of the table's columns.
    pub const ALL: [Way; 3] = [Way::Ours, Way::SecondDisk, Way::ByHand];

    /// The way's Ignition config. By hand there is none.
    pub fn ignition(self, stage: &Stage) -> Result<Option<Value>> {
        match self {
            Way::Ours => Ok(Some(delivery::ignition_of(&boot::object(stage, &wanted())?)?)),
            Way::SecondDisk => Ok(Some(second_disk())),
            Way::ByHand => Ok(None),
        }
    }

    /// Whether the way's disk is a LUN. Otherwise it is a local disk.
    pub fn has_lun(self) -> bool {
        self != Way::SecondDisk
    }

    /// The number of the way's first written key in a situation. No two situations share numbers.
    pub fn first_key(self, situation: u64) -> Result<u64> {
        let way = Way::ALL.iter().position(|way| *way == self).context("this way is not in Way::ALL")?;
        Ok(u64::try_from(way)? * 1_000_000 + situation * 100_000 + 1)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Ours => "etcd-lun",
            Way::SecondDisk => "second disk, documented",
            Way::ByHand => "iSCSI by hand",
        })
    }
}

fn wanted() -> Wanted {
    Wanted { chap: None, ..Wanted::default() }.of_pod()
}

/// The documented object, made from the files in `tests/measure/guest`.
fn second_disk() -> Value {
    let unit = |name: &str, text: &str| json!({ "name": name, "enabled": true, "contents": text });
    let script = include_bytes!("../../guest/second-disk/find-secondary-device");
    json!({
        "storage": { "files": [{
            "path": "/etc/find-secondary-device",
            "mode": 0o755,
            "contents": { "source": format!("data:;base64,{}", base64(script)) },
        }]},
        "systemd": { "units": [
            unit("find-secondary-device.service", include_str!("../../guest/second-disk/find-secondary-device.service")),
            unit("var-lib-etcd.mount", include_str!("../../guest/second-disk/var-lib-etcd.mount")),
            unit("sync-var-lib-etcd-to-etcd.service", include_str!("../../guest/second-disk/sync-var-lib-etcd-to-etcd.service")),
            unit("restorecon-var-lib-etcd.service", include_str!("../../guest/second-disk/restorecon-var-lib-etcd.service")),
        ]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_situations_write_the_same_keys() {
        let mut first: Vec<u64> = Way::ALL
            .iter()
            .flat_map(|way| (0..9).map(|situation| way.first_key(situation).unwrap()))
            .collect();
        first.sort_unstable();
        assert!(first.windows(2).all(|pair| pair[1] - pair[0] >= 100_000), "{first:?}");
    }

    #[test]
    fn every_unit_of_the_second_disk_is_enabled_by_its_own_install_section() {
        let config = second_disk();
        let units = config["systemd"]["units"].as_array().unwrap();
        assert_eq!(units.len(), 4);
        for unit in units {
            assert!(unit["contents"].as_str().unwrap().contains("\n[Install]\n"), "{}", unit["name"]);
        }
    }
}
