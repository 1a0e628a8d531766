//! Where etcd's newest data may be, other than in the data directory.

use super::*;
use plan::PlaceRefusal;

const OCCASIONS: [Occasion; 2] = [Occasion::Boot, Occasion::ByHand];

/// A node before its move, at this occasion: at a boot etcd does not run yet.
fn unmoved(occasion: Occasion) -> Vec<Node> {
    let state = if occasion == Occasion::Boot { "inactive" } else { "active" };
    let etcd = Fact::Known(etcd(state));
    let begun = Node { record: Fact::Known(Some(record())), ..attached(Content::Unfinished { uuid: OURS }) };
    let nodes = [attached(Content::Blank), begun].into_iter();
    nodes.map(|node| Node { etcd: etcd.clone(), ..node }).collect()
}

/// Whoever put etcd on another disk has its newest data there, also while that disk is not mounted.
#[test]
fn a_claim_of_another_on_the_data_directory_is_refused_before_a_first_move() {
    let claim = Fact::Known(vec!["the unit /etc/systemd/system/var-lib-etcd.mount".to_owned()]);
    for occasion in OCCASIONS {
        for node in unmoved(occasion) {
            assert!(!plan(&config(), &node, occasion).unwrap().is_empty());
            let refused =
                plan(&config(), &Node { claims: claim.clone(), ..node.clone() }, occasion).unwrap_err();
            assert!(matches!(refused, Refusal::Place(PlaceRefusal::Claimed { .. })), "{refused}");
            let unseen = plan(&config(), &Node { claims: unknown(), ..node }, occasion).unwrap_err();
            assert!(matches!(unseen, Refusal::Unknown { .. }), "{unseen}");
        }
        // The record decides where it says LUN: a claim there must not keep etcd down.
        let moved = Node { etcd: Fact::Known(etcd("active")), ..migrated() };
        for claims in [claim.clone(), unknown()] {
            let with = Node { claims, ..moved.clone() };
            assert_eq!(plan(&config(), &with, occasion), plan(&config(), &moved, occasion));
        }
    }
    // At a boot a LUN that is newer comes first: etcd must not start on data that is out of date.
    let newer = Node {
        etcd: Fact::Known(etcd("inactive")),
        claims: claim,
        ..attached(xfs(OURS, Some(stamp(1, 1)), true))
    };
    assert_eq!(plan(&config(), &newer, Occasion::Boot).unwrap().steps[0].id(), "bar");
}

/// An etcd that runs shows where its data is. One whose database or log is elsewhere would stay on the local disk.
#[test]
fn an_etcd_with_its_files_elsewhere_is_not_moved() {
    for node in unmoved(Occasion::ByHand) {
        let with = |other_place| {
            let etcd = Fact::Known(Etcd { other_place, ..etcd("active") });
            plan(&config(), &Node { etcd, ..node.clone() }, Occasion::ByHand)
        };
        let elsewhere = with(Fact::Known(Some("has /srv/wal/0.wal open".into())));
        assert!(matches!(elsewhere, Err(Refusal::Place(PlaceRefusal::OtherSource { .. }))), "{elsewhere:?}");
        assert!(matches!(with(unknown()), Err(Refusal::Unknown { .. })));
        assert!(!with(Fact::Known(None)).unwrap().is_empty());
    }
}

/// Data is moved only if etcd has used it last. A node that reboots is up within an hour of etcd's last write.
#[test]
fn what_etcd_has_not_used_last_is_not_moved() {
    let hour = 60 * 60;
    let seconds = |seconds| Some(terms::Span(std::time::Duration::from_secs(seconds)));
    for (state, idle, refused) in [
        ("inactive", Fact::Known(seconds(hour)), None),
        ("inactive", Fact::Known(seconds(hour + 1)), Some("was last written 3601s before this boot")),
        ("inactive", Fact::Known(None), None),
        ("inactive", unknown(), Some("when etcd's data was last written")),
        ("active", Fact::Known(seconds(hour + 1)), None),
    ] {
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let node =
                Node { etcd: Fact::Known(etcd(state)), idle: idle.clone(), ..attached(Content::Blank) };
            let planned = plan(&config(), &node, occasion);
            let serves = occasion == Occasion::Boot && state == "active";
            match refused {
                None => assert!(planned.is_ok() || serves, "{planned:?}"),
                Some(says) => assert!(planned.unwrap_err().to_string().contains(says)),
            }
            // A new member has no data.
            let empty = Node { local: Fact::Known(LocalDir::Absent), ..node };
            assert!(plan(&config(), &empty, occasion).is_ok() || serves);
        }
    }
}
