//! Which copy is authoritative: the order of record and stamp, and the holes that it closes.

use super::*;
use crate::machine::seen;
use etcd_lun::{
    node::{BarredData, Order, order},
    plan::AuthorityRefusal,
};

const SAME: Order = Order::Same { unused: false };
const UNUSED: Order = Order::Same { unused: true };

/// The order of a record and a stamp of one filesystem and one owner.
fn of(record: Option<&Record>, stamp: &Stamp) -> Order {
    order(record, Some(OURS), stamp, MACHINE)
}

#[test]
fn a_record_that_says_lun_accepts_its_own_use_and_the_one_that_it_announced() {
    let record = used(5);
    let announcing = record.clone().announcing(&stamp(1, 5), clones(6));
    for (record, stamp, expected) in [
        (&record, stamp(1, 5), SAME),
        (&announcing, stamp(1, 5), SAME),
        (&announcing, stamp(1, 5).used(clones(6)), SAME),
        // Ahead, and not announced: a clone has counted the same number.
        (&announcing, stamp(1, 6), Order::Newer),
        (&record, stamp(1, 6), Order::Newer),
        (&record, stamp(1, 500), Order::Newer),
        (&record, stamp(2, 5), Order::Newer),
        (&record, stamp(2, 0), Order::Newer),
        // A rollback is committed before it releases the LUN.
        (&record, stamp(1, 5).release(), Order::Newer),
        (&record, stamp(1, 4), Order::Older),
        (&record, stamp(1, 5).used(clones(5)), Order::Older),
        (&record, stamp(0, 9), Order::Older),
        // An older program has used the LUN.
        (&record, old_stamp(1, 5), Order::Older),
        (&record, old_stamp(1, 6), Order::Newer),
    ] {
        assert_eq!(of(Some(record), &stamp), expected, "{record:?}\n{stamp:?}");
    }
    let committed = super::record().commit(Some(DATA));
    assert_eq!(of(Some(&committed), &stamp(1, 0)), UNUSED);
    assert_eq!(of(Some(&committed), &stamp(1, 1)), Order::Newer);
}

/// A run was cut short after the stamp, and the next one right after it had announced its own use: the stamp is still known.
#[test]
fn a_use_that_was_announced_stays_known_when_the_next_one_is() {
    let cut = used(5).announcing(&stamp(1, 5), clones(6));
    let stamped = stamp(1, 5).used(clones(6));
    let next = cut.announcing(&stamped, nth(7));
    assert_eq!(of(Some(&next), &stamped), SAME);
    assert_eq!(of(Some(&next), &stamped.used(nth(7))), SAME);
}

#[test]
fn a_record_that_says_local_accepts_its_own_attempt_and_what_a_rollback_left() {
    let (begun, returned) = (record(), rolled_back(DATA));
    for (record, stamp, expected) in [
        (&begun, stamp(1, 0), UNUSED),
        (&begun, stamp(1, 0).used(clones(0)), Order::Newer),
        (&begun, stamp(1, 1), Order::Newer),
        (&begun, stamp(2, 500), Order::Newer),
        (&begun, stamp(2, 0), Order::Newer),
        (&begun, stamp(0, 9), Order::Older),
        (&begun, stamp(0, 9).release(), Order::Released),
        // A released LUN of this attempt: etcd ran on it, and its writes are in no copy that this record knows.
        (&begun, stamp(1, 7).release(), Order::Newer),
        (&returned, stamp(1, 1), Order::Released),
        (&returned, stamp(1, 1).release(), Order::Released),
        (&returned, stamp(1, 2), Order::Older),
        (&returned, stamp(2, 1), Order::Newer),
        (&returned, stamp(3, 7), Order::Newer),
    ] {
        assert_eq!(of(Some(record), &stamp), expected, "{record:?}\n{stamp:?}");
    }
}

#[test]
fn without_a_record_only_a_lun_in_use_says_something() {
    assert_eq!(of(None, &stamp(1, 1)), Order::Newer);
    assert_eq!(of(None, &old_stamp(1, 1)), Order::Newer);
    for stamp in [stamp(1, 0), stamp(1, 1).release(), foreign_stamp(1)] {
        assert_eq!(of(None, &stamp), Order::OtherFilesystem, "{stamp:?}");
    }
}

#[test]
fn owner_and_filesystem_come_first() {
    for record in [record(), used(1), rolled_back(DATA)] {
        assert_eq!(of(Some(&record), &foreign_stamp(1)), Order::OtherOwner);
        assert_eq!(order(Some(&record), Some(FOREIGN), &foreign_stamp(1), MACHINE), Order::OtherFilesystem);
        assert_eq!(order(Some(&record), Some(FOREIGN), &stamp(1, 1), MACHINE), Order::OtherFilesystem);
    }
    // The LUN was cleared and used again since this record was written.
    assert_eq!(order(Some(&record()), Some(FOREIGN), &stamp(2, 1), MACHINE), Order::Newer);
    assert_eq!(order(Some(&used(1)), Some(FOREIGN), &stamp(2, 1), MACHINE), Order::OtherFilesystem);
}

