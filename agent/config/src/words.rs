//! Values that are one of a few words.

use super::form::Word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::ChapAlg;

/// How the target's portals are discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// The initiator asks the target (RFC 7143, SendTargets).
    SendTargets,
    /// The initiator uses the portals of the config.
    Static,
}

impl Word for Discovery {
    const WORDS: &'static str = "\"sendtargets\" or \"static\"";
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

impl Word for Digests {
    const WORDS: &'static str = "\"none\" or \"crc32c\"";
}

impl Word for ChapAlg {
    const WORDS: &'static str = "\"SHA3-256\", \"SHA256\", \"SHA1\" or \"MD5\"";
}

/// What waits for the LUN at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// Only etcd. Without the LUN the fence keeps etcd down, and the kubelet starts anyway.
    Etcd,
    /// The kubelet and CRI-O as well. Without the LUN nothing of the cluster starts on this node.
    Kubelet,
}

impl Word for Gate {
    const WORDS: &'static str = "\"etcd\" or \"kubelet\"";
}
