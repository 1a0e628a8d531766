//! The stage of a scenario: a node whose etcd runs and has keys, and a blank LUN at a target that requires
//! CHAP.
//!
//! Every scenario begins on the same snapshot, so no scenario affects another. A node that was migrated,
//! fenced or lost its power is reset in a few seconds. The snapshot has the default config and its units,
//! because most scenarios need them.

use std::cell::Cell;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bed::Bed;
use crate::etcd::{self, KeyHash};
use crate::host::{self, Output};
use crate::net::Machine;
use crate::node::Node;
use crate::scene::{self, LUN_SIZE, Wanted};
use crate::shared::Shared;
use crate::target::{self, Lun, Offer, Target};
use crate::vm::Options;

/// The snapshot with the agent, but without config and units.
const BARE: &str = "bare";
/// The snapshot with the default config and its units.
const CONFIGURED: &str = "configured";
/// The snapshot after a migration, with etcd running on the LUN.
const MIGRATED: &str = "migrated";
/// The node's disk, with the snapshots so far, among what stages share.
const DISK: &str = "disk.qcow2";
/// The LUN at the same time.
const LUN: &str = "lun";
/// Enough for several database pages of every kind. Few enough to write in seconds.
const KEYS: usize = 2000;

/// The content of the directory below the mount point: a file where etcd must have a directory.
pub const FENCE_CONTENT: &str = "member(empty)";

/// Prints state and process number of etcd's unit, such as `active 1234`.
pub const ETCD_STATE: &str =
    "echo $(systemctl is-active etcd.service) $(systemctl show --property MainPID --value etcd.service)";

/// The parts that a scenario works with.
#[derive(Debug)]
pub struct Stage {
    /// The run's bed.
    pub bed: Rc<Bed>,
    /// The node.
    pub node: Node,
    /// The storage.
    pub target: Target,
    /// The hash of all keys before the scenario.
    pub before: KeyHash,
    /// The agent under test.
    pub binary: PathBuf,
    /// The stage's own node, while a scenario uses another one.
    own: Option<Node>,
    /// Whether the config is still the one of the snapshot.
    pristine: Cell<bool>,
    /// The disks with the snapshots, which other stages have made or will use.
    shared: Shared,
    /// Whether the node's disk has the snapshot after a migration.
    has_migrated: bool,
}

impl Stage {
    /// Boots the node and takes the snapshots that scenarios begin on, unless another stage that shares them has done so.
    pub fn build(bed: &Rc<Bed>, agent: &Path, shared: Shared) -> Result<Self> {
        let begun = Instant::now();
        let file = bed.run.dir().join("lun1");
        target::blank(&file, LUN_SIZE)?;
        let target = Target::start(bed, Offer::open(vec![Lun::new(1, file)]))?;
        let mut node = Node::off(bed, Machine::Node.name(), &bed.image.disk, Options::default())?;
        let made = shared.once(CONFIGURED, |dir| {
            node.power_on()?;
            scene::install(&node, agent)?;
            etcd::start(&node)?;
            etcd::put_keys(&node, KEYS)?;
            node.save(BARE)?;
            scene::configure_with_units(&node, &Wanted::default())?;
            let disk = node.vm().disk().to_path_buf();
            node.save_with(CONFIGURED, || host::copy_sparse(&disk, &dir.join(DISK)))
        })?;
        if !made.now {
            node.take_disk(&made.dir.join(DISK))?;
            node.load(CONFIGURED)?;
        }
        let before = etcd::hash_now(&node)?;
        println!("bed: a node with {KEYS} keys in its etcd, ready in {} s", begun.elapsed().as_secs());
        Ok(Self {
            bed: Rc::clone(bed),
            node,
            target,
            before,
            binary: agent.into(),
            own: None,
            pristine: Cell::new(true),
            shared,
            has_migrated: false,
        })
    }

    /// Resets node, network and target for the next scenario.
    pub fn reset(&mut self) -> Result<()> {
        if let Some(own) = self.own.take() {
            self.node.power_cut();
            self.node = own;
        }
        self.node.begin_transcript();
        self.bed.net.repair()?;
        self.offer_luns(1)?;
        self.pristine.set(true);
        self.node.load(CONFIGURED)
    }

