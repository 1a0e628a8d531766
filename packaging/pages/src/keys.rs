//! The reference of config keys, as Markdown, from the fields that they are read into and the comments there.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use syn::{Attribute, Expr, Field, Fields, File, Item, Lit, Meta, Type};

/// Where the fields are. Their form is what decides which keys there are: `deny_unknown_fields`.
const SOURCE: &str = include_str!("../../../agent/src/config/fragment.rs");
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
}

/// `docs/config.md`.
pub fn text() -> Result<String> {
    let mut text = String::from(
        "# Config\n\n`/etc/etcd-lun/config.toml`, and then `/etc/etcd-lun/config.d/*.toml` in the order of their names: a later file's keys win. Any other key is an \
         error. `etcd-lun config check` prints what came of it, secrets hidden, and which `[[node]]` this host takes. README.md has a whole example.\n\n\
         Times are a number with its unit, such as `\"500ms\"`, `\"10s\"`, `\"5min\"`, `\"1h\"`; sizes likewise, `\"8GiB\"`.\n\n\
         This page is made from the program's own source.\n",
    );
    for table in tables()? {
        let _ = writeln!(text, "\n## `{}`\n\n{}\n", table.name, table.about);
        for key in table.keys {
            let _ = writeln!(text, "- `{}`: {}", key.name, key.about);
        }
    }
    Ok(text)
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
            table.keys.push(Key { name: self::name(field)?, about: about(field)? });
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
    let lines: Vec<String> = field.attrs.iter().filter_map(comment).collect();
    if lines.is_empty() {
        bail!("the config's source says nothing about `{}`", name(field)?);
    }
    Ok(lines.join(" "))
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
