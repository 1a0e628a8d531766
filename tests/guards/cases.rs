//! Each step of the protocol on a machine on which it succeeds, and what each of its looks must not find.

use crate::{
    odd::{Change, Facts, Look},
    support::*,
};
use etcd_lun::{
    apply::machine::Confirmed,
    config::Runtime,
    node::authority::{Authority, Record},
    plan::{
        Step, Way,
        step::{CatchUp, Claim, Copy, Format, Mark, MountData, Retire, StartEtcd},
    },
    terms::AbsPath,
};

/// A step, and a machine on which it succeeds.
pub struct Case {
    pub name: &'static str,
    pub step: Step,
    pub facts: Facts,
    /// After so many effects, an error takes the last one back.
    pub takes_back_after: Option<usize>,
    pub rows: Vec<Row>,
    /// Looks that only tell the step what is to be done, each after so many effects. Whatever they find, nothing is wrong.
    pub tells: &'static [(usize, Look)],
}

/// After so many effects a look finds something else, and the step fails.
pub struct Row {
    pub after: usize,
    pub look: Look,
    pub change: Change,
    /// What the error says.
    pub says: &'static str,
}

const fn at(after: usize, look: Look, change: Change, says: &'static str) -> Row {
    Row { after, look, change, says }
}

/// What the looks find in most cases: etcd does not run, nobody uses the data, and the copy is proven.
fn facts() -> Facts {
    Facts {
        record: Some(used(3)),
        stamp: Some(stamp(1, 3)),
        etcd_runs: false,
        users: Vec::new(),
        mounted_on: None,
        is_fenced: true,
        data_is_on_lun: true,
        is_unfinished: false,
        is_shut_down: false,
        is_staged: false,
        has_retired: false,
        fingerprint: DATA,
        is_unchanged: true,
        proof: Some(DATA),
        still_holds: true,
        confirmed: Confirmed::Holds(DATA),
        is_quorum: true,
    }
}

/// While the record says local, as during a migration.
fn before_the_commit() -> Facts {
    Facts { record: Some(record()), stamp: Some(stamp(1, 0)), ..facts() }
}

fn data_dir() -> AbsPath {
    config().etcd.data_dir
}

fn case(name: &'static str, step: Step, facts: Facts, rows: Vec<Row>) -> Case {
    Case { name, step, facts, takes_back_after: None, rows, tells: &[] }
}

// What a look finds.

fn with_record(facts: &mut Facts, change: fn(&mut Record)) {
    facts.record.iter_mut().for_each(change);
}

fn no_record(facts: &mut Facts) {
    facts.record = None;
}

fn record_says_lun(facts: &mut Facts) {
    facts.record = Some(used(3));
}

fn record_says_local(facts: &mut Facts) {
    facts.record = Some(record());
}

fn record_of_another_filesystem(facts: &mut Facts) {
    with_record(facts, |record| record.uuid = FOREIGN);
}

fn record_of_another_generation(facts: &mut Facts) {
    with_record(facts, |record| record.generation = 7);
}

fn record_of_a_later_use(facts: &mut Facts) {
    with_record(facts, |record| record.activations = 9);
}

fn no_stamp(facts: &mut Facts) {
    facts.stamp = None;
}

fn stamp_of_another_node(facts: &mut Facts) {
    facts.stamp = Some(foreign_stamp(3));
}

fn stamp_of_a_clone(facts: &mut Facts) {
    facts.stamp = facts.stamp.take().map(|stamp| stamp.used(clones(3)));
}

fn stamp_of_an_earlier_use(facts: &mut Facts) {
    facts.stamp = Some(stamp(1, 2));
}

/// The order of record and stamp does not look at the name.
fn stamp_with_another_name(facts: &mut Facts) {
    if let Some(stamp) = &mut facts.stamp {
        stamp.node = "master-7".into();
    }
}

fn etcd_runs(facts: &mut Facts) {
    facts.etcd_runs = true;
}

fn somebody(facts: &mut Facts) {
    facts.users = vec!["sh (pid 7)".into()];
}

fn mounted(facts: &mut Facts) {
    facts.mounted_on = Some("/dev/sdz".into());
}

