//! The uses of the LUN.

use super::*;

pub(super) fn cases() -> Vec<Case> {
    use Look::{DataIsOnLun, Hold, IsFenced, Pause, Record, StampAtRest, StampInPlace};
    let next = stamp(1, 3).used(nth(4));
    let mark = Mark { at: data_dir(), stamp: next.clone(), record: used(3).announcing(&stamp(1, 3), nth(4)) };
    let newer = stamp(1, 7);
    let watch = |stamp| {
        ProtocolStep::WatchLun(WatchLun {
            wwid: wwid(),
            uuid: OURS,
            stamp,
            span: "3min".parse().unwrap(),
            not_asked: None,
        })
    };
    let a_stamp: Change = |facts| facts.stamp = Some(stamp(1, 3));
    vec![
        case(
            "activate",
            ProtocolStep::Activate { stamp: next },
            facts(),
            vec![
                at(0, Record, no_record, "the record is gone"),
                at(0, Record, record_says_local, "the local copy is authoritative"),
                at(0, Record, record_of_a_later_use, OTHER_MOMENT),
                at(0, Look::Stamp, no_stamp, "no stamp"),
                at(0, Look::Stamp, stamp_of_another_node, OTHER_MOMENT),
                at(0, Look::Stamp, stamp_of_a_clone, OTHER_MOMENT),
                at(0, Look::Stamp, stamp_with_another_name, "no use begins"),
            ],
        ),
        case(
            "mark",
            ProtocolStep::Mark(mark),
            facts(),
            vec![
                at(0, Record, no_record, "the record is gone"),
                at(0, Record, record_says_local, "nothing is counted"),
                at(0, Record, record_of_another_filesystem, "nothing is counted"),
                at(0, Record, record_of_another_generation, "nothing is counted"),
                at(0, Record, record_of_a_later_use, "nothing is counted"),
                at(1, DataIsOnLun, not_on_lun, "not on the LUN"),
                at(1, Look::Stamp, no_stamp, "no stamp"),
                at(1, Look::Stamp, stamp_of_a_clone, OTHER_MOMENT),
                at(1, Look::Stamp, stamp_with_another_name, "nothing is counted"),
                at(1, StampInPlace, |facts| facts.in_place = None, "no stamp"),
                at(1, StampInPlace, |facts| facts.in_place = Some(stamp(1, 2)), "nothing is counted"),
                at(1, Record, record_says_local, "nothing is counted"),
                at(2, Record, record_says_local, "is counted on the LUN only"),
            ],
        )
        .telling(&[(1, Hold)]),
        case(
            "watch-lun",
            watch(Some(newer.clone())),
            Facts { stamp: Some(newer.clone()), ..facts() },
            vec![
                at(0, StampAtRest, no_stamp, "has changed since it was read"),
                at(0, StampAtRest, stamp_of_a_clone, "has changed since it was read"),
                at(1, StampAtRest, no_stamp, "has changed since it was read"),
                at(1, StampAtRest, stamp_of_a_clone, "another computer uses the LUN"),
            ],
        )
        .telling(&[(0, Pause)]),
        case(
            "watch-lun, without a stamp",
            watch(None),
            Facts { stamp: None, ..facts() },
            vec![
                at(0, StampAtRest, a_stamp, "has changed since it was read"),
                at(1, StampAtRest, a_stamp, "another computer uses the LUN"),
            ],
        )
        .telling(&[(0, Pause)]),
        case(
            "claim",
            ProtocolStep::Claim(Claim {
                from: newer.clone(),
                stamp: newer.clone().used(nth(8)),
                record: node::authority::Record::claim(OURS, wwid(), data_dir(), &newer),
            }),
            Facts { stamp: Some(newer), ..facts() },
            vec![
                at(0, IsFenced, no_fence, "is not fenced"),
                at(0, Look::Stamp, no_stamp, "no stamp"),
                at(0, Look::Stamp, stamp_of_a_clone, "the LUN is not taken"),
            ],
        ),
    ]
}
