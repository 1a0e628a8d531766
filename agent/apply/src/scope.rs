//! A systemd scope for a run by hand, so that the run does not end with its terminal's session or its pod.

use anyhow::{Context as _, ensure};
use host::{
    Host, cgroup,
    systemd::{self, SystemdError},
};
use node::layout::SCOPE;
use plan::Refusal;
use std::{path::Path, time::Duration};

/// Sends the processes that a killed run has left in the scope SIGTERM, and 90 s later SIGKILL (systemd's
/// `DefaultTimeoutStopSec=`).
const LEFT_LIMIT: Duration = Duration::from_secs(120);

/// Parts of the path of a container's cgroup: of the kubelet's pods, CRI-O, podman, docker and containerd.
const CONTAINERS: [&str; 5] = ["kubepods", "crio-", "libpod", "docker", "containerd"];

/// Moves this process into the scope. The caller holds the lock, so whatever is in the scope was left by a killed run; it is
/// ended first.
///
/// Returns why that failed, if it did. In a container this is a refusal: the container's end would end the run in the
/// middle, without a word.
pub fn enter(host: &Host, verb: &str) -> Result<Option<String>, Refusal> {
    let Err(error) = move_into_scope(host, verb) else { return Ok(None) };
    let why = format!("{error:#}");
    // Unknown counts as a container.
    match is_in_container(host) {
        Ok(false) => Ok(Some(why)),
        Ok(true) | Err(_) => Err(Refusal::EndsWithContainer { why }),
    }
}

fn move_into_scope(host: &Host, verb: &str) -> anyhow::Result<()> {
    if is_in_scope(host)? {
        return Ok(());
    }
    match systemd::stop(host, SCOPE, LEFT_LIMIT) {
        Ok(()) | Err(SystemdError::NoSuchUnit { .. }) => {}
        Err(error) => return Err(error).context("ending what an earlier run left"),
    }
    systemd::enter_scope(host, SCOPE, &format!("etcd-lun {verb}, run by hand"))?;
    ensure!(is_in_scope(host)?, "systemd made {SCOPE}, but this process is not in it");
    Ok(())
}

fn is_in_scope(host: &Host) -> anyhow::Result<bool> {
    let own = cgroup::of(host, "self").context("reading the cgroup of this process")?;
    Ok(own.is_some_and(|group| Path::new(&group).file_name() == Path::new(SCOPE).file_name()))
}

fn is_in_container(host: &Host) -> anyhow::Result<bool> {
    let own = cgroup::of(host, "self")?.unwrap_or_default();
    Ok(CONTAINERS.iter().any(|part| own.contains(part)) || cgroup::is_in_namespace_of_its_own(host)?)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // the machine of a test
mod tests {
    use super::*;
    use host::{Root, transcript::NoTools};
    use std::{fs, os::unix::fs::symlink};

    /// A machine without systemd: who runs there, and what becomes of it.
    fn without_systemd(test: &str, cgroup: &str, own_namespace: bool) -> Result<Option<String>, Refusal> {
        let base = std::env::temp_dir().join(format!("etcd-lun-scope-{test}-{}", std::process::id()));
        for process in ["self", "1"] {
            fs::create_dir_all(base.join("proc").join(process).join("ns")).unwrap();
        }
        fs::write(base.join("proc/self/cgroup"), cgroup).unwrap();
        symlink("cgroup:[1]", base.join("proc/1/ns/cgroup")).unwrap();
        let own = if own_namespace { "cgroup:[2]" } else { "cgroup:[1]" };
        symlink(own, base.join("proc/self/ns/cgroup")).unwrap();
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        let entered = enter(&host, "apply");
        fs::remove_dir_all(&base).unwrap();
        entered
    }

    #[test]
    fn a_shell_without_systemd_runs_with_a_warning() {
        for (test, cgroup) in [("rescue", "0::/\n"), ("ssh", "0::/user.slice/session-1.scope\n")] {
            let why = without_systemd(test, cgroup, false).unwrap().unwrap();
            assert!(why.contains("connecting to the system bus"), "{why}");
        }
    }

    #[test]
    fn a_container_without_systemd_is_refused() {
        for (test, cgroup, own_namespace) in [
            ("pod", "0::/kubepods.slice/kubepods-pod1.slice/crio-1.scope\n", false),
            ("namespace", "0::/\n", true),
            ("podman", "1:name=systemd:/machine.slice/libpod-1.scope\n0::/\n", false),
        ] {
            let refusal = without_systemd(test, cgroup, own_namespace).unwrap_err();
            assert!(matches!(refusal, Refusal::EndsWithContainer { .. }), "{refusal}");
        }
    }

    #[test]
    fn who_is_in_the_scope_stays_there() {
        let cgroup = format!("0::/../../system.slice/{SCOPE}\n");
        assert_eq!(without_systemd("inside", &cgroup, true), Ok(None));
    }
}
