//! The steps that decide which copy is the truth, and on which one etcd can start: those of record and stamp, of the data
//! directory and the mount, of the copy and its proof, and etcd's stop and start. They run on any [`Machine`].

use super::{
    machine::{Effect, Machine},
    steps::{
        bar, catch_up, claim, commit, confirm, copy, etcd, fence, format, mount, prove, retire, returning,
        serve, stamp,
    },
};
use plan::ProtocolStep;

/// Does a step of the protocol. The returned text says what changed.
pub fn step(machine: &mut dyn Machine, step: &ProtocolStep) -> anyhow::Result<String> {
    match step {
        ProtocolStep::BeginRecord { record } => commit::begin(machine, record),
        ProtocolStep::Unstamp => stamp::unstamp(machine),
        ProtocolStep::Stamp { stamp } => stamp::stamp(machine, stamp),
        ProtocolStep::Commit { record } => commit::commit(machine, record),
        ProtocolStep::CommitLocal { record } => commit::commit_local(machine, record),
        ProtocolStep::TakeBack { record } => commit::take_back(machine, record),
        ProtocolStep::Activate { stamp } => stamp::activate(machine, stamp),
        ProtocolStep::WatchLun(step) => claim::watch(machine, step),
        ProtocolStep::Claim(step) => claim::claim(machine, step),
        ProtocolStep::Release { stamp } => stamp::release(machine, stamp),
        ProtocolStep::Mark(step) => {
            stamp::announce(machine, step)?;
            stamp::mark_lun(machine, step)?;
            stamp::mark_record(machine, step)
        }
        ProtocolStep::Retire(step) => retire::retire(machine, step),
        ProtocolStep::Fence { at } => fence::fence(machine, at),
        ProtocolStep::Bar { at } => bar::bar(machine, at),
        ProtocolStep::KeepLocal { record } => bar::keep(machine, record),
        ProtocolStep::Unbar { generation } => bar::unbar(machine, *generation),
        ProtocolStep::Return { at, generation } => returning::put_in_place(machine, at, *generation),
        ProtocolStep::StartEtcd(step) => etcd::start_on(machine, step),
        ProtocolStep::StopEtcd(step) => serve::stop(machine, step),
        ProtocolStep::AwaitPodEnd { manifest } => {
            machine.perform(&Effect::AwaitPodEnd { manifest: manifest.clone() })
        }
        ProtocolStep::PreCopy(step) => copy::pre_copy(machine, step),
        ProtocolStep::CatchUp(step) => catch_up::catch_up(machine, step),
        ProtocolStep::Copy(step) => copy::copy(machine, step),
        ProtocolStep::Prove { from, way, provisional: true, .. } => {
            prove::prove_provisionally(machine, from, *way)
        }
        ProtocolStep::Prove { from, way, provisional: false, afresh } => {
            prove::prove(machine, from, *way, *afresh)
        }
        ProtocolStep::Confirm(step) => confirm::confirm(machine, step),
        ProtocolStep::ClearUnfinished { wwid, uuid } => format::clear_unfinished(machine, wwid, uuid),
        ProtocolStep::Format(step) => format::format(machine, step),
        ProtocolStep::Stage { wwid, uuid } => {
            machine.perform(&Effect::Stage { wwid: wwid.clone(), uuid: *uuid })?;
            Ok(format!("{wwid} is mounted for this program"))
        }
        ProtocolStep::MountData(step) => mount::mount(machine, step),
        ProtocolStep::UnmountData { unit, at } => mount::unmount(machine, unit, at),
        ProtocolStep::UnmountShutDown { unit, at } => mount::unmount_shut_down(machine, unit, at),
    }
}
