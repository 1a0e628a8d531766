//! What a plan is made from: the config, and the facts that every decision needs.

use super::{
    quorum,
    refusal::Refusal,
    step::{
        AwaitMember, CatchUp, Copy, MountData, NodeStep, Preflight, ProtocolStep, StartEtcd, Step, StopEtcd,
        Way,
    },
};
use config::{Config, Runtime};
use node::{
    Etcd, Fact, LocalDir, LunView, Node,
    authority::{Authority, Record},
};

/// Who asks for a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// A person, on a node in use. The plan may stop and start etcd.
    ByHand,
    /// The service at boot, and its later attempts in the background. The plan does not stop an etcd that serves, because
    /// nobody has checked that the other members are healthy. It does not wait for etcd, because etcd waits for the service.
    Boot,
}

/// The facts that every decision needs. Each of them is known.
#[derive(Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) config: &'a Config,
    pub(super) node: &'a Node,
    pub(super) occasion: Occasion,
    pub(super) record: Option<&'a Record>,
    pub(super) local: &'a LocalDir,
    pub(super) etcd: &'a Etcd,
}

/// True if etcd stays on its local disk because the config says so: nothing was committed, and the entry has `migrate = false`.
pub fn is_held(config: &Config, node: &Node) -> bool {
    !config.node.migrate && node.is_without_commit()
}

impl<'a> PlanInput<'a> {
    pub(super) fn new(config: &'a Config, node: &'a Node, occasion: Occasion) -> Result<Self, Refusal> {
        if !*require("the mount namespace", &node.in_host_namespace)? {
            return Err(Refusal::OtherNamespace);
        }
        let input = Self {
            config,
            node,
            occasion,
            record: require(RECORD_FACT, &node.record)?.as_ref(),
            local: require("the data directory on the local disk", &node.local)?,
            etcd: require("whether etcd runs", &node.etcd)?,
        };
        if let Some(record) = input.record
            && record.data_dir != config.etcd.data_dir
        {
            return Err(Refusal::OtherDataDir {
                recorded: record.data_dir.to_string(),
                configured: config.etcd.data_dir.to_string(),
            });
        }
        if !input.etcd.exists {
            return Err(Refusal::NoEtcd { unit: input.etcd.name.clone() });
        }
        Ok(input)
    }

