//! The validated parts of the config whose form differs from that of the file.

use super::{
    chap::{ChapSource, SecretSource},
    form,
    timeouts::Timeouts,
    words::{Digests, Discovery},
};
use schemars::JsonSchema;
use serde::Serialize;
use terms::{AbsPath, ClientUrl, Portal, Span, TargetName, Wwid};

/// The iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Target {
    /// The name by which entries refer to it; none if there is one target without a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The target's iSCSI name, or its names where portals have one of their own.
    pub iqn: TargetName,
    /// The target's portals, in order of preference; at least one.
    pub portals: Vec<Portal>,
    /// How portals are discovered.
    pub discovery: Discovery,
    /// How long the target may be silent.
    #[serde(flatten)]
    pub timeouts: Timeouts,
    /// The checksums of a session; none if iscsid.conf decides.
    pub digests: Option<Digests>,
    /// True if dm-multipath must combine the paths to the portals.
    pub multipath: bool,
    /// True if iscsid refuses to log out a session in use.
    pub safe_logout: bool,
    /// True if the array shows each LUN to one initiator only.
    pub lun_masking: bool,
    /// Credentials for sessions.
    pub chap: Option<ChapSource>,
    /// Credentials for discovery.
    pub discovery_chap: Option<ChapSource>,
}

/// etcd on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EtcdConfig {
    /// etcd's data directory.
    pub data_dir: AbsPath,
    /// The runtime of etcd.
    pub runtime: Runtime,
}

/// The certificates with which curl asks etcd over HTTPS. For a static pod OpenShift's are used where the config names none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Certificates {
    /// The CA certificate.
    pub authority: Option<AbsPath>,
    /// The client certificate.
    pub certificate: Option<AbsPath>,
    /// The key of the client certificate.
    pub key: Option<AbsPath>,
}

/// How etcd is asked about its cluster, by hand only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClusterConfig {
    /// Where this node's own member answers.
    pub client_url: ClientUrl,
    /// The port at which every member answers HTTP, if that is not the port of its client URL.
    pub http_port: Option<u16>,
    /// Client URLs of the members; empty if the config has none.
    pub endpoints: Vec<ClientUrl>,
    /// The certificates for HTTPS.
    pub certificates: Certificates,
    /// True if this member is stopped although the others cannot do without it.
    pub without_quorum: bool,
    /// How long a run by hand waits until the member serves again.
    #[serde(serialize_with = "form::as_written")]
    #[schemars(with = "String")]
    pub serve_timeout: Span,
}

/// The runtime of etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A systemd unit.
    Systemd {
        /// The unit's name.
        unit: String,
    },
    /// A static pod. The kubelet runs it while its manifest is in the kubelet's directory.
    StaticPod {
        /// The manifest.
        manifest: AbsPath,
    },
}

/// Where a static pod's manifest lies while its etcd is stopped. A manifest there says that we stopped etcd.
///
/// The directory is beside the kubelet's, so that a rename moves the manifest: `/var` would be another mount (ostree's
/// `var.mount`). It is outside the kubelet's directory, because the kubelet runs every manifest in there.
pub fn parked(manifest: &AbsPath) -> AbsPath {
    manifest.parent().parent().join("etcd-lun-parked").join(manifest.name())
}

/// The entry of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodeEntry {
    /// The host name or machine id in the entry; of a pattern, the host name that it was chosen for.
    pub name: String,
    /// The line that made this the node's entry, and its file, for messages.
    pub chosen_by: String,
    /// The LUN's WWID, if the config requires one.
    pub wwid: Option<Wwid>,
    /// False if etcd stays on the local disk as long as it is there.
    pub migrate: bool,
}

impl Target {
    /// Returns true if a node uses several paths. Where the config asks for multipath, a daemon that has stopped is a
    /// fault and changes nothing: otherwise the records would differ from the config until it runs again.
    pub fn has_paths(&self, multipathd_runs: bool) -> bool {
        (self.multipath || multipathd_runs) && self.portals.len() > 1
    }

    /// A key or table of this target, as messages name it.
    pub fn key(&self, key: &str) -> String {
        let whose = self.name.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
        format!("`{key}`{whose}")
    }

    /// All secrets that the config names, for sessions and for discovery.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretSource> {
        self.chaps().flat_map(|(_, chap)| chap.secrets())
    }

    /// The tables of credentials, with their names.
    pub fn chaps(&self) -> impl Iterator<Item = (&'static str, &ChapSource)> {
        let all = [("target.chap", &self.chap), ("target.discovery_chap", &self.discovery_chap)];
        all.into_iter().filter_map(|(table, chap)| Some((table, chap.as_ref()?)))
    }
}
