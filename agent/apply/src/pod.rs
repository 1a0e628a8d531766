//! The rest of etcd's pod, once etcd itself has ended.
//!
//! When the kubelet ends a pod, each container's first process gets SIGTERM, and after the grace period of 30 s SIGKILL. In
//! OpenShift's pod the container `etcdctl` always takes the whole 30 s: its shell ignores the signal, and `sleep`, for which
//! the shell waits, does not get it (cluster-etcd-operator `bindata/etcd/pod.gotpl.yaml`). At a shutdown of the node systemd
//! signals every process of a container, and this one ends at once. So each process of the other containers gets SIGTERM here,
//! as soon as etcd has ended. The time in which one of them could still write to the data is shorter too.
//!
//! The kubelet ends the same pod meanwhile, and sees containers that end in their grace period. A container that does not end is
//! the kubelet's to kill, as before.

use super::users::{container_in, pod_of};
use anyhow::Context as _;
use host::{
    Host, cgroup, cri, filelock,
    process::{self, Asked},
};
use terms::AbsPath;

/// The pod of an etcd, by the name of its cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdPod(pub String);

impl EtcdPod {
    /// The pod of the process that holds the database's lock; none if there is no such process, or not one only, or if it is in no
    /// pod.
    pub fn of_running(host: &Host, data_dir: &AbsPath) -> anyhow::Result<Option<Self>> {
        let lockers = filelock::lock_holders(host, node::database(data_dir).as_path())
            .context("looking for etcd's process")?;
        let [filelock::Holder { pid: Some(etcd), .. }] = lockers.as_slice() else { return Ok(None) };
        let group = cgroup::of(host, etcd)?;
        Ok(group.filter(|group| container_in(group).is_some()).map(|group| Self(pod_of(&group).to_owned())))
    }

    /// Its UID. The `systemd` driver writes it with underscores.
    pub fn uid(&self) -> String {
        let uid = self.0.rsplit_once("pod").map_or("", |(_, uid)| uid);
        uid.trim_end_matches(".slice").replace('_', "-")
    }

    /// Asks each process of these containers of the pod to end. Returns those that were asked; none if there is no crictl. A
    /// container of the same name in another pod is left alone.
    pub fn ask_to_end(&self, host: &Host, containers: &[&str]) -> anyhow::Result<Vec<Asked>> {
        let Some(running) = cri::running(host, &self.uid(), containers)? else { return Ok(Vec::new()) };
        let ids: Vec<_> = running.into_iter().flat_map(|container| container.ids).collect();
        let is_one = |pid: u32| -> std::io::Result<bool> {
            let group = cgroup::of(host, pid)?;
            Ok(group.is_some_and(|group| {
                pod_of(&group) == self.0
                    && container_in(&group).is_some_and(|id| ids.iter().any(|one| one == id))
            }))
        };
        let mut asked = Vec::new();
        for pid in process::all(host)? {
            if is_one(pid)? {
                asked.extend(process::terminate_if(pid, || is_one(pid))?);
            }
        }
        Ok(asked)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test has processes of its own")]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::Transcript};
    use std::{os::unix::process::ExitStatusExt as _, process::Command};

    const ETCDCTL: &str = "3f4b8c0e6f0a4d2b9c1e7a5d8f6b3c2a1e0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b";
    const OF_ANOTHER_POD: &str = "aa4b8c0e6f0a4d2b9c1e7a5d8f6b3c2a1e0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b";

    /// Of the processes with these names of cgroups only the first two are asked: the container's own, and one below it.
    #[test]
    fn only_the_processes_of_those_containers_of_that_pod() {
        let machine = Files::new("etcd-pod");
        let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5c1f.slice";
        let groups = [
            format!("{pod}/crio-{ETCDCTL}.scope"),
            format!("{pod}/crio-{ETCDCTL}.scope/container"),
            // It tells CRI-O how the container ended.
            format!("{pod}/crio-conmon-{ETCDCTL}.scope"),
            format!("{pod}/crio-{}.scope", "0".repeat(64)),
            format!("/kubepods.slice/kubepods-pod77.slice/crio-{OF_ANOTHER_POD}.scope"),
            "/system.slice/kubelet.service".to_owned(),
        ];
        let mut children: Vec<_> =
            groups.iter().map(|_| Command::new("sleep").arg("60").spawn().unwrap()).collect();
        for (child, group) in children.iter().zip(&groups) {
            machine.put(&format!("proc/{}/cgroup", child.id()), &format!("0::{group}\n"));
        }
        let answer = format!("{ETCDCTL}\n{OF_ANOTHER_POD}\n");
        let ask =
            "crictl ps --label io.kubernetes.container.name=etcdctl --label io.kubernetes.pod.uid=5c1f -q";
        let host =
            Host::fixture(Root::new(&machine.0), Box::new(Transcript::default().on(ask, 0, &answer, "")))
                .unwrap();
        let etcd_pod = EtcdPod("kubepods-burstable-pod5c1f.slice".into());
        let asked = etcd_pod.ask_to_end(&host, &["etcdctl"]).unwrap();
        assert_eq!(asked.len(), 2);
        for child in &mut children[..2] {
            assert_eq!(child.wait().unwrap().signal(), Some(15));
        }
        assert!(asked.iter().all(Asked::has_ended));
        let with_dashes = EtcdPod("kubepods-burstable-pod5c1f_aa_77.slice".into());
        assert_eq!([with_dashes.uid(), EtcdPod("pod5c1f-aa".into()).uid()], ["5c1f-aa-77", "5c1f-aa"]);
        for child in &mut children[2..] {
            assert!(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