    /// Goes back to a node without config and units.
    pub fn strip(&mut self) -> Result<()> {
        self.pristine.set(false);
        self.node.load(BARE)
    }

    /// The backing file of LUN 1.
    pub fn lun(&self) -> PathBuf {
        self.lun_file(1)
    }

    /// The backing file of a LUN.
    pub fn lun_file(&self, number: impl Display) -> PathBuf {
        self.bed.run.dir().join(format!("lun{number}"))
    }

    /// The WWID of a LUN, unless its volume is another one.
    pub fn wwid(&self, number: u32) -> String {
        Lun::new(number, self.lun_file(number)).wwid()
    }

    /// Offers `count` blank LUNs, with numbers from 1 on, at a target that requires CHAP.
    pub fn offer_luns(&mut self, count: usize) -> Result<()> {
        let luns: Vec<Lun> =
            (1..).take(count).map(|number| Lun::new(number, self.lun_file(number))).collect();
        luns.iter().try_for_each(|lun| target::blank(&lun.file, LUN_SIZE))?;
        self.target.offer(Offer { chap: Some(scene::chap()), ..Offer::open(luns) })
    }

    /// Replaces the stage's node by another one until the next reset. The scenario turns the new node on.
    /// Returns the node before it, unless that one was the stage's own.
    pub fn change_node(&mut self, other: Node) -> Option<Node> {
        self.node.power_cut();
        let before = std::mem::replace(&mut self.node, other);
        if self.own.is_some() {
            return Some(before);
        }
        self.own = Some(before);
        None
    }

    /// Writes the config and puts its units in place.
    pub fn configure(&self, wanted: &Wanted) -> Result<()> {
        if self.pristine.replace(false) && wanted.render() == Wanted::default().render() {
            return Ok(());
        }
        scene::configure_with_units(&self.node, wanted)
    }

    /// Runs the agent. Any exit code is accepted.
    pub fn agent(&self, arguments: &str) -> Result<Output> {
        scene::agent(&self.node, arguments)
    }

    /// Runs `etcd-lun apply`, which must succeed.
    pub fn apply(&self) -> Result<Output> {
        let output = self.agent("apply")?;
        if output.code != 0 {
            bail!("`etcd-lun apply` should have succeeded: {output}");
        }
        Ok(output)
    }

    /// Migrates the node, with CHAP. This happens once per run, for all stages that share it. Later calls reset node and LUN
    /// to their state after it.
    pub fn migrate(&mut self) -> Result<()> {
        let (lun, shared) = (self.lun(), self.shared.clone());
        let made = shared.once(MIGRATED, |dir| {
            self.configure(&Wanted::default())?;
            self.apply()?;
            self.is_on_lun()?;
            let disk = self.node.vm().disk().to_path_buf();
            self.node.save_with(MIGRATED, || {
                host::copy_sparse(&lun, &dir.join(LUN))?;
                host::copy_sparse(&disk, &dir.join(DISK))
            })
        })?;
        if made.now {
            self.has_migrated = true;
            return Ok(());
        }
        self.pristine.set(false);
        self.target.stop();
        host::copy_sparse(&made.dir.join(LUN), &lun)?;
        self.target.restart()?;
        if !self.has_migrated {
            self.node.take_disk(&made.dir.join(DISK))?;
            self.has_migrated = true;
        }
        self.node.load(MIGRATED)?;
        // The connections in the snapshot are gone. The first request to the target detects that, and
        // iscsid logs in again. The kernel's messages about it are cleared, because they are no fault of
        // the node.
        self.node.ok(
            "dd if=/dev/disk/by-label/etcd-lun of=/dev/null count=1 iflag=direct status=none && dmesg --clear",
        )?;
        self.is_on_lun()
    }

