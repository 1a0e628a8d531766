//! A node whose entry has `migrate = false`.

use super::*;
use node::Order;

/// The steps of such a node before its first commit: a look at the LUN, what keeps etcd off data that is out of date, and etcd's
/// start if a run has stopped it.
const WITHOUT_MOVE: [&str; 7] =
    ["set-initiator-name", "log-out", "log-in", "attach-lun", "bar", "fence", "start-etcd"];

/// Whether the LUN is newer than what the node knows; none if that cannot be known.
fn is_newer(node: &Node) -> Option<bool> {
    let Fact::Known(LunView::Seen(lun)) = &node.lun else { return None };
    lun.wwid.known()?;
    let Content::Xfs { uuid, stamp, .. } = lun.content.known()? else { return Some(false) };
    let newer = stamp.known()?.as_ref().map(|stamp| node.order(Some(*uuid), stamp) == Some(Order::Newer));
    Some(newer.unwrap_or(false))
}

fn held() -> Config {
    let mut held = config();
    held.node.migrate = false;
    held
}

/// The key keeps data from being moved. It changes nothing for data that was moved, and it never lets a boot start etcd on data that
/// is out of date, or that may be.
#[test]
fn nothing_is_moved_and_nothing_else_changes() {
    let (free, held) = (config(), held());
    let (mut left_alone, mut refused, mut barred, mut unknown) = (0, 0, 0, 0);
    every_node(|node| {
        for occasion in [Occasion::Boot, Occasion::ByHand] {
            let (without, with) = (plan(&free, node, occasion), plan(&held, node, occasion));
            let is_off = matches!(with, Err(Refusal::MigrationOff { .. }));
            assert!(!(is_off && occasion == Occasion::Boot), "{node:#?}");
            if !node.is_without_commit() {
                assert!(with == without || is_off && node.rolled_back().is_some(), "{node:#?}");
                continue;
            }
            refused += usize::from(is_off);
            let Ok(plan) = &with else {
                assert!(occasion == Occasion::ByHand || without.is_err() || is_newer(node) != Some(false));
                continue;
            };
            let ids: Vec<_> = plan.steps.iter().map(Step::id).collect();
            assert!(ids.iter().all(|id| WITHOUT_MOVE.contains(id)), "{ids:?}: {node:#?}");
            if occasion == Occasion::ByHand {
                continue;
            }
            let is_seen = matches!(node.lun, Fact::Known(LunView::Seen(_)));
            let is_idle = node.etcd.known().is_some_and(|etcd| !etcd.running);
            match is_newer(node) {
                Some(true) if is_idle => {
                    assert!(with == without || without.is_err(), "{node:#?}");
                    barred += 1;
                }
                Some(true) => panic!("etcd runs on data that is out of date, and nobody says so: {node:#?}"),
                Some(false) => {
                    let stopped = node.etcd.known().is_some_and(|etcd| etcd.stopped_by_us);
                    let starts = ids.contains(&"start-etcd");
                    assert!(ids.contains(&"log-in") || starts == stopped, "{ids:?}: {node:#?}");
                    left_alone += usize::from(ids.is_empty());
                }
                // Something is done first, or it is not known: then etcd is not let go.
                None => {
                    assert!(!is_seen || !ids.is_empty(), "{node:#?}");
                    unknown += 1;
                }
            }
        }
    });
    let counts = [left_alone, refused, barred, unknown];
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

/// Its boot waits for the target no longer than that of a node whose etcd is on the LUN, and needs nothing of the LUN's content but
/// that it is not newer.
#[test]
fn a_boot_looks_at_the_lun_and_leaves_the_node_alone() {
    let held = held();
    let boot = |node: &Node| plan(&held, node, Occasion::Boot);
    let absent = boot(&node()).unwrap();
    let ids: Vec<_> = absent.steps.iter().map(Step::id).collect();
    assert!(ids.ends_with(&["log-in", "attach-lun"]), "{ids:?}");
    let Some(Step::Node(NodeStep::AttachLun(attach))) = absent.steps.last() else { panic!("{absent:#?}") };
    assert_eq!(attach.limit.to_string(), "30s");
    for content in [Content::Blank, Content::Foreign { found: "an ext4 filesystem".into() }] {
        for is in ["active", "inactive", "failed"] {
            let fresh = Node { etcd: Fact::Known(etcd(is)), ..attached(content.clone()) };
            assert!(boot(&fresh).unwrap().is_empty(), "{is}, {content:?}");
            assert!(plan::is_held(&held, &fresh));
        }
    }
    assert!(!plan::is_held(&held, &migrated()));
    assert!(!plan::is_held(&config(), &node()));
    // Its data may be elsewhere.
    let fenced = Node { local: Fact::Known(dir(&[], true)), ..attached(Content::Blank) };
    assert!(matches!(boot(&fenced), Err(Refusal::FencedWithoutRecord { .. })));
}
