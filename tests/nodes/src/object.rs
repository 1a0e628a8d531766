//! The MachineConfig for a config. The agent renders it on the host, which is not a node.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::host;
use crate::registry::Pushed;
use crate::scene::Wanted;

const LIMIT: Duration = Duration::from_secs(120);

/// What `etcd-lun render` prints for a config. `dir` gets the config and its files of secrets.
pub fn rendered(dir: &Path, agent: &Path, wanted: &Wanted, what: &[&str]) -> Result<String> {
    fs::create_dir_all(dir)?;
    let (text, secrets) = wanted.render();
    for (path, secret) in secrets {
        let name = Path::new(&path).file_name().context("a secret's file has no name")?;
        fs::write(dir.join(name), secret)?;
    }
    let config = dir.join("config.toml");
    fs::write(&config, text)?;
    let mut render = Command::new(agent);
    host::ok(render.arg("--config").arg(&config).arg("render").args(what), LIMIT)
}

/// The MachineConfig for a config, whose program is in this image.
pub fn by_image(dir: &Path, agent: &Path, wanted: &Wanted, of: &Pushed) -> Result<String> {
    let both = dir.to_str().zip(of.program.to_str());
    let (secrets, program) = both.context("the run's directory is not UTF-8")?;
    let what = ["machineconfig", "--image", &of.image, "--program", program, "--secrets-from", secrets];
    rendered(dir, agent, wanted, &what)
}
