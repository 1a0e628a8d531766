//! Files beneath one directory: `/` in production, a fixture in tests.

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    iter,
    os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use terms::{AbsPath, Bytes};

/// The largest text file that is read. All files here are small, and a large file of sysfs, procfs or another owner
/// must not fill memory.
const MAX_TEXT: u64 = 16 << 20;
/// The largest file that is read as bytes: much larger than the program.
const MAX_PROGRAM: u64 = 256 << 20;

/// A directory below which absolute paths are looked up.
#[derive(Debug, Clone)]
pub struct Root {
    base: PathBuf,
}

impl Root {
    /// The root at `base`.
    pub fn new(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }

    /// The real path of an absolute path in this root.
    pub fn locate(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.base.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file; invalid UTF-8 is an error.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        self.text(path.as_ref(), 0)
    }

    fn text(&self, path: &Path, flags: i32) -> io::Result<String> {
        let mut text = String::new();
        let mut attempt = || {
            let file = OpenOptions::new().read(true).custom_flags(flags).open(self.locate(path))?;
            file.take(MAX_TEXT).read_to_string(&mut text)
        };
        attempt().map_err(|error| at(path, &error))?;
        Ok(text)
    }

    /// The bytes of a file that may be large, such as a program.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        self.read_at_most(path.as_ref(), MAX_PROGRAM)
    }

    fn read_at_most(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut attempt = || File::open(self.locate(path))?.take(limit + 1).read_to_end(&mut bytes);
        let length = attempt().map_err(|error| at(path, &error))?;
        if length as u64 > limit {
            return Err(at(path, &io::Error::other(format!("larger than {}", Bytes(limit)))));
        }
        Ok(bytes)
    }

    /// The bytes of what a person names as an input: a file or a pipe. A device can be endless, and a socket cannot be read.
    pub fn read_input(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let path = path.as_ref();
        let kind = fs::metadata(self.locate(path)).map_err(|error| at(path, &error))?.file_type();
        if !(kind.is_file() || kind.is_fifo()) {
            let what = if kind.is_dir() { "a directory" } else { "a device or a socket" };
            return Err(at(path, &io::Error::other(format!("it is {what}: name a file or a pipe"))));
        }
        self.read_at_most(path, MAX_TEXT)
    }

    /// The text of a file; none if there is no such file.
    pub fn read_opt(&self, path: impl AsRef<Path>) -> io::Result<Option<String>> {
        absent_is_none(self.read(path))
    }

    /// The text of a file of ours; none if there is no such file. The confined service may write beside it, so a link is an error:
    /// whoever reads may read more than the service.
    pub fn read_ours(&self, path: impl AsRef<Path>) -> io::Result<Option<String>> {
        absent_is_none(self.text(path.as_ref(), nix::libc::O_NOFOLLOW))
    }

    /// The names in a directory, sorted.
    pub fn list(&self, path: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let path = path.as_ref();
        let entries = fs::read_dir(self.locate(path)).map_err(|error| at(path, &error))?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| at(path, &error))?.file_name();
            names.push(name.into_string().map_err(|name| {
                let (path, name) = (path.display(), name.display());
                io::Error::other(format!("{path} holds {name}, not UTF-8"))
            })?);
        }
        names.sort();
        Ok(names)
    }

    /// The names in a directory; none if there is no such directory.
    pub fn list_opt(&self, path: impl AsRef<Path>) -> io::Result<Option<Vec<String>>> {
        absent_is_none(self.list(path))
    }

    /// The target of a symbolic link, without following further links; none if there is no such link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        let path = path.as_ref();
        absent_is_none(fs::read_link(self.locate(path)).map_err(|error| at(path, &error)))
    }

    /// The path with all symbolic links resolved, as seen from inside this root; none if it is absent.
    pub fn resolve(&self, path: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        let path = path.as_ref();
        let full = absent_is_none(fs::canonicalize(self.locate(path)).map_err(|error| at(path, &error)))?;
        Ok(full.map(|full| match full.strip_prefix(&self.base) {
            Ok(inner) => Path::new("/").join(inner),
            Err(_) => full,
        }))
    }

    /// Permission bits of a file; none if it is absent.
    pub fn mode(&self, path: impl AsRef<Path>) -> io::Result<Option<u32>> {
        let path = path.as_ref();
        let found = absent_is_none(fs::metadata(self.locate(path)).map_err(|error| at(path, &error)))?;
        Ok(found.map(|found| found.permissions().mode() & 0o7777))
    }

    /// Bytes of a file; 0 if it is absent.
    pub fn size(&self, path: impl AsRef<Path>) -> io::Result<Bytes> {
        Ok(Bytes(absent_is_none(fs::metadata(self.locate(path)))?.map_or(0, |found| found.len())))
    }

    /// Replaces a file durably and atomically: after a crash the file has either the old or the new text. It writes a
    /// temporary file in the same directory, calls fsync, renames the file, and calls fsync on the directory.
    pub fn write_durably(&self, path: &AbsPath, text: &str, mode: u32) -> io::Result<()> {
        self.write_bytes_durably(path, text.as_bytes(), mode)
    }

    /// Writes bytes.
    pub fn write_bytes_durably(&self, path: &AbsPath, bytes: &[u8], mode: u32) -> io::Result<()> {
        let target = self.locate(path.as_path());
        let dir = self.locate(path.parent().as_path());
        let temporary = dir.join(format!(".{}.new", path.name()));
        let attempt = || -> io::Result<()> {
            absent_is_none(fs::remove_file(&temporary))?; // left by a crash; a link is removed, not followed
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
            file.set_permissions(fs::Permissions::from_mode(mode))?; // whatever the umask is
            file.write_all(bytes)?;
            file.sync_all()?;
            rustix::fs::renameat_with(CWD, &temporary, CWD, &target, RenameFlags::empty())?;
            File::open(&dir)?.sync_all()
        };
        attempt().map_err(|error| {
            // Half a file, of a full disk for example, is of no use.
            let _gone = fs::remove_file(&temporary);
            at(path.as_path(), &error)
        })
    }

    /// Replaces a file of at most one block durably and atomically, and needs no new block after the first time, so also on a full
    /// disk: a spare file lies beside it, gets the text, and changes names with it. Fails on a filesystem that can't exchange names.
    pub fn write_with_spare(&self, path: &AbsPath, text: &str, mode: u32) -> io::Result<()> {
        let target = self.locate(path.as_path());
        let dir = self.locate(path.parent().as_path());
        let spare = dir.join(format!(".{}.spare", path.name()));
        let fill = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(CWD, &spare, flags, Mode::from_raw_mode(mode))?);
            file.set_permissions(fs::Permissions::from_mode(mode))?; // whatever the umask is
            file.write_all_at(text.as_bytes(), 0)?;
            // The block stays.
            file.set_len(text.len() as u64)?;
            file.sync_all()
        };
        let attempt = || -> io::Result<()> {
            if absent_is_none(fs::symlink_metadata(&target))?.is_none() {
                fill()?;
                rustix::fs::renameat_with(CWD, &spare, CWD, &target, RenameFlags::empty())?;
            }
            fill()?;
            rustix::fs::renameat_with(CWD, &spare, CWD, &target, RenameFlags::EXCHANGE)?;
            File::open(&dir)?.sync_all()
        };
        attempt().map_err(|error| at(path.as_path(), &error))
    }

    /// Makes a directory and its parents. Existing directories are not changed. For directories that need not outlive a
    /// power cut; see [`Self::make_dir_durably`].
    pub fn make_dir(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let path = path.as_ref();
        let full = self.locate(path);
        if full.is_dir() {
            return Ok(());
        }
        let attempt = || -> io::Result<()> {
            fs::create_dir_all(&full)?;
            fs::set_permissions(&full, fs::Permissions::from_mode(mode))
        };
        attempt().map_err(|error| at(path, &error))
    }

    /// Makes a directory and its parents, so that they outlive a power cut: a file in a directory whose own name is not on
    /// the disk is lost, however often the file was synced. Existing directories are not changed. The parent is synced
    /// even if the directory exists, because the run that made it may have been killed before it synced the name.
    pub fn make_dir_durably(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let path = path.as_ref();
        let to_sync = to_sync(&self.locate(path));
        self.make_dir(path, mode)?;
        let attempt = || to_sync.iter().try_for_each(|dir| File::open(dir)?.sync_all());
        attempt().map_err(|error| at(path, &error))
    }

    /// Writes to an existing file in one write, as sysfs attributes need it.
    pub fn poke(&self, path: impl AsRef<Path>, text: &str) -> io::Result<()> {
        let path = path.as_ref();
        let attempt = || OpenOptions::new().write(true).open(self.locate(path))?.write_all(text.as_bytes());
        attempt().map_err(|error| at(path, &error))
    }

    /// Removes a file. If it is absent, that is no error.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        absent_is_none(fs::remove_file(self.locate(path)).map_err(|error| at(path, &error))).map(|_| ())
    }
}

