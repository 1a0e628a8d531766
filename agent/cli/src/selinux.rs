//! `selinux`: the policy module, and the labels on disk.

use super::{
    config,
    document::Document,
    exit::Exit,
    output::{OutputFormat, print_err, print_json, print_out},
    show,
};
use ::config::Storage;
use anyhow::{Context as _, anyhow};
use apply::confine::{self, Installed};
use host::{Host, selinux::store};
use node::{Selinux, layout::CONFIG_BY_HAND};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// Installs the policy module and labels the files.
pub(super) fn install(file: Option<&Path>) -> Result<(), Exit> {
    // The module is the same on every node of the pool. A node whose entry is still to come has it too: without it systemd
    // could not start etcd-lun.service there, and nobody would read that the entry is missing.
    let machine = config::TO_APPLY.or_kept().machine()?;
    let config::Loaded { pool, entry, .. } = machine.load(file)?;
    let host = machine.host;
    config::hold(&host)?;
    // At each boot too, before the service, which has no access to that place.
    config::keep(&host, file, &[CONFIG_BY_HAND]);
    let Some(enforcing) = mode(&host)? else {
        print_out("SELinux is off in this kernel: nothing to install.");
        return Ok(());
    };
    let Installed { module_changed, relabelled } =
        confine::install(&host, &pool, entry.as_ref().ok().map(|config| &config.backing))?;
    print_out(if module_changed {
        "The policy module is installed, and in force."
    } else {
        "The policy module is in force already: the policy store was not changed."
    });
    for line in relabelled {
        print_out(&line);
    }
    for rule in confine::local_rules(&host, &pool.etcd.data_dir)? {
        print_err(&format!(
            "warning: a local rule overrides the module's label for etcd's data: `{rule}`; delete it with `semanage fcontext --delete`, then run `etcd-lun selinux install` again"
        ));
    }
    if !enforcing {
        print_err("warning: SELinux is permissive: it logs what etcd-lun may not do, and does not deny it");
    }
    match (entry, &pool.storage) {
        (Ok(_), _) => Ok(()),
        // Its disk has no label yet, so this is done again when etcd-lun.service tries again.
        (Err(error), Storage::Device(_)) => Err(Exit::Error(error.into())),
        (Err(error), Storage::Iscsi(_)) => {
            print_err(&format!("warning: {error}"));
            Ok(())
        }
    }
}

/// What `selinux status` prints.
pub(super) const SELINUX_STATUS: Document<Status> =
    Document::under("selinux", "selinux-status", "etcd-lun selinux status --json");

/// What `selinux status` shows.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Status {
    /// SELinux on this node.
    selinux: Selinux,
    /// What `selinux install` would relabel, in restorecon's words.
    mislabelled: Vec<String>,
    /// Local rules for etcd's data, which override the module.
    local_rules: Vec<String>,
}

/// Shows the state of SELinux, the module and the labels.
pub(super) fn status(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (host, _, config) = config::TO_LOOK.load(file)?;
    let seen = observe::selinux(&host, &config);
    let selinux = seen.require().map_err(|why| anyhow!("looking at SELinux: {why}"))?.clone();
    let (mut mislabelled, mut local_rules) = (Vec::new(), Vec::new());
    if selinux != Selinux::Off {
        let paths = policy::labelled(&config);
        let paths = paths.iter().map(String::as_str).chain([config.etcd.data_dir.as_str()]);
        mislabelled = store::relabel(&host, paths, true).map_err(anyhow::Error::from)?;
        local_rules = confine::local_rules(&host, &config.etcd.data_dir)?;
    }
    let status = Status { selinux, mislabelled, local_rules };
    if output.json {
        return print_json(&SELINUX_STATUS, &status);
    }
    print_out(&show::selinux(&status.selinux));
    for line in &status.mislabelled {
        print_out(&format!("{line}: run `etcd-lun selinux install`"));
    }
    for rule in &status.local_rules {
        print_out(&format!(
            "a local rule overrides the module: `{rule}`; delete it with `semanage fcontext --delete`"
        ));
    }
    Ok(())
}

/// Removes the policy module.
pub(super) fn remove(file: Option<&Path>) -> Result<(), Exit> {
    let (host, _, config) = config::TO_CHANGE.load(file)?;
    config::hold(&host)?;
    if mode(&host)?.is_none() {
        print_out("SELinux is off in this kernel: nothing to remove.");
        return Ok(());
    }
    let removed = confine::remove(&host, &config)?;
    print_out(match (removed.was_in_store, removed.stays) {
        (true, false) => "The policy module is removed.",
        (true, true) => "The policy module is out of the policy store, and in force until the next boot.",
        (false, _) => "etcd-lun's policy module is not in the policy store.",
    });
    if removed.stays {
        print_err(
            "warning: etcd's data is on the LUN: the next boot installs the module again, and if it cannot, etcd stays down (`systemctl status etcd-lun-selinux`)",
        );
    }
    for line in removed.relabelled {
        print_out(&line);
    }
    Ok(())
}

fn mode(host: &Host) -> anyhow::Result<Option<bool>> {
    host::selinux::enforces(host).context("asking the kernel about SELinux")
}
