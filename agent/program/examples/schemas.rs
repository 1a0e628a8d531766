//! Writes the schema of each JSON output as `NAME.schema.json`: `schemas DIR`.
#![allow(clippy::disallowed_methods, reason = "it writes files of a release, not of a node")]

use anyhow::{Context, bail};
use cli::documents;
use std::{fs, path::Path};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir] = args.as_slice() else { bail!("usage: schemas DIR") };
    fs::create_dir_all(dir).with_context(|| dir.clone())?;
    for (name, schema) in documents::schemas() {
        let path = Path::new(dir).join(format!("{name}.schema.json"));
        fs::write(&path, format!("{schema:#}\n")).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
