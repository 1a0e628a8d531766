//! The node on which all ways are played, and its disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::client::{Client, Held};
use super::seen::{Place, Seen, Serving};
use super::way::Way;
use nodes::bed::Bed;
use nodes::cluster;
use nodes::host::{self, Output};
use nodes::image::ETCD_POD;
use nodes::net;
use nodes::scenarios::cuts::writer;
use nodes::scene::{self, LUN_SIZE};
use nodes::shared::Shared;
use nodes::stage::Stage;
use nodes::target::{self, Lun, Offer};
use nodes::vm::Disk;

/// The snapshot of a node before any move. Its etcd is a static pod and has keys.
const PLAIN: &str = "compare";
/// The name of the second disk in QEMU and its serial number.
const SECOND: &str = "second";
/// Number and size of large values. The database is then about as large as a small cluster's, so its copy
/// takes a while.
const BULK: (usize, usize) = (200, 100_000);
/// How long a starting etcd may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a client writes.
const WRITING: Duration = Duration::from_secs(6);
/// What the console shows when a boot ends because a local filesystem is missing.
const EMERGENCY: &str = "emergency.target";
/// How long etcd must not answer after such a boot.
const EMERGENCY_LASTS: Duration = Duration::from_secs(20);

/// The node and its client.
#[derive(Debug)]
pub struct Rig {
    /// The stage with the node and its target.
    pub stage: Stage,
    /// The client of the node's etcd.
    pub client: Client,
    /// The way that has just moved the node's etcd.
    pub moved: Option<Way>,
    /// What etcd held at first.
    before: Held,
}

impl Rig {
    /// Boots the node, prepares it for all ways, and takes the snapshot.
    pub fn build(bed: &Rc<Bed>, agent: &Path) -> Result<Self> {
        let mut stage = Stage::build(bed, agent, Shared::at(bed.run.dir().join("shared"))?)?;
        stage.strip()?;
        stage.node.put(
            "/var/usrlocal/bin/machine-config-daemon",
            0o755,
            include_bytes!("../../../nodes/guest/machine-config-daemon"),
        )?;
        for (name, script) in BY_HAND {
            stage.node.put(&format!("/root/{name}"), 0o755, script)?;
        }
        stage.node.ok(&format!(
            // The low dirty limits send writes to the disk soon, as happens where a copy is larger than the memory.
            "set -e; systemctl disable --quiet --now etcd.service
             printf 'vm.dirty_bytes = 8388608\\nvm.dirty_background_bytes = 4194304\\n' >/etc/sysctl.d/90-compare.conf
             sysctl --quiet --system
             mkdir -p /etc/kubernetes/manifests; chmod 700 /etc/kubernetes/manifests
             install -m 600 /{ETCD_POD} /etc/kubernetes/manifests/
             systemctl enable --quiet --now kubelet.service"
        ))?;
        let client = Client::new(cluster::namespace(bed));
        let mut rig = Self { stage, client, moved: None, before: Held { old: 0, revision: 0 } };
        rig.answers()?;
        rig.client.fill(BULK.0, BULK.1)?;
        rig.before = rig.answers()?;
        rig.stage.node.save(PLAIN)?;
        Ok(rig)
    }

    /// Goes back to the plain node, running, with the way's disk attached. The disk is blank or has this
    /// content.
    pub fn fresh(&mut self, way: Way, content: Option<&Path>) -> Result<()> {
        self.moved = None;
        let node = &mut self.stage.node;
        node.power_cut();
        node.vm().set_disks(Vec::new());
        node.load(PLAIN)?;
        let file = self.file(way);
        match content {
            Some(content) => copy(content, &file)?,
            None => target::blank(&file, LUN_SIZE)?,
        }
        if way.has_lun() {
            self.stage.target.offer(Offer::open(vec![Lun::new(1, file)]))?;
        } else {
            self.stage.target.stop();
            self.stage.node.vm().attach(Self::second(file))?;
            self.stage.node.ok("while ! test -b /dev/vdb; do sleep 0.2; done")?;
        }
        self.answers().map(drop)
    }

    /// The file of the way's disk.
    pub fn file(&self, way: Way) -> PathBuf {
        if way.has_lun() { self.stage.lun() } else { self.stage.bed.run.dir().join("second-disk") }
    }

    fn second(file: PathBuf) -> Disk {
        Disk { id: SECOND, file, serial: SECOND, plugged: true }
    }

    /// Writes the files of the way, as the Machine Config Daemon does on a running node. The way by hand has
    /// no files.
    pub fn deliver(&self, way: Way) -> Result<()> {
        let Some(config) = way.ignition(&self.stage)? else { return Ok(()) };
        self.stage.node.put("/run/ignition.json", 0o600, config.to_string().as_bytes())?;
        self.stage.node.ok("/var/usrlocal/bin/machine-config-daemon /run/ignition.json").map(drop)
    }

