//! How much of its time the machine waits for disks: proc_stat(5), and kernel `Documentation/accounting/psi.rst`.

use super::Host;
use std::io;

/// The time of all processors together since the machine was started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processors {
    /// In total.
    pub all: u64,
    /// Idle while a task waited for a disk.
    pub iowait: u64,
}

impl Processors {
    /// The share of waiting since an earlier sample, in percent; none if no time has passed.
    pub fn iowait_since(&self, earlier: &Self) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|all| *all > 0)?;
        // The counter may go back a little (proc_stat(5)).
        let waited = self.iowait.saturating_sub(earlier.iowait);
        // The result is a percentage, and a float counts the ticks of many years exactly.
        #[allow(clippy::cast_precision_loss)]
        Some(waited as f64 * 100.0 / all as f64)
    }
}

/// Reads `/proc/stat`.
pub fn processors(host: &Host) -> io::Result<Processors> {
    let text = host.root.read("/proc/stat")?;
    parse_stat(&text).ok_or_else(|| invalid("/proc/stat", "no line for all processors"))
}

/// `cpu  USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL GUEST GUEST_NICE`; the first two include the last two.
fn parse_stat(text: &str) -> Option<Processors> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    Some(Processors { all: ticks.get(..8)?.iter().sum(), iowait: *ticks.get(4)? })
}

/// The share of the last minute in which tasks waited for disks, in percent: at least one task, and all tasks. None if
/// the kernel doesn't count it (`psi=1` on its command line).
pub fn io(host: &Host) -> io::Result<Option<(f64, f64)>> {
    let path = "/proc/pressure/io";
    let text = match host.root.read_opt(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        // The kernel could count it, but it is switched off: the file exists, but can't be read.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error),
    };
    parse_pressure(&text).map(Some).ok_or_else(|| invalid(path, "no averages of the last minute"))
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and the same of `full`.
fn parse_pressure(text: &str) -> Option<(f64, f64)> {
    let share = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        let text = line.split_whitespace().find_map(|word| word.strip_prefix("avg60="))?;
        text.parse().ok().filter(|share: &f64| share.is_finite())
    };
    share("some ").zip(share("full "))
}

fn invalid(path: &str, found: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_linux_writes_them() {
        let at = |text| parse_stat(text).unwrap();
        let first = at("cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1 2 3\n");
        assert_eq!(first, Processors { all: 1000, iowait: 40 });
        let later = at("cpu  150 0 50 890 100 5 5 0 7 0\n");
        assert_eq!(later.iowait_since(&first), Some(30.0));
        assert_eq!(first.iowait_since(&first), None);
        assert_eq!(at("cpu  200 0 50 900 30 5 5 0 0 0\n").iowait_since(&first), Some(0.0));
        assert_eq!(parse_stat("cpu0 1 2 3 4 5 6 7 8\n"), None);
        assert_eq!(parse_stat("cpu  1 2 3\n"), None);
        let text = "some avg10=1.00 avg60=2.50 avg300=0.10 total=1234\nfull avg10=0.00 avg60=0.75 avg300=0.00 total=99\n";
        assert_eq!(parse_pressure(text), Some((2.5, 0.75)));
        assert_eq!(parse_pressure("some avg10=1.00\n"), None);
        assert_eq!(parse_pressure(&text.replace("2.50", "nan")), None);
    }
}
