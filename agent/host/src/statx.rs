//! A flag of statx(2). rustix has it only where it makes the call itself; on POWER and s390x it calls musl.

use rustix::fs::AtFlags;

/// Report what the kernel knows, and ask no server (statx(2), `AT_STATX_DONT_SYNC`).
pub const DONT_SYNC: AtFlags = AtFlags::from_bits_retain(nix::libc::AT_STATX_DONT_SYNC.cast_unsigned());
