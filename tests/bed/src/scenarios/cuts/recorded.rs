//! Power cuts of recorded disks: the node migrates and rolls back in turns, each time to the end, and what its two disks are
//! told meanwhile is recorded. Then the power is cut anywhere in the recording, as often as one likes: a cut takes seconds
//! and no boot.
//!
//! These are not cuts of a running node: what a boot does from the disks is decided by the program's own planner on this
//! machine (`replay`). Those of a running node are in the module above.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use super::replay::{Cut, Truth};
use super::writer::{Acknowledged, Writer};
use super::{Chain, add};
use crate::cache::{Lost, Recording};
use crate::host;
use crate::stage::Stage;
use crate::suite;
use crate::target::Lun;

/// In one run of the suite: two times back and forth, and these cuts.
const SUITE: (u32, u32) = (4, 52);
/// Five times back and forth, when it is a number of cuts that was asked for.
const OPERATIONS: u32 = 10;

const LIMIT: Duration = Duration::from_secs(300);
/// A recording goes on for this long after the program has ended.
const TAIL: Duration = Duration::from_secs(2);

/// What was met on the way, to be told.
#[derive(Debug, Default)]
struct Seen {
    cuts: u32,
    storage: u32,
    on_lun: u32,
    retiring: u32,
    local: u32,
    returning: u32,
    node: Lost,
    lun: Lost,
    recorded: Vec<String>,
}

/// Rounds of migration and rollback, and this many cuts in all, the same number in each operation.
pub(super) fn play(stage: &mut Stage, seed: u64, cuts: Option<u32>) -> Result<()> {
    let (operations, cuts) = cuts.map_or(SUITE, |cuts| (OPERATIONS, cuts));
    let each = cuts.div_ceil(operations);
    let mut chain = Chain::begin(stage, seed)?;
    let mut seen = Seen::default();
    let (mut working, mut judging) = (Duration::ZERO, Duration::ZERO);
    chain.stage.node.power_on()?;
    let mut on_lun = chain.verify()?;
    let cache = chain.stage.node.ok("cat /sys/class/scsi_disk/*/cache_type")?;
    if cache != "write back" {
        bail!("the target says of its write cache {cache:?}: a forgotten flush would not show");
    }
    for number in 1..=operations {
        let begun = Instant::now();
        let verb = if on_lun { "rollback" } else { "apply" };
        let (mut recording, acknowledged) = chain.operate(verb)?;
        working += begun.elapsed();
        let ((writes, flushes), (to_lun, of_lun)) = (recording.told("node"), recording.told("lun"));
        seen.recorded.push(format!("{verb} {writes}+{flushes}, {to_lun}+{of_lun}"));
        let begun = Instant::now();
        let places = Places::of(&recording);
        if places.deciding.is_empty() {
            bail!("operation {number}: no write of a record or a stamp is in what was recorded");
        }
        for _ in 0..each {
            chain
                .cut_recorded(&recording, &acknowledged, &places, &mut seen)
                .with_context(|| format!("seed {seed}, operation {number} ({verb})"))?;
        }
        if number == 1 {
            recording.forget_flushes();
            chain.sees_forgotten_flushes(&recording, &acknowledged)?;
        }
        judging += begun.elapsed();
        // At the end of each operation, and so of each round, all is there, on the other disk.
        chain.acknowledge(acknowledged);
        if chain.verify().with_context(|| format!("after operation {number} ({verb})"))? == on_lun {
            bail!("operation {number}: `etcd-lun {verb}` went well, and etcd runs where it ran before");
        }
        on_lun = !on_lun;
    }
    seen.tell(chain.acknowledged.len(), working, judging);
    chain.end();
    Ok(())
}

impl Seen {
    fn tell(&self, keys: usize, working: Duration, judging: Duration) {
        let Self { cuts, storage, on_lun, retiring, local, returning, node, lun, recorded } = self;
        let operations = recorded.len();
        let gone = |lost: &Lost| lost.writes - lost.kept - lost.torn;
        println!(
            "        cuts of recorded disks: {cuts} in {operations} operations ({} s, and {} s for the cuts), {storage} of them \
             with the storage; the boot was decided by the program's planner on this machine: the LUN {on_lun} times ({retiring} \
             of them with the local data still to be retired), the local disk {local}, a rollback to be finished {returning}; lost of \
             unflushed writes: {} of {} to the node's disk, {} of {} to the LUN, and parts of {} and {}; {keys} keys acknowledged, \
             after each operation and each cut all of them there",
            working.as_secs(),
            judging.as_secs(),
            gone(node),
            node.writes,
            gone(lun),
            lun.writes,
            node.torn,
            lun.torn,
        );
        println!("        recorded (writes+flushes of the node's disk, of the LUN): {}", recorded.join("; "));
    }
}

/// Where in a recording the power goes.
struct Places {
    acts: usize,
    seams: Vec<usize>,
    deciding: Vec<usize>,
}

impl Places {
    fn of(recording: &Recording) -> Self {
        // What record and stamp have in common.
        let deciding = recording.writes_of(b"\"generation\"");
        Self { acts: recording.acts(), seams: recording.seams(), deciding }
    }

