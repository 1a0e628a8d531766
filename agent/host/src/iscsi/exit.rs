//! The meaning of iscsiadm's exit codes.

use crate::{ExecError, Output, exec::one_line};
use std::io;
use terms::{AbsPath, Chap, ErrorName, Iqn, Named, Portal};

/// One row for each code: variant, code, meaning, and whether the same call may succeed a moment later although nothing
/// was changed.
macro_rules! exits {
    ($($name:ident = $code:literal, $meaning:literal, $transient:literal;)+) => {
        /// Why iscsiadm ended with a code other than 0 (include/iscsi_err.h, iscsiadm(8)).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum IscsiExit {
            $(#[doc = $meaning] $name,)+
            /// A code that open-iscsi's header doesn't list.
            Other(i32),
        }

        impl IscsiExit {
            /// The meaning of a code; none for 0, success.
            pub fn from_code(code: i32) -> Option<Self> {
                match code {
                    0 => None,
                    $($code => Some(Self::$name),)+
                    other => Some(Self::Other(other)),
                }
            }

            /// The code itself.
            pub fn code(self) -> i32 {
                match self {
                    $(Self::$name => $code,)+
                    Self::Other(code) => code,
                }
            }

            /// The meaning in a few words.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)+
                    Self::Other(_) => "unknown code",
                }
            }

    /// True if the same call may succeed a moment later although nothing was changed here.
            pub fn is_transient(self) -> bool {
                match self {
                    $(Self::$name => $transient,)+
                    Self::Other(_) => false,
                }
            }
        }
    };
}

exits! {
    Generic = 1, "generic error", true;
    SessionNotFound = 2, "session not found", false;
    NoMemory = 3, "out of memory", true;
    Transport = 4, "connection failure", true;
    Login = 5, "login failure", true;
    Database = 6, "record database failure", true;
    InvalidArgument = 7, "invalid argument", false;
    ConnectTimeout = 8, "connection timed out", true;
    Internal = 9, "internal error of iscsid", true;
    Logout = 10, "logout failure", true;
    PduTimeout = 11, "the target did not answer in time", true;
    NoDriver = 12, "driver not loaded", false;
    Permission = 13, "permission denied", false;
    DriverCapability = 14, "not supported by the driver", false;
    SessionExists = 15, "session exists", false;
    InvalidRequest = 16, "request unknown to iscsid", false;
    NoIsns = 17, "iSNS not supported", false;
    IscsidBroken = 18, "talking to iscsid failed", true;
    FatalLogin = 19, "login refused permanently", false;
    IscsidAbsent = 20, "iscsid can't be reached", true;
    NothingFound = 21, "nothing found", false;
    Sysfs = 22, "sysfs lookup failure", true;
    HostNotFound = 23, "host not found", false;
    Authentication = 24, "authentication failed", false;
    IsnsQuery = 25, "iSNS query failure", false;
    IsnsRegistration = 26, "iSNS registration failure", false;
    NotSupported = 27, "operation not supported", false;
    Busy = 28, "device or resource in use", true;
    Again = 29, "try again later", true;
    UnknownDiscovery = 30, "unknown discovery type", false;
    ChildEnded = 31, "child process ended", true;
    NotConnected = 32, "session not connected", true;
    RequestTimeout = 33, "iscsid did not answer in time", true;
}

/// Why open-iscsi did not do something. `doing` names the target and the portal.
#[derive(Debug, thiserror::Error)]
pub enum IscsiError {
    /// iscsiadm ended with an exit code other than 0.
    #[error("{doing}: iscsiadm exited with {} ({}): {said}", .exit.code(), .exit.meaning())]
    Exit {
        /// The command that was tried.
        doing: String,
        /// The code.
        exit: IscsiExit,
        /// The end of what it said, on one line.
        said: String,
    },
    /// iscsiadm did not run to its end.
    #[error("{doing}")]
    Exec {
        /// The command that was tried.
        doing: String,
        /// The reason.
        source: ExecError,
    },
    /// A file of open-iscsi's database could not be read or written.
    #[error("{doing}")]
    Io {
        /// The command that was tried.
        doing: String,
        /// The reason.
        source: io::Error,
    },
    /// The portal answers, but it doesn't announce this target to this initiator.
    #[error("{portal} announces no target {target} to this initiator, only: {announced}")]
    NotAnnounced {
        /// The portal.
        portal: Portal,
        /// The target that is looked for.
        target: Iqn,
        /// Names of the targets that there are.
        announced: String,
    },
    /// The portal has a name, and this node finds no address of it.
    #[error("this node finds no address for the name of portal {portal}: {said}")]
    Unresolved {
        /// The portal.
        portal: Portal,
        /// The output of iscsiadm.
        said: String,
    },
    /// The output of iscsiadm, or a file of its database, is not in a known format.
    #[error("{doing}: found {found}")]
    Unexpected {
        /// The command that was tried.
        doing: String,
        /// The finding.
        found: String,
    },
    /// This open-iscsi doesn't know an algorithm of CHAP that was asked for.
    #[error("{doing}: no {alg} in {file}: this node's open-iscsi doesn't know that algorithm")]
    UnknownAlg {
        /// The command that was tried.
        doing: String,
        /// The algorithm, as `node.session.auth.chap_algs` names it.
        alg: String,
        /// The record that it is missing in.
        file: AbsPath,
    },
}

