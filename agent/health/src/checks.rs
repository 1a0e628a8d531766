//! Checks of the record, the session, the mount, the fence and etcd: one function for each.

use super::report::{
    CheckInput, Checked,
    Outcome::{self, CannotTell},
    found, known, ok, outcome,
};
use config::{Backing, Config, Iscsi};
use node::{
    DataMount, EtcdState, Fact, ISCSID, InPlace, KUBELET, Lun, LunView, Node, Order, SeenSession, Selinux,
    authority::{Authority, Record},
    in_place,
};
use terms::{Bytes, CONTEXT, not_in_effect};

/// The record. The check ends unless the record says that the LUN is authoritative.
fn on_lun(node: &Node) -> Result<&Record, Outcome> {
    match known(&node.record)? {
        Some(record) if record.authority == Authority::Lun => Ok(record),
        Some(_) => found(
            "the record says that the local disk is authoritative: a migration was begun and not finished; run `etcd-lun apply`",
        ),
        None => found("there is no record: etcd was not migrated; run `etcd-lun apply`"),
    }
}

/// Returns true if etcd's data is certainly still on the local disk, and nothing is mounted over it. A migration that
/// was begun and has not reached its commit point counts too.
pub(super) fn is_not_migrated(node: &Node) -> bool {
    node.is_without_commit() && node.mount.known().is_some_and(Option::is_none)
}

/// Returns the parts to install first, for the end of a sentence.
fn missing_tools(node: &Node) -> String {
    match node.missing_tools.as_slice() {
        [] => String::new(),
        missing => format!("; first install what is missing: {}", missing.join(", ")),
    }
}

pub(super) fn lun<'a>(config: &Config, node: &'a Node) -> Result<&'a Lun, Outcome> {
    match (known(&node.lun)?, &config.backing) {
        (LunView::Seen(lun), _) => Ok(lun),
        (LunView::NoSession | LunView::NotAttached, Backing::Device(device)) => {
            found(format!("{} leads to no disk; attach it to this machine", device.path))
        }
        (LunView::NoSession, Backing::Iscsi(_)) => found(
            "no session to the target; `etcd-lun status` has the last try's error; run `etcd-lun apply`",
        ),
        (LunView::NotAttached, Backing::Iscsi(_)) => {
            found("the session shows no such LUN; check its mapping at the target")
        }
    }
}

/// The target. Checks that need one are not run if the config names a device (`table::ISCSI_ONLY`).
pub(super) fn iscsi(config: &Config) -> Result<&Iscsi, Outcome> {
    config.backing.iscsi().ok_or_else(|| CannotTell("the config names no target: it has a [device]".into()))
}

pub(super) fn record(input: CheckInput<'_>) -> Outcome {
    let is_on_lun = |record: &Record| record.authority == Authority::Lun;
    if matches!(input.node.barred_data, Fact::Known(Some(_)))
        && !input.node.record.known().is_some_and(|record| record.as_ref().is_some_and(is_on_lun))
    {
        return Outcome::Found(
            "the local data is barred, because the LUN was newer than the record; see `etcd-lun plan`, and decide with `etcd-lun claim`".into(),
        );
    }
    if let Some(generation) = input.node.rolled_back() {
        let again = match input.config.node.migrate {
            true => "`etcd-lun apply` moves the data to the LUN again",
            false => "`migrate = false` in the node's entry keeps it there",
        };
        return Outcome::Ok(format!(
            "rolled back to the local disk on purpose, generation {generation}; {again}"
        ));
    }
    if is_not_migrated(input.node) {
        if !input.config.node.migrate {
            return Outcome::Ok("local disk, because the node's entry has `migrate = false`".into());
        }
        let begun = input.node.record.known().is_some_and(Option::is_some);
        let so_far = if begun { "a migration was begun and not finished" } else { "not migrated yet" };
        return Outcome::Found(format!(
            "{so_far}: etcd's data is on the local disk; see `etcd-lun plan`, then run `etcd-lun apply`{}",
            missing_tools(input.node)
        ));
    }
    outcome(on_lun(input.node).and_then(|record| {
        let unused =
            if input.config.node.migrate { "" } else { "; `migrate = false` in its entry has no effect" };
        ok(format!("LUN, generation {}, use {}{unused}", record.generation, record.activations))
    }))
}

