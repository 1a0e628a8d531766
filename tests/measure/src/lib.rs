//! Measurements and comparisons on nodes of the test bed. They take from minutes to hours, and their figures stand in `docs/`.
//!
//! - `compare`: etcd-lun and other ways to move an etcd, in the same situations
//! - `desk`: an administrator's machine in front of them, to try a rollout by hand
//! - `roll`: the etcds of three nodes move one after the other
//! - `faults`: how soon etcd serves again after its storage was away
//! - `switch`: how long a client gets no answer while an etcd moves
#![allow(clippy::disallowed_methods, reason = "it runs programs on a test machine")]

pub mod compare;
pub mod desk;
pub mod faults;
pub mod roll;
pub mod switch;