impl Named for IscsiError {
    fn name(&self) -> Option<ErrorName> {
        Some(match self {
            Self::Exit { .. } => ErrorName::IscsiadmFailed,
            Self::NotAnnounced { .. } => ErrorName::TargetNotAnnounced,
            Self::Unresolved { .. } => ErrorName::PortalWithoutAddress,
            Self::UnknownAlg { .. } => ErrorName::UnknownAlgorithm,
            Self::Exec { source, .. } => return source.name(),
            Self::Io { .. } | Self::Unexpected { .. } => return None,
        })
    }
}

impl IscsiError {
    pub(super) fn exit(doing: &str, exit: IscsiExit, output: &Output, chap: Option<&Chap>) -> Self {
        // iscsiadm prints the same line for each retry, and its own name before each line. Neither helps the reader.
        let mut lines: Vec<_> = output.stderr.lines().collect();
        lines.dedup();
        let plain = |line: &&str| line.strip_prefix("iscsiadm: ").unwrap_or(line).to_owned();
        let said = redact(&one_line(&lines.iter().map(plain).collect::<Vec<_>>().join("\n")), chap);
        Self::Exit { doing: doing.to_owned(), exit, said }
    }

    pub(super) fn io(doing: &str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing: doing.to_owned(), source }
    }

    /// True if the same call may succeed a moment later although nothing was changed here.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Exit { exit, .. } => exit.is_transient(),
            Self::Exec { source, .. } => match source {
                ExecError::TimedOut { .. } | ExecError::Signalled { .. } => true,
                ExecError::Missing(_)
                | ExecError::Io { .. }
                | ExecError::Failed { .. }
                | ExecError::Interrupted { .. } => false,
            },
            // A target that has just started announces its targets one after the other.
            // The network's name servers may come later than this node.
            Self::NotAnnounced { .. } | Self::Unresolved { .. } => true,
            Self::Io { .. } | Self::Unexpected { .. } | Self::UnknownAlg { .. } => false,
        }
    }
}

/// Replaces the secrets that we know. iscsiadm prints none today; this is a precaution against a version that does.
fn redact(text: &str, chap: Option<&Chap>) -> String {
    let Some(chap) = chap else { return text.to_owned() };
    let mutual = chap.mutual().map(|(_, secret)| secret);
    let mut text = text.to_owned();
    for secret in std::iter::once(chap.password()).chain(mutual) {
        text = text.replace(secret.reveal(), "***");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Secret;

    #[test]
    fn codes_are_those_of_the_header() {
        assert_eq!(IscsiExit::from_code(0), None);
        for code in 1..40 {
            let exit = IscsiExit::from_code(code).unwrap();
            assert_eq!(exit.code(), code);
            assert_eq!(matches!(exit, IscsiExit::Other(_)), code > 33, "{code}");
        }
        let transient = |code| IscsiExit::from_code(code).unwrap().is_transient();
        assert!([4, 5, 8, 11, 18, 20].into_iter().all(transient));
        assert!(![7, 12, 15, 19, 21, 24].into_iter().any(transient));
    }

    #[test]
    fn names_object_and_finding_and_no_secret() {
        let mutual = Some(("target".into(), Secret::new("othersecret12".into())));
        let chap = Chap::new("initiator1".into(), Secret::new("secretsecret1".into()), mutual).unwrap();
        let output = Output {
            code: 24,
            stdout: String::new(),
            stderr: "iscsiadm: no\niscsiadm: no\niscsiadm: secretsecret1 othersecret12\n".into(),
        };
        let exit = IscsiExit::from_code(output.code).unwrap();
        let error = IscsiError::exit("logging in to x via y", exit, &output, Some(&chap));
        assert_eq!(
            error.to_string(),
            "logging in to x via y: iscsiadm exited with 24 (authentication failed): no; *** ***"
        );
        assert!(!error.is_transient());
    }
}
