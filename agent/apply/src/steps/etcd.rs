//! Stopping etcd and starting it.

use crate::{
    context::Run,
    guard,
    machine::{Effect, Machine},
    pod::EtcdPod,
    users::{self, User},
};
use anyhow::Context as _;
use config::{Config, Runtime, parked};
use hands::{Door, Request, Requester};
use host::{Host, cri, filelock, manifest, process};
use node::{Fact, KUBELET, authority::Authority, layout::ETCD_STOPPED};
use plan::step::StartEtcd;
use std::time::{Duration, Instant};
use terms::{AbsPath, fail, named};

/// The kubelet reads its directory every 20 s (`fileCheckFrequency`), and then the pod has its grace period. Each wait has
/// this limit: for etcd itself, and for the other containers.
const POD_STOP_LIMIT: Duration = Duration::from_secs(300);
/// A large database takes long to open, and a member waits for its peers.
const START_LIMIT: Duration = Duration::from_secs(300);
/// The time for processes that still exist when the unit has stopped.
const RELEASE_LIMIT: Duration = Duration::from_secs(30);
/// A process may close its files, or a mount may go, without an end of that process.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// CRI-O notes a moment later that a container's processes have ended, and is asked again after this time.
const NOTED: Duration = Duration::from_millis(50);
/// The container in which etcd itself runs.
const ETCD: &str = "etcd";
/// The containers of OpenShift's etcd pod: openshift/cluster-etcd-operator `bindata/etcd/disable-etcd.sh`.
const CONTAINERS: [&str; 5] = [ETCD, "etcdctl", "etcd-metrics", "etcd-readyz", "etcd-rev"];
/// Those that serve nobody without etcd.
const OTHERS: [&str; 4] = ["etcdctl", "etcd-metrics", "etcd-readyz", "etcd-rev"];

/// Stops etcd and waits until nobody holds the database. Of a static pod it waits for all containers, or for etcd itself.
pub fn stop(run: &mut Run<'_>, runtime: &Runtime, whole_pod: bool) -> anyhow::Result<String> {
    let (door, host, data_dir) = (run.door, run.host, &run.config.etcd.data_dir);
    match runtime {
        Runtime::Systemd { unit } => {
            host.root
                .write_durably(&ETCD_STOPPED.parse()?, unit, 0o600)
                .context("recording that etcd-lun stops etcd")?;
            door.perform(&Request::StopEtcd)?;
            wait_until_free(host, data_dir, &users::list, RELEASE_LIMIT, &|| Ok(()))
                .with_context(|| format!("{unit} is stopped, but its data may still be in use"))?;
            Ok(format!("{unit} is stopped, nobody uses {data_dir}"))
        }
        Runtime::StaticPod { manifest: path } => {
            run.pod = pod(door, run.config, runtime)?;
            door.perform(&Request::Park).context("moving the manifest of etcd's pod aside")?;
            if whole_pod {
                return await_pod_end(run, path);
            }
            let end = PodEnd { manifest: path, containers: &[ETCD], users: &users::with_files };
            end.wait(run)?;
            Ok(format!(
                "{path} lies in {}, etcd has ended, nobody has files open in {data_dir}",
                parked(path)
            ))
        }
    }
}

/// The pod of the etcd that runs, for [`end_others`]. The service leaves the pod to the kubelet: its SELinux domain may signal no
/// container.
pub fn pod(door: &Door<'_>, config: &Config, runtime: &Runtime) -> anyhow::Result<Option<EtcdPod>> {
    match (door.requester, runtime) {
        (Requester::Service, _) | (_, Runtime::Systemd { .. }) => Ok(None),
        (Requester::Person, Runtime::StaticPod { .. }) => {
            let pod = EtcdPod::of_running(door.host, &config.etcd.data_dir)?;
            if pod.is_none() {
                tracing::warn!(
                    "the cgroup of etcd's process is not that of a pod: the pod's other containers end by themselves, which takes up to 30 s"
                );
            }
            Ok(pod)
        }
    }
}

