//! Observes the node. It reads, never changes anything, and decides nothing.
//!
//! Each function asks `host` and turns the answer into facts. What cannot be read becomes `Unknown` with the reason, never
//! "absent".

mod certificates;
mod claims;
mod cluster;
mod elsewhere;
mod etcd;
mod health_facts;
mod iscsi;
mod local;
mod lun;
mod mount;
mod records;
pub mod secrets;
mod selinux;

pub use claims::claims_beside;
pub use cluster::{NotServing, Serving, cluster_now, own_member};
pub use cluster::{cluster, hand_over_leadership};
pub use elsewhere::elsewhere;
pub use etcd::{etcd, etcd_by_lock, other_place, quota};
pub use health_facts::{health_facts, iscsid_runs};
pub use iscsi::answering;
pub use iscsi::is_left_alone;
pub use local::record;
pub use lun::lun;
pub use mount::mounted_anew;
pub use records::others_at_target;
pub use selinux::{in_force, selinux};

use anyhow::Context as _;
use config::Config;
use hands::{Door, Requester, Units};
use host::{
    Host, Tool, identity as host_identity, mountinfo::Everywhere, namespace, random, staging::Staging,
};
use node::{
    Fact, Identity, Node,
    layout::{NODE, RECORD},
};
use std::io;

/// The identity of this node. Only the caller knows whether this process has joined PID 1's mount namespace.
///
/// A node with a record has the name under which the record was written, whatever the host is called now.
pub fn identity(host: &Host, joined_host_namespace: bool) -> anyhow::Result<Identity> {
    let machine_id = host_identity::machine_id(host).context("reading the machine id")?;
    let hostname = match name_of_record(host, &machine_id).context("reading the name of the record's node")? {
        Some(name) => name,
        None => host_identity::hostname(host).context("reading the host name")?,
    };
    Ok(Identity { machine_id, hostname, former_name: None, joined_host_namespace })
}

/// The name of this node when its record was written; none if there is no record, or one of a release that did not write it.
fn name_of_record(host: &Host, machine_id: &str) -> io::Result<Option<String>> {
    if host.root.mode(RECORD)?.is_none() {
        return Ok(None);
    }
    let text = host.root.read_ours(NODE)?.unwrap_or_default();
    let of_this_machine = text.trim_end().split_once(' ').filter(|(id, _)| *id == machine_id);
    Ok(of_this_machine.map(|(_, name)| name.to_owned()))
}

/// The mount namespace that the node is observed from.
#[derive(Debug, Clone, Copy)]
pub enum Viewpoint<'a> {
    /// The one that the process was started in, or has joined.
    Reader,
    /// A namespace of `apply`'s own, which receives the host's mounts. Before it went there, `apply` has made sure that it was in
    /// PID 1's.
    Apply {
        /// The staging mount of the LUN, if there is one.
        staged: Option<&'a Staging>,
    },
}

/// The questions over the network, beside those to the target. Each takes time, and a confined run may not ask all of
/// it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// Which portals without a session accept a connection.
    pub portals: bool,
    /// The members of the cluster, about themselves.
    pub cluster: bool,
    /// The members again, for a few seconds, while one is not healthy that a stop needs.
    pub patient: bool,
    /// The other members, whether this node's member is alive elsewhere.
    pub elsewhere: bool,
}

impl Asked {
    /// Nothing.
    pub const NOTHING: Self = Self { portals: false, cluster: false, patient: false, elsewhere: false };
    /// The questions for a person.
    pub const BY_HAND: Self = Self { portals: true, cluster: true, patient: false, elsewhere: false };
}

/// The states of the units that plans depend on, from one request.
fn units<'a>(door: &'a Door<'_>, config: &Config) -> Units<'a> {
    let mut names = etcd::units(config);
    if config.backing.iscsi().is_some() {
        names.push(iscsi::MULTIPATHD);
    }
    door.units(&names)
}

