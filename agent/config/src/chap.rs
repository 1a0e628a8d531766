//! Where CHAP credentials come from.

use super::{error::ConfigError, errors::Errors, tables::ChapTable};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use terms::{AbsPath, ChapAlg, Secret};

/// Credentials as the config names them. The secrets of files and credentials are read later, when they are needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChapSource {
    /// The user name that the initiator authenticates with.
    pub username: String,
    /// The initiator's secret.
    pub password: SecretSource,
    /// The user name and secret that the target authenticates with (mutual CHAP).
    pub mutual: Option<(String, SecretSource)>,
    /// The algorithms, in order of preference; empty for open-iscsi's default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub algs: Vec<ChapAlg>,
}

/// Where one secret comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecretSource {
    /// From the config itself. It is printed as `***`.
    Inline(
        #[serde(serialize_with = "hidden")]
        #[schemars(with = "String")]
        Secret,
    ),
    /// From a file, without a final newline.
    File(AbsPath),
    /// From a credential of the unit: a file in `$CREDENTIALS_DIRECTORY` (systemd.exec(5)).
    Credential(String),
}

impl ChapSource {
    /// The secrets of both directions.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretSource> {
        std::iter::once(&self.password).chain(self.mutual.iter().map(|(_, secret)| secret))
    }
}

impl SecretSource {
    /// The warning about a secret that is too short, or not ASCII. The table is named as [`Target::key`](super::Target::key) names it.
    pub fn short(table: &str) -> String {
        format!(
            "{table}: a secret is shorter than 12 characters, and RFC 7143 requires 96 random bits; or it is not ASCII, which arrays read in different ways: set another one here and at the target"
        )
    }
}

fn hidden<S: Serializer>(_: &Secret, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str("***")
}

pub(super) fn validate(table: &'static str, written: &ChapTable, errors: &mut Errors) -> Option<ChapSource> {
    let form = "username with one of password, password_file, credential";
    let form_in = "username_in with one of password_in, password_in_file, credential_in";
    let wrong = |found, form| ConfigError::value(table, found, form);
    let secrets_in =
        [written.password_in.is_some(), written.password_in_file.is_some(), written.credential_in.is_some()];
    let username = written.username.clone();
    if username.is_none() {
        errors.add(wrong("username is missing", form));
    }
    let password = one_of(&written.password, &written.password_file, &written.credential);
    if password.is_none() {
        errors.add(wrong("no secret, or more than one", form));
    }
    let secret_in = one_of(&written.password_in, &written.password_in_file, &written.credential_in);
    if written.username_in.is_some() && secret_in.is_none() {
        errors.add(wrong("no secret for username_in, or more than one", form_in));
    }
    if written.username_in.is_none() && secrets_in.contains(&true) {
        errors.add(wrong("username_in is missing", form_in));
    }
    let mutual = written.username_in.clone().zip(secret_in);
    let algs = errors.take(each_once(table, written.algs.as_deref()));
    Some(ChapSource { username: username?, password: password?, mutual, algs: algs? })
}

/// An empty list would let nobody in, and open-iscsi refuses a list with an algorithm twice.
fn each_once(table: &'static str, algs: Option<&[ChapAlg]>) -> Result<Vec<ChapAlg>, ConfigError> {
    let Some(algs) = algs else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for alg in algs {
        if found.contains(alg) {
            let twice = format!("algs has {} twice", alg.name());
            return Err(ConfigError::value(table, &twice, "each algorithm once"));
        }
        found.push(*alg);
    }
    if found.is_empty() {
        return Err(ConfigError::value(table, "algs is empty", "at least one algorithm, or no such key"));
    }
    Ok(found)
}

fn one_of(
    inline: &Option<String>,
    file: &Option<AbsPath>,
    credential: &Option<String>,
) -> Option<SecretSource> {
    match (inline, file, credential) {
        (Some(text), None, None) => Some(SecretSource::Inline(Secret::new(text.clone()))),
        (None, Some(path), None) => Some(SecretSource::File(path.clone())),
        (None, None, Some(name)) => Some(SecretSource::Credential(name.clone())),
        _ => None,
    }
}
