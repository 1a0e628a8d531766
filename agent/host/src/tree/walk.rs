//! A walk over the entries of a tree, in the same order every time.
//!
//! The walk uses directory handles, so that nobody can redirect it with a link: every name is looked up in its opened
//! directory, and links are never followed. A directory comes before its entries, and names are in the order of their
//! bytes. Memory holds one open directory with its names for each level.

use super::{Side, TreeError};
use crate::Interrupt;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxAttributes, StatxFlags, openat, readlinkat,
        statx,
    },
};
use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    path::Path,
    rc::Rc,
};

/// A time as the filesystem stores it: seconds and nanoseconds.
pub(super) type Moment = (i64, u32);

/// The metadata of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub kind: FileType,
    /// The 12 permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub links: u32,
    pub mtime: Moment,
    pub ctime: Moment,
    pub inode: u64,
    pub attributes: StatxAttributes,
    place: Place,
}

/// Where an entry is. The mount id also distinguishes a bind mount of the same filesystem; it exists from Linux 5.8 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    device: (u32, u32),
    mount: Option<u64>,
}

/// An entry of the tree, opened.
#[derive(Debug)]
pub(super) struct Entry {
    /// Relative to the root; empty for the root itself.
    pub path: Vec<u8>,
    pub meta: Meta,
    pub node: Node,
}

/// An entry, by type.
#[derive(Debug)]
pub(super) enum Node {
    Directory(Rc<OwnedFd>),
    File(File),
    /// A symbolic link in `parent`, and its target.
    Link {
        parent: Rc<OwnedFd>,
        name: CString,
        target: CString,
    },
}

/// A walk over one tree.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub side: Side,
    interrupt: &'a Interrupt,
    root: Option<OwnedFd>,
    place: Option<Place>,
    open: Vec<Level>,
}

/// A directory that the walk is in.
#[derive(Debug)]
struct Level {
    path: Vec<u8>,
    fd: Rc<OwnedFd>,
    before: Meta,
    names: std::vec::IntoIter<CString>,
}

pub(super) const OPEN_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY)
    .union(OFlags::NONBLOCK);

impl<'a> Walk<'a> {
    /// A walk over `root` and everything beneath it.
    pub fn new(root: BorrowedFd<'_>, side: Side, interrupt: &'a Interrupt) -> Result<Self, TreeError> {
        // Opened again, because a handle that was opened with O_PATH can't be listed.
        let root = openat(root, c".", OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty());
        let root = root.map_err(|error| side.unreadable(b"", error.into()))?;
        Ok(Self { side, interrupt, root: Some(root), place: None, open: Vec::new() })
    }

    /// The next entry; none at the end.
    pub fn next(&mut self) -> Result<Option<Entry>, TreeError> {
        self.stop_if_asked()?;
        if let Some(root) = self.root.take() {
            let side = self.side;
            let meta = look(root.as_fd(), c"").map_err(|error| side.unreadable(b"", error))?;
            self.place = Some(meta.place);
            return self.enter(Vec::new(), meta, root).map(Some);
        }
        while let Some(mut level) = self.open.pop() {
            if let Some(name) = level.names.next() {
                let parent = Rc::clone(&level.fd);
                let path = join(&level.path, name.to_bytes());
                self.open.push(level);
                return self.visit(path, parent, name).map(Some);
            }
            // An entry that was made, renamed or removed during the walk may have been missed.
            self.unchanged(&level.path, level.fd.as_fd(), &level.before)?;
        }
        Ok(None)
    }

    /// Fails if this process was asked to stop.
    pub fn stop_if_asked(&self) -> Result<(), TreeError> {
        if self.interrupt.is_requested() { Err(TreeError::Interrupted) } else { Ok(()) }
    }

