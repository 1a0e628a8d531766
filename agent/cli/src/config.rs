//! Loads the config.

use super::{env, exit::Exit};
use anyhow::Context as _;
use config::{Config, ConfigError, FRAGMENTS, MAIN_FILE, Pool, Source};
use host::{
    Host, identity,
    namespace::{self, Joined},
};
use node::Identity;
use std::{
    io::{self, Read as _},
    path::{self, Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Opens the machine and loads the config, for a verb that only reads. If PID 1's mount namespace cannot be joined, it
/// continues, and the facts say so.
pub(super) fn load_to_look(file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
    let (host, joined) = machine_to_look()?;
    let loaded = load_on(host, file, joined)?;
    loaded.0.watch_signals().context("setting up signals")?;
    Ok(loaded)
}

/// Opens the machine for a verb that only reads, without a config.
pub(super) fn machine_to_look() -> Result<(Host, Joined), Exit> {
    let (host, joined) = machine_as_root()?;
    let joined = joined.unwrap_or_else(|error| {
        tracing::warn!("{error}; mounts shown here may differ from those of the host");
        Joined::Same
    });
    Ok((host, joined))
}

/// Opens the machine again for a verb whose config could not be loaded. What there is to say of the namespace was said.
pub(super) fn machine_without_config() -> Result<Host, Exit> {
    machine_as_root().map(|(host, _)| host)
}

/// Opens the machine for a verb that everybody may run and that reads no config. Root also joins PID 1's mount namespace.
pub(super) fn machine_for_anybody() -> Result<Host, Exit> {
    // Before `Host` starts a thread. Others than root cannot join it, and need not: they measure a directory that they see.
    let _joined = join_pid1();
    let host = Host::machine().context("setting up")?;
    host.watch_signals().context("setting up signals")?;
    Ok(host)
}

/// Opens the machine and loads the config, for a verb that changes the node. The change must happen in PID 1's mount namespace.
/// The verb calls [`hold`] when it has read everything, before it begins.
pub(super) fn load_to_change(file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
    let (host, joined) = machine_as_root()?;
    load_on(host, file, joined.context("acting in PID 1's mount namespace")?)
}

/// Holds signals back, because the verb begins to change the node.
pub(super) fn hold(host: &Host) -> Result<(), Exit> {
    Ok(host.hold_signals().context("setting up signals")?)
}

/// Like [`load_to_change`], for what runs at a boot. At a boot an absent entry is an error that the service tries again, because
/// the host name or the config may still come.
pub(super) fn load_with_host_name(
    file: Option<&Path>,
    at_boot: bool,
) -> Result<(Host, Identity, Config), Exit> {
    let (host, identity, _, entry) = load_with_or_without_entry(file)?;
    match entry {
        Ok(config) => Ok((host, identity, config)),
        Err(error) if at_boot => Err(Exit::Error(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// What all nodes share, and the config of this node, or the error that no entry is for it. DHCP may set the host name late: while
/// it is still the placeholder and no entry matches, this waits for it, for `boot.attach_timeout` at most.
pub(super) fn load_with_or_without_entry(
    file: Option<&Path>,
) -> Result<(Host, Identity, Pool, Result<Config, ConfigError>), Exit> {
    let (host, joined) = machine_as_root()?;
    let joined = joined.context("acting in PID 1's mount namespace")? == Joined::Joined;
    let begun = Instant::now();
    let mut told = false;
    loop {
        let sources = sources(&host, file)?;
        let identity = observe::identity(&host, joined)?;
        let pool = Pool::load(&sources)?;
        let limit = pool.boot.attach_timeout;
        let error = match pool.clone().for_node(&identity.machine_id, &identity.hostname) {
            Ok(config) => {
                let config = observe::of_record(&host, config);
                return Ok((host, identity, pool, Ok(config)));
            }
            Err(error @ ConfigError::NoEntry { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        if !is_placeholder(&identity.hostname) || begun.elapsed() >= limit.0 {
            return Ok((host, identity, pool, Err(error)));
        }
        if !told {
            tracing::warn!(
                "waiting for another {} s at most: the host name is `{}`, and no [[node]] entry has it; set it with \
                 `hostnamectl set-hostname`, or name this machine by machine_id = \"{}\"",
                limit.0.saturating_sub(begun.elapsed()).as_secs(),
                identity.hostname,
                identity.machine_id
            );
            told = true;
        }
        host.pause(Duration::from_millis(500)).context("waiting for the host name")?;
    }
}

/// True for the name that a machine has before it gets one (hostname(5)).
fn is_placeholder(hostname: &str) -> bool {
    hostname.split('.').next() == Some("localhost")
}

/// Opens the machine, for root only. This is checked first, because other users cannot even read a config with secrets.
fn machine_as_root() -> Result<(Host, io::Result<Joined>), Exit> {
    // Before any file is read, and while this process has one thread, which the kernel requires.
    let joined = join_pid1();
    let host = Host::machine().context("setting up")?;
    if !identity::is_root(&host).context("finding out who runs this")? {
        return Err(Exit::Error(anyhow::anyhow!(
            "etcd-lun must run as root to observe and change disks, mounts and etcd: run it with sudo"
        )));
    }
    Ok((host, joined))
}

/// systemd sets this variable for the processes of its services (systemd.exec(5)), and a pod has it not.
fn join_pid1() -> io::Result<Joined> {
    namespace::join_pid1(super::env::var("INVOCATION_ID").is_some())
}

fn load_on(host: Host, file: Option<&Path>, joined: Joined) -> Result<(Host, Identity, Config), Exit> {
    let (identity, config) = load_here(&host, file, joined)?;
    Ok((host, identity, config))
}

/// Loads the config of this node.
pub(super) fn load_here(
    host: &Host,
    file: Option<&Path>,
    joined: Joined,
) -> Result<(Identity, Config), Exit> {
    // A missing config is reported first, because it is the most likely mistake.
    let sources = sources(host, file)?;
    if sources.is_empty() {
        return Err(ConfigError::NoFile.into());
    }
    let identity = observe::identity(host, joined == Joined::Joined)?;
    let config = Config::load(&sources, &identity.machine_id, &identity.hostname)?;
    Ok((identity, observe::of_record(host, config)))
}

/// The config's files that can be read, and their texts, valid or not.
pub(super) fn texts(host: &Host, file: Option<&Path>) -> Vec<(String, String)> {
    let named = |path: PathBuf, bytes: &[u8]| {
        (path.display().to_string(), String::from_utf8_lossy(bytes).into_owned())
    };
    if file == Some(Path::new(STANDARD_INPUT)) {
        return standard_input().map(|bytes| named("standard input".into(), &bytes)).into_iter().collect();
    }
    let mut paths: Vec<PathBuf> = match file {
        Some(file) => path::absolute(file).into_iter().collect(),
        None => vec![MAIN_FILE.into()],
    };
    if file.is_none() {
        let fragments = host.root.list_opt(FRAGMENTS).ok().flatten().unwrap_or_default();
        paths.extend(fragments.iter().map(|name| Path::new(FRAGMENTS).join(name)));
    }
    let read = |path: PathBuf| host.root.read_input(&path).ok().map(|bytes| named(path, &bytes));
    paths.into_iter().filter_map(read).collect()
}

/// Loads the config that all nodes share, and its source texts. This needs no node entry for this machine.
pub(super) fn load_pool(file: Option<&Path>) -> Result<(Host, Pool, Vec<Source>), Exit> {
    let host = Host::machine().context("setting up")?;
    let sources = sources(&host, file)?;
    let pool = Pool::load(&sources)?;
    Ok((host, pool, sources))
}

/// The name of a config file that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// How much of standard input is read: far more than a config has.
const LONGEST_INPUT: u64 = 16 << 20;

/// What standard input has. It can be read only once, and a verb that waits for the host name asks again.
fn standard_input() -> io::Result<Vec<u8>> {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(bytes) = BYTES.get() {
        return Ok(bytes.clone());
    }
    let mut bytes = Vec::new();
    io::stdin().take(LONGEST_INPUT).read_to_end(&mut bytes)?;
    Ok(BYTES.get_or_init(|| bytes).clone())
}

/// The source texts of the config, in the order in which they are merged.
fn sources(host: &Host, file: Option<&Path>) -> Result<Vec<Source>, ConfigError> {
    let read = |path: &Path| -> Result<Source, ConfigError> {
        config::utf8(path.display().to_string(), host.root.read_input(path)?)
    };
    if file == Some(Path::new(STANDARD_INPUT)) {
        return Ok(vec![config::utf8("standard input".into(), standard_input()?)?]);
    }
    if let Some(file) = file {
        // A person means the working directory. `Root` would resolve the path from its own base.
        let path = path::absolute(file)?;
        return match read(&path) {
            Ok(source) => Ok(vec![source]),
            Err(ConfigError::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
                Err(ConfigError::NoSuchFile { path: path.display().to_string() })
            }
            Err(error) => Err(error),
        };
    }
    let mut files = Vec::new();
    match read(Path::new(MAIN_FILE)) {
        Err(ConfigError::Read(error)) if error.kind() == io::ErrorKind::NotFound => {}
        main => files.push(main?),
    }
    for name in host.root.list_opt(FRAGMENTS)?.unwrap_or_default() {
        if name.ends_with(".toml") && !name.starts_with('.') {
            files.push(read(&Path::new(FRAGMENTS).join(name))?);
        }
    }
    Ok(files)
}

/// The directory of the unit's credentials (systemd.exec(5)).
pub(super) fn credentials() -> Option<String> {
    env::var("CREDENTIALS_DIRECTORY")
}
