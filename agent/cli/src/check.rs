//! `config check`, `config example` and `config schema`

use super::{
    config::{credentials, load_pool},
    document::Document,
    exit::{Exit, both},
    grammar::Check as Options,
    output::{print_err, print_json, print_out, print_value},
    secrets,
    show_config::{self, Files, Skipped},
};
use config::{Config, ConfigError, EXAMPLE, FRAGMENTS, Iscsi, NodeRow, Pool, SecretSource, Source};
use host::{Host, iscsi};
use node::Identity;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What `config check` prints.
pub(super) const CONFIG_CHECK: Document<Checked> =
    Document::beside_version("config-check", "etcd-lun config check --json");

/// What `config check` has found.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Checked {
    #[serde(flatten)]
    entries: Entries,
    /// The files of the config.
    files: Files,
    /// What is legal and probably a mistake.
    warnings: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Entries {
    /// The config of the node. Sizes and times are texts, as in the file.
    Config(Box<Config>),
    /// All entries, on a machine that is no node.
    Nodes(Vec<NodeRow>),
}

/// Prints a config to begin with.
pub(super) fn example() -> Result<(), Exit> {
    print_out(EXAMPLE);
    Ok(())
}

/// Prints the JSON schema of a config.
pub(super) fn schema() -> Result<(), Exit> {
    print_value(&config::schema())
}

/// `config check`, for this host or for the node with this host name or machine id. On a machine that is no node it prints all
/// entries. All entries must be valid. Files of secrets are read only on their own node, because no other machine has them, or
/// from a directory that is named.
pub(super) fn check(file: Option<&Path>, options: &Options) -> Result<(), Exit> {
    let Options { node, secrets_from, output } = options;
    let from = secrets_from.as_deref();
    let (host, pool, sources) = load_pool(file)?;
    let files = files(&host, file, &sources)?;
    let (rows, of_secrets) = both(pool.rows().map_err(Exit::from), given_secrets(&host, &pool, from))?;
    let mut warnings = pool.warnings();
    warnings.extend(readable_by_others(&host, &pool, &sources));
    warnings.extend(of_secrets);
    let (whose, config) = match node {
        Some(node) => {
            let config = pool.for_node(node, node).map_err(|error| match error {
                ConfigError::NoEntry { .. } => {
                    let known = rows.iter().map(|row| row.name.clone()).collect();
                    ConfigError::NoSuchNode { asked: node.clone(), known }
                }
                error => error,
            })?;
            let secrets = if from.is_some() { "" } else { "; secrets were not read" };
            (format!("{node}, not this one{secrets}"), Some(config))
        }
        None => match observe::identity(&host, false) {
            // The image of a CI job has no machine id, and such a machine is no node.
            Err(error) => (format!("not known ({error:#})"), None),
            Ok(identity) => match pool.for_node(&identity.machine_id, &identity.hostname) {
                Ok(config) => {
                    if from.is_none() {
                        warnings.extend(short_secrets(&host, &config)?);
                    }
                    warnings.extend(shared_target(&host, &config));
                    (this_host(&identity), Some(config))
                }
                Err(ConfigError::NoEntry { .. }) => (this_host(&identity), None),
                Err(error) => return Err(error.into()),
            },
        },
    };
    // A secret in the config itself is known in both ways.
    let mut told = std::collections::BTreeSet::new();
    warnings.retain(|warning| told.insert(warning.clone()));
    if output.json {
        let entries = match config {
            Some(config) => Entries::Config(Box::new(config)),
            None => Entries::Nodes(rows),
        };
        return print_json(&CONFIG_CHECK, &Checked { entries, files, warnings });
    }
    print_out(&match &config {
        Some(config) => show_config::config(config, &whose, &files),
        None => show_config::nodes(&rows, &whose, &files),
    });
    for warning in warnings {
        print_err(&format!("warning: {warning}"));
    }
    Ok(())
}

fn this_host(identity: &Identity) -> String {
    format!("{}, machine id {}", identity.hostname, identity.machine_id)
}

