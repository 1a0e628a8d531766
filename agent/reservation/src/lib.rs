//! Persistent reservations of a disk, by the kernel's own interface (`include/uapi/linux/pr.h`, since Linux 4.4). The kernel makes
//! the command of SCSI or NVMe from it, and asks the target to keep the registration over a loss of power (APTPL).
//!
//! The kernel demands `CAP_SYS_ADMIN`. The disk may be open for reading only.

use nix::errno::Errno;
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// What the disk has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// A reservation forbids it, or the key is not the registered one.
    Conflict,
    /// Another status of SCSI or NVMe, as the kernel returns it.
    Refused(i32),
}

/// The type `WRITE EXCLUSIVE, REGISTRANTS ONLY`: everybody may read, and only who is registered may write.
const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u32 = 3;
/// Replaces whatever key is registered (`PR_FL_IGNORE_KEY`).
const IGNORE_KEY: u32 = 1;

#[repr(C)]
struct Registration {
    old_key: u64,
    new_key: u64,
    flags: u32,
    pad: u32,
}

#[repr(C)]
struct Reservation {
    key: u64,
    kind: u32,
    flags: u32,
}

#[repr(C)]
struct Preemption {
    old_key: u64,
    new_key: u64,
    kind: u32,
    flags: u32,
}

#[repr(C)]
struct Clearing {
    key: u64,
    flags: u32,
    pad: u32,
}

#[allow(unsafe_code, reason = "what the macros make")]
mod raw {
    use super::{Clearing, Preemption, Registration, Reservation};

    nix::ioctl_write_ptr!(register, b'p', 200, Registration);
    nix::ioctl_write_ptr!(reserve, b'p', 201, Reservation);
    nix::ioctl_write_ptr!(preempt_abort, b'p', 204, Preemption);
    nix::ioctl_write_ptr!(clear, b'p', 205, Clearing);
}

/// Registers this path to the disk with a key, in the place of whatever key it had.
pub fn register(disk: impl AsFd, key: u64) -> io::Result<Answer> {
    register_over(disk, Registration { old_key: 0, new_key: key, flags: IGNORE_KEY, pad: 0 })
}

/// Ends the registration of this path, which has this key. If this path holds the reservation, that ends too.
pub fn unregister(disk: impl AsFd, key: u64) -> io::Result<Answer> {
    register_over(disk, Registration { old_key: key, new_key: 0, flags: 0, pad: 0 })
}

fn register_over(disk: impl AsFd, what: Registration) -> io::Result<Answer> {
    #[allow(unsafe_code, reason = "an ioctl")]
    // SAFETY: the file is open, and the kernel only reads the structure, which lives until the call returns.
    answer(unsafe { raw::register(disk.as_fd().as_raw_fd(), &raw const what) })
}

/// Reserves the disk for who is registered. It is done too if this path holds that reservation already.
pub fn reserve(disk: impl AsFd, key: u64) -> io::Result<Answer> {
    let what = Reservation { key, kind: WRITE_EXCLUSIVE_REGISTRANTS_ONLY, flags: 0 };
    #[allow(unsafe_code, reason = "an ioctl")]
    // SAFETY: as above.
    answer(unsafe { raw::reserve(disk.as_fd().as_raw_fd(), &raw const what) })
}

/// Takes the reservation from who is registered with the other key, ends those registrations, and aborts their commands. This path
/// is registered with `key`, which may be the same key.
pub fn preempt(disk: impl AsFd, key: u64, other: u64) -> io::Result<Answer> {
    let what = Preemption { old_key: other, new_key: key, kind: WRITE_EXCLUSIVE_REGISTRANTS_ONLY, flags: 0 };
    #[allow(unsafe_code, reason = "an ioctl")]
    // SAFETY: as above.
    answer(unsafe { raw::preempt_abort(disk.as_fd().as_raw_fd(), &raw const what) })
}

/// Ends the reservation and all registrations, whoever has them. This path is registered with this key.
pub fn clear(disk: impl AsFd, key: u64) -> io::Result<Answer> {
    let what = Clearing { key, flags: 0, pad: 0 };
    #[allow(unsafe_code, reason = "an ioctl")]
    // SAFETY: as above.
    answer(unsafe { raw::clear(disk.as_fd().as_raw_fd(), &raw const what) })
}

/// The statuses of SCSI (SAM-5, 5.3.1) and NVMe (Base Specification, figure "Generic Command Status Values") for a conflict. Newer
/// kernels return the first one for both (`PR_STS_RESERVATION_CONFLICT`).
const CONFLICTS: [i32; 2] = [0x18, 0x83];

fn answer(said: nix::Result<i32>) -> io::Result<Answer> {
    match said {
        Ok(0) => Ok(Answer::Done),
        // Older kernels add what their drivers found, in higher bits.
        Ok(status) if CONFLICTS.contains(&(status & 0xff)) => Ok(Answer::Conflict),
        Ok(status) => Ok(Answer::Refused(status)),
        // Some kernels return it as the code that a write gets.
        Err(Errno::EBADE) => Ok(Answer::Conflict),
        Err(code) => Err(code.into()),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the fixture of a test")]
mod tests {
    use super::*;

    #[test]
    fn each_structure_has_the_size_that_the_kernel_demands() {
        assert_eq!(size_of::<Registration>(), 24);
        assert_eq!(size_of::<Reservation>(), 16);
        assert_eq!(size_of::<Preemption>(), 24);
        assert_eq!(size_of::<Clearing>(), 16);
    }

    #[test]
    fn the_status_of_the_disk() {
        for (said, answered) in [
            (Ok(0), Answer::Done),
            (Ok(0x18), Answer::Conflict),
            (Ok(0x0800_0018), Answer::Conflict),
            (Ok(0x4083), Answer::Conflict),
            (Err(Errno::EBADE), Answer::Conflict),
            (Ok(0x0800_0002), Answer::Refused(0x0800_0002)),
        ] {
            assert_eq!(answer(said).ok(), Some(answered), "{said:?}");
        }
        assert_eq!(
            answer(Err(Errno::EOPNOTSUPP)).expect_err("it has no reservations").kind(),
            io::ErrorKind::Unsupported
        );
    }

    #[test]
    fn a_file_has_no_reservation() {
        let file = std::fs::File::open("/dev/null").expect("a file of the system");
        for tried in [
            register(&file, 1),
            unregister(&file, 1),
            reserve(&file, 1),
            preempt(&file, 1, 2),
            clear(&file, 1),
        ] {
            assert_eq!(tried.expect_err("it has no reservations").raw_os_error(), Some(nix::libc::ENOTTY));
        }
    }
}
