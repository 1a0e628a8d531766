//! `render`: prints or writes units, MachineConfig, Butane, policy and udev rule.

use super::{
    config::load_pool,
    exit::Exit,
    output::{is_terminal, print_document, print_err, print_out},
    secrets,
    values::absolute,
    written,
};
use anyhow::Context as _;
use clap::{Args, ValueHint};
use config::{MAIN_FILE, Pool, SecretSource, Source};
use delivery::{
    Delivery, DeliveryError, ImageRef, MachineConfig, ObjectName, POOL_LIMIT, Program, Role, Way,
};
use host::{Host, credential, terminal::Stream};
use node::authority::{Authority, Record};
use plan::{PlaceRefusal, Refusal};
use std::{
    io,
    path::{Path, PathBuf},
};
use terms::AbsPath;

/// What a delivery contains.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    role: RoleOption,
    /// The name of the MachineConfig object [default: 98-ROLE-etcd-lun]
    #[arg(long, value_name = "NAME")]
    name: Option<ObjectName>,
    #[command(flatten)]
    by: By,
    /// The program in the image, instead of the running program; once for each architecture of the pool
    #[arg(long = "program", value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = absolute(), conflicts_with = "without_program")]
    programs: Vec<PathBuf>,
    /// Also deliver the files of secrets, from this directory; without it, you bring the secrets to the nodes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute())]
    secrets_from: Option<PathBuf>,
    /// Write to this file, with mode 0600, and say which parts have changed; without it, print to standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = absolute())]
    output: Option<PathBuf>,
    /// Add the annotation by which Argo CD applies the object as a whole and never deletes it
    #[arg(long)]
    argo_cd: bool,
}

/// The role of a pool.
#[derive(Debug, Args)]
pub(super) struct RoleOption {
    /// The role that the MachineConfigPool selects
    #[arg(long, value_name = "ROLE", default_value = "master")]
    role: Role,
}

/// How the program reaches the nodes: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct By {
    /// The image that brings the program to the nodes, as REGISTRY/REPOSITORY@sha256:DIGEST
    #[arg(long, value_name = "IMAGE")]
    image: Option<ImageRef>,
    /// Leave the program out, for nodes that have it from the package, in their image or installed
    #[arg(long)]
    without_program: bool,
    /// Put the program into the object itself, for clusters without a registry at hand
    #[arg(long)]
    embed: bool,
}

/// What a PinnedImageSet is made for.
#[derive(Debug, Args)]
pub(super) struct PinnedOptions {
    /// The image that brings the program to the nodes, as REGISTRY/REPOSITORY@sha256:DIGEST
    #[arg(long, value_name = "IMAGE")]
    image: ImageRef,
    #[command(flatten)]
    role: RoleOption,
    /// The name of the PinnedImageSet object [default: 98-ROLE-etcd-lun]
    #[arg(long, value_name = "NAME")]
    name: Option<ObjectName>,
}

/// What `render units` is asked for.
#[derive(Debug, Args)]
pub(super) struct UnitOptions {
    /// The directory, such as /etc/systemd/system
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = absolute())]
    into: PathBuf,
    /// Use the package's path /usr/bin/etcd-lun instead of /var/lib/etcd-lun/bin/etcd-lun; not needed if that is the running program
    #[arg(long)]
    packaged: bool,
}

impl RoleOption {
    /// Warns of the pool that has no node of the control plane. A node of both roles is in the pool `master`, so this one never has
    /// an etcd.
    fn warn(&self) {
        if self.role.as_str() == "worker" {
            print_err(
                "warning: --role worker: the nodes of the pool `worker` run no etcd: leave --role out for the pool `master`",
            );
        }
    }
}

impl Options {
    fn object_name(&self) -> ObjectName {
        self.name.clone().unwrap_or_else(|| ObjectName::for_role(&self.role.role))
    }
}

const OWN_PROGRAM: &str = "/proc/self/exe";
/// Where an object puts units, and an administrator.
const UNITS: &str = "/etc/systemd/system";
/// The directory of a package's units.
const PACKAGED_UNITS: &str = "/usr/lib/systemd/system";

