//! The persistent reservation of a LUN: only this node writes to it, and the target refuses every other computer's writes.
//!
//! A registration belongs to a path, from one initiator port to one target port (SPC-4, 5.13). open-iscsi's port name has the number
//! of the session in it (ISID, `usr/initiator.c`), so after each log-in the path is another one, and what was registered before
//! belongs to a path that is gone. So the key says whose a reservation is, and each path is made to have it.

use crate::{Host, Invocation, Tool, root};
use etcd_lun_reservation::{self as kernel, Answer};
use std::{fs::File, io, time::Duration};
use terms::ReservationKey;

/// Why a LUN is not reserved for this node.
#[derive(Debug, thiserror::Error)]
pub enum ReservationError {
    /// Somebody else is in the way.
    #[error("another computer has a reservation of {disk}")]
    Conflict {
        /// Kernel name.
        disk: String,
    },
    /// The target or the disk does not do it.
    #[error("{disk} cannot be reserved: {said}")]
    Unsupported {
        /// Kernel name.
        disk: String,
        /// What it has answered.
        said: String,
    },
    /// The disk could not be asked.
    #[error("asking {disk} for a reservation: {why}")]
    Io {
        /// Kernel name.
        disk: String,
        /// Why.
        why: io::Error,
    },
}

impl ReservationError {
    /// As a code of errno(3), for a message between processes: what a write gets in the same place.
    pub fn code(&self) -> i32 {
        match self {
            Self::Conflict { .. } => nix::libc::EBADE,
            Self::Unsupported { .. } => nix::libc::EOPNOTSUPP,
            Self::Io { why, .. } => why.raw_os_error().unwrap_or(nix::libc::EIO),
        }
    }

    /// The error that has this code.
    pub fn of_code(disk: &str, code: i32) -> Self {
        let (disk, why) = (disk.to_owned(), io::Error::from_raw_os_error(code));
        match code {
            nix::libc::EBADE => Self::Conflict { disk },
            nix::libc::EOPNOTSUPP => Self::Unsupported { disk, said: "the target refuses it".into() },
            _ => Self::Io { disk, why },
        }
    }
}

/// Registers the disk's path and reserves the disk, in the place of an earlier path of this node. If another computer has the
/// reservation, the registration is taken back.
///
/// A registered path can write to the LUN, also while another computer has the reservation. So nothing on this node may use the disk
/// meanwhile.
pub fn take(host: &Host, disk: &str, key: ReservationKey) -> Result<(), ReservationError> {
    on(host, disk, |ask| take_by(ask, key))
}

/// The reservation is this path's, or is made, because nobody has one and the path is registered. This never registers the path,
/// so it gives no right to write.
pub fn keep(host: &Host, disk: &str, key: ReservationKey) -> Result<(), ReservationError> {
    on(host, disk, |ask| expect(ask.reserve(key)?))
}

/// The same as [`take`], and ends the reservation and the registrations of all other computers first.
pub fn take_over(host: &Host, disk: &str, key: ReservationKey) -> Result<(), ReservationError> {
    on(host, disk, |ask| {
        expect(ask.register(key)?)?;
        expect(ask.clear(key)?)?;
        take_by(ask, key)
    })
}

/// Ends the registration of the path, and with it the reservation. It is done too if the path has none.
pub fn give_up(host: &Host, disk: &str, key: ReservationKey) -> Result<(), ReservationError> {
    on(host, disk, |ask| match ask.unregister(key)? {
        Answer::Conflict => Ok(()),
        answer => expect(answer),
    })
}

/// The keys that are registered, by sg_persist: only newer kernels have an interface for that. None if it is not installed, or if it
/// fails.
pub fn keys(host: &Host, disk: &str) -> Option<Vec<String>> {
    let node = super::node(disk).ok()?;
    let what =
        Invocation::new(Tool::SgPersist, ["--in", "--no-inquiry", "--read-keys", node.as_str()]).limit(LOOK);
    let output = host.run(&what).and_then(|output| output.success(&what)).ok()?;
    Some(keys_in(&output.stdout))
}

/// A disk that answered a moment before answers this soon.
const LOOK: Duration = Duration::from_secs(10);

fn keys_in(printed: &str) -> Vec<String> {
    let is_key =
        |line: &&str| line.strip_prefix("0x").is_some_and(|hex| u64::from_str_radix(hex, 16).is_ok());
    let mut keys: Vec<_> = printed.lines().map(str::trim).filter(is_key).map(str::to_owned).collect();
    keys.dedup();
    keys
}