    /// Changes the content of the LUNs from the node. There is one script for each LUN, in which `$LUN` is
    /// its disk. Then resets the node.
    pub fn prepare_luns(&mut self, scripts: &[&str]) -> Result<()> {
        let offered = self.target.offered().clone();
        self.target.offer(Offer { chap: None, ..offered.clone() })?;
        let portal = crate::net::Path::A.portal();
        let mut script = format!(
            "set -e; echo InitiatorName={} >/etc/iscsi/initiatorname.iscsi
             iscsiadm -m discovery -t sendtargets -p {portal}; iscsiadm -m node --login; udevadm settle\n",
            scene::INITIATOR,
        );
        for (prepare, number) in scripts.iter().zip(1..) {
            script += &format!("LUN=$(readlink -f /dev/disk/by-path/*-lun-{number})\n{prepare}\n");
        }
        script += "sync; udevadm settle; iscsiadm -m node --logout";
        self.node.ok(&script)?;
        self.target.offer(offered)?;
        self.node.load(CONFIGURED)
    }

    /// Offers LUN 1 from a filesystem of this size, so that the storage itself can run out of space.
    pub fn thin_lun(&mut self, bytes: u64) -> Result<()> {
        let dir = self.bed.run.dir().join("thin");
        fs::create_dir_all(&dir)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(&dir);
        host::ok(&mut mount, Duration::from_secs(10))?;
        let file = dir.join("lun1");
        target::blank(&file, LUN_SIZE)?;
        let luns = vec![Lun::new(1, file)];
        self.target.offer(Offer { luns, ..self.target.offered().clone() })
    }

    /// Gives the thin LUN's filesystem this much room. `None` leaves no free space.
    pub fn thin_room(bed: &Bed, room: Option<u64>) -> Result<()> {
        let dir = bed.run.dir().join("thin");
        let now = nix::sys::statvfs::statvfs(&dir)?;
        let taken = (now.blocks() - now.blocks_free()).max(1) * now.fragment_size();
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={}", room.unwrap_or(taken))]).arg(&dir);
        host::ok(&mut mount, Duration::from_secs(10)).map(drop)
    }

    /// Ends what `thin_lun` began, and stops the target. The caller then offers something else.
    pub fn end_thin_lun(&mut self) -> Result<()> {
        self.target.stop();
        let mut umount = Command::new("umount");
        host::ok(umount.arg(self.bed.run.dir().join("thin")), Duration::from_secs(10)).map(drop)
    }

    /// Collects the state of etcd, of the mount and of the data directory.
    pub fn look(&self) -> Result<Seen> {
        let script = format!(
            "{ETCD_STATE}
             findmnt --noheadings --output FSTYPE,OPTIONS --mountpoint /var/lib/etcd | xargs
             {{ systemctl show --property ActiveState,Options var-lib-etcd.mount
                echo shutdown=$(systemctl is-active etcd-lun-shutdown.service); }} | xargs
             lsattr -d /var/lib/etcd 2>/dev/null | cut -d' ' -f1 | xargs
             find /var/lib/etcd -mindepth 1 -maxdepth 1 '(' -type f -empty -printf '%f(empty) ' -o -printf '%f ' ')' | xargs
             systemctl -q is-active etcd.service &&
                 etcdctl --command-timeout 20s endpoint hashkv --rev={} -w json 2>/dev/null || echo none",
            self.before.revision
        );
        let output = self.node.run(&script)?;
        let mut lines = output.stdout.lines();
        let mut next = || {
            lines.next().map(String::from).with_context(|| format!("cannot read the node's state: {output}"))
        };
        Ok(Seen {
            etcd: next()?,
            mount: next()?,
            mount_unit: next()?,
            flags: next()?,
            content: next()?,
            keys: KeyHash::parse(self.before.revision, &next()?),
        })
    }

    /// Checks that etcd serves all keys from the LUN and that the LUN is mounted as it should be.
    pub fn is_on_lun(&self) -> Result<()> {
        let seen = self.look()?;
        if !seen.mount_unit.contains("_netdev") {
            bail!("var-lib-etcd.mount lacks _netdev: {seen:?}");
        }
        // Otherwise a shutdown without the target would hang.
        if !seen.mount_unit.contains("shutdown=active") {
            bail!("etcd-lun-shutdown.service is not active: {seen:?}");
        }
        self.is_on(&seen)
    }

    /// Checks the same for a local disk, whose mount does not need the network.
    pub fn is_on_disk(&self) -> Result<()> {
        let seen = self.look()?;
        if seen.mount_unit.contains("_netdev") {
            bail!("var-lib-etcd.mount waits for the network: {seen:?}");
        }
        self.is_on(&seen)
    }

