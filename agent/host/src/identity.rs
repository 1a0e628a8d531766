//! This machine's name and id, and the user and unit of this process.

use super::{Host, cgroup};
use std::io;

/// The hostname that the kernel has, short or fully qualified, as it was set.
///
/// Fails if no hostname is set: `(none)` is the kernel's placeholder (`include/linux/uts.h`), not a name.
pub fn hostname(host: &Host) -> io::Result<String> {
    let path = "/proc/sys/kernel/hostname";
    parse_hostname(&host.root.read(path)?).ok_or_else(|| invalid(path, "a hostname"))
}

/// The machine's id, 32 lower-case hexadecimal digits: machine-id(5).
///
/// Also fails for the placeholders of an image: `uninitialized`, an empty file, or only zeros.
pub fn machine_id(host: &Host) -> io::Result<String> {
    let path = "/etc/machine-id";
    parse_machine_id(&host.root.read(path)?)
        .ok_or_else(|| invalid(path, "a machine id, 32 hexadecimal digits"))
}

/// True if this process's effective user is root: proc_pid_status(5).
pub fn is_root(host: &Host) -> io::Result<bool> {
    let path = "/proc/self/status";
    parse_effective_uid(&host.root.read(path)?)
        .map(|uid| uid == 0)
        .ok_or_else(|| invalid(path, "a process's status"))
}

/// The systemd unit of this process, such as `etcd-lun.service`; none outside of services, as in a login session or a
/// container: proc_pid_cgroup(5), in the unified hierarchy (RHEL 9) or in systemd's own (RHEL 8).
pub fn unit(host: &Host) -> io::Result<Option<String>> {
    Ok(cgroup::of(host, "self")?.as_deref().and_then(unit_in))
}

fn unit_in(group: &str) -> Option<String> {
    group.rsplit('/').next().filter(|unit| unit.ends_with(".service")).map(str::to_owned)
}

fn parse_hostname(text: &str) -> Option<String> {
    let name = text.strip_suffix('\n').unwrap_or(text);
    // HOST_NAME_MAX is 64: gethostname(2).
    let plain = (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
    (plain && name != "(none)").then(|| name.to_owned())
}

fn parse_machine_id(text: &str) -> Option<String> {
    let id = text.strip_suffix('\n').unwrap_or(text);
    let digits = id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    (digits && id.bytes().any(|b| b != b'0')).then(|| id.to_ascii_lowercase())
}

fn parse_effective_uid(text: &str) -> Option<u32> {
    let uids = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    uids.split_whitespace().nth(1)?.parse().ok() // real, effective, saved, filesystem
}

fn invalid(path: &str, wanted: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path} doesn't hold {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames() {
        let long = "a".repeat(65);
        for (text, name) in [
            ("master-0\n", Some("master-0")),
            ("master-0.example.com", Some("master-0.example.com")),
            ("(none)\n", None),
            ("", None),
            ("\n", None),
            ("a b\n", None),
            ("a\nb\n", None),
            ("a\u{1b}[1m\n", None),
            (long.as_str(), None),
        ] {
            assert_eq!(parse_hostname(text).as_deref(), name, "{text:?}");
        }
    }

    #[test]
    fn machine_ids() {
        let id = "4e9b1c0b7e3a4d0c9f6d2a1b3c4d5e6f";
        let zeros = "0".repeat(32);
        for (text, parsed) in [
            ("4e9b1c0b7e3a4d0c9f6d2a1b3c4d5e6f\n", Some(id)),
            ("4E9B1C0B7E3A4D0C9F6D2A1B3C4D5E6F", Some(id)),
            ("uninitialized\n", None),
            ("", None),
            (zeros.as_str(), None),
            ("4e9b1c0b7e3a4d0c9f6d2a1b3c4d5e6", None),
            ("4e9b1c0b7e3a4d0c9f6d2a1b3c4d5e6g", None),
            (" 4e9b1c0b7e3a4d0c9f6d2a1b3c4d5e6f", None),
            ("4e9b1c0b7e3a4d0c9f6d2a1b3c4d5e6f\n\n", None),
        ] {
            assert_eq!(parse_machine_id(text).as_deref(), parsed, "{text:?}");
        }
    }

    #[test]
    fn units() {
        for (path, unit) in [
            ("/system.slice/etcd-lun.service", Some("etcd-lun.service")),
            ("/user.slice/user-0.slice/session-3.scope", None),
            ("/kubepods.slice/kubepods-pod1.slice/crio-1.scope", None),
            ("/", None),
        ] {
            assert_eq!(unit_in(path).as_deref(), unit, "{path}");
        }
    }

    #[test]
    fn effective_uid() {
        let status = "Name:\tx\nUmask:\t0022\nUid:\t1000\t0\t0\t0\nGid:\t1\t1\t1\t1\n";
        assert_eq!(parse_effective_uid(status), Some(0));
        for text in ["", "Uid:", "Uid:\t0\n", "Uid:\t0\tx\n"] {
            assert_eq!(parse_effective_uid(text), None, "{text:?}");
        }
    }
}
