//! Stopping etcd, starting it, and the note that it was us who stopped it.

use super::run::Run;
use crate::{
    config::{Config, Runtime},
    host::{Host, filelock, systemd},
    plan::ETCD_STOPPED,
    terms::AbsPath,
};
use anyhow::{Context as _, bail};
use std::time::{Duration, Instant};

/// etcd answers SIGTERM after at most one request time-out; systemd's own limit, 90 s, comes first.
const STOP_LIMIT: Duration = Duration::from_secs(180);
/// A large database takes its time to open, and a member waits for its peers.
const START_LIMIT: Duration = Duration::from_secs(300);
/// After the unit has stopped, for processes that outlive it.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);

/// Whether a run of ours stopped etcd and has not put it back.
pub(super) fn was_stopped_by_us(host: &Host) -> anyhow::Result<bool> {
    Ok(host.root.read_opt(ETCD_STOPPED)?.is_some())
}

/// Stops etcd and waits until nobody holds the database.
pub(super) fn stop(host: &Host, config: &Config, unit: &str) -> anyhow::Result<String> {
    host.root
        .write_durably(&ETCD_STOPPED.parse()?, unit, 0o600)
        .context("noting that etcd is stopped by us")?;
    systemd::stop(host, unit, STOP_LIMIT)?;
    let deadline = Instant::now() + RELEASE_LIMIT;
    loop {
        let users = users(host, &config.etcd.data_dir)?;
        if users.is_empty() {
            return Ok(format!("{unit} is stopped, nobody uses {}", config.etcd.data_dir));
        }
        if Instant::now() >= deadline {
            bail!(
                "{unit} is stopped, and {} still has files open in {}: end it first",
                users.join(", "),
                config.etcd.data_dir
            );
        }
        host.pause(Duration::from_millis(100))?;
    }
}

/// Whoever holds the database's lock or has anything open below the data directory.
pub(super) fn users(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Vec<String>> {
    let database = data_dir.join("member/snap/db");
    let locks = filelock::holders(host, database.as_path())
        .with_context(|| format!("looking for holders of {database}"))?;
    let open = filelock::open_below(host, data_dir.as_path())
        .with_context(|| format!("looking for users of {data_dir}"))?;
    let mut users: Vec<_> = locks
        .into_iter()
        .chain(open.into_iter().map(|open| open.holder))
        .filter(|holder| holder.pid != Some(std::process::id())) // we read the directory ourselves
        .map(|holder| holder.to_string())
        .collect();
    users.sort();
    users.dedup();
    Ok(users)
}

/// Starts etcd, wherever its directory leads. Only callers that know where may call this.
pub(super) fn start(host: &Host, config: &Config) -> anyhow::Result<()> {
    let Runtime::Systemd { unit } = &config.etcd.runtime;
    // Failures against the fence may have used up the unit's start limit.
    systemd::reset_failed(host, unit)?;
    systemd::start(host, unit, START_LIMIT)?;
    host.root.remove(ETCD_STOPPED).context("noting that etcd is back")?;
    Ok(())
}

/// Starts etcd when the data directory is the LUN.
pub(super) fn start_on_lun(run: &Run<'_>, unit: &str, data_dir: &AbsPath) -> anyhow::Result<String> {
    super::guard::data_is_on_lun(run, data_dir)?;
    start(run.host, run.config)?;
    Ok(format!("{unit} runs on the LUN"))
}
