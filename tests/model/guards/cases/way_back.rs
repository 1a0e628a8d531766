//! The steps of a rollback.

use super::*;

pub(super) fn cases() -> Vec<Case> {
    use Look::{IsFenced, MountedOn, Proof, Record, Users};
    let left = used(3).leave(2, &stamp(1, 3));
    let returned = left.clone().roll_back(DATA);
    let put_back = ProtocolStep::Return { at: data_dir(), generation: 2 };
    let rows = || {
        vec![
            at(0, Record, no_record, "the record is gone"),
            at(0, Record, record_says_lun, "nothing about a rollback"),
            at(0, Record, record_says_local, "nothing about a rollback"),
            at(0, Record, record_of_another_generation, "of generation 7 now"),
            at(
                0,
                Record,
                |facts| facts.record = Some(of_older_version(&rolled_back(DATA))),
                "no fingerprint",
            ),
            at(0, MountedOn, mounted, "is mounted on"),
            at(0, Users, somebody, IN_USE),
        ]
    };
    let other_proof = |facts: &mut Facts| (facts.proof, facts.fingerprint) = (Some(OTHER_DATA), OTHER_DATA);
    vec![
        case(
            "commit-local",
            ProtocolStep::CommitLocal { record: left },
            facts(),
            vec![
                at(0, Record, no_record, "the record is gone"),
                at(0, Record, record_says_local, "the record has changed"),
                at(0, Record, record_of_another_generation, "the record has changed"),
                at(0, MountedOn, mounted, "is mounted on"),
                at(0, IsFenced, no_fence, "nothing is committed"),
                at(1, Look::Stamp, no_stamp, "no stamp"),
                at(1, Look::Stamp, stamp_of_an_earlier_use, "nothing is committed"),
                at(1, Look::Stamp, stamp_of_a_clone, "nothing is committed"),
                at(1, Look::StillHolds, changed, "nothing is committed"),
            ],
        ),
        case(
            "return",
            put_back.clone(),
            Facts { record: Some(returned.clone()), ..facts() },
            rows().into_iter().chain([at(0, Proof, other_proof, "has changed")]).collect(),
        ),
        case(
            "return, proven by an earlier run",
            put_back,
            Facts { record: Some(returned.clone()), proof: None, ..facts() },
            rows().into_iter().chain([at(0, Look::Fingerprint, other_data, "has changed")]).collect(),
        )
        // Without a proof of this run the copy is read.
        .telling(&[(0, Proof)]),
        case(
            "keep-local",
            ProtocolStep::KeepLocal { record: used(3).leave(2, &stamp(1, 3)) },
            before_the_commit(),
            vec![
                at(0, MountedOn, mounted, "is mounted on"),
                at(0, IsFenced, no_fence, "nothing is committed"),
                at(0, Record, record_says_lun, "the record has changed"),
                at(0, Record, record_of_another_generation, "the record has changed"),
            ],
        )
        // It becomes what the record says.
        .telling(&[(0, Look::Fingerprint)]),
        case(
            "unbar",
            ProtocolStep::Unbar { generation: 2 },
            Facts { record: Some(returned.clone()), ..facts() },
            rows().drain(..4).collect(),
        ),
        case(
            "release",
            ProtocolStep::Release { stamp: stamp(1, 3).release() },
            Facts { record: Some(returned), ..facts() },
            vec![
                at(0, Record, no_record, "the record is gone"),
                at(0, Record, record_says_lun, "nothing about a rollback"),
                at(0, Record, record_says_local, "nothing about a rollback"),
                at(0, Look::Stamp, no_stamp, "no stamp"),
                at(0, Look::Stamp, stamp_of_an_earlier_use, "is not released"),
                at(0, Look::Stamp, stamp_of_another_node, "is not released"),
            ],
        ),
    ]
}
