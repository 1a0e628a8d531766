//! The mount options that are known, one row each: what the config accepts, which mount gets it, and how it is shown.
//!
//! The kernel refuses an unknown option, but a newer kernel may know more than this table. So an unknown option is no error.

use super::nearest;
use MountClass::{Mount, Refused, Superblock, SuperblockFlag};
use Shown::{As, AsWritten, Otherwise};

/// The option that gives every file of a filesystem one SELinux label (mount(8)).
pub const CONTEXT: &str = "context=";

/// Tells systemd that a mount is on the network (systemd.mount(5)). The kernel doesn't know it.
pub const NETDEV: &str = "_netdev";

/// The options of etcd's mount with these of the config: before them `_netdev` for a LUN on the network, and behind them what takes
/// their effect from device nodes and programs on the LUN. An option of the config that says otherwise wins.
pub fn options_for_etcd(own: &[String], on_network: bool) -> Vec<String> {
    const WITHOUT_EFFECT: [(&str, &str); 3] = [("nodev", "dev"), ("nosuid", "suid"), ("noexec", "exec")];
    let asks = |name: &str| own.iter().any(|option| option == name);
    let first = (on_network || asks(NETDEV)).then_some(NETDEV).into_iter();
    let last = WITHOUT_EFFECT.into_iter().filter(|(option, other)| !asks(option) && !asks(other));
    let own = own.iter().map(String::as_str).filter(|option| *option != NETDEV);
    first.chain(own).chain(last.map(|(option, _)| option)).map(str::to_owned).collect()
}

/// Whose an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountClass {
    /// That of a single mount, or of systemd and mount(8) alone.
    Mount,
    /// That of the filesystem in memory, as data of `mount(2)`. A second mount of the filesystem ignores it.
    Superblock,
    /// That of the filesystem in memory, but `mount(2)` has no data for it.
    SuperblockFlag,
    /// Nobody's: the config refuses it, and expects this instead.
    Refused(&'static str),
}

/// How the kernel shows an option in `mountinfo` (kernel `fs/proc_namespace.c`, and `xfs_fs_show_options` in
/// `fs/xfs/xfs_super.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// As it is written.
    AsWritten,
    /// By this name.
    As(&'static str),
    /// Not at all, or in another form: XFS prints `allocsize=` in another unit.
    Otherwise,
}

/// A known option.
#[derive(Debug)]
struct MountOption {
    /// Its name, with a `=` where a value follows.
    name: &'static str,
    class: MountClass,
    shown: Shown,
}

const fn row(name: &'static str, class: MountClass, shown: Shown) -> MountOption {
    MountOption { name, class, shown }
}

const LATER: &str = "an option of a first mount";
const WAITED_FOR: &str = "a mount that etcd's start waits for";
const BY_ROOT: &str = "a mount that only root makes";
const ONE_LABEL: &str = "`context=`: with it no label that somebody wrote to the LUN counts";