pub(super) fn session(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.sessions).and_then(|sessions| {
        let Iscsi { target, .. } = iscsi(input.config)?;
        let ours: Vec<_> = sessions.iter().filter(|session| session.is_of(&target.iqn)).collect();
        let up: Vec<_> =
            ours.iter().filter(|session| session.is_logged_in()).map(|s| s.at()).collect();
        let down: Vec<_> = ours.iter().filter(|session| !session.is_logged_in()).collect();
        if !ours.is_empty() && input.health.iscsid == Fact::Known(false) {
            return found(format!(
                "iscsid does not run, and nobody else makes a session again whose connection is lost ({} of {} are down); etcd-lun starts it within a minute: if it does not, see `systemctl status {ISCSID}`",
                down.len(),
                ours.len()
            ));
        }
        if let Some(session) = down.first() {
            let why = if input.node.leaves_alone(session) {
                "its portal accepts connections, and etcd-lun restarts iscsid after 30 s, so if this stays, the target refuses the \
                 log-in: see `journalctl -u iscsid`, and let the target accept the CHAP secret that the session was made with; or \
                 another machine has this initiator name, and each ends the other's session"
            } else {
                "is the portal reachable? If it is gone for good, see \"A portal dies for good\" in docs/guide.md"
            };
            return found(format!(
                "session {} to {} is {}; {why}",
                session.sid,
                session.at(),
                session.state
            ));
        }
        if up.is_empty() {
            found("there is no session to the target; run `etcd-lun apply`")
        } else {
            ok(up.join(", "))
        }
    }))
}

pub(super) fn portals(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.sessions).and_then(|sessions| {
        let multipath = *known(&input.node.initiator.multipathd_active)?;
        let Iscsi { target, .. } = iscsi(input.config)?;
        let (wanted, ours) = (&target.portals, |s: &SeenSession| s.is_of(&target.iqn));
        let is_left = |s: &&SeenSession| ours(s) && s.configured.is_none() && s.portal.is_some();
        if let Some(left) = sessions.iter().find(is_left) {
            let cure = if multipath {
                "run `etcd-lun apply`, which logs it out when there is a session at each portal of the config"
            } else {
                "it stays until the next boot, so keep that portal until then"
            };
            return found(format!(
                "session {} is at {}, which the config does not name: {cure}",
                left.sid,
                left.at()
            ));
        }
        let has = |portal| {
            sessions.iter().any(|s| ours(s) && s.is_logged_in() && s.configured.as_ref() == Some(portal))
        };
        let missing: Vec<_> = wanted.iter().filter(|portal| !has(portal)).map(ToString::to_string).collect();
        if missing.is_empty() {
            return ok(format!("all {} in use", wanted.len()));
        }
        if wanted.len() > 1 && !multipath && missing.len() < wanted.len() {
            return ok(format!(
                "1 of {} in use, the others only for login: multipathd does not run",
                wanted.len()
            ));
        }
        found(format!("no session at {}", missing.join(", ")))
    }))
}

pub(super) fn initiator_name(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.sessions).and_then(|sessions| {
        let Iscsi { target, initiator, .. } = iscsi(input.config)?;
        match sessions.iter().find(|session| session.has_former_name(&target.iqn, initiator)) {
            Some(session) => found(format!(
                "session {} has {}, the config says {initiator}; allow that name at the target, then reboot this node",
                session.sid,
                session.initiator.as_deref().unwrap_or("none")
            )),
            None => ok(initiator.as_str()),
        }
    }))
}

pub(super) fn device_identity(input: CheckInput<'_>) -> Outcome {
    outcome(lun(input.config, input.node).and_then(|lun| {
        let wwid = known(&lun.wwid)?;
        let record = known(&input.node.record)?.as_ref();
        let wanted = record.map(|record| &record.wwid).or(input.config.node.wwid.as_ref());
        match wanted {
            Some(wanted) if wanted != wwid => found(format!(
                "{} is {wwid}, expected {wanted}; correct that {}",
                input.config.backing.place(),
                input.config.backing.where_to_fix()
            )),
            Some(_) | None => ok(format!("{wwid} ({})", lun.device)),
        }
    }))
}

/// Returns true if no session to the target is logged in.
fn is_cut_off(input: CheckInput<'_>) -> bool {
    let (Some(sessions), Some(Iscsi { target, .. })) =
        (input.node.sessions.known(), input.config.backing.iscsi())
    else {
        return false;
    };
    !sessions.iter().any(|session| session.is_of(&target.iqn) && session.is_logged_in())
}

