//! How the program ends: exit codes, and the last line on standard error, or lines.

use apply::{Failure, run_file::RunResult};
use config::ConfigError;
use hands::name_of;
use plan::Refusal;
use std::{
    borrow::Cow,
    process::{ExitCode, Termination},
};
use terms::{ErrorName, Named as _, NamedError};

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
    /// The command line is wrong.
    Usage(String),
    /// The config is wrong. Each error with its name, and its text with all causes; at least one.
    Config(Vec<(ErrorName, String)>),
    /// etcd-lun refuses to act, for this reason.
    Refused(Box<Refusal>),
    /// etcd-lun refuses to render what could not be used.
    TooLarge(String),
    /// The exit code and the last line of a run that this process has followed, and what `--json` prints of it.
    Followed(Box<RunResult>),
    /// A config error or a refusal at a boot, and why it may pass: it is tried again.
    Awaits(Box<Self>, &'static str),
    /// These checks are not ok. Empty if they are in the journal already.
    Unhealthy(String),
}

impl Exit {
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Error(_) | Self::Awaits(..) => 1,
            Self::Usage(_) | Self::Config(_) => 2,
            Self::Refused(_) | Self::TooLarge(_) => 3,
            Self::Followed(result) => result.code,
            Self::Unhealthy(_) => 4,
        }
    }

    /// The name of this failure, which `explain` takes. Of several errors it is that of the first. Empty if it is none.
    pub(super) fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Error(error) => name_of(error).as_str().into(),
            Self::Usage(_) => ErrorName::Usage.as_str().into(),
            Self::Config(errors) => {
                errors.first().map_or(ErrorName::ConfigValue, |(name, _)| *name).as_str().into()
            }
            Self::Refused(refusal) => refusal.name().into(),
            Self::TooLarge(_) => OBJECT_TOO_LARGE.into(),
            Self::Awaits(exit, _) => exit.name(),
            Self::Success | Self::Followed(_) | Self::Unhealthy(_) => Cow::default(),
        }
    }

    /// What failed, with all its causes: one line, and of several errors in a config one for each. A control character of a config
    /// is shown, and does not reach the terminal.
    pub(super) fn line(&self) -> Option<String> {
        self.text().map(|text| visible(&text))
    }

    fn text(&self) -> Option<String> {
        match self {
            Self::Success => None,
            Self::Error(error) => Some(tagged("error", &self.name(), &format!("{error:#}"))),
            Self::Usage(text) => Some(tagged("error", &self.name(), text)),
            Self::Config(errors) => {
                let lines = errors.iter().map(|(name, text)| tagged("error", name.as_str(), text));
                Some(lines.collect::<Vec<_>>().join("\n"))
            }
            Self::Refused(refusal) => Some(tagged("refused", &self.name(), &refusal.to_string())),
            Self::TooLarge(text) => Some(tagged("refused", &self.name(), text)),
            Self::Awaits(exit, why) => {
                exit.text().map(|text| format!("{text}\n{why}, and this is tried again"))
            }
            Self::Followed(result) => Some(result.text.clone()),
            Self::Unhealthy(text) if text.is_empty() => None,
            Self::Unhealthy(text) => Some(format!("unhealthy: {text}")),
        }
    }
}

/// What both have made. If each has found errors of the config, all of them are said.
pub(super) fn both<A, B>(one: Result<A, Exit>, other: Result<B, Exit>) -> Result<(A, B), Exit> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(Exit::Config(one)), Err(Exit::Config(other))) => Err(Exit::Config([one, other].concat())),
        (Err(exit), _) | (Ok(_), Err(exit)) => Err(exit),
    }
}

/// The name of the refusal of an object that a cluster could not store.
const OBJECT_TOO_LARGE: &str = "object-too-large";

/// The last line of a run: `refused [NAME]: …`. `explain NAME` prints more.
fn tagged(kind: &str, name: &str, text: &str) -> String {
    format!("{kind} [{name}]: {text}")
}

/// A text whose control characters, and others that nobody sees, are written as in Rust, such as `\u{1b}` and `\u{200b}`. Line
/// breaks and tabs stay: tools print them.
fn visible(text: &str) -> String {
    let is_space = |letter: char| {
        letter.is_whitespace() || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
    };
    let is_hidden = |letter: char| (letter.is_control() || is_space(letter)) && !" \n\t".contains(letter);
    text.chars().fold(String::new(), |mut shown, letter| {
        if is_hidden(letter) {
            shown.extend(letter.escape_debug())
        } else {
            shown.push(letter)
        }
        shown
    })
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
        let errors = error.into_each().into_iter();
        let named = |error: ConfigError| {
            (error.name().unwrap_or(ErrorName::ConfigValue), format!("{:#}", anyhow::Error::from(error)))
        };
        Self::Config(errors.map(named).collect())
    }
}

impl From<anyhow::Error> for Exit {
    fn from(error: anyhow::Error) -> Self {
        Self::Error(error)
    }
}

impl From<NamedError> for Exit {
    fn from(error: NamedError) -> Self {
        Self::Error(error.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter that nobody sees makes two names look alike.
    #[test]
    fn what_nobody_sees_is_shown() {
        assert_eq!(visible("master-0\u{200b} \u{a0}…\n\tü"), "master-0\\u{200b} \\u{a0}…\n\tü");
    }
}
