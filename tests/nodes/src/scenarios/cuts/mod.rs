//! Power cuts at random moments of migrations and rollbacks, while a client writes.
//!
//! Both disks have a write cache that a power cut destroys (`cache`). The node's cache is lost at every cut, the LUN's cache when
//! the cut affects the storage too. etcd must then start only on the copy that the record names, and with every key that it ever
//! acknowledged.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use fastrand::Rng;

use super::boot::{self, NODES};
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
use crate::vm::Options;

mod recorded;
mod replay;
pub mod writer;

use writer::{Acknowledged, missing};

/// How long etcd may take to start after a boot.
const SETTLE: Duration = Duration::from_secs(180);
/// `$ETCD_LUN_BED_CUTS` sets the number of cuts, and `$ETCD_LUN_BED_SEED` the random choices. The recording differs in each run, so
/// the same seed makes the same choices at other moments.
pub(super) fn scenarios() -> Vec<Scenario> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cuts = number("ETCD_LUN_BED_CUTS").and_then(|cuts| u32::try_from(cuts).ok());
    let seed = number("ETCD_LUN_BED_SEED");
    vec![Scenario::new("cuts/recorded", move |stage| {
        let seed = seed.unwrap_or_else(now);
        println!("        cuts of recorded disks: seed {seed}");
        recorded::play(stage, seed, cuts)
    })]
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() % 1_000_000 * 1000)
}

/// One node that migrates and rolls back in turns.
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
        let acknowledged = Vec::new();
        let chance = Rng::with_seed(seed);
        Ok(Self { stage, caches, chance, namespace, acknowledged, next: 1, hash: None })
    }

    /// Turns the node off, so that its disk does not disappear while it is on.
    fn end(&mut self) {
        self.stage.node.power_cut();
        self.stage.target.stop();
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
