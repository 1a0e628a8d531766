//! SELinux in the kernel: whether it enforces, which labels its policy knows, this process's label, files' labels.
//!
//! This module uses the kernel's own files (`selinuxfs`, `proc_pid_attr(5)`, the attribute `security.selinux`).
//! libselinux can't be linked into a static program without its own dependencies, and does nothing else with them.

pub mod store;

use super::{
    Host, dir,
    root::{absent_is_none, at},
};
use rustix::{
    fd::{AsFd, AsRawFd as _},
    fs::{
        CWD, FileType, Mode, OFlags, XattrFlags, fgetxattr, fsetxattr, fstat, getxattr, lsetxattr, openat,
        setxattr,
    },
    io::Errno,
};
use std::{ffi::CStr, io, path::Path};

/// The mount point of the kernel's SELinux filesystem: libselinux `SELINUXMNT`.
const SELINUXFS: &str = "/sys/fs/selinux";
/// The attribute that holds a file's label.
const LABEL: &CStr = c"security.selinux";
/// Longer than the labels of any policy.
const LABEL_MAX: usize = 4096;

/// True if the kernel has SELinux and a policy: only then it knows the mount option `context=`. Every process may read its own
/// label (kernel `security/selinux/hooks.c`, `selinux_lsm_getattr`), also one that may not read selinuxfs.
pub fn is_on(host: &Host) -> io::Result<bool> {
    match own_context(host) {
        // Before the first policy each label is one word, and without SELinux the kernel has no label: `EINVAL`.
        Ok(label) => Ok(label.contains(':')),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// True if the kernel denies what its policy doesn't allow; none if SELinux is off.
pub fn enforces(host: &Host) -> io::Result<Option<bool>> {
    let path = format!("{SELINUXFS}/enforce");
    match host.root.read_opt(&path)?.as_deref().map(str::trim) {
        None => Ok(None),
        Some("1") => Ok(Some(true)),
        Some("0") => Ok(Some(false)),
        Some(other) => Err(invalid(&path, other)),
    }
}

/// The label of this process.
pub fn own_context(host: &Host) -> io::Result<String> {
    let path = "/proc/self/attr/current";
    clean(&host.root.read(path)?).ok_or_else(|| invalid(path, "no label"))
}

/// True if the loaded policy knows a label. The query needs a permission that every domain has (`security {
/// check_context }`).
pub fn knows(host: &Host, label: &str) -> io::Result<bool> {
    match host.root.poke(format!("{SELINUXFS}/context"), label) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
        Err(error) => Err(error),
    }
}

/// The label of the file to which a path leads; none if the file is absent or has no label.
pub fn label_of(host: &Host, path: &str) -> io::Result<Option<String>> {
    let mut value = vec![0; LABEL_MAX];
    let read = getxattr(host.root.locate(path), LABEL, value.as_mut_slice());
    absent_is_none(found(read, value)).map(Option::flatten).map_err(|error| at(Path::new(path), &error))
}

/// The label of an open file; none if it has none.
pub fn label(file: impl AsFd) -> io::Result<Option<String>> {
    let mut value = vec![0; LABEL_MAX];
    let read = fgetxattr(file, LABEL, value.as_mut_slice());
    found(read, value)
}

/// Sets the label of an open file, unless it has this label already. So a file with the right label needs no permission
/// to relabel.
pub fn set_label(file: impl AsFd, label: &str) -> io::Result<()> {
    if self::label(&file)?.as_deref() == Some(label) {
        return Ok(());
    }
    // With a final zero byte, as libselinux writes it, because `setfiles` compares whole values.
    let value = format!("{label}\0");
    Ok(fsetxattr(file, LABEL, value.as_bytes(), XattrFlags::empty())?)
}

/// Sets the label of a file. If the path's last component is a symbolic link, it is not followed.
pub fn set_label_of(host: &Host, path: &str, label: &str) -> io::Result<()> {
    let value = format!("{label}\0");
    lsetxattr(host.root.locate(path), LABEL, value.as_bytes(), XattrFlags::empty())
        .map_err(|error| at(Path::new(path), &error.into()))
}

/// Gives a directory, and everything below it, this label. Each file is opened by its name in its open directory, and is labelled as
/// what was opened: the confined service may make links there, and change names meanwhile. Returns a line for each change.
pub fn label_below(host: &Host, path: &str, label: &str) -> io::Result<Vec<String>> {
    let handle = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Some(first) =
        absent_is_none(openat(CWD, host.root.locate(path), handle, Mode::empty()).map_err(io::Error::from))?
    else {
        return Ok(Vec::new());
    };
    let (mut left, mut changed) = (vec![(path.to_owned(), first)], Vec::new());
    while let Some((path, file)) = left.pop() {
        // The attributes of a handle can be reached by this name only (proc_pid_fd(5)).
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut value = vec![0; LABEL_MAX];
        let has = found(getxattr(&opened, LABEL, value.as_mut_slice()), value)
            .map_err(|error| at(Path::new(&path), &error))?;
        if has.as_deref() != Some(label) {
            let set = setxattr(&opened, LABEL, format!("{label}\0").as_bytes(), XattrFlags::empty());
            set.map_err(|error| at(Path::new(&path), &error.into()))?;
            changed
                .push(format!("Relabeled {path} from {} to {label}", has.as_deref().unwrap_or("no label")));
        }
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Directory {
            let dir =
                openat(&file, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            for name in dir::names(&dir)? {
                let below =
                    absent_is_none(openat(&dir, &name, handle, Mode::empty()).map_err(io::Error::from))?;
                left.extend(below.map(|file| (format!("{path}/{name}"), file)));
            }
        }
    }
    Ok(changed)
}

fn found(read: rustix::io::Result<usize>, mut value: Vec<u8>) -> io::Result<Option<String>> {
    match read {
        Ok(length) => {
            value.truncate(length);
            Ok(clean(&String::from_utf8_lossy(&value)))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn clean(text: &str) -> Option<String> {
    let text = text.trim_end_matches(['\0', '\n']);
    (!text.is_empty()).then(|| text.to_owned())
}

fn invalid(path: &str, found: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path} holds `{}`", found.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, transcript::NoTools};
    use std::fs::{self, File};

    fn node(test: &str) -> (std::path::PathBuf, Host) {
        let base = std::env::temp_dir().join(format!("etcd-lun-selinux-{test}-{}", std::process::id()));
        fs::create_dir_all(base.join("sys/fs/selinux")).unwrap();
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        (base, host)
    }

    #[test]
    fn off_permissive_enforcing_garbled() {
        let (base, host) = node("enforce");
        assert_eq!(enforces(&host).unwrap(), None);
        for (text, said) in [("0", Some(false)), ("1", Some(true)), ("1\n", Some(true))] {
            fs::write(base.join("sys/fs/selinux/enforce"), text).unwrap();
            assert_eq!(enforces(&host).unwrap(), said, "{text:?}");
        }
        fs::write(base.join("sys/fs/selinux/enforce"), "maybe").unwrap();
        assert!(enforces(&host).unwrap_err().to_string().contains("maybe"));
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn labels_of_files() {
        let (base, host) = node("label");
        fs::write(base.join("file"), "").unwrap();
        assert_eq!(label_of(&host, "/absent").unwrap(), None);
        assert_eq!(label_of(&host, "/file").unwrap(), None);
        let file = File::open(base.join("file")).unwrap();
        // Needs root, and a filesystem with such attributes.
        match set_label(&file, "system_u:object_r:etc_t:s0") {
            Ok(()) => {
                let found = label_of(&host, "/file").unwrap();
                assert_eq!(found.as_deref(), Some("system_u:object_r:etc_t:s0"));
                set_label(&file, "system_u:object_r:etc_t:s0").unwrap();
            }
            Err(error) => {
                let kind = error.kind();
                assert!(
                    matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported),
                    "{error}"
                );
            }
        }
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_context_ends_with_a_zero() {
        assert_eq!(clean("u:r:t:s0\0").as_deref(), Some("u:r:t:s0"));
        assert_eq!(clean("u:r:t:s0\n").as_deref(), Some("u:r:t:s0"));
        assert_eq!(clean("\0"), None);
    }
}
