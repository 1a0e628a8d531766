//! What etcd-lun did in a boot, and how long each part took.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};

use nodes::node::{Node, since_start};

/// The units of a boot that etcd waits for.
const UNITS: [&str; 3] = ["etcd-lun-program.service", "etcd-lun-selinux.service", "etcd-lun.service"];
/// A step that took less is not told.
const LITTLE: Duration = Duration::from_millis(100);

/// The time that each unit took to start, each longer step of etcd-lun.service, and what passed before it.
pub fn account(node: &Node) -> Result<String> {
    let mut text = String::from("        in this boot:");
    let mut last = None;
    for unit in UNITS {
        let shown = node.ok(&format!(
            "systemctl show --value --property=InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic {unit}"
        ))?;
        let start = Start::parse(&shown).with_context(|| format!("{unit}: {shown}"))?;
        write!(text, " {unit} {:.2} s,", start.took().as_secs_f64())?;
        last = Some(start);
    }
    let start = last.context("no unit was asked for")?;
    text.push_str(" of which");
    let mut steps = Vec::new();
    for entry in node.journal("_SYSTEMD_UNIT=etcd-lun.service")? {
        let field = |name: &str| entry[name].as_str();
        let (Some(step), Some(took)) = (field("STEP"), field("DURATION_US")) else { continue };
        let ended = since_start(&entry).context("the journal has no time")?;
        steps.push(Step { name: step.to_owned(), took: Duration::from_micros(took.parse()?), ended });
    }
    text.push_str(&parts(&start, &steps));
    Ok(text)
}

/// When a unit began to start, and when it had, since the boot.
#[derive(Debug, PartialEq)]
struct Start {
    begun: Duration,
    ended: Duration,
}

/// A step of a run, and when it ended, since the boot.
#[derive(Debug)]
struct Step {
    name: String,
    took: Duration,
    ended: Duration,
}

impl Start {
    /// None if there was no start.
    fn parse(shown: &str) -> Option<Self> {
        let mut times = shown.lines().map(|line| line.trim().parse().ok().map(Duration::from_micros));
        Some(Self { begun: times.next()??, ended: times.next()?? })
    }

    fn took(&self) -> Duration {
        self.ended.saturating_sub(self.begun)
    }
}

/// The longer steps, and the times between them: the program's own start, and its looks at the node.
fn parts(start: &Start, steps: &[Step]) -> String {
    let mut text = String::new();
    let mut part = |name: &str, took: Duration| {
        if took >= LITTLE {
            let _ = write!(text, " {name} {:.2} s,", took.as_secs_f64());
        }
    };
    let mut at = start.begun;
    for step in steps {
        part("(between)", step.ended.saturating_sub(step.took).saturating_sub(at));
        part(&step.name, step.took);
        at = step.ended;
    }
    part("(after them)", start.ended.saturating_sub(at));
    text.trim_end_matches(',').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_start() {
        let took = |shown: &str| Start::parse(shown).map(|start| start.took());
        assert_eq!(took("1500000\n4000000\n"), Some(Duration::from_millis(2500)));
        assert_eq!(took("0\n0\n"), Some(Duration::ZERO));
        assert_eq!(took("\n"), None);
    }

    #[test]
    fn what_passes_between_the_steps() {
        let ms = Duration::from_millis;
        let step = |name: &str, took, ended| Step { name: name.into(), took: ms(took), ended: ms(ended) };
        let start = Start { begun: ms(1000), ended: ms(4500) };
        let steps = [step("log-in", 1000, 2500), step("little", 10, 2510), step("mount-data", 400, 3900)];
        assert_eq!(
            parts(&start, &steps),
            " (between) 0.50 s, log-in 1.00 s, (between) 0.99 s, mount-data 0.40 s, (after them) 0.60 s"
        );
    }
}
