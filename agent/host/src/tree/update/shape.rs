//! Everything of a copy but its files' content: names, types, links, owners, modes and times.

use crate::tree::{
    Side, TreeError,
    walk::{Entry, Meta, Node, OPEN_FLAGS, look, names},
};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{
        AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chownat, fchmod, fchown, futimens,
        linkat, mkdirat, openat, readlinkat, symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};
use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
};

/// The copy, while a walk over the source goes on. Every entry is made or corrected by the handle of its directory.
#[derive(Debug)]
pub(super) struct Shape {
    root: OwnedFd,
    /// The directories that lead to the current entry.
    open: Vec<(Vec<u8>, OwnedFd)>,
    /// The directories so far. They get their times at the end, because every change below sets them.
    directories: Vec<(Vec<u8>, Meta)>,
    /// Of each file of the source with several names the first one, by inode.
    first_names: Vec<(u64, Vec<u8>)>,
    /// The files of the copy with several names that were met, by inode.
    met: Vec<u64>,
    /// Their names so far. To give them or take from them another name is a change of their metadata.
    pub(super) shared: Vec<Vec<u8>>,
}

/// The change that an entry of the source needs on the copy.
#[derive(Debug)]
pub(super) enum Need {
    /// Nothing more.
    Done,
    /// The content of this file, which is open for writing and lies in this directory.
    Content { file: File, inode: u64, directory: OwnedFd, name: CString },
}

impl Shape {
    pub(super) fn new(copy: impl AsFd) -> Result<Self, TreeError> {
        let root = openat(copy, c".", OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty());
        let root = root.map_err(|error| Side::Copy.unreadable(b"", error.into()))?;
        Ok(Self {
            root,
            open: Vec::new(),
            directories: Vec::new(),
            first_names: Vec::new(),
            met: Vec::new(),
            shared: Vec::new(),
        })
    }

    /// Makes the entry on the copy, but not its content, owner, mode and times.
    pub(super) fn make(&mut self, entry: &Entry) -> Result<Need, TreeError> {
        self.try_make(entry).map_err(|error| Side::Copy.unwritable(&entry.path, error))
    }

    fn try_make(&mut self, entry: &Entry) -> io::Result<Need> {
        if entry.path.is_empty() {
            let root = self.root.try_clone()?;
            return self.enter(entry, root).map(|()| Need::Done);
        }
        let (above, name) = split(&entry.path)?;
        while self.open.last().is_some_and(|(path, _)| path != above) {
            self.open.pop();
        }
        let missing = || io::Error::other("its directory on the copy was not made");
        let parent = self.open.last().ok_or_else(missing)?.1.try_clone()?;
        let found = found(&parent, &name)?;
        match &entry.node {
            Node::Directory(_) => {
                if found.as_ref().is_none_or(|found| found.kind != FileType::Directory) {
                    clear(&parent, &name, found.as_ref())?;
                    mkdirat(&parent, &name, Mode::RWXU)?;
                }
                let made = openat(&parent, &name, OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty())?;
                self.enter(entry, made).map(|()| Need::Done)
            }
            Node::Link { target, .. } => {
                let same = |found: &Meta| {
                    found.kind == FileType::Symlink
                        && readlinkat(&parent, &name, Vec::new()).is_ok_and(|other| other == *target)
                };
                if !found.as_ref().is_some_and(same) {
                    clear(&parent, &name, found.as_ref())?;
                    symlinkat(target, &parent, &name)?;
                }
                link_metadata(&parent, &name, &entry.meta)?;
                Ok(Need::Done)
            }
            Node::File(_) => self.file(entry, parent, name, found),
        }
    }

    /// Opens a directory for what is below, and removes what the source doesn't have.
    fn enter(&mut self, entry: &Entry, made: OwnedFd) -> io::Result<()> {
        if let Node::Directory(source) = &entry.node {
            // They are sorted.
            let wanted = names(source.as_fd())?;
            for name in names(made.as_fd())? {
                if wanted.binary_search(&name).is_err() {
                    clear(&made, &name, found(&made, &name)?.as_ref())?;
                }
            }
        }
        self.open.push((entry.path.clone(), made));
        self.directories.push((entry.path.clone(), entry.meta.clone()));
        Ok(())
    }

