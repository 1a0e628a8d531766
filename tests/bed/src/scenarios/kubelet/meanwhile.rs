//! What happens beside a migration and a rollback of the real kubelet's pod: a preflight that refuses, a container that
//! writes in its grace time, a target that is away, and a debug pod that is opened.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use super::super::{before_stop, terminal};
use super::client::Client;
use super::{RUN, begin, pod};
use crate::stage::Stage;

/// How long the target is away.
const AWAY: Duration = Duration::from_secs(30);
/// The file into which the container writes. It is there before, so that only its content changes.
const NOTE: &str = "/var/lib/etcd/member/note";

pub(super) fn meanwhile(stage: &mut Stage) -> Result<()> {
    let before = begin(stage)?;
    let client = Client::begin(stage)?;
    before_stop::leaves_a_static_pod_alone(stage)?;
    pod::is_local(stage, before)?;

    stage.node.ok(&format!("printf first >{NOTE}; chmod 600 {NOTE}"))?;
    writes_in_its_grace_time(stage, "other")?;
    pod::is_on_lun(stage, before)?;
    holds(stage, "other")?;
    client.has_every_key(stage)?;

    stage.target.stop();
    thread::sleep(AWAY);
    stage.target.restart()?;
    pod::serves(stage)?;
    pod::is_on_lun(stage, before)?;
    client.has_every_key(stage)?;

    terminal::rolls_back_beside_a_debug_pod(stage)?;
    pod::is_local(stage, before)?;
    holds(stage, "other")?;
    client.has_every_key(stage).map(drop)
}

/// `apply`, and a write from the container `etcdctl` after the copy was proven, with size and modification time as before.
/// An emulated node may take longer for copy and proof than the grace period. So the container runtime, which ends the
/// container, is stopped meanwhile.
fn writes_in_its_grace_time(stage: &Stage, text: &str) -> Result<()> {
    let inside = pod::process(stage, "etcdctl")?;
    let seen = format!("/proc/{inside}/root{NOTE}");
    let (output, written) = stage.node.run_while("etcd-lun apply", RUN, || {
        pod::is_parked(stage)?;
        let script = format!(
            "set -e; main=$(systemctl show --property MainPID --value crio.service); kill -STOP $main
             until grep -q 'wait until the other containers' /run/etcd-lun/run; do sleep 0.5; done
             cp -p {seen} /run/note.before; printf {text} | dd of={seen} conv=notrunc status=none
             touch -r /run/note.before {seen}; kill -CONT $main"
        );
        stage.node.run_within(&script, RUN)
    })?;
    if written.code != 0 {
        bail!("the container did not write: {written}");
    }
    if output.code != 0 || !output.stderr.contains("member/note was written): it is copied again") {
        bail!("the write in the container's grace period was not found: {output}");
    }
    Ok(())
}

fn holds(stage: &Stage, text: &str) -> Result<()> {
    let found = stage.node.ok(&format!("cat {NOTE}"))?;
    if found != text {
        bail!("{NOTE} holds {found:?}, and the container wrote {text:?}: its bytes are lost");
    }
    Ok(())
}
