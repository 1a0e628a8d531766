//! The test bed: a real node in a virtual machine, a real iSCSI target that outlives it, and a real etcd.
//!
//! - `bed`: one run of the bed: its namespace, image and accelerator; everything else uses it
//! - `packages`, `image`, `release`: the host's packages, the guest's image, and the guest's Debian release
//! - `ledger`, `signals`: end everything that a run started when the run ends
//! - `array`: an array with faults that a scenario chooses
//! - `net`, `target`: the networks and the storage; the LIO target is a second `node` with other options
//! - `vm`, `qmp`, `ssh`, `node`: the node, its power switch and its ssh connection
//! - `etcd`: writes keys into the node's etcd and reads its hash
//! - `again`: a thread that does one thing again and again
//! - `gateway`: one request to an etcd, from the bed
//! - `cluster`: the node's etcd as one of three members, and a client that checks its own history
//! - `cache`: disks with a write cache, which lose unflushed data at a power cut
//! - `scene`: the agent in the node, and a config for it
//! - `verbs`: what the agent's verbs print with `--json`
//! - `object`: renders a MachineConfig
//! - `delivery`: the real Ignition puts a MachineConfig on a node's disk
//! - `registry`: brings the program's image to nodes
//! - `stage`, `suite`, `scenarios`: the scenarios; each begins on a node that was reset for it
//! - `lanes`: several stages at the same time
//! - `exit`: how a command line ends
//! - `demo`: one migration from beginning to end, to watch
//! - `shell`: a node to try things in
#![allow(clippy::disallowed_methods, reason = "the bed runs programs on a test machine")]

pub mod again;
pub mod array;
pub mod backing;
pub mod bed;
pub mod cache;
pub mod cluster;
pub mod core;
pub mod delivery;
pub mod demo;
pub mod desk;
pub mod etcd;
pub mod exit;
pub mod gateway;
pub mod host;
pub mod image;
pub mod lanes;
pub mod ledger;
pub mod net;
pub mod node;
pub mod object;
pub mod packages;
pub mod qmp;
pub mod registry;
pub mod release;
pub mod scenarios;
pub mod scene;
pub mod shared;
pub mod shell;
pub mod signals;
pub mod slow;
pub mod ssh;
pub mod stage;
pub mod suite;
pub mod target;
pub mod tour;
pub mod tree;
pub mod verbs;
pub mod vm;
