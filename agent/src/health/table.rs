//! All checks.

use super::{
    Check,
    Severity::{Critical, Warning},
    checks, metrics, selinux, vitals,
};

/// All checks, in the order in which they are printed.
pub const CHECKS: &[Check] = &[
    Check {
        name: "record",
        protects: "which copy etcd may run on is known",
        limit: "the record's own form",
        severity: Critical,
        run: checks::record,
    },
    Check {
        name: "session",
        protects: "the LUN can be reached",
        limit: "the kernel's word: LOGGED_IN",
        severity: Critical,
        run: checks::session,
    },
    Check {
        name: "portals",
        protects: "the LUN stays reachable when one path is lost",
        limit: "the config's `target.portals`",
        severity: Warning,
        run: checks::portals,
    },
    Check {
        name: "paths",
        protects: "the LUN stays reachable, and every path is used",
        limit: "the kernel's word on each SCSI device: running",
        severity: Warning,
        run: vitals::paths,
    },
    Check {
        name: "session-timeout",
        protects: "a short outage of the target makes etcd wait, and not its disk fail",
        limit: "the config's `target.replacement_timeout`; multipathd's own where it has a map",
        severity: Warning,
        run: vitals::session_timeout,
    },
    Check {
        name: "route",
        protects: "a session survives the start of the cluster's network",
        limit: "not over br-ex, which is rebuilt at every boot (OpenShift's assisted installer refuses it)",
        severity: Warning,
        run: vitals::route,
    },
    Check {
        name: "initiator-name",
        protects: "the target shows this node its own LUN after a reboot",
        limit: "the config's `initiator`",
        severity: Warning,
        run: checks::initiator_name,
    },
    Check {
        name: "device-identity",
        protects: "the LUN is the one of the record, not another with its number",
        limit: "the WWID in the record",
        severity: Critical,
        run: checks::device_identity,
    },
    Check {
        name: "device-writable",
        protects: "etcd can write",
        limit: "the kernel's read-only flag of the device",
        severity: Critical,
        run: vitals::device_writable,
    },
    Check {
        name: "write-cache",
        protects: "what etcd has synced survives a power cut of the storage",
        limit: "the kernel asks for flushes where the target says that it caches",
        severity: Critical,
        run: vitals::write_cache,
    },
    Check {
        name: "mount",
        protects: "etcd's directory is the LUN",
        limit: "the LUN's device number",
        severity: Critical,
        run: checks::mount,
    },
    Check {
        name: "mount-options",
        protects: "the mount is what the config asks for, and writable",
        limit: "the config's `lun.mount_options`",
        severity: Critical,
        run: checks::mount_options,
    },
    Check {
        name: "mount-unit",
        protects: "the next boot mounts the same way",
        limit: "what `render units` writes",
        severity: Warning,
        run: checks::mount_unit,
    },
    Check {
        name: "stamp",
        protects: "the data on the LUN is this node's, and not from the past",
        limit: "the record's generation and uses",
        severity: Critical,
        run: checks::stamp,
    },
    Check {
        name: "fence",
        protects: "etcd can't start on old data when the LUN is missing",
        limit: "empty but for our bar, and immutable",
        severity: Critical,
        run: checks::fence,
    },
    Check {
        name: "free-space",
        protects: "etcd can write",
        limit: "20 %: two files of etcd's log, and a second database while it is defragmented",
        severity: Critical,
        run: checks::free_space,
    },
    Check {
        name: "free-inodes",
        protects: "etcd can make files",
        limit: "1,000, many times what etcd has",
        severity: Critical,
        run: vitals::free_inodes,
    },
    Check {
        name: "kernel-log",
        protects: "trouble that has passed is noticed before it comes again",
        limit: "no error of the LUN since it was mounted, or since `dmesg --clear`",
        severity: Warning,
        run: vitals::kernel_log,
    },
    Check {
        name: "selinux",
        protects: "a fault of etcd-lun, or of what it runs, stays among its own files and on its own LUN",
        limit: "the module for this config, and the domain in the unit",
        severity: Warning,
        run: selinux::selinux,
    },
    Check {
        name: "units",
        protects: "the next boot brings the LUN back, and health is watched",
        limit: "as the MachineConfig enables them, none masked or failed",
        severity: Warning,
        run: vitals::units,
    },
    Check {
        name: "retired",
        protects: "the disk isn't filled by data that nobody needs, nor secrets kept",
        limit: "30 days: a migration that worked so long isn't taken back",
        severity: Warning,
        run: vitals::retired,
    },
    Check {
        name: "iowait",
        protects: "etcd's writes don't wait behind others'",
        limit: "4 % of processor time (KCS 6271341, etcd performance troubleshooting)",
        severity: Warning,
        run: vitals::iowait,
    },
    Check {
        name: "etcd",
        protects: "the member runs",
        limit: "systemd's or the kubelet's word",
        severity: Critical,
        run: checks::etcd,
    },
    Check {
        name: "etcd-ready",
        protects: "the member serves",
        limit: "etcd's own /readyz, or /health before 3.5.11",
        severity: Critical,
        run: metrics::ready,
    },
    Check {
        name: "wal-fsync",
        protects: "the member keeps up, and keeps its leadership",
        limit: "99 and 99.9 of 100 within 10 ms (OpenShift's recommended etcd practices, etcd's FAQ)",
        severity: Warning,
        run: metrics::wal_fsync,
    },
    Check {
        name: "backend-commit",
        protects: "the member keeps up",
        limit: "99 of 100 within 25 ms (etcd's FAQ)",
        severity: Warning,
        run: metrics::backend_commit,
    },
    Check {
        name: "peer-round-trip",
        protects: "members hear of each other in time",
        limit: "99 of 100 within 50 ms (OpenShift's recommended etcd practices)",
        severity: Warning,
        run: metrics::peer_round_trip,
    },
    Check {
        name: "database-size",
        protects: "etcd doesn't refuse writes for want of space",
        limit: "65 % of the quota, and half of it in use when it is above 100 MB (etcd's own alerts)",
        severity: Warning,
        run: metrics::database_size,
    },
];

/// What is looked at on a node that was rolled back to the local disk on purpose: the rest is about the LUN.
pub const ROLLED_BACK: [&str; 9] = [
    "record",
    "fence",
    "selinux",
    "etcd",
    "etcd-ready",
    "wal-fsync",
    "backend-commit",
    "peer-round-trip",
    "database-size",
];

/// What is looked at only where the config names a target: of a disk of the machine's own there is nothing of the kind.
pub const ISCSI: [&str; 5] = ["session", "portals", "session-timeout", "route", "initiator-name"];

/// What is looked at only where the config says where etcd shows its metrics.
pub(super) const OF_METRICS: [&str; 5] =
    ["etcd-ready", "wal-fsync", "backend-commit", "peer-round-trip", "database-size"];