    fn is_on(&self, seen: &Seen) -> Result<()> {
        for word in ["xfs", "prjquota", "rw"] {
            if !seen.mount.contains(word) {
                bail!("/var/lib/etcd is mounted without {word}: {seen:?}");
            }
        }
        if !seen.mount_unit.contains("ActiveState=active") {
            bail!("var-lib-etcd.mount is not active: {seen:?}");
        }
        if seen.content != "member" {
            bail!("/var/lib/etcd holds more than etcd's data: {seen:?}");
        }
        self.has_keys(seen)
    }

    /// Checks that etcd runs on the local disk as if nobody had tried to migrate it.
    pub fn is_untouched(&self) -> Result<Seen> {
        let seen = self.look()?;
        if !seen.mount.is_empty() {
            bail!("/var/lib/etcd is a mount: {seen:?}");
        }
        if seen.is_fenced() {
            bail!("/var/lib/etcd was left immutable: {seen:?}");
        }
        self.has_keys(&seen)?;
        Ok(seen)
    }

    /// Checks that etcd does not run and that nothing was written below the LUN's mount point.
    pub fn is_down_without_lun(&self) -> Result<()> {
        let seen = self.look()?;
        if seen.etcd.starts_with("active ") || seen.keys.is_some() {
            bail!("etcd runs without its LUN: {seen:?}");
        }
        if !seen.mount.is_empty() || !seen.is_fenced() || seen.content != FENCE_CONTENT {
            bail!("the directory below the mount point holds data, or is not immutable: {seen:?}");
        }
        Ok(())
    }

    /// Waits up to 120 s until a script succeeds in the node.
    pub fn wait_until(&self, condition: &str) -> Result<()> {
        self.wait_until_within(condition, Duration::from_secs(120))
    }

    /// Waits until a script succeeds in the node, with another time limit.
    pub fn wait_until_within(&self, condition: &str, limit: Duration) -> Result<()> {
        // The node itself repeats the script, because each command from outside costs an emulated node one
        // more process. The script has its own variables.
        let seconds = limit.as_secs();
        let script = format!(
            "since=$(date +%s); until ( {condition}\n); do [ $(($(date +%s) - since)) -lt {seconds} ] || exit 1; sleep 0.3; done"
        );
        match self.node.run_within(&script, limit + Duration::from_secs(60))?.code {
            0 => Ok(()),
            _ => bail!("this did not become true within {seconds} s: `{condition}`"),
        }
    }

    /// Checks that etcd still has a key whose value `yes` it acknowledged.
    pub fn has_kept(&self, key: &str) -> Result<()> {
        if self
            .node
            .ok(&format!("etcdctl get {key} --print-value-only"))
            .context("cannot ask etcd for the key")?
            != "yes"
        {
            bail!("a write that was acknowledged is lost");
        }
        Ok(())
    }

    fn has_keys(&self, seen: &Seen) -> Result<()> {
        if !seen.etcd.starts_with("active ") {
            let why = self.node.run("systemctl status --no-pager --lines 5 etcd.service | cut -c -200")?;
            bail!("etcd is not running: {}", why.stdout);
        }
        match seen.keys {
            Some(now) if now == self.before => Ok(()),
            Some(now) => bail!("etcd's keys changed: {} before, {now} now", self.before),
            None => bail!("etcd does not answer: {seen:?}"),
        }
    }
}

/// The state of etcd, of the mount and of the data directory at one moment.
#[derive(Debug, Clone)]
pub struct Seen {
    /// State and main process of etcd's unit, such as `active 1234`.
    pub etcd: String,
    /// Filesystem type and options of the mount on the data directory. Empty when nothing is mounted.
    pub mount: String,
    /// State and options of the mount unit.
    pub mount_unit: String,
    /// Flags of the data directory's inode.
    pub flags: String,
    /// The names in the data directory. An empty file is shown as `NAME(empty)`.
    pub content: String,
    /// The keys, if etcd answers.
    pub keys: Option<KeyHash>,
}

impl Seen {
    /// Whether the directory is immutable.
    pub fn is_fenced(&self) -> bool {
        self.flags.contains('i')
    }
}
