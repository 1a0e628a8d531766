//! `render … --output FILE`: writes a document that may hold secrets, and says what has changed.

use super::{exit::Exit, output::print_out};
use anyhow::Context as _;
use host::Host;
use std::{collections::BTreeMap, path::Path};
use terms::{AbsPath, Bytes};

/// The path of a file that can be written: its directory is there.
pub(super) fn path(host: &Host, file: &Path) -> Result<AbsPath, Exit> {
    let name = file.to_str().context("the directory's name is not UTF-8")?;
    let path: AbsPath = name.parse().map_err(|error| Exit::Usage(format!("--output: {error}")))?;
    let parent = path.parent();
    if host.root.mode(parent.as_path()).context("looking for the directory of --output")?.is_none() {
        return Err(Exit::Usage(format!(
            "--output: there is no directory {parent}: make it with `mkdir -p {parent}`"
        )));
    }
    Ok(path)
}

/// Writes the document with mode 0600, in one moment: a reader sees the old one or the new one.
pub(super) fn write(host: &Host, file: &Path, text: &str) -> Result<(), Exit> {
    let path = path(host, file)?;
    let old = host.root.read_opt(file).context("reading the file of --output")?;
    host.root.write_durably(&path, text, MODE).context("writing the file of --output")?;
    let size = Bytes(text.len() as u64);
    print_out(&match old {
        None => format!("wrote {path}: {size}, mode 0600"),
        Some(old) if old == text => format!("{path} is up to date"),
        Some(old) => format!("wrote {path}: {size}, mode 0600\n{}", changes(&old, text)),
    });
    Ok(())
}

/// Only its owner may read it, because the config and its secrets are in it.
const MODE: u32 = 0o600;

/// Which files and units differ, one in a line. No content is shown: it may be a secret.
fn changes(old: &str, new: &str) -> String {
    let (old, new) = (parts(old), parts(new));
    let mut lines = Vec::new();
    for (name, text) in &new {
        match old.get(name) {
            None => lines.push(format!("  new      {name}")),
            Some(before) if before != text => lines.push(format!("  changed  {name}")),
            Some(_) => {}
        }
    }
    lines.extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| format!("  gone     {name}")));
    lines.join("\n")
}

/// The parts of a document by their names: its files and its units, and what stands before them.
fn parts(text: &str) -> BTreeMap<String, String> {
    let mut parts: BTreeMap<String, String> = BTreeMap::new();
    let mut name = "the object's own fields".to_owned();
    for line in text.lines() {
        let item = line.trim_start();
        if let Some(value) = item.strip_prefix("- path: ").or_else(|| item.strip_prefix("- name: ")) {
            name = value.trim_matches('"').to_owned();
        }
        let part = parts.entry(name.clone()).or_default();
        part.push_str(line);
        part.push('\n');
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn names_what_differs_and_shows_no_content() {
        let old = "kind: X\nfiles:\n- path: \"/a\"\n  source: hunter2\n- path: \"/b\"\n  source: b\nunits:\n- name: \"u\"\n  x\n";
        let new = old.replace("hunter2", "hunter3").replace("/b", "/c");
        assert_eq!(changes(old, &new), "  changed  /a\n  new      /c\n  gone     /b");
        assert_eq!(changes(old, &old.replace("kind: X", "kind: Y")), "  changed  the object's own fields");
        assert_eq!(changes(old, old), "");
    }
}
