//! Errors of the config: where, what was found, and what was expected.

use super::source::{Line, MAIN_FILE, Spot};
use terms::{ErrorName, Named, TermError, Wwid, nearest};

/// Why a config is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is neither the main file nor a fragment.
    #[error("no config: write {} (`etcd-lun config example` prints one)", MAIN_FILE)]
    NoFile,
    /// The same, on a node whose record says LUN.
    #[error(
        "this node's etcd is on LUN {0}, and its config is gone: another deployment was booted (`rpm-ostree status`), or the object was removed; etcd stays down without it. Boot the deployment that has it, or bring the object back, or run `etcd-lun rollback`, which takes a copy"
    )]
    Gone(Wwid),
    /// A file isn't TOML, or has an unknown key, or a value of the wrong form.
    #[error("reading {path}, line {line}, column {column}: {said}{excerpt}")]
    Toml {
        /// The file.
        path: String,
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        /// The message of `toml`.
        said: String,
        /// The line with a caret below, each after a line break; empty if it may hold a secret.
        excerpt: String,
    },
    /// A file is text in another encoding, or no text.
    #[error(
        "reading {path}, line {line}: the file is not UTF-8, but may be UTF-16 or Latin-1: save it as UTF-8"
    )]
    NotUtf8 {
        /// The file.
        path: String,
        /// The first line that is not UTF-8, counted from 1.
        line: usize,
    },
    /// A required key is missing.
    #[error(
        "`{key}` is missing from {place}: write for example `{} = {example}` below {}{}",
        last(key),
        heading(key, place),
        place.excerpt()
    )]
    Missing {
        /// The key, with its table.
        key: &'static str,
        /// The file and line of the table that lacks it, or the config as a whole.
        place: Spot,
        /// A valid value, in TOML.
        example: &'static str,
    },
    /// A value has the right form and is still wrong.
    #[error("`{key}` in {place}: {found}, expected {expected}{}", place.excerpt())]
    Value {
        /// The key, with its table.
        key: &'static str,
        /// The file and line of the value, or the config as a whole.
        place: Spot,
        /// The finding.
        found: String,
        /// The valid values.
        expected: &'static str,
    },
    /// No `[[node]]` entry matches this host.
    #[error(
        "no [[node]] entry in the config matches this host (hostname `{hostname}`, machine id {machine_id}); tried {}; add an entry with {wanted}",
        list(tried)
    )]
    NoEntry {
        /// This host's name.
        hostname: String,
        /// This host's machine id.
        machine_id: String,
        /// All entries.
        tried: Vec<String>,
        /// The keys that an entry needs besides the node's name.
        wanted: &'static str,
    },
    /// No `[[node]]` entry has the name that was asked for.
    #[error(
        "--node: no [[node]] entry has the host name or machine id `{asked}`{}; the entries are {}",
        did_you_mean(asked, known),
        list(known)
    )]
    NoSuchNode {
        /// The name.
        asked: String,
        /// The names of all entries.
        known: Vec<String>,
    },
    /// More than one entry matches this host.
    #[error(
        "{} [[node]] entries in the config match this host (hostname `{hostname}`, machine id {machine_id}): {}; leave one",
        matching.len(),
        list(matching)
    )]
    SeveralEntries {
        /// This host's name.
        hostname: String,
        /// This host's machine id.
        machine_id: String,
        /// The entries that match.
        matching: Vec<String>,
    },
    /// A term is of the wrong form.
    #[error(transparent)]
    Term(TermError),
    /// There is no file of the name that was asked for.
    #[error(
        "there is no config {path}: name the file that is meant, or write it with `etcd-lun config init --output {path}`"
    )]
    NoSuchFile {
        /// The file.
        path: String,
    },
    /// A file could not be read.
    #[error("reading the config")]
    Read(#[from] std::io::Error),
    /// A secret could not be read, or can't be used.
    #[error("{what}: {why}")]
    Secret {
        /// Which secret: its key and where it comes from.
        what: String,
        /// Its fault.
        why: String,
    },
    /// Two errors or more. None of them is this variant. See [`ConfigError::each`].
    #[error("{}", lines(.0))]
    Several(Vec<ConfigError>),
}

