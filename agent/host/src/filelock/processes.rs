//! What the processes of this machine have open: proc_pid_fd(5), proc_pid_maps(5).

use super::file::{FileId, parse_device, vanished};
use crate::{Host, process::while_it_lives, root::at, xfs};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// How a process uses a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// An open descriptor, and its file in `fdinfo`.
    Descriptor(PathBuf),
    /// Working directory or root.
    Directory,
    /// Mapped into memory, perhaps with its descriptor closed since.
    Mapping,
}

/// One use of one file.
#[derive(Debug)]
pub(super) struct Use {
    /// None if the file's filesystem has shut down: then it doesn't report the inodes of its files.
    pub(super) id: Option<FileId>,
    /// As the kernel prints it.
    pub(super) path: PathBuf,
    pub(super) how: How,
}

impl Use {
    /// Returns true if it is a descriptor that can write or has a lock. flock(2) takes an exclusive lock on a
    /// descriptor that can only read, too.
    pub(super) fn is_for_writing(&self) -> io::Result<bool> {
        let How::Descriptor(info) = &self.how else { return Ok(false) };
        let Some(text) = vanished(fs::read(info)).map_err(|error| at(info, &error))? else {
            return Ok(false);
        };
        parse_fdinfo(&String::from_utf8_lossy(&text)).ok_or_else(|| invalid(info, "no flags of a descriptor"))
    }
}

/// Shows every use of every file by every process.
pub(super) fn each_use(host: &Host, visit: &mut dyn FnMut(u32, &Use) -> io::Result<()>) -> io::Result<()> {
    for name in host.root.list("/proc")? {
        if let Ok(pid) = name.parse() {
            each_use_by(host, pid, visit)?;
        }
    }
    Ok(())
}

/// Shows every use of every file by one process.
pub(super) fn each_use_by(
    host: &Host,
    pid: u32,
    visit: &mut dyn FnMut(u32, &Use) -> io::Result<()>,
) -> io::Result<()> {
    for base in tables(&host.root.locate(format!("/proc/{pid}")))? {
        for fd in names(&base.join("fd"))? {
            let how = How::Descriptor(base.join("fdinfo").join(&fd));
            visit_link(pid, &base, base.join("fd").join(&fd), how, visit)?;
        }
        for link in ["cwd", "root"] {
            visit_link(pid, &base, base.join(link), How::Directory, visit)?;
        }
        visit_maps(pid, &base.join("maps"), visit)?;
    }
    Ok(())
}

/// The directories with a process's descriptors and mappings: its own, or those of its other threads if its main thread
/// has ended before them.
fn tables(process: &Path) -> io::Result<Vec<PathBuf>> {
    if !names(&process.join("fd"))?.is_empty() {
        return Ok(vec![process.to_owned()]);
    }
    let tasks = process.join("task");
    Ok(names(&tasks)?.into_iter().map(|task| tasks.join(task)).collect())
}

fn visit_link(
    pid: u32,
    process: &Path,
    link: PathBuf,
    how: How,
    visit: &mut dyn FnMut(u32, &Use) -> io::Result<()>,
) -> io::Result<()> {
    let path = while_it_lives(process, fs::read_link(&link)).map_err(|error| at(&link, &error))?;
    // Sockets and pipes have no path (`socket:[12345]`) and are in no directory. They are skipped, because SELinux
    // demands a permission of its own for a look at each kind of them.
    let Some(path) = path.filter(|path| path.is_absolute()) else { return Ok(()) };
    match while_it_lives(process, FileId::of(&link)).map(Option::flatten) {
        Ok(Some(id)) => visit(pid, &Use { id: Some(id), path, how }),
        Ok(None) => Ok(()),
        Err(_) if xfs::is_shut_down(&link) => visit(pid, &Use { id: None, path, how }),
        Err(error) => Err(error),
    }
}