/// The options of every filesystem (mount(8), util-linux 2.41), and those of XFS (xfs(5), xfsprogs 6.13; kernel
/// `fs/xfs/xfs_super.c`, `xfs_fs_parameters`).
static KNOWN: [MountOption; 91] = [
    row(NETDEV, Mount, Otherwise),
    row("atime", Mount, Otherwise),
    row("auto", Mount, Otherwise),
    row("comment=", Mount, Otherwise),
    row("defaults", Mount, Otherwise),
    row("dev", Mount, Otherwise),
    row("diratime", Mount, Otherwise),
    row("exec", Mount, Otherwise),
    row("group", Mount, Otherwise),
    row("noatime", Mount, AsWritten),
    row("nodev", Mount, AsWritten),
    row("nodiratime", Mount, AsWritten),
    row("noexec", Mount, AsWritten),
    row("norelatime", Mount, Otherwise),
    row("nostrictatime", Mount, Otherwise),
    row("nosuid", Mount, AsWritten),
    row("nosymfollow", Mount, AsWritten),
    row("nouser", Mount, Otherwise),
    row("owner", Mount, Otherwise),
    row("relatime", Mount, Otherwise),
    row("rw", Mount, Otherwise),
    row("strictatime", Mount, Otherwise),
    row("suid", Mount, Otherwise),
    row("async", SuperblockFlag, Otherwise),
    row("dirsync", SuperblockFlag, AsWritten),
    row("iversion", SuperblockFlag, Otherwise),
    row("lazytime", SuperblockFlag, AsWritten),
    row("loud", SuperblockFlag, Otherwise),
    row("mand", SuperblockFlag, Otherwise),
    row("noiversion", SuperblockFlag, Otherwise),
    row("nolazytime", SuperblockFlag, Otherwise),
    row("nomand", SuperblockFlag, Otherwise),
    row("silent", SuperblockFlag, Otherwise),
    row("sync", SuperblockFlag, AsWritten),
    row(CONTEXT, Superblock, AsWritten),
    row("allocsize=", Superblock, Otherwise),
    row("attr2", Superblock, Otherwise),
    row("bsdgroups", Superblock, Otherwise),
    row("dax", Superblock, Otherwise),
    row("dax=", Superblock, Otherwise),
    row("discard", Superblock, AsWritten),
    row("filestreams", Superblock, Otherwise),
    row("gqnoenforce", Superblock, Otherwise),
    row("gquota", Superblock, As("grpquota")),
    row("grpid", Superblock, Otherwise),
    row("grpquota", Superblock, AsWritten),
    row("ikeep", Superblock, Otherwise),
    row("inode32", Superblock, AsWritten),
    row("inode64", Superblock, AsWritten),
    row("largeio", Superblock, Otherwise),
    row("lifetime", Superblock, Otherwise),
    row("logbsize=", Superblock, Otherwise),
    row("logbufs=", Superblock, Otherwise),
    row("logdev=", Superblock, Otherwise),
    row("max_atomic_write=", Superblock, Otherwise),
    row("max_open_zones=", Superblock, Otherwise),
    row("noalign", Superblock, Otherwise),
    row("noattr2", Superblock, Otherwise),
    row("nodiscard", Superblock, Otherwise),
    row("nogrpid", Superblock, Otherwise),
    row("noikeep", Superblock, Otherwise),
    row("nolargeio", Superblock, Otherwise),
    row("nolifetime", Superblock, Otherwise),
    row("noquota", Superblock, AsWritten),
    row("pqnoenforce", Superblock, Otherwise),
    row("pquota", Superblock, As("prjquota")),
    row("prjquota", Superblock, AsWritten),
    row("qnoenforce", Superblock, Otherwise),
    row("quota", Superblock, As("usrquota")),
    row("rtdev=", Superblock, Otherwise),
    row("sunit=", Superblock, Otherwise),
    row("swalloc", Superblock, Otherwise),
    row("swidth=", Superblock, Otherwise),
    row("sysvgroups", Superblock, Otherwise),
    row("uqnoenforce", Superblock, Otherwise),
    row("uquota", Superblock, As("usrquota")),
    row("usrquota", Superblock, AsWritten),
    row("wsync", Superblock, Otherwise),
    row("bind", Refused(LATER), Otherwise),
    row("remount", Refused(LATER), Otherwise),
    row("noauto", Refused(WAITED_FOR), Otherwise),
    row("nofail", Refused(WAITED_FOR), Otherwise),
    row("user", Refused(BY_ROOT), Otherwise),
    row("users", Refused(BY_ROOT), Otherwise),
    row("nobarrier", Refused("writes that are durable once etcd has synced them"), Otherwise),
    row("norecovery", Refused("a mount that replays the log of XFS"), Otherwise),
    row(
        "nouuid",
        Refused("a mount that refuses a second filesystem with this UUID, such as a clone"),
        Otherwise,
    ),
    row("ro", Refused("a writable mount"), Otherwise),
    row("defcontext=", Refused(ONE_LABEL), Otherwise),
    row("fscontext=", Refused(ONE_LABEL), Otherwise),
    row("rootcontext=", Refused(ONE_LABEL), Otherwise),
];

fn known(option: &str) -> Option<&'static MountOption> {
    let name = name_of(option);
    KNOWN.iter().find(|known| known.name == name)
}

/// The name, as the table has it.
fn name_of(option: &str) -> &str {
    option.find('=').and_then(|at| option.get(..=at)).unwrap_or(option)
}

impl MountClass {
    /// Whose this option is; none if it is not known. mount ignores what begins with `x-` or `X-`.
    pub fn of(option: &str) -> Option<Self> {
        if option.starts_with("x-") || option.starts_with("X-") {
            return Some(Mount);
        }
        known(option).map(|known| known.class)
    }
}

/// The known option that somebody may have meant, who wrote one that is not known.
pub fn similar_mount_option(option: &str) -> Option<&'static str> {
    let accepted = KNOWN.iter().filter(|known| !matches!(known.class, Refused(_)));
    nearest(name_of(option), accepted.map(|known| known.name))
}

/// Those of the options that a mount should have and has not. Of an option that the kernel does not show, nobody can tell.
pub fn not_in_effect<'a>(asked: impl IntoIterator<Item = &'a str>, shown: &[String]) -> Vec<&'a str> {
    let is_missing = |option: &&str| {
        let as_shown = match known(option).map(|known| known.shown) {
            Some(AsWritten) => option,
            Some(As(name)) => name,
            Some(Otherwise) | None => return false,
        };
        !shown.iter().any(|found| found == as_shown)
    };
    asked.into_iter().filter(is_missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A second row of an option would never be read.
    #[test]
    fn each_known_option_has_exactly_one_class() {
        let names: BTreeSet<_> = KNOWN.iter().map(|known| known.name).collect();
        assert_eq!(names.len(), KNOWN.len());
        for MountOption { name, class, shown } in &KNOWN {
            let option = if name.ends_with('=') { format!("{name}1") } else { (*name).to_owned() };
            assert_eq!(MountClass::of(&option), Some(*class), "{option}");
            let is_refused = matches!(class, Refused(_));
            assert!(!is_refused || *shown == Otherwise, "{name} is refused, so nobody looks for it");
            if let As(other) = shown {
                let row = known(other).map(|other| (other.class, other.shown));
                assert_eq!(row, Some((*class, AsWritten)), "{name} is another name of {other}");
            }
        }
        assert_eq!(MountClass::of("x-systemd.device-timeout=5"), Some(Mount));
        for unknown in ["noatme", "logbufs", "prjquota=1", "data=journal", ""] {
            assert_eq!(MountClass::of(unknown), None, "{unknown}");
        }
    }

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
}
