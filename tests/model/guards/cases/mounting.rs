//! Which data etcd gets.

use super::*;

pub(super) fn cases() -> Vec<Case> {
    use Look::{DataIsOnLun, Etcd, HasRetired, IsFenced, IsShutDown, IsStaged, MountedOn, Record, Users};
    let mount =
        ProtocolStep::MountData(MountData { at: data_dir(), wwid: wwid(), uuid: OURS, options: Vec::new() });
    let runtime = config().etcd.runtime;
    let start = |on| {
        ProtocolStep::StartEtcd(StartEtcd { runtime: runtime.clone(), data_dir: data_dir(), on, wait: true })
    };
    let stop = |needs_quorum| {
        ProtocolStep::StopEtcd(StopEtcd { runtime: runtime.clone(), needs_quorum, whole_pod: true })
    };
    let pod = config_for("static-pod").etcd.runtime;
    let no_quorum = || vec![at(0, Look::Quorum, |facts| facts.is_quorum = false, "no quorum")];
    let in_a_pod = |name, whole_pod| {
        let stop = StopEtcd { runtime: pod.clone(), needs_quorum: true, whole_pod };
        let facts = Facts { is_in_a_pod: true, ..facts() };
        let stopped = case(name, ProtocolStep::StopEtcd(stop), facts, no_quorum()).telling(&[(0, Look::Pod)]);
        Case { goes_on_without: Some(1), ..stopped }
    };
    let verified = |after| {
        vec![
            at(after, Look::Stamp, no_stamp, "no stamp"),
            at(after, Look::Stamp, stamp_of_another_node, OTHER_MOMENT),
            at(after, Look::Stamp, stamp_of_an_earlier_use, OTHER_MOMENT),
            at(after, Look::Stamp, stamp_of_a_clone, OTHER_MOMENT),
            at(after, Record, no_record, "the record is gone"),
            at(after, Record, record_says_local, "the local copy is authoritative"),
            at(after, Record, record_of_another_filesystem, "the record names filesystem"),
        ]
    };
    let free = || {
        vec![
            at(0, MountedOn, mounted, "is mounted on"),
            at(0, IsFenced, no_fence, "nothing is mounted over it"),
        ]
    };
    vec![
        Case {
            takes_back_after: Some(2),
            // It is staged by this step otherwise; nobody can have data open that was retired.
            tells: &[(0, IsStaged), (0, HasRetired)],
            ..case(
                "mount-data",
                mount.clone(),
                facts(),
                [free(), vec![at(0, Users, somebody, IN_USE)], verified(1), verified(2)].concat(),
            )
        },
        Case {
            takes_back_after: Some(1),
            tells: &[(0, IsStaged), (0, HasRetired)],
            ..case(
                "mount-data, staged, after it was retired",
                mount,
                Facts { is_staged: true, has_retired: true, ..facts() },
                [free(), verified(0), verified(1)].concat(),
            )
        },
        case(
            "unmount-data",
            ProtocolStep::UnmountData { unit: "var-lib-etcd.mount".into(), at: data_dir() },
            facts(),
            vec![
                at(0, Look::Proof, not_proven, "was not proven"),
                at(0, IsFenced, no_fence, "is not fenced"),
                at(0, DataIsOnLun, not_on_lun, "not on the LUN"),
                at(0, Etcd, etcd_runs, RUNS),
                at(0, Users, somebody, IN_USE),
                at(0, Look::StillHolds, changed, "the LUN stays mounted"),
            ],
        ),
        case(
            "unmount-shut-down",
            ProtocolStep::UnmountShutDown { unit: "var-lib-etcd.mount".into(), at: data_dir() },
            Facts { is_shut_down: true, ..facts() },
            vec![
                at(0, Record, no_record, "the record is gone"),
                at(0, Record, record_says_local, "the local copy is authoritative"),
                at(0, IsFenced, no_fence, "is not fenced"),
                at(0, IsShutDown, |facts| facts.is_shut_down = false, "has not shut down"),
                at(0, Etcd, etcd_runs, RUNS),
                at(0, Users, somebody, IN_USE),
            ],
        ),
        case(
            "start-etcd, on the LUN",
            start(Authority::Lun),
            facts(),
            vec![at(0, DataIsOnLun, not_on_lun, "not on the LUN")],
        ),
        case(
            "start-etcd, on the local disk",
            start(Authority::Local),
            Facts { is_fenced: false, ..before_the_commit() },
            vec![
                at(0, Record, record_says_lun, IS_LUN),
                at(0, MountedOn, mounted, "is mounted on"),
                at(0, IsFenced, fence, "is fenced"),
            ],
        ),
        Case { tells: &[(0, Look::Pod)], ..case("stop-etcd, by hand", stop(true), facts(), no_quorum()) },
        Case { tells: &[(0, Look::Pod)], ..case("stop-etcd, at a boot", stop(false), facts(), Vec::new()) },
        in_a_pod("stop-etcd, in a pod", false),
        in_a_pod("stop-etcd, in a pod, and all of it", true),
    ]
}
