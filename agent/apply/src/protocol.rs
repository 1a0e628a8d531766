//! The steps that decide which copy is the truth, and on which one etcd can start: those of record and stamp, of the data
//! directory and the mount, of the copy and its proof, and etcd's stop and start. They run on any [`Machine`].

use super::{
    machine::{Effect, Machine},
    steps::{
        bar, catch_up, claim, commit, confirm, copy, etcd, fence, format, mount, prove, retire, returning,
        serve, stamp,
    },
};
use anyhow::bail;
use plan::Step;

/// Does a step of the protocol. The returned text says what changed. Any other step is an error.
#[expect(clippy::wildcard_enum_match_arm, reason = "`dispatch` lists all steps")]
pub fn step(machine: &mut dyn Machine, step: &Step) -> anyhow::Result<String> {
    match step {
        Step::BeginRecord { record } => commit::begin(machine, record),
        Step::Unstamp => stamp::unstamp(machine),
        Step::Stamp { stamp } => stamp::stamp(machine, stamp),
        Step::Commit { record } => commit::commit(machine, record),
        Step::CommitLocal { record } => commit::commit_local(machine, record),
        Step::TakeBack { record } => commit::take_back(machine, record),
        Step::Activate { stamp } => stamp::activate(machine, stamp),
        Step::WatchLun(step) => claim::watch(machine, step),
        Step::Claim(step) => claim::claim(machine, step),
        Step::Release { stamp } => stamp::release(machine, stamp),
        Step::Mark(step) => {
            stamp::announce(machine, step)?;
            stamp::mark_lun(machine, step)?;
            stamp::mark_record(machine, step)
        }
        Step::Retire(step) => retire::retire(machine, step),
        Step::Fence { at } => fence::fence(machine, at),
        Step::Bar { at } => bar::bar(machine, at),
        Step::KeepLocal { record } => bar::keep(machine, record),
        Step::Unbar { generation } => bar::unbar(machine, *generation),
        Step::Return { at, generation } => returning::put_in_place(machine, at, *generation),
        Step::StartEtcd(step) => etcd::start_on(machine, step),
        Step::StopEtcd(step) => serve::stop(machine, step),
        Step::AwaitPodEnd { manifest } => {
            machine.perform(&Effect::AwaitPodEnd { manifest: manifest.clone() })
        }
        Step::PreCopy(step) => copy::pre_copy(machine, step),
        Step::CatchUp(step) => catch_up::catch_up(machine, step),
        Step::Copy(step) => copy::copy(machine, step),
        Step::Prove { from, way, provisional: true, .. } => prove::prove_provisionally(machine, from, *way),
        Step::Prove { from, way, provisional: false, afresh } => prove::prove(machine, from, *way, *afresh),
        Step::Confirm(step) => confirm::confirm(machine, step),
        Step::ClearUnfinished { wwid, uuid } => format::clear_unfinished(machine, wwid, uuid),
        Step::Format(step) => format::format(machine, step),
        Step::Stage { wwid, uuid } => {
            machine.perform(&Effect::Stage { wwid: wwid.clone(), uuid: *uuid })?;
            Ok(format!("{wwid} is mounted for this program"))
        }
        Step::MountData(step) => mount::mount(machine, step),
        Step::UnmountData { unit, at } => mount::unmount(machine, unit, at),
        Step::UnmountShutDown { unit, at } => mount::unmount_shut_down(machine, unit, at),
        step => bail!("`{step}` is no step of the protocol"),
    }
}