impl Named for ConfigError {
    fn name(&self) -> Option<ErrorName> {
        Some(match self {
            Self::NoFile | Self::Gone(_) => ErrorName::NoConfig,
            Self::NoSuchFile { .. } => ErrorName::NoSuchConfig,
            Self::Read(_) => ErrorName::ConfigUnreadable,
            Self::Toml { .. } | Self::NotUtf8 { .. } => ErrorName::ConfigSyntax,
            Self::Missing { .. } => ErrorName::ConfigKeyMissing,
            Self::Value { .. } | Self::Term(_) => ErrorName::ConfigValue,
            Self::NoEntry { .. } => ErrorName::NoNodeEntry,
            Self::NoSuchNode { .. } => ErrorName::NoSuchNode,
            Self::SeveralEntries { .. } => ErrorName::SeveralNodeEntries,
            Self::Secret { .. } => ErrorName::SecretUnusable,
            Self::Several(all) => return all.first().and_then(Named::name),
        })
    }
}

impl ConfigError {
    pub(super) fn value(key: &'static str, found: &str, expected: &'static str) -> Self {
        Self::Value { key, place: Spot::Whole, found: found.to_owned(), expected }
    }

    pub(super) fn missing(key: &'static str, example: &'static str) -> Self {
        Self::Missing { key, place: Spot::Whole, example }
    }

    /// One error of them all, in this order; none if there is none.
    pub fn of_all(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all: Vec<_> = errors.into_iter().flat_map(Self::into_each).collect();
        match all.len() {
            0 | 1 => all.pop(),
            _ => Some(Self::Several(all)),
        }
    }

    /// All that was made, or all errors.
    pub fn all<T>(made: impl IntoIterator<Item = Result<T, Self>>) -> Result<Vec<T>, Self> {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for one in made {
            match one {
                Ok(one) => all.push(one),
                Err(error) => errors.push(error),
            }
        }
        Self::of_all(errors).map_or(Ok(all), Err)
    }

    /// Both errors.
    pub fn and(self, other: Self) -> Self {
        Self::Several(self.into_each().into_iter().chain(other.into_each()).collect())
    }

    /// The errors one by one: those of [`Self::Several`], or this one.
    pub fn each(&self) -> &[Self] {
        match self {
            Self::Several(all) => all,
            one => std::slice::from_ref(one),
        }
    }

    /// Like [`Self::each`].
    pub fn into_each(self) -> Vec<Self> {
        match self {
            Self::Several(all) => all,
            one => vec![one],
        }
    }

    /// Returns this error with the place where somebody has to correct it.
    pub(super) fn at(mut self, whereabouts: impl FnOnce(&str) -> Option<Line>) -> Self {
        if let Self::Value { key, place, .. } | Self::Missing { key, place, .. } = &mut self
            && *place == Spot::Whole
            && let Some(found) = whereabouts(key)
        {
            *place = Spot::Line(found.into());
        }
        self
    }

    /// The file and the line of an error of meaning, if they are known.
    pub(super) fn line(&self) -> Option<&Line> {
        match self {
            Self::Value { place, .. } | Self::Missing { place, .. } => place.line(),
            _ => None,
        }
    }
}

fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The name of a key without its table.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// The table of a key as a file has it.
fn heading(key: &str, place: &Spot) -> String {
    match key.rsplit_once('.') {
        Some(("node", _)) => "[[node]]".into(),
        Some(("target", _)) if place.excerpt().contains("[[target]]") => "[[target]]".into(),
        Some((table, _)) => format!("[{table}]"),
        None => "no table".into(),
    }
}

fn did_you_mean(asked: &str, known: &[String]) -> String {
    let whole = nearest(asked, known.iter().map(String::as_str));
    // A person types the name without its domain.
    let short = || {
        let near = nearest(asked, known.iter().filter_map(|name| name.split('.').next()))?;
        known.iter().map(String::as_str).find(|name| name.split('.').next() == Some(near))
    };
    whole.or_else(short).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// How many entries an error lists. A pool can have hundreds, and the line would hide what is wrong.
const LISTED: usize = 8;

fn list(items: &[String]) -> String {
    match items {
        [] => "none: the config has no [[node]] entry".into(),
        [first @ .., _] if first.len() >= LISTED => {
            format!("{} and {} more", items[..LISTED].join(", "), items.len() - LISTED)
        }
        all => all.join(", "),
    }
}
