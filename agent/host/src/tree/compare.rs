//! Compares two trees: is a copy the same as its source?

use super::{
    CHUNK, Side, Summary, TreeError,
    fingerprint::{Links, Record, fill, read_ahead},
    shown,
    walk::{Entry, Moment, Node, Walk},
};
use crate::Interrupt;
use rustix::{fd::AsFd, fs::FileType};
use std::{
    cmp::Ordering,
    fs::File,
    io,
    sync::mpsc::{channel, sync_channel},
    thread,
};
use terms::ContentHasher;

/// Reads both trees completely and compares contents and metadata of every entry, as
/// [`fingerprint`](super::fingerprint) does. The result describes both trees.
///
/// Each file is read from both sides at the same time by two threads, because the two trees are on different disks.
/// `progress` gets the number of bytes compared so far.
///
/// The program itself proves a copy with [`settle`](super::settle). Tests hold that against this comparison, which knows no
/// hash and no earlier pass.
///
/// The first difference is [`TreeError::Different`].
pub fn compare(
    source: impl AsFd,
    copy: impl AsFd,
    seed: u64,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, TreeError> {
    let mut done = 0;
    entries(source, copy, seed, interrupt, &mut |ours, theirs| {
        content(ours, theirs, seed, &mut |count| {
            done += count;
            progress(done);
        })
    })
}

/// Compares names and metadata of every entry of both trees. `content` compares and hashes the contents of two files.
pub(super) fn entries(
    source: impl AsFd,
    copy: impl AsFd,
    seed: u64,
    interrupt: &Interrupt,
    content: &mut Content<'_>,
) -> Result<Summary, TreeError> {
    let mut ours = Walk::new(source.as_fd(), Side::Source, interrupt)?;
    let mut theirs = Walk::new(copy.as_fd(), Side::Copy, interrupt)?;
    let (mut our_links, mut their_links) = (Links::default(), Links::default());
    let mut record = Record::new(seed);
    loop {
        let (a, b) = match (ours.next()?, theirs.next()?) {
            (None, None) => return Ok(record.summary()),
            (Some(a), None) => return Err(different(&a.path, "missing on the copy")),
            (None, Some(b)) => return Err(different(&b.path, "only on the copy")),
            (Some(a), Some(b)) => (a, b),
        };
        match in_order(&a.path, &b.path) {
            Ordering::Less => return Err(different(&a.path, "missing on the copy")),
            Ordering::Greater => return Err(different(&b.path, "only on the copy")),
            Ordering::Equal => {}
        }
        let link = our_links.earlier_name(&a);
        let their_link = their_links.earlier_name(&b);
        let found = metadata(&a, &b).or_else(|| linking(link, their_link).map(str::to_owned));
        if let Some(found) = found {
            return Err(different(&a.path, found));
        }
        let content = match (&a.node, &b.node, link) {
            (Node::File(our), Node::File(their), None) => {
                Some(content((&ours, &a, our), (&theirs, &b, their))?)
            }
            _ => None,
        };
        record.add(&a, link, content);
    }
}

/// One side of a pair of files.
pub(super) type Half<'a> = (&'a Walk<'a>, &'a Entry, &'a File);
/// Compares two files of one name and hashes them.
pub(super) type Content<'a> = dyn FnMut(Half<'_>, Half<'_>) -> Result<[u8; 16], TreeError> + 'a;

/// Compares two files of the same size and hashes them.
fn content(
    ours: Half<'_>,
    theirs: Half<'_>,
    seed: u64,
    read: &mut dyn FnMut(u64),
) -> Result<[u8; 16], TreeError> {
    let (walk, entry, file) = ours;
    let (their_walk, their_entry, their_file) = theirs;
    let mut hasher = ContentHasher::new(seed);
    if entry.meta.size > 0 {
        let chunk = usize::try_from(entry.meta.size).map_or(CHUNK, |size| size.min(CHUNK));
        let mut buffer = vec![0; chunk];
        thread::scope(|scope| {
            // Two buffers are used in turn: one is filled while the other is compared.
            let (to_us, filled) = sync_channel(1);
            let (give_back, empty) = channel();
            for _ in 0..2 {
                // This can't fail, because both ends of the channel exist.
                let _sent = give_back.send(vec![0; chunk]);
            }
            let reader = move || {
                read_ahead(their_file.as_fd());
                for mut buffer in empty {
                    let result = fill(their_file, &mut buffer);
                    let is_last = !matches!(result, Ok(1..));
                    if to_us.send((result, buffer)).is_err() || is_last {
                        return;
                    }
                }
            };
            let unreadable = |error| walk.side.unreadable(&entry.path, error);
            let theirs_unreadable = |error| their_walk.side.unreadable(&their_entry.path, error);
            // The thread has a name, so that a list of threads shows which disk a hanging process reads.
            let named = thread::Builder::new().name("copy reader".into());
            named.spawn_scoped(scope, reader).map_err(theirs_unreadable)?;
            read_ahead(file.as_fd());
            loop {
                walk.stop_if_asked()?;
                let count = fill(file, &mut buffer).map_err(unreadable)?;
                let (result, their_buffer) = filled
                    .recv()
                    .map_err(|_| theirs_unreadable(io::Error::other("the reading thread ended")))?;
                let their_count = result.map_err(theirs_unreadable)?;
                let ours = buffer.get(..count).unwrap_or_default();
                let theirs = their_buffer.get(..their_count).unwrap_or_default();
                if ours != theirs {
                    let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
                    let from = hasher.count() + same as u64;
                    // If a file doesn't end where it should, it has changed, which is another error than a difference.
                    walk.unchanged(&entry.path, file.as_fd(), &entry.meta)?;
                    their_walk.unchanged(&their_entry.path, their_file.as_fd(), &their_entry.meta)?;
                    return Err(different(&entry.path, format!("content differs from byte {from} on")));
                }
                if ours.is_empty() {
                    return Ok(());
                }
                hasher.update(ours);
                // A file that grows as fast as it is read would never end.
                if hasher.count() > entry.meta.size {
                    return Err(walk.side.changing(&entry.path));
                }
                read(count as u64);
                // This fails if the reader has ended. `recv` then returns the reader's error.
                let _sent = give_back.send(their_buffer);
            }
        })?;
    }
    if hasher.count() < entry.meta.size {
        return Err(walk.side.changing(&entry.path));
    }
    walk.unchanged(&entry.path, file.as_fd(), &entry.meta)?;
    their_walk.unchanged(&their_entry.path, their_file.as_fd(), &their_entry.meta)?;
    Ok(hasher.finish())
}

/// The first difference in the metadata, if any.
fn metadata(a: &Entry, b: &Entry) -> Option<String> {
    let (ours, theirs) = (&a.meta, &b.meta);
    let is_file = ours.kind == FileType::RegularFile;
    let checks = [
        (ours.kind != theirs.kind, "", kind(ours.kind).to_owned(), kind(theirs.kind).to_owned()),
        (ours.mode != theirs.mode, "mode ", format!("{:04o}", ours.mode), format!("{:04o}", theirs.mode)),
        (ours.uid != theirs.uid, "owner ", ours.uid.to_string(), theirs.uid.to_string()),
        (ours.gid != theirs.gid, "group ", ours.gid.to_string(), theirs.gid.to_string()),
        (is_file && ours.size != theirs.size, "size ", ours.size.to_string(), theirs.size.to_string()),
        // The time of the root is not part of a fingerprint.
        (
            !a.path.is_empty() && ours.mtime != theirs.mtime,
            "mtime ",
            moment(ours.mtime),
            moment(theirs.mtime),
        ),
    ];
    let found = checks.into_iter().find(|(differs, ..)| *differs);
    if let Some((_, what, ours, theirs)) = found {
        return Some(format!("{what}{ours} on the source, {theirs} on the copy"));
    }
    match (&a.node, &b.node) {
        (Node::Link { target: ours, .. }, Node::Link { target: theirs, .. }) if ours != theirs => {
            Some(format!(
                "leads to {} on the source, to {} on the copy",
                shown(ours.to_bytes()),
                shown(theirs.to_bytes())
            ))
        }
        _ => None,
    }
}

fn linking(ours: Option<u64>, theirs: Option<u64>) -> Option<&'static str> {
    match (ours, theirs) {
        (Some(_), None) => Some("hard-linked to another name on the source, a file of its own on the copy"),
        (None, Some(_)) => Some("a file of its own on the source, hard-linked to another name on the copy"),
        (ours, theirs) if ours != theirs => {
            Some("hard-linked to different names on the source and on the copy")
        }
        _ => None,
    }
}

/// The order of a walk: by path components, because the content of a directory follows the directory at once.
fn in_order(a: &[u8], b: &[u8]) -> Ordering {
    let components = |path: &[u8]| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
    if a == b { Ordering::Equal } else { components(a).cmp(&components(b)) }
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        _ => "a file",
    }
}

fn moment((seconds, nanoseconds): Moment) -> String {
    format!("{seconds}.{nanoseconds:09}")
}

fn different(path: &[u8], found: impl Into<String>) -> TreeError {
    TreeError::Different { file: shown(path), found: found.into() }
}
