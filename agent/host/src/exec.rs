//! Running the node's own tools: which tools, how, and their results.

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};
use terms::{AbsPath, ErrorName, Named};

/// Every program that etcd-lun may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    /// Reads from a device what it holds (util-linux).
    Blkid,
    /// Queries the container runtime; not on every machine.
    Crictl,
    /// Queries a server on this node; not on every machine.
    Curl,
    /// Shows the state of device-mapper's devices; not on every machine.
    Dmsetup,
    /// Sets the I/O scheduling class of processes (util-linux).
    Ionice,
    /// The command line tool of open-iscsi.
    Iscsiadm,
    /// Prints the journal.
    Journalctl,
    /// Lists disks (util-linux).
    Lsblk,
    /// Makes XFS (xfsprogs).
    MkfsXfs,
    /// Mounts, and tells systemd of options that the kernel does not know (util-linux).
    Mount,
    /// Labels files as the SELinux policy says (policycoreutils); not on every machine.
    Restorecon,
    /// Controls multipathd (device-mapper-multipath); not on every machine.
    Multipathd,
    /// Copies trees.
    Rsync,
    /// Changes the SELinux policy (policycoreutils); not on every machine.
    Semodule,
    /// Computes a checksum (coreutils).
    Sha256sum,
    /// Shows units, for `report`. etcd-lun itself asks for units, and starts and stops them, over D-Bus.
    Systemctl,
    /// Decrypts a credential of systemd; from systemd 250 on.
    SystemdCreds,
    /// Unmounts (util-linux).
    Umount,
    /// Grows XFS (xfsprogs).
    XfsGrowfs,
}

impl Tool {
    /// The tools without which nothing works. The packages must require exactly these.
    pub const REQUIRED: [Self; 4] = [Self::Blkid, Self::Iscsiadm, Self::MkfsXfs, Self::Rsync];

    /// The file name of the program.
    pub fn program(self) -> &'static str {
        self.names().0
    }

    /// The package with the tool, on RHEL and on Debian. An error message names it if the tool is missing.
    pub fn package(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Blkid => ("blkid", "util-linux"),
            Self::Crictl => ("crictl", "cri-tools"),
            Self::Curl => ("curl", "curl"),
            Self::Dmsetup => ("dmsetup", "device-mapper (Debian: dmsetup)"),
            Self::Ionice => ("ionice", "util-linux"),
            Self::Iscsiadm => ("iscsiadm", "iscsi-initiator-utils (Debian: open-iscsi)"),
            Self::Journalctl => ("journalctl", "systemd"),
            Self::Lsblk => ("lsblk", "util-linux"),
            Self::MkfsXfs => ("mkfs.xfs", "xfsprogs"),
            Self::Mount => ("mount", "util-linux (Debian: mount)"),
            Self::Restorecon => ("restorecon", "policycoreutils"),
            Self::Multipathd => ("multipathd", "device-mapper-multipath (Debian: multipath-tools)"),
            Self::Rsync => ("rsync", "rsync"),
            Self::Semodule => ("semodule", "policycoreutils"),
            Self::Sha256sum => ("sha256sum", "coreutils"),
            Self::Systemctl => ("systemctl", "systemd"),
            Self::SystemdCreds => ("systemd-creds", "systemd"),
            Self::Umount => ("umount", "util-linux (Debian: mount)"),
            Self::XfsGrowfs => ("xfs_growfs", "xfsprogs"),
        }
    }

    /// True if a secret may be in what it prints, which no log shows then.
    pub fn prints_a_secret(self) -> bool {
        self == Self::SystemdCreds
    }
}

/// The directories in which programs are looked up. Not `PATH`, because the caller must not determine what runs as
/// root.
pub const SEARCH: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// One run of a program: exactly what will be executed. It holds no secret, because everyone can read arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program.
    pub tool: Tool,
    /// Its arguments.
    pub args: Vec<String>,
    /// The program is killed after this time.
    pub limit: Duration,
    /// The directory that it runs in; none for this process's own.
    pub dir: Option<AbsPath>,
}

impl Invocation {
    /// A run of `tool`, limited to 60 s.
    pub fn new<'a>(tool: Tool, args: impl IntoIterator<Item = &'a str>) -> Self {
        let args = args.into_iter().map(str::to_owned).collect();
        Self { tool, args, limit: Duration::from_secs(60), dir: None }
    }

    /// Sets another limit.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Sets the working directory.
    pub fn within(self, dir: AbsPath) -> Self {
        Self { dir: Some(dir), ..self }
    }
}

