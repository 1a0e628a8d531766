//! What is mounted, and where: in this mount namespace and in all others.
//!
//! Parses `/proc/<pid>/mountinfo` (`proc_pid_mountinfo(5)`):
//!
//! ```text
//! 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//! ```

mod bind;
mod everywhere;
mod unmount;

pub use bind::bind_holders;
pub use everywhere::Everywhere;
pub use unmount::unmount_in_namespace_of;

use super::{
    Host,
    namespace::{OF_PID1, OURS, mount_namespace},
    process::while_it_lives,
    root::at,
};
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The mount's id.
    pub id: u64,
    /// The id of the mount that it is on. For a process's root that mount is not in the list.
    pub parent: u64,
    /// Device number of the filesystem: (major, minor).
    pub device: (u32, u32),
    /// The directory of the filesystem that is mounted; `/` unless it is a bind mount or a subvolume.
    pub root: String,
    /// Where it is mounted, seen from the process's root.
    pub mount_point: String,
    /// Options of this mount.
    pub options: Vec<String>,
    /// Type of the filesystem.
    pub fs_type: String,
    /// The source of the mount, as the caller of mount(2) named it; may be empty.
    pub source: String,
    /// True if mounts and unmounts elsewhere never reach it (`mount_namespaces(7)`, private).
    pub private: bool,
    /// Options of the filesystem, the same for all its mounts.
    pub super_options: Vec<String>,
}

/// A process that sees a device mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process: one of those in that mount namespace.
    pub pid: u32,
    /// Its name, as in `/proc/<pid>/comm`.
    pub comm: String,
    /// Where the device is mounted, seen from that process's root.
    pub mount_point: String,
}

/// The mounts that PID 1 sees, and so do all services that it starts.
pub fn of_pid1(host: &Host) -> io::Result<Vec<Mount>> {
    let path = Path::new("/proc/1/mountinfo");
    // Not by `Root::read`: the name of a mount point need not be UTF-8.
    mounts(path, &fs::read(host.root.locate(path)).map_err(|error| at(path, &error))?)
}

/// The processes that would keep a device mounted after PID 1 has unmounted it: their mount is private, so the unmount does
/// not reach it. Those in PID 1's and the calling thread's namespaces are left out. For errors see
/// [`Everywhere::holders`].
pub fn private_holders(host: &Host, device: (u32, u32)) -> io::Result<Vec<Holder>> {
    let spared = [mount_namespace(host, OF_PID1)?, mount_namespace(host, OURS)?];
    holders(host, &spared, |mount| mount.device == device && mount.private)
}

/// The processes that see anything mounted at a place, in any mount namespace. For errors see
/// [`Everywhere::holders`].
pub fn holders_of_place(host: &Host, place: &str) -> io::Result<Vec<Holder>> {
    holders(host, &[], |mount| mount.mount_point == place)
}

/// `spared` are mount namespaces, as `/proc/<pid>/ns/mnt` names them, that are not looked at.
fn holders(host: &Host, spared: &[PathBuf], wanted: impl Fn(&Mount) -> bool) -> io::Result<Vec<Holder>> {
    let all = holders_by(host, spared, |_| true, |mount| wanted(mount).then_some(()))?;
    Ok(all.into_iter().map(|((), holder)| holder).collect())
}

/// Returns the mounts of these devices, with a value for each mount that is wanted. Of other devices a line is read
/// only as far as its device number, because there are tens of thousands of lines.
fn holders_by<T>(
    host: &Host,
    spared: &[PathBuf],
    devices: impl Fn((u32, u32)) -> bool,
    wanted: impl Fn(&Mount) -> Option<T>,
) -> io::Result<Vec<(T, Holder)>> {
    let mut seen = HashSet::new();
    let mut holders = Vec::new();
    for name in host.root.list("/proc")? {
        let Ok(pid) = name.parse::<u32>() else { continue };
        let of = |what: &str| PathBuf::from(format!("/proc/{pid}/{what}"));
        let process = host.root.locate(of(""));
        let link = |what: &str| unless_ended(&of(what), &process, fs::read_link(host.root.locate(of(what))));
        // A process sees only mounts beneath its root, so a chroot hides some of its namespace:
        // each pair of namespace and root is a view of its own.
        let is_new = |view: &(PathBuf, PathBuf)| !seen.contains(view) && !spared.contains(&view.0);
        let Some(view) = link("ns/mnt")?.zip(link("root")?).filter(is_new) else { continue };
        let list = of("mountinfo");
        let Some(bytes) = unless_ended(&list, &process, fs::read(host.root.locate(&list)))? else {
            continue;
        };
        let here: Vec<_> = mounts_of(&list, &bytes, &devices)?
            .into_iter()
            .filter_map(|mount| Some((wanted(&mount)?, mount.mount_point)))
            .collect();
        if !here.is_empty() {
            let comm = of("comm");
            let comm = unless_ended(&comm, &process, fs::read(host.root.locate(&comm)))?.unwrap_or_default();
            let comm = String::from_utf8_lossy(comm.trim_ascii()).into_owned();
            let holder = |mount_point| Holder { pid, comm: comm.clone(), mount_point };
            holders.extend(here.into_iter().map(|(value, mount_point)| (value, holder(mount_point))));
        }
        seen.insert(view);
    }
    Ok(holders)
}

/// Files and devices that are swapped to; none on a kernel without swap.
pub fn swaps(host: &Host) -> io::Result<Vec<String>> {
    let text = host.root.read_opt("/proc/swaps")?.unwrap_or_default();
    Ok(parse_swaps(&text))
}