/// Observes everything that plans depend on.
pub fn node(door: &Door<'_>, config: &Config, identity: Identity, from: Viewpoint<'_>, asked: Asked) -> Node {
    let host = door.host;
    let (in_host_namespace, staged) = match from {
        Viewpoint::Reader => (namespace::sees_mounts_of_pid1(host).into(), None),
        Viewpoint::Apply { staged } => (Fact::Known(true), staged),
    };
    let record = local::record(host);
    let mount = mount::data(host, &config.etcd.data_dir);
    let mounts = Everywhere::new(host);
    let sessions = iscsi::all_sessions(host, config, &mounts);
    let lun = lun::Look { door, config, staged, mounts: &mounts, record: &record }.lun();
    // Behind what may take long, so that what it says of etcd is of now.
    let units = units(door, config);
    let elsewhere = asked.elsewhere.then(|| elsewhere(host, config, identity.data_name()));
    let mut node = Node {
        identity,
        missing_tools: missing_tools(host, config),
        in_host_namespace,
        sessions,
        initiator: iscsi::initiator(host, config, &units),
        answering: if asked.portals { answering(door, config) } else { Vec::new() },
        lun,
        claims: claims::claims(host, config),
        idle: local::idle(host, &config.etcd.data_dir),
        local: local::local_dir(host, &config.etcd.data_dir, record.known().and_then(Option::as_ref)),
        rollback_staging: local::rollback_staging(host, record.known().and_then(Option::as_ref)),
        retired: local::retired(host),
        barred_data: local::barred_data(host),
        mounted_stamp: mount::stamp(host, &config.etcd.data_dir, &mount),
        mount,
        etcd: etcd::etcd_among(host, config, &units),
        quota: Fact::Unknown("etcd's process was not looked at".into()),
        fips: Fact::Unknown("it was not looked at".into()),
        cluster: None,
        elsewhere,
        selinux: selinux::selinux(host, config),
        record,
        fresh_uuid: random::uuid().into(),
        fresh_nonce: random::nonce().into(),
    };
    // The service's SELinux domain may not connect to etcd.
    if asked.cluster && door.requester == Requester::Person {
        // Whom it asks depends on what was seen of etcd.
        node.cluster = cluster(host, config, &node, asked.patient);
        let fips = host.root.read_opt("/proc/sys/crypto/fips_enabled");
        node.fips = fips.map(|text| text.is_some_and(|text| text.trim() == "1")).into();
        node.quota = etcd::quota(host, &config.etcd.data_dir);
    }
    node
}

/// Observes only the LUN that is mounted for etcd, at once: another volume in its place is written to meanwhile.
pub fn mounted_lun(door: &Door<'_>, config: &Config, identity: Identity) -> Node {
    let mount = mount::data(door.host, &config.etcd.data_dir);
    Node {
        record: local::record(door.host),
        lun: lun(door, config, None),
        mounted_stamp: mount::stamp(door.host, &config.etcd.data_dir, &mount),
        mount,
        ..Node::unseen(identity)
    }
}

/// Observes only what is mounted for etcd, and the sessions if that is nothing: who uses them takes long to find out.
pub fn unused_sessions(door: &Door<'_>, config: &Config, identity: Identity) -> Node {
    let mut node = Node { mount: mount::data(door.host, &config.etcd.data_dir), ..Node::unseen(identity) };
    if node.mount == Fact::Known(None) {
        node.sessions = iscsi::all_sessions(door.host, config, &Everywhere::new(door.host));
    }
    node
}

/// Observes only what decides which copy etcd may run on: the record, etcd itself, and the mount. It asks no target.
pub fn local_side(door: &Door<'_>, config: &Config, identity: Identity) -> Node {
    let host = door.host;
    Node {
        record: local::record(host),
        etcd: etcd::etcd(door, config),
        mount: mount::data(host, &config.etcd.data_dir),
        ..Node::unseen(identity)
    }
}

fn missing_tools(host: &Host, config: &Config) -> Vec<String> {
    let needed = |tool: &Tool| *tool != Tool::Iscsiadm || config.backing.iscsi().is_some();
    let missing = Tool::REQUIRED.into_iter().filter(|tool| needed(tool) && !host.runner.has(*tool));
    missing.map(|tool| format!("{} (package {})", tool.program(), tool.package())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::NoTools};

    /// A name that is lost, or another node's, is not this node's once it has a record. Another machine's files name nobody.
    #[test]
    fn a_record_says_whose_it_is() {
        const ID: &str = "a6b5bb1cdca64d93b5e63aa734e10167";
        let files = Files::new("observe-identity");
        files.put("etc/machine-id", ID);
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        let kept = format!("{ID} master-0\n");
        let of_another = kept.replace("a6", "b7");
        for (called, kept, has_record, name) in [
            ("localhost", &kept, true, "master-0"),
            ("master-1", &kept, true, "master-0"),
            ("master-1", &kept, false, "master-1"),
            ("master-1", &of_another, true, "master-1"),
            ("master-1", &String::new(), true, "master-1"),
        ] {
            files.put("proc/sys/kernel/hostname", called);
            files.put(NODE.trim_start_matches('/'), kept);
            host.root.remove(RECORD).unwrap();
            if has_record {
                files.put(RECORD.trim_start_matches('/'), "{}");
            }
            assert_eq!(identity(&host, false).unwrap().hostname, name, "{called}, {kept}");
        }
    }
}
