//! Copies a tree with rsync.
//!
//! Every file is read completely in every run. By default rsync skips a file with the same size and modification time.
//! That is not enough for a database: etcd changes its files in place and preallocates them, so the size stays the
//! same, and a filesystem's clock has a resolution of some milliseconds. `--checksum` would find such a change too, but
//! would read the changed file a second time to send it, and the database has always changed. So we use
//! `--ignore-times`.
//!
//! Files are written in place. Otherwise a copy needs free space for the largest file twice: a database of 8 GiB would
//! need a LUN of 16 GiB. Nobody reads the copy before it is proven. Writing in place has one limit: two names that are
//! one file on the copy, but two files on the source by now, overwrite each other. The comparison after every copy
//! finds that. etcd makes no hard links.
//!
//! All options exist from rsync 3.1.3 (RHEL 8) on; RHEL 9 has 3.2.3. `--fsync` came with 3.2.4 (rsync's NEWS.md) and is
//! not used: the caller syncs the whole filesystem.

use super::{ExecError, Host, Invocation, Tool, exec::one_line};
use std::{path::Path, time::Duration};
use terms::{ErrorName, Named};

/// How files that already exist on the copy are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Files are rewritten completely, with holes for runs of zeros. For the first pass, and for the only one if there
    /// was no pre-copy.
    Fill,
    /// Both sides are read, and only blocks that differ are written, by rsync's algorithm: checksums of blocks, then a
    /// checksum of the whole file. This pays only where writing is slow. With 2 GiB of data and 500 changed pages it
    /// wrote at most 481 MiB in 13 s; `Fill` wrote 2.2 GiB in 8 s; both on one fast local disk.
    ///
    /// It keeps existing holes but makes no new ones: before 3.3.0 rsync could write wrong files if it did both in
    /// place (rsync's NEWS.md, 3.2.4 and 3.3.0).
    Update,
}

impl Pass {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Fill => &["--whole-file", "--sparse"],
            Self::Update => &["--no-whole-file"],
        }
    }
}

/// The options of every pass. `rsync(1)`.
const OPTIONS: [&str; 17] = [
    "--recursive",
    "--links",
    "--perms",
    "--times",
    "--owner",
    "--group",
    "--numeric-ids",
    "--hard-links",
    "--one-file-system",
    // Files that are only on the copy are deleted before anything is written, because the space may be needed.
    "--delete-before",
    "--ignore-times",
    // To the nanosecond. Otherwise directories whose times differ by less than a second would keep their old time.
    "--modify-window=-1",
    "--inplace",
    // All names are read first. Otherwise the total size in the progress is only an estimate.
    "--no-inc-recursive",
    "--info=progress2",
    "--no-human-readable",
    "--outbuf=Line",
];

/// Makes `to` the same as `from`: contents, owners by number, modes, times to the nanosecond, symbolic and hard links.
/// Deletes what `from` doesn't have. Extended attributes, access control lists and special files are not copied; see
/// [`super::tree::unsupported`]. Mounts below `from` are not entered. Both are absolute paths of directories. `to` is
/// made if it is absent; its parent must exist.
///
/// `progress` gets the number of bytes done so far. Nothing is synced. After the time limit or an interruption,
/// processes of rsync may continue to write for a moment.
pub fn copy(
    host: &Host,
    from: &Path,
    to: &Path,
    pass: Pass,
    limit: Duration,
    progress: &mut dyn FnMut(u64),
) -> Result<(), RsyncError> {
    let what = invocation(from, to, pass)?.limit(limit);
    let output = host.runner.run(&what, &mut |piece| {
        if let Some(done) = parse_progress(piece) {
            progress(done);
        }
    })?;
    if output.code == 0 {
        return Ok(());
    }
    let crate::Output { code, stderr, .. } = output;
    Err(RsyncError::Failed { code, meaning: meaning(code, &stderr), said: complaints(&stderr) })
}

fn invocation(from: &Path, to: &Path, pass: Pass) -> Result<Invocation, RsyncError> {
    let mut args: Vec<&str> = OPTIONS.to_vec();
    args.extend(pass.options());
    // With a final slash rsync copies the content of the directory, not the directory. An absolute path can't be read
    // as an option or as `host:path`.
    let (from, to) = (with_slash(from)?, with_slash(to)?);
    args.extend([from.as_str(), to.as_str()]);
    Ok(Invocation::new(Tool::Rsync, args))
}

fn with_slash(path: &Path) -> Result<String, RsyncError> {
    match path.to_str() {
        Some(text) if path.is_absolute() => Ok(format!("{}/", text.trim_end_matches('/'))),
        _ => Err(RsyncError::Path(path.to_string_lossy().into_owned())),
    }
}

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum RsyncError {
    /// rsync could not be run to its end.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// rsync ended with an error. The files copied so far stay.
    #[error("copying with rsync: {meaning} (exit code {code}): {said}")]
    Failed {
        /// Its exit code.
        code: i32,
        /// The meaning of the code.
        meaning: &'static str,
        /// Its output, with the names of files, on one line.
        said: String,
    },
    /// A path that can't be passed to rsync.
    #[error("`{0}` is not an absolute path in UTF-8")]
    Path(String),
}

impl Named for RsyncError {
    fn name(&self) -> Option<ErrorName> {
        Some(match self {
            Self::Failed { .. } => ErrorName::RsyncFailed,
            Self::Exec(error) => return error.name(),
            Self::Path(_) => return None,
        })
    }
}

/// The exit code when files were deleted before they could be copied.
pub const VANISHED: i32 = 24;

