//! Observes etcd: its unit, or its static pod, and who has its database open.

use config::{Config, Runtime, parked};
use hands::{Door, Units};
use host::{
    Host, cgroup,
    filelock::{self, Holder},
    manifest, process,
};
use node::{ActiveState, Etcd, EtcdState, Fact, KUBELET, PodState, layout::ETCD_STOPPED};
use std::{io, path::Path};
use terms::{AbsPath, Bytes};

/// etcd, as what runs it reports it, and who has its database open.
pub fn etcd(door: &Door<'_>, config: &Config) -> Fact<Etcd> {
    etcd_among(door.host, config, &door.units(&[]))
}

/// Uses answers of systemd's that are there already.
pub(super) fn etcd_among(host: &Host, config: &Config, units: &Units<'_>) -> Fact<Etcd> {
    of_holders(host, config, units, filelock::holders(host, node::database(&config.etcd.data_dir).as_path()))
}

/// The units that systemd is asked for.
pub(super) fn units(config: &Config) -> Vec<&str> {
    match &config.etcd.runtime {
        Runtime::Systemd { unit } => vec![unit],
        Runtime::StaticPod { .. } => vec![KUBELET, PACEMAKER],
    }
}

/// Observes it without those who have the database open but not locked, which takes a look at every process.
pub fn etcd_by_lock(door: &Door<'_>, config: &Config) -> Fact<Etcd> {
    let holders = filelock::lock_holders(door.host, node::database(&config.etcd.data_dir).as_path());
    of_holders(door.host, config, &door.units(&[]), holders)
}

fn of_holders(
    host: &Host,
    config: &Config,
    units: &Units<'_>,
    holders: io::Result<Vec<Holder>>,
) -> Fact<Etcd> {
    let lock_holders = match holders {
        Ok(holders) => holders.iter().map(ToString::to_string).collect(),
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    let runtime = &config.etcd.runtime;
    let mut etcd = match runtime {
        Runtime::Systemd { unit } => of_unit(host, unit, units, lock_holders),
        Runtime::StaticPod { manifest } => of_static_pod(host, manifest, units, lock_holders),
    };
    if let Fact::Known(etcd) = &mut etcd
        && etcd.running
    {
        etcd.other_place = other_place(host, runtime, &config.etcd.data_dir);
    }
    etcd
}

/// How the database and the log of etcd's processes are not those of the data directory, in words; none if they are.
pub fn other_place(host: &Host, runtime: &Runtime, data_dir: &AbsPath) -> Fact<Option<String>> {
    let look = || -> io::Result<Option<String>> {
        let pids = processes(host, runtime, &node::database(data_dir))?;
        let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "wal");
        let is_database = |path: &Path| path.ends_with("snap/db");
        let member = data_dir.join("member");
        let open =
            filelock::open_by(host, &pids, member.as_path(), |path| is_log(path) || is_database(path))?;
        let has = |is_meant: &dyn Fn(&Path) -> bool| open.iter().any(|(path, _)| is_meant(path));
        Ok(match open.iter().find(|(_, is_here)| !is_here) {
            Some((path, _)) => Some(format!("has {} open", path.display())),
            None if !has(&is_database) => Some(format!("does not have {member}/snap/db open")),
            None if !has(&is_log) => Some(format!("has no log in {member}/wal open")),
            None => None,
        })
    };
    look().into()
}

/// The processes of etcd: those that have locked the database, those of its unit, or, if there are none of either, those with its
/// name, such as in a container with a data directory of its own.
fn processes(host: &Host, runtime: &Runtime, database: &AbsPath) -> io::Result<Vec<u32>> {
    let unseen =
        || io::Error::other(format!("the process that has locked {database} can't be seen from here"));
    let locked = filelock::lock_holders(host, database.as_path())?.into_iter();
    let mut pids = locked.map(|holder| holder.pid.ok_or_else(unseen)).collect::<io::Result<Vec<_>>>()?;
    if let Runtime::Systemd { unit } = runtime {
        for pid in process::all(host)? {
            let group = cgroup::of(host, pid)?;
            if group.is_some_and(|group| group.split('/').any(|name| name == unit)) {
                pids.push(pid);
            }
        }
    }
    if pids.is_empty() { process::named(host, "etcd") } else { Ok(pids) }
}

/// The quota of the database of the etcd that has locked it, from its process: a manifest, a unit, its file of variables and a
/// wrapper all end there.
pub fn quota(host: &Host, data_dir: &AbsPath) -> Fact<Bytes> {
    let look = || -> io::Result<Bytes> {
        let holders = filelock::lock_holders(host, node::database(data_dir).as_path())?;
        let [Holder { pid: Some(pid), .. }] = holders.as_slice() else {
            return Err(io::Error::other("etcd does not run, or cannot be seen from here"));
        };
        let texts = |name: &str| -> io::Result<Vec<String>> {
            let bytes = host.root.read_bytes(format!("/proc/{pid}/{name}"))?;
            Ok(String::from_utf8_lossy(&bytes).split_terminator('\0').map(str::to_owned).collect())
        };
        quota_of(&texts("cmdline")?, &texts("environ")?).map_err(io::Error::other)
    };
    look().into()
}