impl fmt::Display for Invocation {
    /// A line that can be pasted into a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(dir) = &self.dir {
            write!(f, "cd {dir} && ")?;
        }
        f.write_str(self.tool.program())?;
        for arg in &self.args {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=,@%+[]".contains(&b);
            if !arg.is_empty() && arg.bytes().all(plain) {
                write!(f, " {arg}")?;
            } else {
                write!(f, " '{}'", arg.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

/// The result of a program that ended. A code other than 0 is not an error here, because many tools use exit codes as
/// answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Output {
    /// Exit code.
    pub code: i32,
    /// Standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// Standard error, likewise, its last 1,024 bytes.
    pub stderr: String,
}

impl Output {
    /// The output, or an error if the code isn't 0.
    pub fn success(self, what: &Invocation) -> Result<Self, ExecError> {
        if self.code == 0 { Ok(self) } else { Err(self.failure(what)) }
    }

    /// This output as an error, for a caller that knows which codes mean success.
    pub fn failure(&self, what: &Invocation) -> ExecError {
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        ExecError::Failed { what: what.to_string(), code: self.code, said: one_line(said) }
    }
}

/// Why a program did not run, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It is not on this machine.
    #[error("{} is missing: install the package {}", .0.program(), .0.package())]
    Missing(Tool),
    /// It could not be started or waited for.
    #[error("running `{what}`")]
    Io {
        /// The command line.
        what: String,
        /// The reason.
        source: std::io::Error,
    },
    /// It ended with a code that means failure.
    #[error("`{what}` exited with {code}: {said}")]
    Failed {
        /// The command line.
        what: String,
        /// The exit code.
        code: i32,
        /// The end of its output, on one line.
        said: String,
    },
    /// A signal ended it.
    #[error("`{what}` was ended by a signal")]
    Signalled {
        /// The command line.
        what: String,
    },
    /// It took too long and was killed.
    #[error("`{what}` did not end within {} s and was killed", .limit.as_secs())]
    TimedOut {
        /// The command line.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// This process was asked to stop, and ended the program.
    #[error("interrupted while running `{what}`")]
    Interrupted {
        /// The command line.
        what: String,
    },
}

impl Named for ExecError {
    fn name(&self) -> Option<ErrorName> {
        Some(match self {
            Self::Missing(_) => ErrorName::ToolNotFound,
            Self::Failed { .. } | Self::Signalled { .. } | Self::TimedOut { .. } => ErrorName::ToolFailed,
            Self::Interrupted { .. } => ErrorName::Interrupted,
            Self::Io { .. } => return None,
        })
    }
}

/// Runs programs. In production only the machine implements it.
pub trait Runner: fmt::Debug {
    /// Runs a program to its end. While it runs, `watch` gets each piece of standard output that ends in a newline or
    /// carriage return.
    fn run(&self, what: &Invocation, watch: &mut dyn FnMut(&str)) -> Result<Output, ExecError>;

    /// Runs several at once; results in the order of the invocations.
    fn run_all(&self, what: &[Invocation]) -> Vec<Result<Output, ExecError>> {
        what.iter().map(|one| self.run(one, &mut |_| {})).collect()
    }

    /// Returns true if the program is on this machine.
    fn has(&self, tool: Tool) -> bool;
}

/// The lines of a text without blank ones, joined by `; `.
pub fn one_line(text: &str) -> String {
    let clean = |line: &str| line.trim().chars().filter(|c| !c.is_control()).collect::<String>();
    let lines: Vec<_> = text.lines().map(clean).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { "no message".into() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasteable() {
        let what =
            Invocation::new(Tool::Iscsiadm, ["-m", "node", "-T", "iqn.2024-02.x:y", "a b", "it's", ""]);
        assert_eq!(what.to_string(), r"iscsiadm -m node -T iqn.2024-02.x:y 'a b' 'it'\''s' ''");
    }

    #[test]
    fn error_is_one_line() {
        let what = Invocation::new(Tool::Blkid, ["-p"]);
        let output = Output { code: 8, stdout: String::new(), stderr: "a\n\n b\u{1b}[1m\n".into() };
        assert_eq!(output.failure(&what).to_string(), "`blkid -p` exited with 8: a; b[1m");
    }
}
