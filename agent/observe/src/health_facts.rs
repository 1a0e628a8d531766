//! Observes what only `health` needs: figures of disks, sessions, units and etcd, some of them over a few seconds.

use super::{mounted_anew, records::others_at_target};
use config::{Backing, Config};
use hands::{Door, UnitUnknown, Units};
use host::{Host, block, dir, iscsi, kmsg, pressure, staging, systemd::Unit, tree};
use locate::disks;
use node::{
    Fact, HealthFacts, ISCSID, LunView, Multipath, Node, OtherUse, Path, Pressure, Route, Starter, UnitState,
    WriteCache, layout::STATE,
};
use std::{io, time::Duration};
use terms::{Bytes, Session, Span, TargetName};

/// The time between two samples. It is long enough for an idle etcd to write a few times: Kubernetes renews leases all the time,
/// and etcd commits every 100 ms while anything changes. It is short enough for a person to wait.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Observes the figures of a node whose other facts are observed already.
pub fn health_facts(door: &Door<'_>, config: &Config, node: &Node) -> HealthFacts {
    let host = door.host;
    let first = pressure::processors(host);
    let (sessions, others) = match config.backing.iscsi().map(|iscsi| &iscsi.target.iqn) {
        Some(target) => at_target(host, target),
        None => (Ok(Vec::new()), Ok(Vec::new())),
    };
    let paths: Fact<Vec<Path>> = paths(host, config).into();
    let log = devices(node).and_then(|disks| Ok((kmsg::messages(host)?, disks)));
    let kernel_errors = sessions.as_ref().map_err(copied).and_then(|sessions| {
        let (messages, disks) = log.as_ref().map_err(copied)?;
        let sids: Vec<_> = sessions.iter().map(|session| session.sid).collect();
        let addresses = disks.iter().filter_map(|disk| block::scsi_address(host, disk).transpose());
        Ok(kmsg::errors_of(messages, disks, &addresses.collect::<io::Result<Vec<_>>>()?, &sids))
    });
    let size_announced =
        log.as_ref().map_err(copied).map(|(messages, disks)| kmsg::announces_size(messages, disks));
    let routes = sessions.as_ref().map_err(copied).and_then(|sessions| routes(host, sessions));
    let (units, starters, iscsid) = units_and_starters(door, config);
    let paused = host.pause(SAMPLE_INTERVAL);
    let pressure = paused.as_ref().map_err(copied).and_then(|()| pressure_since(host, first));
    HealthFacts {
        at_work: None,
        paths,
        map_cache: map_cache(host, node).into(),
        local_space: local_space(host).into(),
        kernel_errors: kernel_errors.into(),
        size_announced: size_announced.into(),
        units,
        starters,
        routes: routes.into(),
        others: others.into(),
        safe_logout: iscsi::keeps_sessions_in_use(host).into(),
        pressure: pressure.into(),
        hung_task_panic: hung_task_panic(host).into(),
        iscsid,
        mounted_anew: mounted_anew_today(host).into(),
    }
}

/// Without iscsid nobody makes a session again when its connection is lost. Its socket starts it only for who asks it.
pub fn iscsid_runs(door: &Door<'_>) -> Result<bool, UnitUnknown> {
    door.unit(ISCSID).map(|unit| runs(&unit))
}

fn runs(unit: &Unit) -> bool {
    !unit.exists() || unit.is_active()
}

fn mounted_anew_today(host: &Host) -> io::Result<Vec<Span>> {
    const DAY: Duration = Duration::from_secs(86_400);
    let ago = |ago: Duration| Span(Duration::from_secs(ago.as_secs()));
    Ok(mounted_anew(host)?.within(dir::since_boot()?, DAY).map(ago).collect())
}

/// Kernel `Documentation/admin-guide/sysctl/kernel.rst`. A kernel that does not look for such tasks lacks both files.
fn hung_task_panic(host: &Host) -> io::Result<Option<u64>> {
    let read = |name: &str| -> io::Result<u64> {
        let text = host.root.read_opt(format!("/proc/sys/kernel/hung_task_{name}"))?;
        text.map_or(Ok(0), |text| text.trim().parse()).map_err(io::Error::other)
    };
    let (panics, limit) = (read("panic")? > 0, read("timeout_secs")?);
    Ok((panics && limit > 0).then_some(limit))
}

/// Our sessions to the target, and who else uses it.
fn at_target(host: &Host, target: &TargetName) -> (io::Result<Vec<Session>>, io::Result<Vec<OtherUse>>) {
    let all = iscsi::sessions(host);
    let others = all.as_ref().map_err(copied).and_then(|all| others_at_target(host, target, all));
    (all.map(|all| all.into_iter().filter(|one| one.is_of(target)).collect()), others)
}