/// A node that the last release has migrated, rolled back, or left in the middle of a count goes on without a person.
#[test]
fn formats_without_nonces_are_compared_by_their_counters() {
    let (lun, local) = (old_record("lun", 1, 5, false), old_record("local", 2, 0, true));
    for (record, stamp, expected) in [
        (&lun, old_stamp(1, 5), SAME),
        // The last release wrote the stamp before the record.
        (&lun, old_stamp(1, 6), SAME),
        (&lun, old_stamp(1, 7), Order::Newer),
        (&lun, old_stamp(1, 4), Order::Older),
        (&lun, old_stamp(2, 1), Order::Newer),
        // The LUN was used by this release: this node's disk went back to before its update.
        (&lun, stamp(1, 5), Order::Newer),
        (&lun, stamp(1, 6), Order::Newer),
        (&local, old_stamp(1, 9), Order::Released),
        (&local, stamp(1, 9), Order::Older),
        (&local, old_stamp(2, 1), Order::Newer),
        (&local, old_stamp(3, 1), Order::Newer),
    ] {
        assert_eq!(of(Some(record), &stamp), expected, "{record:?}\n{stamp:?}");
    }
    // Its stamp does not say whether the LUN served, so a person decides.
    assert_eq!(of(Some(&old_record("local", 1, 0, false)), &old_stamp(1, 1)), Order::Newer);
    // Announced by this release, and cut short before the stamp.
    assert_eq!(of(Some(&lun.announcing(&old_stamp(1, 5), nth(6))), &old_stamp(1, 5)), SAME);
}

/// A node whose record does not say LUN, with local data, and a LUN of this filesystem with this stamp.
fn with(record: Option<Record>, uuid: etcd_lun::terms::FsUuid, stamp: Stamp, settled: bool) -> Node {
    let etcd = Fact::Known(Etcd { start_queued: true, ..etcd("inactive") });
    Node { record: Fact::Known(record), etcd, ..attached(xfs(uuid, Some(stamp), settled)) }
}

/// Each is a node whose disk went back in time, or has a clone that uses the LUN. The LUN is not written and not mounted, the
/// local data is barred, and then the run is refused; at boot, and by hand.
#[test]
fn a_lun_that_is_newer_is_never_overwritten_and_the_local_data_is_barred() {
    let migrated_since = rolled_back(DATA);
    for (what, record, uuid, of) in [
        ("attempt 1 failed, attempt 2 served", Some(record()), OURS, stamp(2, 500)),
        ("the attempt itself has served", Some(record()), OURS, stamp(1, 1)),
        ("its rollback is forgotten", Some(record()), OURS, stamp(1, 3).release()),
        ("rolled back, and migrated since", Some(migrated_since), OURS, stamp(3, 7)),
        ("no record", None, OURS, stamp(1, 7)),
        ("no record, of the last release", None, OURS, old_stamp(1, 7)),
        ("another filesystem since", Some(record()), FOREIGN, stamp(2, 7)),
    ] {
        for settled in [true, false] {
            for occasion in [Occasion::ByHand, Occasion::Boot] {
                let node = with(record.clone(), uuid, of.clone(), settled);
                // At boot nothing is moved after a rollback, so the LUN is not even looked at.
                if occasion == Occasion::Boot && node.rolled_back().is_some() {
                    continue;
                }
                let mut world = World::new(node);
                let refusal = follow(&mut world, Goal::Lun(occasion), "systemd", None, 4, |_, step| {
                    assert_eq!(step.id(), "bar", "{what}");
                })
                .unwrap_err();
                assert!(
                    matches!(refusal, Refusal::Authority(AuthorityRefusal::LunNewer { .. })),
                    "{what}: {refusal}"
                );
                assert!(world.node.local.known().unwrap().is_fenced(), "{what}");
                assert_eq!(world.node.barred_data.known().unwrap(), &Some(BarredData { returns_as: None }));
                // So it stays, also at a boot whose target is away.
                let again = plan(&config(), &world.node, Occasion::Boot).unwrap_err();
                assert!(
                    matches!(again, Refusal::Authority(AuthorityRefusal::LunNewer { .. })),
                    "{what}: {again}"
                );
                world.node.lun = Fact::Known(LunView::NotAttached);
                let later = plan(&config(), &world.node, Occasion::Boot).unwrap();
                assert_eq!(later.steps.iter().map(Step::id).collect::<Vec<_>>(), ["attach-lun"], "{what}");
            }
        }
    }
}

