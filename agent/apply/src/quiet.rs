//! The state of a tree that a provisional proof begins with.
//!
//! The proof reads the whole source while a container may still write to it. So it counts only if nobody has written after
//! the state was taken. The later look finds that by the entries' `ctime`, for these reasons:
//!
//! - The kernel sets `ctime` to its clock at every change of content, names or metadata. No call sets it to another time.
//! - That clock may be some milliseconds behind (`ktime_get_coarse_real_ts64`). So two changes may get one `ctime`. A change
//!   after the state gets another one if all that the state has are older than [`QUIET`].
//! - The kernel sets `ctime` before a write changes the content, and once for several stores to a mapped page. So a write may
//!   have its `ctime` from before the state, and its content from after it. Whoever does that has the file open or mapped. So
//!   a look for open and mapped files follows the state, and must find none.

use super::{context::Run, evidence::Beginning, users};
use anyhow::Context as _;
use host::tree;
use std::{ffi::CStr, os::fd::OwnedFd, time::Duration};
use terms::AbsPath;

/// Longer than the kernel's clock is behind, at most 10 ms (a tick at 100 Hz), and than the second to which a filesystem
/// may cut its times (ext4 with small inodes).
const QUIET: Duration = Duration::from_millis(1100);
/// How often the tree is looked at until it is quiet. Someone who writes all the time is waited for by a later step.
const LOOKS: usize = 4;

/// Takes the state, or says why a proof cannot begin: someone writes, or has something open. `own` is an attribute that is
/// not copied.
pub fn state(
    run: &Run<'_>,
    from: &AbsPath,
    source: &OwnedFd,
    own: Option<&CStr>,
) -> anyhow::Result<Beginning> {
    let state = match settled(run, source)? {
        Ok(state) => state,
        Err(why) => return Ok(Err(why)),
    };
    // After the state: what it finds is true for as long as nothing changes.
    match tree::unsupported(source, own, &run.host.interrupt) {
        Err(error) if error.is_a_change() => return Ok(Err(error.to_string())),
        found => found.context("looking for files that rsync can't copy")?,
    }
    match users::with_files(run.host, from)?.first() {
        Some(user) => Ok(Err(format!("{} {}", user.name, user.how))),
        None => Ok(Ok(state)),
    }
}

fn settled(run: &Run<'_>, source: &OwnedFd) -> anyhow::Result<Beginning> {
    let mut why = String::new();
    for _ in 0..LOOKS {
        let mut wait = QUIET;
        match tree::state(source, &run.host.interrupt) {
            Ok(state) => {
                let (file, age) = state.newest();
                if age >= QUIET {
                    return Ok(Ok(state));
                }
                why = format!("{file} was written a moment ago");
                wait = QUIET.saturating_sub(age);
            }
            Err(error) if error.is_a_change() => why = error.to_string(),
            Err(error) => return Err(error).context("looking at the times of all files"),
        }
        run.host.pause(wait)?;
    }
    Ok(Err(why))
}
