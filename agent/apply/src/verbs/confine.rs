//! SELinux: the policy module in the policy store, and labels on disk.

use crate::{
    alone::{self, DIRECTORIES},
    guard,
};
use anyhow::{Context as _, anyhow};
use config::{Backing, Config, Device};
use hands::looks;
use host::{
    Host, block, dir, inode,
    selinux::{self, store},
    systemd,
};
use node::{InForce, authority::Authority, layout::STATE};
use policy::PolicyInput;
use std::{io, os::fd::OwnedFd};
use terms::{AbsPath, named, require};

/// The result of an installation.
#[derive(Debug)]
pub struct Installed {
    /// True if the policy in force has changed.
    pub module_changed: bool,
    /// The files that got another label, a line for each.
    pub relabelled: Vec<String>,
}

/// Installs the module of this config unless it is in force already, and corrects the labels of files. `backing` is what this
/// node's entry names; none if the config has no entry for it.
pub fn install<'a>(
    host: &Host,
    config: impl Into<PolicyInput<'a>>,
    backing: Option<&Backing>,
) -> anyhow::Result<Installed> {
    let config = config.into();
    // The service may not make its own directories.
    alone::make_labelled(host)?;
    host.root.make_dir_durably(STATE, 0o700).with_context(|| format!("making {STATE}"))?;
    let module = policy::module(config);
    let module_changed = observe::in_force(host, &module)? != InForce::Right;
    if module_changed {
        store::install(host, policy::MODULE, &module.text, policy::PRIORITY)
            .map_err(why_not)
            .context("putting the policy module into the policy store")?;
        require!(
            observe::in_force(host, &module)? == InForce::Right,
            PolicyNotInstalled,
            "semodule installed the module, but the policy in force doesn't have it: does another module named {} have a higher priority (`semodule -lfull`)?",
            policy::MODULE
        );
    }
    let mut relabelled = relabel(host, config)?;
    if let Some(Backing::Device(device)) = backing {
        relabelled.extend(label_disk(host, device).context("labelling the disk")?);
    }
    Ok(Installed { module_changed, relabelled })
}

/// Labels a local or cloud disk as the udev rule does. Such a disk is there before the module, and udev doesn't process
/// it again after the module has brought its label. The LUN of a target is attached later, at the login.
fn label_disk(host: &Host, device: &Device) -> io::Result<Vec<String>> {
    let mut names = locate::disks_of_device(host, device)?;
    if let Some(first) = names.first()
        && let Some(disk) = block::disk(host, first)?
    {
        names.extend(block::multipath_of(&disk).map(|map| map.name.clone()));
    }
    let mut relabelled = Vec::new();
    for name in names {
        let node = block::node(&name)?;
        let has = selinux::label_of(host, node.as_str())?;
        if has.as_deref() != Some(policy::DEVICE_LABEL) {
            selinux::set_label_of(host, node.as_str(), policy::DEVICE_LABEL)?;
            let had = has.as_deref().unwrap_or("no label");
            relabelled.push(format!("Relabeled {node} from {had} to {}", policy::DEVICE_LABEL));
        }
    }
    Ok(relabelled)
}

/// The result of a removal.
#[derive(Debug, PartialEq, Eq)]
pub struct Removed {
    /// True if the store had the module.
    pub was_in_store: bool,
    /// True if the policy in force keeps the module until the next boot.
    pub stays: bool,
    /// The files that got another label, a line for each.
    pub relabelled: Vec<String>,
}

/// Removes the module from the store and from the policy in force, and gives all files their ordinary labels again. While etcd's data
/// is on the LUN, only from the store: the LUN is mounted with the module's label, and the services have the module's domains. So
/// these last until the next boot, which installs the module again if it links.
pub fn remove(host: &Host, config: &Config) -> anyhow::Result<Removed> {
    let stays = looks::record(host)?.is_some_and(|record| record.authority == Authority::Lun);
    let was_in_store = store::remove(host, policy::MODULE, !stays)
        .map_err(why_not)
        .context("taking the policy module out of the policy store")?;
    if stays {
        return Ok(Removed { was_in_store, stays, relabelled: Vec::new() });
    }
    // An earlier removal has left the module in force, because the data was on the LUN then.
    if !was_in_store && observe::in_force(host, &policy::module(config))? != InForce::Absent {
        store::load(host).context("loading the policy without the module")?;
    }
    let mut relabelled = relabel(host, config.into())?;
    if relabelled.iter().any(|line| line.contains("/etc/systemd/system/")) {
        // systemd caches a unit file's label. If the policy no longer defines the label's type, systemd refuses even
        // status requests for the unit.
        systemd::reload(host).context("reloading systemd, which keeps the labels of its units")?;
    }
    // restorecon can't do that: system policies have no label for files in `/run` (`<<none>>`), so it would leave types that the policy
    // no longer defines.
    if let Some(label) = selinux::label_of(host, "/run")? {
        for (dir, _) in DIRECTORIES {
            relabelled.extend(selinux::label_below(host, dir, &label)?);
        }
    }
    Ok(Removed { was_in_store, stays, relabelled })
}

/// Adds the cure to semodule's error where the policy store is read-only, as on an image-based system.
fn why_not(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    let read_only = error.to_string().contains("Read-only file system");
    if read_only {
        return error.context(named!(PolicyNotInstalled,
            "the policy store is read-only: put the module into the image (`etcd-lun render policy`, then `semodule --install` in its build)"));
    }
    error
}

