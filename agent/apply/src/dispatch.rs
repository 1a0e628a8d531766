//! From each step to the function that does it. `plan` decides which steps are done, and when.

use super::{
    context::Run,
    protocol,
    steps::{attach, grow, login, measure, portals, preflight, serve},
};
use plan::{NodeStep, Step};

/// Does a step. The returned text says what changed, for the journal and the terminal.
pub fn step(run: &mut Run<'_>, step: &Step) -> anyhow::Result<String> {
    let step = match step {
        Step::Protocol(step) => return protocol::step(run, step),
        Step::Node(step) => step,
    };
    match step {
        NodeStep::SetInitiatorName { name } => login::set_initiator_name(run.host, name),
        NodeStep::LogOut { sid } => login::log_out(run, *sid),
        NodeStep::SetTimeout { sid, replacement } => login::set_timeout(run.door, *sid, *replacement),
        NodeStep::RemovePath(step) => portals::remove_path(run, step),
        NodeStep::AddPath(step) => portals::add_path(run, step),
        NodeStep::LogIn(step) => login::log_in(run, step),
        NodeStep::AttachLun(step) => attach::attach(run, step),
        NodeStep::AwaitDisk { path, limit } => attach::await_disk(run, path, *limit),
        NodeStep::Preflight(step) => preflight::preflight(run, step),
        NodeStep::Measure { wwid, limit } => measure::measure(run, wwid, *limit),
        NodeStep::ResizeMap { map, to } => grow::resize_map(run.host, map, *to),
        NodeStep::Grow(step) => grow::grow(run, step),
        NodeStep::AwaitMember(step) => serve::await_member(run, step),
    }
}