/// The meaning of rsync's exit code (`rsync(1)`, EXIT VALUES; rsync's `errcode.h`). There is none for a full destination: rsync
/// returns 11, 23 or 12, and prints the numbers of ENOSPC and EDQUOT.
fn meaning(code: i32, stderr: &str) -> &'static str {
    if stderr.contains("No space left on device (28)") || stderr.contains("Disk quota exceeded (122)") {
        return "no space left on the destination, which must be at least as large as the data";
    }
    match code {
        1 | 2 | 4 => "rsync does not support an option that is needed: version 3.1.3 or later is required",
        3 => "source or destination can't be used",
        10 | 12 | 13 | 14 => "rsync's processes lost their connection to each other",
        11 => "a file could not be read or written, see the kernel's log for errors of the disk",
        15 | 16 | 19 | 20 | 21 => "a part of rsync was ended by a signal",
        22 => "rsync ran out of memory",
        23 => "not everything was copied",
        VANISHED => "files were deleted while they were copied: stop what writes them",
        _ => "an unknown error",
    }
}

/// The bytes done, from a line of `--info=progress2`:
///
/// ```text
///    42123264  40%  120.51MB/s    0:00:00 (xfr#1, to-chk=3/9)
/// ```
fn parse_progress(piece: &str) -> Option<u64> {
    let mut words = piece.split_ascii_whitespace();
    let done = words.next()?;
    let percent = words.next()?.strip_suffix('%')?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if number(done) && number(percent) { done.parse().ok() } else { None }
}

/// The lines that name a file or a reason, without rsync's last line, which only names a line of its source.
fn complaints(stderr: &str) -> String {
    let mut lines = Vec::new();
    for line in stderr.lines() {
        let line = line.trim();
        let said = match line.strip_prefix("rsync: ") {
            // From 3.2 on the line begins with the process that prints it.
            Some(rest) if rest.starts_with('[') => rest.split_once("] ").map(|(_, said)| said),
            Some(rest) => Some(rest),
            None => line.starts_with("file has vanished: ").then_some(line),
        };
        lines.extend(said);
    }
    match lines.len() {
        0 => one_line(stderr),
        1..=3 => one_line(&lines.join("\n")),
        more => {
            lines.truncate(3);
            format!("{}; and {} more", one_line(&lines.join("\n")), more - 3)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let what = |from: &str, pass| invocation(Path::new(from), Path::new("/mnt"), pass);
        let fill = what("/var/lib/etcd", Pass::Fill).unwrap().to_string();
        assert!(fill.ends_with(" --outbuf=Line --whole-file --sparse /var/lib/etcd/ /mnt/"), "{fill}");
        let update = what("/a b/", Pass::Update).unwrap().to_string();
        assert!(update.ends_with(" --no-whole-file '/a b/' /mnt/"), "{update}");
        assert!(!update.contains("--sparse"));
        for wrong in ["", "etcd", "host:/etcd", "-e"] {
            assert!(matches!(what(wrong, Pass::Fill), Err(RsyncError::Path(_))), "{wrong}");
        }
    }

    #[test]
    fn progress_lines() {
        for (piece, done) in [
            ("      8,192   0%    0.00kB/s    0:00:00", None), // not the requested format
            ("      8192   0%    0.00kB/s    0:00:00", Some(8192)),
            ("   42123264  40%  120.51MB/s    0:00:00 (xfr#1, to-chk=3/9)", Some(42_123_264)),
            ("   42123264 100%  120.51MB/s    0:00:00  ", Some(42_123_264)),
            ("99999999999999999999 1% x", None),
            ("-5 1% x", None),
            ("8192", None),
            ("sending incremental file list", None),
            ("\u{1b}[2J", None),
            ("", None),
        ] {
            assert_eq!(parse_progress(piece), done, "{piece}");
        }
    }

    /// Recorded from rsync 3.5.0. The forms of 3.1.3 and 3.2.3 are from their sources.
    #[test]
    fn failures() {
        for (code, stderr, cause, said) in [
            (
                11,
                "rsync: [receiver] write failed on \"/mnt/member/snap/db\": No space left on device (28)\nrsync error: error in file IO (code 11) at receiver.c(381) [receiver=3.2.3]\n",
                "no space",
                "write failed on \"/mnt/member/snap/db\": No space left on device (28)",
            ),
            (
                11,
                "rsync: write failed on \"/mnt/db\": No space left on device (28)\nrsync error: error in file IO (code 11) at receiver.c(393) [receiver=3.1.3]\n",
                "no space",
                "write failed on \"/mnt/db\": No space left on device (28)",
            ),
            (
                23,
                "rsync: [sender] send_files failed to open \"/src/x\": Permission denied (13)\nrsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1338) [sender=3.2.7]\n",
                "not everything",
                "send_files failed to open \"/src/x\": Permission denied (13)",
            ),
            (
                24,
                "file has vanished: \"/src/0.tmp\"\nrsync warning: some files vanished before they could be transferred (code 24) at main.c(1338) [sender=3.2.7]\n",
                "files were deleted",
                "file has vanished: \"/src/0.tmp\"",
            ),
            (
                23,
                "nied (13)\nrsync: a\nrsync: b\nrsync: c\nrsync: d\nrsync: e\nrsync error: x\n",
                "not everything",
                "a; b; c; and 2 more",
            ),
            (20, "", "a part of rsync", "no message"),
            (1, "rsync: --inf: unknown option\n", "rsync does not support", "--inf: unknown option"),
            (99, "\u{1b}[1mwhat\n", "an unknown error", "[1mwhat"),
        ] {
            assert!(meaning(code, stderr).starts_with(cause), "{code}, {stderr}");
            assert_eq!(complaints(stderr), said);
        }
    }
}
