//! All errors of meaning in one run, so that somebody corrects them in one go.

use super::error::ConfigError;
use std::collections::BTreeSet;

/// The errors that were found so far. A check adds its error here and goes on.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<ConfigError>);

impl Errors {
    /// Adds an error.
    pub fn add(&mut self, error: ConfigError) {
        self.0.extend(error.into_each());
    }

    /// Returns the value, or nothing and its error is added.
    pub fn take<T>(&mut self, made: Result<T, ConfigError>) -> Option<T> {
        made.map_err(|error| self.add(error)).ok()
    }

    /// Returns true if there is no error.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all of them.
    pub fn extend(&mut self, Self(more): Self) {
        self.0.extend(more);
    }

    /// Returns the errors, each with its place in the config.
    pub fn placed(self, place: impl Fn(ConfigError) -> ConfigError) -> Self {
        Self(self.0.into_iter().map(place).collect())
    }

    /// Returns the value, if no check found an error. Else the errors in the order of these files and their lines, each
    /// once, and then those without a line. There is always one where nothing was made.
    pub fn finish<T>(self, files: &[&str], made: Option<T>) -> Result<T, ConfigError> {
        match made {
            Some(made) if self.is_empty() => Ok(made),
            _ => Err(self.error(files)),
        }
    }

    /// Returns the errors of [`Self::finish`].
    pub fn error(self, files: &[&str]) -> ConfigError {
        let Self(mut found) = self;
        let file = |path: &str| files.iter().position(|file| *file == path);
        found.sort_by_key(|error| {
            let spot = error.line().map(|line| (file(&line.path), line.line));
            (spot.is_none(), spot)
        });
        let mut said = BTreeSet::new();
        found.retain(|error| said.insert(error.to_string()));
        ConfigError::of_all(found).unwrap_or(ConfigError::NoFile)
    }
}
