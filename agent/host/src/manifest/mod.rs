//! A static pod's manifest: moved aside, so that the kubelet stops the pod, and put back.
//!
//! The file is renamed, never copied, so content, mode, owner and label stay the same. Both places are on one
//! filesystem.
//!
//! After an interruption at any point, by a kill or a power cut, one of the two places has the whole file:
//!
//! - The content is synced before the rename, because its writer may not have synced it.
//! - A rename is atomic, and one transaction in a journal: after a power cut it has happened or it has not. The
//!   directory that gains the name is synced first, so that the name is never missing in both.
//! - The parked file is removed only after another file is durable in its place, content and name.
//! - An empty parking directory may be left by an interruption. [`look`] ignores it, and the next call uses or
//!   removes it.
//!
//! Each call looks at the files that are there and remembers nothing, so it can be repeated after any interruption.

use super::{
    Host, dir,
    root::{absent_is_none, at},
};
use rustix::{
    fd::OwnedFd,
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fsync, openat, renameat_with, statat, syncfs,
        unlinkat,
    },
    io::Errno,
};
use std::{fmt, io};
use terms::AbsPath;

/// The result of [`put_back`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutBack {
    /// The parked file is back.
    Back,
    /// Someone wrote a newer file to its place meanwhile. The newer file stays; the parked one is removed.
    Newer,
    /// Nothing was parked.
    NotParked,
}

/// Where the file is. It is in both places if it was parked and someone wrote a newer one since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// In its own place.
    pub present: bool,
    /// Set aside.
    pub parked: bool,
}

/// Where the file is now. Anything but a regular file in one of the places is an error.
pub fn look(host: &Host, manifest: &AbsPath, parked: &AbsPath) -> io::Result<Places> {
    let holds = |place: Option<Place<'_>>| place.map_or(Ok(false), |place| place.holds_file());
    Ok(Places {
        present: holds(Place::of_owner(host, manifest)?)?,
        parked: holds(Place::of_ours(host, parked)?)?,
    })
}

/// Moves `manifest` to `parked`, and makes that directory (0700) if it is absent. If a file is parked
/// already, a manifest that was written since then replaces it. If there is no such manifest, the parked file stays.
///
/// [`Absent`] when the file is in neither place, [`io::ErrorKind::CrossesDevices`] when the places
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

/// Tries both renames with an empty file: whether `manifest` could be parked, and put back. The kubelet ignores the file,
/// because its name begins with a dot (kubernetes `pkg/kubelet/config/file_linux.go`). What an interrupted try has left is
/// removed.
pub fn try_both_ways(host: &Host, manifest: &AbsPath, parked: &AbsPath) -> io::Result<()> {
    let (there, aside) = (manifest.parent().join(TRIAL), parked.parent().join(TRIAL));
    clear_trial(host, manifest, parked)?;
    let place = Place::of_owner(host, &there)?.ok_or_else(|| absent(&there.parent()))?;
    dir::make_file(&place.dir, TRIAL).map_err(|error| at(there.as_path(), &error))?;
    let tried = park(host, &there, &aside).and_then(|()| put_back(host, &there, &aside));
    clear_trial(host, manifest, parked)?;
    match tried? {
        PutBack::Back => Ok(()),
        PutBack::Newer | PutBack::NotParked => {
            let said = format!("{there} was taken by somebody while it was being moved");
            Err(io::Error::other(said))
        }
    }
}

/// Removes what an interrupted [`try_both_ways`] has left.
pub fn clear_trial(host: &Host, manifest: &AbsPath, parked: &AbsPath) -> io::Result<()> {
    host.root.remove(manifest.parent().join(TRIAL).as_path())?;
    let aside = parked.parent().join(TRIAL);
    if Place::of_ours(host, &aside)?.is_some_and(|place| place.holds_file().unwrap_or(false)) {
        host.root.remove(aside.as_path())?;
        remove_if_empty(host, &aside.parent())?;
    }
    Ok(())
}

/// The name of the file that is moved to try it.
const TRIAL: &str = ".etcd-lun-preflight";

/// Moves `parked` back to `manifest`. If there is a `manifest`, it is newer and stays. The parking directory is removed
/// if it is empty then.
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
    /// The manifest's own place; none if there is no such directory. The path may have a symbolic link, because the
    /// kubelet's config chooses it.
    fn of_owner(host: &Host, path: &'a AbsPath) -> io::Result<Option<Self>> {
        let dir = absent_is_none(open_dir(host, &path.parent(), OFlags::empty()))?;
        Ok(dir.map(|dir| Self { path, dir }))
    }

    /// The parking place; none if there is no such directory. A symbolic link there is not ours.
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

    /// Makes the content durable by syncing the whole filesystem. Opening the file would need a permission to read it
    /// (SELinux), which would extend to the keys beside it.
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
        // Someone else's file is in the directory.
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        removed => removed.and_then(|()| fsync(above)).map_err(|error| at(path.as_path(), &error.into())),
    }
}

/// The manifest, or its directory, is not there: neither in its own place nor set aside.
#[derive(Debug)]
pub struct Absent(AbsPath);

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no {}", self.0)
    }
}

impl std::error::Error for Absent {}

fn absent(path: &AbsPath) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, Absent(path.clone()))
}

#[cfg(test)]
mod tests;
