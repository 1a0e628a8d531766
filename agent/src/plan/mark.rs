//! Counting a use of the LUN once more while etcd runs on it.
//!
//! A snapshot that the array took earlier has a lower count from then on, and is refused at the next mount. Without this
//! only a mount counts, and one that was taken and put back between two mounts would pass for the present.

use super::{Refusal, Step, require, resume, step};
use crate::{
    config::Config,
    node::{Node, authority::Authority},
};
use std::fmt;

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// This step.
    Due(Box<Step>),
    /// Nothing, which is no fault.
    Idle(Idle),
}

/// Why there is nothing to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// The truth is on the local disk.
    NotMigrated,
    /// Nothing uses the LUN.
    NotMounted,
    /// A write would wait for the target, and whoever waits for us with it.
    NoConnection,
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMigrated => "etcd's data is on the local disk",
            Self::NotMounted => "the LUN is not mounted",
            Self::NoConnection => "no session to the target is connected",
        })
    }
}

/// Decides whether a use is counted. Refuses where `apply` would: on any doubt that what is mounted is the truth.
pub fn mark(config: &Config, node: &Node) -> Result<Mark, Refusal> {
    let Some(record) = require("which copy is the truth (the record)", &node.record)? else {
        return Ok(Mark::Idle(Idle::NotMigrated));
    };
    if record.authority == Authority::Local {
        return Ok(Mark::Idle(Idle::NotMigrated));
    }
    let sight = super::Sight::of(config, node, super::Occasion::ByHand)?;
    let Some(mount) = require("what is mounted on the data directory", &node.mount)? else {
        return Ok(Mark::Idle(Idle::NotMounted));
    };
    if let Some(iscsi) = config.backing.iscsi() {
        let sessions = require("iSCSI sessions", &node.sessions)?;
        let mut ours = sessions.iter().filter(|session| session.target == iscsi.target.iqn.as_str());
        if !mount.io_error && !ours.any(|session| session.is_logged_in()) {
            return Ok(Mark::Idle(Idle::NoConnection));
        }
    }
    let (record, stamp) = resume::truth(&sight, mount)?;
    let (stamp, record) = resume::counted(record, stamp);
    Ok(Mark::Due(Box::new(Step::Mark(step::Mark { at: config.etcd.data_dir.clone(), stamp, record }))))
}
