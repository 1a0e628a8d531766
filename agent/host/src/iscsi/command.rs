//! Runs of iscsiadm.

use super::exit::{IscsiError, IscsiExit};
use crate::{Host, Invocation, Output, Tool};
use std::time::Duration;
use terms::Chap;

/// The time limit for iscsiadm when it only uses its database.
pub(super) const DATABASE_LIMIT: Duration = Duration::from_secs(45);

/// Runs iscsiadm. Any exit code but 0 is an error, and its message begins with `doing`.
pub(super) fn iscsiadm(
    host: &Host,
    doing: &str,
    args: &[&str],
    limit: Duration,
    chap: Option<&Chap>,
) -> Result<Output, IscsiError> {
    let what = Invocation::new(Tool::Iscsiadm, args.iter().copied()).limit(limit);
    let output = host.run(&what).map_err(|source| IscsiError::Exec { doing: doing.to_owned(), source })?;
    ended(doing, &output, chap).map(|()| output)
}

/// Any exit code but 0 is an error.
pub(super) fn ended(doing: &str, output: &Output, chap: Option<&Chap>) -> Result<(), IscsiError> {
    match IscsiExit::from_code(output.code) {
        None => Ok(()),
        Some(exit) => Err(IscsiError::exit(doing, exit, output, chap)),
    }
}