/// Which files were read, and which of the directory of fragments were not.
fn files(host: &Host, file: Option<&Path>, sources: &[Source]) -> Result<Files, ConfigError> {
    let read = sources.iter().map(|source| source.path.clone()).collect();
    let mut not_read = Vec::new();
    let names = if file.is_none() { host.root.list_opt(FRAGMENTS)? } else { None };
    for name in names.unwrap_or_default() {
        let why = if name.starts_with('.') {
            "it is hidden: its name begins with a dot"
        } else if name.ends_with(".toml") {
            continue;
        } else if name.to_lowercase().ends_with(".toml") {
            "its name must end in .toml, in lower case"
        } else {
            "its name does not end in .toml"
        };
        not_read.push(Skipped { path: format!("{FRAGMENTS}/{name}"), why });
    }
    Ok(Files { read, not_read })
}

/// A warning of a file with a secret that others than root can read. A file that is not on this machine has none.
fn open_to_others(host: &Host, path: &Path) -> Option<String> {
    let mode = host.root.mode(path).ok().flatten().filter(|mode| mode & 0o077 != 0)?;
    let path = path.display();
    Some(format!("has mode {mode:04o}, so others can read it: run `chmod 0600 {path}`"))
}

/// Warnings of all such files.
fn readable_by_others(host: &Host, pool: &Pool, sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for target in pool.storage.targets() {
        for (table, secret) in
            target.chaps().flat_map(|(table, chap)| chap.secrets().map(move |one| (table, one)))
        {
            let (files, has): (Vec<&str>, _) = match secret {
                SecretSource::File(path) => (vec![path.as_str()], ""),
                SecretSource::Inline(secret) => {
                    let with = sources.iter().filter(|source| secret.is_in(&source.text));
                    (with.map(|source| source.path.as_str()).collect(), "holds a secret and ")
                }
                SecretSource::Credential(_) => continue,
            };
            found.extend(files.into_iter().filter_map(|path| {
                let table = target.key(table);
                Some(format!("{table}: {path} {has}{}", open_to_others(host, Path::new(path))?))
            }));
        }
    }
    found
}

/// A warning if another program of this node uses the target, and iscsid would let it end etcd's session. On a machine without
/// open-iscsi there is nothing to find.
fn shared_target(host: &Host, config: &Config) -> Option<String> {
    let target = &config.backing.iscsi()?.target.iqn;
    let sessions = iscsi::sessions(host).ok()?;
    let others =
        observe::others_at_target(host, target, &sessions).ok().filter(|others| !others.is_empty())?;
    match iscsi::keeps_sessions_in_use(host) {
        Ok(true) => None,
        Ok(false) | Err(_) => Some(health::shared(target, &others)),
    }
}

/// Reads this node's secrets, which must be valid. Warnings of those that are too short.
fn short_secrets(host: &Host, config: &Config) -> Result<Vec<String>, ConfigError> {
    let found = observe::secrets::load(host, config, credentials().as_deref())?;
    let Some(Iscsi { target, .. }) = config.backing.iscsi() else { return Ok(Vec::new()) };
    let all = [("target.chap", &found.session), ("target.discovery_chap", &found.discovery)];
    let short = all.into_iter().filter(|(_, chap)| chap.as_ref().is_some_and(secrets::is_weak));
    Ok(short.map(|(table, _)| SecretSource::short(&target.key(table))).collect())
}

/// Judges the secrets that can be known here as `render` does: those in the config, and those of the files in this directory.
/// Warnings of those that are too short, or that others can read.
fn given_secrets(host: &Host, pool: &Pool, from: Option<&Path>) -> Result<Vec<String>, Exit> {
    let targets = pool.storage.targets();
    let Some(from) = from else { return Ok(secrets::judge(targets, &Vec::new())?) };
    let files = secrets::read(host, targets, Some(from), "put it there under this name")?;
    let mut warnings = secrets::judge(targets, &files)?;
    for (path, _) in &files {
        let found = secrets::place(path, Some(from))?;
        warnings.extend(open_to_others(host, &found).map(|said| format!("{} {said}", found.display())));
    }
    Ok(warnings)
}
