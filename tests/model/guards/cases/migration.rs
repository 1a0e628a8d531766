//! The record, the stamp and the local data, on the way to the LUN.

use super::*;

/// Another node has seen the same blank LUN.
const FORMATTED: &str = "another computer has formatted it since this node did";

pub(super) fn cases() -> Vec<Case> {
    let formatted_by_another: Change = |facts| facts.filesystem = FOREIGN;
    use Look::{Etcd, IsUnfinished, MountedOn, Record, StillHolds, Users};
    let begun = Facts { record: None, ..facts() };
    let never_used = record().commit(Some(DATA));
    let retire = |fingerprint| ProtocolStep::Retire(Retire { from: data_dir(), generation: 1, fingerprint });
    vec![
        case(
            "begin-record",
            ProtocolStep::BeginRecord { record: record() },
            begun.clone(),
            vec![at(0, Record, record_says_lun, IS_LUN)],
        ),
        case(
            "clear-unfinished",
            ProtocolStep::ClearUnfinished { wwid: wwid(), uuid: OURS },
            before_the_commit(),
            only_before_the_commit(0),
        ),
        case(
            "format",
            ProtocolStep::Format(Format { wwid: wwid(), uuid: OURS, label: "etcd-lun".parse().unwrap() }),
            before_the_commit(),
            only_before_the_commit(0),
        ),
        case("unstamp", ProtocolStep::Unstamp, before_the_commit(), only_before_the_commit(0)),
        case(
            "stamp",
            ProtocolStep::Stamp { stamp: stamp(1, 0) },
            before_the_commit(),
            [
                only_before_the_commit(0),
                vec![
                    at(0, Look::Proof, not_proven, "was not proven"),
                    at(0, Look::Filesystem, formatted_by_another, FORMATTED),
                ],
            ]
            .concat(),
        ),
        case(
            "commit",
            ProtocolStep::Commit { record: record() },
            before_the_commit(),
            vec![
                at(0, Record, record_says_lun, IS_LUN),
                at(0, Record, no_record, "the record is gone"),
                at(0, Look::Filesystem, formatted_by_another, FORMATTED),
                at(0, Look::Stamp, no_stamp, "no stamp"),
                at(0, Look::Stamp, stamp_of_another_node, OTHER_MOMENT),
                at(0, Look::Stamp, stamp_of_a_clone, OTHER_MOMENT),
                at(0, Look::Proof, not_proven, "nothing is committed"),
                at(0, Etcd, etcd_runs, RUNS),
                at(0, Users, somebody, IN_USE),
                at(0, StillHolds, changed, "nothing is committed"),
            ],
        ),
        case(
            "take-back",
            ProtocolStep::TakeBack { record: never_used.clone().take_back() },
            Facts { record: Some(never_used), stamp: Some(stamp(1, 0)), ..facts() },
            vec![
                at(0, Record, record_says_lun, "the record has changed"),
                at(0, Record, no_record, "the record is gone"),
                at(0, Look::Stamp, no_stamp, "no stamp"),
                at(0, Look::Stamp, stamp_of_a_clone, OTHER_MOMENT),
            ],
        ),
        Case {
            takes_back_after: Some(1),
            ..case(
                "retire, proven by this run",
                retire(None),
                facts(),
                vec![
                    at(0, Etcd, etcd_runs, RUNS),
                    at(0, StillHolds, changed, "the data is not retired"),
                    at(1, Users, somebody, "opened the data while it was moved"),
                    at(1, StillHolds, changed, "the data is back in"),
                ],
            )
        },
        Case {
            takes_back_after: Some(1),
            // Something is mounted there: then the directory beneath it cannot be opened.
            tells: &[(0, MountedOn)],
            ..case(
                "retire, proven by an earlier run",
                retire(Some(DATA)),
                facts(),
                vec![
                    at(0, Users, somebody, IN_USE),
                    at(0, Look::Fingerprint, other_data, "has changed"),
                    at(1, Users, somebody, "opened the data while it was moved"),
                    at(1, Look::Unchanged, |facts| facts.is_unchanged = false, "the data is back in"),
                ],
            )
        },
        Case {
            // No retired data is unfinished, or the record says local.
            tells: &[(0, Record), (0, IsUnfinished)],
            ..case("fence", ProtocolStep::Fence { at: data_dir() }, facts(), Vec::new())
        },
        Case {
            tells: &[(0, IsUnfinished)],
            ..case(
                "fence, after a run that was cut short",
                ProtocolStep::Fence { at: data_dir() },
                Facts { is_unfinished: true, ..facts() },
                vec![
                    at(0, Record, |facts| facts.record = Some(record().commit(None)), "two histories"),
                    at(
                        0,
                        Record,
                        |facts| facts.record = Some(of_older_version(&used(1))),
                        "an older version",
                    ),
                    at(0, Users, somebody, IN_USE),
                    at(0, Look::Fingerprint, other_data, "two histories"),
                ],
            )
        },
        Case {
            takes_back_after: Some(1),
            // As in `fence`.
            tells: &[(2, Record)],
            ..case(
                "bar",
                ProtocolStep::Bar { at: data_dir() },
                Facts { record: Some(record()), ..facts() },
                vec![
                    at(0, Record, record_says_lun, IS_LUN),
                    at(0, MountedOn, mounted, "is mounted on"),
                    at(0, Etcd, etcd_runs, RUNS),
                    at(0, Users, somebody, IN_USE),
                    at(1, Users, somebody, "opened the data while it was moved"),
                ],
            )
        },
    ]
}
