//! The facts that `observe` would report about the model's world.

use crate::{
    outside::OTHERS,
    run::Runtime,
    world::{Disk, Etcd, Guards, Local, Record, Stamp, Tree, World, Writes},
};
use config::Config;
use node::{
    BarredData, Content, Fact, LunView, MemberHealth, Node, StagedCopy, authority, authority::LunUse,
};
use std::{sync::LazyLock, time::Duration};
use terms::{Bytes, Fingerprint, FsUuid, Nonce, RecordedFingerprint, Span};

/// The UUID for a small number.
pub fn uuid(id: u8) -> FsUuid {
    FsUuid([id; 16])
}

pub fn number(uuid: &FsUuid) -> u8 {
    uuid.0[0]
}

/// Each config is parsed once, because it is used millions of times.
pub fn config(runtime: Runtime) -> &'static Config {
    static OF_UNIT: LazyLock<Config> = LazyLock::new(|| support::config_for("systemd"));
    static OF_POD: LazyLock<Config> = LazyLock::new(|| support::config_for("static-pod"));
    match runtime {
        Runtime::Unit => &OF_UNIT,
        Runtime::StaticPod => &OF_POD,
    }
}

/// The fingerprint of a copy that matches no moment.
const NO_COPY: Writes = Writes::MAX;

pub fn print(writes: Writes) -> Fingerprint {
    Fingerprint { seed: 0, hash: [writes; 16] }
}

fn a_use(activations: u8, nonce: u8) -> LunUse {
    LunUse { activations: activations.into(), nonce: Nonce([nonce; 16]) }
}

pub fn record(of: Record) -> authority::Record {
    let first = of.nonce.or(of.announced.map(|(_, nonce)| nonce)).unwrap();
    let begun = authority::Record::begin(
        of.generation.into(),
        uuid(of.id),
        support::wwid(),
        config(Runtime::Unit).etcd.data_dir.clone(),
        Nonce([first; 16]),
    );
    let used = |record: authority::Record| match of.activations {
        0 => record,
        activations => record.used(a_use(activations, of.nonce.unwrap())),
    };
    // The stamp of the record's last use.
    let last = |generation: u8| {
        let last = a_use(of.activations, of.nonce.unwrap());
        authority::Stamp::new(generation.into(), support::MACHINE.into(), "master-0".into(), last)
    };
    let record = match (of.lun, of.print) {
        (true, taken) => used(begun.commit(taken.map(print))),
        (false, Some(taken)) if of.rolled_back => used(begun.commit(None))
            .leave(of.generation.into(), &last(of.generation - 1))
            .roll_back(print(taken)),
        (false, _) => begun,
    };
    match of.announced {
        Some((activations, nonce)) if of.lun => {
            record.announcing(&last(of.generation), a_use(activations, nonce))
        }
        _ => record,
    }
}

pub fn stamp(of: Stamp, world: &World, guards: Guards) -> authority::Stamp {
    let of_record = |value: u8, seen: bool, get: fn(Record) -> u8| match world.record {
        Some(record) if !seen => get(record),
        _ => value,
    };
    let machine = if of.ours || !guards.owner { support::MACHINE } else { support::OTHER_MACHINE };
    let activations = of_record(of.activations, guards.counter, |record| record.activations);
    let nonce = of_record(of.nonce, guards.counter, |record| record.nonce.unwrap_or(0));
    let stamp = authority::Stamp::new(
        of_record(of.generation, guards.generation, |record| record.generation).into(),
        machine.into(),
        "master-0".into(),
        a_use(activations, nonce),
    );
    if of.released { stamp.release() } else { stamp }
}

fn content(world: &World, staged: bool, guards: Guards) -> Content {
    match if guards.in_place { world.device() } else { world.disk } {
        Disk::Blank => Content::Blank,
        Disk::Unfinished(id) => Content::Unfinished { uuid: uuid(id) },
        Disk::Foreign => Content::Foreign { found: "somebody's data".into() },
        Disk::Xfs { id, tree, stamp: found } => {
            let id = match world.record {
                Some(record) if !guards.uuid => record.id,
                _ => id,
            };
            let mut stamp = found.map(|found| stamp(found, world, guards));
            // Another node of the same machine id, as one that was cloned and got a name of its own.
            if let (Some(stamp), Some(Stamp { ours: false, .. }), OTHERS, true) =
                (&mut stamp, found, id, guards.owner)
            {
                (stamp.machine_id, stamp.node) = (support::MACHINE.into(), "master-9".into());
            }
            match support::xfs(uuid(id), stamp, staged) {
                Content::Xfs { uuid, label, size, stamp, settled, .. } => {
                    let empty = settled.then_some(tree == Tree::Whole(0));
                    Content::Xfs { uuid, label, size, stamp, settled, empty }
                }
                other => other,
            }
        }
    }
}

