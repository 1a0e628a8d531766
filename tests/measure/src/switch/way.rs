//! The ways in which etcd is away for a while, and their commands.

use std::fmt;

use clap::ValueEnum;

/// What runs etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Runtime {
    /// `etcd.service`.
    Systemd,
    /// The stand-in for the kubelet and its pod, whose sidecar takes its whole grace period to end.
    StaticPod,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runtime::Systemd => "systemd",
            Runtime::StaticPod => "static pod",
        })
    }
}

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// A restart on the same disk.
    Restart,
    /// The same, but every process of the pod gets SIGTERM once etcd has ended. A unit has no others.
    EndedEarly,
    /// A restart with nothing of the database in memory: what etcd's start on a cold disk takes.
    Cold,
    /// iSCSI, XFS and rsync by hand.
    ByHand,
    /// `etcd-lun apply`.
    Apply,
    /// A restart on the LUN, after `apply`: what etcd's own stop and start take on the LUN.
    RestartOnLun,
}

impl Way {
    /// All of them, in the order of the table's columns.
    pub const ALL: [Way; 6] =
        [Way::Restart, Way::EndedEarly, Way::Cold, Way::ByHand, Way::Apply, Way::RestartOnLun];

    /// Whether a goal is set for it, or with it. Then it is measured several times, because etcd's election makes up to a second of it.
    pub fn has_goal(self) -> bool {
        matches!(self, Way::Restart | Way::EndedEarly | Way::Apply)
    }

    /// Whether each time of it begins with the snapshot. After a restart etcd has less of its log to read, so a restart that
    /// is compared with `apply` begins as `apply` does.
    pub fn begins_anew(self) -> bool {
        self != Way::RestartOnLun
    }

    /// What is run in the node. `$LUN` is the LUN's disk, which has an XFS for a move by hand.
    pub fn script(self, runtime: Runtime) -> String {
        let (stop, start) = match runtime {
            Runtime::Systemd => ("systemctl stop etcd.service", "systemctl start etcd.service"),
            Runtime::StaticPod => (STOP_POD, START_POD),
        };
        match (self, runtime) {
            (Way::Restart | Way::EndedEarly | Way::RestartOnLun, Runtime::Systemd) => {
                "systemctl restart etcd.service".into()
            }
            (Way::Restart | Way::RestartOnLun, Runtime::StaticPod) => format!("set -e\n{stop}\n{start}"),
            (Way::EndedEarly, Runtime::StaticPod) => format!("set -e\n{stop}\n{END_REST}\n{start}"),
            (Way::Cold, _) => format!("set -e\n{stop}\nsync; echo 3 >/proc/sys/vm/drop_caches\n{start}"),
            (Way::ByHand, _) => format!("set -e\n{stop}\n{MOVE}\n{start}"),
            (Way::Apply, _) => "etcd-lun apply".into(),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Restart => "plain restart",
            Way::EndedEarly => "restart, the rest of the pod ended early",
            Way::Cold => "restart, nothing in memory",
            Way::ByHand => "by hand",
            Way::Apply => "etcd-lun apply",
            Way::RestartOnLun => "restart on the LUN",
        })
    }
}

/// As an administrator does it: the manifest is taken away, and etcd's container is waited for. The kubelet's stand-in has one
/// file per container.
const STOP_POD: &str = "mv /etc/kubernetes/manifests/etcd-pod.yaml /root/
    while grep -qs '^etcd ' /run/kubelet-stand-in/*; do sleep 0.2; done";
const END_REST: &str = "for file in /run/kubelet-stand-in/*; do
    read -r _ pid _ <$file && pkill -TERM --ns $pid --nslist pid . || true; done";
const START_POD: &str = "mv /root/etcd-pod.yaml /etc/kubernetes/manifests/";

/// The middle of the runbook of `compare`.
const MOVE: &str = "mkdir -p /mnt/etcd; mount $LUN /mnt/etcd
    rsync -a /var/lib/etcd/ /mnt/etcd/
    umount /mnt/etcd
    echo \"$LUN /var/lib/etcd xfs defaults,prjquota,_netdev 0 0\" >>/etc/fstab
    systemctl daemon-reload
    mount /var/lib/etcd";
