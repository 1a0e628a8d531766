//! A LUN with two paths, in two networks, under multipathd. A client writes to etcd all the time.
//!
//! Each scenario prints the longest time without an acknowledged write, and what the time-outs in force promise. At its
//! end etcd must have every acknowledged write.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{has, health};
use crate::net::{Cut, Path};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs::plans_nothing;
use client::{Client, ETCD_REFUSES, Waited};

pub(super) mod boot;
mod by_hand;
pub mod client;
mod without;

pub(super) fn scenarios() -> Vec<Scenario> {
    by_hand::scenarios().into_iter().chain([boot::scenario()]).chain(without::scenarios()).collect()
}

/// The portals, one in each network.
const BOTH: [Path; 2] = Path::STORAGE;

/// The longest stall with one silent path that may be configured.
const LONGEST: Duration = Duration::from_secs(10);

/// What an emulated node takes beside its time-outs, when others use the processors too.
const SLACK: Duration = Duration::from_secs(4);

/// The config for two portals, under multipathd.
fn wanted(stage: &Stage) -> Wanted {
    Wanted {
        portals: BOTH.map(Path::portal).into(),
        target: "multipath = true\n".into(),
        wwid: Some(stage.wwid(1)),
        ..Wanted::default()
    }
}

/// The node's own settings of multipathd, as on a Red Hat node after `mpathconf --enable`. etcd-lun's are beside them.
const OWN: &str =
    "printf 'defaults {\\n find_multipaths yes\\n user_friendly_names yes\\n}\\n' >/etc/multipath.conf\n";

/// Puts config and units in place, and multipathd's settings, as a person does by hand.
fn prepare(stage: &Stage) -> Result<()> {
    stage.configure(&wanted(stage))?;
    stage.node.ok(&format!("set -e; {OWN}{RENDER}; {}", health::ENABLE)).map(drop)
}

const RENDER: &str =
    "mkdir -p /etc/multipath/conf.d; etcd-lun render multipath >/etc/multipath/conf.d/etcd-lun.conf";

/// Puts multipathd's settings for the node's config in place, and starts it.
pub fn prepare_multipathd(stage: &Stage) -> Result<()> {
    stage.node.ok(&format!("set -e; {OWN}{RENDER}; systemctl restart multipathd")).map(drop)
}

/// How many of the map's paths work, as the kernel reports it: A is active, F failed. `multipath -ll` checks the paths
/// itself, and prints that a check is pending.
const WORKING: &str =
    "dmsetup status --target multipath | grep --only-matching '[0-9]:[0-9]* A ' | wc --lines";

/// Waits until this number of paths works.
pub(super) fn works(stage: &Stage, paths: usize) -> Result<()> {
    stage
        .wait_until(&format!("[ $({WORKING}) = {paths} ]"))
        .with_context(|| format!("of the map's paths {paths} should work"))
}

/// Checks that etcd's data is on a map.
fn is_on_map(stage: &Stage) -> Result<()> {
    stage.is_on_lun()?;
    let device = "cat /sys/dev/block/$(findmnt --noheadings --output MAJ:MIN /var/lib/etcd | xargs)/dm/uuid";
    let uuid = stage.node.ok(device)?;
    if uuid.starts_with("mpath-3") { Ok(()) } else { bail!("the data is on a device with the UUID {uuid:?}") }
}

