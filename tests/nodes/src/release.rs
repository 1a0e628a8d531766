//! The Debian release of the node. Trixie is the default. The older ones stand for the older nodes of OpenShift.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::host;

/// A Debian release, with the versions that make it comparable with a Red Hat CoreOS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Release {
    /// Linux 6.12, systemd 257.
    Trixie,
    /// Linux 6.1, systemd 252. Red Hat CoreOS of OpenShift 4.13 and later has systemd 252 too.
    Bookworm,
    /// Linux 5.10, systemd 247. Both are between those of Red Hat CoreOS of OpenShift 4.12 and 4.13.
    Bullseye,
}

static CHOSEN: OnceLock<Release> = OnceLock::new();

const DEBIAN_FETCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/debian-fetch");
const LIMIT: Duration = Duration::from_secs(600);
/// The directory of a newer C library, for programs that need it.
const NEWER_LIBC: &str = "usr/lib/newer-libc";

impl Release {
    /// Chooses the release of all nodes of this process. Only the first call counts.
    pub fn choose(self) {
        CHOSEN.get_or_init(|| self);
    }

    /// The release that was chosen.
    pub fn chosen() -> Self {
        CHOSEN.get().copied().unwrap_or(Self::Trixie)
    }

    /// Debian's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trixie => "trixie",
            Self::Bookworm => "bookworm",
            Self::Bullseye => "bullseye",
        }
    }

    /// Those packages that the release has.
    pub fn packages(self, all: &[&'static str]) -> Vec<&'static str> {
        let is_absent = |package: &str| self == Self::Bullseye && package == "util-linux-extra";
        all.iter().copied().filter(|package| !is_absent(package)).collect()
    }

    /// Options of mmdebstrap for the release. On Red Hat CoreOS `/bin` is `/usr/bin`, and the units name programs in `/usr`. A
    /// new tree of bullseye has two directories otherwise.
    pub fn bootstrap_options(self) -> &'static [&'static str] {
        match self {
            Self::Trixie | Self::Bookworm => &[],
            Self::Bullseye => &["--setup-hook=/usr/share/mmdebstrap/hooks/merged-usr/setup00.sh"],
        }
    }

    /// The Debian packages that the host needs for it, each with one of its programs.
    pub fn host_packages(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Trixie | Self::Bookworm => &[],
            Self::Bullseye => &[("patchelf", "patchelf")],
        }
    }

    /// Settings of sshd that the release knows.
    pub fn sshd(self) -> &'static str {
        match self {
            Self::Trixie => "PerSourcePenalties no\nMaxStartups 100\n",
            Self::Bookworm | Self::Bullseye => "MaxStartups 100\n",
        }
    }

    /// Whether the files of a node have SELinux labels.
    pub fn has_labels(self) -> bool {
        self == Self::Trixie
    }

    /// What the script that finishes an image begins with. Older releases lack some of the units that the script disables,
    /// and `systemctl disable` fails for a unit that is absent. Bullseye has no socket that starts iscsid, so etcd-lun starts
    /// `iscsid.service`. The setfiles of both needs `/proc`, which the chroot does not have, so an older node has no SELinux
    /// labels. The scenarios that enforce SELinux are for trixie.
    pub fn before_finish(self) -> String {
        let arguments = match self {
            Self::Trixie => return String::new(),
            Self::Bookworm => "\"$@\"",
            Self::Bullseye => "$(echo \"$@\" | sed 's/ iscsid.socket//')",
        };
        format!(
            "systemctl() {{ command systemctl {arguments} || case \"$*\" in *disable*) ;; *) return 1 ;; esac; }}\n\
             setfiles() {{ :; }}\n"
        )
    }

    /// Puts trixie's etcd into the tree of an older release. OpenShift's etcd has been 3.5 since 4.9, and the older releases
    /// have 3.4 and 3.3. Bullseye's C library is too old for it, so it gets trixie's, which only etcd uses.
    pub fn newer_etcd(self, tree: &Path) -> Result<()> {
        if self == Self::Trixie {
            return Ok(());
        }
        for (package, program) in [("etcd-server", "usr/bin/etcd"), ("etcd-client", "usr/bin/etcdctl")] {
            let to = tree.join(program);
            fs::copy(fetched(package)?.join(program), &to)?;
            if self == Self::Bullseye {
                link_with_newer_libc(tree, &to)?;
            }
        }
        Ok(())
    }
}

/// The directory of an unpacked package of trixie.
fn fetched(package: &str) -> Result<PathBuf> {
    let mut fetch = Command::new(DEBIAN_FETCH);
    let said = host::ok(fetch.args([package, "*", "trixie"]), LIMIT)?;
    said.lines().last().map(PathBuf::from).with_context(|| format!("nothing fetched for {package}"))
}

fn link_with_newer_libc(tree: &Path, program: &Path) -> Result<()> {
    let to = tree.join(NEWER_LIBC);
    if !to.exists() {
        fs::create_dir_all(&to)?;
        let libc = fetched("libc6")?.join("usr/lib/x86_64-linux-gnu");
        for library in
            ["ld-linux-x86-64.so.2", "libc.so.6", "libpthread.so.0", "libresolv.so.2", "libdl.so.2"]
        {
            fs::copy(libc.join(library), to.join(library))?;
        }
    }
    let mut patch = Command::new("patchelf");
    patch.arg("--set-interpreter").arg(format!("/{NEWER_LIBC}/ld-linux-x86-64.so.2"));
    patch.arg("--set-rpath").arg(format!("/{NEWER_LIBC}")).arg(program);
    host::ok(&mut patch, LIMIT).map(drop)
}
