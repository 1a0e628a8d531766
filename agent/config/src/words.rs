//! Values that are one of a few words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the target's portals are discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// The initiator asks the target (RFC 7143, SendTargets).
    SendTargets,
    /// The initiator uses the portals of the config.
    Static,
}

/// Which checksum the PDUs of a session have beside TCP's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Digests {
    /// None.
    None,
    /// CRC32C of each header and of all data (RFC 7143, `HeaderDigest` and `DataDigest`).
    Crc32c,
}

impl Digests {
    /// The value of open-iscsi's settings.
    pub fn setting(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Crc32c => "CRC32C",
        }
    }
}

/// The services that wait for the LUN at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Only etcd. Without the LUN the fence keeps etcd down, and the kubelet starts anyway.
    Etcd,
    /// The kubelet and CRI-O as well. Without the LUN nothing of the cluster starts on this node.
    Kubelet,
}
