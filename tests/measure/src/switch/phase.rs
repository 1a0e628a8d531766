//! While etcd's data is copied: when the first copy began and ended, and when the rounds did.
//!
//! Each line that a command writes to standard error gets the node's time in front. The node's clock goes on from a snapshot's
//! time, so it is compared with this machine's.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use nodes::node::Node;

/// A part of the time in which the data is copied while etcd runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// rsync.
    FirstCopy,
    /// The rounds of our own, and the reading of the whole copy.
    Rounds,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::FirstCopy => "the first copy",
            Phase::Rounds => "the rounds",
        })
    }
}

/// What the lines say with which a phase begins and ends.
const MARKS: [(Phase, &str, &str); 2] = [
    (Phase::FirstCopy, " to the LUN while etcd still runs", "copied while etcd runs"),
    (Phase::Rounds, "] bring the copy of ", "the last of "),
];

/// The node's clock, as this machine's.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// At this moment
    here: Instant,
    /// it was this time there, in seconds.
    there: f64,
}

impl Clock {
    /// Asks the node. The answer takes some ms.
    pub fn of(node: &Node) -> Result<Self> {
        let asked = Instant::now();
        let there = node.ok("date +%s.%N")?.trim().parse().context("the node's time")?;
        Ok(Self { here: asked + asked.elapsed() / 2, there })
    }

    fn moment(&self, there: f64) -> Instant {
        self.here + Duration::from_secs_f64((there - self.there).max(0.0))
    }
}

/// The script, each of whose lines on standard error has the time in front.
pub fn with_times(script: &str) -> String {
    format!(
        "exec 3>&1; {{ {{ {script}\n}} 2>&1 >&3; echo \"code $?\"; }} | {{ code=1; while IFS= read -r line; do
             case $line in \"code \"*) code=${{line#code }} ;; *) printf '%s %s\\n' \"$(date +%s.%N)\" \"$line\" >&2 ;; esac
         done; exit \"$code\"; }}"
    )
}

/// The time before a line, and the line.
pub fn without_time(line: &str) -> (Option<f64>, &str) {
    let timed = line.split_once(' ').and_then(|(time, rest)| Some((time.parse().ok()?, rest)));
    timed.map_or((None, line), |(time, rest)| (Some(time), rest))
}

/// The phases that these lines show.
pub fn phases(lines: &str, clock: &Clock) -> Vec<(Phase, Instant, Instant)> {
    let timed: Vec<(f64, &str)> = lines
        .lines()
        .filter_map(|line| match without_time(line) {
            (Some(time), text) => Some((time, text)),
            (None, _) => None,
        })
        .collect();
    let at =
        |text: &str| timed.iter().find(|(_, line)| line.contains(text)).map(|(time, _)| clock.moment(*time));
    MARKS.iter().filter_map(|(phase, begins, ends)| Some((*phase, at(begins)?, at(ends)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_run() {
        let clock = Clock { here: Instant::now(), there: 100.0 };
        let lines = "101.5 [7/21] copy /var/lib/etcd (1GiB) to the LUN while etcd still runs\n\
                     104.0       copied while etcd runs (2.5 s)\n\
                     no time\n\
                     105.0 [9/21] bring the copy of /var/lib/etcd up to date\n\
                     108.25       the last of 2 rounds took 1.0 s (3.2 s)\n";
        let found: Vec<_> = phases(lines, &clock)
            .into_iter()
            .map(|(phase, from, to)| (phase, from - clock.here, to - from))
            .collect();
        let seconds = Duration::from_secs_f64;
        assert_eq!(
            found,
            [(Phase::FirstCopy, seconds(1.5), seconds(2.5)), (Phase::Rounds, seconds(5.0), seconds(3.25))]
        );
        assert_eq!(without_time("     a step"), (None, "     a step"));
    }

    #[test]
    fn the_script_keeps_its_output_and_its_code() {
        let script = with_times("echo out; echo err >&2; (exit 3)");
        let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "out\n");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(without_time(said.trim_end()).1, "err");
        assert!(without_time(&said).0.is_some(), "{said}");
        assert_eq!(output.status.code(), Some(3));
    }
}
