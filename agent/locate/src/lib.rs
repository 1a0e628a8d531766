//! Where the LUN is: which session shows it, which disks it has, what udev has made of them, and who uses them.
//!
//! It reads what the host says and decides nothing. `observe` makes facts of it. `apply` asks it while it acts, because a disk has
//! no name before its session is there.

mod disks;
mod shown;
mod udev;
mod users;

pub use disks::{answering_disks, are_settled, disk_of, disks, disks_of_device, sessions_to_target};
pub use shown::Shown;
pub use udev::{carries_label, has_map, is_claimed, is_settled};
pub use users::{is_swap, session_users, users_of};
