//! Every mount of a block device, in every mount namespace, read in one pass.

use super::{Holder, Mount, holders_by};
use crate::Host;
use std::{cell::OnceCell, io};

/// The mounts of block devices in all mount namespaces, read when they are first asked for and then kept. A node has hundreds of
/// mount namespaces with tens of mounts each, and an observation asks for many devices.
#[derive(Debug)]
pub struct Everywhere<'a> {
    host: &'a Host,
    seen: OnceCell<Result<Vec<Seen>, String>>,
}

impl<'a> Everywhere<'a> {
    /// Reads nothing yet.
    pub fn new(host: &'a Host) -> Self {
        Self { host, seen: OnceCell::new() }
    }

    /// The processes that see a block device mounted, in any mount namespace that a process is in.
    ///
    /// An error if a process may not be looked at, because then its mounts are unknown. That needs the permission to trace
    /// it (`ptrace(2)`, `PTRACE_MODE_READ_FSCREDS`).
    ///
    /// A mount that was detached lazily, or that lives in a namespace without processes, is in no such
    /// list: opening the device exclusively finds those too (`block::nobody_holds`).
    pub fn holders(&self, major: u32, minor: u32) -> io::Result<Vec<Holder>> {
        let all = self.seen.get_or_init(|| read(self.host).map_err(|error| error.to_string()));
        let all = all.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let here = all.iter().filter(|(device, _)| *device == (major, minor));
        Ok(here.map(|(_, holder)| holder.clone()).collect())
    }
}

/// A device's number, major and minor, and a process that sees it mounted.
type Seen = ((u32, u32), Holder);

fn read(host: &Host) -> io::Result<Vec<Seen>> {
    // Filesystems without a block device have the major number 0: most mounts of a container.
    holders_by(host, &[], |device| device.0 != 0, |mount: &Mount| Some(mount.device))
}