fn no_fence(facts: &mut Facts) {
    facts.is_fenced = false;
}

fn fence(facts: &mut Facts) {
    facts.is_fenced = true;
}

fn not_on_lun(facts: &mut Facts) {
    facts.data_is_on_lun = false;
}

fn other_data(facts: &mut Facts) {
    facts.fingerprint = OTHER_DATA;
}

fn not_proven(facts: &mut Facts) {
    facts.proof = None;
}

fn changed(facts: &mut Facts) {
    facts.still_holds = false;
}

const IS_LUN: &str = "the record says that the LUN's copy is authoritative";
const OTHER_MOMENT: &str = "the filesystem is stamped for";
const RUNS: &str = "somebody started it";
const IN_USE: &str = "has files open";

/// Every case.
pub fn cases() -> Vec<Case> {
    [migration(), mounting(), way_back(), copying(), counting()].into_iter().flatten().collect()
}

/// The record, the stamp and the local data, on the way to the LUN.
fn migration() -> Vec<Case> {
    use Look::{Etcd, IsUnfinished, MountedOn, Record, StillHolds, Users};
    let begun = Facts { record: None, ..facts() };
    let never_used = record().commit(Some(DATA));
    let retire = |fingerprint| Step::Retire(Retire { from: data_dir(), generation: 1, fingerprint });
    vec![
        case(
            "begin-record",
            Step::BeginRecord { record: record() },
            begun.clone(),
            vec![at(0, Record, record_says_lun, IS_LUN)],
        ),
        case(
            "clear-unfinished",
            Step::ClearUnfinished { wwid: wwid(), uuid: OURS },
            before_the_commit(),
            vec![at(0, Record, record_says_lun, IS_LUN), at(0, Record, no_record, "the record is gone")],
        ),
        case(
            "format",
            Step::Format(Format { wwid: wwid(), uuid: OURS, label: "etcd-lun".parse().unwrap() }),
            before_the_commit(),
            vec![at(0, Record, record_says_lun, IS_LUN), at(0, Record, no_record, "the record is gone")],
        ),
        case(
            "unstamp",
            Step::Unstamp,
            before_the_commit(),
            vec![at(0, Record, record_says_lun, IS_LUN), at(0, Record, no_record, "the record is gone")],
        ),
        case(
            "stamp",
            Step::Stamp { stamp: stamp(1, 0) },
            before_the_commit(),
            vec![
                at(0, Look::Proof, not_proven, "was not proven"),
                at(0, Record, record_says_lun, IS_LUN),
                at(0, Record, no_record, "the record is gone"),
            ],
        ),
        case(
            "commit",
            Step::Commit { record: record() },
            before_the_commit(),
            vec![
                at(0, Record, record_says_lun, IS_LUN),
                at(0, Record, no_record, "the record is gone"),
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
            Step::TakeBack { record: never_used.clone().take_back() },
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
            ..case("fence", Step::Fence { at: data_dir() }, facts(), Vec::new())
        },
        Case {
            tells: &[(0, IsUnfinished)],
            ..case(
                "fence, after a run that was cut short",
                Step::Fence { at: data_dir() },
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
                Step::Bar { at: data_dir() },
                Facts { record: Some(record()), ..facts() },
                vec![
                    at(0, Record, record_says_lun, IS_LUN),
                    at(0, MountedOn, mounted, "is mounted on"),
                    at(0, Etcd, etcd_runs, RUNS),
                    at(0, Users, somebody, IN_USE),
                    at(1, Users, somebody, "opened the data while it was barred"),
                ],
            )
        },
    ]
}

/// Which data etcd gets.
fn mounting() -> Vec<Case> {
    use Look::{DataIsOnLun, Etcd, HasRetired, IsFenced, IsShutDown, IsStaged, MountedOn, Record, Users};
    let mount = Step::MountData(MountData {
        unit: "var-lib-etcd.mount".into(),
        at: data_dir(),
        wwid: wwid(),
        uuid: OURS,
        options: Vec::new(),
    });
    let runtime = config().etcd.runtime;
    let start =
        |on| Step::StartEtcd(StartEtcd { runtime: runtime.clone(), data_dir: data_dir(), on, wait: true });
    let stop = |needs_quorum| Step::StopEtcd { runtime: runtime.clone(), needs_quorum, whole_pod: true };
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
                [free(), vec![at(0, Users, somebody, IN_USE)], verified(1), verified(2)]
                    .into_iter()
                    .flatten()
                    .collect(),
            )
        },
        Case {
            takes_back_after: Some(1),
            tells: &[(0, IsStaged), (0, HasRetired)],
            ..case(
                "mount-data, staged, after it was retired",
                mount,
                Facts { is_staged: true, has_retired: true, ..facts() },
                [free(), verified(0), verified(1)].into_iter().flatten().collect(),
            )
        },
        case(
            "unmount-data",
            Step::UnmountData { unit: "var-lib-etcd.mount".into(), at: data_dir() },
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
            Step::UnmountShutDown { unit: "var-lib-etcd.mount".into(), at: data_dir() },
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
        case(
            "stop-etcd, by hand",
            stop(true),
            facts(),
            vec![at(0, Look::Quorum, |facts| facts.is_quorum = false, "no quorum")],
        ),
        case("stop-etcd, at a boot", stop(false), facts(), Vec::new()),
    ]
}