/// Asks the other containers of etcd's pod to end. A pod that the kubelet has started again has the name of the one before, so
/// none is asked while etcd runs, or could be started.
pub fn end_others(run: &mut Run<'_>, pod: &EtcdPod) -> anyhow::Result<()> {
    let (host, etcd) = (run.host, &run.config.etcd);
    if let Runtime::StaticPod { manifest: path } = &etcd.runtime {
        let is_back = manifest::look(host, path, &parked(path))?.present;
        if is_back {
            return Err(written_again(path));
        }
    }
    let database = node::database(&etcd.data_dir);
    if let Some(holder) = filelock::lock_holders(host, database.as_path())?.first() {
        fail!(FilesOpen, "{holder} has opened {database} again, after etcd had ended");
    }
    run.ending = pod.ask_to_end(host, &OTHERS)?;
    tracing::debug!("asked {} processes of the other containers of etcd's pod to end", run.ending.len());
    Ok(())
}

/// Waits until all containers of etcd's pod have ended, whose manifest is moved aside, and nobody uses the data directory.
pub fn await_pod_end(run: &mut Run<'_>, manifest: &AbsPath) -> anyhow::Result<String> {
    PodEnd { manifest, containers: &CONTAINERS, users: &users::list }.wait(run)?;
    Ok(format!("{manifest} lies in {}, nobody uses {}", parked(manifest), run.config.etcd.data_dir))
}

fn written_again(path: &AbsPath) -> anyhow::Error {
    named!(
        ManifestReturned,
        "{path} was written again after it had been moved aside, and the kubelet starts etcd from it: let the rollout end (`oc get etcd cluster`), and try again"
    )
    .into()
}

/// A look at who uses the data directory.
type Look = dyn Fn(&Host, &AbsPath) -> anyhow::Result<Vec<User>>;

/// The state that a wait expects after a manifest was moved aside.
struct PodEnd<'a> {
    manifest: &'a AbsPath,
    containers: &'a [&'a str],
    users: &'a Look,
}

impl PodEnd<'_> {
    fn wait(&self, run: &mut Run<'_>) -> anyhow::Result<()> {
        let (host, data_dir, path) = (run.host, &run.config.etcd.data_dir, self.manifest);
        let is_away = || -> anyhow::Result<()> {
            if manifest::look(host, path, &parked(path))?.present {
                return Err(written_again(path));
            }
            Ok(())
        };
        let deadline = Instant::now() + POD_STOP_LIMIT;
        if self.containers_have_ended(run, deadline, &is_away)? {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        wait_until_free(host, data_dir, self.users, left, &is_away)
            .with_context(|| format!("{path} is moved aside (does {KUBELET} run?)"))
    }

    /// Waits until CRI-O runs none of the pod's containers. Returns at once if they cannot be asked for: without crictl, in the
    /// service's SELinux domain, which may not execute it, if CRI-O doesn't answer, and if this run has not seen the pod. The
    /// caller then only waits for the processes and mounts of the containers: see [`users::of_data`].
    ///
    /// Says whether all users of the data that were seen meanwhile have ended. Then another look at all processes would only
    /// keep the member away: whatever the caller does to the data begins with a look of its own.
    fn containers_have_ended(
        &self,
        run: &mut Run<'_>,
        deadline: Instant,
        is_away: &dyn Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let (host, data_dir) = (run.host, &run.config.etcd.data_dir);
        let Some(pod) = &run.pod else { return Ok(false) };
        let uid = pod.uid();
        // One that has ended is not asked for again: the kubelet restarts no container of a pod that it ends. If it had not
        // seen the manifest go when this began, the caller's look at all processes finds what uses the data.
        let mut left = self.containers.to_vec();
        // The users of the last look; none if one of them cannot be waited for.
        let mut seen = None;
        loop {
            left = match cri::running(host, &uid, &left) {
                Ok(Some(running)) => running.into_iter().map(|container| container.name).collect(),
                Ok(None) => return Ok(false),
                Err(error) => {
                    let why = anyhow::Error::from(error);
                    run.watcher.noted(&format!(
                        "CRI-O cannot be asked for containers ({why:#}): waiting for their processes instead"
                    ));
                    return Ok(false);
                }
            };
            if left.is_empty() {
                let has_ended = |pid: &u32| process::wait_for_an_end(host, &[*pid], Duration::ZERO);
                return Ok(seen.is_some_and(|pids: Vec<u32>| {
                    pids.iter().all(|pid| matches!(has_ended(pid), Ok(true)))
                }));
            }
            is_away()?;
            if Instant::now() >= deadline {
                fail!(
                    PodStillRuns,
                    "the containers {} of etcd's pod {uid} still run after {} s, with its manifest moved aside: see `crictl ps` and `journalctl -u {KUBELET}`",
                    left.join(", "),
                    POD_STOP_LIMIT.as_secs()
                );
            }
            // A container ends with its processes, and CRI-O notes it a moment later.
            let users = (self.users)(host, data_dir)?;
            let pids: Vec<_> = users.iter().filter_map(|user| user.pid).collect();
            process::wait_for_an_end(host, &pids, if pids.is_empty() { NOTED } else { LOOK_AGAIN })?;
            seen = (pids.len() == users.len()).then_some(pids);
        }
    }
}

