//! A fact is known, or unknown with a reason. Unknown is not absent.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// One fact about the node, or the reason why it could not be observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Fact<T> {
    /// The observed value.
    Known(T),
    /// Why it could not be observed.
    Unknown(String),
}

impl<T> Fact<T> {
    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// The value, or the reason why it is not known.
    pub fn require(&self) -> Result<&T, &str> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Unknown(why) => Err(why),
        }
    }
}

impl<T, E: std::error::Error + 'static> From<Result<T, E>> for Fact<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Unknown(chain(&error)),
        }
    }
}

/// An error and its sources on one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl<T: fmt::Display> fmt::Display for Fact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(value) => value.fmt(f),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}