/// What went wrong, before it has the disk's name.
#[derive(Debug)]
enum Fault {
    Conflict,
    Refused(i32),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A disk that can be asked.
trait Ask {
    fn register(&self, key: ReservationKey) -> io::Result<Answer>;
    fn unregister(&self, key: ReservationKey) -> io::Result<Answer>;
    fn reserve(&self, key: ReservationKey) -> io::Result<Answer>;
    fn preempt(&self, key: ReservationKey) -> io::Result<Answer>;
    fn clear(&self, key: ReservationKey) -> io::Result<Answer>;
}

impl Ask for File {
    fn register(&self, key: ReservationKey) -> io::Result<Answer> {
        again(|| kernel::register(self, key.get()))
    }

    fn unregister(&self, key: ReservationKey) -> io::Result<Answer> {
        again(|| kernel::unregister(self, key.get()))
    }

    fn reserve(&self, key: ReservationKey) -> io::Result<Answer> {
        again(|| kernel::reserve(self, key.get()))
    }

    fn preempt(&self, key: ReservationKey) -> io::Result<Answer> {
        again(|| kernel::preempt(self, key.get(), key.get()))
    }

    fn clear(&self, key: ReservationKey) -> io::Result<Answer> {
        again(|| kernel::clear(self, key.get()))
    }
}

/// A target answers the first command after some events with a notice of them (unit attention) and does not carry it out: twice,
/// when two have happened.
fn again(ask: impl Fn() -> io::Result<Answer>) -> io::Result<Answer> {
    for _ in 0..2 {
        match ask()? {
            Answer::Refused(_) => {}
            answer => return Ok(answer),
        }
    }
    ask()
}

fn expect(answer: Answer) -> Result<(), Fault> {
    match answer {
        Answer::Done => Ok(()),
        Answer::Conflict => Err(Fault::Conflict),
        Answer::Refused(status) => Err(Fault::Refused(status)),
    }
}

fn take_by(ask: &dyn Ask, key: ReservationKey) -> Result<(), Fault> {
    if let Err(fault) = ask.register(key).map_err(Fault::from).and_then(expect) {
        // LIO has registered the path when it says that it cannot keep that over a loss of power.
        let _ = ask.unregister(key);
        return Err(fault);
    }
    if ask.reserve(key)? == Answer::Done {
        return Ok(());
    }
    // An earlier path of this node may hold it: whoever is registered with this key. It does nothing to other keys, and some
    // targets then answer with a conflict.
    let preempted = ask.preempt(key);
    let taken = ask.reserve(key);
    if matches!(taken, Ok(Answer::Done)) {
        return Ok(());
    }
    // The error is what matters, and not whether this was done too.
    let _ = ask.unregister(key);
    preempted?;
    expect(taken?)
}

fn on(
    host: &Host,
    disk: &str,
    act: impl FnOnce(&dyn Ask) -> Result<(), Fault>,
) -> Result<(), ReservationError> {
    let disk = disk.to_owned();
    let opened = super::node(&disk).and_then(|path| {
        // For reading only, so that udev does not process it again.
        File::open(host.root.locate(path.as_path())).map_err(|error| root::at(path.as_path(), &error))
    });
    // What cannot be looked at is not taken for a path.
    if !matches!(super::map_name(host, &disk), Ok(None)) {
        let said =
            "it is a multipath map, and a path that multipathd adds to it would not be registered".into();
        return Err(ReservationError::Unsupported { disk, said });
    }
    let result = match opened {
        Ok(file) => act(&file),
        Err(error) => Err(error.into()),
    };
    result.map_err(|fault| told(disk, fault))
}

fn told(disk: String, fault: Fault) -> ReservationError {
    use nix::libc::{EINVAL, ENOTTY, EOPNOTSUPP};
    match fault {
        Fault::Conflict => ReservationError::Conflict { disk },
        Fault::Refused(status) => {
            let said = format!("the target refuses it (status {status:#x})");
            ReservationError::Unsupported { disk, said }
        }
        Fault::Io(error) => match error.raw_os_error() {
            // Newer kernels return this for a field of the command that the target does not accept, such as APTPL.
            Some(EINVAL) => {
                let said =
                    "the target does not accept a registration that outlives a loss of power (APTPL)".into();
                ReservationError::Unsupported { disk, said }
            }
            Some(EOPNOTSUPP | ENOTTY) => {
                let said = "it is no SCSI or NVMe disk, or its driver has no reservations".into();
                ReservationError::Unsupported { disk, said }
            }
            _ => ReservationError::Io { disk, why: error },
        },
    }
}

#[cfg(test)]
mod tests;