/// A copy of an error, for facts that share its cause.
fn copied(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

fn paths(host: &Host, config: &Config) -> io::Result<Vec<Path>> {
    let mut paths = Vec::new();
    for name in disks(host, config)? {
        let Some(disk) = block::disk(host, &name)? else { continue };
        let scsi = block::scsi(host, &name)?;
        // The kernel has no state and no counters for NVMe and virtio disks.
        let state = match (&scsi, &config.backing) {
            (Some(scsi), _) => scsi.state.clone(),
            (None, Backing::Device(_)) => "running".to_owned(),
            (None, Backing::Iscsi(_)) => continue,
        };
        paths.push(Path {
            state,
            timeouts: scsi.as_ref().and_then(|scsi| scsi.timeouts),
            errors: scsi.as_ref().and_then(|scsi| scsi.errors),
            cache: WriteCache {
                kernel: disk.write_cache,
                target: scsi.and_then(|scsi| scsi.cache_type),
                fua: disk.fua,
            },
            name,
        });
    }
    Ok(paths)
}

fn map_cache(host: &Host, node: &Node) -> io::Result<Option<WriteCache>> {
    match node.lun.known() {
        Some(LunView::Seen(lun)) if lun.multipath == Multipath::Mapped => {
            let map = block::disk(host, &lun.device)?;
            Ok(map.map(|map| WriteCache { kernel: map.write_cache, target: None, fua: map.fua }))
        }
        _ => Ok(None),
    }
}

fn local_space(host: &Host) -> io::Result<(Bytes, Bytes)> {
    let state = std::path::Path::new(STATE);
    let dir = if host.root.mode(state)?.is_some() { state } else { state.parent().unwrap_or(state) };
    staging::space(&tree::open(&host.root.locate(dir))?).map(|space| (space.free, space.size))
}

/// The LUN's paths and its map.
fn devices(node: &Node) -> io::Result<Vec<String>> {
    match node.lun.require().map_err(io::Error::other)? {
        LunView::Seen(lun) => Ok(lun.paths.iter().chain([&lun.device]).cloned().collect()),
        LunView::NoSession | LunView::NotAttached => Err(io::Error::other(
            "the LUN is not attached, so it is unknown which lines of the kernel's log are about it",
        )),
    }
}

/// Our units and those that start them, of which systemd is asked at once.
/// The last is whether iscsid runs.
fn units_and_starters(
    door: &Door<'_>,
    config: &Config,
) -> (Fact<Vec<UnitState>>, Fact<Vec<Starter>>, Fact<bool>) {
    let rendered = rendered(door.host, config);
    let starters = starters(config);
    let own = rendered.known().into_iter().flatten().map(|name| unit::state_of(name)).collect::<Vec<_>>();
    let all: Vec<_> = own.iter().chain(&starters).map(String::as_str).chain([ISCSID]).collect();
    let said = door.units(&all);
    let units = match rendered {
        Fact::Known(names) => units(names, &said),
        Fact::Unknown(why) => Fact::Unknown(why),
    };
    let starters = starters.iter().map(|name| starter(name, &said)).collect::<Result<Vec<_>, _>>();
    (units, starters.into(), said.of(ISCSID).map(|unit| runs(&unit)).into())
}

/// The names of the units that the config asks for.
fn rendered(host: &Host, config: &Config) -> Fact<Vec<String>> {
    let by = match host.root.read_opt(unit::PROGRAM_ORDER) {
        Ok(Some(_)) => unit::InstalledBy::MachineConfig,
        Ok(None) => unit::InstalledBy::Hand,
        Err(error) => return Fact::from(Err(error)),
    };
    let rendered = unit::for_config_installed_by(config, by);
    rendered.map(|units| units.into_iter().map(|unit| unit.name).collect()).into()
}

fn units(names: Vec<String>, said: &Units<'_>) -> Fact<Vec<UnitState>> {
    let state = |name: String| {
        let unit = said.of(&unit::state_of(&name))?;
        Ok::<_, UnitUnknown>(UnitState {
            name,
            load: unit.load_state,
            file: unit.unit_file_state,
            active: unit.active_state.as_str().into(),
            result: unit.result,
        })
    };
    names.into_iter().map(state).collect::<Result<Vec<_>, _>>().into()
}

/// The units with a drop-in of ours.
fn starters(config: &Config) -> Vec<String> {
    unit::drop_ins(config).into_iter().map(|drop_in| drop_in.unit).collect()
}

fn starter(name: &str, said: &Units<'_>) -> Result<Starter, UnitUnknown> {
    let end = format!("/{name}.d/{}", unit::DROP_IN);
    let found = said.of(name)?;
    Ok(Starter {
        drop_in: found.drop_in_paths.iter().any(|path| path.ends_with(&end)),
        name: name.to_owned(),
        load: found.load_state,
        wants: found.wants,
        requires: found.requires,
    })
}

fn routes(host: &Host, sessions: &[Session]) -> io::Result<Vec<Route>> {
    let mut routes = Vec::new();
    for session in sessions {
        // The session is down. It has a check of its own.
        let Some(address) = &session.address else { continue };
        let (interface, mtu) = match iscsi::outgoing(host, session)? {
            Some(out) => (Some(out.interface), out.mtu),
            None => (None, None),
        };
        routes.push(Route { to: address.to_string(), interface, mtu });
    }
    Ok(routes)
}

fn pressure_since(host: &Host, first: io::Result<pressure::Processors>) -> io::Result<Pressure> {
    let first = first?;
    let iowait = pressure::processors(host)?.iowait_since(&first);
    let (some, full) = pressure::io(host)?.unzip();
    Ok(Pressure { iowait: iowait.ok_or_else(|| io::Error::other("no time has passed"))?, some, full })
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::NoTools};

    #[test]
    fn a_kernel_panics_only_if_it_looks_for_hung_tasks_and_is_told_to() {
        let files = Files::new("observe-hung-task");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        assert_eq!(hung_task_panic(&host).unwrap(), None);
        for (panics, limit, found) in [("0", "120", None), ("1", "0", None), ("1", "120", Some(120))] {
            files.put("proc/sys/kernel/hung_task_panic", &format!("{panics}\n"));
            files.put("proc/sys/kernel/hung_task_timeout_secs", &format!("{limit}\n"));
            assert_eq!(hung_task_panic(&host).unwrap(), found, "{panics} {limit}");
        }
    }
}