    /// Half of them anywhere, a quarter at a flush or between bursts, a quarter where a record or a stamp is written, and in
    /// the steps that follow from it.
    fn choose(&self, chance: &mut Rng) -> usize {
        let some = |chance: &mut Rng, places: &[usize]| chance.choice(places).copied().unwrap_or_default();
        match chance.u8(..4) {
            0 => some(chance, &self.seams),
            1 => (some(chance, &self.deciding) + chance.usize(..60)).saturating_sub(10).min(self.acts),
            _ => chance.usize(0..=self.acts),
        }
    }
}

impl Chain<'_> {
    /// Runs a verb to its end while a client writes, and records the disks from just before until some time after.
    fn operate(&mut self, verb: &str) -> Result<(Recording, Vec<Acknowledged>)> {
        let writer = Writer::begin(&self.namespace, self.next);
        std::thread::sleep(TAIL / 2);
        self.caches.record(&["node", "lun"]);
        let output = self.stage.node.run_within(&format!("etcd-lun {verb}"), LIMIT)?;
        std::thread::sleep(TAIL);
        let recording = self.caches.recorded().context("nothing was recorded")?;
        let acknowledged = writer.end()?;
        if output.code != 0 {
            bail!("`etcd-lun {verb}` failed: {output}");
        }
        Ok((recording, acknowledged))
    }

    /// The power goes at a position of chance.
    fn cut_recorded(
        &mut self,
        recording: &Recording,
        acknowledged: &[Acknowledged],
        places: &Places,
        seen: &mut Seen,
    ) -> Result<()> {
        let position = places.choose(&mut self.chance);
        let storage = self.chance.u8(..3) == 0;
        let before = self.chance.clone();
        let (node, lun) = self.put(recording, position, storage)?;
        let truth = match self.judge(recording, acknowledged, position) {
            Ok(truth) => truth,
            Err(error) => {
                self.chance = before;
                let evidence = match self.keep(recording, position, storage) {
                    Ok(dir) => format!("both disks are in {dir}"),
                    Err(error) => format!("the disks could not be kept: {error:#}"),
                };
                let with = if storage { ", with the storage" } else { "" };
                let of = recording.acts();
                return Err(error.context(format!("cut at act {position} of {of}{with} ({evidence})")));
            }
        };
        seen.cuts += 1;
        seen.storage += u32::from(storage);
        add(&mut seen.node, node);
        add(&mut seen.lun, lun);
        match truth {
            Truth::Lun { retires } => {
                seen.on_lun += 1;
                seen.retiring += u32::from(retires);
            }
            Truth::Local | Truth::RolledBack => seen.local += 1,
            Truth::Returning { .. } => seen.returning += 1,
        }
        Ok(())
    }

    /// Puts both disks in place as they are after a cut.
    fn put(&mut self, recording: &Recording, position: usize, storage: bool) -> Result<(Lost, Lost)> {
        let mut node = recording.disk("node", position)?;
        let lost = node.cut(&mut self.chance)?;
        let mut lun = recording.disk("lun", position)?;
        let of_lun = match storage {
            true => lun.cut(&mut self.chance)?,
            false => Lost::default(),
        };
        lun.flush();
        self.caches.put("cut-node", node);
        self.caches.put("cut-lun", lun);
        Ok((lost, of_lun))
    }

    fn judge(&self, recording: &Recording, acknowledged: &[Acknowledged], position: usize) -> Result<Truth> {
        let moment = recording.moment(position);
        let earlier = acknowledged.iter().filter(|one| one.at < moment).map(|one| one.number);
        let all: Vec<u64> = self.acknowledged.iter().copied().chain(earlier).collect();
        let [node, lun] = ["cut-node", "cut-lun"].map(|name| self.caches.file(name));
        let wwid = Lun::new(1, lun.clone()).wwid();
        let run = &self.stage.bed.run;
        Cut { run, node: &node, lun: (&lun, &wwid), acknowledged: &all, hash: self.hash }.judge()
    }

    /// The harness itself: where no disk was ever asked to flush, cuts must be seen to do harm.
    fn sees_forgotten_flushes(&mut self, unflushed: &Recording, acknowledged: &[Acknowledged]) -> Result<()> {
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let position = self.chance.usize(unflushed.acts() / 2..=unflushed.acts());
            self.put(unflushed, position, true)?;
            if let Err(error) = self.judge(unflushed, acknowledged, position) {
                let text: String = format!("{error:#}").chars().take(300).collect();
                println!(
                    "        cuts: with all flushes forgotten, a cut is found out, as it must be: {text}…"
                );
                return Ok(());
            }
        }
        bail!("all flushes were forgotten, and {TRIES} cuts of that did no harm: this would see nothing")
    }

    /// Keeps the disks of a cut, as they were before anybody looked at them.
    fn keep(&mut self, recording: &Recording, position: usize, storage: bool) -> Result<String> {
        let dir = suite::failure_dir().join("cuts-recorded-disks");
        fs::create_dir_all(&dir)?;
        self.put(recording, position, storage)?;
        for name in ["cut-node", "cut-lun"] {
            host::copy_sparse(&self.caches.file(name), &dir.join(name).with_extension("raw"))?;
        }
        let replay = Cut::dir(&self.stage.bed.run);
        for name in ["facts", "etcd.log"] {
            fs::copy(replay.join(name), dir.join(name)).ok();
        }
        Ok(dir.display().to_string())
    }
}
