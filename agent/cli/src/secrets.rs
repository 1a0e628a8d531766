//! The secrets of a config on a machine that need not be a node: read from a directory, and judged as a node would.

use super::exit::Exit;
use anyhow::Context as _;
use config::{ChapSource, ConfigError, SecretSource, Target};
use host::Host;
use observe::secrets::in_file;
use std::path::{Path, PathBuf};
use terms::{AbsPath, Chap, Secret};

/// Files of secrets, by their paths on a node, with their texts.
pub(super) type Files = Vec<(AbsPath, String)>;

/// Reads the files of secrets. In the directory `from` they have the last part of their names. `cure` ends the message about a
/// file that cannot be read.
pub(super) fn read(host: &Host, targets: &[Target], from: Option<&Path>, cure: &str) -> Result<Files, Exit> {
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    for path in delivery::secret_files(targets) {
        let found = place(&path, from)?;
        let error = |why| ConfigError::Secret { what: format!("the secret in {path}"), why };
        let read = host.root.read_input(&found).map_err(|why| error(format!("{why}: {cure}")));
        let judged = read.and_then(|bytes| {
            in_file(&bytes).map_err(|why| error(format!("{}: {why}", found.display()))).map(|_| bytes)
        });
        match judged {
            Ok(bytes) => {
                files.push((path.clone(), String::from_utf8(bytes).context("reading a secret")?));
            }
            Err(error) => wrong.push(error),
        }
    }
    match ConfigError::of_all(wrong) {
        Some(error) => Err(error.into()),
        None => Ok(files),
    }
}

/// Where the file of a secret is on this machine.
pub(super) fn place(path: &AbsPath, from: Option<&Path>) -> Result<PathBuf, Exit> {
    Ok(match from {
        Some(dir) => std::path::absolute(dir).context("finding --secrets-from")?.join(path.name()),
        None => path.as_path().to_owned(),
    })
}

/// Checks the CHAP credentials as every node would, as far as they are known here. Warnings of secrets that are too short.
pub(super) fn judge(targets: &[Target], files: &Files) -> Result<Vec<String>, ConfigError> {
    let tables =
        targets.iter().flat_map(|target| target.chaps().map(|(table, chap)| (target.key(table), chap)));
    let all = ConfigError::all(tables.map(|(table, chap)| {
        let short = is_weak(&credentials(&table, chap, files)?);
        Ok((table, short))
    }))?;
    Ok(all.into_iter().filter(|(_, short)| *short).map(|(table, _)| SecretSource::short(&table)).collect())
}

/// Whether a secret of these credentials is too short.
pub(super) fn is_weak(chap: &Chap) -> bool {
    chap.password().is_weak() || chap.mutual().is_some_and(|(_, secret)| secret.is_weak())
}

fn credentials(table: &str, chap: &ChapSource, files: &Files) -> Result<Chap, ConfigError> {
    let text = |source: &SecretSource| match source {
        SecretSource::Inline(secret) => Some(secret.clone()),
        SecretSource::File(path) => {
            let text = files.iter().find(|(file, _)| file == path).map(|(_, text)| text.as_bytes());
            text.and_then(|text| in_file(text).ok())
        }
        SecretSource::Credential(_) => None,
    };
    // An unknown secret cannot be checked. A placeholder lets the checks of the others run.
    let unknown = |whose: &str| Secret::new(format!("a credential of {whose}"));
    let password = text(&chap.password).unwrap_or_else(|| unknown("the node"));
    let mutual = chap
        .mutual
        .as_ref()
        .map(|(name, secret)| (name.clone(), text(secret).unwrap_or_else(|| unknown("the target"))));
    Chap::new(chap.username.clone(), password, mutual)
        .map_err(|error| ConfigError::Secret { what: table.to_owned(), why: error.to_string() })
}
