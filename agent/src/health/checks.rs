//! One function per check.

use super::{
    Outcome::{self, CannotTell, Found},
    Seen,
};
use crate::{
    config::{Backing, Config, Iscsi},
    node::{
        Fact, KUBELET, Lun, LunView, MountUnit, Node,
        authority::{Authority, Record},
    },
    terms::Bytes,
};

/// A check that may end early: `?` on what must be known or present.
pub(super) type Checked = Result<Outcome, Outcome>;

pub(super) fn end(result: Checked) -> Outcome {
    result.unwrap_or_else(|outcome| outcome)
}

pub(super) fn known<T>(fact: &Fact<T>) -> Result<&T, Outcome> {
    fact.require().map_err(|why| CannotTell(why.to_owned()))
}

pub(super) fn ok(text: impl Into<String>) -> Checked {
    Ok(Outcome::Ok(text.into()))
}

pub(super) fn found<T>(text: impl Into<String>) -> Result<T, Outcome> {
    Err(Found(text.into()))
}

/// The record, when it says that the LUN is the truth.
fn on_lun(node: &Node) -> Result<&Record, Outcome> {
    match known(&node.record)? {
        Some(record) if record.authority == Authority::Lun => Ok(record),
        Some(_) => {
            found("the record says local disk: a migration was begun and not finished; run `etcd-lun apply`")
        }
        None => found("there is no record: etcd was not migrated; run `etcd-lun apply`"),
    }
}

pub(super) fn lun<'a>(config: &Config, node: &'a Node) -> Result<&'a Lun, Outcome> {
    match (known(&node.lun)?, &config.backing) {
        (LunView::Seen(lun), _) => Ok(lun),
        (LunView::NoSession | LunView::NotAttached, Backing::Device(device)) => {
            found(format!("{} leads to no disk; attach it to this machine", device.path))
        }
        (LunView::NoSession, Backing::Iscsi(_)) => found("no session to the target; run `etcd-lun apply`"),
        (LunView::NotAttached, Backing::Iscsi(_)) => {
            found("the session shows no such LUN; see its mapping at the target")
        }
    }
}

/// What the checks of table::ISCSI look at: they aren't run where there is no target.
pub(super) fn iscsi(config: &Config) -> Result<&Iscsi, Outcome> {
    config.backing.iscsi().ok_or_else(|| CannotTell("the config names no target".into()))
}

pub(super) fn record(seen: Seen<'_>) -> Outcome {
    if let Some(generation) = seen.node.rolled_back() {
        return Outcome::Ok(format!(
            "rolled back to the local disk on purpose, generation {generation}; `etcd-lun apply` moves it again"
        ));
    }
    end(on_lun(seen.node)
        .and_then(|record| ok(format!("LUN, generation {}, use {}", record.generation, record.activations))))
}

pub(super) fn session(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.sessions).and_then(|sessions| {
        let target = iscsi(seen.config)?.target.iqn.as_str();
        let ours: Vec<_> = sessions.iter().filter(|session| session.target == target).collect();
        let up: Vec<_> =
            ours.iter().filter(|session| session.is_logged_in()).map(|s| s.portal.clone()).collect();
        let down: Vec<_> = ours.iter().filter(|session| !session.is_logged_in()).collect();
        if let Some(session) = down.first() {
            return found(format!(
                "session {} to {} is {}; is the portal reachable?",
                session.sid, session.portal, session.state
            ));
        }
        if up.is_empty() { found("none to the target; run `etcd-lun apply`") } else { ok(up.join(", ")) }
    }))
}

pub(super) fn portals(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.sessions).and_then(|sessions| {
        let multipath = *known(&seen.node.initiator.multipathd_active)?;
        let wanted = &iscsi(seen.config)?.target.portals;
        let has = |portal| sessions.iter().any(|s| s.is_logged_in() && s.configured.as_ref() == Some(portal));
        let missing: Vec<_> = wanted.iter().filter(|portal| !has(portal)).map(ToString::to_string).collect();
        if missing.is_empty() {
            return ok(format!("all {} in use", wanted.len()));
        }
        if wanted.len() > 1 && !multipath && missing.len() < wanted.len() {
            return ok(format!(
                "1 of {} in use, the others for login only: multipathd doesn't run",
                wanted.len()
            ));
        }
        found(format!("no session at {}", missing.join(", ")))
    }))
}

pub(super) fn initiator_name(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.initiator.name).and_then(|name| {
        let wanted = iscsi(seen.config)?.initiator.as_str();
        match name.as_deref() {
            Some(name) if name == wanted => ok(name),
            Some(name) => found(format!(
                "it is {name}, the config says {wanted}; run `etcd-lun apply` when no session is in use"
            )),
            None => found(format!("none is set, the config says {wanted}; run `etcd-lun apply`")),
        }
    }))
}

pub(super) fn device_identity(seen: Seen<'_>) -> Outcome {
    end(lun(seen.config, seen.node).and_then(|lun| {
        let wwid = known(&lun.wwid)?;
        let record = known(&seen.node.record)?.as_ref();
        let wanted = record.map(|record| &record.wwid).or(seen.config.node.wwid.as_ref());
        match wanted {
            Some(wanted) if wanted != wwid => found(format!(
                "{} is {wwid}, expected {wanted}; correct that {}",
                seen.config.backing.place(),
                seen.config.backing.whence()
            )),
            Some(_) | None => ok(format!("{wwid} ({})", lun.device)),
        }
    }))
}