    fn file(
        &mut self,
        entry: &Entry,
        directory: OwnedFd,
        name: CString,
        found: Option<Meta>,
    ) -> io::Result<Need> {
        let is_file = |meta: &&Meta| meta.kind == FileType::RegularFile;
        let old = found.as_ref().filter(is_file);
        if entry.meta.links > 1 {
            let other = self.first_names.iter().find(|(inode, _)| *inode == entry.meta.inode);
            if let Some((_, first)) = other {
                let same = look(self.root.as_fd(), &CString::new(first.clone())?)?.inode;
                if old.is_none_or(|old| old.inode != same) {
                    clear(&directory, &name, found.as_ref())?;
                    linkat(&self.root, first, &directory, &name, AtFlags::empty())?;
                }
                self.shared.push(first.clone());
                return Ok(Need::Done);
            }
            self.first_names.push((entry.meta.inode, entry.path.clone()));
        }
        // A name of a file that has another one already, on the copy only.
        let shared = old.is_some_and(|old| self.met.contains(&old.inode));
        let usable = old.is_some() && !shared;
        if !usable {
            clear(&directory, &name, found.as_ref())?;
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let create = if usable { OFlags::empty() } else { OFlags::CREATE | OFlags::EXCL };
        let file = File::from(openat(&directory, &name, flags | create, Mode::RUSR | Mode::WUSR)?);
        let meta = look(file.as_fd(), c"")?;
        if meta.links > 1 {
            self.met.push(meta.inode);
            self.shared.push(entry.path.clone());
        }
        Ok(Need::Content { file, inode: meta.inode, directory, name })
    }

    /// Gives directories their owners, modes and times.
    pub(super) fn finish(&mut self) -> Result<(), TreeError> {
        self.open.clear();
        for (path, meta) in self.directories.iter().rev() {
            let correct = || -> io::Result<()> {
                let name: &[u8] = if path.is_empty() { b"." } else { path };
                let made = openat(&self.root, name, OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty())?;
                metadata(made.as_fd(), meta)
            };
            correct().map_err(|error| Side::Copy.unwritable(path, error))?;
        }
        Ok(())
    }

    /// The metadata of the file with this path, as it is now.
    pub(super) fn look(&self, path: &[u8]) -> io::Result<Meta> {
        look(self.root.as_fd(), &CString::new(path)?)
    }
}

/// Gives an opened file or directory the source's owner, mode and time. What is right stays untouched.
pub(super) fn metadata(copy: BorrowedFd<'_>, source: &Meta) -> io::Result<()> {
    let now = look(copy, c"")?;
    let owner = (now.uid, now.gid) != (source.uid, source.gid);
    if owner {
        // First, because it clears mode bits.
        fchown(copy, Some(Uid::from_raw(source.uid)), Some(Gid::from_raw(source.gid)))?;
    }
    if owner || now.mode != source.mode {
        fchmod(copy, Mode::from_raw_mode(source.mode))?;
    }
    if now.mtime != source.mtime {
        futimens(copy, &times(source))?;
    }
    Ok(())
}

fn link_metadata(directory: &OwnedFd, name: &CStr, source: &Meta) -> io::Result<()> {
    let now = look(directory.as_fd(), name)?;
    if (now.uid, now.gid) != (source.uid, source.gid) {
        let (uid, gid) = (Uid::from_raw(source.uid), Gid::from_raw(source.gid));
        chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if now.mtime != source.mtime {
        utimensat(directory, name, &times(source), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn times(source: &Meta) -> Timestamps {
    let (tv_sec, nanoseconds) = source.mtime;
    let time = Timespec { tv_sec, tv_nsec: nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}

fn found(directory: &OwnedFd, name: &CStr) -> io::Result<Option<Meta>> {
    match look(directory.as_fd(), name) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes what is there, with all below. A mount is not entered, because a directory on which something is mounted can't
/// be removed.
fn clear(directory: &OwnedFd, name: &CStr, found: Option<&Meta>) -> io::Result<()> {
    match found {
        None => Ok(()),
        Some(meta) if meta.kind == FileType::Directory => {
            let below = openat(directory, name, OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty())?;
            let inner = look(below.as_fd(), c"")?;
            if !inner.is_beside(meta) {
                return Err(Errno::XDEV.into());
            }
            for name in names(below.as_fd())? {
                clear(&below, &name, self::found(&below, &name)?.as_ref())?;
            }
            Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?)
        }
        Some(_) => Ok(unlinkat(directory, name, AtFlags::empty())?),
    }
}

/// A path's directory, and the name in it.
fn split(path: &[u8]) -> io::Result<(&[u8], CString)> {
    let at = path.iter().rposition(|byte| *byte == b'/');
    let (above, name) = match at {
        Some(at) => (path.get(..at), path.get(at + 1..)),
        None => (Some(&[][..]), Some(path)),
    };
    Ok((above.unwrap_or_default(), CString::new(name.unwrap_or_default())?))
}