/// Labels all files by the policy in force. restorecon can't reach the directory beneath a mount, and can't change an
/// immutable one.
fn relabel(host: &Host, config: PolicyInput<'_>) -> anyhow::Result<Vec<String>> {
    let data_dir = config.data_dir();
    let fenced = guard::is_fenced(host, data_dir)?;
    let mounted = looks::mounted_on(host, data_dir).context("reading the mounts")?.is_some();
    let mut paths = policy::labelled(config);
    if mounted || !fenced {
        paths.push(data_dir.to_string());
    }
    let mut relabelled =
        store::relabel(host, paths.iter().map(String::as_str), false).context("labelling files")?;
    // Only where the module is there.
    for (dir, label) in DIRECTORIES {
        if selinux::knows(host, label)? {
            relabelled.extend(selinux::label_below(host, dir, label)?);
        }
    }
    if mounted && let Some(beneath) = inode::beneath(host, data_dir)? {
        label_beneath(host, data_dir, &beneath, fenced)?;
    }
    Ok(relabelled)
}

/// Gives the directory beneath the mount the label of the mounted one.
fn label_beneath(host: &Host, at: &AbsPath, beneath: &OwnedFd, fenced: bool) -> anyhow::Result<()> {
    let Some(label) = selinux::label_of(host, at.as_str())? else { return Ok(()) };
    if selinux::label(beneath)?.as_ref() == Some(&label) {
        return Ok(());
    }
    // Clearing the immutable flag is safe here: the LUN is mounted over the directory, so etcd can't reach it.
    let writable =
        dir::without_mounts(host, &at.parent()).and_then(|parent| dir::open(&parent, at.name()))?;
    if fenced {
        inode::set_immutable(&writable, false)?;
    }
    let labelled = selinux::set_label(&writable, &label);
    if fenced {
        inode::set_immutable(&writable, true)?;
    }
    labelled.with_context(|| format!("labelling the directory beneath {at}"))
}

/// The file context rules for etcd's data that were made on this machine (`semanage fcontext`). They override every
/// module.
pub fn local_rules(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Vec<String>> {
    let text = host.root.read_opt("/etc/selinux/config")?.unwrap_or_default();
    let policy_type = text.lines().find_map(|line| line.trim().strip_prefix("SELINUXTYPE="));
    let Some(policy_type) = policy_type else { return Ok(Vec::new()) };
    let path = format!("/etc/selinux/{}/contexts/files/file_contexts.local", policy_type.trim());
    let text = host.root.read_opt(path)?.unwrap_or_default();
    let ours = policy::type_of(policy::DATA_LABEL).ok_or_else(|| anyhow!("no type"))?;
    let about = |line: &&str| policy::is_rule_about(line, data_dir) && !line.contains(ours);
    Ok(text.lines().filter(about).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Source;
    use host::{Root, files::Files, transcript::Transcript};
    use node::authority::Record;
    use terms::{FsUuid, Nonce};

    const CONFIG: &str = "[device]\npath = \"/dev/disk/by-id/virtio-etcd0\"\n[etcd]\nruntime = \"systemd\"\n[[node]]\nhostname = \"m\"\n";
    const LIST: &str = "semodule --list-modules=full";
    const FROM_STORE: &str = "semodule --noreload --priority 350 --remove etcd_lun";
    const REMOVE: &str = "semodule --priority 350 --remove etcd_lun";
    const LOAD: &str = "semodule --reload";
    const THERE: &str = "350 etcd_lun        cil         \n100 base            pp          \n";
    const GONE: &str = "100 base            pp          \n";

    fn removed(listed: &str, on_lun: bool) -> (Removed, Vec<String>) {
        let files = Files::new("confine");
        let at = "/var/lib/etcd";
        let (uuid, nonce) = (FsUuid([5; 16]), Nonce([1; 16]));
        let wwid = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4".parse().unwrap();
        let begun = Record::begin(1, uuid, wwid, at.parse().unwrap(), nonce);
        let record = if on_lun { begun.commit(None) } else { begun };
        files.put(node::layout::RECORD.trim_start_matches('/'), &record.to_text().unwrap());
        files.put("sys/fs/selinux/context", "");
        files.process(1, "");
        let source = Source { path: "config.toml".into(), text: CONFIG.into() };
        let config = Config::load(&[source], "0123456789abcdef0123456789abcdef", "m").unwrap();
        let restorecon = format!("restorecon -Riv {} {at}", policy::labelled(&config).join(" "));
        let done = "Relabeled /etc/etcd-lun from u:object_r:a_t:s0 to u:object_r:b_t:s0\n";
        let runs = Transcript::default()
            .on(LIST, 0, listed, "")
            .on(FROM_STORE, 0, "", "")
            .on(REMOVE, 0, "", "")
            .on(LOAD, 0, "", "")
            .on(&restorecon, 0, done, "");
        let calls = runs.calls();
        let host = Host::fixture(Root::new(&files.0), Box::new(runs)).unwrap();
        (remove(&host, &config).unwrap(), calls.take())
    }

    /// The LUN stays mounted with the module's label, and the services run in its domains.
    #[test]
    fn the_policy_in_force_keeps_what_the_mounted_lun_needs() {
        let stays = |was_in_store| Removed { was_in_store, stays: true, relabelled: Vec::new() };
        let calls = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(removed(THERE, true), (stays(true), calls(&[LIST, FROM_STORE])));
        assert_eq!(removed(GONE, true), (stays(false), calls(&[LIST])));
    }

    #[test]
    fn the_policy_in_force_loses_the_module_otherwise() {
        for (listed, second) in [(THERE, REMOVE), (GONE, LOAD)] {
            let (done, calls) = removed(listed, false);
            assert_eq!((done.was_in_store, done.stays, done.relabelled.len()), (listed == THERE, false, 1));
            assert_eq!((calls[0].as_str(), calls[1].as_str()), (LIST, second));
            assert!(calls[2].starts_with("restorecon "), "{calls:?}");
        }
    }
}
