//! The mount options that are known. The kernel refuses an unknown one, but a newer kernel may know more than this list: so an
//! unknown option is a warning, and an error only where it would be a danger.

use crate::terms::nearest;

/// The options of every filesystem (mount(8), util-linux 2.41), with a `=` where a value follows. Those that the config refuses
/// are left out.
const GENERIC: &str = "async atime noatime auto context= defcontext= fscontext= rootcontext= defaults dev nodev diratime \
    nodiratime dirsync exec noexec group iversion noiversion mand nomand _netdev relatime norelatime strictatime \
    nostrictatime lazytime nolazytime suid nosuid silent loud owner nouser rw sync nosymfollow comment=";

/// The options of XFS (xfs(5), xfsprogs 6.13; kernel `fs/xfs/xfs_super.c`, `xfs_fs_parameters`).
const XFS: &str = "allocsize= attr2 noattr2 dax dax= discard nodiscard grpid bsdgroups nogrpid sysvgroups filestreams ikeep \
    noikeep inode32 inode64 largeio nolargeio lifetime nolifetime logbufs= logbsize= logdev= max_atomic_write= \
    max_open_zones= noalign noquota uquota usrquota quota uqnoenforce qnoenforce gquota grpquota gqnoenforce pquota \
    prjquota pqnoenforce rtdev= sunit= swidth= swalloc wsync";

/// etcd needs a writable mount whose writes are durable; `nouuid` would also mount a clone of a snapshot.
const REFUSED: [&str; 10] =
    ["ro", "norecovery", "nouuid", "nobarrier", "bind", "noauto", "nofail", "user", "users", "remount"];

/// Whether the config refuses an option, or a text that is none.
pub(super) fn is_refused(option: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && c != ',' && c != '%';
    option.is_empty() || !option.chars().all(plain) || REFUSED.contains(&option)
}

/// A warning if neither mount(8) nor xfs(5) has the option. mount ignores what begins with `x-` or `X-`.
pub(super) fn warning(option: &str) -> Option<String> {
    let name = match option.split_once('=') {
        Some((name, _)) => format!("{name}="),
        None => option.to_owned(),
    };
    let known = || GENERIC.split_whitespace().chain(XFS.split_whitespace());
    if option.starts_with("x-") || option.starts_with("X-") || known().any(|word| word == name) {
        return None;
    }
    let meant = nearest(&name, known()).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    Some(format!(
        "`{option}` is an option of neither mount(8) nor xfs(5), and the kernel may refuse the mount{meant}"
    ))
}

#[cfg(test)]
mod tests {
    use super::{is_refused, warning};

    #[test]
    fn known_and_unknown() {
        for option in
            ["prjquota", "noatime", "logbufs=8", "logbsize=256k", "x-systemd.device-timeout=5min", "dax"]
        {
            assert_eq!((warning(option), is_refused(option)), (None, false), "{option}");
        }
        for (option, said) in [
            ("noatme", "did you mean `noatime`?"),
            ("logbufs", "did you mean `logbufs=`?"),
            ("data=journal", "neither"),
        ] {
            assert!(warning(option).unwrap().contains(said), "{option}: {:?}", warning(option));
        }
        for option in ["ro", "a,b", "", "remount", "a b"] {
            assert!(is_refused(option), "{option}");
        }
    }
}
