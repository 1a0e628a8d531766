//! The test bed: a real node in a virtual machine, a real iSCSI target that outlives it, and a real etcd.
//!
//! - `bed`: one run's namespace, image and accelerator, that everything else is built on
//! - `packages`, `image`: what the host and the guest are made of
//! - `ledger`, `signals`: whatever a run starts ends with it
//! - `net`, `target`: the storage networks and the storage; LIO, in a machine of its own, is a `node` of other options
//! - `vm`, `qmp`, `ssh`, `node`: the node, its power and a way in
//! - `etcd`: keys and hashes
//! - `cache`: disks that lose with the power what was not flushed
//! - `scene`: a config for the agent, and the agent in the node
//! - `delivery`: a MachineConfig, put on a node's disk by the real Ignition
//! - `stage`, `suite`, `scenarios`: what must hold, each tried on a node set back for it
//! - `lanes`: several stages side by side
//! - `compare`: etcd-lun and other ways to move an etcd, in the same situations
//! - `demo`: the whole story for a person to watch
//! - `shell`: a node for a person to try things in
#![allow(
    clippy::disallowed_methods,
    reason = "the bed's whole business is running programs on a test machine"
)]

pub mod backing;
pub mod bed;
pub mod cache;
pub mod compare;
pub mod delivery;
pub mod demo;
pub mod etcd;
pub mod host;
pub mod image;
pub mod lanes;
pub mod ledger;
pub mod net;
pub mod node;
pub mod packages;
pub mod qmp;
pub mod scenarios;
pub mod scene;
pub mod shell;
pub mod signals;
pub mod slow;
pub mod ssh;
pub mod stage;
pub mod suite;
pub mod target;
pub mod tree;
pub mod vm;
