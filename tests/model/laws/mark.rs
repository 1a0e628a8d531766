//! `mark`: advancing the use counter while etcd runs.

use super::*;
use plan::{MarkPlan, SkipReason, mark, step};
use support::say;

/// The use counter is advanced only if the mounted LUN is known to be authoritative. The plan has no other step.
#[test]
fn only_a_mounted_authoritative_lun_is_marked() {
    let config = config();
    let (mut due, mut idle, mut refused) = (0, 0, 0);
    let nodes = |visit: &mut dyn FnMut(&Node)| {
        every_node(&mut *visit);
        let mut node = migrated();
        for record in records() {
            node.record = record;
            for stamp in stamps() {
                node.mounted_stamp = stamp;
                for state in ["LOGGED_IN", "FAILED", "FREE"] {
                    known(&mut node.sessions)[0].session.state = state.into();
                    visit(&node);
                }
            }
        }
    };
    nodes(&mut |node| match mark(&config, node) {
        Ok(MarkPlan::Advance(step)) => {
            due += 1;
            let record = node.record.known().cloned().flatten().unwrap();
            let stamp = node.mounted_stamp.known().cloned().flatten().unwrap();
            let step::Mark { stamp: to, record: noted, .. } = *step;
            assert_eq!(record.authority, Authority::Lun, "{node:#?}");
            assert!(matches!(node.mount, Fact::Known(Some(_))), "{node:#?}");
            assert!(known(&mut node.sessions.clone())[0].is_logged_in());
            assert_eq!(stamp.machine_id, MACHINE);
            assert_eq!(stamp.generation, record.generation);
            assert!(stamp.activations >= record.activations, "back in time: {node:#?}");
            assert!(!stamp.released, "{node:#?}");
            // The new value is above all counters that were ever written. Otherwise a run that is interrupted between stamp
            // and record would leave a state that looks current.
            let announced = record.announced.map_or(0, |next| next.activations);
            let next = to.last_use().unwrap();
            assert_eq!(next.activations, stamp.activations.max(announced) + 1);
            assert_eq!((next.nonce, &stamp.clone().used(next)), (DRAWN, &to));
            assert_eq!(noted, record.announcing(&stamp, next));
        }
        Ok(MarkPlan::Skip(_)) => idle += 1,
        Err(refusal) => {
            refused += 1;
            assert!(refusal.to_string().len() > 20, "{refusal:?}");
        }
    });
    say!("{due} marks, {idle} times nothing to count, {refused} refusals");
    assert!(due > 5 && idle > 100 && refused > 100);
}

#[test]
fn what_is_not_a_fault_is_not_refused() {
    let config = config();
    let mut lost = migrated();
    known(&mut lost.sessions)[0].session.state = "FAILED".into();
    let mut silent = migrated();
    machine::seen(&mut silent).silent = true;
    for (node, why) in [
        (node(), SkipReason::NotMigrated),
        (Node { record: Fact::Known(Some(rolled_back(DATA))), ..node() }, SkipReason::NotMigrated),
        (Node { mount: Fact::Known(None), ..migrated() }, SkipReason::NotMounted),
        (lost, SkipReason::NoConnection),
        (silent, SkipReason::Silent),
    ] {
        assert_eq!(mark(&config, &node), Ok(MarkPlan::Skip(why)));
    }
}

#[test]
fn a_lun_that_went_back_in_time_is_refused() {
    let ahead = Fact::Known(Some(used(2)));
    let refusal = mark(&config(), &Node { record: ahead, ..migrated() }).unwrap_err().to_string();
    assert!(
        refusal.contains("it has gone back in time: the use counter is 1 in its stamp and 2 in the record"),
        "{refusal}"
    );
}
