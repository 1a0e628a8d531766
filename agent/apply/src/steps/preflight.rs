//! Trying everything that the steps after etcd's stop need, while etcd still runs.
//!
//! What could fail after the stop costs time without etcd. What is tried here has left nothing behind when the step ends;
//! what an interrupted try leaves is removed by the next run by hand.

use super::copy;
use crate::{
    context::Run,
    guard,
    unmount::unmount_at,
    users::{self, Beside, User},
};
use anyhow::Context as _;
use config::{Config, Runtime, parked};
use hands::{Door, looks::mounted_on, manifest_error};
use host::{
    Host, Tool, cgroup, cri, dir, inode, manifest, staging,
    tree::{self, TreeError},
};
use node::{
    ActiveState, KUBELET,
    layout::{PREFLIGHT, RETIRED, RETIRED_MARK, RETURNING, RETURNING_MARK, STATE},
};
use plan::{Refusal, Way, step::Preflight};
use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};
use terms::{AbsPath, Bytes, require};

/// A process that only looks, such as `du` or our own health check, has gone after this time.
const LINGER: Duration = Duration::from_secs(10);
/// The data that etcd may add between the pre-copy and the stop: its next WAL file (64 MiB,
/// `server/storage/wal/wal.go`).
const GROWTH: u64 = 64 << 20;

/// Refuses if a later step would fail, or would wait in vain, because of something that can be seen now.
pub fn preflight(run: &Run<'_>, step: &Preflight) -> anyhow::Result<String> {
    let Preflight { from, way, runtime } = step;
    let host = run.host;
    clear(host, run.config)?;
    runtime_is_ready(run.door, runtime)?;
    if !host.runner.has(Tool::Rsync) {
        let tools = format!("{} (package {})", Tool::Rsync.program(), Tool::Rsync.package());
        return Err(Refusal::ToolMissing { tools }.into());
    }
    nothing_would_be_lost(host, from, *way)?;
    there_is_room(run, from, *way)?;
    state_can_change(host, from, *way)?;
    if let Runtime::StaticPod { manifest } = runtime {
        manifest::try_both_ways(host, manifest, &parked(manifest))
            .map_err(manifest_error)
            .with_context(|| format!("trying whether {manifest} can be moved aside and back"))?;
    }
    let unmounted = nobody_else_uses(run, from, *way, runtime)?;
    let said = format!("only etcd uses {from}, and everything that comes after its stop can be done");
    Ok([said].into_iter().chain(unmounted).collect::<Vec<_>>().join("; "))
}

/// Removes what an interrupted preflight has left.
pub fn clear(host: &Host, config: &Config) -> anyhow::Result<()> {
    if let Runtime::StaticPod { manifest } = &config.etcd.runtime {
        manifest::clear_trial(host, manifest, &parked(manifest))
            .context("removing what an interrupted preflight left beside the manifest")?;
    }
    for way in [Way::ToLun, Way::ToLocal { generation: 0 }] {
        if host.root.list_opt(shelf(way))?.is_some()
            && let Ok(places) = places(host, &config.etcd.data_dir, way)
        {
            clear_exchange(&places).context("removing what an interrupted preflight left")?;
        }
    }
    clear_scratch(host).with_context(|| format!("removing {PREFLIGHT}, left by an interrupted preflight"))
}

fn clear_scratch(host: &Host) -> io::Result<()> {
    let at: AbsPath = PREFLIGHT.parse().map_err(io::Error::other)?;
    if !host.root.list_opt(STATE)?.unwrap_or_default().iter().any(|name| name == at.name()) {
        return Ok(());
    }
    let scratch = tree::open(&host.root.locate(at.as_path()))?;
    for name in DIRECTORIES {
        if let Ok(dir) = dir::open(&scratch, name)
            && inode::is_immutable(&dir)? == Some(true)
        {
            inode::set_immutable(&dir, false)?;
        }
    }
    dir::remove_tree(tree::open(&host.root.locate(STATE))?, at.name())
}

/// The scratch directories in [`PREFLIGHT`]: what plays the fence, and what plays the data.
const DIRECTORIES: [&str; 2] = ["fence", "data"];