/// The steps of a rollback.
fn way_back() -> Vec<Case> {
    use Look::{IsFenced, MountedOn, Proof, Record, Users};
    let left = used(3).leave(2, &stamp(1, 3));
    let returned = left.clone().roll_back(DATA);
    let put_back = Step::Return { at: data_dir(), generation: 2 };
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
            Step::CommitLocal { record: left },
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
        Case {
            // Without a proof of this run the copy is read.
            tells: &[(0, Proof)],
            ..case(
                "return, proven by an earlier run",
                put_back,
                Facts { record: Some(returned.clone()), proof: None, ..facts() },
                rows().into_iter().chain([at(0, Look::Fingerprint, other_data, "has changed")]).collect(),
            )
        },
        case(
            "release",
            Step::Release { stamp: stamp(1, 3).release() },
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

/// The copy and its proof, both ways.
fn copying() -> Vec<Case> {
    let copy = |way, provisional| Copy { from: data_dir(), way, size: None, onto_empty: false, provisional };
    let catch_up = |way| Step::CatchUp(CatchUp { from: data_dir(), way, limit: "10s".parse().unwrap() });
    let prove = |way, provisional| Step::Prove { from: data_dir(), way, provisional, afresh: false };
    let (to_lun, to_local) = (Way::ToLun, Way::ToLocal { generation: 2 });
    let overwrites_lun = |after| {
        vec![
            at(after, Look::Record, record_says_lun, IS_LUN),
            at(after, Look::Record, no_record, "the record is gone"),
        ]
    };
    let overwrites_local = |after| vec![at(after, Look::DataIsOnLun, not_on_lun, "not on the LUN")];
    let rests =
        |after| vec![at(after, Look::Etcd, etcd_runs, RUNS), at(after, Look::Users, somebody, IN_USE)];
    let all = |rows: [Vec<Row>; 3]| rows.into_iter().flatten().collect::<Vec<_>>();
    let again = Facts { confirmed: Confirmed::Changed("a file is new".into()), ..before_the_commit() };
    let again_back = Facts { confirmed: Confirmed::Nothing, ..facts() };
    vec![
        case(
            "pre-copy, to the LUN",
            Step::PreCopy(copy(to_lun, false)),
            before_the_commit(),
            overwrites_lun(0),
        ),
        case(
            "pre-copy, to the local disk",
            Step::PreCopy(copy(to_local, false)),
            facts(),
            overwrites_local(0),
        ),
        case("catch-up, to the LUN", catch_up(to_lun), before_the_commit(), overwrites_lun(0)),
        case("catch-up, to the local disk", catch_up(to_local), facts(), overwrites_local(0)),
        case(
            "copy, to the LUN",
            Step::Copy(copy(to_lun, false)),
            before_the_commit(),
            all([overwrites_lun(0), rests(0), Vec::new()]),
        ),
        case(
            "copy, to the local disk",
            Step::Copy(copy(to_local, false)),
            facts(),
            all([overwrites_local(0), rests(0), Vec::new()]),
        ),
        case("copy, provisional", Step::Copy(copy(to_lun, true)), before_the_commit(), overwrites_lun(0)),
        case("prove, to the LUN", prove(to_lun, false), before_the_commit(), overwrites_lun(0)),
        Case {
            takes_back_after: Some(1),
            ..case(
                "prove, to the local disk",
                prove(to_local, false),
                facts(),
                all([overwrites_local(0), rests(1), Vec::new()]),
            )
        },
        case("prove, provisional", prove(to_local, true), facts(), overwrites_local(0)),
        Case {
            // What is not proven is copied and proven again.
            tells: &[(0, Look::Confirm)],
            ..case("confirm, to the LUN", Step::Confirm(copy(to_lun, true)), before_the_commit(), Vec::new())
        },
        Case {
            tells: &[(0, Look::Confirm)],
            ..case("confirm, to the local disk", Step::Confirm(copy(to_local, true)), facts(), rests(0))
        },
        Case {
            tells: &[(0, Look::Confirm)],
            ..case(
                "confirm, to the LUN, of what has changed",
                Step::Confirm(copy(to_lun, true)),
                again,
                all([overwrites_lun(0), rests(0), overwrites_lun(1)]),
            )
        },
        Case {
            takes_back_after: Some(2),
            tells: &[(0, Look::Confirm)],
            ..case(
                "confirm, to the local disk, of what is not proven",
                Step::Confirm(copy(to_local, true)),
                again_back,
                [overwrites_local(0), rests(0), overwrites_local(1), rests(2)]
                    .into_iter()
                    .flatten()
                    .collect(),
            )
        },
        case("stage", Step::Stage { wwid: wwid(), uuid: OURS }, facts(), Vec::new()),
        case("await-pod-end", Step::AwaitPodEnd { manifest: manifest() }, facts(), Vec::new()),
    ]
}

fn manifest() -> AbsPath {
    match config_for("static-pod").etcd.runtime {
        Runtime::StaticPod { manifest } => manifest,
        Runtime::Systemd { .. } => unreachable!("the config says static-pod"),
    }
}

/// The uses of the LUN.
fn counting() -> Vec<Case> {
    use Look::{DataIsOnLun, Hold, IsFenced, Record};
    let next = stamp(1, 3).used(nth(4));
    let mark = Mark { at: data_dir(), stamp: next.clone(), record: used(3).announcing(&stamp(1, 3), nth(4)) };
    let newer = stamp(1, 7);
    vec![
        case(
            "activate",
            Step::Activate { stamp: next },
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
            Step::Mark(mark),
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
                at(1, Record, record_says_local, "nothing is counted"),
                at(2, Record, record_says_local, "is counted on the LUN only"),
            ],
        )
        .telling(&[(1, Hold)]),
        case(
            "claim",
            Step::Claim(Claim {
                from: newer.clone(),
                stamp: newer.clone().used(nth(8)),
                record: etcd_lun::node::authority::Record::claim(OURS, wwid(), data_dir(), &newer),
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

/// Steps that only one of their looks refuses, and only where no other step of this kind gets: the name, the step, its machine,
/// the number of effects before the error, and what it says.
pub fn refused() -> Vec<(&'static str, Step, Facts, usize, &'static str)> {
    let old = old_record("lun", 1, 1, false);
    // The use that is announced is not the next one of this stamp.
    let of_another_moment = Mark {
        at: data_dir(),
        stamp: stamp(1, 3).used(nth(8)),
        record: used(7).announcing(&stamp(1, 7), nth(8)),
    };
    vec![
        (
            "take-back of a LUN whose record and stamp are of the last release, which counted the commit",
            Step::TakeBack { record: old.clone().take_back() },
            Facts { record: Some(old), stamp: Some(old_stamp(1, 1)), ..facts() },
            0,
            "the LUN was used",
        ),
        ("mark of a LUN that has gone back in time", Step::Mark(of_another_moment), facts(), 1, OTHER_MOMENT),
    ]
}

impl Case {
    fn telling(self, tells: &'static [(usize, Look)]) -> Self {
        Self { tells, ..self }
    }
}
