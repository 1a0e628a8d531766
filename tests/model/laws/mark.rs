//! `mark`: advancing the use counter while etcd runs.

use super::*;
use plan::{AuthorityRefusal, MarkPlan, SkipReason, another_volume, mark, step};
use support::say;
use terms::{Nonce, Span};

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
        (beneath(xfs(OURS, Some(stamp(1, 0)), false), 60), SkipReason::NotInPlace),
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

/// A migrated node whose device has this in its place, so many seconds after its stamp was written.
fn beneath(content: Content, age: u64) -> Node {
    let mut node = migrated();
    machine::seen(&mut node).content = Fact::Known(content);
    let mount = known(&mut node.mount).as_mut().unwrap();
    mount.root_age = Some(Span(std::time::Duration::from_secs(age)));
    node
}

#[test]
fn nothing_is_written_over_what_this_node_has_not_written() {
    let ours = |stamp| xfs(OURS, Some(stamp), false);
    let of_a_clone = stamp(1, 0).used(node::authority::LunUse { activations: 1, nonce: Nonce([0xcc; 16]) });
    for (content, age, says) in [
        (ours(of_a_clone.clone()), 0, "use 1, where"),
        (ours(stamp(1, 2)), 0, "use 2, where"),
        (ours(stamp(2, 1)), 0, "generation 2, use 1, where"),
        (ours(stamp(1, 1).owned_by(OTHER_MACHINE.into())), 0, "has the stamp of"),
        (ours(stamp(1, 1).release()), 0, "has the stamp of"),
        (ours(stamp(1, 0)), 61, "use 0, where this node has written generation 1, use 1"),
        (xfs(OURS, None, false), 0, "has no stamp any more"),
        (xfs(FRESH, Some(stamp(1, 1)), false), 0, "holds another XFS, UUID"),
        (Content::Foreign { found: "no XFS".into() }, 0, "holds no XFS any more"),
    ] {
        let node = beneath(content, age);
        for refusal in
            [mark(&config(), &node).unwrap_err(), plan(&config(), &node, Occasion::ByHand).unwrap_err()]
        {
            assert!(
                matches!(refusal, Refusal::Authority(AuthorityRefusal::ChangedBeneath { .. })),
                "{refusal:?}"
            );
            assert!(refusal.to_string().contains(says), "{says}: {refusal}");
        }
    }
    // Only another volume is taken away from the kernel: not a stamp that may be late, nor the right volume under another WWID.
    let is_other =
        |node: &Node| another_volume(&config(), node).map(|(disk, refusal)| format!("{disk}: {refusal}"));
    let said = is_other(&beneath(xfs(FRESH, Some(stamp(1, 1)), false), 0)).unwrap();
    assert!(said.starts_with("sdb: LUN naa.60014051d8e4a3bd5a94f3f9a1a2b3c4 holds another XFS"), "{said}");
    let mut other = beneath(Content::Foreign { found: "no XFS".into() }, 0);
    assert!(is_other(&other).unwrap().contains("holds no XFS any more: the target has mapped"));
    machine::seen(&mut other).wwid = Fact::Known(other_wwid());
    assert!(is_other(&other).is_some());
    machine::seen(&mut other).multipath = node::Multipath::Mapped;
    assert!(is_other(&other).is_some());
    for content in [ours(of_a_clone), ours(stamp(1, 0)), ours(stamp(1, 1)), xfs(OURS, None, false)] {
        let mut node = beneath(content, 61);
        assert_eq!(is_other(&node), None);
        machine::seen(&mut node).wwid = Fact::Known(other_wwid());
        assert_eq!(is_other(&node), None);
        machine::seen(&mut node).content = unknown();
        assert_eq!(is_other(&node), None);
    }
    // A number that a `mark` has announced and not stamped is left out: then the use before is lower by two.
    let skipped = |age| {
        let mut node = beneath(ours(stamp(1, 0)), age);
        (node.record, node.mounted_stamp) = (Fact::Known(Some(used(2))), Fact::Known(Some(stamp(1, 2))));
        mark(&config(), &node)
    };
    assert!(matches!(skipped(0), Ok(MarkPlan::Skip(_))));
    assert!(skipped(61).unwrap_err().to_string().contains("use 0, where"));
    // What cannot be read keeps `mark` from the write, and `apply` from nothing.
    let mut node = migrated();
    machine::seen(&mut node).content = unknown();
    assert!(matches!(mark(&config(), &node), Err(Refusal::Unknown { .. })));
    assert!(plan(&config(), &node, Occasion::ByHand).unwrap().steps.is_empty());
}
