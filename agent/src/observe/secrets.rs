//! CHAP credentials. A run of `apply` reads them once, before its first step.

use crate::{
    config::{ChapSource, Config, ConfigError, Iscsi, SecretSource},
    host::Host,
    terms::{Chap, Secret},
};

/// The credentials of this run. `Debug` shows no secret.
#[derive(Debug, Default)]
pub struct Secrets {
    /// Of sessions.
    pub session: Option<Chap>,
    /// Of discovery.
    pub discovery: Option<Chap>,
}

/// Reads what the config names. `credentials` is the unit's credential directory.
pub fn load(host: &Host, config: &Config, credentials: Option<&str>) -> Result<Secrets, ConfigError> {
    let load = |table: &'static str, source: &Option<ChapSource>| {
        source.as_ref().map(|source| chap(host, table, source, credentials)).transpose()
    };
    let Some(Iscsi { target, .. }) = config.backing.iscsi() else { return Ok(Secrets::default()) };
    Ok(Secrets {
        session: load("target.chap", &target.chap)?,
        discovery: load("target.discovery_chap", &target.discovery_chap)?,
    })
}

fn chap(
    host: &Host,
    table: &'static str,
    source: &ChapSource,
    credentials: Option<&str>,
) -> Result<Chap, ConfigError> {
    let password = secret(host, table, &source.password, credentials)?;
    let mutual = match &source.mutual {
        Some((name, source)) => Some((name.clone(), secret(host, table, source, credentials)?)),
        None => None,
    };
    Chap::new(source.username.clone(), password, mutual)
        .map(|chap| chap.with_algs(&source.algs))
        .map_err(|error| ConfigError::Secret { what: format!("`{table}`"), why: error.to_string() })
}

fn secret(
    host: &Host,
    table: &'static str,
    source: &SecretSource,
    credentials: Option<&str>,
) -> Result<Secret, ConfigError> {
    let path = match source {
        SecretSource::Inline(secret) => return Ok(secret.clone()),
        SecretSource::File(path) => path.to_string(),
        SecretSource::Credential(name) => {
            let missing = || {
                ConfigError::Secret {
                what: format!("`{table}`: credential {name}"),
                why: "no $CREDENTIALS_DIRECTORY, which systemd gives to the service; by hand, name the directory that the \
                      credential lies in: `CREDENTIALS_DIRECTORY=/etc/credstore etcd-lun apply`"
                    .into(),
            }
            };
            format!("{}/{name}", credentials.ok_or_else(missing)?)
        }
    };
    let wrong = |why: String| ConfigError::Secret { what: format!("`{table}`: secret in {path}"), why };
    let text = match host.root.read_opt(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Err(wrong("there is no such file".into())),
        Err(error) => return Err(wrong(error.to_string())),
    };
    Ok(in_file(&text))
}

/// The secret in a file's text. Editors end a file with a newline that nobody means.
pub fn in_file(text: &str) -> Secret {
    let line = text.strip_suffix('\n').unwrap_or(text);
    Secret::new(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
