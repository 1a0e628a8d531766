//! The reference of config keys, as Markdown: from the fields that they are read into, the constants of their defaults, and the
//! comments on both.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use etcd_lun::config::defaults;
use syn::{Attribute, Expr, Field, Fields, File, Item, Lit, Meta, Type};

/// Where the fields are. Their form is what decides which keys there are: `deny_unknown_fields`.
const SOURCE: &str = include_str!("../../../agent/src/config/fragment.rs");
/// The defaults. A comment on a field links to one, and the page has its value in the link's place.
const DEFAULTS: &str = include_str!("../../../agent/src/config/defaults.rs");
/// How such a link begins.
const LINK: &str = "[`super::defaults::";
/// The longest line of the page, in characters.
const WIDTH: usize = 120;
/// The struct that is a whole file.
const WHOLE: &str = "Fragment";

/// A table of the config.
#[derive(Debug)]
pub struct Table {
    /// With the tables that it is in, and in brackets: `[target.chap]`, `[[node]]`.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its keys, in the order of the source.
    pub keys: Vec<Key>,
}

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: String,
    /// What it is, and whether it has to be there.
    pub about: String,
    /// The constants of its defaults.
    pub defaults: Vec<String>,
}

/// `docs/config.md`.
pub fn text() -> Result<String> {
    let mut text = String::from(
        "# Config\n\nThe reference of all config keys, for whoever writes or reviews a config. config-by-example.md has a whole example.\n\n",
    );
    text += &wrapped(
        "",
        "etcd-lun reads `/etc/etcd-lun/config.toml`, and then `/etc/etcd-lun/config.d/*.toml` in the order of their names. The keys of a later \
         file win. A key that isn't listed here is an error. `etcd-lun config check` prints the merged config without its secrets, and which \
         `[[node]]` this host uses.",
    );
    text += "\n";
    text += &wrapped(
        "",
        "A time is a number with a unit, such as `\"500ms\"`, `\"10s\"`, `\"5min\"` or `\"1h\"`. A size is too, such as `\"8GiB\"`.",
    );
    text += "\nThis page is made from the program's own source.\n";
    let tables = tables()?;
    for table in &tables {
        let _ = writeln!(text, "\n## `{}`\n\n{}", table.name, wrapped("", &table.about));
        for key in &table.keys {
            text += &wrapped("- ", &format!("`{}`: {}", key.name, key.about));
        }
    }
    text += "\n## Why these defaults\n\n";
    text += &reasons(&tables)?;
    Ok(text)
}

/// Each default with its keys and its reason, in the order of the source.
fn reasons(tables: &[Table]) -> Result<String> {
    let mut text = String::new();
    let source = syn::parse_file(DEFAULTS).context("the source of the defaults isn't Rust")?;
    let constants = source.items.iter().filter_map(|item| match item {
        Item::Const(constant) => Some((constant.ident.to_string(), comments(&constant.attrs))),
        _ => None,
    });
    for (constant, reason) in constants {
        let keys: Vec<_> = tables
            .iter()
            .flat_map(|table| table.keys.iter().map(move |key| (table.name.trim_matches(['[', ']']), key)))
            .filter(|(_, key)| key.defaults.contains(&constant))
            .map(|(table, key)| format!("`{table}.{}`", key.name))
            .collect();
        if keys.is_empty() || reason.is_empty() {
            bail!("the default {constant} has no key whose comment links to it, or no comment of its own");
        }
        text += &wrapped("- ", &format!("{}, `{}`: {reason}", keys.join(", "), written(&constant)?));
    }
    Ok(text)
}

/// A default as it is written in a config. For texts, and lists of them, JSON and TOML are the same.
fn written(constant: &str) -> Result<String> {
    let text = match constant {
        "DISCOVERY" => serde_json::to_string(&defaults::DISCOVERY),
        "REPLACEMENT_TIMEOUT" => serde_json::to_string(&defaults::REPLACEMENT_TIMEOUT),
        "NOOP_INTERVAL" => serde_json::to_string(&defaults::NOOP_INTERVAL),
        "NOOP_TIMEOUT" => serde_json::to_string(&defaults::NOOP_TIMEOUT),
        "NOOP_INTERVAL_MULTIPATH" => serde_json::to_string(&defaults::NOOP_INTERVAL_MULTIPATH),
        "NOOP_TIMEOUT_MULTIPATH" => serde_json::to_string(&defaults::NOOP_TIMEOUT_MULTIPATH),
        "DATA_DIR" => serde_json::to_string(defaults::DATA_DIR),
        "UNIT" => serde_json::to_string(defaults::UNIT),
        "MANIFEST" => serde_json::to_string(defaults::MANIFEST),
        "METRICS_CERTIFICATES" => serde_json::to_string(defaults::METRICS_CERTIFICATES),
        "CLIENT_URL_STATIC_POD" => serde_json::to_string(defaults::CLIENT_URL_STATIC_POD),
        "CLIENT_URL_SYSTEMD" => serde_json::to_string(defaults::CLIENT_URL_SYSTEMD),
        "SERVE_TIMEOUT" => serde_json::to_string(&defaults::SERVE_TIMEOUT),
        "MIN_SIZE" => serde_json::to_string(&defaults::MIN_SIZE),
        "MOUNT_OPTIONS" => serde_json::to_string(defaults::MOUNT_OPTIONS),
        "LABEL" => serde_json::to_string(defaults::LABEL),
        "MAX_SWITCH" => serde_json::to_string(&defaults::MAX_SWITCH),
        "KEEP_RETIRED" => serde_json::to_string(&defaults::KEEP_RETIRED),
        "GATE" => serde_json::to_string(&defaults::GATE),
        "ATTACH_TIMEOUT" => serde_json::to_string(&defaults::ATTACH_TIMEOUT),
        "INTERVAL" => serde_json::to_string(&defaults::INTERVAL),
        "TEXTFILE" => serde_json::to_string(defaults::TEXTFILE),
        other => bail!("there is no default {other}"),
    };
    Ok(text?)
}

