//! Whether this node's etcd may be stopped by hand: only while the others can do without it (law 11).
//!
//! At boot nothing is asked: etcd is down then anyway.

use super::refusal::{ClusterRefusal, Refusal};
use config::Config;
use node::{Cluster, Etcd, Fact, MemberHealth};

/// Refuses unless the other voters that are healthy are a quorum of all voters. Unknown is not healthy.
pub fn may_stop(config: &Config, etcd: &Etcd, cluster: Option<&Fact<Cluster>>) -> Result<(), Refusal> {
    if config.cluster.without_quorum || !takes_part(etcd) {
        return Ok(());
    }
    let unknown = |found: &str| ClusterRefusal::ClusterUnknown { found: found.to_owned() };
    let cluster = match cluster {
        Some(Fact::Known(cluster)) => cluster,
        Some(Fact::Unknown(why)) => return Err(unknown(why).into()),
        None => return Err(unknown("nobody asked this node's member, because etcd did not run then").into()),
    };
    if cluster.can_spare_own() {
        return Ok(());
    }
    let missing = cluster.others.iter().filter_map(|member| match &member.health {
        _ if member.learner => Some(format!("{}: a learner, which has no vote", member.name)),
        MemberHealth::Healthy => None,
        MemberHealth::NotHealthy(why) => Some(format!("{}: {why}", member.name)),
    });
    let missing: Vec<_> = missing.collect();
    let missing = if missing.is_empty() { "no other is missing".into() } else { missing.join("; ") };
    Err(ClusterRefusal::NoQuorum {
        voters: cluster.voters(),
        needed: cluster.quorum(),
        healthy: cluster.healthy_others(),
        missing,
    }
    .into())
}

/// Returns true if this node's etcd can count for the cluster: it serves, or has its database open. One that fails
/// against the fence does neither, and stopping it takes nothing away.
fn takes_part(etcd: &Etcd) -> bool {
    etcd.running && (etcd.is_up() || !etcd.lock_holders.is_empty())
}
