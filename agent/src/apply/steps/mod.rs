//! What each step does, by what it touches. A guard reads the step's precondition anew first ([`guard`](super::guard)).
//!
//! * [`login`]: the initiator name, iscsid, sessions
//! * [`attach`]: the LUN, or a disk of the machine's own
//! * [`format`](mod@format): the filesystem
//! * [`stage`]: the LUN's mount for this process only
//! * [`measure`]: whether the LUN is fast enough
//! * [`copy`]: the copy and the proof, both ways
//! * [`stamp`]: the stamp, and the count of uses
//! * [`commit`]: the record, and the commit points
//! * [`retire`], [`fence`]: the data directory on the local disk
//! * [`returning`]: the local copy of a rollback
//! * [`mount`]: the LUN's mount for etcd
//! * [`etcd`]: stopping and starting it

pub mod attach;
pub mod commit;
pub mod copy;
pub mod etcd;
pub mod fence;
pub mod format;
pub mod login;
pub mod measure;
pub mod mount;
pub mod retire;
pub mod returning;
pub mod stage;
pub mod stamp;
