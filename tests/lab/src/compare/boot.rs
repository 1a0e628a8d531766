//! What etcd-lun did in a boot, and how long each part took.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};

use bed::node::Node;

/// The units of a boot that etcd waits for.
const UNITS: [&str; 3] = ["etcd-lun-program.service", "etcd-lun-selinux.service", "etcd-lun.service"];
/// A step that took less is not told.
const LITTLE: Duration = Duration::from_millis(100);

/// The time that each unit took to start, and each longer step of etcd-lun.service.
pub fn account(node: &Node) -> Result<String> {
    let mut text = String::from("        in this boot:");
    for unit in UNITS {
        let shown = node.ok(&format!(
            "systemctl show --value --property=InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic {unit}"
        ))?;
        let took = took(&shown).with_context(|| format!("{unit}: {shown}"))?;
        write!(text, " {unit} {:.2} s,", took.as_secs_f64())?;
    }
    text.push_str(" of which");
    for entry in node.journal("_SYSTEMD_UNIT=etcd-lun.service")? {
        let field = |name: &str| entry[name].as_str();
        let (Some(step), Some(took)) = (field("STEP"), field("DURATION_US")) else { continue };
        let took = Duration::from_micros(took.parse()?);
        if took >= LITTLE {
            write!(text, " {step} {:.2} s,", took.as_secs_f64())?;
        }
    }
    Ok(text.trim_end_matches(',').to_owned())
}

/// From the beginning of a start until its end, both in microseconds since the boot. None if there was no start.
fn took(shown: &str) -> Option<Duration> {
    let mut times = shown.lines().map(|line| line.trim().parse::<u64>());
    let (begun, ended) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Duration::from_micros(ended.saturating_sub(begun)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_start() {
        assert_eq!(took("1500000\n4000000\n"), Some(Duration::from_millis(2500)));
        assert_eq!(took("0\n0\n"), Some(Duration::ZERO));
        assert_eq!(took("\n"), None);
    }
}
