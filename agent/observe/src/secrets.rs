//! CHAP credentials. A run of `apply` reads them once, before its first step.

use config::{ChapSource, Config, ConfigError, Iscsi, SecretSource};
use host::{Host, credential};
use std::io::ErrorKind;
use terms::{Chap, Secret};

/// The credentials of this run. `Debug` shows no secret.
#[derive(Debug, Default)]
pub struct Secrets {
    /// Of sessions.
    pub session: Option<Chap>,
    /// Of discovery.
    pub discovery: Option<Chap>,
}

/// Reads what the config names. `credentials` is the unit's credential directory; without one the node's credentials are read
/// where systemd looks for them.
pub fn load(host: &Host, config: &Config, credentials: Option<&str>) -> Result<Secrets, ConfigError> {
    let load = |table: &'static str, source: &Option<ChapSource>| {
        source.as_ref().map(|source| chap(host, table, source, credentials)).transpose()
    };
    let Some(Iscsi { target, .. }) = config.backing.iscsi() else { return Ok(Secrets::default()) };
    match (load("target.chap", &target.chap), load("target.discovery_chap", &target.discovery_chap)) {
        (Ok(session), Ok(discovery)) => Ok(Secrets { session, discovery }),
        (Err(one), Err(other)) => Err(one.and(other)),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
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
    let (path, read) = match source {
        SecretSource::Inline(secret) => return Ok(secret.clone()),
        SecretSource::File(path) => (path.to_string(), host.root.read_input(path.as_path())),
        SecretSource::Credential(name) => match credentials {
            Some(dir) => (format!("{dir}/{name}"), credential::given(host, dir, name)),
            // By hand nobody has decrypted it yet.
            None => {
                let wrong = |why| ConfigError::Secret { what: format!("`{table}`: credential {name}"), why };
                let bytes = credential::read(host, name).map_err(|error| wrong(error.to_string()))?;
                return in_file(&bytes).map_err(|why| wrong(why.into()));
            }
        },
    };
    let wrong = |why: String| ConfigError::Secret { what: format!("`{table}`: secret in {path}"), why };
    match read {
        Ok(bytes) => in_file(&bytes).map_err(|why| wrong(why.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(wrong("there is no such file".into())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The secret in a file. Editors end a file with a newline that nobody means. A byte order mark is refused, and not left out:
/// the target's script and other programs would take it for a part of the secret.
pub fn in_file(bytes: &[u8]) -> Result<Secret, &'static str> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("it is UTF-16: save it as UTF-8");
    }
    let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8: save it as UTF-8")?;
    if text.starts_with('\u{feff}') {
        return Err(
            "it begins with a byte order mark, which would be a part of the secret: save it as UTF-8 without BOM",
        );
    }
    let line = text.strip_suffix('\n').unwrap_or(text);
    Ok(Secret::new(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}