/// A paragraph or an item of a list, in lines of at most [`WIDTH`] characters.
fn wrapped(mark: &str, text: &str) -> String {
    let mut lines = vec![mark.to_owned()];
    for word in text.split_whitespace() {
        let is_full =
            lines.last().is_some_and(|line| line.chars().count() + 1 + word.chars().count() > WIDTH);
        if is_full {
            lines.push(" ".repeat(mark.len()));
        }
        if let Some(line) = lines.last_mut() {
            if !line.trim().is_empty() && !line.ends_with(' ') {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

/// All tables that there are.
pub fn tables() -> Result<Vec<Table>> {
    let source = syn::parse_file(SOURCE).context("the config's source isn't Rust")?;
    let mut found = Vec::new();
    for field in fields(&source, WHOLE)? {
        read(&source, field, "", &mut found)?;
    }
    Ok(found)
}

/// The table that a field is, and those in it.
fn read(source: &File, field: &Field, within: &str, found: &mut Vec<Table>) -> Result<()> {
    let name = format!("{within}{}", name(field)?);
    let (outer, inner) = type_names(&field.ty);
    let mut table = Table {
        name: if outer == "Vec" { format!("[[{name}]]") } else { format!("[{name}]") },
        about: about(field)?,
        keys: Vec::new(),
    };
    let mut tables = Vec::new();
    for field in fields(source, &inner)? {
        if is_skipped(field) {
            continue;
        }
        if type_names(&field.ty).1.ends_with(WHOLE) {
            read(source, field, &format!("{name}."), &mut tables)?;
        } else {
            let (about, defaults) = with_defaults(&about(field)?)?;
            table.keys.push(Key { name: self::name(field)?, about, defaults });
        }
    }
    found.push(table);
    found.extend(tables);
    Ok(())
}

fn fields<'a>(source: &'a File, name: &str) -> Result<impl Iterator<Item = &'a Field>> {
    let found = source.items.iter().find_map(|item| match item {
        Item::Struct(found) if found.ident == name => Some(&found.fields),
        _ => None,
    });
    match found {
        Some(Fields::Named(fields)) => Ok(fields.named.iter()),
        _ => bail!("the config's source has no struct {name} with named fields"),
    }
}

fn name(field: &Field) -> Result<String> {
    Ok(field.ident.as_ref().context("a field without a name")?.to_string())
}

/// Of `Option<ChapFragment>`: `Option` and `ChapFragment`; of `Bytes`: `Bytes` twice.
fn type_names(of: &Type) -> (String, String) {
    let Type::Path(path) = of else { return Default::default() };
    let Some(last) = path.path.segments.last() else { return Default::default() };
    let outer = last.ident.to_string();
    let inner = match &last.arguments {
        syn::PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                syn::GenericArgument::Type(inner) => Some(type_names(inner).1),
                _ => None,
            })
        }
        _ => None,
    };
    (outer.clone(), inner.unwrap_or(outer))
}

fn is_skipped(field: &Field) -> bool {
    field.attrs.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("serde") && list.tokens.to_string() == "skip",
        _ => false,
    })
}

fn about(field: &Field) -> Result<String> {
    let about = comments(&field.attrs);
    if about.is_empty() {
        bail!("the config's source says nothing about `{}`", name(field)?);
    }
    Ok(about)
}

/// A comment with the values of the defaults that it links to, and their constants.
fn with_defaults(about: &str) -> Result<(String, Vec<String>)> {
    let mut parts = about.split(LINK);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut constants = Vec::new();
    for part in parts {
        let (constant, rest) = part.split_once("`]").context("a link that doesn't end")?;
        let _ = write!(text, "`{}`{rest}", written(constant)?);
        constants.push(constant.to_owned());
    }
    Ok((text, constants))
}

/// All lines of a comment as one.
fn comments(attributes: &[Attribute]) -> String {
    attributes.iter().filter_map(comment).collect::<Vec<_>>().join(" ")
}

fn comment(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests;
