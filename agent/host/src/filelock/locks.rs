//! `/proc/locks`: proc_locks(5), `lock_get_status` in the kernel's `fs/locks.c`.
//!
//! ```text
//! 1: POSIX  ADVISORY  WRITE 3568 fe:00:47531 0 EOF
//! 2: FLOCK  ADVISORY  WRITE 517 00:16:1139 0 EOF
//! 2: -> FLOCK  ADVISORY  WRITE 702 00:16:1139 0 EOF
//! 3: OFDLCK ADVISORY  READ -1 fe:00:47531 128 128
//! ```

use super::file::{FileId, parse_device};
use std::io;

/// A lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    device: (u32, u32),
    inode: u64,
    /// The process that took it; none if the kernel doesn't know it (-1), or if the process has ended or is in a PID
    /// namespace that we don't see (0).
    pub(super) pid: Option<u32>,
}

impl Held {
    pub(super) fn is_on(&self, file: FileId) -> bool {
        self.device == file.device && self.inode == file.inode
    }
}

/// All locks that are held, of any kind. Lines of processes that wait for a lock (`->`) are left out.
pub(super) fn parse(text: &str) -> io::Result<Vec<Held>> {
    let mut held = Vec::new();
    for line in text.lines() {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let wrong = || {
            let text: String = line.chars().take(120).collect();
            let said = format!("/proc/locks has the line `{}`, not a lock", text.escape_debug());
            io::Error::new(io::ErrorKind::InvalidData, said)
        };
        match fields.as_slice() {
            [_, "->", ..] => {}
            [number, _kind, _mode, _access, _pid, "<none>:0", _start, _end] if number.ends_with(':') => {}
            [number, _kind, _mode, _access, pid, file, _start, _end] if number.ends_with(':') => {
                let pid: i32 = pid.parse().map_err(|_| wrong())?;
                let (device, inode) = parse_file(file).ok_or_else(wrong)?;
                held.push(Held { device, inode, pid: u32::try_from(pid).ok().filter(|&pid| pid != 0) });
            }
            _ => return Err(wrong()),
        }
    }
    Ok(held)
}

fn parse_file(text: &str) -> Option<((u32, u32), u64)> {
    let (device, inode) = text.rsplit_once(':')?;
    Some((parse_device(device)?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded() {
        let text = "1: POSIX  ADVISORY  WRITE 3568 fe:00:47531 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 517 00:16:1139 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 702 00:16:1139 0 EOF\n\
                    3: OFDLCK ADVISORY  READ -1 103:1f:18446744073709551615 128 128\n\
                    4: LEASE  ACTIVE    READ  9 fe:00:5 0 EOF\n\
                    5: FLOCK  ADVISORY  WRITE 0 fe:00:6 0 EOF\n\
                    6: POSIX  *NOINODE* WRITE 8 <none>:0 0 EOF\n";
        let held = |device, inode, pid| Held { device, inode, pid };
        assert_eq!(
            parse(text).unwrap(),
            [
                held((0xfe, 0), 47531, Some(3568)),
                held((0, 0x16), 1139, Some(517)),
                held((0x103, 0x1f), u64::MAX, None),
                held((0xfe, 0), 5, Some(9)),
                held((0xfe, 0), 6, None),
            ]
        );
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn hostile() {
        for text in [
            "\n",
            "x",
            "1: POSIX  ADVISORY  WRITE 3568 fe:00:47531 0",
            "1: POSIX  ADVISORY  WRITE 3568 fe:00 0 EOF",
            "1: POSIX  ADVISORY  WRITE 3568 fe:zz:1 0 EOF",
            "1: POSIX  ADVISORY  WRITE x fe:00:1 0 EOF",
            "1: POSIX  ADVISORY  WRITE 99999999999 fe:00:1 0 EOF",
            "1: POSIX  ADVISORY  WRITE 1 fe:00:99999999999999999999 0 EOF",
            "1 POSIX  ADVISORY  WRITE 1 fe:00:1 0 EOF",
            "1: POSIX  ADVISORY  WRITE 1 fe:00:1 0 EOF more",
        ] {
            assert_eq!(parse(text).unwrap_err().kind(), io::ErrorKind::InvalidData, "{text:?}");
        }
    }
}
