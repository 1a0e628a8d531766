//! The table of all checks.

use super::{
    checks,
    report::{
        Check,
        Severity::{Critical, Warning},
    },
    selinux, storage, units,
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
        limit: "the kernel reports LOGGED_IN, and iscsid runs",
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
        limit: "the kernel reports each SCSI device as running",
        severity: Warning,
        run: storage::paths,
    },
    Check {
        name: "shared-target",
        protects: "no other program's log-out ends etcd's session",
        limit: "no other session or record of this node to the target, or `target.safe_logout = true`; no loss of the LUN within a day",
        severity: Warning,
        run: storage::shared_target,
    },
    Check {
        name: "session-timeout",
        protects: "a short outage of the target makes etcd wait, instead of failing its disk",
        limit: "the config's `target.replacement_timeout`; with a multipath map multipathd's own",
        severity: Warning,
        run: storage::session_timeout,
    },
    Check {
        name: "route",
        protects: "a session survives the start of the cluster's network",
        limit: "not over br-ex, which every boot rebuilds (OpenShift's assisted installer refuses it)",
        severity: Warning,
        run: storage::route,
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
        protects: "the LUN is the recorded one, not another with the same number",
        limit: "the WWID in the record",
        severity: Critical,
        run: checks::device_identity,
    },
    Check {
        name: "device-writable",
        protects: "etcd can write",
        limit: "the kernel's read-only flag of the device",
        severity: Critical,
        run: storage::device_writable,
    },
    Check {
        name: "write-cache",
        protects: "what etcd has synced survives a power cut of the storage",
        limit: "the kernel sends flushes if the target reports a write cache",
        severity: Critical,
        run: storage::write_cache,
    },
    Check {
        name: "mount",
        protects: "etcd's data directory is on the LUN",
        limit: "the LUN's device number",
        severity: Critical,
        run: checks::mount,
    },
    Check {
        name: "mount-options",
        protects: "the mount has the options of the config, and is writable",
        limit: "the config's `lun.mount_options`",
        severity: Critical,
        run: checks::mount_options,
    },
    Check {
        name: "stamp",
        protects: "the data on the LUN is this node's, and not from a restored snapshot",
        limit: "the record's generation and use counter",
        severity: Critical,
        run: checks::stamp,
    },
    Check {
        name: "fence",
        protects: "etcd cannot start on old data if the LUN is missing",
        limit: "no data but the file that keeps etcd out, and immutable",
        severity: Critical,
        run: checks::fence,
    },
    Check {
        name: "free-space",
        protects: "etcd can write",
        limit: "more than the database's size and 256 MiB: a second database, and files of etcd's log",
        severity: Critical,
        run: checks::free_space,
    },
    Check {
        name: "lun-size",
        protects: "etcd's filesystem lies on the LUN as a whole, and uses all of it",
        limit: "the LUN's size, less XFS's log",
        severity: Critical,
        run: storage::lun_size,
    },
    Check {
        name: "local-space",
        protects: "the local disk takes logs, images and etcd-lun's own state",
        limit: "5 % of the filesystem of `/var/lib/etcd-lun`",
        severity: Warning,
        run: storage::local_space,
    },
    Check {
        name: "kernel-log",
        protects: "errors that have passed are noticed before they come again",
        limit: "no error of the LUN since it was mounted or since `dmesg --clear`",
        severity: Warning,
        run: storage::kernel_log,
    },
    Check {
        name: "selinux",
        protects: "a fault of etcd-lun, or of a tool that it runs, cannot reach beyond its own files and LUN",
        limit: "the module for this config, and the domain that the unit asks for",
        severity: Warning,
        run: selinux::selinux,
    },
    Check {
        name: "units",
        protects: "the next boot brings the LUN back, and health is watched",
        limit: "started at boot and required as `boot.gate` says, none masked or failed, and the tools that they run are installed",
        severity: Warning,
        run: units::units,
    },
    Check {
        name: "retired",
        protects: "data that nobody needs does not fill the disk or keep secrets",
        limit: "30 days: nobody reverts a migration that has worked that long",
        severity: Warning,
        run: storage::retired,
    },
    Check {
        name: "iowait",
        protects: "etcd's writes do not wait behind those of others",
        limit: "4 % of processor time (KCS 6271341, etcd performance troubleshooting)",
        severity: Warning,
        run: storage::iowait,
    },
    Check {
        name: "etcd",
        protects: "the member runs, and on this data",
        limit: "systemd reports the unit as active; etcd has database and log of the data directory open",
        severity: Critical,
        run: checks::etcd,
    },
    Check {
        name: "cluster",
        protects: "the cluster keeps its quorum when one more member is lost",
        limit: "every voter answers, sees the leader and is at most 5,000 entries of the log behind",
        severity: Warning,
        run: checks::cluster,
    },
];

/// The checks that apply after a rollback to the local disk. All others are about the LUN.
pub const AFTER_ROLLBACK: [&str; 5] = ["record", "fence", "selinux", "etcd", "cluster"];

/// The checks that apply before the migration. All others are about the LUN: they would say the same thing once more each.
pub const BEFORE_MIGRATION: [&str; 3] = ["record", "etcd", "cluster"];

/// The checks that apply only if the config names a target: a local disk has no session.
pub const ISCSI_ONLY: [&str; 6] =
    ["session", "portals", "shared-target", "session-timeout", "route", "initiator-name"];

/// The checks of what a run takes away and brings back itself. While one is at work they are ok, or cannot tell.
pub const CHANGED_BY_A_RUN: [&str; 9] =
    ["mount", "mount-options", "stamp", "fence", "free-space", "lun-size", "iowait", "etcd", "cluster"];

/// The check that applies only if the cluster was asked: by hand, while etcd runs.
pub(super) const NEEDS_CLUSTER: &str = "cluster";
