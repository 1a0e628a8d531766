//! Who is told about the progress of a run.

use plan::{Plan, Step};
use std::{
    fmt,
    time::{Duration, Instant},
};

/// Where a step stands in a run, whose plans are numbered through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepNumber {
    /// Its number, from 1.
    pub at: usize,
    /// How many steps are known by now.
    pub of: usize,
    /// True if more steps may follow, which depend on the findings of these.
    pub more: bool,
}

impl fmt::Display for StepNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}/{}{}]", self.at, self.of, if self.more { "+" } else { "" })
    }
}

/// An observer of a run's progress.
pub trait Watcher: fmt::Debug {
    /// A plan was made.
    fn planned(&mut self, plan: &Plan);
    /// A step begins.
    fn started(&mut self, number: StepNumber, step: &Step);
    /// The step has made progress: bytes done, and the total if it is known.
    fn moved(&mut self, done: u64, of: Option<u64>);
    /// The step waits for this.
    fn waiting(&mut self, for_what: &str);
    /// A step has ended: what changed, or how it failed.
    fn ended(&mut self, step: &Step, outcome: Result<&str, &str>, took: Duration);
    /// Something happened that a person should read.
    fn noted(&mut self, text: &str);
}

/// An observer of a run that has nothing to tell.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Watcher for Silent {
    fn planned(&mut self, _: &Plan) {}
    fn started(&mut self, _: StepNumber, _: &Step) {}
    fn moved(&mut self, _: u64, _: Option<u64>) {}
    fn waiting(&mut self, _: &str) {}
    fn ended(&mut self, _: &Step, _: Result<&str, &str>, _: Duration) {}
    fn noted(&mut self, _: &str) {}
}

/// How often a person is told that a step still waits for the same thing.
const REMINDER: Duration = Duration::from_secs(60);

/// The object of a wait, and the time at which a person was told so.
#[derive(Debug, Default)]
pub struct Waiting(Option<(String, Instant)>);

impl Waiting {
    /// Tells what is waited for, and for how long at most: at once, when the reason changes, and once a minute.
    pub fn note(&mut self, watcher: &mut dyn Watcher, why: &str, left: Duration) {
        if self.0.as_ref().is_some_and(|(last, told)| last == why && told.elapsed() < REMINDER) {
            return;
        }
        watcher.noted(&format!("waiting for another {} s at most: {why}", left.as_secs()));
        self.0 = Some((why.to_owned(), Instant::now()));
    }
}