/// In a cluster of two nodes with fencing, nothing moves: pacemaker would start etcd whenever it likes. A node that was moved
/// before goes on, and has a way back.
#[test]
fn an_etcd_of_pacemaker_is_not_moved() {
    let found = "the ConfigMap external-etcd-pod is on this node";
    let of_pacemaker = |node: Node| Node {
        etcd: Fact::Known(Etcd { by_pacemaker: Some(found), ..node.etcd.known().unwrap().clone() }),
        ..node
    };
    for occasion in [Occasion::ByHand, Occasion::Boot] {
        let refusal = plan(&config(), &of_pacemaker(node()), occasion).unwrap_err();
        assert_eq!(refusal, Refusal::ByPacemaker { found });
        assert!(plan(&config(), &of_pacemaker(migrated()), occasion).unwrap().steps.is_empty());
    }
}

/// An etcd that runs on out-of-date data is not stopped by us, and its directory is not taken away from it.
#[test]
fn nothing_is_barred_under_an_etcd_that_runs() {
    for occasion in [Occasion::ByHand, Occasion::Boot] {
        let node = Node { etcd: Fact::Known(etcd("active")), ..with(None, OURS, stamp(1, 7), false) };
        let refusal = plan(&config(), &node, occasion).unwrap_err();
        match occasion {
            Occasion::ByHand => {
                assert!(refusal.to_string().contains("etcd runs on /var/lib/etcd"), "{refusal}")
            }
            Occasion::Boot => assert!(matches!(refusal, Refusal::EtcdServes { .. }), "{refusal}"),
        }
    }
}

/// At boot nothing comes before the look at the LUN: whatever else is wrong with the node, etcd must not start on old data.
#[test]
fn at_boot_the_lun_is_looked_at_first() {
    let node = Node { mount_unit: Fact::Known(MountUnit::Absent), ..with(None, OURS, stamp(1, 7), false) };
    assert_eq!(plan(&config(), &node, Occasion::Boot).unwrap().steps[0].id(), "bar");
    assert!(plan(&config(), &Node { record: unknown(), ..node }, Occasion::Boot).is_err());
}

/// A clone has counted the next use: the node refuses, and stays on the fence.
#[test]
fn a_clone_that_uses_the_lun_is_found() {
    for stamped in [stamp(1, 1).used(clones(2)), stamp(1, 2)] {
        for record in [used(1), used(1).announcing(&stamp(1, 1), nth(3))] {
            for settled in [true, false] {
                let mut node = with(Some(record.clone()), OURS, stamped.clone(), settled);
                node.local = Fact::Known(dir(&[], true));
                for occasion in [Occasion::ByHand, Occasion::Boot] {
                    let refusal = plan(&config(), &node, occasion).unwrap_err();
                    assert!(
                        matches!(refusal, Refusal::Authority(AuthorityRefusal::LunNewer { .. })),
                        "{refusal}"
                    );
                }
            }
        }
    }
}

/// The record says LUN, the LUN never served, and the local disk has other data than what was copied: etcd ran there. The commit
/// is taken back, and the node migrates again. A LUN that has served is another history.
#[test]
fn a_commit_that_never_served_is_taken_back() {
    let local = match dir(&["member"], false) {
        LocalDir::Present { entries, barred, immutable, with_state, size, .. } => {
            LocalDir::Present { entries, barred, immutable, fingerprint: Some(OTHER_DATA), with_state, size }
        }
        LocalDir::Absent => LocalDir::Absent,
    };
    let committed = record().commit(Some(DATA));
    for occasion in [Occasion::ByHand, Occasion::Boot] {
        let mut node = with(Some(committed.clone()), OURS, stamp(1, 0), false);
        node.local = Fact::Known(local.clone());
        let mut world = World::new(node.clone());
        let mut done = Vec::new();
        follow(&mut world, Goal::Lun(occasion), "systemd", None, 8, |_, step| done.push(step.id())).unwrap();
        assert_eq!(done[..3], ["stage", "take-back", "unstamp"], "{done:?}");
        let record = known(&mut world.node.record).clone().unwrap();
        assert_eq!((record.authority, record.generation, record.activations), (Authority::Lun, 2, 1));
        assert!(world.lun_is_copy);
        seen(&mut node).content = Fact::Known(xfs(OURS, Some(stamp(1, 1)), true));
        for record in [used(1), committed.clone().announcing(&stamp(1, 0), nth(1))] {
            node.record = Fact::Known(Some(record));
            let refusal = plan(&config(), &node, occasion).unwrap_err();
            assert!(matches!(refusal, Refusal::TwoHistories { .. }), "{refusal}");
        }
    }
}
