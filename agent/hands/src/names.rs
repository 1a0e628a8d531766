//! The name of an error, and what is added to its text.

use config::ConfigError;
use host::{
    block::ClearError, exec::ExecError, filelock::LockError, iscsi::IscsiError, rsync::RsyncError,
    selinux::store::InstallError, staging::StagingError, systemd::SystemdError, tree::TreeError,
    xfs::MakeError,
};
use node::authority::FormatError;
use std::{error::Error, fmt, io};
use terms::{ErrorName, Named, NamedError};

/// An error whose text continues with its cause or its cure.
#[derive(Debug)]
pub struct Explained {
    error: anyhow::Error,
    more: String,
}

impl Explained {
    /// An error, and what its text continues with after a semicolon.
    pub fn new(error: impl Into<anyhow::Error>, more: impl Into<String>) -> Self {
        Self { error: error.into(), more: more.into() }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}; {}", self.error, self.more)
    }
}

impl Error for Explained {}

/// The name of an error. A [`NamedError`] gives it, also as a context, because whoever adds it knows what was tried. Else it is
/// that of the outermost error in the chain that has one.
pub fn name_of(error: &anyhow::Error) -> ErrorName {
    if let Some(error) = error.downcast_ref::<NamedError>() {
        return error.name().unwrap_or(ErrorName::Internal);
    }
    error.chain().find_map(name_of_one).unwrap_or(ErrorName::Internal)
}

fn name_of_one(error: &(dyn Error + 'static)) -> Option<ErrorName> {
    const TYPES: [fn(&(dyn Error + 'static)) -> Option<ErrorName>; 13] = [
        named_as::<NamedError>,
        named_as::<ConfigError>,
        named_as::<ClearError>,
        named_as::<ExecError>,
        named_as::<LockError>,
        named_as::<IscsiError>,
        named_as::<RsyncError>,
        named_as::<InstallError>,
        named_as::<StagingError>,
        named_as::<SystemdError>,
        named_as::<TreeError>,
        named_as::<MakeError>,
        named_as::<FormatError>,
    ];
    if let Some(Explained { error, .. }) = error.downcast_ref() {
        return Some(name_of(error)).filter(|name| *name != ErrorName::Internal);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        let interrupted = || (error.kind() == io::ErrorKind::Interrupted).then_some(ErrorName::Interrupted);
        return error.get_ref().and_then(|error| name_of_one(error)).or_else(interrupted);
    }
    TYPES.iter().find_map(|named| named(error))
}

fn named_as<T: Error + Named + 'static>(error: &(dyn Error + 'static)) -> Option<ErrorName> {
    error.downcast_ref::<T>()?.name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};
    use terms::named;

    #[test]
    fn the_type_names_an_error_and_its_text_does_not() {
        let text = "session 1 is none of etcd-lun's to t: interrupted while running `x`";
        let exec = || ExecError::Failed { what: text.into(), code: 1, said: text.into() };
        let exit = || IscsiError::Exec { doing: text.into(), source: exec() };
        let changing = || TreeError::Changing { file: text.into() };
        for (error, name) in [
            (anyhow!("{text}"), "internal"),
            (io::Error::other(text).into(), "internal"),
            (io::Error::new(io::ErrorKind::Interrupted, text).into(), "interrupted"),
            (io::Error::other(exec()).into(), "tool-failed"),
            (anyhow!(exec()).context("a step"), "tool-failed"),
            (exit().into(), "tool-failed"),
            (MakeError::Exec { device: text.into(), source: exec() }.into(), "mkfs-failed"),
            (changing().into(), "being-written"),
            // Who adds a name to a context knows what was tried.
            (anyhow!(changing()).context(named!(DataChanged, "x")).context("y"), "data-changed"),
            (Explained::new(exit(), text).into(), "tool-failed"),
            (anyhow!(Explained::new(anyhow!(changing()).context("x"), text)).context("y"), "being-written"),
            (Explained::new(anyhow!("x"), text).into(), "internal"),
        ] {
            assert_eq!(name_of(&error).as_str(), name, "{error:#}");
        }
        let read = Err::<(), _>(ConfigError::NoFile).context(text).unwrap_err();
        assert_eq!(name_of(&read), ErrorName::NoConfig);
    }
}
