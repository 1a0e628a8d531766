//! Looking at the node. Reads and never changes; decides nothing.
//!
//! Each function asks `host` and turns what it says into facts; what can't be read becomes
//! `Unknown` with the reason, never "absent".

mod iscsi;
mod local;
mod lun;
mod mount;
mod selinux;
mod vitals;

pub(crate) use iscsi::session_users;
pub(crate) use local::{etcd, record};
pub(crate) use lun::{
    carries_label, disk_of, disks, disks_of_device, is_settled, label_leads_to, lun, lun_rescan, ours,
};
pub(crate) use selinux::{in_force, selinux};
pub use vitals::vitals;

use crate::{
    config::Config,
    host::{Host, Tool, identity as host_identity, namespace, staging::Staging},
    node::{Fact, Identity, Node},
};
use anyhow::Context as _;

/// Who this node is; `joined_host_namespace` is the caller's knowledge.
pub fn identity(host: &Host, joined_host_namespace: bool) -> anyhow::Result<Identity> {
    Ok(Identity {
        machine_id: host_identity::machine_id(host).context("reading the machine id")?,
        hostname: host_identity::hostname(host).context("reading the host name")?,
        joined_host_namespace,
    })
}

/// Where one looks from.
#[derive(Debug, Clone, Copy)]
pub enum Viewpoint<'a> {
    /// Whatever namespace the process was started in.
    Reader,
    /// A namespace of `apply`'s own that receives the host's mounts. It has compared the one that
    /// it was started in with PID 1's before it went there.
    Apply {
        /// Its own mount of the LUN, if it has one.
        staged: Option<&'a Staging>,
    },
}

/// Looks at everything.
pub fn node(host: &Host, config: &Config, identity: Identity, from: Viewpoint<'_>) -> Node {
    let (in_host_namespace, staged) = match from {
        Viewpoint::Reader => (namespace::is_in_namespace_of_pid1(host).into(), None),
        Viewpoint::Apply { staged } => (Fact::Known(true), staged),
    };
    let record = local::record(host);
    let mount = mount::data(host, &config.etcd.data_dir);
    Node {
        identity,
        missing_tools: missing_tools(host, config),
        in_host_namespace,
        initiator: iscsi::initiator(host, config),
        sessions: iscsi::all_sessions(host, config),
        lun: lun::lun(host, config, staged),
        local: local::local_dir(host, &config.etcd.data_dir, record.known().and_then(Option::as_ref)),
        shelf: local::shelf(host, record.known().and_then(Option::as_ref)),
        retired: local::retired(host),
        mounted_stamp: mount::stamp(host, &config.etcd.data_dir, &mount),
        mount,
        mount_unit: mount::unit(host, config),
        etcd: local::etcd(host, config),
        selinux: selinux(host, config),
        record,
        fresh_uuid: fresh_uuid(host),
    }
}

fn missing_tools(host: &Host, config: &Config) -> Vec<String> {
    let needed = |tool: &Tool| *tool != Tool::Iscsiadm || config.backing.iscsi().is_some();
    let missing = Tool::REQUIRED.into_iter().filter(|tool| needed(tool) && !host.runner.has(*tool));
    missing.map(|tool| format!("{} (package {})", tool.program(), tool.package())).collect()
}

/// The kernel's own random UUID (random(4)); all zeros when it can't be read, which no filesystem
/// is made with: mkfs.xfs refuses it.
fn fresh_uuid(host: &Host) -> crate::terms::FsUuid {
    let text = host.root.read("/proc/sys/kernel/random/uuid").unwrap_or_default();
    text.trim().parse().unwrap_or(crate::terms::FsUuid([0; 16]))
}