fn runtime_is_ready(door: &Door<'_>, runtime: &Runtime) -> anyhow::Result<()> {
    match runtime {
        Runtime::Systemd { unit } => {
            let found = door.unit(unit)?.load_state;
            if found != "loaded" {
                return Err(Refusal::UnitNotLoaded { unit: unit.clone(), found }.into());
            }
        }
        Runtime::StaticPod { .. } => {
            let found = door.unit(KUBELET)?;
            if !found.is_active() {
                let found = ActiveState::from(found.active_state.as_str()).to_string();
                return Err(Refusal::KubeletStopped { kubelet: KUBELET, found }.into());
            }
        }
    }
    Ok(())
}

/// etcd writes meanwhile, so the look is repeated if a file changes or vanishes under it. If that goes on, the look after
/// the stop decides.
fn nothing_would_be_lost(host: &Host, from: &AbsPath, way: Way) -> anyhow::Result<()> {
    let own = copy::own_attribute(way);
    let source = tree::open(&host.root.locate(from.as_path()))?;
    let deadline = Instant::now() + LINGER;
    while Instant::now() < deadline {
        match tree::unsupported(&source, own, &host.interrupt) {
            Ok(()) => return Ok(()),
            Err(error @ (TreeError::Unsupported { .. } | TreeError::Mounted { .. })) => {
                return Err(Refusal::CopyWouldLose { at: from.to_string(), found: error.to_string() }.into());
            }
            Err(error @ TreeError::Interrupted) => return Err(error.into()),
            Err(error) => tracing::debug!("looking for files that rsync can't copy: {error}"),
        }
        host.pause(Duration::from_millis(100))?;
    }
    Ok(())
}

fn there_is_room(run: &Run<'_>, from: &AbsPath, way: Way) -> anyhow::Result<()> {
    let open =
        |path: &str| tree::open(&run.host.root.locate(path)).with_context(|| format!("opening {path}"));
    let copied = match way {
        Way::ToLun => run.staging()?.root()?,
        Way::ToLocal { generation } => open(&format!("{RETURNING}/{generation}"))?,
    };
    let Bytes(free) = staging::space(&copied)?.free;
    let rest = dir::size(open(from.as_str())?)?.saturating_sub(dir::size(&copied)?).saturating_add(GROWTH);
    if free < rest {
        return Err(
            Refusal::CopyTooLarge { to: way.to_string(), found: Bytes(free), wanted: Bytes(rest) }.into()
        );
    }
    Ok(())
}

/// Tries, on scratch directories, what the commit point, retiring, the fence and its end do: a durable file in the
/// record's directory, our attributes, the immutable flag, and the exchange of two directories.
fn state_can_change(host: &Host, from: &AbsPath, way: Way) -> anyhow::Result<()> {
    let at: AbsPath = PREFLIGHT.parse()?;
    host.root.make_dir_durably(at.as_path(), 0o700).with_context(|| format!("making {at}"))?;
    let tried =
        try_on(host, &at, way).with_context(|| format!("trying in {at} what comes after etcd's stop"));
    clear_scratch(host).with_context(|| format!("removing {at}"))?;
    tried?;
    let shelf = shelf(way);
    host.root.make_dir_durably(shelf, 0o700).with_context(|| format!("making {shelf}"))?;
    let doing = || format!("trying to exchange a directory in {} with one in {shelf}", from.parent());
    let places = places(host, from, way).with_context(doing)?;
    let tried = exchange(&places).with_context(doing);
    clear_exchange(&places)
        .with_context(|| format!("removing {EXCHANGED} in {} and {shelf}", from.parent()))?;
    tried?;
    if way != Way::ToLun {
        let cure = "run `etcd-lun apply`, then `etcd-lun rollback` again";
        guard::fenced_beneath(guard::is_fenced(host, from)?, from, cure)?;
    }
    Ok(())
}

/// Where the later exchange has its other directory.
fn shelf(way: Way) -> &'static str {
    match way {
        Way::ToLun => RETIRED,
        Way::ToLocal { .. } => RETURNING,
    }
}

/// The name, in both places, of the directories that are exchanged to try it.
const EXCHANGED: &str = ".etcd-lun-preflight";

