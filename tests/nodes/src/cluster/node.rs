//! The node's etcd as a member: its certificates and its settings.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use super::certificates::{Certificates, ON_NODE};
use super::seat::Seat;
use crate::delivery::EtcdRunner;
use crate::image::ETCD_POD;
use crate::node::Node;

/// The settings, as lines of `KEY=VALUE`.
const SETTINGS: &str = "/etc/etcd-cluster.env";

/// Writes a member's certificates and settings into a node. They take effect when etcd starts again.
pub fn prepare(
    node: &Node,
    runner: EtcdRunner,
    seat: &Seat,
    certificates: &Certificates,
    first: &[Seat],
) -> Result<()> {
    // A node that went back to a snapshot has the time of the snapshot. The certificates are not valid then.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut script = format!("set -e; date --set @{now} >/dev/null; rm -rf {ON_NODE}/secrets\n");
    for path in Certificates::files_of(&seat.name) {
        let content = fs::read_to_string(certificates.dir().join(&path))?;
        script += &format!(
            "mkdir -p $(dirname {ON_NODE}/{path}); cat >{ON_NODE}/{path} <<'END-OF-FILE'\n{content}END-OF-FILE\n"
        );
    }
    let settings = seat.environment(ON_NODE, first, "new");
    let lines: String = settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    script += &format!(
        "chown -R etcd: {ON_NODE}; chmod 600 {ON_NODE}/secrets/*/*.key
         cat >{SETTINGS} <<'END-OF-FILE'\n{lines}END-OF-FILE\n{}",
        settings_for(runner, seat, &settings)
    );
    node.ok(&script).map(drop)
}

/// Makes etcd's runner read the settings.
fn settings_for(runner: EtcdRunner, seat: &Seat, settings: &[(String, String)]) -> String {
    match runner {
        EtcdRunner::Unit => format!(
            "mkdir -p /etc/systemd/system/etcd.service.d
             printf '[Service]\\nEnvironmentFile={SETTINGS}\\n' >/etc/systemd/system/etcd.service.d/50-cluster.conf
             systemctl daemon-reload"
        ),
        // The manifest has the member's name and address, and values of its own for some settings.
        EtcdRunner::StaticPod => {
            let (Seat { name, address }, underscored) = (seat, seat.name.replace('-', "_"));
            let of_setting = |(key, value): &(String, String)| format!("; /name: {key},/s#value: .*}}#value: \"{value}\"}}#");
            let settings: String = settings.iter().map(of_setting).collect();
            format!(
                "sed -i 's/master-0/{name}/g; s/master_0/{underscored}/g; s/10\\.79\\.0\\.2\\b/{address}/g{settings}' /{ETCD_POD}
                 sed -n 's/^ETCD_INITIAL_CLUSTER=//p' {SETTINGS} >$(dirname /{ETCD_POD})/initial-cluster"
            )
        }
    }
}

/// Starts etcd again. Returns when it answers.
pub fn restart(node: &Node, runner: EtcdRunner) -> Result<()> {
    let restart = match runner {
        EtcdRunner::Unit => "systemctl restart etcd.service".to_string(),
        EtcdRunner::StaticPod => format!(
            "cd /etc/kubernetes/manifests; rm etcd-pod.yaml; until [ -z \"$(ls /run/kubelet-stand-in)\" ]; do sleep 0.5; done
             install -m 600 /{ETCD_POD} ."
        ),
    };
    node.ok(&format!("{restart}; {ANSWERS}")).map(drop)
}

/// Waits until the node's etcd answers and has a leader.
pub const ANSWERS: &str =
    "since=$(date +%s); until etcdctl --command-timeout 2s endpoint health >/dev/null 2>&1; do
    [ $(($(date +%s) - since)) -lt 90 ] || { echo 'etcd does not answer' >&2; exit 1; }; sleep 0.3; done";
