//! Whether a disk answers, as the kernel's own counters show it.
//!
//! A read or a SCSI command to a target that has fallen silent keeps its process in uninterruptible sleep until the
//! target is back. So nothing is sent to the disk here. On a disk in use, writes that wait while none ends show the
//! same.

use super::sys_dir;
use crate::Host;
use std::{io, time::Duration};

/// How often, and after which pause, the counters are read again while something waits. Together they are longer than
/// any write to a LUN that etcd can work with.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// True if commands to this disk wait, and none ended for two seconds. A disk that nobody uses counts as one that
/// answers.
pub fn is_silent(host: &Host, name: &str) -> io::Result<bool> {
    let Some(first) = counters(host, name)? else { return Ok(false) };
    if first.waiting == 0 {
        return Ok(false);
    }
    for _ in 0..LOOKS {
        host.pause(PAUSE)?;
        match counters(host, name)? {
            Some(now) if now.waiting > 0 && now.ended == first.ended => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counters {
    /// Commands that have ended: reads, writes, discards, flushes.
    ended: u64,
    /// Commands that wait for an answer.
    waiting: u64,
}

/// The counters; none if there is no such disk.
fn counters(host: &Host, name: &str) -> io::Result<Option<Counters>> {
    let path = format!("{}/stat", sys_dir(name)?);
    let Some(text) = host.root.read_opt(&path)? else { return Ok(None) };
    let wrong = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{path}: unexpected `{}`", text.trim().escape_debug()),
        )
    };
    parse(&text).map(Some).ok_or_else(wrong)
}

/// Kernel `Documentation/block/stat.rst`. Discards (4.19) and flushes (5.5) came later, so they may be absent.
fn parse(text: &str) -> Option<Counters> {
    let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let late = |at: usize| fields.get(at).copied().unwrap_or_default();
    let ended = fields.first()?.wrapping_add(*fields.get(4)?).wrapping_add(late(11)).wrapping_add(late(15));
    Some(Counters { ended, waiting: *fields.get(8)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_kernels() {
        let eleven = "     120      1  4096   20     33     2   264    12        3       10      32";
        assert_eq!(parse(eleven), Some(Counters { ended: 153, waiting: 3 }));
        let all = format!("{eleven}  5 0 0 0  7 1\n");
        assert_eq!(parse(&all), Some(Counters { ended: 165, waiting: 3 }));
        for text in ["", "1 2 3", "x 1 1 1 1 1 1 1 1", "1 1 1 1 1 1 1 1 -1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
