//! Carrying out a plan. What it decides by itself stands in ARCHITECTURE.md, below the laws.
//!
//! From the top: a file uses only what is listed below it.
//!
//! * [`verbs`]: the verbs beside `apply` and `rollback`
//! * [`rounds`]: the loop of `apply` and `rollback`
//! * [`dispatch`]: one `match` from each step to the function that does it
//! * [`performer`]: the node as a [`machine`]
//! * [`protocol`]: the steps of record, stamp and data directory, on any machine
//! * [`steps`]: what each step does, in a file for each thing that steps touch
//! * [`cause`]: why a step has failed
//! * [`exposure`]: asking PID 1 to mount the LUN, so that nothing is mounted that was not verified
//! * [`guard`]: the preconditions that a destructive step reads again just before it acts
//! * [`machine`]: what steps see of the machine and do to it, so that a model can drive them
//! * [`aside`]: putting the data directory's content aside, and back
//! * [`anew`]: how often the service has mounted the LUN anew
//! * [`unmount`]: asking PID 1 to unmount, and waiting for everyone else
//! * [`quiet`]: the state of the source with which a provisional proof begins
//! * [`cures`]: what a person can do when the machine did not do something
//! * [`users`]: who uses the data
//! * [`scope`]: a systemd scope for a run by hand
//! * [`alone`]: one run at a time, and ending the processes of a killed run
//! * [`run_file`]: what a run says of itself to those who follow it
//! * [`context`]: what a run works with and keeps between its steps
//! * [`outcome`], [`away`], [`watcher`]: the result of a run, and who is told about its progress
#![deny(clippy::wildcard_enum_match_arm)]

pub mod alone;
pub mod anew;
mod aside;
mod away;
mod cause;
mod context;
mod cures;
mod dispatch;
mod evidence;
mod exposure;
mod guard;
pub mod machine;
mod outcome;
mod performer;
pub mod pod;
pub mod protocol;
mod quiet;
mod rounds;
pub mod run_file;
pub mod scope;
mod steps;
mod unmount;
mod users;
mod verbs;
mod watcher;

pub use away::Away;
pub use outcome::{Done, Failure};
pub use rounds::{MAX_ROUNDS, apply, asked};
pub use verbs::{confine, let_go, luns, mark, retired};
pub use watcher::{StepNumber, Watcher};
