//! Renders all that a node needs, as a MachineConfig or as Butane, and a script that makes the target. Pure.
//!
//! A delivery has files and units only: the Machine Config Operator can't create directories, links, disks or filesystems on
//! a node that is already installed (openshift/machine-config-operator `docs/MachineConfigDaemon.md`).

mod butane;
mod encode;
mod fit;
mod image;
mod machineconfig;
mod multipath;
mod name;
mod objects;
mod pack;
mod program;
mod target;
mod way;
mod yaml;

pub use butane::butane;
pub use fit::POOL_LIMIT;
pub use image::{ImageError, ImageRef};
pub use machineconfig::{ARGO_CD, Annotation, MachineConfig};
pub use multipath::multipath;
pub use name::{ObjectName, Role};
pub use objects::{disruption_policy, pinned_image_set};
pub use program::{NotDeliverable, check as check_program};
pub use target::{Backstores, TargetError, target};
pub use way::{Program, Way, ordered};

use config::{Nodes, Pool, SecretSource, Source, Target};
use std::{fmt, io};
use terms::{AbsPath, TermError};
use unit::UnitError;

/// Everything that a node needs, the same for every node of a pool.
#[derive(Debug)]
pub struct Delivery {
    /// In the order of their paths.
    pub files: Vec<File>,
    /// In the order of their names.
    pub units: Vec<Unit>,
}

/// A file for the node, owned by root.
pub struct File {
    /// The path on the node.
    pub path: AbsPath,
    /// The permission bits.
    pub mode: u32,
    /// The content.
    pub content: Vec<u8>,
    /// The purpose of the file.
    pub part: Part,
}

/// The purpose of a delivered file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Which program the node needs, and the image that has it.
    Order,
    /// The script that brings the program.
    Script,
    /// The program itself, packed.
    Packed,
    /// A file of the config.
    Config,
    /// A secret, in the file that the config names.
    Secret,
    /// The udev rule that labels the LUN.
    UdevRule,
    /// multipathd's settings for the LUNs.
    Multipath,
    /// The journal's catalog.
    Catalog,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Order => "the program's checksums",
            Self::Script => "the script that brings the program",
            Self::Packed => "the program",
            Self::Config => "the config",
            Self::Secret => "a secret",
            Self::UdevRule => "the udev rule",
            Self::Multipath => "the settings of multipathd",
            Self::Catalog => "the journal's catalog",
        })
    }
}

/// A systemd unit for the node.
#[derive(Debug, PartialEq, Eq)]
pub struct Unit {
    /// The file name.
    pub name: String,
    /// The text; empty for a unit that the node has.
    pub text: String,
    /// True if it is to be enabled: for none of our own units, which have no [Install] section.
    pub enabled: bool,
    /// Our drop-in of a unit that the node has.
    pub drop_in: Option<String>,
}

/// Leaves out the content, which may be a secret.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:o}, {} bytes)", self.path, self.mode, self.content.len())
    }
}

/// Why nothing can be delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The program can't be packed.
    #[error("packing the program: {0}")]
    Pack(#[from] io::Error),
    /// A unit can't be rendered.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A path isn't absolute.
    #[error(transparent)]
    Term(#[from] TermError),
    /// Ignition refuses a path that is there twice.
    #[error(
        "two files of the delivery have the path {path}: {first} and {second}; name another file in the config"
    )]
    Twice {
        /// The path.
        path: AbsPath,
        /// The purpose of the first file.
        first: Part,
        /// The purpose of the second file.
        second: Part,
    },
}

/// Readable by root only: the config, and the files that it names, can hold secrets.
const PRIVATE: u32 = 0o600;
const READABLE: u32 = 0o644;

impl Delivery {
    /// Collects what brings the program, and catalog, config, secrets, udev rule and units. The policy module is inside the
    /// program.
    ///
    /// A package installs the catalog too. Each file of the config is delivered unchanged, at the path of its [`Source`].
    pub fn new(
        way: &Way,
        config: &[Source],
        secrets: Vec<(AbsPath, String)>,
        pool: &Pool,
        nodes: &Nodes,
    ) -> Result<Self, DeliveryError> {
        let readable = |path: &str, content: Vec<u8>, part| -> Result<File, TermError> {
            Ok(File { path: path.parse()?, mode: READABLE, content, part })
        };
        let mut files = Vec::new();
        let by = match way.order() {
            Some(order) => {
                files.push(readable(unit::PROGRAM_ORDER, order.into_bytes(), Part::Order)?);
                files.push(readable(unit::PROGRAM_SCRIPT, unit::program_script().into(), Part::Script)?);
                files.push(readable(unit::CATALOG_FILE, unit::CATALOG.into(), Part::Catalog)?);
                unit::InstalledBy::MachineConfig
            }
            None => unit::InstalledBy::Package,
        };
        if let Way::Embedded(program) = way {
            files.push(readable(unit::PROGRAM_PACKED, program.packed()?, Part::Packed)?);
        }
        let private =
            |path, text: String, part| File { path, mode: PRIVATE, content: text.into_bytes(), part };
        for source in config {
            files.push(private(source.path.parse()?, source.text.clone(), Part::Config));
        }
        files.extend(secrets.into_iter().map(|(path, text)| private(path, text, Part::Secret)));
        files.push(readable(policy::RULE, policy::rule(nodes).into_bytes(), Part::UdevRule)?);
        let map = multipath(nodes);
        let is_mapped = map.is_some();
        if let Some(text) = map {
            files.push(readable(multipath::DROP_IN, text.into_bytes(), Part::Multipath)?);
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let twice = files.iter().zip(files.iter().skip(1)).find(|(one, other)| one.path == other.path);
        if let Some((first, second)) = twice {
            return Err(DeliveryError::Twice {
                path: first.path.clone(),
                first: first.part,
                second: second.part,
            });
        }
        let own = unit::for_config_installed_by(pool, by)?;
        let own = own.into_iter().map(|unit::Rendered { name, text }| Unit {
            name,
            text,
            enabled: false,
            drop_in: None,
        });
        let of_others = unit::drop_ins(pool).into_iter().map(|drop_in| Unit {
            enabled: is_mapped && drop_in.unit == unit::MULTIPATHD,
            name: drop_in.unit,
            text: String::new(),
            drop_in: Some(drop_in.text),
        });
        let mut units: Vec<_> = own.chain(of_others).collect();
        units.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { files, units })
    }
}

/// The files of secrets that the config names, without duplicates.
pub fn secret_files(targets: &[Target]) -> Vec<AbsPath> {
    let mut files: Vec<_> = targets
        .iter()
        .flat_map(Target::secrets)
        .filter_map(|secret| match secret {
            SecretSource::File(path) => Some(path.clone()),
            SecretSource::Inline(_) | SecretSource::Credential(_) => None,
        })
        .collect();
    files.sort();
    files.dedup();
    files
}
