//! The mount options that are known. The kernel refuses an unknown one, but a newer kernel may know more than this list: so an
//! unknown option is a warning, and an error only where it would be a danger.

use terms::nearest;

/// The options of every filesystem (mount(8), util-linux 2.41), with a `=` where a value follows. Those that the config refuses
/// are left out.
const GENERIC: &str = "async atime noatime auto context= defaults dev nodev diratime \
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

/// With these, labels that somebody wrote to the LUN would count (mount(8)).
const OTHER_LABELS: [&str; 3] = ["defcontext=", "fscontext=", "rootcontext="];

/// The option that gives every file of a filesystem one SELinux label (mount(8)).
pub const CONTEXT: &str = "context=";

/// The form of an option in `mountinfo` (kernel `fs/proc_namespace.c`, and `xfs_fs_show_options` in
/// `fs/xfs/xfs_super.c`). None for an option that it does not show, or shows in another form: mount(8) keeps `x-systemd.…` and
/// `defaults` to itself, and XFS prints `allocsize=` in another unit.
fn shown_as(option: &str) -> Option<&str> {
    const AS_WRITTEN: [&str; 16] = [
        "nodev",
        "nosuid",
        "noexec",
        "noatime",
        "nodiratime",
        "nosymfollow",
        "sync",
        "dirsync",
        "lazytime",
        "prjquota",
        "usrquota",
        "grpquota",
        "noquota",
        "discard",
        "inode32",
        "inode64",
    ];
    match option {
        "pquota" => Some("prjquota"),
        "uquota" | "quota" => Some("usrquota"),
        "gquota" => Some("grpquota"),
        _ if AS_WRITTEN.contains(&option) || option.starts_with(CONTEXT) => Some(option),
        _ => None,
    }
}

/// Those of the options that a mount should have and has not. Of an option that the kernel does not show, nobody can tell.
pub fn not_in_effect<'a>(asked: impl IntoIterator<Item = &'a str>, shown: &[String]) -> Vec<&'a str> {
    let is_missing =
        |option: &&str| shown_as(option).is_some_and(|as_shown| !shown.iter().any(|found| found == as_shown));
    asked.into_iter().filter(is_missing).collect()
}

/// Returns true if the config refuses an option, or a text that is none.
pub(super) fn is_refused(option: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && c != ',' && c != '%';
    option.is_empty()
        || !option.chars().all(plain)
        || REFUSED.contains(&option)
        || OTHER_LABELS.iter().any(|name| option.starts_with(name))
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
    use super::{is_refused, not_in_effect, warning};

    /// Linux 6.12 shows this of `mount -o prjquota,noatime,nodev,defaults,allocsize=64m,x-systemd.device-timeout=5`.
    #[test]
    fn what_the_kernel_shows() {
        let shown: Vec<_> =
            "rw nodev noatime relatime attr2 inode64 logbufs=8 logbsize=32k allocsize=65536k prjquota"
                .split(' ')
                .map(str::to_owned)
                .collect();
        for (asked, missing) in [
            (
                &["prjquota", "noatime", "nodev", "defaults", "allocsize=64m", "x-systemd.device-timeout=5"]
                    [..],
                &[][..],
            ),
            (&["pquota", "rw", "strictatime", "nodiscard"], &[]),
            (&["pquota", "nosuid", "context=a:b:c:s0"], &["nosuid", "context=a:b:c:s0"]),
            (&["quota", "discard"], &["quota", "discard"]),
        ] {
            assert_eq!(not_in_effect(asked.iter().copied(), &shown), missing, "{asked:?}");
        }
    }

    #[test]
    fn known_and_unknown() {
        for option in [
            "prjquota",
            "noatime",
            "logbufs=8",
            "logbsize=256k",
            "x-systemd.device-timeout=5min",
            "dax",
            "context=u:object_r:t:s0",
        ] {
            assert_eq!((warning(option), is_refused(option)), (None, false), "{option}");
        }
        for (option, said) in [
            ("noatme", "did you mean `noatime`?"),
            ("logbufs", "did you mean `logbufs=`?"),
            ("data=journal", "neither"),
        ] {
            assert!(warning(option).unwrap().contains(said), "{option}: {:?}", warning(option));
        }
        for option in
            ["ro", "a,b", "", "remount", "a b", "defcontext=u:object_r:t:s0", "context=u:object_r:t:s0:c1,c2"]
        {
            assert!(is_refused(option), "{option}");
        }
    }
}
