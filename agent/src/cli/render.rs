//! `render`: prints or writes units, MachineConfig, Butane, policy, udev rule and the target's script.

use super::{
    config::load_pool,
    exit::Exit,
    output::{print_document, print_err, print_out},
    values::absolute,
};
use crate::{
    config::{ChapSource, ConfigError, MAIN_FILE, Nodes, Pool, SecretSource, Source},
    delivery::{self, Appliance, Backstores, Delivery, DeliveryError, MachineConfig, ObjectName, Role},
    host::Host,
    observe::secrets,
    policy,
    terms::{AbsPath, Chap, Secret},
    unit,
};
use anyhow::Context as _;
use clap::{Args, ValueEnum, ValueHint};
use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

/// What a delivery contains.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The role that the MachineConfigPool selects
    #[arg(long, value_name = "ROLE", default_value = "master")]
    role: Role,
    /// The name of the MachineConfig object [default: 98-ROLE-etcd-lun]
    #[arg(long, value_name = "NAME")]
    name: Option<ObjectName>,
    /// Deliver this build of etcd-lun instead of the running program; it may be for another architecture
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = absolute())]
    program: Option<PathBuf>,
    /// Leave the program out, for nodes that have it from the package, in their image or installed
    #[arg(long, conflicts_with = "program")]
    without_program: bool,
    /// Read the files of secrets from this directory instead of the paths in the config
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute(), conflicts_with = "without_secrets")]
    secrets_from: Option<PathBuf>,
    /// Leave the files of secrets out; you bring them to the nodes in another way
    #[arg(long)]
    without_secrets: bool,
}

/// What `render units` is asked for.
#[derive(Debug, Args)]
pub(super) struct UnitOptions {
    /// The directory, such as /etc/systemd/system
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute())]
    into: PathBuf,
    /// Use the package's path /usr/bin/etcd-lun instead of /usr/local/bin/etcd-lun; not needed if that is the running program
    #[arg(long)]
    packaged: bool,
}

impl Options {
    fn object_name(&self) -> ObjectName {
        self.name.clone().unwrap_or_else(|| ObjectName::for_role(&self.role))
    }

    /// The path that the program is read from.
    fn program(&self) -> PathBuf {
        self.program.clone().unwrap_or_else(|| OWN_PROGRAM.into())
    }
}

const OWN_PROGRAM: &str = "/proc/self/exe";
/// The directory of a package's units.
const PACKAGED_UNITS: &str = "/usr/lib/systemd/system";

/// Writes the units that the config asks for into a directory. A unit that is the same as the package's is not written, so
/// that a newer package can replace it.
pub(super) fn units(file: Option<&Path>, UnitOptions { into, packaged }: &UnitOptions) -> Result<(), Exit> {
    let (host, pool, _) = load_pool(file)?;
    if host.root.mode(into).context("looking for the directory of --into")?.is_none() {
        let dir = into.display();
        return Err(Exit::Usage(format!(
            "--into: there is no directory {dir}: make it with `mkdir -p {dir}`"
        )));
    }
    let own = host.root.read_link(OWN_PROGRAM).context("finding this program")?;
    let is_packages = own.as_deref() == Some(Path::new(unit::PACKAGED_PROGRAM));
    let by =
        if *packaged || is_packages { unit::InstalledBy::Package } else { unit::InstalledBy::MachineConfig };
    for rendered in unit::for_config_installed_by(&pool, by).map_err(anyhow::Error::from)? {
        let path = into.join(&rendered.name);
        let text = path.to_str().context("the directory's name is not UTF-8")?;
        let path: AbsPath = text.parse().map_err(anyhow::Error::from)?;
        let brought = format!("{PACKAGED_UNITS}/{}", rendered.name);
        let is_brought = |host: &Host| -> io::Result<bool> {
            let same = host.root.read_opt(&brought)?.as_ref() == Some(&rendered.text);
            Ok(same && host.root.read_opt(path.as_path())?.is_none())
        };
        if is_packages && is_brought(&host).context("reading units")? {
            print_out(&format!("{brought} is up to date"));
            continue;
        }
        host.root.write_durably(&path, &rendered.text, 0o644).context("writing a unit")?;
        print_out(&format!("wrote {path}"));
    }
    Ok(())
}

/// Prints a MachineConfig, and its size on standard error.
pub(super) fn machineconfig(file: Option<&Path>, options: &Options) -> Result<(), Exit> {
    let name = options.object_name();
    if io::stdout().is_terminal() {
        return Err(Exit::Usage(format!(
            "a MachineConfig is too long for a terminal, and may hold secrets: write it to a file, `etcd-lun render machineconfig >{name}.yaml`"
        )));
    }
    let (delivery, machine) = gather(file, options)?;
    let MachineConfig { text, sizes } = delivery::machineconfig(&delivery, &options.role, &name);
    let carries =
        machine.map_or("without the program".into(), |machine| format!("with the program for {machine}"));
    print_err(&format!("{name}, for the pool of role {}, {carries}:\n{sizes}", options.role));
    for warning in sizes.warnings() {
        print_err(&format!("warning: {warning}"));
    }
    if !sizes.fits() {
        return Err(Exit::Error(anyhow::anyhow!(
            "MachineConfig {name} would have {} bytes, and all MachineConfigs of a pool together may have {}: give a smaller build with --program, as packaging/build makes it",
            sizes.whole,
            delivery::POOL_LIMIT
        )));
    }
    print_document(&text)
}