pub(super) fn mount(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.mount).and_then(|mount| {
        let at = &input.config.etcd.data_dir;
        let Some(mount) = mount else {
            return found(match &input.node.claims {
                Fact::Known(claims) if !claims.is_empty() => format!(
                    "nothing is mounted on {at}, and etcd's data may be on another disk, by {}; see `etcd-lun plan`",
                    claims.join(", ")
                ),
                Fact::Known(_) | Fact::Unknown(_) => format!("nothing is mounted on {at}; run `etcd-lun apply`"),
            });
        };
        if mount.io_error {
            let cure = if is_cut_off(input) {
                "make the target reachable (see the check `session`): then etcd-lun mounts the LUN anew"
            } else {
                "etcd-lun mounts the LUN anew within a minute; if it does not, run `etcd-lun apply`, which stops etcd, mounts the LUN again and starts etcd"
            };
            return found(format!("{at} gives I/O errors: the filesystem has shut down; {cure}"));
        }
        let lun = lun(input.config, input.node)?;
        if lun.devno != mount.devno || mount.layers != 1 {
            return found(format!(
                "{at} is on {} ({}), expected {} ({})",
                mount.source, mount.devno, lun.device, lun.devno
            ));
        }
        let claims = known(&input.node.claims)?;
        if !claims.is_empty() {
            return found(format!(
                "{at} is on the LUN, and the next boot may mount another disk there, by {}; remove that",
                claims.join(", ")
            ));
        }
        // The filesystem goes on, and the kernel takes such a page for clean.
        let errors = input.health.kernel_errors.known().into_iter().flatten();
        if let Some(said) = errors.rev().find(|said| said.contains(": writeback error on inode ")) {
            return found(format!(
                "a write has failed (`{said}`): only memory has what etcd reads then, and a reboot loses it; before one, follow \"A write has failed\" in `etcd-lun explain troubleshooting`"
            ));
        }
        ok(format!("{} on {at}", mount.source))
    }))
}

/// The filesystem of another disk is not judged as the LUN's: a cure for that would lead away from the data.
pub(super) fn check_is_lun(input: CheckInput<'_>, mount: &DataMount) -> Result<(), Outcome> {
    let Fact::Known(LunView::Seen(lun)) = &input.node.lun else { return Ok(()) };
    if lun.devno == mount.devno {
        return Ok(());
    }
    Err(CannotTell(format!("{} is mounted, not the LUN; see the check `mount`", mount.source)))
}

pub(super) fn mount_options(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.mount).and_then(|mount| {
        let Some(mount) = mount else { return found("nothing is mounted") };
        check_is_lun(input, mount)?;
        if mount.options.iter().any(|option| option == "ro") {
            return found("it is read-only; see the kernel's messages about the device: `journalctl -k`");
        }
        // Where SELinux is off, the kernel has no labels.
        let labelled = matches!(input.node.selinux, Fact::Known(Selinux::On { .. }));
        let wanted = input.config.lun.options_in_effect();
        let wanted = wanted.iter().map(String::as_str);
        let missing =
            not_in_effect(wanted.filter(|option| labelled || !option.starts_with(CONTEXT)), &mount.options);
        if missing.is_empty() {
            return ok(mount.options.join(","));
        }
        found(format!(
            "mounted without {}: reboot, or stop etcd, run `systemctl stop {}` and then `etcd-lun apply`",
            missing.join(","),
            unit::mount_unit_name(&input.config.etcd.data_dir)
        ))
    }))
}

pub(super) fn stamp(input: CheckInput<'_>) -> Outcome {
    outcome(on_lun(input.node).and_then(|record| {
        let Some(mount) = known(&input.node.mount)? else {
            return Err(CannotTell("nothing is mounted".into()));
        };
        let Some(stamp) = known(&input.node.mounted_stamp)? else {
            return found("the mounted filesystem has no stamp, so it is not the migrated data; stop etcd");
        };
        let (of, used) = (stamp.generation, stamp.activations);
        let both = format!(
            "its stamp has generation {of}, use {used}, the record has generation {}, use {}",
            record.generation, record.activations
        );
        match input.node.order(None, stamp) {
            Some(Order::Same { .. }) => {}
            Some(Order::OtherOwner) => return found(format!("it is stamped for {}; stop etcd", stamp.node)),
            Some(Order::Older) => {
                return found(format!("{both}: the LUN was restored from a snapshot; stop etcd"));
            }
            Some(Order::Newer | Order::Released | Order::OtherFilesystem) | None => {
                return found(format!(
                    "{both}, which has not announced that use: another computer uses the LUN, or this node's disk went back in time; stop etcd"
                ));
            }
        }
        let lun = lun(input.config, input.node)?;
        let stop = "stop etcd now if the other members are a quorum, else first run `etcdctl snapshot save` to another disk; see `etcd-lun explain changed-beneath`";
        if let Some(differ) = &lun.paths_differ {
            return found(format!("{differ}; before that, {stop}"));
        }
        let lag = match known(&in_place(record, mount, stamp, &lun.content))? {
            InPlace::Current => "",
            InPlace::Behind => "; XFS writes it to its place within about 30 s",
            InPlace::OtherVolume(what) | InPlace::Foreign(what) => return found(format!(
                "the LUN {what}: another computer writes to it, or it was restored or mapped anew beneath the mount; {stop}"
            )),
        };
        ok(format!("{}, generation {}, use {}{lag}", stamp.node, stamp.generation, stamp.activations))
    }))
}

