//! What will be done, or why nothing will. Pure: config and facts in, steps or a refusal out.
//!
//! All behaviour is decided here. A plan can't see past a step that reveals new facts (before
//! login there is no LUN to look at), so it ends at a horizon and says so; `apply` observes and
//! plans again until nothing is left.
//!
//! * [`reach`]: from nothing to a LUN that can be looked at
//! * [`lun`]: is it the right one, and free
//! * [`migrate`]: from the local disk to the LUN
//! * [`resume`]: the LUN is the truth: fence, count, mount, start
//! * [`mark`]: count once more while etcd runs on the LUN
//! * [`retired`]: when the old local data may go
//! * [`rollback`]: from the LUN back to the local disk
#![deny(clippy::wildcard_enum_match_arm)]

mod lun;
mod mark;
mod migrate;
mod reach;
mod refusal;
mod resume;
mod retired;
mod rollback;
pub mod step;

pub use mark::{Idle, Mark, mark};
pub use refusal::Refusal;
pub use retired::may_delete;
pub use rollback::rollback;
pub use step::{Step, Way};

use crate::{
    config::Config,
    node::{
        Etcd, Fact, LocalDir, LunView, MountUnit, Node, Selinux, authority::Authority, authority::Record,
    },
    unit,
};
use serde::Serialize;
use std::fmt;
use step::{MountData, StartEtcd};

/// Steps in their order, and what can't be planned yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What can be decided now.
    pub steps: Vec<Step>,
    /// The question that the last step will answer; none when the plan is whole.
    pub horizon: Option<Horizon>,
}

/// What must be seen before more can be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Horizon {
    /// What the LUN holds.
    Lun,
    /// What its stamp says, which needs its log replayed.
    Stamp,
    /// The LUN, mounted where etcd uses it.
    Mount,
    /// Which sessions nobody uses any more.
    Sessions,
}

impl fmt::Display for Horizon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lun => "further steps depend on what the LUN is and holds",
            Self::Stamp => "further steps depend on the LUN's stamp",
            Self::Mount => "further steps begin with the LUN mounted",
            Self::Sessions => "then sessions that nobody uses any more are logged out",
        })
    }
}

impl Plan {
    fn whole(steps: Vec<Step>) -> Self {
        Self { steps, horizon: None }
    }

    fn until(steps: Vec<Step>, horizon: Horizon) -> Self {
        Self { steps, horizon: Some(horizon) }
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.horizon.is_none()
    }
}

/// Who asks for a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// A person, on a node in use: etcd is stopped and started as it takes.
    ByHand,
    /// The service at boot, and its tries in the background later: an etcd that serves isn't stopped, for nobody has
    /// seen to it that the other members are well; and nothing waits for etcd, which waits for the service.
    Boot,
}

/// Where a run is to bring etcd's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// To the LUN: `apply`.
    Lun(Occasion),
    /// Back to the local disk: `rollback`, by hand only.
    Local,
}

impl Goal {
    /// What brings the node there from what was seen.
    pub fn plan(self, config: &Config, node: &Node) -> Result<Plan, Refusal> {
        match self {
            Self::Lun(occasion) => plan(config, node, occasion),
            Self::Local => rollback(config, node),
        }
    }
}

/// Decides what brings the node to what the config wants.
pub fn plan(config: &Config, node: &Node, occasion: Occasion) -> Result<Plan, Refusal> {
    service_can_exchange(config, node)?;
    let sight = Sight::of(config, node, occasion)?;
    if let Some(record) = sight.record.filter(|record| record.rolled_back) {
        return rollback::resisted(&sight, record);
    }
    if let Some(mount) = require("what is mounted on the data directory", &node.mount)? {
        return resume::mounted(&sight, mount);
    }
    match sight.record {
        Some(record) if record.authority == Authority::Lun => resume::unmounted(&sight, record),
        Some(_) | None => migrate::plan(&sight),
    }
}

/// The facts that every decision needs, known.
#[derive(Debug)]
struct Sight<'a> {
    config: &'a Config,
    node: &'a Node,
    occasion: Occasion,
    record: Option<&'a Record>,
    local: &'a LocalDir,
    etcd: &'a Etcd,
}