/// Prints a Butane config, and on standard error how to run Butane.
pub(super) fn butane(file: Option<&Path>, options: &Options) -> Result<(), Exit> {
    let (delivery, machine) = gather(file, options)?;
    let mut program = options.program();
    if options.program.is_none() {
        let host = Host::machine().context("setting up")?;
        program = host.root.read_link(&program).context("finding this program")?.unwrap_or(program);
    }
    let (dir, name) = (program.parent(), program.file_name().and_then(|name| name.to_str()));
    let (Some(dir), Some(local)) = (dir, name) else {
        return Err(Exit::Usage(format!("the name of {} is not UTF-8: rename it", program.display())));
    };
    if let Some(machine) = machine {
        print_err(&format!(
            "run `butane --strict --files-dir {}`, which reads the program for {machine} there",
            dir.display()
        ));
    }
    print_document(&delivery::butane(&delivery, &options.role, &options.object_name(), local))
}

/// Prints the SELinux policy module.
pub(super) fn policy(file: Option<&Path>) -> Result<(), Exit> {
    let (_, pool, _) = load_pool(file)?;
    print_document(&policy::module(&pool).text)
}

/// Prints the udev rule that labels the LUN.
pub(super) fn udev(file: Option<&Path>) -> Result<(), Exit> {
    let (_, pool, _) = load_pool(file)?;
    print_document(&policy::rule(&pool.nodes()?))
}

/// Prints what multipathd does with the LUNs.
pub(super) fn multipath(file: Option<&Path>) -> Result<(), Exit> {
    let (_, pool, _) = load_pool(file)?;
    let text = delivery::multipath(&pool.nodes()?);
    print_document(&text.ok_or_else(|| {
        Exit::Usage(
            "render multipath: the config asks for no multipath: set `target.multipath = true`".into(),
        )
    })?)
}

/// What `render target` is asked for.
#[derive(Debug, Args)]
pub(super) struct TargetOptions {
    /// lio: with targetcli, on a Linux machine; targetd: with curl and jq, at an appliance that runs targetd
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Lio)]
    kind: Kind,
    /// With targetd: the appliance's pool that the LUNs are made in
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// With lio: keep the LUNs in files in this directory of the target's machine [default: /var/lib/etcd-lun-target]
    #[arg(long, value_name = "DIR", conflicts_with = "backstore_block")]
    backstore_dir: Option<AbsPath>,
    /// With lio: keep the LUNs on block devices; you name them when you run the script
    #[arg(long)]
    backstore_block: bool,
}

/// The software of a target.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Lio,
    Targetd,
}

/// What the target is made with.
#[derive(Debug)]
enum TargetKind {
    /// targetcli on a Linux machine.
    Lio(Backstores),
    /// The API of targetd.
    Targetd(Appliance),
}

impl TargetKind {
    fn from(options: &TargetOptions) -> Result<Self, String> {
        let backstores = match &options.backstore_dir {
            _ if options.backstore_block => Some(Backstores::Devices),
            dir => dir.clone().map(Backstores::Files),
        };
        match (options.kind, options.pool.clone(), backstores) {
            (Kind::Lio, None, Some(backstores)) => Ok(Self::Lio(backstores)),
            (Kind::Lio, None, None) => {
                Ok(Self::Lio(Backstores::Files(BACKSTORE_DIR.parse().map_err(|error| format!("{error}"))?)))
            }
            (Kind::Lio, Some(_), _) => Err("--pool: only --kind targetd has a pool".into()),
            (Kind::Targetd, Some(pool), None) => Ok(Self::Targetd(Appliance { pool })),
            (Kind::Targetd, None, _) => {
                Err("--kind targetd: --pool must name the pool of the appliance (`block_pools` in /etc/target/targetd.yaml)".into())
            }
            (Kind::Targetd, Some(_), Some(_)) => {
                Err("--backstore-…: targetd keeps the LUNs in its pool".into())
            }
        }
    }
}

/// Where the target's machine keeps the LUNs by default.
const BACKSTORE_DIR: &str = "/var/lib/etcd-lun-target";

