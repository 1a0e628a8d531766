//! Which processes use a file, and a lock of our own.
//!
//! Two sources are needed. `/proc/locks` lists locks but not always their owners: OFD locks have no owner, and a lock
//! can outlive the process that took it. `/proc/<pid>/fd` and `maps` tell which process has a file open, in any
//! container.
//!
//! Only processes are found, and only those of our PID namespace. A loop device, a swap file or an NFS export is a use
//! by the kernel itself and is not found. A file that is opened during the search may be missed, so the answer "nobody"
//! is only reliable where nothing can start a new user. Needs root with `CAP_SYS_PTRACE`: proc_pid_fd(5).
//!
//! * [`users`]: who uses a file, or anything in a directory
//! * [`own`]: our own lock
//! * [`locks`]: the kernel's list of locks, `/proc/locks`
//! * [`processes`]: what processes have open
//! * [`file`]: device and inode of a file

mod file;
mod locks;
mod own;
mod processes;
mod users;

pub use own::{Lock, LockError};
pub use users::{Holder, Open, holders, lock_holders, lock_holders_beside, open_below, open_by};

#[cfg(test)]
mod tests;
