//! What each step does: a file for each thing that steps touch.
//!
//! A destructive step first calls its guard (`apply/guard.rs`), which reads the step's precondition again.
//!
//! * [`login`]: the initiator name, iscsid, sessions
//! * [`portals`]: paths and records of portals that the config does not name
//! * [`attach`]: the LUN's disk
//! * [`format`](mod@format): the filesystem
//! * [`stage`]: the LUN's mount for this process only
//! * [`measure`]: the LUN's speed
//! * [`copy`], [`catch_up`]: the copy, both ways, and bringing it up to date while etcd runs
//! * [`prove`]: the proof that it is complete
//! * [`confirm`]: whether a proof holds that was made while containers could still write
//! * [`stamp`]: the stamp, and the count of uses
//! * [`claim`]: taking a LUN that is newer than the record
//! * [`commit`]: the record, and the commit points
//! * [`retire`], [`fence`]: the local data, and the data directory without it
//! * [`bar`]: putting out-of-date local data aside
//! * [`returning`]: the local copy of a rollback
//! * [`mount`]: the LUN's mount for etcd
//! * [`grow`]: the multipath map and the filesystem of a LUN that has grown
//! * [`preflight`]: trying all that before etcd is stopped
//! * [`etcd`]: stopping and starting it
//! * [`serve`]: whether the others can do without it, and whether it serves again

pub mod attach;
pub mod bar;
pub mod catch_up;
pub mod claim;
pub mod commit;
pub mod confirm;
pub mod copy;
pub mod etcd;
pub mod fence;
pub mod format;
pub mod grow;
pub mod login;
pub mod look;
pub mod measure;
pub mod mount;
pub mod portals;
pub mod preflight;
pub mod prove;
pub mod retire;
pub mod returning;
pub mod serve;
pub mod stage;
pub mod stamp;
