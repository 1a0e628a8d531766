//! `render units`

use super::{Exit, say};
use crate::unit;
use anyhow::Context as _;
use std::path::Path;

/// Writes the units that the config asks for into a directory.
pub(super) fn units(file: Option<&Path>, into: &Path) -> Result<(), Exit> {
    let (host, _, config) = super::config::load(file)?;
    for rendered in unit::for_config(&config).map_err(anyhow::Error::from)? {
        let path = std::path::absolute(into).context("finding the directory")?.join(&rendered.name);
        let text = path.to_str().context("the directory's name is not UTF-8")?;
        let path = text.parse().map_err(anyhow::Error::from)?;
        host.root.write_durably(&path, &rendered.text, 0o644).context("writing a unit")?;
        say(&format!("wrote {path}"));
    }
    Ok(())
}