/// How long a write may wait when one path is cut, by the time-outs in force in the sessions. If it is silent: until the
/// kernel asks the target, until it gives the connection up, and until it gives the path up; if it is refused, the last.
fn promise(stage: &Stage, how: Cut) -> Result<Duration> {
    let pings = match how {
        Cut::Drop | Cut::Half => "$(cat $c/recv_tmo) + $(cat $c/ping_tmo)",
        Cut::Reject => "0",
    };
    let script = format!(
        "for c in /sys/class/iscsi_connection/connection*; do
            n=${{c##*connection}}
            echo $(({pings} + $(cat /sys/class/iscsi_session/session${{n%%:*}}/recovery_tmo)))
        done | sort -n | tail -n 1"
    );
    Ok(Duration::from_secs(
        stage.node.ok(&script)?.parse().context("the sessions' time-outs cannot be read")?,
    ))
}

/// The path that carries etcd's writes.
fn active(stage: &Stage) -> Result<Path> {
    let script = "writes() {
            for s in /sys/class/iscsi_session/session*; do
                set -- $(cat $s/device/target*/*:1/block/*/stat)
                echo $(cat /sys/class/iscsi_connection/connection${s##*session}:0/persistent_address) $5
            done
        }
        writes; sleep 2; writes";
    let text = stage.node.ok(script)?;
    let lines: Vec<(&str, u64)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(address, count)| Some((address, count.parse().ok()?)))
        .collect();
    let written = |path: &Path| {
        let counts =
            || lines.iter().filter(|(address, _)| *address == path.target()).map(|(_, count)| *count);
        counts().max().unwrap_or_default() - counts().min().unwrap_or_default()
    };
    let busiest = BOTH.into_iter().max_by_key(written).filter(|path| written(path) > 0);
    busiest.with_context(|| format!("no path carries writes: {text:?}"))
}

/// Prints how long the client waited, and checks that it waited no longer than promised, and that no write failed but one
/// that waited for longer than etcd lets it.
fn as_promised(what: &str, waited: &Waited, promise: Duration) -> Result<()> {
    println!("        {what}: {waited}; promised {} s", promise.as_secs());
    if promise > LONGEST || waited.gap > promise + SLACK {
        bail!("{what}: no write was acknowledged for {:.1} s", waited.gap.as_secs_f64());
    }
    // etcd itself refuses a write that waits for longer. No other write may fail.
    if waited.gap < ETCD_REFUSES { waited.none_failed().context(what.to_string()) } else { Ok(()) }
}

/// The checks of `health` that this storage is about. Others may find an emulated node slow.
const OURS: [&str; 9] = [
    "record",
    "session",
    "portals",
    "paths",
    "session-timeout",
    "device-writable",
    "write-cache",
    "mount",
    "lun-size",
];

/// Those of these checks that are not ok.
fn failing(stage: &Stage) -> Result<BTreeSet<String>> {
    let all = health::failing(stage)?;
    Ok(all.into_iter().filter(|check| OURS.contains(&check.as_str())).collect())
}

/// Makes the session of a portal of the config that has none, by `apply` where it does that, and else by hand.
fn add(stage: &Stage, path: Path) -> Result<()> {
    stage.apply()?;
    // The target may still have the session of a node that was cut off.
    if stage.node.ok("ls /sys/class/iscsi_session | wc --lines")?.trim() != "2" {
        println!("        apply makes no session over {}; iscsiadm does", path.target());
        // Such a session finds no LUN by itself: `node.session.scan` is manual. The target has others, too.
        let scan = "echo '- - 1' | tee /sys/class/scsi_host/host*/scan";
        stage.node.ok(&format!("{}log_in {} && {scan}", scene::record_by_hand(), path.portal()))?;
    }
    Ok(())
}

/// Checks that `health` finds nothing wrong, and that nothing is planned.
fn is_well(stage: &Stage) -> Result<()> {
    let failing = failing(stage)?;
    if !failing.is_empty() {
        bail!("health finds {failing:?}: {}", stage.agent("health")?);
    }
    plans_nothing(&stage.node)
}

/// Checks that `health` names a path that is missing.
fn names_missing(stage: &Stage, path: Path) -> Result<()> {
    let rows = health::rows(stage)?;
    let of_it = rows.iter().filter(|row| !row.is_ok && has(&row.detail, &path.target()));
    if of_it.clone().count() == 0 {
        bail!("health does not name the path over {}: {rows:?}", path.target());
    }
    of_it.for_each(|row| println!("        health: {}: {}", row.check, row.detail));
    Ok(())
}

/// Checks that the filesystem has never given up.
fn never_shut_down(stage: &Stage) -> Result<()> {
    let log = stage.node.run("dmesg | grep -i -e 'shutting down filesystem' -e 'has been shut down'")?;
    if log.stdout.is_empty() { Ok(()) } else { bail!("the filesystem has shut down: {}", log.stdout) }
}

/// Lets a client write while the scenario plays, and then checks that no acknowledged write is missing.
fn under_a_client(stage: &mut Stage, play: impl FnOnce(&mut Stage, &Client) -> Result<()>) -> Result<()> {
    let client = Client::begin(stage)?;
    let played = play(stage, &client);
    // A scenario that failed has nothing to say of lost writes: etcd may be down.
    played?;
    client.end()?;
    never_shut_down(stage)
}
