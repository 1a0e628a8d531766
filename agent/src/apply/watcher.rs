//! Who is told how a run goes on.

use crate::plan::{Plan, Step};
use std::{fmt, time::Duration};

/// Whoever watches a run.
pub trait Watcher: fmt::Debug {
    /// A plan was made.
    fn planned(&mut self, plan: &Plan);
    /// A step begins.
    fn started(&mut self, at: usize, of: usize, step: &Step);
    /// The step has moved on: bytes done, of how many when that is known.
    fn moved(&mut self, done: u64, of: Option<u64>);
    /// A step has ended: what changed, or what went wrong.
    fn ended(&mut self, step: &Step, outcome: Result<&str, &str>, took: Duration);
    /// Something that is worth a line.
    fn noted(&mut self, text: &str);
    /// What was begun is being put back, which may take as long.
    fn returning(&mut self, limit: Duration);
}
