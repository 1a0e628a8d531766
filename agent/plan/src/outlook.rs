//! What a run by hand means for the cluster: how long it may be down, and the wait until this node's member serves.

use super::{
    Step,
    input::{Occasion, PlanInput},
    outcome::{Horizon, Plan},
    step::ProtocolStep,
};
use config::Runtime;
use node::{EtcdState, Fact, PodState};
use std::time::Duration;
use terms::{Bytes, Span};

/// Returns a wait until this node's member serves, if the plan needs one, though it has no start of etcd: etcd runs
/// already, or waits for the kubelet.
pub(super) fn await_running(input: &PlanInput<'_>) -> Option<Step> {
    let waits_for_kubelet = input.etcd.state == EtcdState::Pod(PodState::WaitingForKubelet);
    let serves = matches!(&input.node.cluster, Some(Fact::Known(cluster)) if cluster.own_serves());
    let runs = input.etcd.running || waits_for_kubelet;
    if runs && !serves { input.await_member() } else { None }
}

/// 500 MB/s: all data is copied before the stop, and after it is read once more, from memory or from a disk as fast as a SATA SSD.
/// From memory it is more than ten times as fast (`docs/performance.md`, the column "switch").
const BYTES_PER_SECOND: u64 = 500_000_000;
/// The kubelet sees within a second that a manifest goes or comes, and else reads its directory every 20 s (`fileCheckFrequency`).
/// OpenShift's pod has a grace period of 30 s, for a container that does not end when it is asked. The rest is etcd's own start.
const STATIC_POD_RESTART: u64 = 60;
/// etcd ends and starts within seconds.
const UNIT_RESTART: u64 = 15;

/// One line about the cluster, for a plan by hand that stops etcd, or leads to a plan that does.
pub(super) fn outlook(input: &PlanInput<'_>, plan: &Plan) -> Option<String> {
    let stops = plan.steps.iter().any(|step| matches!(step, Step::Protocol(ProtocolStep::StopEtcd { .. })));
    let leads_on = plan.horizon.is_some_and(|horizon| horizon != Horizon::Sessions);
    if input.occasion == Occasion::Boot || !input.etcd.running || !(stops || leads_on) {
        return None;
    }
    if input.config.cluster.without_quorum {
        return Some(
            "`cluster.without_quorum` is set: etcd is stopped without asking the other members, and nothing waits until it serves again"
                .into(),
        );
    }
    let Some(Fact::Known(cluster)) = &input.node.cluster else { return None };
    let away = away(input);
    let also = if cluster.own.learner {
        format!("this member is a learner: stopping it, for {away}, takes no vote")
    } else if cluster.voters() == 1 {
        format!("no other member serves while etcd is stopped: THE CLUSTER IS DOWN MEANWHILE, for {away}")
    } else {
        format!("the others are a quorum without this one, which is away for {away}")
    };
    Some(format!("{cluster}; {also}"))
}

/// For how long etcd will be away, and why.
fn away(input: &PlanInput<'_>) -> String {
    let size = data_size(input);
    let restart = match input.config.etcd.runtime {
        Runtime::Systemd { .. } => UNIT_RESTART,
        Runtime::StaticPod { .. } => STATIC_POD_RESTART,
    };
    let seconds = restart.saturating_add(size.0 / BYTES_PER_SECOND);
    format!("about {} (etcd's restart, and {size} read once)", Span(Duration::from_secs(seconds)))
}

/// About how much data is moved.
fn data_size(input: &PlanInput<'_>) -> Bytes {
    let mounted = input.node.mount.known().and_then(|mount| mount.as_ref()?.free);
    match mounted {
        Some((Bytes(free), Bytes(all))) => Bytes(all.saturating_sub(free)),
        None => input.local.size().unwrap_or(Bytes(0)),
    }
}
