//! Moves the manifest of a static pod aside and back: itself, or for the confined service by its [`hands`](hands).

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
        false => Ok(manifest::park(host, path, &parked(path))?),
    }
}

/// Moves the manifest back: see [`manifest::put_back`].
pub fn put_back(host: &Host, path: &AbsPath) -> anyhow::Result<PutBack> {
    if !is_confined(host)? {
        return Ok(manifest::put_back(host, path, &parked(path))?);
    }
    let before = manifest::look(host, path, &parked(path))?;
    if !before.parked {
        return Ok(PutBack::NotParked);
    }
    ask(host, &Request::PutBack).context("putting the manifest of etcd's pod back")?;
    Ok(if before.present { PutBack::Newer } else { PutBack::Back })
}