/// Returns the directories to sync after a directory was made: the directory, each of its parents that is missing now,
/// and the first one that exists. From the lowest up, so that a name that is on the disk leads to something that is
/// there too.
fn to_sync(full: &Path) -> Vec<PathBuf> {
    let parents = || full.ancestors().skip(1).map(Path::to_owned);
    let missing = parents().take_while(|dir| !dir.is_dir()).count();
    iter::once(full.to_owned()).chain(parents().take(missing + 1)).collect()
}

/// Adds the path to an error of the operating system, which doesn't name it.
pub fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Turns "no such file" into none.
pub fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_write_replaces_and_keeps_mode() {
        let base = std::env::temp_dir().join(format!("etcd-lun-root-{}", std::process::id()));
        let root = Root::new(&base);
        let path: AbsPath = "/state/record.json".parse().unwrap();
        root.make_dir("/state", 0o700).unwrap();
        assert_eq!(root.read_opt(path.as_path()).unwrap(), None);
        // A hostile file left in place of the temporary one: a link that must not be followed.
        std::os::unix::fs::symlink("/etc/passwd", base.join("state/.record.json.new")).unwrap();
        for text in ["one", "two"] {
            root.write_durably(&path, text, 0o600).unwrap();
            assert_eq!(root.read(path.as_path()).unwrap(), text);
        }
        assert_eq!(root.mode(path.as_path()).unwrap(), Some(0o600));
        assert_eq!(root.list("/state").unwrap(), ["record.json"]);
        fs::remove_dir_all(&base).unwrap();
    }

    /// As root on a filesystem that is full; else only the two files are looked at, which take turns.
    #[test]
    #[allow(clippy::disallowed_methods)] // mount(8) for the fixture
    fn a_file_with_a_spare_is_replaced_on_a_full_disk() {
        let base = std::env::temp_dir().join(format!("etcd-lun-root-full-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let tool = |tool: &str, args: &[&str]| {
            std::process::Command::new(tool)
                .args(args)
                .arg(&base)
                .output()
                .is_ok_and(|output| output.status.success())
        };
        let is_small = tool("mount", &["-t", "tmpfs", "-o", "size=64k", "none"]);
        let (root, path) = (Root::new(&base), "/record.json".parse::<AbsPath>().unwrap());
        let number = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(base.join("record.json")).unwrap());
        // A longer text and a shorter one, and one of an earlier release, without a spare.
        root.write_durably(&path, "of an earlier release", 0o600).unwrap();
        root.write_with_spare(&path, "a text", 0o600).unwrap();
        let is_full = is_small && fs::write(base.join("filler"), vec![1; 1 << 20]).is_err();
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        for text in ["a longer text", "short", "a longer text"] {
            root.write_with_spare(&path, text, 0o600).unwrap();
            numbers.push(number());
            texts.push(root.read(path.as_path()).unwrap());
        }
        assert_eq!(texts, ["a longer text", "short", "a longer text"]);
        assert!(numbers[0] == numbers[2] && numbers[0] != numbers[1], "{numbers:?}");
        assert!(!is_full || root.write_durably(&path, "another", 0o600).is_err());
        if is_small {
            assert!(is_full && tool("umount", &[]));
        }
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_new_directory_is_synced_up_to_the_first_that_was_there() {
        let base = std::env::temp_dir().join(format!("etcd-lun-root-sync-{}", std::process::id()));
        let _left = fs::remove_dir_all(&base);
        fs::create_dir(&base).unwrap();
        let root = Root::new(&base);
        let dir = |path: &str| base.join(path);
        assert_eq!(to_sync(&dir("a/b/c")), [dir("a/b/c"), dir("a/b"), dir("a"), base.clone()]);
        for _again in 0..2 {
            root.make_dir_durably("/a/b/c", 0o700).unwrap();
            assert_eq!(root.mode("/a/b/c").unwrap(), Some(0o700));
            // Its maker may have been killed before it synced the name.
            assert_eq!(to_sync(&dir("a/b/c")), [dir("a/b/c"), dir("a/b")]);
        }
        fs::write(dir("file"), "").unwrap();
        assert!(root.make_dir_durably("/file", 0o700).is_err());
        fs::remove_dir_all(&base).unwrap();
    }
}
