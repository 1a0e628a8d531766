//! The LUNs that the kernel knows of a session, and which of them is meant.

use std::io;

use host::{
    Host,
    block::{self, ShownLun},
};
use terms::{Ambiguous, LunAddress, Session, WantedLun, Wwid};

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

    /// The LUN that is meant; none if it is not among them, or if it is not known yet which of a list it is. If several fit, that
    /// is an error: nothing shows which one is right.
    pub fn chosen(&self, wanted: &WantedLun) -> io::Result<Option<&ShownLun>> {
        let at = wanted.choose(&self.names()).map_err(|several| self.ambiguous(wanted, &several))?;
        Ok(at.and_then(|at| self.luns.get(at)))
    }

    /// Returns that LUN, or all of the list that may be meant.
    pub fn all(&self, wanted: &WantedLun) -> io::Result<Vec<&ShownLun>> {
        let all = wanted.choose_all(&self.names()).map_err(|several| self.ambiguous(wanted, &several))?;
        Ok(all.into_iter().filter_map(|at| self.luns.get(at)).collect())
    }

    fn names(&self) -> Vec<(LunAddress, Option<Wwid>)> {
        self.luns.iter().map(|lun| (lun.address, lun.wwid.clone())).collect()
    }

    fn ambiguous(&self, wanted: &WantedLun, Ambiguous(several): &Ambiguous) -> io::Error {
        let several = several.iter().filter_map(|at| self.luns.get(*at)).map(ToString::to_string);
        io::Error::other(format!(
            "{} shows {wanted} more than once: {}; set `node.wwid` and `node.lun` so that only one fits",
            self.target,
            several.collect::<Vec<_>>().join(", ")
        ))
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
