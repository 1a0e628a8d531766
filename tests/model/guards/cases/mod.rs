//! Each step of the protocol on a machine on which it succeeds, and what each of its looks must not find.

mod copying;
mod counting;
mod migration;
mod mounting;
mod way_back;

use crate::odd::{Change, Facts, Look};
use apply::machine::Confirmed;
use config::Runtime;
use node::authority::{Authority, Record};
use plan::{
    ProtocolStep, Way,
    step::{CatchUp, Claim, Copy, Format, Mark, MountData, Retire, StartEtcd, StopEtcd, WatchLun},
};
use support::*;
use terms::AbsPath;

/// A step, and a machine on which it succeeds.
pub struct Case {
    pub name: &'static str,
    pub step: ProtocolStep,
    pub facts: Facts,
    /// After so many effects, an error takes the last one back.
    pub takes_back_after: Option<usize>,
    pub rows: Vec<Row>,
    /// The effect with this number may fail: the step goes on without it.
    pub goes_on_without: Option<usize>,
    /// Looks that only tell the step what is to be done, each after so many effects. Whatever they find, nothing is wrong.
    pub tells: &'static [(usize, Look)],
}

/// After so many effects and pauses a look finds something else, and the step fails.
#[derive(Clone)]
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
        in_place: Some(stamp(1, 3)),
        etcd_runs: false,
        users: Vec::new(),
        mounted_on: None,
        is_fenced: true,
        data_is_on_lun: true,
        is_unfinished: false,
        is_shut_down: false,
        is_staged: false,
        filesystem: OURS,
        has_retired: false,
        fingerprint: DATA,
        is_unchanged: true,
        proof: Some(DATA),
        still_holds: true,
        confirmed: Confirmed::Holds(DATA),
        is_quorum: true,
        is_in_a_pod: false,
    }
}

/// While the record says local, as during a migration.
fn before_the_commit() -> Facts {
    Facts { record: Some(record()), stamp: Some(stamp(1, 0)), ..facts() }
}

fn data_dir() -> AbsPath {
    config().etcd.data_dir
}

fn case(name: &'static str, step: ProtocolStep, facts: Facts, rows: Vec<Row>) -> Case {
    Case { name, step, facts, takes_back_after: None, rows, goes_on_without: None, tells: &[] }
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

/// The step writes over the LUN, or gives up what it holds: only while the record says local.
fn only_before_the_commit(after: usize) -> Vec<Row> {
    vec![
        at(after, Look::Record, record_says_lun, IS_LUN),
        at(after, Look::Record, no_record, "the record is gone"),
    ]
}

/// Every case.
pub fn cases() -> Vec<Case> {
    [migration::cases(), mounting::cases(), way_back::cases(), copying::cases(), counting::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// Steps that only one of their looks refuses, and only where no other step of this kind gets: the name, the step, its machine,
/// the number of effects before the error, and what it says.
pub fn refused() -> Vec<(&'static str, ProtocolStep, Facts, usize, &'static str)> {
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
            ProtocolStep::TakeBack { record: old.clone().take_back() },
            Facts { record: Some(old), stamp: Some(old_stamp(1, 1)), ..facts() },
            0,
            "the LUN was used",
        ),
        (
            "mark of a LUN that has gone back in time",
            ProtocolStep::Mark(of_another_moment),
            facts(),
            1,
            OTHER_MOMENT,
        ),
    ]
}

impl Case {
    fn telling(self, tells: &'static [(usize, Look)]) -> Self {
        Self { tells, ..self }
    }
}
