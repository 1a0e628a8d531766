//! Power cuts at random moments: a node is migrated and rolled back again and again while a client writes.
//!
//! Both disks have a write cache that a power cut destroys (`cache`). The node's cache is lost at every cut,
//! the LUN's cache when the cut affects the storage too. After a cut the node boots and nobody repairs
//! anything. etcd must start by itself, only on the copy that the record names, and with every key that it
//! ever acknowledged.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use super::boot::{self, NODES};
use crate::again::Again;
use crate::cache::{Caches, Disk, Lost};
use crate::cluster;
use crate::delivery::EtcdRunner;
use crate::etcd::{self, KeyHash};
use crate::host;
use crate::node::Node;
use crate::scene::{self, LUN_SIZE};
use crate::stage::{FENCE_CONTENT, Stage};
use crate::suite::Scenario;
use crate::target::{Lun, Offer};
use crate::verbs;
use crate::vm::Options;

mod recorded;
mod replay;
pub mod writer;

use writer::{Acknowledged, missing};

/// Cuts per scenario. Lanes take whole scenarios and should end at about the same time.
const CUTS: u32 = 10;
/// How long etcd may take to start after a boot.
const SETTLE: Duration = Duration::from_secs(180);
/// From 10 s to 45 s after power-on, the boot of an emulated node is in progress or has just ended.
const BOOTING: (u64, u64) = (10, 45);
/// About the time of a migration in an emulated node, in seconds.
const WORKING: u64 = 25;
/// The number of steps of a rollback and of a migration.
const STEPS: [u64; 2] = [9, 13];

/// `$ETCD_LUN_BED_CUTS` sets the number of cuts. Without it no node is cut here, because each cut costs a boot: `recorded`
/// makes many cuts without a boot. The random choices depend on `$ETCD_LUN_BED_SEED`. The
/// progress of a node at the moment of a cut does not, so the same seed makes the same choices but cuts at
/// other moments.
pub(super) fn scenarios() -> Vec<Scenario> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let wanted = number("ETCD_LUN_BED_CUTS").and_then(|cuts| u32::try_from(cuts).ok());
    let cuts = wanted.unwrap_or(0);
    let seed = number("ETCD_LUN_BED_SEED");
    let recorded = Scenario::new("cuts/recorded", move |stage| {
        let seed = seed.unwrap_or_else(now);
        println!("        cuts of recorded disks: seed {seed}");
        recorded::play(stage, seed, wanted)
    });
    (0..cuts.div_ceil(CUTS))
        .map(|part| {
            let cuts = CUTS.min(cuts - part * CUTS);
            Scenario::new(&format!("cuts/{}", part + 1), move |stage| {
                let seed = seed.unwrap_or_else(now) + u64::from(part);
                println!("        cuts: seed {seed}");
                Chain::begin(stage, seed)?.play(cuts).with_context(|| format!("with seed {seed}"))
            })
        })
        .chain([recorded])
        .collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() % 1_000_000 * 1000)
}

/// One node whose power is cut again and again.
struct Chain<'a> {
    stage: &'a mut Stage,
    caches: Caches,
    chance: Rng,
    namespace: PathBuf,
    /// The number of every key that etcd acknowledged.
    acknowledged: Vec<u64>,
    /// The number of the next key.
    next: u64,
    /// The last hash of all keys. It must not change.
    hash: Option<KeyHash>,
    seen: Seen,
}

/// Counts of what happened, to print.
#[derive(Default)]
struct Seen {
    booting: u32,
    at_step: Vec<u64>,
    working: u32,
    storage: u32,
    node: Lost,
    lun: Lost,
}

impl<'a> Chain<'a> {
    fn begin(stage: &'a mut Stage, seed: u64) -> Result<Self> {
        let base = boot::delivered(stage, &boot::pool(), EtcdRunner::Unit)?;
        let caches = Caches::mount(&stage.bed.run.dir().join("disks"))?;
        let disk = caches.put("node", Disk::over(&base)?);
        let lun = caches.put("lun", Disk::blank(LUN_SIZE));
        // tgtd is restarted, so that it sees the mounted disks.
        stage.target.offer(Offer { chap: Some(scene::chap()), ..Offer::open(vec![Lun::new(1, lun)]) })?;
        let options = Options { hostname: Some(NODES[0]), ..Options::default() };
        stage.change_node(Node::on(&stage.bed, "cuts", &disk, options));
        let namespace = cluster::namespace(&stage.bed);
        let (acknowledged, seen) = (Vec::new(), Seen::default());
        let chance = Rng::with_seed(seed);
        Ok(Self { stage, caches, chance, namespace, acknowledged, next: 1, hash: None, seen })
    }

