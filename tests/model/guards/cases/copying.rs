//! The copy and its proof, both ways.

use super::*;

pub(super) fn cases() -> Vec<Case> {
    let copy = |way, provisional| Copy { from: data_dir(), way, size: None, onto_empty: false, provisional };
    let catch_up =
        |way| ProtocolStep::CatchUp(CatchUp { from: data_dir(), way, limit: "10s".parse().unwrap() });
    let prove = |way, provisional| ProtocolStep::Prove { from: data_dir(), way, provisional, afresh: false };
    let (to_lun, to_local) = (Way::ToLun, Way::ToLocal { generation: 2 });
    let overwrites_local = |after| vec![at(after, Look::DataIsOnLun, not_on_lun, "not on the LUN")];
    let rests =
        |after| vec![at(after, Look::Etcd, etcd_runs, RUNS), at(after, Look::Users, somebody, IN_USE)];
    let again = Facts { confirmed: Confirmed::Changed("a file is new".into()), ..before_the_commit() };
    let again_back = Facts { confirmed: Confirmed::Nothing, ..facts() };
    vec![
        case(
            "pre-copy, to the LUN",
            ProtocolStep::PreCopy(copy(to_lun, false)),
            before_the_commit(),
            only_before_the_commit(0),
        ),
        case(
            "pre-copy, to the local disk",
            ProtocolStep::PreCopy(copy(to_local, false)),
            facts(),
            overwrites_local(0),
        ),
        case("catch-up, to the LUN", catch_up(to_lun), before_the_commit(), only_before_the_commit(0)),
        case("catch-up, to the local disk", catch_up(to_local), facts(), overwrites_local(0)),
        case(
            "copy, to the LUN",
            ProtocolStep::Copy(copy(to_lun, false)),
            before_the_commit(),
            [only_before_the_commit(0), rests(0)].concat(),
        ),
        case(
            "copy, to the local disk",
            ProtocolStep::Copy(copy(to_local, false)),
            facts(),
            [overwrites_local(0), rests(0)].concat(),
        ),
        case(
            "copy, provisional",
            ProtocolStep::Copy(copy(to_lun, true)),
            before_the_commit(),
            only_before_the_commit(0),
        ),
        case("prove, to the LUN", prove(to_lun, false), before_the_commit(), only_before_the_commit(0)),
        Case {
            takes_back_after: Some(1),
            ..case(
                "prove, to the local disk",
                prove(to_local, false),
                facts(),
                [overwrites_local(0), rests(1)].concat(),
            )
        },
        case("prove, provisional", prove(to_local, true), facts(), overwrites_local(0)),
        // What is not proven is copied and proven again.
        case(
            "confirm, to the LUN",
            ProtocolStep::Confirm(copy(to_lun, true)),
            before_the_commit(),
            Vec::new(),
        )
        .telling(&[(0, Look::Confirm)]),
        case("confirm, to the local disk", ProtocolStep::Confirm(copy(to_local, true)), facts(), rests(0))
            .telling(&[(0, Look::Confirm)]),
        case(
            "confirm, to the LUN, of what has changed",
            ProtocolStep::Confirm(copy(to_lun, true)),
            again,
            [only_before_the_commit(0), rests(0), only_before_the_commit(1)].concat(),
        )
        .telling(&[(0, Look::Confirm)]),
        Case {
            takes_back_after: Some(2),
            tells: &[(0, Look::Confirm)],
            ..case(
                "confirm, to the local disk, of what is not proven",
                ProtocolStep::Confirm(copy(to_local, true)),
                again_back,
                [overwrites_local(0), rests(0), overwrites_local(1), rests(2)].concat(),
            )
        },
        case("stage", ProtocolStep::Stage { wwid: wwid(), uuid: OURS }, facts(), Vec::new()),
        case("await-pod-end", ProtocolStep::AwaitPodEnd { manifest: manifest() }, facts(), Vec::new()),
    ]
}

fn manifest() -> AbsPath {
    match config_for("static-pod").etcd.runtime {
        Runtime::StaticPod { manifest } => manifest,
        Runtime::Systemd { .. } => unreachable!("the config says static-pod"),
    }
}
