//! Stopping etcd by hand only while the others can do without it, and waiting afterwards until its member serves again.

use crate::{
    context::Run,
    machine::{Effect, Machine},
};
use config::Runtime;
use node::{ActiveState, KUBELET};
use observe::{NotServing, Serving};
use plan::step::{AwaitMember, StopEtcd};
use std::time::{Duration, Instant};
use terms::fail;

/// Stops etcd. By hand this asks the other members again, right before, and a leader hands over.
pub fn stop(machine: &mut dyn Machine, step: &StopEtcd) -> anyhow::Result<String> {
    let mut leader = None;
    if step.needs_quorum {
        machine.others_are_a_quorum()?;
        leader = match machine.lead_elsewhere() {
            Ok(name) => name,
            Err(why) => {
                machine.note(&format!(
                    "whether this member leads the cluster was not found out, or it could not hand over ({why:#}): if it leads, the others elect another leader when it has ended"
                ));
                None
            }
        };
    }
    let stopped = stop_all(machine, step)?;
    Ok(match leader {
        Some(name) => format!("{stopped}; {name} leads the cluster now"),
        None => stopped,
    })
}

/// Without their grace period, the pod's other containers keep the member away for seconds, and not for half a minute. Whatever
/// becomes of that, they end by themselves later, and the steps that follow wait for them.
fn stop_all(machine: &mut dyn Machine, step: &StopEtcd) -> anyhow::Result<String> {
    let StopEtcd { runtime, whole_pod, .. } = step;
    let pod = machine.etcd_pod(runtime)?;
    let stop = Effect::StopEtcd { runtime: runtime.clone(), whole_pod: *whole_pod && pod.is_none() };
    let stopped = machine.perform(&stop)?;
    let Some(pod) = pod else { return Ok(stopped) };
    if let Err(why) = machine.perform(&Effect::EndOthers { pod }) {
        machine.note(&format!(
            "the other containers of etcd's pod take their grace period, because they cannot be asked to end: {why:#}"
        ));
    }
    match runtime {
        Runtime::StaticPod { manifest } if *whole_pod => {
            machine.perform(&Effect::AwaitPodEnd { manifest: manifest.clone() })
        }
        Runtime::StaticPod { .. } | Runtime::Systemd { .. } => Ok(stopped),
    }
}

/// Waits until this node's member has a leader and has caught up with it.
pub fn await_member(run: &mut Run<'_>, step: &AwaitMember) -> anyhow::Result<String> {
    let deadline = Instant::now() + step.limit.0;
    let mut said = String::new();
    loop {
        let waits_for = match observe::own_member(run.host, run.config) {
            Ok(Serving::Voter) => return Ok("the member serves, and has caught up with its leader".into()),
            Ok(Serving::Learner) if step.may_be_learner => {
                return Ok("the member serves, as a learner: it has no vote".into());
            }
            Ok(Serving::Learner) => {
                NotServing::Other("the member has become a learner, which has no vote".into())
            }
            Err(why) => why,
        };
        // Without the kubelet nobody starts the pod. Waiting would not end.
        if let Runtime::StaticPod { manifest } = &run.config.etcd.runtime
            && ActiveState::from(run.door.unit(KUBELET)?.active_state.as_str()).is_stopped()
        {
            fail!(
                EtcdNotStarted,
                "{KUBELET} does not run, so nobody starts etcd from {manifest}: run `systemctl start {KUBELET}`, then this again"
            );
        }
        if Instant::now() >= deadline {
            fail!(
                MemberNotServing,
                "etcd was started, and its member does not serve after {}: {waits_for}; see etcd's log and `etcd-lun status`, and wait longer with `cluster.serve_timeout`",
                step.limit
            );
        }
        let so_far = waits_for.so_far();
        if so_far != said {
            run.watcher.waiting(&so_far);
            said = so_far;
        }
        run.host.pause(Duration::from_secs(1))?;
    }
}