    pub(super) fn lun_view(&self) -> Result<&'a LunView, Refusal> {
        require("the LUN", &self.node.lun)
    }

    pub(super) fn data_dir(&self) -> String {
        self.config.etcd.data_dir.to_string()
    }

    /// Stops etcd, if it runs, before a step changes its directory. By hand it refuses if the other members cannot do without
    /// this one.
    pub(super) fn stop_etcd(&self) -> Result<Option<Step>, Refusal> {
        self.check_may_stop()?;
        let needs_quorum = self.needs_quorum();
        Ok(self.if_running(|runtime| StopEtcd { runtime, needs_quorum, whole_pod: true }))
    }

    /// Returns that stop, with a try before it of everything that the steps after the stop need, and with the copy
    /// brought up to date as late as possible. Of a static pod only etcd itself has ended after it: see
    /// [`Self::copy_and_prove`].
    pub(super) fn stop_etcd_to_move(&self, way: Way) -> Result<Vec<Step>, Refusal> {
        self.check_may_stop()?;
        let whole_pod = !matches!(self.config.etcd.runtime, Runtime::StaticPod { .. });
        let needs_quorum = self.needs_quorum();
        let stop = self.if_running(|runtime| StopEtcd { runtime, needs_quorum, whole_pod });
        let Some(stop) = stop else { return Ok(Vec::new()) };
        let (from, runtime) = (self.config.etcd.data_dir.clone(), self.config.etcd.runtime.clone());
        let catch_up = CatchUp { from: from.clone(), way, limit: self.config.lun.max_switch };
        let preflight = Preflight { from, way, runtime };
        Ok(vec![
            Step::Node(NodeStep::Preflight(preflight)),
            Step::Protocol(ProtocolStep::CatchUp(catch_up)),
            stop,
        ])
    }

    /// The copy that counts, and its proof.
    ///
    /// A static pod's other containers may take up to their whole grace period, during which the member is away for nothing. So
    /// the copy is made and proven meanwhile. It counts only after they have ended, and if nobody has written since. A run
    /// that was killed meanwhile may have left such containers. The next run waits for them first.
    pub(super) fn copy_and_prove(&self, copy: Copy) -> Vec<Step> {
        // Where etcd runs, `CatchUp` has mounted the LUN anew.
        let afresh = !self.etcd.running;
        let prove = |provisional| {
            Step::Protocol(ProtocolStep::Prove {
                from: copy.from.clone(),
                way: copy.way,
                provisional,
                afresh,
            })
        };
        match &self.config.etcd.runtime {
            Runtime::StaticPod { manifest } if self.etcd.running => vec![
                Step::Protocol(ProtocolStep::Copy(Copy { provisional: true, ..copy.clone() })),
                prove(true),
                Step::Protocol(ProtocolStep::AwaitPodEnd { manifest: manifest.clone() }),
                Step::Protocol(ProtocolStep::Confirm(Copy { onto_empty: false, ..copy })),
            ],
            Runtime::StaticPod { manifest } if self.etcd.stopped_by_us => {
                let manifest = manifest.clone();
                vec![
                    Step::Protocol(ProtocolStep::AwaitPodEnd { manifest }),
                    Step::Protocol(ProtocolStep::Copy(copy.clone())),
                    prove(false),
                ]
            }
            Runtime::StaticPod { .. } | Runtime::Systemd { .. } => {
                vec![Step::Protocol(ProtocolStep::Copy(copy.clone())), prove(false)]
            }
        }
    }

    /// Stops an etcd that takes no part in its cluster.
    pub(super) fn stop_etcd_without_question(&self) -> Option<Step> {
        self.if_running(|runtime| StopEtcd { runtime, needs_quorum: false, whole_pod: true })
    }

    fn needs_quorum(&self) -> bool {
        self.occasion == Occasion::ByHand && !self.config.cluster.without_quorum
    }

    fn if_running(&self, stop: impl FnOnce(Runtime) -> StopEtcd) -> Option<Step> {
        self.etcd
            .running
            .then(|| Step::Protocol(ProtocolStep::StopEtcd(stop(self.config.etcd.runtime.clone()))))
    }

    /// Refuses by hand if etcd runs and the other members cannot do without this one.
    pub(super) fn check_may_stop(&self) -> Result<(), Refusal> {
        match self.occasion {
            Occasion::ByHand => quorum::may_stop(self.config, self.etcd, self.node.cluster.as_ref()),
            Occasion::Boot => Ok(()),
        }
    }

    /// Starts etcd. By hand [`Self::await_member`] comes after it.
    pub(super) fn start_etcd(&self, on: Authority) -> Step {
        Self::start_etcd_of(self.config, on, self.occasion)
    }

    /// Returns the plan where not all facts are known.
    pub(super) fn start_etcd_of(config: &Config, on: Authority, occasion: Occasion) -> Step {
        Step::Protocol(ProtocolStep::StartEtcd(StartEtcd {
            runtime: config.etcd.runtime.clone(),
            data_dir: config.etcd.data_dir.clone(),
            on,
            wait: occasion == Occasion::ByHand,
        }))
    }

    /// Waits until this node's member serves; by hand only. Without a quorum there may be no leader to wait for.
    pub(super) fn await_member(&self) -> Option<Step> {
        let cluster = &self.config.cluster;
        let may_be_learner = match &self.node.cluster {
            Some(Fact::Known(cluster)) => cluster.own.learner,
            // etcd did not answer before. Whether it has a vote is not etcd-lun's doing.
            Some(Fact::Unknown(_)) | None => true,
        };
        let (url, limit) = (cluster.client_url.clone(), cluster.serve_timeout);
        (self.occasion == Occasion::ByHand && !cluster.without_quorum)
            .then_some(Step::Node(NodeStep::AwaitMember(AwaitMember { url, limit, may_be_learner })))
    }

    /// Refuses if etcd does not run and a process has its database open all the same.
    pub(super) fn check_database_free(&self) -> Result<(), Refusal> {
        if self.etcd.running || self.etcd.lock_holders.is_empty() {
            Ok(())
        } else {
            Err(self.database_held())
        }
    }

    pub(super) fn database_held(&self) -> Refusal {
        Refusal::DatabaseHeld { holders: self.etcd.lock_holders.join(", "), unit: self.etcd.name.clone() }
    }

    pub(super) fn mount_unit(&self) -> String {
        unit::mount_unit_name(&self.config.etcd.data_dir)
    }

    /// Mounts the filesystem that the record names.
    pub(super) fn mount_data(&self, record: &Record) -> Step {
        Step::Protocol(ProtocolStep::MountData(MountData {
            at: self.config.etcd.data_dir.clone(),
            wwid: record.wwid.clone(),
            uuid: record.uuid,
            options: self.config.lun.options_in_effect(),
        }))
    }
}

/// The record, as a refusal names it.
pub(super) const RECORD_FACT: &str = "which copy of etcd's data is authoritative (the record)";

/// The value of a fact. Refuses if the fact is unknown.
pub(super) fn require<'a, T>(what: &'static str, fact: &'a Fact<T>) -> Result<&'a T, Refusal> {
    fact.require().map_err(|why| Refusal::Unknown { what, why: why.to_owned() })
}