/// etcd's own (`server/storage/quota.go`, `DefaultQuotaBytes`), also where the quota is set to 0.
const DEFAULT_QUOTA: Bytes = Bytes(2 << 30);

/// The quota that etcd takes from these arguments and variables: the last flag, else a variable that is not empty. With a config
/// file it reads neither (etcd 3.5 `server/etcdmain/config.go`, `pkg/flags/flag.go`).
fn quota_of(arguments: &[String], environment: &[String]) -> Result<Bytes, &'static str> {
    let setting = |flag: &str, variable: &str| {
        let value = arguments.iter().enumerate().rev().find_map(|(at, argument)| {
            match argument.trim_start_matches('-').strip_prefix(flag)? {
                "" => arguments.get(at + 1).map(String::as_str),
                rest => rest.strip_prefix('='),
            }
        });
        let mut variables = environment.iter().rev();
        let variable = variables.find_map(|line| line.strip_prefix(variable)?.strip_prefix('='));
        value.or(variable.filter(|value| !value.is_empty()))
    };
    if setting("config-file", "ETCD_CONFIG_FILE").is_some() {
        return Err("etcd reads its quota from its `--config-file`");
    }
    match setting("quota-backend-bytes", "ETCD_QUOTA_BACKEND_BYTES").unwrap_or("0").parse() {
        Ok(0_i64) => Ok(DEFAULT_QUOTA),
        Ok(quota) => quota.try_into().map(Bytes).map_err(|_| "etcd has no quota"),
        Err(_) => Err("etcd's `--quota-backend-bytes` is not a number"),
    }
}

fn of_unit(host: &Host, name: &str, units: &Units<'_>, lock_holders: Vec<String>) -> Fact<Etcd> {
    let unit = match units.of(name) {
        Ok(unit) => unit,
        Err(error) => return Fact::from(Err(error)),
    };
    let stopped_by_us = match host.root.read_ours(ETCD_STOPPED) {
        Ok(note) => note.is_some(),
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    let state = EtcdState::Unit(ActiveState::from(unit.active_state.as_str()));
    let running = state.is_running();
    Fact::Known(Etcd {
        name: name.to_owned(),
        exists: unit.exists(),
        enabled: unit.unit_file_state.starts_with("enabled"),
        running,
        start_queued: unit.job_pending && !running,
        state,
        stopped_by_us,
        by_pacemaker: None,
        lock_holders,
        other_place: Fact::Known(None),
    })
}

/// A static pod runs, or is about to, if its manifest is in place and the kubelet is not stopped. If the kubelet is stopped,
/// the pod's containers may run on. Then one of them holds the database's lock.
fn of_static_pod(host: &Host, path: &AbsPath, units: &Units<'_>, lock_holders: Vec<String>) -> Fact<Etcd> {
    let places = match manifest::look(host, path, &parked(path)) {
        Ok(places) => places,
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    // Not asked without a manifest in place: the answer would change nothing, and a member that is away waits for it.
    let kubelet_up = places.present
        && match units.of(KUBELET) {
            Ok(unit) => !ActiveState::from(unit.active_state.as_str()).is_stopped(),
            Err(error) => return Fact::from(Err(error)),
        };
    let by_pacemaker = match by_pacemaker(host, units) {
        Ok(found) => found,
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    let state = match (places.present, places.parked) {
        _ if !lock_holders.is_empty() => PodState::Running,
        (true, _) if kubelet_up => PodState::Starting,
        (true, _) => PodState::WaitingForKubelet,
        (false, true) => PodState::Parked,
        (false, false) => PodState::NoManifest,
    };
    let state = EtcdState::Pod(state);
    Fact::Known(Etcd {
        name: path.to_string(),
        exists: true,
        running: state.is_running(),
        state,
        enabled: places.present,
        start_queued: places.present && !kubelet_up,
        stopped_by_us: places.parked,
        by_pacemaker,
        lock_holders,
        other_place: Fact::Known(None),
    })
}

/// In a cluster of two nodes with fencing the kubelet's pod has no container of etcd: pacemaker starts one with podman, from the
/// manifest in the ConfigMap `external-etcd-pod` (openshift/cluster-etcd-operator). At a boot its files are there before the unit
/// runs.
fn by_pacemaker(host: &Host, units: &Units<'_>) -> io::Result<Option<&'static str>> {
    // Elsewhere pacemaker may look after something else, such as the address of a kubeadm cluster.
    let Some(names) = host.root.list_opt(CONFIG_MAPS)? else { return Ok(None) };
    if names.iter().any(|name| name == EXTERNAL) {
        return Ok(Some("the ConfigMap external-etcd-pod is on this node"));
    }
    let unit = units.of(PACEMAKER).map_err(io::Error::other)?;
    Ok((!ActiveState::from(unit.active_state.as_str()).is_stopped()).then_some("pacemaker.service runs"))
}

const PACEMAKER: &str = "pacemaker.service";

const CONFIG_MAPS: &str = "/etc/kubernetes/static-pod-resources/etcd-certs/configmaps";
const EXTERNAL: &str = "external-etcd-pod";

#[cfg(test)]
mod tests;