/// None if the process has ended. `mountinfo` gives EINVAL for a process that has ended and was not reaped yet (kernel
/// `fs/proc_namespace.c`, `mounts_open_common`). Such a process keeps no mount alive.
fn unless_ended<T>(path: &Path, process: &Path, result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => Ok(None),
        other => while_it_lives(process, other).map_err(|error| at(path, &error)),
    }
}

fn mounts(path: &Path, bytes: &[u8]) -> io::Result<Vec<Mount>> {
    mounts_of(path, bytes, |_| true)
}

fn mounts_of(path: &Path, bytes: &[u8], devices: impl Fn((u32, u32)) -> bool) -> io::Result<Vec<Mount>> {
    let wrong = |line: &[u8]| format!("{}: no mount: {}", path.display(), line.escape_ascii());
    parse_mounts(bytes, devices).map_err(|line| io::Error::new(io::ErrorKind::InvalidData, wrong(line)))
}

/// All mounts of these devices, or an error for the first line that can't be parsed, or whose device can't: a list without it
/// could say "not mounted".
fn parse_mounts(bytes: &[u8], devices: impl Fn((u32, u32)) -> bool) -> Result<Vec<Mount>, &[u8]> {
    let mut found = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let device = line.split(|byte| *byte == b' ').nth(2).and_then(|field| parse_device(&unescape(field)));
        if devices(device.ok_or(line)?) {
            found.push(parse_mount(line).ok_or(line)?);
        }
    }
    Ok(found)
}

fn parse_device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next().map(unescape);
    let id = next()?.parse().ok()?;
    let parent = next()?.parse().ok()?;
    let device = parse_device(&next()?)?;
    let (root, mount_point, options) = (next()?, next()?, next()?);
    let mut private = true;
    loop {
        match next()? {
            end if end == "-" => break,
            group => private &= !(group.starts_with("shared:") || group.starts_with("master:")),
        }
    }
    let (fs_type, source, super_options) = (next()?, next()?, next()?);
    let split = |options: &str| options.split(',').map(str::to_owned).collect();
    Some(Mount {
        id,
        parent,
        device,
        root,
        mount_point,
        options: split(&options),
        fs_type,
        source,
        private,
        super_options: split(&super_options),
    })
}

/// Replaces escapes such as `\040` (kernel `fs/proc_namespace.c`, `mangle`), and then bytes that aren't UTF-8.
fn unescape(field: &[u8]) -> String {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

fn parse_swaps(text: &str) -> Vec<String> {
    let lines = text.lines().skip(1); // the heading
    lines.filter_map(|line| line.split_whitespace().next()).map(|name| unescape(name.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interrupt, Root, system::SystemRunner};

    #[test]
    fn recorded() {
        let text = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
98 22 8:16 / /var/lib/etcd rw,relatime shared:51 master:3 - xfs /dev/sdb rw,attr2,inode64,prjquota
99 22 0:44 /a\\040b /mnt/with\\040blank\\134\\011x rw - tmpfs  rw
100 22 8:16 /member /srv rw - xfs /dev/disk/by-label/etcd-lun rw
";
        let mounts = parse_mounts(text, |_| true).unwrap();
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[1].device, (8, 16));
        assert_eq!((mounts[1].fs_type.as_str(), mounts[1].source.as_str()), ("xfs", "/dev/sdb"));
        assert!(mounts[1].super_options.iter().any(|option| option == "prjquota"));
        assert_eq!(mounts[2].mount_point, "/mnt/with blank\\\tx");
        assert_eq!((mounts[2].root.as_str(), mounts[2].source.as_str()), ("/a b", ""));
        assert_eq!(mounts[3].root, "/member");
        assert_eq!(mounts.iter().map(|mount| mount.private).collect::<Vec<_>>(), [false, false, true, true]);
    }

    #[test]
    fn hostile_is_an_error() {
        let good = "98 22 8:16 / /var/lib/etcd rw shared:51 - xfs /dev/sdb rw";
        assert!(parse_mount(good.as_bytes()).is_some());
        let wrong = [
            "98",
            "x 22 8:16 / / rw - xfs /dev/sdb rw",
            "98 22 816 / / rw - xfs /dev/sdb rw",
            "98 22 8:-1 / / rw - xfs /dev/sdb rw",
            "98 22 8:16 / / rw shared:1 xfs /dev/sdb rw",
            "98 22 8:16 / / rw - xfs",
            "98 22 8:16 / / rw - xfs /dev/sdb",
            "98 22 99999999999:16 / / rw - xfs /dev/sdb rw",
            "\u{1}\u{2}",
        ];
        for line in wrong {
            let text = format!("{good}\n{line}\n{good}\n");
            assert_eq!(parse_mounts(text.as_bytes(), |_| true), Err(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn escapes() {
        for (text, plain) in
            [("\\040", " "), ("\\", "\\"), ("\\04", "\\04"), ("\\999", "\\999"), ("a\\012", "a\n")]
        {
            assert_eq!(unescape(text.as_bytes()), plain, "{text}");
        }
        assert_eq!(unescape(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn swap_names() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/sda2                               partition\t2097148\t0\t-2\n\
                    /swap\\040file                           file\t\t1048572\t0\t-3\n";
        assert_eq!(parse_swaps(text), ["/dev/sda2", "/swap file"]);
        assert!(parse_swaps("").is_empty());
    }

    #[test]
    fn sees_its_own_root() {
        let runner = Box::new(SystemRunner::new(Interrupt::never()).unwrap());
        let host = Host::fixture(Root::new("/"), runner).unwrap();
        let mounts = of_pid1(&host).unwrap();
        assert!(mounts.iter().any(|mount| mount.mount_point == "/"));
    }
}
