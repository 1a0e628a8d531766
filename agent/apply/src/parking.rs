//! Moves the manifest of a static pod aside and back: itself, or for the confined service by its [`hands`](hands).

use crate::cures;
use anyhow::Context as _;
use config::parked;
use hands::{Request, ask, is_confined};
use host::{
    Host,
    manifest::{self, PutBack},
};
use terms::AbsPath;

/// Moves the manifest aside: see [`manifest::park`].
pub fn park(host: &Host, path: &AbsPath) -> anyhow::Result<()> {
    match is_confined(host)? {
        true => ask(host, &Request::Park).context("moving the manifest of etcd's pod aside"),
        false => park_here(host, path),
    }
}

/// Moves the manifest back: see [`manifest::put_back`].
pub fn put_back(host: &Host, path: &AbsPath) -> anyhow::Result<PutBack> {
    if !is_confined(host)? {
        return put_back_here(host, path);
    }
    let before = manifest::look(host, path, &parked(path))?;
    if !before.parked {
        return Ok(PutBack::NotParked);
    }
    ask(host, &Request::PutBack).context("putting the manifest of etcd's pod back")?;
    Ok(if before.present { PutBack::Newer } else { PutBack::Back })
}

/// Moves the manifest aside, in this process.
pub fn park_here(host: &Host, path: &AbsPath) -> anyhow::Result<()> {
    manifest::park(host, path, &parked(path)).map_err(cures::manifest)
}

/// Moves the manifest back, in this process.
pub fn put_back_here(host: &Host, path: &AbsPath) -> anyhow::Result<PutBack> {
    manifest::put_back(host, path, &parked(path)).map_err(cures::manifest)
}
