//! What the confined service has done for it, because its SELinux domain has no right to.
//!
//! Whoever may start a unit may run any command as PID 1: systemd has one permission for a start and for the properties of a
//! unit. So the service sends no message to PID 1, not even to ask for the state of a unit. Whoever may mount a filesystem may
//! mount one whose device nodes open other disks, so the service mounts none. It sends a [`Request`] to a socket, and PID 1 starts
//! `etcd-lun hands` for it, in a domain of its own (`apply/verbs/hands.rs`). A request has only numbers, names of the kernel, and
//! names of a fixed list of units. What they are about is looked at again there. The rest (target, data directory, options of the
//! mount, what runs etcd) stands in the unit, which only an administrator writes.
//!
//! A run by hand, and a node without SELinux, do the same directly: each caller of [`ask`] says how.

mod ask;
mod mounts;
mod request;
mod units;

pub use ask::ask;
pub use mounts::{inspect, stage};
pub use request::{Answer, AskedUnit, Request, SaidOfUnit};
pub use units::{State, UnitUnknown, Units, is_stopping, unit, units, units_here};

use host::{Host, selinux};
use std::io;

/// Whether this process runs in the service's domain, which executes storage programs only, and needs hands for the rest.
pub fn is_confined(host: &Host) -> io::Result<bool> {
    let context = selinux::enforces(host)?.map(|_| selinux::own_context(host)).transpose()?;
    Ok(context.as_deref().and_then(policy::type_of) == Some(policy::DOMAIN))
}