    /// By hand: opens a session. Returns the LUN's device.
    pub fn attach(&self) -> Result<String> {
        let script = format!("/root/attach {} {} | tail -n 1", net::Path::A.portal(), scene::INITIATOR);
        let device = self.stage.node.ok(&script)?;
        if !device.starts_with("/dev/sd") {
            bail!("the LUN that was attached by hand is {device:?}");
        }
        Ok(device)
    }

    /// By hand: makes a filesystem. mkfs.xfs may refuse to.
    pub fn format(&self, device: &str) -> Result<Output> {
        self.stage.node.run(&format!("/root/format {device}"))
    }

    /// Shuts the node down and boots it. Returns whether ssh works then.
    pub fn reboot(&mut self) -> Result<bool> {
        self.stage.node.power_off()?;
        self.boot()
    }

    /// Turns the node on. Returns whether ssh works; it does not if the boot ends in emergency mode.
    pub fn boot(&mut self) -> Result<bool> {
        Ok(!self.stage.node.power_on_until(Some(EMERGENCY))?)
    }

    /// Removes the way's disk from a node that is off.
    pub fn take_away(&mut self, way: Way) {
        if way.has_lun() {
            self.stage.target.stop();
        } else {
            self.stage.node.vm().set_disks(Vec::new());
        }
    }

    /// Writes keys. Returns the numbers of the acknowledged ones.
    pub fn write(&self, way: Way, situation: u64) -> Result<Vec<u64>> {
        let writer = writer::begin(self.client.namespace(), way.first_key(situation)?);
        std::thread::sleep(WRITING);
        let acknowledged: Vec<u64> = writer.end()?.iter().map(|one| one.number).collect();
        if acknowledged.len() < 10 {
            bail!("only {} writes were acknowledged", acknowledged.len());
        }
        Ok(acknowledged)
    }

    /// Waits until etcd answers.
    pub fn answers(&self) -> Result<Held> {
        let held = host::poll(PATIENCE, Duration::from_millis(200), || self.client.held())?;
        held.with_context(|| format!("etcd does not answer within {} s", PATIENCE.as_secs()))
    }

    /// Waits until every unit of the boot has started or failed.
    pub fn settle(&self) -> Result<()> {
        self.stage.node.run_within("systemctl is-system-running --wait", Duration::from_secs(300)).map(drop)
    }

    /// Collects the state of the node and of etcd after a boot.
    pub fn look(&self, logs_in: bool, acknowledged: &[u64]) -> Result<Seen> {
        if !logs_in {
            let held = host::poll(EMERGENCY_LASTS, Duration::from_millis(500), || self.client.held())?;
            if held.is_some() {
                bail!("etcd answers in emergency mode");
            }
            return Ok(Seen::Emergency);
        }
        let begun = Instant::now();
        let held = host::poll(PATIENCE, Duration::from_millis(500), || self.client.held())?;
        let Some(held) = held else { return Ok(Seen::Down(begun.elapsed(), self.last_word()?)) };
        Ok(Seen::Serves(Serving {
            place: self.place()?,
            old: (self.before.old.saturating_sub(held.old), self.before.old),
            lost: (self.client.lost(acknowledged)?, acknowledged.len()),
            revision: held.revision,
        }))
    }

    /// Where etcd's data is, as etcd's own process sees its directory. The host may have mounted something
    /// there since.
    fn place(&self) -> Result<Place> {
        let source = self.stage.node.ok(
            "nsenter --mount --pid --target $(sed -n 's/^etcd \\([0-9]*\\) .*/\\1/p' /run/kubelet-stand-in/*) findmnt --noheadings --first-only --output SOURCE --target /var/lib/etcd",
        )?;
        match source.split('[').next().unwrap_or_default() {
            "/dev/vda" => Ok(Place::Old),
            "/dev/vdb" => Ok(Place::New),
            disk if disk.starts_with("/dev/sd") => Ok(Place::New),
            _ => bail!("etcd's data is on {source}, which is not a disk of this comparison"),
        }
    }

    /// The last error of etcd in this boot, if it ended with one.
    fn last_word(&self) -> Result<Option<String>> {
        let said = self.stage.node.ok(
            "journalctl --sync; journalctl -b --no-pager -o cat -u kubelet.service | grep -E '\"level\":\"(fatal|panic)\"|^panic: ' | tail -n 1",
        );
        let Ok(line) = said else { return Ok(None) };
        let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let word = [&value["msg"], &value["error"]].map(|part| part.as_str().unwrap_or_default()).join(": ");
        let word = if word == ": " { line } else { word };
        Ok((!word.is_empty()).then(|| word.chars().take(160).collect()))
    }

    /// Limits the writes to the second disk, in bytes per second.
    pub fn slow_second_disk(&mut self, bytes: u64) -> Result<()> {
        self.stage.node.vm().slow_writes(SECOND, bytes)
    }
}

/// The scripts of the runbook.
const BY_HAND: [(&str, &[u8]); 3] = [
    ("attach", include_bytes!("../../../nodes/guest/attach")),
    ("format", include_bytes!("../../guest/by-hand/format")),
    ("move", include_bytes!("../../guest/by-hand/move")),
];

/// Copies a disk.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::remove_file(to).ok();
    host::copy_sparse(from, to)
}
