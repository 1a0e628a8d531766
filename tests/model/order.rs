//! The order of record and stamp: which of the two is older, in every way in which they can differ.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use node::{
    Order,
    authority::{Authority, Record, Stamp},
    order,
};
use support::*;

const SAME: Order = Order::Same { unused: false };
const UNUSED: Order = Order::Same { unused: true };

/// The order of a record and a stamp of one filesystem and one owner.
fn of(record: Option<&Record>, stamp: &Stamp) -> Order {
    order(record, Some(OURS), stamp, &identity())
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
    let committed = support::record().commit(Some(DATA));
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
fn without_a_record_only_a_lun_that_has_served_says_something() {
    for stamp in [stamp(1, 1), old_stamp(1, 1), stamp(1, 1).release()] {
        assert_eq!(of(None, &stamp), Order::Newer, "{stamp:?}");
    }
    for stamp in [stamp(1, 0), foreign_stamp(1)] {
        assert_eq!(of(None, &stamp), Order::OtherFilesystem, "{stamp:?}");
    }
}

/// Without a record of its filesystem the stamp of another name is another machine's, though both have one machine id.
#[test]
fn another_name_with_the_same_machine_id_is_another_node() {
    let named = |generation, name: &str| {
        let mut stamp = stamp(generation, 7);
        stamp.node = name.into();
        stamp
    };
    for (name, expected) in [
        ("master-1", Order::OtherFilesystem),
        ("master-0.example.com", Order::Newer),
        ("localhost", Order::Newer),
    ] {
        assert_eq!(of(None, &named(2, name)), expected, "{name}");
        assert_eq!(order(Some(&record()), Some(FOREIGN), &named(2, name), &identity()), expected, "{name}");
        // A host is renamed, or has no name yet: its own record counts.
        assert_eq!(of(Some(&used(7)), &named(1, name)), SAME);
    }
}

#[test]
fn owner_and_filesystem_come_first() {
    for record in [record(), used(1), rolled_back(DATA)] {
        assert_eq!(of(Some(&record), &foreign_stamp(1)), Order::OtherOwner);
        assert_eq!(
            order(Some(&record), Some(FOREIGN), &foreign_stamp(1), &identity()),
            Order::OtherFilesystem
        );
        // Of one generation either may be the later one: generations begin at 1 again where a record was removed.
        let is_newer = record.authority == Authority::Local && record.generation == 1;
        let expected = if is_newer { Order::Newer } else { Order::OtherFilesystem };
        assert_eq!(order(Some(&record), Some(FOREIGN), &stamp(1, 1), &identity()), expected);
    }
    // The LUN was cleared and used again since this record was written.
    for stamp in [stamp(2, 1), stamp(2, 1).release()] {
        assert_eq!(order(Some(&record()), Some(FOREIGN), &stamp, &identity()), Order::Newer);
    }
    assert_eq!(order(Some(&used(1)), Some(FOREIGN), &stamp(2, 1), &identity()), Order::OtherFilesystem);
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