fn local(world: &World, guards: Guards) -> node::LocalDir {
    use node::LocalDir;
    match world.local {
        Local::Absent => LocalDir::Absent,
        // The file `member` that keeps etcd out does not count as an entry.
        Local::Empty => support::dir(&[], false),
        Local::Barred => support::barred(false),
        Local::Fenced => support::barred(true),
        Local::Data(writes) => match support::dir(&["member"], false) {
            LocalDir::Present { entries, barred, immutable, with_state, size, .. } => {
                let taken = world.record.filter(|record| record.lun);
                let fingerprint = taken.map(|record| match guards.fingerprint {
                    true => print(writes),
                    false => print(record.print.unwrap_or(writes)),
                });
                LocalDir::Present { entries, barred, immutable, fingerprint, with_state, size }
            }
            LocalDir::Absent => LocalDir::Absent,
        },
    }
}

/// All facts. `staged` says whether the run that observes has the LUN mounted for itself.
pub fn node(world: &World, staged: bool, guards: Guards) -> Node {
    let fresh = world.record.map_or(0, |record| record.generation) + 1;
    let mut node = match world.session {
        true => support::attached(content(world, staged, guards)),
        false => support::node(),
    };
    // The model has no time-outs. They are always as the config wants them.
    for session in support::known(&mut node.sessions) {
        session.session.recovery_timeout = Some(3600);
    }
    if !world.reachable && world.session {
        support::known(&mut node.sessions)[0].session.state = "FAILED".into();
        node.lun = Fact::Known(LunView::NoSession);
    }
    if let (true, Fact::Known(LunView::Seen(lun))) = (world.two_volumes && guards.paths, &mut node.lun) {
        lun.paths_differ = Some("two volumes have one WWID".into());
        lun.content = Fact::Unknown("two volumes have one WWID".into());
    }
    node.fresh_uuid = Fact::Known(uuid(fresh));
    node.fresh_nonce = Fact::Known(Nonce([world.nonce; 16]));
    node.barred_data =
        Fact::Known(world.barred.map(|barred| BarredData { returns_as: barred.returns_as.map(u64::from) }));
    node.record = Fact::Known(
        world
            .record
            .map(|found| record(Record { rolled_back: found.rolled_back && guards.rolled_back, ..found })),
    );
    node.local = Fact::Known(local(world, guards));
    let returning =
        node.returning().zip(world.shelf).filter(|(next, shelf)| *next == u64::from(shelf.generation));
    let rolled_back = node.rolled_back().is_some();
    support::known(&mut node.rollback_staging).copy = returning.map(|(_, shelf)| StagedCopy {
        ours: true,
        size: Bytes(1),
        fingerprint: rolled_back.then(|| match shelf.tree {
            Tree::Whole(writes) => print(writes),
            Tree::Partial => print(NO_COPY),
        }),
    });
    if world.mounted {
        let mut mount = support::data_mount("8:16");
        mount.io_error = world.shut && guards.shut;
        mount.free = Some((Bytes(19 << 30), Bytes(20 << 30)));
        node.mount = Fact::Known(Some(mount));
        node.mounted_stamp = match world.disk {
            Disk::Xfs { stamp: Some(found), .. } => Fact::Known(Some(stamp(found, world, guards))),
            _ => Fact::Known(None),
        };
        if world.shut {
            node.mounted_stamp = Fact::Unknown("I/O error".into());
        }
    }
    let (state, queued) = match world.etcd {
        Etcd::Down => ("inactive", false),
        Etcd::Queued => ("inactive", true),
        Etcd::Failed => ("failed", false),
        Etcd::OnLocal | Etcd::OnLun => ("active", false),
    };
    let mut etcd = support::etcd(state);
    etcd.start_queued = queued;
    etcd.stopped_by_us = world.stopped_by_us;
    if world.elsewhere && guards.source {
        etcd.other_place = Fact::Known(world.is_running().then(|| "/var/other/member/snap/db".into()));
        node.idle = Fact::Known(Some(Span(Duration::from_secs(86_400))));
    }
    node.etcd = Fact::Known(etcd);
    node.cluster = world.is_running().then(|| {
        let mut cluster = support::cluster(3);
        if !world.others {
            cluster.others[0].health = MemberHealth::NotHealthy("connection refused".into());
        }
        Fact::Known(cluster)
    });
    node
}

pub fn small(record: &authority::Record) -> Record {
    Record {
        lun: record.authority == authority::Authority::Lun,
        generation: u8::try_from(record.generation).unwrap(),
        id: number(&record.uuid),
        print: record.fingerprint.map(|print| match print {
            RecordedFingerprint::Ours(print) => print.hash[0],
            RecordedFingerprint::Older(_) => panic!("no older version takes part"),
        }),
        activations: u8::try_from(record.activations).unwrap(),
        nonce: record.nonce.map(|nonce| nonce.0[0]),
        announced: record.announced.map(|next| (u8::try_from(next.activations).unwrap(), next.nonce.0[0])),
        rolled_back: record.rolled_back,
    }
}

pub fn small_stamp(stamp: &authority::Stamp) -> Stamp {
    Stamp {
        generation: u8::try_from(stamp.generation).unwrap(),
        activations: u8::try_from(stamp.activations).unwrap(),
        nonce: stamp.nonce.unwrap().0[0],
        released: stamp.released,
        ours: stamp.machine_id == support::MACHINE,
    }
}
