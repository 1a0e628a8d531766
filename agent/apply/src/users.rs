//! Which processes use etcd's data.

use anyhow::Context as _;
use config::Runtime;
use host::{
    Host, cgroup,
    filelock::{self, Holder},
    mountinfo,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use terms::{AbsPath, fail};

/// A process that uses etcd's data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// Its id in our PID namespace; none if it cannot be seen from here.
    pub pid: Option<u32>,
    /// `command (pid N)`.
    pub name: String,
    /// How it uses the data, such as `has it mounted at /data`.
    pub how: String,
}

/// The processes that hold the database's lock, have anything open below the data directory, or have the directory
/// mounted in a mount namespace of their own. A container has such a mount: it would continue to write to the
/// directory, whatever is mounted over it later. Each process is listed once.
pub fn list(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Vec<User>> {
    let users = with_files(host, data_dir)?;
    let mounted = mountinfo::bind_holders(host, data_dir)
        .with_context(|| format!("looking for containers that see {data_dir}"))?;
    Ok(once_each(users.into_iter().chain(mounted.into_iter().map(User::of_mount))))
}

/// The processes that hold the database's lock, or have anything open below the data directory.
pub fn with_files(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Vec<User>> {
    let open = filelock::open_below(host, data_dir.as_path())
        .with_context(|| format!("looking for users of {data_dir}"))?;
    let is_other = |holder: &Holder| holder.pid != Some(std::process::id()); // we read the directory ourselves
    let user = |holder: Holder, how| User { pid: holder.pid, name: holder.to_string(), how };
    let open: Vec<_> = open.into_iter().filter(|open| is_other(&open.holder)).collect();
    // After the files, so that a lock that was taken meanwhile is found.
    let database = node::database(data_dir);
    let locks = filelock::lock_holders_beside(host, database.as_path(), !open.is_empty())
        .with_context(|| format!("looking for holders of {database}"))?;
    let locks = locks.into_iter().filter(is_other);
    let locks = locks.map(|holder| user(holder, format!("has {database} open")));
    let open = open.into_iter().map(|open| user(open.holder, format!("has {} open", open.path.display())));
    Ok(once_each(locks.chain(open)))
}

/// How long another verb of this program may have the data directory open. It reads names and sizes only.
const LOOK: Duration = Duration::from_secs(10);

/// Those of [`list`], by name. Other verbs of this program only look, such as the timer's `health`: while nobody else is
/// there, they are waited for. One `apply` runs at a time, so none of them is an `apply`.
pub fn of_data(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Vec<String>> {
    let until = Instant::now() + LOOK;
    loop {
        let users: Vec<_> = list(host, data_dir)?.into_iter().map(|user| user.name).collect();
        let only_looks = !users.is_empty() && users.iter().all(|name| name.starts_with("etcd-lun ("));
        // If the run is interrupted meanwhile, whoever asks acts on what was found.
        if !only_looks || Instant::now() >= until || host.pause(Duration::from_millis(100)).is_err() {
            return Ok(users);
        }
    }
}

impl User {
    /// A process that has the data mounted.
    pub fn of_mount(holder: mountinfo::Holder) -> Self {
        Self {
            pid: Some(holder.pid),
            name: format!("{} (pid {})", holder.comm, holder.pid),
            how: format!("has it mounted at {}", holder.mount_point),
        }
    }
}

fn once_each(users: impl Iterator<Item = User>) -> Vec<User> {
    let mut by_name = BTreeMap::new();
    for user in users {
        by_name.entry(user.name.clone()).or_insert(user);
    }
    by_name.into_values().collect()
}

/// Who is no part of etcd, and so does not end when etcd is stopped.
#[derive(Debug, Default)]
pub struct Beside {
    /// The users of the data.
    pub users: Vec<User>,
    /// Those that would keep the LUN mounted after PID 1 has unmounted it. They may use it or not.
    pub views: Vec<mountinfo::Holder>,
}

/// Who uses the data beside etcd, or, with the LUN mounted on the data directory, would keep the LUN mounted; nobody if it is
/// not known which processes are etcd's.
///
/// Part of etcd is what runs in its unit, or in its pod, by cgroup.
pub fn beside_etcd(
    host: &Host,
    runtime: &Runtime,
    data_dir: &AbsPath,
    lun: Option<(u32, u32)>,
) -> anyhow::Result<Beside> {
    let kept = match lun {
        Some(device) => mountinfo::private_holders(host, device).context("looking for mounts of the LUN")?,
        None => Vec::new(),
    };
    let part: Box<dyn Fn(&str) -> bool> = match runtime {
        Runtime::Systemd { unit } => Box::new(move |group| group.split('/').any(|name| name == unit)),
        Runtime::StaticPod { .. } => {
            let lockers = filelock::lock_holders(host, node::database(data_dir).as_path())
                .context("looking for etcd's process")?;
            let [Holder { pid: Some(etcd), .. }] = lockers.as_slice() else { return Ok(Beside::default()) };
            let Some(of_etcd) = cgroup::of(host, etcd)? else { return Ok(Beside::default()) };
            Box::new(move |group| pod_of(group) == pod_of(&of_etcd))
        }
    };
    let mut strangers = Vec::new();
    for user in list(host, data_dir)? {
        let group = user.pid.map(|pid| cgroup::of(host, pid)).transpose()?.flatten();
        match &group {
            Some(group) if part(group) => {}
            // It has ended meanwhile.
            None if user.pid.is_some() => {}
            Some(group) => strangers.push(User { how: format!("in {group} {}", user.how), ..user }),
            None => strangers.push(user),
        }
    }
    let mut views = Vec::new();
    for view in kept {
        // A process that has ended keeps nothing mounted, and others of its namespace are found by the next look.
        if cgroup::of(host, view.pid)?.is_some_and(|group| !part(&group)) {
            views.push(view);
        }
    }
    Ok(Beside { users: once_each(strangers.into_iter()), views })
}

/// The id of the container that a process runs in, by its control group, as CRI-O and containerd name it with either driver
/// of cgroups: `crio-ID.scope`, `cri-containerd-ID.scope` or `ID`. None outside of a pod.
pub fn container_of(group: &str) -> Option<&str> {
    let is_id = |text: &&str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let names = group.contains("kubepods").then(|| group.split('/'))?;
    names.filter_map(|name| name.trim_end_matches(".scope").rsplit('-').next()).find(is_id)
}

/// The container in which a process itself runs: as [`container_of`], without the processes that a runtime has beside a container,
/// such as CRI-O's `crio-conmon-ID.scope`.
pub fn container_in(group: &str) -> Option<&str> {
    let id = container_of(group)?;
    let is_beside = |name: &str| name.contains(id) && name.contains("conmon");
    (!group.split('/').any(is_beside)).then_some(id)
}

/// The part of a cgroup's path that all containers of one pod share: the pod's own group, by the kubelet's drivers
/// `systemd` (`kubepods-burstable-pod<uid>.slice`) and `cgroupfs` (`kubepods/burstable/pod<uid>`): kubernetes
/// `pkg/kubelet/cm/pod_container_manager_linux.go`. Without such a name, the whole path.
pub fn pod_of(group: &str) -> &str {
    let in_kubepods = group.contains("kubepods");
    let is_pod = |name: &&str| name.starts_with("pod") || name.contains("-pod");
    group.split('/').find(|name| in_kubepods && is_pod(name)).unwrap_or(group)
}

/// No process but this one has anything open in a directory.
pub fn nobody_in(host: &Host, dir: &AbsPath) -> anyhow::Result<()> {
    let open = filelock::open_below(host, dir.as_path())?;
    match open.iter().find(|open| open.holder.pid != Some(std::process::id())) {
        Some(open) => fail!(FilesOpen, "{} has files open in {dir}: end it first", open.holder),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_is_in_the_name_of_its_group() {
        let id = "3f4b8c0e6f0a4d2b9c1e7a5d8f6b3c2a1e0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b";
        for group in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5c1f.slice/crio-{id}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod5c1f.slice/cri-containerd-{id}.scope"),
            format!("/kubepods.slice/kubepods-pod5c1f.slice/crio-{id}.scope/container"),
            format!("/kubepods/burstable/pod77/{id}"),
        ] {
            assert_eq!(container_of(&group), Some(id), "{group}");
        }
        for outside in [format!("/machine.slice/libpod-{id}.scope"), "/kubepods/pod77/9f".into(), "/".into()]
        {
            assert_eq!(container_of(&outside), None, "{outside}");
        }
    }

    #[test]
    fn containers_of_one_pod_share_its_group() {
        let of = |container: &str| {
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5c1f.slice/crio-{container}.scope"
            )
        };
        assert_eq!(pod_of(&of("1")), "kubepods-burstable-pod5c1f.slice");
        // Seen from a container with a cgroup namespace of its own.
        assert_eq!(pod_of(&format!("/../../..{}", of("2"))), pod_of(&of("1")));
        assert_eq!(pod_of("/kubepods/burstable/pod77/9f"), "pod77");
        let other = "/kubepods.slice/kubepods-pod77.slice/crio-1.scope";
        assert_ne!(pod_of(other), pod_of(&of("1")));
        for outside in ["/system.slice/podman-backup.service", "/system.slice/a-pod.service", "/", ""] {
            assert_eq!(pod_of(outside), outside);
        }
    }
}