pub(super) fn fence(input: CheckInput<'_>) -> Outcome {
    if input.node.rolled_back().is_some() {
        return outcome(no_fence(input.config, input.node));
    }
    outcome(on_lun(input.node).and_then(|_| {
        let at = &input.config.etcd.data_dir;
        let local = known(&input.node.local)?;
        if local.is_fenced() {
            return ok(format!("{at} holds no data and is immutable beneath the mount"));
        }
        let what = if local.is_empty() { "is not immutable" } else { "is not empty" };
        found(format!("{at} {what} beneath the mount; run `etcd-lun apply`"))
    }))
}

/// After a rollback: the local data is in its place, and nothing is mounted over it.
fn no_fence(config: &Config, node: &Node) -> Checked {
    let at = &config.etcd.data_dir;
    if let Some(mount) = known(&node.mount)? {
        return found(format!(
            "{} is mounted over the local data in {at}; stop etcd and unmount it",
            mount.source
        ));
    }
    if known(&node.local)?.is_fenced() || known(&node.rollback_staging)?.copy.is_some() {
        return found("the rollback is not finished; run `etcd-lun rollback`");
    }
    ok(format!("none on {at}: etcd's data is on the local disk again"))
}

/// What etcd needs beside a second database, which a defragmentation writes: its next files of the log, of 64 MiB each
/// (`server/storage/wal/wal.go`), and a snapshot.
const NEXT_FILES: u64 = 256 << 20;

pub(super) fn free_space(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.mount).and_then(|mount| {
        let Some(mount) = mount else { return found("nothing is mounted") };
        let Some((Bytes(free), Bytes(all))) = mount.free else {
            return Err(CannotTell("the filesystem reports no sizes".into()));
        };
        let Some(database) = mount.database else {
            return Err(CannotTell("the size of etcd's database cannot be read".into()));
        };
        let text = format!("{} of {} free, and the database has {database}", Bytes(free), Bytes(all));
        if free > database.0.saturating_add(NEXT_FILES) {
            return ok(text);
        }
        found(format!(
            "{text}: a defragmentation, which writes a second one, can fill the LUN and end etcd. Do not defragment; grow the LUN {}, then run `etcd-lun apply`",
            input.config.backing.where_to_fix()
        ))
    }))
}

pub(super) fn etcd(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.node.etcd).and_then(|etcd| {
        if !etcd.exists {
            return found(format!("systemd does not know the unit {}: set `etcd.unit`", etcd.name));
        }
        if etcd.is_up() {
            return match known(&etcd.other_place)? {
                None => ok(format!("{} is {}", etcd.name, etcd.state)),
                Some(other) => found(format!(
                    "{} {other}, so its data is not in {}; correct its `--data-dir` or `--wal-dir`, or `etcd.data_dir`",
                    etcd.name, input.config.etcd.data_dir
                )),
            };
        }
        let unit = match etcd.state {
            EtcdState::Unit(_) => &etcd.name,
            EtcdState::Pod(_) => KUBELET,
        };
        found(format!("{} is {}; see `journalctl -u {unit}`", etcd.name, etcd.state))
    }))
}

pub(super) fn cluster(input: CheckInput<'_>) -> Outcome {
    let Some(cluster) = &input.node.cluster else {
        return CannotTell("the cluster is asked only by hand, while etcd runs".into());
    };
    outcome(known(cluster).and_then(|cluster| {
        let others = cluster.other_voters().count();
        let text = cluster.to_string();
        if cluster.own.is_healthy() && cluster.healthy_others() == others {
            ok(text)
        } else if text.contains("alarm:NOSPACE") {
            // etcd-io/website `content/en/docs/v3.5/op-guide/maintenance.md`, "Space quota".
            found(format!(
                "{text}. etcd's database is at its quota, and etcd takes no writes. While `free-space` is ok: compact etcd, defragment one member after the other, then run `etcdctl alarm disarm`"
            ))
        } else {
            found(format!("{text}; see `etcdctl endpoint status --cluster`, and etcd's log there"))
        }
    }))
}
