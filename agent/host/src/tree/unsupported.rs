//! What a plain copy would silently lose.

use super::{
    Side, TreeError,
    walk::{Entry, Node, Walk},
};
use crate::Interrupt;
use rustix::{
    fd::{AsFd, AsRawFd},
    fs::{IFlags, StatxAttributes, flistxattr, ioctl_getflags, llistxattr},
    io::Errno,
};
use std::{ffi::CStr, io, os::unix::ffi::OsStrExt, path::PathBuf};

/// The kernel's limit for the names of one file's attributes (`XATTR_LIST_MAX`,
/// `include/uapi/linux/limits.h`).
const LIST_MAX: usize = 65_536;

/// Attributes that need not be copied, because the copy gets its own. SELinux labels follow from the policy and the
/// path (`restorecon(8)`). The kernel computes the IMA hash and the EVM signature when it writes a file. EVM's covers
/// the inode number, so a copied one would be wrong (`security/integrity` in the kernel). Everything else in
/// `security.`, above all file capabilities, was set by someone.
const REGENERATED: [&[u8]; 3] = [b"security.selinux", b"security.ima", b"security.evm"];

/// Refuses what a copy of contents, owners, modes, times and hard links would silently lose: extended attributes
/// (except those above), access control lists, file capabilities, sockets, fifos and device nodes, the immutable and
/// append-only flags, directories of a quota project, and everything that is mounted below. Every entry is opened, so
/// an unreadable one is found, too.
///
/// Without `CAP_SYS_ADMIN` the kernel hides `trusted.` attributes, so they are not found. A project id is found by the
/// flag with which directories pass it on (`xfs_quota(8)`, `project -s`). The project id of a single file is not found:
/// only `FS_IOC_FSGETXATTR` reports it, for which there is no safe interface. The copy then is not counted in that
/// quota project.
///
/// `own` is an attribute that the root may have. It belongs to the caller, and need not be copied.
pub fn unsupported(root: impl AsFd, own: Option<&CStr>, interrupt: &Interrupt) -> Result<(), TreeError> {
    let mut walk = Walk::new(root.as_fd(), Side::Only, interrupt)?;
    let mut names = vec![0; LIST_MAX];
    while let Some(entry) = walk.next()? {
        let unreadable = |error| walk.side.unreadable(&entry.path, error);
        let count = attributes(&entry, &mut names).map_err(unreadable)?;
        let names = names.get(..count).unwrap_or_default();
        let found = match flag(&entry).map_err(unreadable)? {
            Some(found) => Some(found.to_owned()),
            None => {
                let own = own.filter(|_| entry.path.is_empty()).map(CStr::to_bytes);
                names.split(|byte| *byte == 0).filter(|name| Some(*name) != own).find_map(attribute)
            }
        };
        if let Some(found) = found {
            return Err(TreeError::Unsupported { file: walk.side.name(&entry.path), found });
        }
    }
    Ok(())
}

/// Reads the names of an entry's extended attributes, each ended by a zero byte.
fn attributes(entry: &Entry, names: &mut [u8]) -> io::Result<usize> {
    let listed = match &entry.node {
        Node::Directory(fd) => flistxattr(fd, names),
        Node::File(file) => flistxattr(file, names),
        // The attributes of a link can't be read by a handle of the link. So they are read through its directory.
        Node::Link { parent, name, .. } => {
            let mut path = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd()));
            path.push(std::ffi::OsStr::from_bytes(name.to_bytes()));
            llistxattr(path, names)
        }
    };
    match listed {
        Ok(count) => Ok(count),
        Err(Errno::NOTSUP) => Ok(0), // this filesystem has none
        Err(error) => Err(error.into()),
    }
}

fn attribute(name: &[u8]) -> Option<String> {
    if name.is_empty() || REGENERATED.contains(&name) {
        return None;
    }
    let shown = super::shown(name);
    Some(match name {
        b"system.posix_acl_access" | b"system.posix_acl_default" => {
            "has an access control list, which the copy would lose: remove it with `setfacl -b`".into()
        }
        b"security.capability" => {
            "has file capabilities, which the copy would lose: remove them with `setcap -r`".into()
        }
        _ => format!(
            "has the extended attribute {shown}, which the copy would lose: remove it with `setfattr -x`"
        ),
    })
}

fn flag(entry: &Entry) -> io::Result<Option<&'static str>> {
    if entry.meta.attributes.contains(StatxAttributes::IMMUTABLE) {
        return Ok(Some("is immutable, which the copy would not be: clear it with `chattr -i`"));
    }
    if entry.meta.attributes.contains(StatxAttributes::APPEND) {
        return Ok(Some("is append-only, which the copy would not be: clear it with `chattr -a`"));
    }
    if let Node::Directory(fd) = &entry.node {
        match ioctl_getflags(fd) {
            Ok(flags) if flags.contains(IFlags::PROJECT_INHERIT) => {
                return Ok(Some(
                    "belongs to a quota project, which the copy would not: remove it from the project with `xfs_quota -x -c 'project -C ...'`",
                ));
            }
            // No flags here, so no projects.
            Ok(_) | Err(Errno::NOTTY | Errno::NOTSUP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
