//! Loading the config, and `config check`.

use super::{Exit, OutputFormat, env, say, say_json, show};
use crate::{
    apply::secrets,
    config::{Config, ConfigError, FRAGMENTS, MAIN_FILE, Pool, Source},
    host::{
        Host, identity,
        namespace::{self, Joined},
    },
    node::Identity,
};
use anyhow::Context as _;
use std::{
    io,
    path::{self, Path},
};

/// Opens the machine and loads the config for a verb that looks. Where PID 1's mount namespace can't be
/// joined it goes on: the facts say so.
pub(super) fn load_to_look(file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
    let (host, joined) = machine_to_look()?;
    load_on(host, file, joined)
}

/// Opens the machine for a verb that looks, without a config.
pub(super) fn machine_to_look() -> Result<(Host, Joined), Exit> {
    let (host, joined) = machine_as_root()?;
    let joined = joined.unwrap_or_else(|error| {
        tracing::warn!("{error}; what is seen here may not be what PID 1 sees");
        Joined::Same
    });
    Ok((host, joined))
}

/// The same for a verb that changes the node, which must happen where PID 1 sees it.
pub(super) fn load_to_change(file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
    let (host, joined) = machine_as_root()?;
    load_on(host, file, joined.context("acting in PID 1's mount namespace")?)
}

/// Facts and changes of the machine are root's. That is said first, for a config with secrets can't even
/// be read by others.
fn machine_as_root() -> Result<(Host, io::Result<Joined>), Exit> {
    // Before any file is read, and while this process has one thread: `Host` starts another.
    let joined = namespace::join_pid1();
    let host = Host::machine().context("setting up")?;
    if !identity::is_root(&host).context("finding out who runs this")? {
        return Err(Exit::Error(anyhow::anyhow!(
            "etcd-lun must run as root to see and change disks, mounts and etcd; try sudo"
        )));
    }
    Ok((host, joined))
}

/// Opens the machine and loads the config for it, where this process was started.
pub(super) fn load(file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
    load_on(Host::machine().context("setting up")?, file, Joined::Same)
}

fn load_on(host: Host, file: Option<&Path>, joined: Joined) -> Result<(Host, Identity, Config), Exit> {
    // A missing config is told first: it is the likelier mistake.
    let sources = sources(&host, file)?;
    if sources.is_empty() {
        return Err(ConfigError::NoFile.into());
    }
    let identity = crate::observe::identity(&host, joined == Joined::Joined)?;
    let config = Config::load(&sources, &identity.machine_id, &identity.hostname)?;
    Ok((host, identity, config))
}

/// Loads what all nodes share, and the texts that it was read from: for whoever is no node.
pub(super) fn load_pool(file: Option<&Path>) -> Result<(Host, Pool, Vec<Source>), Exit> {
    let host = Host::machine().context("setting up")?;
    let sources = sources(&host, file)?;
    let pool = Pool::load(&sources)?;
    Ok((host, pool, sources))
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

/// `config check`, of this host, or of the node of that host name or machine id: then it's all entries that must be whole, and no
/// secret is read, which only that node has.
pub(super) fn check(file: Option<&Path>, node: Option<&str>, output: OutputFormat) -> Result<(), Exit> {
    let (whose, config) = match node {
        Some(node) => {
            let (_, pool, _) = load_pool(file)?;
            pool.nodes()?;
            (format!("{node}, not this one; secrets were not read"), pool.for_node(node, node)?)
        }
        None => {
            let (host, identity, config) = load(file)?;
            secrets::load(&host, &config, credentials().as_deref())?;
            (format!("{}, machine id {}", identity.hostname, identity.machine_id), config)
        }
    };
    if output.json {
        return say_json("config", &config);
    }
    say(&show::config(&config, &whose));
    Ok(())
}

/// The directory of the unit's credentials (systemd.exec(5)).
pub(super) fn credentials() -> Option<String> {
    env::var("CREDENTIALS_DIRECTORY")
}
