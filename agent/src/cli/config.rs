//! Loading the config, and `config check`.

use super::{Exit, OutputFormat, env, say, say_json, show};
use crate::{
    apply::secrets,
    config::{Config, ConfigError, FRAGMENTS, MAIN_FILE, Source},
    host::{Host, identity},
    node::Identity,
};
use anyhow::Context as _;
use std::path::{self, Path};

/// The same as [`load`] for root, and an error for anybody else: facts and changes of the machine
/// are root's. Said first, for a config with secrets can't even be read by others.
pub(super) fn load_as_root(file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
    let host = Host::machine().context("setting up")?;
    if !identity::is_root(&host).context("finding out who runs this")? {
        return Err(Exit::Error(anyhow::anyhow!(
            "etcd-lun must run as root to see and change disks, mounts and etcd; try sudo"
        )));
    }
    load_on(host, file)
}

/// Opens the machine and loads the config for it.
pub(super) fn load(file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
    load_on(Host::machine().context("setting up")?, file)
}

fn load_on(host: Host, file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
    // A missing config is told first: it is the likelier mistake.
    let sources = sources(&host, file)?;
    if sources.is_empty() {
        return Err(ConfigError::NoFile.into());
    }
    let identity = crate::observe::identity(&host)?;
    let config = Config::load(&sources, &identity.machine_id, &identity.hostname)?;
    Ok((host, identity, config))
}

/// The texts of the config, in the order in which they are merged.
fn sources(host: &Host, file: Option<&Path>) -> Result<Vec<Source>, ConfigError> {
    let read = |path: &Path| -> Result<Source, ConfigError> {
        Ok(Source { path: path.display().to_string(), text: host.root.read(path)? })
    };
    if let Some(file) = file {
        // Relative to the working directory, while `Root` takes all paths from its base.
        return Ok(vec![read(&path::absolute(file)?)?]);
    }
    let mut sources = Vec::new();
    if let Some(text) = host.root.read_opt(MAIN_FILE)? {
        sources.push(Source { path: MAIN_FILE.into(), text });
    }
    for name in host.root.list_opt(FRAGMENTS)?.unwrap_or_default() {
        if name.ends_with(".toml") && !name.starts_with('.') {
            sources.push(read(&Path::new(FRAGMENTS).join(name))?);
        }
    }
    Ok(sources)
}

/// `config check`
pub(super) fn check(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (host, identity, config) = load(file)?;
    secrets::load(&host, &config, credentials().as_deref())?;
    if output.json {
        return say_json("config", &config);
    }
    say(&show::config(&config, &identity));
    Ok(())
}

/// The directory of the unit's credentials (systemd.exec(5)).
pub(super) fn credentials() -> Option<String> {
    env::var("CREDENTIALS_DIRECTORY")
}
