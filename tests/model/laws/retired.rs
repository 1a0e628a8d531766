//! When old local data may be deleted.

use super::*;
use node::Retired;
use plan::may_delete;
use std::time::Duration;
use terms::Span;

const DAY: u64 = 24 * 3600;

fn old(name: &str, ours: bool, days: u64) -> Retired {
    let age = Span(Duration::from_secs(days * DAY));
    Retired { name: name.into(), ours, size: Bytes(1 << 20), age }
}

/// A node that has run on the LUN for this many days.
fn after(days: u64) -> Node {
    Node { retired: Fact::Known(vec![old("1", true, days)]), ..migrated() }
}

#[test]
fn kept_until_etcd_has_run_on_the_lun_for_a_week() {
    let config = config();
    assert_eq!(may_delete(&config, &after(8), 1).unwrap().name, "1");
    let shut = DataMount { io_error: true, ..data_mount("8:16") };
    let cases: Vec<(Node, u64, &str)> = vec![
        (after(6), 1, "was retired 6d ago"),
        (after(8), 2, "does not exist"),
        (Node { retired: Fact::Known(vec![old("1", false, 8)]), ..migrated() }, 1, "mark"),
        (Node { retired: Fact::Known(vec![old("9", true, 8)]), ..migrated() }, 9, "mark"),
        (Node { retired: unknown(), ..migrated() }, 1, "cannot be determined"),
        (Node { etcd: Fact::Known(etcd("failed")), ..after(8) }, 1, "is failed"),
        (Node { etcd: Fact::Known(etcd("activating")), ..after(8) }, 1, "is activating"),
        (Node { mount: Fact::Known(None), ..after(8) }, 1, "not mounted"),
        (Node { mount: Fact::Known(Some(shut)), ..after(8) }, 1, "has shut down"),
        (Node { mounted_stamp: Fact::Known(Some(stamp(1, 0))), ..after(8) }, 1, "gone back in time"),
        (Node { mounted_stamp: unknown(), ..after(8) }, 1, "cannot be determined"),
        (Node { record: Fact::Known(Some(rolled_back(DATA))), ..after(8) }, 1, "mount point"),
        (Node { record: unknown(), ..after(8) }, 1, "cannot be determined"),
    ];
    for (node, generation, says) in cases {
        match may_delete(&config, &node, generation) {
            Ok(one) => panic!("{one:?} would go, and should not: {says}"),
            Err(refusal) => assert!(refusal.to_string().contains(says), "{says}: {refusal}"),
        }
    }
}
