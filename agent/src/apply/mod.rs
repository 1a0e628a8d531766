//! Carrying out a plan. Decides nothing.
//!
//! From the top: a file uses only what is listed below it.
//!
//! * [`verbs`]: what a person or a unit calls beside `apply` and `rollback`
//! * [`rounds`]: the loop of `apply` and `rollback`
//! * [`dispatch`]: one `match`, each step to what does it
//! * [`steps`]: what each step does, by what it touches
//! * [`cause`]: what is behind a step that failed
//! * [`guard`]: what a destructive step re-reads just before it acts
//! * [`place`], [`record`], [`users`]: what lies where, which copy is the truth, who uses the data
//! * [`selinux`]: whether this process is confined, and the label of the LUN's root directory
//! * [`alone`]: one run at a time, and nothing left of one that was killed
//! * [`context`]: what a run works with, and keeps between its steps
//! * [`secrets`]: CHAP credentials, read once before the first step
//! * [`outcome`], [`watcher`]: how a run ends, and who is told how it goes on
#![deny(clippy::wildcard_enum_match_arm)]

mod alone;
mod cause;
mod context;
mod dispatch;
mod guard;
mod outcome;
mod place;
mod record;
mod rounds;
pub mod secrets;
mod selinux;
mod steps;
mod users;
mod verbs;
mod watcher;

pub use outcome::{Done, Failure};
pub use rounds::apply;
pub use verbs::{confine, let_go, mark, retired};
pub use watcher::Watcher;
