//! Moves a node's etcd to an iSCSI LUN of its own, without ever losing a write.
//!
//! `observe → plan → apply → observe again`; ARCHITECTURE.md has the laws and the map.
//!
//! * [`terms`]: the words of the domain as types, parsed once
//! * [`config`]: what is wanted
//! * [`node`]: what was seen
//! * [`plan`]: what will be done, or why nothing will; pure
//! * [`apply`]: the loop that does it
//! * [`hands`]: asks for what the confined service may not do itself
//! * [`health`]: what we think of what was seen; pure
//! * [`bench`]: whether a disk is fast enough for etcd; pure
//! * [`unit`]: the systemd units, rendered; pure
//! * [`policy`]: the SELinux module and the udev rule, rendered; pure
//! * [`delivery`]: what is brought to a node, and how it is written; pure
//! * [`host`]: the only code that touches the machine
//! * [`locate`]: where the LUN is
//! * [`cli`]: verbs, exit codes, and the only printing

pub use ::bench;
pub use apply;
pub use cli;
pub use config;
pub use delivery;
pub use hands;
pub use health;
pub use host;
pub use locate;
pub use node;
pub use observe;
pub use plan;
pub use policy;
pub use terms;
pub use unit;
