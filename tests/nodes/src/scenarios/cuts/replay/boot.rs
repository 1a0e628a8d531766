//! Computes what `etcd-lun apply --boot` would do, with the program's own `observe` and `plan`.
//!
//! The program's own readers read record, stamp, data and the LUN's content from the disks. What systemd
//! reports is a stand-in: etcd is enabled and waits for the service, the mount unit is as rendered, no daemon
//! runs.

use std::fs;
use std::path::{Path, PathBuf};

use ::host::exec::SEARCH;
use ::host::staging::{self, Access, Staging};
use ::host::{ExecError, Host, Invocation, Output, Root, Runner, Tool, block, identity};
use anyhow::{Context, Result, anyhow, bail};
use config::{Config, MAIN_FILE, Source};
use hands::{Direct, Door, Requester};
use node::layout::STAGING;
use node::{Etcd, EtcdState, Fact, Identity, LocalDir, LunView, Node};
use observe::{self, Asked, Viewpoint};
use plan::{Occasion, ProtocolStep, Step, plan};

use super::machine::Machine;
use crate::host;
use crate::image::HOSTNAME;

/// The data directory in the bed's config.
pub const DATA_DIR: &str = "/var/lib/etcd";

/// The limit of rounds. A plan that needs more rounds than `apply` has would never finish.
const ROUNDS: usize = 5;

/// The copy on which etcd starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootCopy {
    /// The LUN's copy. After a commit that was cut short, the boot may first have to retire the local data.
    Lun {
        /// Whether the boot retires the local data first.
        retires: bool,
    },
    /// The local data, which the boot migrates.
    Local,
    /// The local data, because it was rolled back on purpose.
    RolledBack,
    /// The copy that a rollback has proven and committed, but not yet put in the data directory's place.
    Returning {
        /// The generation of the copy.
        generation: u64,
    },
}

/// The decision, and the LUN's mount if the decision needed one.
#[derive(Debug)]
pub struct Booted {
    /// The copy on which etcd starts.
    pub copy: BootCopy,
    _staged: Option<Staging>,
}

/// Observes and plans as `apply --boot` does, until it is known on which copy etcd starts. Writes the last
/// observed facts to the file.
pub fn decide(machine: &Machine, facts: &Path) -> Result<Booted> {
    let runner = Tools { root: machine.root().to_path_buf() };
    let host = Host::fixture(Root::new(machine.root()), Box::new(runner))?;
    let machine_id = identity::machine_id(&host)?;
    let source = Source { path: MAIN_FILE.into(), text: host.root.read(MAIN_FILE)? };
    let config = Config::load(&[source], &machine_id, HOSTNAME)
        .context("cannot load the config on the node's disk")?;
    let door = Door::to(&host, Requester::Person, Box::new(Direct::by_hand(&config)));
    let identity =
        Identity { machine_id, hostname: HOSTNAME.into(), former_name: None, joined_host_namespace: false };
    let (mut staged, mut retires, mut fences) = (None, false, false);
    for _ in 0..ROUNDS {
        let from = Viewpoint::Apply { staged: staged.as_ref() };
        let mut node = observe::node(&door, &config, identity.clone(), from, Asked::NOTHING);
        as_at_boot(&mut node);
        if fences {
            // The steps that lead to this state are planned before anything about the LUN is needed.
            node.local = Fact::Known(fenced());
        }
        fs::write(facts, serde_json::to_string_pretty(&node)?)?;
        let planned = plan(&config, &node, Occasion::Boot).map_err(|refusal| {
            anyhow!("the boot refuses, so an administrator would have to help: {refusal}")
        })?;
        match &planned.steps[..] {
            [Step::Protocol(ProtocolStep::Stage { .. })] => staged = Some(stage(&host, &node)?),
            [Step::Protocol(ProtocolStep::Retire(_)), Step::Protocol(ProtocolStep::Fence { .. })] => {
                (retires, fences) = (true, true)
            }
            [Step::Protocol(ProtocolStep::Fence { .. })] => fences = true,
            steps => {
                let has = |wanted: fn(&Step) -> bool| steps.iter().any(wanted);
                let returning = steps.iter().find_map(|step| match step {
                    Step::Protocol(ProtocolStep::Return { generation, .. }) => Some(*generation),
                    _ => None,
                });
                let mounts = has(|step| matches!(step, Step::Protocol(ProtocolStep::MountData(_))));
                let copy = if let Some(generation) = returning.filter(|_| !mounts) {
                    BootCopy::Returning { generation }
                } else if has(|step| matches!(step, Step::Protocol(ProtocolStep::Commit { .. }))) {
                    BootCopy::Local
                } else if mounts && staged.is_some() {
                    BootCopy::Lun { retires }
                } else if planned.is_empty() && node.rolled_back().is_some() {
                    BootCopy::RolledBack
                } else {
                    bail!("the boot has an unexpected plan: {planned:?}");
                };
                return Ok(Booted { copy, _staged: staged });
            }
        }
    }
    bail!("the boot still has a new plan after {ROUNDS} rounds")
}

fn as_at_boot(node: &mut Node) {
    node.mount = Fact::Known(None);
    node.mounted_stamp = Fact::Known(None);
    node.initiator.multipathd_active = Fact::Known(false);
    node.etcd = Fact::Known(Etcd {
        name: "etcd.service".into(),
        exists: true,
        state: EtcdState::Unit("inactive".into()),
        running: false,
        enabled: true,
        start_queued: true,
        stopped_by_us: false,
        by_pacemaker: None,
        lock_holders: Vec::new(),
        other_place: Fact::Known(None),
    });
}

fn fenced() -> LocalDir {
    let (entries, immutable) = (Vec::new(), Some(true));
    LocalDir::Present { entries, barred: true, immutable, fingerprint: None, with_state: true, size: None }
}

/// Makes the program's own staging mount, which replays the LUN's log.
fn stage(host: &Host, node: &Node) -> Result<Staging> {
    let Some(LunView::Seen(lun)) = node.lun.known() else { bail!("there is no LUN to mount") };
    let device = block::node(&lun.device)?;
    let place = STAGING.parse()?;
    let make = || {
        let disk = std::fs::File::open(host.root.locate(device.as_path()))?;
        staging::detached(disk, Access::ReadWrite, "")
    };
    Staging::attach(host, device.as_path(), &place, &[], make).context("cannot mount the LUN")
}

/// Runs the host's tools. `has` looks for the node's tools.
#[derive(Debug)]
struct Tools {
    root: PathBuf,
}

impl Runner for Tools {
    fn run(&self, what: &Invocation, _: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
        let mut tool = std::process::Command::new(what.tool.program());
        let output = host::run(tool.args(&what.args), what.limit);
        let io = |error| ExecError::Io { what: what.to_string(), source: std::io::Error::other(error) };
        let host::Output { code, stdout, stderr } = output.map_err(|error| io(format!("{error:#}")))?;
        Ok(Output { code, stdout, stderr })
    }

    fn has(&self, tool: Tool) -> bool {
        SEARCH.iter().any(|dir| self.root.join(&dir[1..]).join(tool.program()).exists())
    }
}