/// Prints the script that sets up the target.
pub(super) fn target(file: Option<&Path>, options: &TargetOptions) -> Result<(), Exit> {
    let kind = TargetKind::from(options).map_err(Exit::Usage)?;
    let (_, pool, _) = load_pool(file)?;
    let Nodes::Iscsi { target, nodes } = pool.nodes()? else {
        return Err(Exit::Usage(
            "render target: the config has a [device] and no [target], so there is no target to set up: attach a disk to each node instead".into(),
        ));
    };
    let least = pool.lun.min_size;
    let script = match kind {
        TargetKind::Lio(backstores) => delivery::target(target, &nodes, least, &backstores),
        TargetKind::Targetd(appliance) => delivery::targetd(target, &nodes, least, &appliance),
    };
    print_document(&script.map_err(|error| Exit::Usage(error.to_string()))?)
}

/// Reads and checks all parts before anything is printed. The delivery, and the architecture of the program in it.
fn gather(file: Option<&Path>, options: &Options) -> Result<(Delivery, Option<&'static str>), Exit> {
    let (host, pool, sources) = load_pool(file)?;
    let nodes = pool.nodes()?;
    let secrets = secret_files(&host, &pool, options)?;
    let (program, machine) = if options.without_program {
        (None, None)
    } else {
        program(&host, options).map(|(bytes, machine)| (Some(bytes), Some(machine)))?
    };
    let delivered = sources.into_iter().map(|source| match file {
        // A file that the command line names becomes the main file on the nodes.
        Some(_) => Source { path: MAIN_FILE.into(), text: source.text },
        None => source,
    });
    let config: Vec<_> = delivered.collect();
    let delivery = Delivery::new(program, &config, secrets, &pool, &nodes).map_err(|error| match error {
        DeliveryError::Twice { .. } | DeliveryError::Term(_) => Exit::Usage(error.to_string()),
        DeliveryError::Unit(_) => Exit::Error(error.into()),
    })?;
    Ok((delivery, machine))
}

fn program(host: &Host, options: &Options) -> Result<(Vec<u8>, &'static str), Exit> {
    let path = options.program();
    let refuse = |why: &dyn std::fmt::Display| {
        let (object, cure) = match &options.program {
            Some(path) => (path.display().to_string(), "name a build of packaging/build"),
            None => {
                ("this program".into(), "name a static build with --program, as packaging/build makes it")
            }
        };
        Exit::Usage(format!("{object} {why}: {cure}"))
    };
    let bytes = host.root.read_bytes(&path).map_err(|error| match options.program {
        Some(_) => Exit::Usage(format!("--program: {error}")),
        None => Exit::Error(anyhow::Error::from(error).context("reading this program")),
    })?;
    let machine = delivery::check_program(&bytes).map_err(|error| refuse(&error))?;
    Ok((bytes, machine))
}

/// The files of secrets with their texts; none if they are left out.
fn secret_files(host: &Host, pool: &Pool, options: &Options) -> Result<Vec<(AbsPath, String)>, Exit> {
    let Some(target) = pool.storage.target() else { return Ok(Vec::new()) };
    let paths = delivery::secret_files(target);
    if options.without_secrets {
        if target.secrets().any(|secret| matches!(secret, SecretSource::Inline(_))) {
            return Err(Exit::Usage(
                "--without-secrets: the config itself holds a `password`, and is delivered whole: move the secret to a file and set `password_file`".into(),
            ));
        }
        for path in paths {
            print_err(&format!(
                "note: {path} is left out: bring it to every node in another way, with mode 0600"
            ));
        }
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for path in paths {
        let from = match &options.secrets_from {
            Some(dir) => dir.join(path.name()),
            None => path.as_path().to_owned(),
        };
        let text = host.root.read(&from).map_err(|error| ConfigError::Secret {
            what: format!("the secret in {path}"),
            why: format!(
                "{error}: name its directory with --secrets-from, or leave it out with --without-secrets"
            ),
        })?;
        files.push((path, text));
    }
    let chaps = [("target.chap", &target.chap), ("target.discovery_chap", &target.discovery_chap)];
    for (table, chap) in chaps {
        chap.iter().try_for_each(|chap| check_chap(table, chap, &files))?;
    }
    Ok(files)
}

/// Checks the CHAP credentials as every node would, as far as they are known here.
fn check_chap(table: &str, chap: &ChapSource, files: &[(AbsPath, String)]) -> Result<(), ConfigError> {
    let text = |source: &SecretSource| match source {
        SecretSource::Inline(secret) => Some(secret.clone()),
        SecretSource::File(path) => {
            files.iter().find(|(file, _)| file == path).map(|(_, text)| secrets::in_file(text))
        }
        SecretSource::Credential(_) => None,
    };
    let mutual = chap.mutual.as_ref().and_then(|(name, secret)| Some((name.clone(), text(secret)?)));
    // An unknown secret cannot be checked. A placeholder lets the checks of the others run.
    let password = text(&chap.password).unwrap_or_else(|| Secret::new("a credential of the node".into()));
    let checked = Chap::new(chap.username.clone(), password, mutual);
    checked
        .map(drop)
        .map_err(|error| ConfigError::Secret { what: format!("`{table}`"), why: error.to_string() })
}
