//! One `match` from each step to the function that does it. `plan` decides which steps are done, and when.

use super::{
    context::Run,
    protocol,
    steps::{attach, grow, login, measure, portals, preflight, serve},
};
use plan::Step;

/// Does a step. The returned text says what changed, for the journal and the terminal.
pub fn step(run: &mut Run<'_>, step: &Step) -> anyhow::Result<String> {
    match step {
        Step::BeginRecord { .. }
        | Step::Unstamp
        | Step::Stamp { .. }
        | Step::Commit { .. }
        | Step::CommitLocal { .. }
        | Step::TakeBack { .. }
        | Step::Activate { .. }
        | Step::WatchLun(_)
        | Step::Claim(_)
        | Step::Release { .. }
        | Step::Mark(_)
        | Step::Retire(_)
        | Step::Fence { .. }
        | Step::Bar { .. }
        | Step::KeepLocal { .. }
        | Step::Unbar { .. }
        | Step::Return { .. }
        | Step::StartEtcd(_)
        | Step::StopEtcd { .. }
        | Step::AwaitPodEnd { .. }
        | Step::PreCopy(_)
        | Step::CatchUp(_)
        | Step::Copy(_)
        | Step::Prove { .. }
        | Step::Confirm(_)
        | Step::ClearUnfinished { .. }
        | Step::Format(_)
        | Step::Stage { .. }
        | Step::MountData(_)
        | Step::UnmountData { .. }
        | Step::UnmountShutDown { .. } => protocol::step(run, step),
        Step::SetInitiatorName { name } => login::set_initiator_name(run.host, name),
        Step::LogOut { sid } => login::log_out(run, *sid),
        Step::SetTimeout { sid, replacement } => login::set_timeout(run.door, *sid, *replacement),
        Step::DeleteRecord { target, portal } => portals::delete_record(run.host, target, portal),
        Step::RemovePath(step) => portals::remove_path(run, step),
        Step::AddPath(step) => portals::add_path(run, step),
        Step::LogIn(step) => login::log_in(run, step),
        Step::AttachLun(step) => attach::attach(run, step),
        Step::AwaitDisk { path, limit } => attach::await_disk(run, path, *limit),
        Step::Preflight(step) => preflight::preflight(run, step),
        Step::Measure { wwid, limit } => measure::measure(run, wwid, *limit),
        Step::ResizeMap { map, to } => grow::resize_map(run.host, map, *to),
        Step::Grow(step) => grow::grow(run, step),
        Step::AwaitMember(step) => serve::await_member(run, step),
    }
}