    /// Fails if the entry has changed since `before`. Then someone writes to the tree, and the tree may never have had
    /// the content that was read.
    pub fn unchanged(&self, path: &[u8], fd: BorrowedFd<'_>, before: &Meta) -> Result<(), TreeError> {
        let now = look(fd, c"").map_err(|error| self.side.unreadable(path, error))?;
        if (now.size, now.mtime, now.ctime) == (before.size, before.mtime, before.ctime) {
            Ok(())
        } else {
            Err(self.side.changing(path))
        }
    }

    fn visit(&mut self, path: Vec<u8>, parent: Rc<OwnedFd>, name: CString) -> Result<Entry, TreeError> {
        let side = self.side;
        let unreadable = |error: io::Error| side.unreadable(&path, error);
        let seen = look(parent.as_fd(), &name).map_err(unreadable)?;
        if Some(seen.place) != self.place {
            return Err(TreeError::Mounted { file: side.name(&path) });
        }
        let node = match seen.kind {
            FileType::Directory | FileType::RegularFile => {
                let fd = openat(&*parent, &name, OPEN_FLAGS, Mode::empty())
                    .map_err(|error| unreadable(error.into()))?;
                let meta = look(fd.as_fd(), c"").map_err(unreadable)?;
                // The name may now be that of another file.
                if (meta.inode, meta.kind, meta.place) != (seen.inode, seen.kind, seen.place) {
                    return Err(side.changing(&path));
                }
                if meta.kind == FileType::Directory {
                    return self.enter(path, meta, fd);
                }
                return Ok(Entry { path, meta, node: Node::File(File::from(fd)) });
            }
            FileType::Symlink => {
                let target =
                    readlinkat(&*parent, &name, Vec::new()).map_err(|error| unreadable(error.into()))?;
                Node::Link { parent, name, target }
            }
            FileType::Fifo => return Err(side.special(&path, "a fifo")),
            FileType::Socket => return Err(side.special(&path, "a socket")),
            FileType::CharacterDevice | FileType::BlockDevice => {
                return Err(side.special(&path, "a device node"));
            }
            FileType::Unknown => return Err(side.special(&path, "of an unknown type")),
        };
        Ok(Entry { path, meta: seen, node })
    }

    fn enter(&mut self, path: Vec<u8>, meta: Meta, fd: OwnedFd) -> Result<Entry, TreeError> {
        let names = names(fd.as_fd()).map_err(|error| self.side.unreadable(&path, error))?.into_iter();
        let fd = Rc::new(fd);
        self.open.push(Level { path: path.clone(), fd: Rc::clone(&fd), before: meta.clone(), names });
        Ok(Entry { path, meta, node: Node::Directory(fd) })
    }
}

/// Opens a directory for a walk. A link is not followed.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty())?)
}

/// The names in a directory, sorted by their bytes.
pub(super) fn names(dir: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Reads the metadata of an entry without following links or triggering automounts. If `name` is empty, reads those of
/// the opened file itself.
pub(super) fn look(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Meta> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    let wanted = StatxFlags::BASIC_STATS;
    let found = statx(dir, name, flags, wanted | StatxFlags::MNT_ID)?;
    let has = StatxFlags::from_bits_retain(found.stx_mask);
    if !has.contains(wanted) {
        return Err(io::Error::other(
            "this filesystem does not report all of type, mode, owner, size and times",
        ));
    }
    Ok(Meta::new(&found, has))
}

impl Meta {
    /// Returns true if both are on one mount of one filesystem.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.place == other.place
    }

    fn new(found: &Statx, has: StatxFlags) -> Self {
        Self {
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            mode: u32::from(found.stx_mode) & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
            size: found.stx_size,
            links: found.stx_nlink,
            mtime: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
            ctime: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
            inode: found.stx_ino,
            attributes: found.stx_attributes,
            place: Place {
                device: (found.stx_dev_major, found.stx_dev_minor),
                mount: has.contains(StatxFlags::MNT_ID).then_some(found.stx_mnt_id),
            },
        }
    }
}

fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() { name.to_vec() } else { [parent, b"/", name].concat() }
}