impl<'a> Sight<'a> {
    fn of(config: &'a Config, node: &'a Node, occasion: Occasion) -> Result<Self, Refusal> {
        if !*require("the mount namespace", &node.in_host_namespace)? {
            return Err(Refusal::OtherNamespace);
        }
        let sight = Self {
            config,
            node,
            occasion,
            record: require("which copy is the truth (the record)", &node.record)?.as_ref(),
            local: require("the data directory on the local disk", &node.local)?,
            etcd: require("whether etcd runs", &node.etcd)?,
        };
        if let Some(record) = sight.record
            && record.data_dir != config.etcd.data_dir
        {
            return Err(Refusal::OtherDataDir {
                recorded: record.data_dir.to_string(),
                configured: config.etcd.data_dir.to_string(),
            });
        }
        if !sight.etcd.exists {
            return Err(Refusal::NoEtcd { unit: sight.etcd.name.clone() });
        }
        Ok(sight)
    }

    fn view(&self) -> Result<&'a LunView, Refusal> {
        require("the LUN", &self.node.lun)
    }

    fn data_dir(&self) -> String {
        self.config.etcd.data_dir.to_string()
    }

    /// The steps that take etcd down before something is done to its directory.
    fn stop_etcd(&self) -> Option<Step> {
        self.etcd.running.then(|| Step::StopEtcd { runtime: self.config.etcd.runtime.clone() })
    }

    fn mount_unit(&self) -> String {
        unit::mount_unit_name(&self.config.etcd.data_dir)
    }

    fn start_etcd(&self, on: Authority) -> Step {
        Step::StartEtcd(StartEtcd {
            runtime: self.config.etcd.runtime.clone(),
            data_dir: self.config.etcd.data_dir.clone(),
            on,
            wait: self.occasion == Occasion::ByHand,
        })
    }

    /// The refusal where somebody has the database open though etcd does not run.
    fn database_is_free(&self) -> Result<(), Refusal> {
        if self.etcd.running || self.etcd.lock_holders.is_empty() {
            return Ok(());
        }
        let (holders, unit) = (self.etcd.lock_holders.join(", "), self.etcd.name.clone());
        Err(Refusal::DatabaseHeld { holders, unit })
    }

    /// The step that has PID 1 mount what the record names.
    fn mount_data(&self, record: &Record) -> Step {
        Step::MountData(MountData {
            unit: self.mount_unit(),
            at: self.config.etcd.data_dir.clone(),
            wwid: record.wwid.clone(),
            uuid: record.uuid,
            label: self.config.lun.label.clone(),
            options: self.config.lun.mount_options.clone(),
        })
    }
}

/// The policy module lets the service make and exchange names in `/var/lib`, and in what has its type: where the data
/// directory lies elsewhere, a person could migrate, and no boot after that would bring etcd up.
fn service_can_exchange(config: &Config, node: &Node) -> Result<(), Refusal> {
    const TYPE: &str = "var_lib_t";
    if matches!(&node.record, Fact::Known(Some(record)) if record.rolled_back) {
        return Ok(()); // nothing will be exchanged, or only back
    }
    let Selinux::On { beside, .. } = require("SELinux", &node.selinux)? else { return Ok(()) };
    let label = beside.as_deref().unwrap_or("unlabelled");
    if label.split(':').nth(2) == Some(TYPE) {
        return Ok(());
    }
    Err(Refusal::OtherLabel {
        parent: config.etcd.data_dir.parent().to_string(),
        found: label.to_owned(),
        wanted: TYPE,
    })
}

/// The value of a fact, or the refusal to act without it.
fn require<'a, T>(what: &'static str, fact: &'a Fact<T>) -> Result<&'a T, Refusal> {
    fact.require().map_err(|why| Refusal::Unknown { what, why: why.to_owned() })
}

/// The data can only be mounted by a unit that says what we mean.
fn mount_unit(sight: &Sight<'_>) -> Result<(), Refusal> {
    let found = match require("the mount unit", &sight.node.mount_unit)? {
        MountUnit::Right => return Ok(()),
        MountUnit::Absent => "systemd knows none".to_owned(),
        MountUnit::Differs { path, how } => format!("{path} is not what this config asks for: {how}"),
        MountUnit::NotLoaded => "its file has changed since systemd read it".to_owned(),
    };
    Err(Refusal::MountUnit { unit: sight.mount_unit(), found })
}
