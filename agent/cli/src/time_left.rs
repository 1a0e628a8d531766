//! How long a run takes from here, for a person at a terminal.

use plan::{Plan, Step};
use std::{
    collections::VecDeque,
    fmt,
    time::{Duration, Instant},
};

/// What a step takes: so many times as long as the first copy, and so much beside.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    copies: f64,
    beside: Duration,
}

impl Cost {
    /// By what each of them took in the test bed (`docs/performance.md`). The rounds go over everything two or three times, with
    /// rests, and read all of it back.
    fn of(step: &Step) -> Self {
        let (copies, seconds) = match step {
            Step::PreCopy(_) => (1.0, 0),
            Step::CatchUp(_) => (1.5, 2),
            Step::Copy(_) | Step::Prove { .. } => (0.2, 0),
            Step::StopEtcd { .. } | Step::Format(_) => (0.0, 2),
            Step::StartEtcd(_) => (0.1, 2),
            Step::AwaitMember(_) => (0.2, 2),
            _ => (0.0, 0),
        };
        Self { copies, beside: Duration::from_secs(seconds) }
    }

    fn time(self, copy: Duration) -> Duration {
        copy.mul_f64(self.copies) + self.beside
    }
}

/// How long the steps take that are known. Nothing is known before the first copy has begun, which says how fast the disks are.
#[derive(Debug, Default)]
pub(super) struct TimeLeft {
    /// The steps that have not begun.
    ahead: VecDeque<Cost>,
    /// The step that runs, and its start.
    now: Option<(Cost, Instant)>,
    /// Whether this is the first copy.
    is_copy: bool,
    /// What the whole first copy takes.
    copy: Option<Duration>,
}

impl TimeLeft {
    pub(super) fn planned(&mut self, plan: &Plan) {
        self.ahead = plan.steps.iter().map(Cost::of).collect();
    }

    pub(super) fn started(&mut self, step: &Step, now: Instant) {
        let cost = self.ahead.pop_front().unwrap_or_default();
        self.now = Some((cost, now));
        self.is_copy = matches!(step, Step::PreCopy(_));
    }

    /// How long all steps take from now on, once so much of this one is done.
    pub(super) fn moved(&mut self, done: u64, of: Option<u64>, now: Instant) -> Option<About> {
        let (cost, begun) = self.now?;
        let elapsed = now.saturating_duration_since(begun);
        if self.is_copy
            && let Some(of) = of
            && done > 0
            && elapsed >= SOON
        {
            self.copy = Some(elapsed.mul_f64((of as f64 / done as f64).max(1.0)));
        }
        let copy = self.copy?;
        let ahead: Duration = self.ahead.iter().map(|cost| cost.time(copy)).sum();
        Some(About(cost.time(copy).saturating_sub(elapsed) + ahead))
    }
}

/// Before this time a rate says little: the first bytes go to memory.
const SOON: Duration = Duration::from_secs(1);

/// A time as a person estimates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct About(Duration);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            seconds @ 0..10 => write!(f, "{} s", seconds + 1),
            seconds @ 10..90 => write!(f, "{} s", seconds.next_multiple_of(10)),
            seconds => write!(f, "{} min", seconds.div_ceil(60)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_person_says_it() {
        let said = |seconds| About(Duration::from_secs(seconds)).to_string();
        assert_eq!([0, 4, 10, 41, 91, 3601].map(said), ["1 s", "5 s", "10 s", "50 s", "2 min", "61 min"]);
    }

    /// 2 s for a tenth: the copy takes 20 s, of which 18 s are left, and the rounds take 32 s.
    #[test]
    fn what_the_copy_takes_says_what_the_rest_takes() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let round = Cost { copies: 1.5, beside: Duration::from_secs(2) };
        let copy = Cost { copies: 1.0, beside: Duration::ZERO };
        let mut left =
            TimeLeft { ahead: VecDeque::from([round]), now: Some((copy, begun)), is_copy: true, copy: None };
        assert_eq!(left.moved(10, None, at(2)), None);
        assert_eq!(left.moved(10, Some(100), begun), None);
        assert_eq!(left.moved(10, Some(100), at(2)), Some(About(Duration::from_secs(18 + 32))));
        // The rounds, of which nobody knows how many follow, end when they end.
        (left.now, left.is_copy, left.ahead) = (Some((round, at(20))), false, VecDeque::new());
        assert_eq!(left.moved(100, None, at(22)), Some(About(Duration::from_secs(30))));
        assert_eq!(left.moved(100, None, at(99)), Some(About(Duration::ZERO)));
    }
}
