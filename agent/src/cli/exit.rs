//! How the program ends: exit codes, and the last line on standard error.

use crate::{
    apply::{Failure, run_file::RunResult},
    config::ConfigError,
    plan::Refusal,
};
use std::process::{ExitCode, Termination};

/// The meaning of the exit codes, from 0 on.
pub const EXIT_CODES: [&str; 5] =
    ["converged or healthy", "error", "usage or config", "refused", "unhealthy"];

/// How the program ends.
#[derive(Debug)]
pub enum Exit {
    /// The node is as configured, or healthy; or help was printed.
    Success,
    /// Something failed.
    Error(anyhow::Error),
    /// The command line or the config is wrong.
    Usage(String),
    /// etcd-lun refuses to act, for this reason.
    Refused(Box<Refusal>),
    /// The exit code and the last line of a run that this process has followed, and what `--json` prints of it.
    Followed(Box<RunResult>),
    /// These checks are not ok. Empty if they are in the journal already.
    Unhealthy(String),
}

impl Exit {
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Error(_) => 1,
            Self::Usage(_) => 2,
            Self::Refused(_) => 3,
            Self::Followed(result) => result.code,
            Self::Unhealthy(_) => 4,
        }
    }

    /// One line: what failed, with all its causes.
    pub(super) fn line(&self) -> Option<String> {
        match self {
            Self::Success => None,
            Self::Error(error) => Some(format!("error: {error:#}")),
            Self::Usage(text) => Some(format!("error: {text}")),
            Self::Refused(refusal) => Some(format!("refused: {refusal}")),
            Self::Followed(result) => Some(result.text.clone()),
            Self::Unhealthy(text) if text.is_empty() => None,
            Self::Unhealthy(text) => Some(format!("unhealthy: {text}")),
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.code().into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.report()
    }
}

impl From<ConfigError> for Exit {
    fn from(error: ConfigError) -> Self {
        Self::Usage(format!("{:#}", anyhow::Error::from(error)))
    }
}

impl From<anyhow::Error> for Exit {
    fn from(error: anyhow::Error) -> Self {
        Self::Error(error)
    }
}

impl From<Failure> for Exit {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => Self::Refused(refusal),
            Failure::Error(error) => Self::Error(error),
        }
    }
}

impl From<Refusal> for Exit {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}