fn places(host: &Host, from: &AbsPath, way: Way) -> anyhow::Result<[OwnedFd; 2]> {
    let (parent, shelf) = dir::both_without_mounts(host, &from.parent(), &shelf(way).parse()?)?;
    Ok([parent, shelf])
}

fn exchange(places: &[OwnedFd; 2]) -> anyhow::Result<()> {
    let [parent, shelf] = places;
    places.iter().try_for_each(|place| dir::make(place, EXCHANGED, 0o700))?;
    Ok(inode::exchange(shelf, EXCHANGED, parent, EXCHANGED)?)
}

fn clear_exchange(places: &[OwnedFd; 2]) -> io::Result<()> {
    for place in places {
        if dir::names(place)?.iter().any(|name| name == EXCHANGED) {
            dir::remove_dir(place, EXCHANGED)?;
        }
    }
    Ok(())
}

fn try_on(host: &Host, at: &AbsPath, way: Way) -> anyhow::Result<()> {
    let record = at.join("record");
    host.root.write_durably(&record, "a try\n", 0o600).context("writing a file durably")?;
    let scratch = tree::open(&host.root.locate(at.as_path()))?;
    let [fence, data] = DIRECTORIES;
    for name in DIRECTORIES {
        dir::make(&scratch, name, 0o700).with_context(|| format!("making {name}"))?;
    }
    let mark = match way {
        Way::ToLun => RETIRED_MARK,
        Way::ToLocal { .. } => RETURNING_MARK,
    };
    let marked = dir::open(&scratch, data)?;
    inode::set_attribute(&marked, mark, b"a try").context("setting an extended attribute")?;
    inode::remove_attribute(&marked, mark).context("removing an extended attribute")?;
    let fenced = dir::open(&scratch, fence)?;
    inode::set_immutable(&fenced, true).context("setting the immutable flag")?;
    require!(
        dir::make_file(&fenced, "intruder").is_err(),
        NotFenced,
        "the filesystem of {at} takes the immutable flag, and lets files be made in such a directory: put it on XFS or ext4"
    );
    inode::without_immutable(&fenced, || {
        inode::exchange(&scratch, data, &scratch, fence).context("exchanging two directories")
    })
}

/// Waits for a short moment, and then refuses. A pod that only has the LUN mounted, as one that sees the node's `/` has, loses
/// that mount instead: nothing in it uses the data.
fn nobody_else_uses(
    run: &Run<'_>,
    from: &AbsPath,
    way: Way,
    runtime: &Runtime,
) -> anyhow::Result<Vec<String>> {
    let lun = match way {
        Way::ToLun => None,
        Way::ToLocal { .. } => mounted_on(run.host, from)?.map(|mount| mount.device),
    };
    let deadline = Instant::now() + LINGER;
    let mut unmounted = Vec::new();
    loop {
        let Beside { users: mut found, views } = users::beside_etcd(run.host, runtime, from, lun)?;
        if let Some(device) = lun.filter(|_| found.is_empty()) {
            for view in views {
                match unmount_at(run.host, &view, device) {
                    Ok(said) => unmounted.extend(said),
                    Err(why) => {
                        let user = User::of_mount(view);
                        found.push(User { how: format!("{} and keeps it ({why})", user.how), ..user });
                    }
                }
            }
        }
        if found.is_empty() {
            return Ok(unmounted);
        }
        if Instant::now() >= deadline {
            let users = found.iter().map(|user| shown(run.host, user)).collect::<Vec<_>>().join("; ");
            return Err(Refusal::DataInUse { at: from.to_string(), users }.into());
        }
        run.host.pause(Duration::from_millis(500))?;
    }
}

/// A user with its pod, as the container runtime names it; with its control group if that names none.
fn shown(host: &Host, user: &User) -> String {
    let container = user
        .pid
        .and_then(|pid| cgroup::of(host, pid).ok().flatten())
        .and_then(|group| users::container_of(&group).map(str::to_owned));
    match container.and_then(|id| cri::pod_of(host, &id)) {
        Some(pod) => format!("{} of pod {pod}, {}", user.name, user.how),
        None => format!("{}, {}", user.name, user.how),
    }
}