fn wait_until_free(
    host: &Host,
    data_dir: &AbsPath,
    users: &Look,
    limit: Duration,
    is_away: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let users = users(host, data_dir)?;
        if users.is_empty() {
            return Ok(());
        }
        is_away()?;
        if Instant::now() >= deadline {
            let names: Vec<_> = users.into_iter().map(|user| user.name).collect();
            fail!(FilesOpen, "{} still uses {data_dir}: end it first", names.join(", "));
        }
        // A look at every process costs much more than to wait for these, and etcd's neighbours need the processor.
        let pids: Vec<_> = users.iter().filter_map(|user| user.pid).collect();
        process::wait_for_an_end(host, &pids, LOOK_AGAIN)?;
    }
}

/// Starts etcd without a check of where its data directory leads. The caller must have checked that.
pub fn start(door: &Door<'_>, runtime: &Runtime, data_dir: &AbsPath, wait: bool) -> anyhow::Result<String> {
    let host = door.host;
    match runtime {
        Runtime::Systemd { unit } => {
            door.perform(&Request::StartEtcd { wait })?;
            host.root.remove(ETCD_STOPPED).context("removing the note that etcd-lun has stopped etcd")?;
            if wait {
                wait_until_served(host, runtime, data_dir)?;
            }
            Ok(if wait { format!("{unit} runs") } else { format!("{unit} is about to start") })
        }
        Runtime::StaticPod { manifest: path } => {
            let before = manifest::look(host, path, &parked(path))?;
            if before.parked {
                door.perform(&Request::PutBack).context("putting the manifest of etcd's pod back")?;
            }
            if wait && door.unit(KUBELET)?.is_active() {
                wait_until_served(host, runtime, data_dir)
                    .with_context(|| format!("{path} is back in its place"))?;
            }
            Ok(match (before.parked, before.present) {
                (true, false) => format!("{path} is back in its place"),
                (true, true) => format!("{path} is newer than the one that was moved aside, and stays"),
                (false, _) => format!("{path} is in its place"),
            })
        }
    }
}

/// Waits until etcd has the database and the log of the data directory open. One that cannot be seen from here counts as soon as it
/// has locked the database.
fn wait_until_served(host: &Host, runtime: &Runtime, data_dir: &AbsPath) -> anyhow::Result<()> {
    let database = node::database(data_dir);
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let found = match observe::other_place(host, runtime, data_dir) {
            Fact::Known(None) => return Ok(()),
            Fact::Known(Some(found)) => found,
            Fact::Unknown(_) if !filelock::lock_holders(host, database.as_path())?.is_empty() => {
                return Ok(());
            }
            Fact::Unknown(why) => why,
        };
        if Instant::now() >= deadline {
            let log = match runtime {
                Runtime::Systemd { unit } => format!("`journalctl -u {unit}`"),
                Runtime::StaticPod { .. } => format!("`crictl ps -a` and `journalctl -u {KUBELET}`"),
            };
            fail!(
                EtcdNotStarted,
                "etcd does not have its database and its log open in {data_dir} after {} s: it {found}; see {log}",
                START_LIMIT.as_secs()
            );
        }
        host.pause(Duration::from_millis(500))?;
    }
}

/// Starts etcd if the data directory leads to the authoritative copy.
pub fn start_on(machine: &mut dyn Machine, step: &StartEtcd) -> anyhow::Result<String> {
    let StartEtcd { runtime, data_dir, on, wait } = step;
    match on {
        Authority::Lun => machine.data_is_on_lun(data_dir)?,
        Authority::Local => guard::data_is_local(machine, data_dir)?,
    }
    let start = Effect::StartEtcd { runtime: runtime.clone(), data_dir: data_dir.clone(), wait: *wait };
    let started = machine.perform(&start)?;
    Ok(format!("{started}, on the {on}"))
}
