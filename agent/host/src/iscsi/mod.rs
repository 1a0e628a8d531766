//! The initiator of this node: open-iscsi's records and verbs, and the kernel's sessions.
//!
//! Sessions are read from sysfs. iscsiadm does everything for which it has a command, except setting CHAP secrets: it
//! takes these only on its command line. So we write them into its records (see [`write_record`]).
//!
//! Paths in comments (usr/idbm.c) are those of open-iscsi's repository after 2.1.11. This module was tested with 2.1.8
//! and 2.1.11.

mod command;
mod daemon;
mod database;
mod discovery;
mod exit;
mod initiator;
mod login;
mod others;
mod own;
mod record;
mod session;

pub use daemon::keeps_sessions_in_use;
pub use database::CHAP_ALGS;
pub use discovery::{Announced, Discovered, announced, ask, parse_discovered};
pub use exit::{IscsiError, IscsiExit};
pub use initiator::{initiator_name, set_initiator_name};
pub use login::{LogIn, log_in, log_out};
pub use others::recorded;
pub use own::{drop_own_records, fill_database, use_own_database};
pub use record::{Record, Settings, record, write_record};
pub use session::{outgoing, scan, sessions, sessions_of, set_recovery_timeout};

use command::{DATABASE_LIMIT, iscsiadm};

#[cfg(test)]
mod tests {
    use crate::{Host, Root, transcript::Transcript};
    use std::{fs, path::PathBuf};

    /// A tree in the temporary directory, removed at the end.
    #[derive(Debug)]
    pub(super) struct Fixture {
        pub(super) host: Host,
        base: PathBuf,
    }

    impl Fixture {
        pub(super) fn new(name: &str) -> Self {
            Self::with(name, Transcript::default())
        }

        /// The directory of the fixture with this name.
        pub(super) fn base(name: &str) -> PathBuf {
            let base = fs::canonicalize(std::env::temp_dir()).unwrap();
            base.join(format!("etcd-lun-iscsi-{name}-{}", std::process::id()))
        }

        pub(super) fn with(name: &str, transcript: Transcript) -> Self {
            let base = Self::base(name);
            fs::create_dir_all(&base).unwrap();
            Self { host: Host::fixture(Root::new(&base), Box::new(transcript)).unwrap(), base }
        }

        pub(super) fn file(&self, path: &str, text: &str) {
            let path = self.host.root.locate(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.base).unwrap();
        }
    }
}
