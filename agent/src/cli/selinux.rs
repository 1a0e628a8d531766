//! `selinux`: the policy module in its store, and the labels on disk.

use super::{Exit, OutputFormat, complain, config, say, show};
use crate::{
    apply::confine::{self, Installed},
    host::{Host, selinux::store},
    node::Selinux,
    observe, policy,
};
use anyhow::{Context as _, anyhow};
use serde::Serialize;
use std::path::Path;

/// Puts the module and the labels in place.
pub(super) fn install(file: Option<&Path>) -> Result<(), Exit> {
    let (host, _, config) = config::load_to_change(file)?;
    let Some(enforcing) = mode(&host)? else {
        say("SELinux is off in this kernel: nothing to install.");
        return Ok(());
    };
    let Installed { module_changed, relabelled } = confine::install(&host, &config)?;
    say(if module_changed {
        "The policy module is installed, and in force."
    } else {
        "The policy module is in force already: the policy store is as it was."
    });
    for line in relabelled {
        say(&line);
    }
    for rule in confine::local_rules(&host, &config)? {
        complain(&format!(
            "warning: a local rule labels etcd's data otherwise, and wins: `{rule}`; delete it with `semanage fcontext --delete`, and install again"
        ));
    }
    if !enforcing {
        complain("warning: SELinux is permissive: what etcd-lun may not do is logged, not denied");
    }
    Ok(())
}

/// What there is to see.
#[derive(Debug, Serialize)]
struct Status {
    selinux: Selinux,
    /// What `selinux install` would label anew, as restorecon says it.
    mislabelled: Vec<String>,
    /// Rules of the machine's own for etcd's data, which win over the module.
    local_rules: Vec<String>,
}

/// Shows it.
pub(super) fn status(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (host, _, config) = config::load_to_look(file)?;
    let seen = observe::selinux(&host, &config);
    let selinux = seen.require().map_err(|why| anyhow!("looking at SELinux: {why}"))?.clone();
    let (mut mislabelled, mut local_rules) = (Vec::new(), Vec::new());
    if selinux != Selinux::Off {
        let paths = policy::labelled(&config);
        let paths = paths.iter().map(String::as_str).chain([config.etcd.data_dir.as_str()]);
        mislabelled = store::relabel(&host, paths, true).map_err(anyhow::Error::from)?;
        local_rules = confine::local_rules(&host, &config)?;
    }
    let status = Status { selinux, mislabelled, local_rules };
    if output.json {
        return super::say_json("selinux", &status);
    }
    say(&show::selinux(&status.selinux));
    for line in &status.mislabelled {
        say(&format!("{line}: `etcd-lun selinux install` does"));
    }
    for rule in &status.local_rules {
        say(&format!("a local rule wins over the module: `{rule}`: `semanage fcontext --delete` it"));
    }
    Ok(())
}

/// Takes the module out.
pub(super) fn remove(file: Option<&Path>) -> Result<(), Exit> {
    let (host, _, config) = config::load_to_change(file)?;
    if mode(&host)?.is_none() {
        say("SELinux is off in this kernel: nothing to remove.");
        return Ok(());
    }
    let removed = confine::remove(&host, &config)?;
    say(if removed.module_changed {
        "The policy module is gone."
    } else {
        "There is no policy module of etcd-lun."
    });
    for line in removed.relabelled {
        say(&line);
    }
    Ok(())
}

fn mode(host: &Host) -> anyhow::Result<Option<bool>> {
    crate::host::selinux::enforces(host).context("asking the kernel for SELinux")
}
