//! A node whose entry has `migrate = false`.

use super::*;
use etcd_lun::node::Order;

/// The steps of such a node before its first commit: a look at the LUN, and what keeps etcd off data that is out of date.
const WITHOUT_MOVE: [&str; 6] = ["set-initiator-name", "log-out", "log-in", "attach-lun", "bar", "fence"];

fn is_newer(node: &Node) -> bool {
    let Fact::Known(LunView::Seen(lun)) = &node.lun else { return false };
    let Fact::Known(Content::Xfs { uuid, stamp: Fact::Known(Some(stamp)), .. }) = &lun.content else {
        return false;
    };
    lun.wwid.known().is_some() && node.order(Some(*uuid), stamp) == Some(Order::Newer)
}

/// The key keeps data from being moved. It changes nothing for data that was moved, it never lets a boot start etcd on data that is
/// out of date, and it fails no boot of a node that nobody has begun with.
#[test]
fn nothing_is_moved_and_nothing_else_changes() {
    let free = config();
    let mut held = config();
    held.node.migrate = false;
    let (mut left_alone, mut refused, mut barred) = (0, 0, 0);
    every_node(|node| {
        for occasion in [Occasion::Boot, Occasion::ByHand] {
            let (without, with) = (plan(&free, node, occasion), plan(&held, node, occasion));
            if !node.is_without_commit() {
                let is_move = matches!(with, Err(Refusal::MigrationOff { .. }));
                assert!(with == without || is_move && node.rolled_back().is_some(), "{node:#?}");
                assert!(!(is_move && occasion == Occasion::Boot), "{node:#?}");
                continue;
            }
            if let Ok(plan) = &with {
                let ids: Vec<_> = plan.steps.iter().map(Step::id).collect();
                assert!(ids.iter().all(|id| WITHOUT_MOVE.contains(id)), "{ids:?}: {node:#?}");
            }
            let is_begun = matches!(node.record, Fact::Known(Some(_)));
            let is_idle = node.etcd.known().is_some_and(|etcd| !etcd.running);
            match (&with, occasion) {
                (Err(Refusal::MigrationOff { .. }), _) => {
                    assert_eq!(occasion, Occasion::ByHand);
                    refused += 1;
                }
                (_, Occasion::Boot) if is_begun && is_idle && is_newer(node) && without.is_ok() => {
                    assert_eq!(with, without, "{node:#?}");
                    barred += 1;
                }
                (Ok(plan), Occasion::Boot) if plan.is_empty() => left_alone += 1,
                _ => {}
            }
        }
    });
    assert!(left_alone > 1000 && refused > 1000 && barred > 5, "{left_alone}, {refused}, {barred}");
}

/// A boot of a node without a record does not even look for the LUN, which may not be mapped yet.
#[test]
fn a_node_that_nobody_has_begun_with_needs_no_target() {
    let mut held = config();
    held.node.migrate = false;
    for etcd_is in ["active", "inactive", "failed"] {
        let fresh = Node { etcd: Fact::Known(etcd(etcd_is)), ..node() };
        assert_eq!(fresh.lun, Fact::Known(LunView::NoSession));
        assert!(plan(&held, &fresh, Occasion::Boot).unwrap().is_empty());
        assert!(plan::is_held(&held, &fresh));
    }
    assert!(!plan::is_held(&held, &migrated()));
    assert!(!plan::is_held(&config(), &node()));
    // Its data may be elsewhere.
    let fenced = Node { local: Fact::Known(dir(&[], true)), ..node() };
    assert!(matches!(plan(&held, &fenced, Occasion::Boot), Err(Refusal::FencedWithoutRecord { .. })));
}
