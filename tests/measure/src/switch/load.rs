//! How busy this machine is: node, target and client share its processors.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nodes::again::Again;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// A look at the processors: when, and how long all of them were idle and existed, in ticks.
type Look = (Instant, u64, u64);

/// Looks at the processors in a thread.
pub struct Load(Again<Look>);

impl Load {
    /// Begins to look.
    pub fn begin() -> Self {
        Self(Again::begin(None, PAUSE, || {
            let (idle, all) = parse(&fs::read_to_string("/proc/stat")?).context("/proc/stat")?;
            Ok(Some((Instant::now(), idle, all)))
        }))
    }

    /// Stops.
    pub fn end(self) -> Result<Looks> {
        Ok(Looks(self.0.end()?))
    }
}

/// What was seen.
pub struct Looks(Vec<Look>);

impl Looks {
    /// The share of this time in which the processors were idle.
    pub fn idle(&self, from: Instant, to: Instant) -> Option<f64> {
        let mut within = self.0.iter().filter(|(at, ..)| *at >= from && *at <= to);
        let ((_, idle, all), (_, idle_then, all_then)) = (within.next()?, within.next_back()?);
        Some((idle_then - idle) as f64 / (all_then - all) as f64)
    }
}

/// Of proc_stat(5), the first line: the time in which the processors were idle, waiting for disks or not, and all of it.
fn parse(text: &str) -> Option<(u64, u64)> {
    let times: Vec<u64> = text
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    // The last two are in the first two already.
    Some((times.get(3)? + times.get(4)?, times.iter().take(8).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_for_a_part_of_the_time() {
        assert_eq!(parse("cpu  10 1 5 70 4 0 3 7 9 9\ncpu0 1\n"), Some((74, 100)));
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let looks = Looks(vec![(at(0), 0, 0), (at(1), 50, 100), (at(2), 75, 200), (at(3), 175, 300)]);
        assert_eq!(looks.idle(at(1), at(2)), Some(0.25));
        assert_eq!(looks.idle(at(2), at(2)), None);
    }
}