/// Writes the units that the config asks for into a directory. A unit that is the same as the package's is not written, so
/// that a newer package can replace it.
pub(super) fn units(file: Option<&Path>, UnitOptions { into, packaged }: &UnitOptions) -> Result<(), Exit> {
    let (host, pool, _) = load_pool(file)?;
    let into = std::path::absolute(into).context("finding the directory")?;
    if host.root.mode(&into).context("looking for the directory of --into")?.is_none() {
        let dir = into.display();
        return Err(Exit::Usage(format!(
            "--into: there is no directory {dir}: make it with `mkdir -p {dir}`"
        )));
    }
    check_unclaimed(&host, &pool, &into)?;
    let own = host.root.read_link(OWN_PROGRAM).context("finding this program")?;
    let is_packages = own.as_deref() == Some(Path::new(unit::PACKAGED_PROGRAM));
    let by = if *packaged || is_packages { unit::InstalledBy::Package } else { unit::InstalledBy::Hand };
    let all = unit::for_config_installed_by(&pool, by).map_err(anyhow::Error::from)?;
    check_not_of_object(&host, &into, &all)?;
    for rendered in all {
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
    drop_ins(&host, &pool, &into)
}

/// Refuses to change a file that the node's object has brought.
fn check_not_of_object(host: &Host, into: &Path, all: &[unit::Rendered]) -> Result<(), Exit> {
    let is_brought = into == Path::new(UNITS)
        && host.root.mode(unit::PROGRAM_ORDER).context("looking for the object")?.is_some();
    for rendered in all.iter().filter(|_| is_brought) {
        let path = into.join(&rendered.name);
        if host.root.read_opt(&path).context("reading units")?.is_some_and(|text| text != rendered.text) {
            return Err(Exit::Usage(format!(
                "--into: {} is of this node's MachineConfig, and the node would be degraded with another text: render the object again, and apply it",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Refuses to prepare a node for its move whose data directory is on another disk, or may be.
fn check_unclaimed(host: &Host, pool: &Pool, into: &Path) -> Result<(), Exit> {
    let is_moved = |record: &Record| record.authority == Authority::Lun;
    if observe::record(host).known().is_some_and(|record| record.as_ref().is_some_and(is_moved)) {
        return Ok(());
    }
    let at = &pool.etcd.data_dir;
    let dir = into.to_str().context("the directory's name is not UTF-8")?;
    let claims = observe::claims_beside(host, dir.trim_end_matches('/'), at)
        .context("looking for what else names etcd's data")?;
    match claims.is_empty() {
        true => Ok(()),
        false => {
            Err(Refusal::from(PlaceRefusal::Claimed { at: at.to_string(), found: claims.join(", ") }).into())
        }
    }
}

/// Writes the drop-ins that the config asks for, and removes those of an earlier config and the links of an earlier release:
/// systemd would still follow them.
fn drop_ins(host: &Host, pool: &Pool, into: &Path) -> Result<(), Exit> {
    let below = |path: String| -> Result<AbsPath, Exit> {
        let path = into.join(path);
        let text = path.to_str().context("the directory's name is not UTF-8")?;
        Ok(text.parse().map_err(anyhow::Error::from)?)
    };
    for drop_in in unit::drop_ins(pool) {
        let path = below(drop_in.path())?;
        host.root.make_dir_durably(path.parent().as_path(), 0o755).context("writing a drop-in")?;
        host.root.write_durably(&path, &drop_in.text, 0o644).context("writing a drop-in")?;
        print_out(&format!("wrote {path}"));
    }
    let mount = unit::mount_unit_name(&pool.etcd.data_dir);
    let earlier = host.root.read_opt(below(mount.clone())?.as_path()).context("reading a unit")?;
    let earlier = earlier.is_some_and(|text| unit::is_earlier_mount(&text)).then_some(mount);
    for path in unit::obsolete(pool).into_iter().chain(earlier) {
        let path = below(path)?;
        if host.root.list(path.parent().as_path()).unwrap_or_default().iter().any(|name| name == path.name())
        {
            host.root.remove(path.as_path()).context("removing what another config had")?;
            print_out(&format!("removed {path}"));
        }
    }
    Ok(())
}

/// Prints a MachineConfig, and its size on standard error.
pub(super) fn machineconfig(file: Option<&Path>, options: &Options) -> Result<(), Exit> {
    let name = options.object_name();
    if is_terminal(Stream::Out) && options.output.is_none() {
        return Err(Exit::Usage(format!(
            "a MachineConfig is too long for a terminal, and may hold secrets: write it to a file, `etcd-lun render machineconfig --output {name}.yaml`"
        )));
    }
    let (host, object, _) = gather(file, options)?;
    deliver(&host, options, &object.text())
}

/// Writes a document to the file of `--output`, or prints it.
fn deliver(host: &Host, options: &Options, text: &str) -> Result<(), Exit> {
    match &options.output {
        Some(file) => written::write(host, file, text),
        None => print_document(text),
    }
}

/// Prints a Butane config, and on standard error the size of the MachineConfig that Butane makes of it.
pub(super) fn butane(file: Option<&Path>, options: &Options) -> Result<(), Exit> {
    if options.argo_cd {
        let why = "--argo-cd: a Butane config has no annotations: add it to the object that Butane makes (guide.md, \"GitOps\")";
        return Err(Exit::Usage(why.into()));
    }
    let (host, _, delivery) = gather(file, options)?;
    deliver(&host, options, &delivery::butane(&delivery, &options.role.role, &options.object_name()))
}

/// Prints a PinnedImageSet.
pub(super) fn pinned(PinnedOptions { image, role, name }: &PinnedOptions) -> Result<(), Exit> {
    let name = name.clone().unwrap_or_else(|| ObjectName::for_role(&role.role));
    role.warn();
    print_document(&delivery::pinned_image_set(image, &role.role, &name))
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

/// Reads and checks all parts before anything is printed, and says whether the object fits.
fn gather(file: Option<&Path>, options: &Options) -> Result<(Host, MachineConfig, Delivery), Exit> {
    let (host, pool, sources) = load_pool(file)?;
    let nodes = pool.nodes()?;
    let (secrets, notes) = secret_files(&host, &pool, options)?;
    let way = way(&host, options)?;
    let delivered = sources.into_iter().map(|source| match file {
        // A file that the command line names becomes the main file on the nodes.
        Some(_) => Source { path: MAIN_FILE.into(), text: source.text },
        None => source,
    });
    let config: Vec<_> = delivered.collect();
    let delivery = Delivery::new(&way, &config, secrets, &pool, &nodes).map_err(|error| match error {
        DeliveryError::Twice { .. } | DeliveryError::Term(_) => Exit::Usage(error.to_string()),
        DeliveryError::Unit(_) | DeliveryError::Pack(_) => Exit::Error(error.into()),
    })?;
    let annotations = if options.argo_cd { &[delivery::ARGO_CD][..] } else { &[] };
    let object = MachineConfig::new(&delivery, &options.role.role, &options.object_name(), annotations);
    fits(options, &way, &object)?;
    for note in notes {
        print_err(&format!("note: {note}"));
    }
    options.role.warn();
    Ok((host, object, delivery))
}

/// Says on standard error how large the object is. Refuses an object that a cluster could not store.
fn fits(options: &Options, way: &Way, object: &MachineConfig) -> Result<(), Exit> {
    let (name, role, size) = (options.object_name(), &options.role.role, object.size());
    if size > POOL_LIMIT {
        return Err(Exit::TooLarge(format!(
            "MachineConfig {name}: this object alone would have {size} bytes, and the Machine Config Operator accepts {POOL_LIMIT}: bring the program by --image, or with the RPM and --without-program"
        )));
    }
    print_err(&format!(
        "{name}, for the pool of role {role}, {way}: the object has {size} bytes, of {POOL_LIMIT} for all objects of the pool"
    ));
    Ok(())
}

/// How the program reaches the nodes, with the programs read and checked.
fn way(host: &Host, options: &Options) -> Result<Way, Exit> {
    if options.by.without_program {
        return Ok(Way::Package);
    }
    let mut programs: Vec<Program> = Vec::new();
    let own = [PathBuf::from(OWN_PROGRAM)];
    let given = if options.programs.is_empty() { &own[..] } else { &options.programs };
    for path in given {
        let program = program(host, path)?;
        if programs.iter().any(|other| other.machine() == program.machine()) {
            return Err(Exit::Usage(format!(
                "--program: two programs are for {}: give one for each architecture",
                program.machine()
            )));
        }
        programs.push(program);
    }
    match (&options.by.image, programs.pop()) {
        (Some(image), Some(last)) => {
            programs.push(last);
            Ok(Way::Image { image: image.clone(), programs })
        }
        (_, Some(only)) if programs.is_empty() => Ok(Way::Embedded(only)),
        _ => Err(Exit::Usage(
            "--embed: the object contains one program: give one --program, and render an object for each pool".into(),
        )),
    }
}

fn program(host: &Host, path: &Path) -> Result<Program, Exit> {
    let is_own = path == Path::new(OWN_PROGRAM);
    let bytes = host.root.read_bytes(path).map_err(|error| match is_own {
        false => Exit::Usage(format!("--program: {error}")),
        true => Exit::Error(anyhow::Error::from(error).context("reading this program")),
    })?;
    let sum = match is_own {
        false => host.sha256(path),
        // The link is another one for each process.
        true => host.sha256(Path::new(&format!("/proc/{}/exe", std::process::id()))),
    };
    let sum = sum.context("computing the program's checksum")?;
    Program::new(bytes, sum).map_err(|why| {
        let (object, cure) = match is_own {
            false => (path.display().to_string(), "name a build of packaging/build"),
            true => {
                ("this program".into(), "name a static build with --program, as packaging/build makes it")
            }
        };
        Exit::Usage(format!("{object} {why}: {cure}"))
    })
}

/// The files of secrets with their texts, none if they are left out, and what a person must know of the secrets.
fn secret_files(host: &Host, pool: &Pool, options: &Options) -> Result<(secrets::Files, Vec<String>), Exit> {
    let targets = pool.storage.targets();
    let secrets = || targets.iter().flat_map(|one| one.secrets().map(|secret| (&one.name, secret)));
    let inline = secrets().any(|(_, secret)| matches!(secret, SecretSource::Inline(_)));
    let mut notes: Vec<_> = secrets()
        .filter_map(|(target, secret)| match secret {
            SecretSource::Credential(name) => Some(format!(
                "each node{} needs the credential {name}: on the node, `{}` (rollout.md, \"Bring the secret to the nodes\")",
                target.as_ref().map(|target| format!(" with `target = \"{target}\"`")).unwrap_or_default(),
                credential::encrypt(name)
            )),
            SecretSource::Inline(_) | SecretSource::File(_) => None,
        })
        .collect();
    let Some(from) = &options.secrets_from else {
        if inline {
            return Err(Exit::Usage(
                "the config itself holds a `password`, which the object would hold too: set `credential` or `password_file` instead, or deliver the secret with --secrets-from DIR".into(),
            ));
        }
        notes.extend(delivery::secret_files(targets).iter().map(|path| {
            format!(
                "{path} is left out: bring it to every node in another way, with mode 0600, or deliver it with --secrets-from DIR"
            )
        }));
        return Ok((Vec::new(), notes));
    };
    let files = secrets::read(host, targets, Some(from), "name its directory with --secrets-from")?;
    secrets::judge(targets, &files)?;
    if inline || !files.is_empty() {
        notes.push(
            "the object holds the secret in plain text: in the cluster's API, in etcd, and on each node in /etc/machine-config-daemon/currentconfig, where every confined process of root can read it (files.md)".into(),
        );
    }
    Ok((files, notes))
}