    fn play(&mut self, cuts: u32) -> Result<()> {
        let mut looked = false;
        for number in 1..=cuts {
            // At most one cut in a row happens without a check, so that a fault is found near its cause.
            let blind = looked && self.chance.u8(..3) == 0;
            self.life(blind).with_context(|| format!("cut {number}"))?;
            looked = !blind;
        }
        self.stage.node.power_on()?;
        if self.verify().context("after the last cut")? {
            verbs::plans_nothing(&self.stage.node)?;
        } else {
            // Run by hand, `plan` would migrate the node again. At boot there is nothing to do only after a
            // finished rollback.
            verbs::stays_rolled_back(&self.stage.node, "apply --boot")
                .context("etcd runs from the local disk")?;
        }
        let Seen { booting, at_step, working, storage, node, lun } = &self.seen;
        println!(
            "        cuts: {cuts}. {booting} were during a boot, {} at the steps {at_step:?}, {working} at a random moment of the \
             work. {storage} of them included the storage. Of the unflushed writes, {} of {} to the node's disk and {} of {} to \
             the LUN were lost; {} and {} were kept in part. etcd has all {} acknowledged keys.",
            at_step.len(),
            node.writes - node.kept - node.torn,
            node.writes,
            lun.writes - lun.kept - lun.torn,
            lun.writes,
            node.torn,
            lun.torn,
            self.acknowledged.len()
        );
        self.end();
        Ok(())
    }

    /// Turns the node off, so that its disk does not disappear while it is on.
    fn end(&mut self) {
        self.stage.node.power_cut();
        self.stage.target.stop();
    }

    /// From power-on to the next cut. With `blind` there is no check, and the cut is in the boot.
    fn life(&mut self, blind: bool) -> Result<()> {
        if blind {
            let writer = writer::begin(&self.namespace, self.next);
            self.stage.node.vm().power_on()?;
            self.sleep(BOOTING.0 * 1000, BOOTING.1 * 1000);
            self.seen.booting += 1;
            return self.cut(writer);
        }
        self.stage.node.power_on()?;
        let on_lun = self.verify()?;
        let writer = writer::begin(&self.namespace, self.next);
        let verb = if on_lun { "rollback" } else { "apply" };
        self.stage.node.ok(&format!("setsid etcd-lun {verb} >/run/op.out 2>&1 </dev/null &"))?;
        if self.chance.bool() {
            let step = self.chance.u64(1..=STEPS[usize::from(!on_lun)]);
            // Waits for a step of the long plan. The plan before it, which logs in and mounts, has only a
            // step or two.
            let begun = format!(
                "while ! grep -qE '^.{step}/([5-9]|1[0-9])]' /run/op.out && pgrep -x etcd-lun >/dev/null; do sleep 0.02; done"
            );
            self.stage.node.run(&begun)?;
            self.sleep(0, 400);
            self.seen.at_step.push(step);
        } else {
            self.sleep(0, WORKING * 1000);
            self.seen.working += 1;
        }
        self.cut(writer)
    }

    fn sleep(&mut self, from: u64, to: u64) {
        std::thread::sleep(Duration::from_millis(self.chance.u64(from..to)));
    }

    fn cut(&mut self, writer: Again<Acknowledged>) -> Result<()> {
        self.stage.node.power_cut();
        add(&mut self.seen.node, self.caches.cut("node", &mut self.chance)?);
        if self.chance.u8(..3) == 0 {
            self.stage.target.stop();
            add(&mut self.seen.lun, self.caches.cut("lun", &mut self.chance)?);
            self.stage.target.restart()?;
            self.seen.storage += 1;
        }
        self.acknowledge(writer.end()?);
        Ok(())
    }

    fn acknowledge(&mut self, new: Vec<Acknowledged>) {
        // Numbers that were tried and not acknowledged are never used again.
        self.next = new.last().map_or(self.next, |last| last.number + 1) + 1000;
        self.acknowledged.extend(new.iter().map(|one| one.number));
    }

    /// Checks that etcd serves from the one copy that the record names, with all acknowledged keys. Returns
    /// whether that is the LUN.
    fn verify(&mut self) -> Result<bool> {
        let node = &self.stage.node;
        let up = host::poll(SETTLE, Duration::from_secs(1), || {
            Ok((node.run("etcdctl --command-timeout 5s endpoint health")?.code == 0).then_some(()))
        })?;
        if up.is_none() {
            let said =
                node.run("journalctl -b --no-pager -u etcd-lun.service -u etcd.service | tail -n 40")?;
            bail!("etcd does not start by itself: {}", said.stdout);
        }
        let seen = node.ok(
            "jq -r .authority /var/lib/etcd-lun/authority.json
             findmnt --noheadings --output FSTYPE --mountpoint /var/lib/etcd || echo none
             cd /ostree/deploy/rhcos/var/lib/etcd; find . -mindepth 1 -maxdepth 1 '(' -type f -empty -printf '%f(empty)\\n' -o -printf '%f\\n' ')'",
        )?;
        let on_lun = match seen.lines().collect::<Vec<_>>()[..] {
            ["lun", "xfs", FENCE_CONTENT] => true,
            ["local", "none", "member"] => false,
            _ => bail!("etcd runs, but not on the one copy that the record names: {seen:?}"),
        };
        let missing = missing(&self.namespace, &self.acknowledged)?;
        if !missing.is_empty() {
            bail!(
                "{} keys that etcd acknowledged are lost, the first is {:?}",
                missing.len(),
                missing.first()
            );
        }
        if let Some(before) = self.hash {
            let now = etcd::hash_at(node, before.revision)?;
            if now != before {
                bail!("etcd's keys have diverged: {before} before, {now} now");
            }
        }
        self.hash = Some(etcd::hash_now(node)?);
        Ok(on_lun)
    }
}

fn add(sum: &mut Lost, one: Lost) {
    sum.writes += one.writes;
    sum.kept += one.kept;
    sum.torn += one.torn;
}
