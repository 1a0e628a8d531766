//! All errors of a config in one run, so that somebody corrects them in one go.

use super::{error::ConfigError, taken::Taken};
use std::collections::BTreeSet;

/// How many errors are listed.
pub(super) const MOST: usize = 50;

/// The errors that were found so far. A check adds its error here and goes on.
#[derive(Debug, Default)]
pub(super) struct Errors {
    found: Vec<ConfigError>,
    taken: Taken,
}

impl Errors {
    /// Begins with the errors of the texts, and with what these have taken out.
    pub fn of_texts(found: Vec<ConfigError>, taken: Taken) -> Self {
        Self { found, taken }
    }

    /// Adds an error. An error about a key that was taken out is none: that key has its error already.
    pub fn add(&mut self, error: ConfigError) {
        if !error.key().is_some_and(|key| self.taken.has(key)) {
            self.found.extend(error.into_each());
        }
    }

    /// What was made, or nothing and its error is added.
    pub fn take<T>(&mut self, made: Result<T, ConfigError>) -> Option<T> {
        made.map_err(|error| self.add(error)).ok()
    }

    /// Whether the file has this key, and it was taken out for an error. A check that would judge its default is left out.
    pub fn has_taken(&self, key: &str) -> bool {
        self.taken.has(key)
    }

    /// Whether there is no error.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The same errors, each with its place in the config.
    pub fn placed(mut self, place: impl Fn(ConfigError) -> ConfigError) -> Self {
        self.found = self.found.into_iter().map(place).collect();
        self
    }

    /// What was made, if no check found an error. Else the errors in the order of these files and their lines, each once, and then
    /// those without a line. There is always one where nothing was made.
    pub fn finish<T>(self, files: &[&str], made: Option<T>) -> Result<T, ConfigError> {
        match made {
            Some(made) if self.found.is_empty() => Ok(made),
            _ => Err(self.error(files)),
        }
    }

    /// What [`Self::finish`] gives where there is an error.
    pub fn error(self, files: &[&str]) -> ConfigError {
        in_order(self.found, files)
    }
}

fn in_order(mut found: Vec<ConfigError>, files: &[&str]) -> ConfigError {
    let file = |path: &str| files.iter().position(|file| *file == path);
    found.sort_by_key(|error| {
        let spot = error.spot().map(|(path, line, column)| (file(path), line, column));
        (matches!(error, ConfigError::More { .. }), spot.is_none(), spot)
    });
    let mut said = BTreeSet::new();
    found.retain(|error| said.insert(error.to_string()));
    let more = found.iter().any(|error| matches!(error, ConfigError::More { .. }));
    if found.len() > MOST && !more {
        found.truncate(MOST);
        found.push(ConfigError::More { shown: MOST });
    }
    ConfigError::of_all(found).unwrap_or(ConfigError::NoFile)
}
