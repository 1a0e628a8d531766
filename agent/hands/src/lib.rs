//! The door to what the confined service may not do itself.
//!
//! Whoever may start a unit may run any command as PID 1: systemd has one permission for a start and for the properties of a
//! unit. So the service sends no message to PID 1, not even to ask for the state of a unit. Whoever may mount a filesystem may
//! mount one whose device nodes open other disks, so the service mounts none.
//!
//! Each such act is a [`Request`]. [`Privileged`] performs it, and there are two of them: [`Direct`] in this process, after a look
//! at what the request is about, and [`Socket`], at which PID 1 starts `etcd-lun hands` in a domain of its own, which is
//! [`Direct`] there. [`Door::of`] chooses once. So a run by hand passes the same looks as the service does.
//!
//! Portals are asked by a third process, which has the network and none of this (`portals`).
//!
//! A request has only numbers, names of the kernel, and names of a fixed list of units. The rest (target, data directory, options
//! of the mount, what runs etcd) stands in the config, or in the hands' unit, which only an administrator writes.

mod direct;
mod door;
pub mod looks;
mod names;
mod portals;
mod request;
mod socket;

pub use direct::{Direct, manifest_error};
pub use door::{Door, UnitUnknown, Units};
pub use names::{Explained, name_of};
pub use portals::serve_portals;
pub use request::{Privileged, Request, Requester, Said, Shelf};
pub use socket::{Socket, serve};