fn visit_maps(pid: u32, maps: &Path, visit: &mut dyn FnMut(u32, &Use) -> io::Result<()>) -> io::Result<()> {
    let named = |error| at(maps, &error);
    let Some(file) = vanished(File::open(maps)).map_err(named)? else { return Ok(()) };
    // Line by line, because maps can be large. As bytes, because a path may be any bytes.
    for line in BufReader::new(file).split(b'\n') {
        let Some(line) = vanished(line).map_err(named)? else { return Ok(()) };
        let mapping = parse_mapping(&line).ok_or_else(|| invalid(maps, "a line that is not a mapping"))?;
        if let Some(used) = mapping {
            visit(pid, &used)?;
        }
    }
    Ok(())
}

/// One line of maps; the inner option is none for memory without a file.
///
/// ```text
/// 7f2c8a000000-7f2c9a000000 r--s 00000000 fe:00 47531      /var/lib/etcd/member/snap/db
/// ```
fn parse_mapping(line: &[u8]) -> Option<Option<Use>> {
    let mut fields = line.splitn(6, |&b| b == b' ');
    let (_addresses, _rights, _offset) = (fields.next()?, fields.next()?, fields.next()?);
    let device = parse_device(std::str::from_utf8(fields.next()?).ok()?)?;
    let inode: u64 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    if inode == 0 {
        return Some(None);
    }
    let id = Some(FileId { device, inode, is_directory: false });
    Some(Some(Use { id, path: Path::new(OsStr::from_bytes(path)).to_owned(), how: How::Mapping }))
}

/// Returns true if a descriptor can write or carries a lock: proc_pid_fdinfo(5).
fn parse_fdinfo(text: &str) -> Option<bool> {
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    let locked = text.lines().any(|line| line.starts_with("lock:"));
    Some(flags & 3 != 0 || locked) // O_ACCMODE is 3, O_RDONLY is 0: open(2)
}

/// The names in a directory of a process; none if the process has ended.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let named = |error| at(dir, &error);
    let Some(entries) = vanished(fs::read_dir(dir)).map_err(named)? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let Some(entry) = vanished(entry).map_err(named)? else { break };
        let name = entry.file_name().into_string();
        names.push(name.map_err(|_| invalid(dir, "a name that is not a number"))?);
    }
    Ok(names)
}

fn invalid(path: &Path, found: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} holds {found}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings() {
        let line = b"7f2c8a000000-7f2c9a000000 r--s 00000000 fe:00 47531                      /var/lib/etcd/a b (deleted)";
        let used = parse_mapping(line).unwrap().unwrap();
        let id = used.id.unwrap();
        assert_eq!((id.device, id.inode), ((0xfe, 0), 47531));
        assert_eq!(used.path, Path::new("/var/lib/etcd/a b (deleted)"));
        for memory in
            ["1-2 rw-p 00000000 00:00 0 ", "1-2 rw-p 00000000 00:00 0", "1-2 rw-p 0 00:00 0    [heap]"]
        {
            assert!(parse_mapping(memory.as_bytes()).unwrap().is_none(), "{memory}");
        }
        for wrong in ["", "x", "1-2 rw-p 00000000 fe:00", "1-2 rw-p 0 fe 1 /x", "1-2 rw-p 0 fe:00 x /x"] {
            assert!(parse_mapping(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn descriptors() {
        for (text, holds) in [
            ("pos:\t0\nflags:\t0100002\nmnt_id:\t27\n", Some(true)),
            ("pos:\t0\nflags:\t0100001\n", Some(true)),
            ("pos:\t0\nflags:\t0100000\n", Some(false)),
            ("flags:\t0100000\nlock:\t1: FLOCK  ADVISORY  WRITE 7 fe:00:5 0 EOF\n", Some(true)),
            ("flags:\t012000000\n", Some(false)),
            ("", None),
            ("flags:\n", None),
            ("flags:\t8\n", None),
        ] {
            assert_eq!(parse_fdinfo(text), holds, "{text:?}");
        }
    }
}
