//! Loads the config.

use super::{env, exit::Exit};
use anyhow::Context as _;
use config::{Config, ConfigError, FRAGMENTS, MAIN_FILE, Pool, Source};
use hands::Door;
use host::{
    Host, identity,
    namespace::{self, Joined},
};
use node::{
    Fact, Identity,
    authority::{Authority, Record},
    layout::{CONFIG_AT_BOOT, CONFIG_BY_HAND},
};
use std::{
    io::{self, Read as _},
    path::{self, Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};
use terms::{AbsPath, fail};

/// In whose mount namespace a verb runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Namespace {
    /// In that of PID 1, because it changes the node.
    OfPid1,
    /// In that of PID 1 if it can be joined, because it only reads. Else the facts say so.
    OfPid1IfPossible,
}

/// What is done if no entry of the config is for this node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// It is an error in the config.
    Needed,
    /// The same. Whatever is wrong with the config of a moved node, the copy that [`keep`] has made is taken in its place.
    NeededOrKept,
    /// DHCP may set the host name late: while it is still the placeholder, this waits, for `boot.attach_timeout` at most.
    Awaited,
    /// The same. The error is then one that a service tries again, because the host name or the config may still come.
    AwaitedAtBoot,
}

/// How a verb opens the machine, and the config if it reads one.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    root: bool,
    namespace: Namespace,
    entry: Entry,
    kept: bool,
}

/// For a verb that only reads.
pub(super) const TO_LOOK: Opening =
    Opening { root: true, namespace: Namespace::OfPid1IfPossible, entry: Entry::Needed, kept: false };
/// For a verb that everybody may run: it measures a directory that its user sees.
pub(super) const FOR_ANYBODY: Opening = Opening { root: false, ..TO_LOOK };
/// For a verb that changes the node. It calls [`hold`] when it has read everything, before it begins.
pub(super) const TO_CHANGE: Opening = Opening { namespace: Namespace::OfPid1, ..TO_LOOK };
/// For a verb that changes the node, and can wait for the host name.
pub(super) const TO_APPLY: Opening = Opening { entry: Entry::Awaited, ..TO_CHANGE };
/// For what a boot does.
pub(super) const AT_BOOT: Opening = Opening { entry: Entry::AwaitedAtBoot, ..TO_CHANGE };
/// For what looks after a moved node. An object's config is on the node before the reboot that brings its program.
pub(super) const TO_KEEP_UP: Opening = Opening { entry: Entry::NeededOrKept, ..TO_CHANGE };

/// An open machine.
pub(super) struct Machine {
    /// The machine.
    pub host: Host,
    joined: Joined,
    entry: Entry,
    kept: bool,
}

/// The config of the pool, and of this node, or the error that no entry is for it.
pub(super) struct Loaded {
    /// This node.
    pub identity: Identity,
    /// What all nodes share.
    pub pool: Pool,
    /// The config of this node.
    pub entry: Result<Config, ConfigError>,
}

impl Opening {
    /// The same for a verb that is needed most on a moved node without a config.
    pub fn or_kept(self) -> Self {
        Self { kept: true, ..self }
    }

    /// Opens the machine, without a config.
    pub fn machine(self) -> Result<Machine, Exit> {
        // Before any file is read, and while this process has one thread, which the kernel requires. systemd sets this variable
        // for the processes of its services (systemd.exec(5)), and a pod has it not.
        let joined = namespace::join_pid1(env::var("INVOCATION_ID").is_some());
        let host = Host::machine().context("setting up")?;
        // Other users cannot even read a config with secrets.
        if self.root && !identity::is_root(&host).context("finding out who runs this")? {
            fail!(
                NotRoot,
                "etcd-lun must run as root to observe and change disks, mounts and etcd: run it with sudo"
            );
        }
        let joined = match (joined, self.namespace) {
            (Ok(joined), _) => joined,
            (Err(error), Namespace::OfPid1) => {
                return Err(anyhow::Error::from(error).context("acting in PID 1's mount namespace").into());
            }
            (Err(error), Namespace::OfPid1IfPossible) => {
                if self.root {
                    tracing::warn!("{error}; mounts shown here may differ from those of the host");
                }
                Joined::Same
            }
        };
        Ok(Machine { host, joined, entry: self.entry, kept: self.kept })
    }

    /// Opens the machine, and loads the config of this node.
    pub fn load(self, file: Option<&Path>) -> Result<(Host, Identity, Config), Exit> {
        let machine = self.machine()?;
        let (identity, config) = machine.config(file)?;
        if self.namespace == Namespace::OfPid1IfPossible {
            machine.host.watch_signals().context("setting up signals")?;
        }
        Ok((machine.host, identity, config))
    }
}