pub(super) fn mount(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.mount).and_then(|mount| {
        let at = &seen.config.etcd.data_dir;
        let Some(mount) = mount else {
            return found(format!("nothing is mounted on {at}; run `etcd-lun apply`"));
        };
        if mount.io_error {
            return found(format!(
                "{at} gives I/O errors: the filesystem has shut down; see that the LUN is reachable, then run `etcd-lun apply`"
            ));
        }
        let lun = lun(seen.config, seen.node)?;
        if lun.devno != mount.devno || mount.layers != 1 {
            return found(format!(
                "{at} is on {} ({}), expected {} ({})",
                mount.source, mount.devno, lun.device, lun.devno
            ));
        }
        ok(format!("{} on {at}", mount.source))
    }))
}

pub(super) fn mount_options(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.mount).and_then(|mount| {
        let Some(mount) = mount else { return found("nothing is mounted") };
        if mount.options.iter().any(|option| option == "ro") {
            return found("it is read-only; see the kernel's messages about the device");
        }
        let wanted = seen.config.lun.mount_options.iter().filter(|option| *option != "_netdev");
        let missing: Vec<_> = wanted.filter(|option| !mount.options.contains(option)).cloned().collect();
        if missing.is_empty() {
            return ok(mount.options.join(","));
        }
        found(format!("{} not in effect; stop etcd, `systemctl restart` the mount unit", missing.join(",")))
    }))
}

pub(super) fn mount_unit(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.mount_unit).and_then(|unit| match unit {
        MountUnit::Right => ok("as rendered"),
        MountUnit::Absent => {
            found("absent; write it with `etcd-lun render units --into /etc/systemd/system`")
        }
        MountUnit::Differs { path, how } => found(format!("{path} differs: {how}; render it again")),
        MountUnit::NotLoaded => found("changed since systemd read it; run `systemctl daemon-reload`"),
    }))
}

pub(super) fn stamp(seen: Seen<'_>) -> Outcome {
    end(on_lun(seen.node).and_then(|record| {
        if known(&seen.node.mount)?.is_none() {
            return Err(CannotTell("nothing is mounted".into()));
        }
        let Some(stamp) = known(&seen.node.mounted_stamp)? else {
            return found("what is mounted has no stamp: it is not the migrated data; stop etcd");
        };
        if stamp.machine_id != seen.node.identity.machine_id {
            return found(format!("it is stamped for {}; stop etcd", stamp.node));
        }
        if stamp.generation != record.generation || stamp.activations < record.activations {
            return found(format!(
                "it counts generation {}, use {}; the record {}, use {}: the LUN went back in time; stop etcd",
                stamp.generation, stamp.activations, record.generation, record.activations
            ));
        }
        ok(format!("{}, generation {}, use {}", stamp.node, stamp.generation, stamp.activations))
    }))
}

pub(super) fn fence(seen: Seen<'_>) -> Outcome {
    if seen.node.rolled_back().is_some() {
        return end(no_fence(seen.config, seen.node));
    }
    end(on_lun(seen.node).and_then(|_| {
        let at = &seen.config.etcd.data_dir;
        let local = known(&seen.node.local)?;
        if local.is_fenced() {
            return ok(format!("{at} holds no data and is immutable beneath the mount"));
        }
        let what = if local.is_empty() { "is not immutable" } else { "is not empty" };
        found(format!("{at} {what} beneath the mount; run `etcd-lun apply`"))
    }))
}

/// After a rollback the local data is in its place, and nothing over it.
fn no_fence(config: &Config, node: &Node) -> Checked {
    let at = &config.etcd.data_dir;
    if let Some(mount) = known(&node.mount)? {
        return found(format!(
            "{} is mounted over the local data in {at}; stop etcd and unmount it",
            mount.source
        ));
    }
    if known(&node.local)?.is_fenced() || known(&node.shelf)?.copy.is_some() {
        return found("the rollback is not finished; run `etcd-lun rollback`");
    }
    ok(format!("none on {at}: the local disk is etcd's again"))
}

/// Below this share etcd is near the end of its disk: its next WAL file and snapshot are 64 MiB
/// each at least (`server/storage/wal/wal.go`), and a defragmentation writes the database anew.
const FREE_PERCENT: u64 = 20;

pub(super) fn free_space(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.mount).and_then(|mount| {
        let Some(mount) = mount else { return found("nothing is mounted") };
        let Some((Bytes(free), Bytes(all))) = mount.free else {
            return Err(CannotTell("the filesystem gave no figures".into()));
        };
        let percent = free.saturating_mul(100) / all.max(1);
        let text = format!("{} of {} free ({percent} %)", Bytes(free), Bytes(all));
        if percent >= FREE_PERCENT {
            return ok(text);
        }
        found(format!(
            "{text}, less than {FREE_PERCENT} %; defragment etcd, or grow the LUN and run xfs_growfs"
        ))
    }))
}

pub(super) fn etcd(seen: Seen<'_>) -> Outcome {
    end(known(&seen.node.etcd).and_then(|etcd| {
        if !etcd.exists {
            return found(format!("systemd knows no unit {}", etcd.name));
        }
        if etcd.is_up() {
            return ok(format!("{} is {}", etcd.name, etcd.state));
        }
        let unit = if etcd.name.starts_with('/') { KUBELET } else { &etcd.name };
        found(format!("{} is {}; see `journalctl -u {unit}`", etcd.name, etcd.state))
    }))
}
