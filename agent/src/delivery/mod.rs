//! What is delivered to a node, and how it is written: as a MachineConfig, as Butane, and for the other side of the
//! wire as a script for the target. Pure.
//!
//! Files and units only: the Machine Config Operator can bring no directories, links, disks or filesystems to a node
//! that is installed already (openshift/machine-config-operator `docs/MachineConfigDaemon.md`).

mod butane;
mod encode;
mod machineconfig;
mod name;
mod program;
mod size;
mod target;
mod yaml;

pub use butane::butane;
pub use machineconfig::{MachineConfig, machineconfig};
pub use name::{ObjectName, Role};
pub use program::{NotDeliverable, check as check_program};
pub use size::{MANIFEST_LIMIT, POOL_LIMIT, Sizes};
pub use target::{Backstores, NoTarget, target};

use crate::{
    config::{Nodes, Pool, SecretSource, Source, Target},
    policy,
    terms::{AbsPath, TermError},
    unit::{self, UnitError},
};
use std::fmt;

/// Everything that a node needs, the same for every node of a pool.
#[derive(Debug)]
pub struct Delivery {
    /// In the order of their paths.
    pub files: Vec<File>,
    /// In the order of their names.
    pub units: Vec<Unit>,
}

/// A file as it is to lie on the node, owned by root.
pub struct File {
    /// Where.
    pub path: AbsPath,
    /// Its permission bits.
    pub mode: u32,
    /// Its bytes.
    pub content: Vec<u8>,
    /// What it is.
    pub part: Part,
}

/// What a delivered file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// This program.
    Program,
    /// A file of the config.
    Config,
    /// A secret that the config names a file for.
    Secret,
    /// The udev rule that labels the LUN.
    UdevRule,
    /// What explains messages in the journal.
    Catalog,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "the program",
            Self::Config => "the config",
            Self::Secret => "a secret",
            Self::UdevRule => "the udev rule",
            Self::Catalog => "the journal's catalog",
        })
    }
}

/// A unit as systemd is to have it.
#[derive(Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its file name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether it has an [Install] section to be enabled by. One without is started by the program alone.
    pub enabled: bool,
}

/// Without the content: it may be a secret.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:o}, {} bytes)", self.path, self.mode, self.content.len())
    }
}

/// Why nothing can be delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// A unit can't be rendered.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A path isn't one.
    #[error(transparent)]
    Term(#[from] TermError),
    /// Ignition takes each path once.
    #[error("{path} is to be {first} and {second} at once: name another file in the config")]
    Twice {
        /// The path.
        path: AbsPath,
        /// What it is.
        first: Part,
        /// And what it is besides.
        second: Part,
    },
}

/// Readable for root alone: the config and what it names can hold secrets.
const PRIVATE: u32 = 0o600;
const EXECUTABLE: u32 = 0o755;
const READABLE: u32 = 0o644;

impl Delivery {
    /// Program, config, secrets, udev rule and units; the policy module is in the program. Without a program for nodes that have
    /// it from a package, which brings the catalog too. The config's texts are delivered as written, each at the path that it
    /// names.
    pub fn new(
        program: Option<Vec<u8>>,
        config: &[Source],
        secrets: Vec<(AbsPath, String)>,
        pool: &Pool,
        nodes: &Nodes<'_>,
    ) -> Result<Self, DeliveryError> {
        let by = if program.is_some() { unit::Bringer::Delivery } else { unit::Bringer::Package };
        let mut files = Vec::new();
        if let Some(content) = program {
            let path = unit::PROGRAM.parse()?;
            files.push(File { path, mode: EXECUTABLE, content, part: Part::Program });
            files.push(File {
                path: unit::CATALOG_FILE.parse()?,
                mode: READABLE,
                content: unit::CATALOG.into(),
                part: Part::Catalog,
            });
        }
        let private =
            |path, text: String, part| File { path, mode: PRIVATE, content: text.into_bytes(), part };
        for source in config {
            files.push(private(source.path.parse()?, source.text.clone(), Part::Config));
        }
        files.extend(secrets.into_iter().map(|(path, text)| private(path, text, Part::Secret)));
        files.push(File {
            path: policy::RULE.parse()?,
            mode: READABLE,
            content: policy::rule(nodes).into_bytes(),
            part: Part::UdevRule,
        });
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let twice = files.iter().zip(files.iter().skip(1)).find(|(one, other)| one.path == other.path);
        if let Some((first, second)) = twice {
            return Err(DeliveryError::Twice {
                path: first.path.clone(),
                first: first.part,
                second: second.part,
            });
        }
        let units = unit::for_config_brought(pool, by)?.into_iter().map(|unit::Rendered { name, text }| {
            Unit { enabled: text.lines().any(|line| line == "[Install]"), name, text }
        });
        Ok(Self { files, units: units.collect() })
    }
}

/// The files that a config names for its secrets, each once.
pub fn secret_files(target: &Target) -> Vec<AbsPath> {
    let mut files: Vec<_> = target
        .secrets()
        .filter_map(|secret| match secret {
            SecretSource::File(path) => Some(path.clone()),
            SecretSource::Inline(_) | SecretSource::Credential(_) => None,
        })
        .collect();
    files.sort();
    files.dedup();
    files
}