impl Machine {
    /// Loads the config of this node.
    pub fn config(&self, file: Option<&Path>) -> Result<(Identity, Config), Exit> {
        let Loaded { identity, entry, .. } = self.load(file)?;
        match entry {
            Ok(config) => Ok((identity, config)),
            // The name may still come, or come back.
            Err(error) if self.entry == Entry::AwaitedAtBoot || is_placeholder(&identity.hostname) => {
                Err(Exit::Error(error.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The copy of the config in place of one that is gone, or that a program of before cannot read.
    fn instead(&self, error: ConfigError) -> Result<Pool, ConfigError> {
        let is_gone = matches!(error, ConfigError::NoFile);
        let error = if is_gone { without(observe::record(&self.host)) } else { error };
        let may = match self.entry {
            Entry::NeededOrKept => true,
            Entry::AwaitedAtBoot => awaits_program(&self.host),
            Entry::Needed | Entry::Awaited => self.kept && (is_gone || awaits_program(&self.host)),
        };
        // The confined units cannot read the other copy, and nobody else may trust what they can write.
        let at_boot = self.entry == Entry::AwaitedAtBoot;
        let is_unit = at_boot || self.entry != Entry::Awaited && env::var("INVOCATION_ID").is_some();
        let place = if is_unit { CONFIG_AT_BOOT } else { CONFIG_BY_HAND };
        match kept(&self.host, place) {
            copy if may && !copy.is_empty() => {
                tracing::warn!("this run takes the copy of the last one in {place}: {error}");
                Pool::load(&copy)
            }
            _ => Err(error),
        }
    }

    /// Loads what all nodes share, and the config of this node if it has an entry.
    pub fn load(&self, file: Option<&Path>) -> Result<Loaded, Exit> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            let pool = match sources(&self.host, file).and_then(|found| Pool::load(&found)) {
                Ok(pool) => pool,
                Err(error) => self.instead(error)?,
            };
            let mut identity = observe::identity(&self.host, self.joined == Joined::Joined)?;
            let called = identity::hostname(&self.host).context("reading the host name")?;
            let limit = pool.boot.attach_timeout.0;
            let mut entry = pool.clone().for_node(&identity.machine_id, &identity.hostname);
            if matches!(entry, Err(ConfigError::NoEntry { .. })) {
                // The node was renamed, and the config with it.
                entry = pool.clone().for_node(&identity.machine_id, &called);
                identity.hostname = called;
            } else if called != identity.hostname {
                tracing::warn!(
                    "this host is called `{called}`, and its record is of `{}`, whose entry it uses: if the name was lost, set it with `hostnamectl set-hostname`",
                    identity.hostname
                );
            }
            let error = match entry {
                Ok(config) => return Ok(Loaded { identity, pool, entry: Ok(config) }),
                Err(error @ ConfigError::NoEntry { .. }) => error,
                Err(error) => return Err(error.into()),
            };
            let waits = matches!(self.entry, Entry::Awaited | Entry::AwaitedAtBoot);
            if !waits || !is_placeholder(&identity.hostname) || begun.elapsed() >= limit {
                return Ok(Loaded { identity, pool, entry: Err(error) });
            }
            if !told {
                tracing::warn!(
                    "waiting for another {} s at most: the host name is `{}`, and no [[node]] entry has it; set it with \
                     `hostnamectl set-hostname`, or name this machine by machine_id = \"{}\"",
                    limit.saturating_sub(begun.elapsed()).as_secs(),
                    identity.hostname,
                    identity.machine_id
                );
                told = true;
            }
            self.host.pause(Duration::from_millis(500)).context("waiting for the host name")?;
        }
    }
}

/// True for the name that a machine has before it gets one (hostname(5)).
fn is_placeholder(hostname: &str) -> bool {
    hostname.split('.').next() == Some("localhost")
}

/// Holds signals back, because the verb begins to change the node.
pub(super) fn hold(host: &Host) -> Result<(), Exit> {
    Ok(host.hold_signals().context("setting up signals")?)
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

/// Keeps the config at these places of [`node::layout`]. It is no part of the record's truth, so an error is a warning.
pub(super) fn keep(host: &Host, file: Option<&Path>, places: &[&str]) {
    let write = || -> anyhow::Result<()> {
        let found = sources(host, file)?;
        // If this program cannot read it, the run has used the copy.
        let is_known = !found.is_empty() && Pool::load(&found).is_ok();
        let text =
            serde_json::to_string(&found.iter().map(|one| (&one.path, &one.text)).collect::<Vec<_>>())?;
        for place in places.iter().filter(|_| is_known) {
            let place: AbsPath = place.parse()?;
            if host.root.read_ours(place.as_path())?.as_ref() != Some(&text) {
                host.root.make_dir_durably(place.parent().as_path(), 0o700)?;
                host.root.write_durably(&place, &text, 0o600)?;
            }
        }
        Ok(())
    };
    write().unwrap_or_else(|error| tracing::warn!("keeping a copy of the config: {error:#}"));
}

fn is_moved(host: &Host) -> bool {
    matches!(observe::record(host), Fact::Known(Some(Record { authority: Authority::Lun, .. })))
}

/// The copy of a moved node; nothing if there is none.
fn kept(host: &Host, place: &str) -> Vec<Source> {
    let text = host.root.read_ours(place).ok().flatten().filter(|_| is_moved(host)).unwrap_or_default();
    let found: Vec<(String, String)> = serde_json::from_str(&text).unwrap_or_default();
    found.into_iter().map(|(path, text)| Source { path: format!("{place}: {path}"), text }).collect()
}

/// True while the program is not that of the object: the unit that brings it has failed, as where the registry is away, or tries
/// again at this moment, as each health check has it do.
pub(super) fn awaits_program(host: &Host) -> bool {
    let state = || -> anyhow::Result<String> {
        Ok(Door::without_config(host)?.unit(unit::PROGRAM_SERVICE)?.active_state)
    };
    let is_ordered = host.root.mode(unit::PROGRAM_ORDER).is_ok_and(|mode| mode.is_some());
    is_ordered && state().is_ok_and(|state| state != "active")
}

/// The error of a node without a config.
pub(super) fn without(record: Fact<Option<Record>>) -> ConfigError {
    match record {
        Fact::Known(Some(Record { authority: Authority::Lun, wwid, .. })) => ConfigError::Gone(wwid),
        Fact::Known(_) | Fact::Unknown(_) => ConfigError::NoFile,
    }
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
        let text = standard_input()?;
        if text.is_empty() {
            let why = "standard input is empty: `oc debug` passes none to a command, `ssh` does";
            return Err(io::Error::other(why).into());
        }
        return Ok(vec![config::utf8("standard input".into(), text)?]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::NoTools};
    use terms::{FsUuid, Nonce};

    /// The object was removed before the data was brought back.
    #[test]
    fn a_moved_node_has_a_copy_of_its_config() {
        let machine = Files::new("kept-config");
        let host = Host::fixture(Root::new(&machine.0), Box::new(NoTools)).unwrap();
        let pool = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\n[etcd]\nruntime = \"static-pod\"\n";
        let nodes =
            "[[node]]\nhostname = \"master-0\"\ninitiator = \"iqn.1994-05.com.redhat:master-0\"\nlun = 1\n";
        machine.put("etc/etcd-lun/config.toml", pool);
        machine.put("etc/etcd-lun/config.d/10-nodes.toml", nodes);
        let wwid = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4".parse().unwrap();
        let local = Record::begin(4, FsUuid([1; 16]), wwid, "/var/lib/etcd".parse().unwrap(), Nonce([7; 16]));
        let lun = local.clone().commit(None);
        let keeps = |record: &Record| {
            machine.put("var/lib/etcd-lun/authority.json", &record.to_text().unwrap());
            keep(&host, None, &[CONFIG_BY_HAND]);
            kept(&host, CONFIG_BY_HAND).into_iter().map(|source| source.text).collect::<Vec<_>>()
        };
        assert!(keeps(&local).is_empty());
        assert_eq!(keeps(&lun), [pool, nodes]);
        // A config of another release is not written over the copy that this one has used, nor is none.
        machine.put("etc/etcd-lun/config.toml", "[later]\n");
        assert_eq!(keeps(&lun), [pool, nodes]);
        host.root.remove("/etc/etcd-lun/config.toml").unwrap();
        host.root.remove("/etc/etcd-lun/config.d/10-nodes.toml").unwrap();
        assert_eq!(keeps(&lun), [pool, nodes]);
        assert_eq!(host.root.mode(CONFIG_BY_HAND).unwrap().map(|mode| mode & 0o777), Some(0o600));
        assert!(keeps(&local).is_empty());
    }
}
