//! A file that its reader must not see for a while: moved aside and put back.
//!
//! By rename, never by copy, so the file is the same one before and after: content, mode, owner, label.
//! Both places are on one filesystem.
//!
//! **Cut short at any point**, by a kill or by power, one of the two places has the whole file:
//!
//! - The content is synced before the name moves: whoever wrote it may not have done so.
//! - A rename is one atomic step, and in a journal one transaction: after a power cut either all of it is
//!   there or nothing. The directory that gains the name is synced first; nowhere is it only removed.
//! - The parked file is removed only when another one, content and name, is durable in its place.
//! - An empty parking directory, left by a cut before the first step or after the last, means
//!   nothing to [`look`] and is used or removed by the next call.
//!
//! Each call looks at what is there and not at what was done, so it can be repeated after any cut.

use super::{
    Host, dir,
    root::{absent_is_none, at},
};
use crate::terms::AbsPath;
use rustix::{
    fd::OwnedFd,
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fsync, openat, renameat_with, statat, syncfs,
        unlinkat,
    },
    io::Errno,
};
use std::io;

/// What [`put_back`] found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutBack {
    /// The parked file is back.
    Back,
    /// Somebody put a newer one in its place meanwhile. That one stays; the parked one is gone.
    Newer,
    /// Nothing was parked.
    NotParked,
}

/// Where the file is. Both: it was parked, and somebody wrote a newer one since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// In its own place.
    pub present: bool,
    /// Set aside.
    pub parked: bool,
}

/// Where the file is, now. What is there and no regular file is an error.
pub fn look(host: &Host, manifest: &AbsPath, parked: &AbsPath) -> io::Result<Places> {
    let holds = |place: Option<Place<'_>>| place.map_or(Ok(false), |place| place.holds_file());
    Ok(Places {
        present: holds(Place::of_owner(host, manifest)?)?,
        parked: holds(Place::of_ours(host, parked)?)?,
    })
}

/// Moves `manifest` to `parked`, whose directory is made (0700) when it is absent. A file that is parked
/// already is replaced by one that was written since; when there is none, it stays as it is.
///
/// [`io::ErrorKind::NotFound`] when the file is in neither place, [`io::ErrorKind::CrossesDevices`] when the places
/// aren't on one mount.
pub fn park(host: &Host, manifest: &AbsPath, parked: &AbsPath) -> io::Result<()> {
    let from = Place::of_owner(host, manifest)?.ok_or_else(|| absent(manifest))?;
    let is_there = from.holds_file()?;
    if is_there {
        from.sync_file()?;
        let shelf = parked.parent();
        dir::make(open_dir(host, &shelf.parent(), OFlags::empty())?, shelf.name(), 0o700)
            .map_err(|error| at(shelf.as_path(), &error))?;
    }
    let to = Place::of_ours(host, parked)?.ok_or_else(|| absent(manifest))?;
    let is_parked = to.holds_file()?;
    if is_there {
        let flags = if is_parked { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        from.rename(&to, flags)?;
    } else if !is_parked {
        return Err(absent(manifest));
    }
    to.sync()?;
    from.sync()
}

/// Moves `parked` back to `manifest`, unless there is one: it is newer, and stays. The parking directory
/// is removed when nothing else is in it.
pub fn put_back(host: &Host, manifest: &AbsPath, parked: &AbsPath) -> io::Result<PutBack> {
    let Some(from) = Place::of_ours(host, parked)? else { return Ok(PutBack::NotParked) };
    let done = if from.holds_file()? {
        let to = Place::of_owner(host, manifest)?.ok_or_else(|| absent(&manifest.parent()))?;
        let done = match from.rename(&to, RenameFlags::NOREPLACE) {
            Ok(()) => PutBack::Back,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && to.holds_file()? => {
                to.sync_file()?;
                to.sync()?;
                dir::remove_file(&from.dir, parked.name()).map_err(|error| at(parked.as_path(), &error))?;
                PutBack::Newer
            }
            Err(error) => return Err(error),
        };
        to.sync()?;
        from.sync()?;
        done
    } else {
        PutBack::NotParked
    };
    remove_if_empty(host, &parked.parent())?;
    Ok(done)
}

/// One of the two places: a name, and the directory that it is in.
struct Place<'a> {
    path: &'a AbsPath,
    dir: OwnedFd,
}

impl<'a> Place<'a> {
    /// The manifest's own; nothing when there is no such directory. It may be reached by a link: where the
    /// reader looks is its config's choice.
    fn of_owner(host: &Host, path: &'a AbsPath) -> io::Result<Option<Self>> {
        let dir = absent_is_none(open_dir(host, &path.parent(), OFlags::empty()))?;
        Ok(dir.map(|dir| Self { path, dir }))
    }

    /// The parking place; nothing when there is no such directory. A link there is not ours.
    fn of_ours(host: &Host, path: &'a AbsPath) -> io::Result<Option<Self>> {
        let dir = absent_is_none(open_dir(host, &path.parent(), OFlags::NOFOLLOW))?;
        Ok(dir.map(|dir| Self { path, dir }))
    }

    fn holds_file(&self) -> io::Result<bool> {
        let found = match statat(&self.dir, self.path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => FileType::from_raw_mode(found.st_mode),
            Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(self.named(error)),
        };
        let what = match found {
            FileType::RegularFile => return Ok(true),
            FileType::Directory => "a directory",
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a named pipe",
            FileType::Socket => "a socket",
            _ => "a device",
        };
        let said = format!("{} is {what}, not a regular file: move it away", self.path);
        Err(io::Error::new(io::ErrorKind::InvalidData, said))
    }

    /// Makes the content durable, with the whole filesystem's: to open the file takes a right to read (SELinux), which
    /// would be one to the keys beside it too.
    fn sync_file(&self) -> io::Result<()> {
        syncfs(&self.dir).map_err(|error| self.named(error))
    }

    /// Makes the name, or its absence, durable.
    fn sync(&self) -> io::Result<()> {
        fsync(&self.dir).map_err(|error| self.named(error))
    }

    fn rename(&self, to: &Self, flags: RenameFlags) -> io::Result<()> {
        renameat_with(&self.dir, self.path.name(), &to.dir, to.path.name(), flags).map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("moving {} to {}: {error}", self.path, to.path))
        })
    }

    fn named(&self, error: Errno) -> io::Error {
        at(self.path.as_path(), &error.into())
    }
}

fn open_dir(host: &Host, path: &AbsPath, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, host.root.locate(path.as_path()), flags, Mode::empty())
        .map_err(|error| at(path.as_path(), &error.into()))
}

fn remove_if_empty(host: &Host, path: &AbsPath) -> io::Result<()> {
    let above = open_dir(host, &path.parent(), OFlags::empty())?;
    match unlinkat(&above, path.name(), AtFlags::REMOVEDIR) {
        // Somebody else's file is in it.
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        removed => removed.and_then(|()| fsync(above)).map_err(|error| at(path.as_path(), &error.into())),
    }
}

fn absent(path: &AbsPath) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no {path}"))
}

#[cfg(test)]
mod tests;
