//! Compares two trees: is a copy the same as its source?

use super::{
    Side, Summary, TreeError,
    fingerprint::{Links, Record},
    shown,
    walk::{Entry, Moment, Node, Walk},
};
use crate::Interrupt;
use rustix::{fd::AsFd, fs::FileType};
use std::cmp::Ordering;

/// Compares names and metadata of every entry of both trees. `content` compares and hashes the contents of two files. The
/// first difference is [`TreeError::Different`].
pub(super) fn entries(
    source: impl AsFd,
    copy: impl AsFd,
    seed: u64,
    interrupt: &Interrupt,
    mut content: impl FnMut(&Entry, &Entry) -> Result<[u8; 16], TreeError>,
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
        let content = match (&a.node, link) {
            (Node::File(_), None) => Some(content(&a, &b)?),
            _ => None,
        };
        record.add(&a, link, content);
    }
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
