//! The LUNs that the kernel knows of a session, and which of them is meant.

use std::io;

use host::{
    Host,
    block::{self, ShownLun},
};
use terms::{Ambiguous, Session, WantedLun};

/// How many LUNs a message lists. An array may show hundreds.
const LISTED: usize = 12;

/// The LUNs that the kernel knows of a session.
#[derive(Debug)]
pub struct Shown {
    target: String,
    /// All of them, disks and others.
    pub luns: Vec<ShownLun>,
}

impl Shown {
    /// Those of a session; none as long as the kernel has not set up the session's target.
    pub fn on(host: &Host, session: &Session) -> io::Result<Self> {
        let luns = match session.target_id {
            Some(target) => block::luns_of(host, session.host_no, target)?,
            None => Vec::new(),
        };
        Ok(Self { target: session.target.clone(), luns })
    }

    /// The LUN that is meant; none if it is not among them. If several fit, that is an error: nothing shows which one is right.
    pub fn chosen(&self, wanted: &WantedLun) -> io::Result<Option<&ShownLun>> {
        let names: Vec<_> = self.luns.iter().map(|lun| (lun.address, lun.wwid.clone())).collect();
        match wanted.choose(&names) {
            Ok(at) => Ok(at.and_then(|at| self.luns.get(at))),
            Err(Ambiguous(several)) => {
                let several = several.iter().filter_map(|at| self.luns.get(*at)).map(ToString::to_string);
                Err(io::Error::other(format!(
                    "{} shows {wanted} more than once: {}; set `node.wwid` and `node.lun` so that only one fits",
                    self.target,
                    several.collect::<Vec<_>>().join(", ")
                )))
            }
        }
    }

    /// All disks, as a list for a message.
    pub fn list(&self) -> String {
        let disks: Vec<_> = self.luns.iter().filter(|lun| lun.is_disk).map(ToString::to_string).collect();
        let more = match disks.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more, which `etcd-lun luns` lists"),
        };
        let first: Vec<_> = disks.into_iter().take(LISTED).collect();
        if first.is_empty() { "no LUN".into() } else { format!("{}{more}", first.join(", ")) }
    }
}
