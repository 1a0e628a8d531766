//! Where our files lie on a node, and how they are marked as ours.

use std::ffi::CStr;

/// Our state: the record and retired data. No MachineConfig owns this path.
pub const STATE: &str = "/var/lib/etcd-lun";
/// The record.
pub const RECORD: &str = "/var/lib/etcd-lun/authority.json";
/// The machine id, and the name of this node when the record was written: a host name may be lost, or be another node's.
pub const NODE: &str = "/var/lib/etcd-lun/node";
/// The config of the last run at a boot, for a boot whose program does not know the new one.
pub const CONFIG_AT_BOOT: &str = "/var/lib/etcd-lun/config.json";
/// The config for a person whose node has none any more: the object may be removed before the data is back. The confined service
/// cannot even look into this directory, so it cannot lead a run by hand astray.
pub const CONFIG_BY_HAND: &str = "/var/lib/etcd-lun/bin/config.json";
/// The copies of the program, each named by its sha256 (`units/etcd-lun-program.sh`).
pub const COPIES: &str = "/var/lib/etcd-lun/program";
/// Retired local data, a directory per generation.
pub const RETIRED: &str = "/var/lib/etcd-lun/retired";
/// The attribute of a directory in [`RETIRED`] that tells it as ours. Its value is the name that the data was retired
/// under.
pub const RETIRED_MARK: &CStr = c"trusted.etcd-lun.retired";
/// Where a rollback stages the LUN's data: a directory, named after the generation that the data becomes.
pub const RETURNING: &str = "/var/lib/etcd-lun/returning";
/// The attribute that tells a directory in [`RETURNING`] as ours until it is in its place.
pub const RETURNING_MARK: &CStr = c"trusted.etcd-lun.returning";
/// Where the step `preflight` tries what the later steps do to directories. It exists only while that step runs.
pub const PREFLIGHT: &str = "/var/lib/etcd-lun/preflight";
/// Where a bar puts the local data: a directory, named [`BARRED_DATA`].
pub const BARRED: &str = "/var/lib/etcd-lun/barred";
/// The name of barred data in [`BARRED`]. There is only one, because only the data directory is barred.
pub const BARRED_DATA: &str = "data";
/// The attribute of that directory that tells it as ours. Its value is the generation that the data becomes, once a person has
/// decided to return to it, and until then no number.
pub const BARRED_MARK: &CStr = c"trusted.etcd-lun.barred";
/// The file that keeps etcd out of the data directory from the moment of retiring on: an empty file where etcd must
/// have a directory. In an empty directory etcd would bootstrap a new cluster.
pub const BAR: &str = "member";

/// The runtime directory: what it holds is gone after a boot.
pub const RUNTIME_DIR: &str = "/run/etcd-lun";
/// The lock that a run of `apply`, `rollback`, `mark` or `retired delete` holds.
pub const LOCK: &str = "/run/etcd-lun/lock";
/// The lock that `mark` holds from its begin to its end. It holds [`LOCK`] only while it does not write to the LUN.
pub const MARK_LOCK: &str = "/run/etcd-lun/mark.lock";
/// The progress of the run that holds the lock, for a person who starts another one.
pub const RUN_FILE: &str = "/run/etcd-lun/run";
/// The systemd scope of a run by hand. One name is enough, because one run at a time holds the lock.
pub const SCOPE: &str = "etcd-lun-apply.scope";
/// Where the service mounts the LUN for itself.
pub const STAGING: &str = "/run/etcd-lun/staging";
/// Where a run that is not confined does. The service can change nothing in this directory, so it can lead no such run astray.
pub const STAGING_BY_HAND: &str = "/run/etcd-lun-hands/staging";
/// This file exists from before etcd is stopped until it runs again. It is in the runtime directory, because after a
/// boot systemd starts etcd by itself.
pub const ETCD_STOPPED: &str = "/run/etcd-lun/etcd-stopped";
/// The verdicts of the last `health --record`. They are gone after a boot; then all outcomes are logged again.
pub const VERDICTS: &str = "/run/etcd-lun/health.json";
