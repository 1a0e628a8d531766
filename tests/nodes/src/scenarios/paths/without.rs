//! No map: multipathd is stopped, absent, or told to leave the LUN alone. And multipathd ends while etcd runs on a map.

use anyhow::{Context, Result, bail};

use super::super::{Declined, declines_command, main_pid, refused};
use super::{
    active, as_promised, failing, is_on_map, is_well, plans_nothing, prepare, promise, under_a_client,
    wanted, works,
};
use crate::net::Cut;
use crate::scene::{self, INITIATOR, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("paths/without-a-map", without), Scenario::new("paths/daemon-ends", daemon_ends)]
}

/// Takes multipathd out of the node. Its unit then cannot start.
const ABSENT: &str = "systemctl stop multipathd.socket multipathd.service
    mount -o remount,bind,rw /usr; mv /usr/sbin/multipathd /usr/sbin/multipathd.away; mount -o remount,bind,ro /usr
    systemctl mask --quiet multipathd.service multipathd.socket";

/// Two sessions without a map are refused, whoever made them. One session is used.
fn without(stage: &mut Stage) -> Result<()> {
    prepare(stage)?;
    let wanted = wanted(stage);
    two_disks(stage, &wanted)?;
    under_a_client(stage, |stage, client| {
        stage.node.ok(ABSENT)?;
        let absent = refused("no-multipathd", &[]);
        for verb in ["plan", "apply"] {
            declines_command(stage, &format!("etcd-lun {verb}"), absent).context("multipathd is absent")?;
        }
        // A config that does not want a map uses one session.
        stage.configure(&any(&wanted))?;
        let ((), waited) = client.during(|| {
            let planned = verbs::planned(&stage.node, "plan")?;
            if !planned.has_step("log-in") {
                bail!("without multipathd one session is enough: {planned:?}");
            }
            stage.apply()?;
            stage.is_on_lun()
        })?;
        println!("        the migration without multipathd: {waited}");
        if stage.target.sessions()? != 1 {
            bail!("without multipathd the target has {} sessions", stage.target.sessions()?);
        }
        is_well(stage)?;
        // Somebody logs in at the second portal. The mounted LUN must stay as it is.
        let etcd = main_pid(stage)?;
        let ((), waited) = client.during(|| {
            stage.node.ok(&format!(
                "{}log_in {} && iscsiadm -m session --rescan; udevadm settle",
                scene::record_by_hand(),
                wanted.portals[1]
            ))?;
            for verb in ["plan", "apply", "health"] {
                let output = stage.agent(verb)?;
                println!("        a second disk of the LUN in use: {verb} ended with {}", output.code);
                output
                    .both()
                    .lines()
                    .filter(|line| line.contains(" FOUND "))
                    .for_each(|line| println!("          {line}"));
            }
            Ok(())
        })?;
        println!("        meanwhile: {waited}");
        waited.none_failed()?;
        if main_pid(stage)? != etcd {
            bail!("etcd was restarted");
        }
        stage.is_on_lun()
    })
}

/// The same config, which does not ask for a map.
fn any(wanted: &Wanted) -> Wanted {
    Wanted { target: String::new(), ..wanted.clone() }
}

const TWO_PATHS: Declined = refused("several-paths", &["LUN 1"]);

/// Both portals are logged in to: by somebody, without multipathd; by us, with a multipathd that must leave the LUN alone.
fn two_disks(stage: &mut Stage, wanted: &Wanted) -> Result<()> {
    // With our interface: a session of another interface is somebody else's, and what it shows is not our LUN.
    let log_in = format!(
        "set -e; echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi; {}
         for portal in {}; do log_in $portal; done
         iscsiadm -m session --rescan; udevadm settle",
        scene::record_by_hand(),
        wanted.portals.join(" "),
    );
    stage.node.ok(&log_in)?;
    stage.configure(&any(wanted))?;
    for verb in ["plan", "apply"] {
        declines_command(stage, &format!("etcd-lun {verb}"), TWO_PATHS)
            .context("two sessions, multipathd stopped")?;
    }
    // A run that has not mounted the LUN leaves no session of ours.
    if stage.target.sessions()? != 0 {
        bail!("after a refusal the target still has {} sessions", stage.target.sessions()?);
    }
    stage.configure(wanted)?;
    // A blacklist of WWIDs would not count: etcd-lun's drop-in exempts the LUN from it.
    stage.node.ok(
        "printf 'blacklist {\\n devnode \"^sd\"\\n}\\n' >/etc/multipath/conf.d/away.conf; systemctl start multipathd",
    )?;
    declines_command(stage, "etcd-lun apply", TWO_PATHS).context("on multipathd's blacklist")?;
    stage.node.ok("rm /etc/multipath/conf.d/away.conf; systemctl stop multipathd.socket multipathd")?;
    Ok(())
}

/// multipathd ends while etcd runs on its map. The map stays in the kernel, and still loses a path that fails.
fn daemon_ends(stage: &mut Stage) -> Result<()> {
    prepare(stage)?;
    stage.node.ok("systemctl start multipathd")?;
    stage.apply()?;
    is_on_map(stage)?;
    under_a_client(stage, |stage, client| {
        let (etcd, promised) = (main_pid(stage)?, promise(stage, Cut::Drop)?);
        stage.node.ok("systemctl stop multipathd.socket multipathd.service")?;
        let found = failing(stage)?;
        if !found.contains("paths") {
            bail!("health does not say that multipathd has ended: {found:?}");
        }
        plans_nothing(&stage.node)?;
        stage.apply()?;
        if promise(stage, Cut::Drop)? != promised {
            bail!("apply changed the sessions' time-outs under the map");
        }
        let path = active(stage)?;
        let ((), waited) = client.during(|| {
            stage.bed.net.cut(path, Cut::Drop)?;
            works(stage, 1)
        })?;
        as_promised("a path is cut without multipathd", &waited, promised)?;
        stage.bed.net.repair()?;
        stage.node.ok("systemctl start multipathd")?;
        works(stage, 2)?;
        is_well(stage)?;
        if main_pid(stage)? != etcd {
            bail!("etcd was restarted");
        }
        is_on_map(stage)
    })
}
