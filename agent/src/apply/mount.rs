//! Having PID 1 mount the LUN, and seeing what it really mounted; and having it unmounted for good.

use super::{guard, run::Run};
use crate::{
    host::{block, inode, mountinfo, systemd, tree, xfs},
    node::authority::{Authority, Stamp},
    observe,
    terms::{AbsPath, FsLabel, FsUuid, Wwid},
};
use anyhow::{Context as _, bail, ensure};
use std::time::{Duration, Instant};

/// systemd waits for the device (90 s), then for mount(8); log replay of a large LUN included.
const MOUNT_LIMIT: Duration = Duration::from_secs(300);

/// The unit's own limit, 90 s, applies three times: to umount(8), after SIGTERM, after SIGKILL (systemd.mount(5)).
const UNMOUNT_LIMIT: Duration = Duration::from_secs(300);
/// For mount namespaces of processes that are ending, which keep a mount of their own.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);

/// What a mount step asks for.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    pub unit: &'a str,
    pub at: &'a AbsPath,
    pub wwid: &'a Wwid,
    pub uuid: &'a FsUuid,
    pub label: &'a FsLabel,
    pub options: &'a [String],
}

pub(super) fn mount(run: &mut Run<'_>, wish: &Wish<'_>) -> anyhow::Result<String> {
    run.drop_staging();
    guard::no_users_beneath(run, wish.at)?;
    ensure!(guard::is_fenced(run.host, wish.at)?, "{} is not fenced: nothing is mounted over it", wish.at);
    let lun = guard::lun_of_ours(run, wish.wwid, wish.uuid)?;
    let leads_to = observe::label_leads_to(run.host, wish.label)?;
    ensure!(
        leads_to.as_deref() == Some(lun.device.as_str()),
        "/dev/disk/by-label/{} leads to {}, the LUN is {}",
        wish.label,
        leads_to.as_deref().unwrap_or("nothing"),
        lun.device
    );
    systemd::start(run.host, wish.unit, MOUNT_LIMIT)?;
    verify(run, wish, &lun.devno)?;
    Ok(format!("{} is mounted on {}", lun.device, wish.at))
}

/// Unmounts the LUN once its data is proven to be on the local disk, and waits until nobody at all has it: the fence is
/// what whoever starts etcd now finds.
pub(super) fn unmount(run: &Run<'_>, unit: &str, at: &AbsPath) -> anyhow::Result<String> {
    ensure!(run.proof.is_some(), "the copy was not proven in this run: the LUN stays mounted");
    ensure!(guard::is_fenced(run.host, at)?, "{at} is not fenced beneath the LUN, which stays mounted");
    let lun = guard::data_is_on_lun(run, at)?;
    guard::etcd_is_at_rest(run, at)?;
    systemd::stop(run.host, unit, UNMOUNT_LIMIT)?;
    guard::nothing_is_mounted(run, at)?;
    let deadline = Instant::now() + RELEASE_LIMIT;
    while !block::nobody_holds(run.host, &lun.device)? {
        if Instant::now() >= deadline {
            bail!(
                "{at} is unmounted, and somebody still has {} mounted or open: see `lsns -t mnt`",
                lun.device
            );
        }
        run.host.pause(Duration::from_millis(200))?;
    }
    Ok(format!("{} is unmounted, and {at} fenced", lun.device))
}

/// Unmounts a filesystem that has shut down. Whatever etcd acknowledged is on the LUN; the rest was refused to it.
pub(super) fn unmount_shut_down(run: &Run<'_>, unit: &str, at: &AbsPath) -> anyhow::Result<String> {
    let record = guard::record(run.host)?.context("the record is gone")?;
    ensure!(record.authority == Authority::Lun, "the record says that the local disk is the truth");
    ensure!(guard::is_fenced(run.host, at)?, "{at} is not fenced beneath what is mounted, which stays so");
    let mount = guard::mounted_on(run.host, at)?.with_context(|| format!("{at} is not mounted any more"))?;
    ensure!(xfs::is_shut_down(&run.host.root.locate(at.as_path())), "{at} has not shut down");
    guard::etcd_is_at_rest(run, at)?;
    systemd::stop(run.host, unit, UNMOUNT_LIMIT)?;
    guard::nothing_is_mounted(run, at)?;
    // While anybody has it mounted, a mount anew would only be one more of the filesystem that has shut down.
    let deadline = Instant::now() + RELEASE_LIMIT;
    loop {
        let left = mountinfo::holders_in_any_namespace(run.host, mount.device.0, mount.device.1)?;
        match left.first() {
            None => return Ok(format!("{at} is unmounted, and fenced")),
            Some(holder) if Instant::now() >= deadline => bail!(
                "{at} is unmounted, and {} (pid {}) still has its filesystem mounted at {}: end it, then apply again",
                holder.comm,
                holder.pid,
                holder.mount_point
            ),
            Some(_) => run.host.pause(Duration::from_millis(200))?,
        }
    }
}

/// What PID 1 sees must be the LUN, with the options asked for, and carry the record's stamp.
fn verify(run: &Run<'_>, wish: &Wish<'_>, devno: &str) -> anyhow::Result<()> {
    let mounts = mountinfo::of_pid1(run.host)?;
    let here: Vec<_> = mounts.iter().filter(|mount| mount.mount_point == wish.at.as_str()).collect();
    let [mount] = here.as_slice() else {
        bail!("after the start of {} there are {} mounts on {}", wish.unit, here.len(), wish.at);
    };
    let found = format!("{}:{}", mount.device.0, mount.device.1);
    ensure!(
        found == devno,
        "{} has mounted device {found}, not {devno}; stop it and see `systemctl cat {0}`",
        wish.unit
    );
    ensure!(mount.fs_type == "xfs", "{} has mounted {}, not xfs", wish.unit, mount.fs_type);
    let options: Vec<_> = mount.options.iter().chain(&mount.super_options).collect();
    ensure!(!options.iter().any(|option| *option == "ro"), "{} has mounted read-only", wish.unit);
    for option in wish.options.iter().filter(|option| *option != "_netdev") {
        ensure!(options.contains(&option), "{} has mounted without {option}", wish.unit);
    }
    let root = tree::open(&run.host.root.locate(wish.at.as_path()))?;
    let text = inode::attribute(&root, Stamp::ATTRIBUTE)?.context("what is mounted has no stamp")?;
    let stamp =
        Stamp::parse(&String::from_utf8_lossy(&text)).context("reading the stamp of what is mounted")?;
    let record = guard::record(run.host)?.context("the record is gone")?;
    ensure!(
        stamp.generation == record.generation
            && stamp.machine_id == run.identity.machine_id
            && stamp.activations >= record.activations,
        "what is mounted is stamped for {}, generation {}, use {}; the record says generation {}, use {}: etcd is not started on it",
        stamp.node,
        stamp.generation,
        stamp.activations,
        record.generation,
        record.activations
    );
    Ok(())
}
