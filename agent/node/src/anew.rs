//! How often the service has mounted the LUN anew.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the service keeps of it until the next boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MountedAnew {
    /// When it has begun to, in seconds since the boot.
    pub at: Vec<u64>,
    /// True until the LUN is mounted again.
    pub unfinished: bool,
    /// When the service has last restarted iscsid, in seconds since the boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iscsid_restarted: Option<u64>,
}

impl MountedAnew {
    /// The file.
    pub const PATH: &str = "/run/etcd-lun/mounted-anew.json";

    /// How long before this moment (since the boot) each was that is not longer ago than that.
    pub fn within(&self, now: Duration, span: Duration) -> impl Iterator<Item = Duration> {
        let ago = self.at.iter().map(move |at| now.saturating_sub(Duration::from_secs(*at)));
        ago.filter(move |ago| *ago <= span)
    }
}
