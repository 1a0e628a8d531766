//! Boots of a node with the real kubelet: one that finds etcd's manifest parked, and one without the target.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::super::held;
use super::pod;
use crate::etcd::KeyHash;
use crate::node::Node;
use crate::stage::{FENCE_CONTENT, Stage};

/// A rollback is killed while etcd's manifest is parked, before its commit point, and the node boots. The service
/// must mount the LUN and put the manifest back before the kubelet starts. Prints where the time goes.
pub(super) fn finds_the_manifest_parked(stage: &mut Stage, before: KeyHash) -> Result<()> {
    held::at_the_last_copy(stage, "rollback", super::RUN, || {
        pod::is_parked(stage)?;
        stage.node.ok("pkill -KILL -x etcd-lun")
    })?;
    pod::was_left_parked(stage)?;
    stage.node.reboot()?;
    pod::is_on_lun(stage, before).context("after a boot that found the manifest parked")?;
    println!("        a boot that found the manifest parked: {}", Times::of(&stage.node)?.told()?);
    Ok(())
}

/// A boot while the target is off: the kubelet runs, etcd's container fails at the fence, and etcd serves when the
/// target is back.
pub(in crate::scenarios) fn without_the_target(stage: &mut Stage, before: KeyHash) -> Result<()> {
    stage.node.power_off()?;
    stage.target.stop();
    stage.node.power_on()?;
    stage.wait_until("systemctl is-active kubelet.service")?;
    let times = Times::of(&stage.node)?;
    // The container etcd has started and has ended.
    let tried = format!(
        "{SINCE}; awk -v since=$since '$1 >= since' /var/log/pods/*_etcd-*/etcd/*.log | grep -q 'cannot access data directory\\|not a directory'"
    );
    stage.wait_until_within(&tried, pod::LIMIT).context("the pod's etcd did not start against the fence")?;
    let seen = stage.look()?;
    if !seen.mount.is_empty() || !seen.is_fenced() || seen.content != FENCE_CONTENT {
        bail!("the directory below the mount point holds data, or is not immutable: {seen:?}");
    }
    if stage.node.run("etcdctl --command-timeout 5s endpoint health")?.code == 0 {
        bail!("etcd runs without its LUN");
    }
    stage.target.restart()?;
    let back = Instant::now();
    pod::serves(stage)?;
    let back = back.elapsed().as_secs();
    pod::is_on_lun(stage, before).context("after a boot without the target")?;
    println!(
        "        a boot without the target: the kubelet ran {:.0} s after etcd-lun.service began; etcd served {back} s \
         after the target was back",
        times.between("service", "kubelet ran")?
    );
    Ok(())
}

/// Sets `$since` to the start of etcd-lun.service in this boot, as the container runtime writes times.
const SINCE: &str =
    "begun=$(systemctl show --timestamp=us+utc --property InactiveExitTimestamp --value etcd-lun.service)
since=$(date --utc --date \"$begun\" +%Y-%m-%dT%H:%M:%S)";

/// Prints events of this boot and their times, in seconds. A line without a time: the event has not happened.
const EVENTS: &str = r#"
journalctl --sync
event() { [ -z "$2" ] || echo "$1=$(date --date "$2" +%s.%N)"; }
unit() { systemctl show --timestamp=us+utc --property "$2" --value "$1"; }
# The first line of a container's log that has this text.
log() { awk -v since="$since" -v text="$2" '$1 >= since && index($0, text) { print $1; exit }' /var/log/pods/*_etcd-*/"$1"/*.log 2>/dev/null; }
event service "$begun"
event 'service done' "$(unit etcd-lun.service ActiveEnterTimestamp)"
event 'runtime ran' "$(unit crio.service ActiveEnterTimestamp)"
event 'kubelet began' "$(unit kubelet.service InactiveExitTimestamp)"
event 'kubelet ran' "$(unit kubelet.service ActiveEnterTimestamp)"
event sandbox "$(journalctl -b -u crio.service --no-pager -o short-iso-precise | awk '/RunPodSandbox for/ { print $1; exit }')"
event setup "$(log setup '')"
event etcd "$(log etcd '')"
event 'etcd serves' "$(log etcd 'ready to serve client requests')"
"#;

/// When the parts of a boot began and ended.
pub(in crate::scenarios) struct Times(HashMap<String, f64>);

impl Times {
    pub(in crate::scenarios) fn of(node: &Node) -> Result<Self> {
        let text = node.ok(&format!("{SINCE}\n{EVENTS}"))?;
        let parse = |line: &str| {
            let (event, time) = line.split_once('=')?;
            Some((event.to_string(), time.parse().ok()?))
        };
        let times = text.lines().map(parse).collect::<Option<_>>();
        times.map(Self).with_context(|| format!("not an event and a time: {text}"))
    }

    fn between(&self, from: &str, to: &str) -> Result<f64> {
        let time = |event: &str| self.0.get(event).with_context(|| format!("{event:?} did not happen"));
        Ok(time(to)? - time(from)?)
    }

    /// One line about where the time from the start of etcd-lun.service to etcd's answers went.
    pub(in crate::scenarios) fn told(&self) -> Result<String> {
        let parts = [
            ("etcd-lun.service", "service", "service done"),
            ("until the container runtime ran", "service done", "runtime ran"),
            ("until the kubelet began", "runtime ran", "kubelet began"),
            ("until it was ready", "kubelet began", "kubelet ran"),
            ("until it made the pod", "kubelet ran", "sandbox"),
            ("until the first init container ran", "sandbox", "setup"),
            ("until the container etcd ran", "setup", "etcd"),
            ("until etcd served", "etcd", "etcd serves"),
        ];
        let told: Result<Vec<String>> = parts
            .into_iter()
            .map(|(what, from, to)| Ok(format!("{what} {:.1} s", self.between(from, to)?)))
            .collect();
        Ok(format!("{}; together {:.0} s", told?.join(", "), self.between("service", "etcd serves")?))
    }
}
