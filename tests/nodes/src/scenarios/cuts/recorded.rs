//! Power cuts of recorded disks. The node migrates and rolls back in turns, each time to the end, and the bed
//! records the writes and flushes of both disks. Then it cuts the power at any position of the recording, as
//! often as wanted. Such a cut takes seconds and no boot.
//!
//! These are not cuts of a running node: the program's own planner decides on the host what a boot would do
//! (`replay`). Cuts of a running node are in the module above.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use super::replay::{BootCopy, Cut};
use super::writer::{self, Acknowledged};
use super::{Chain, add};
use crate::cache::{Lost, Recording};
use crate::host;
use crate::stage::Stage;
use crate::suite;
use crate::target::Lun;

/// One run of the suite: two migrations, two rollbacks, and this many cuts.
const SUITE: (u32, u32) = (4, 52);
/// Five migrations and five rollbacks, when the user asks for a number of cuts.
const OPERATIONS: u32 = 10;

const LIMIT: Duration = Duration::from_secs(300);
/// How long the recording continues after the program has ended.
const TAIL: Duration = Duration::from_secs(2);

/// Counts of what happened, to print.
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

/// Plays migrations and rollbacks, and this many cuts in total, the same number in each operation.
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
        bail!(
            "the target reports its write cache as {cache:?}, so this test would not detect a missing flush"
        );
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
        if places.near_records.is_empty() {
            bail!("operation {number}: the recording has no write of a record or a stamp");
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
        // At the end of each operation, all keys must be there, on the other disk.
        chain.acknowledge(acknowledged);
        if chain.verify().with_context(|| format!("after operation {number} ({verb})"))? == on_lun {
            bail!("operation {number}: `etcd-lun {verb}` succeeded, but etcd runs where it ran before");
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
            "        cuts of recorded disks: {cuts} in {operations} operations ({} s for the operations, {} s for the cuts). \
             {storage} cuts included the storage. The program's planner decided on the host what a boot would do: use the LUN \
             {on_lun} times ({retiring} of them with local data that is not retired yet), use the local disk {local} times, \
             finish a rollback {returning} times. Of the unflushed writes, {} of {} to the node's disk and {} of {} to the LUN \
             were lost; {} and {} were kept in part. etcd has all {keys} acknowledged keys after each operation and each cut.",
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

/// The positions of a recording at which the power may be cut.
struct Places {
    acts: usize,
    boundaries: Vec<usize>,
    near_records: Vec<usize>,
}

impl Places {
    fn of(recording: &Recording) -> Self {
        // Both record and stamp contain this text.
        let near_records = recording.writes_of(b"\"generation\"");
        Self { acts: recording.acts(), boundaries: recording.boundaries(), near_records }
    }

    /// Chooses a position: half of the cuts anywhere; a quarter at a flush or between bursts; a quarter near
    /// the write of a record or a stamp, or in the steps after it.
    fn choose(&self, chance: &mut Rng) -> usize {
        let some = |chance: &mut Rng, places: &[usize]| chance.choice(places).copied().unwrap_or_default();
        match chance.u8(..4) {
            0 => some(chance, &self.boundaries),
            1 => (some(chance, &self.near_records) + chance.usize(..60)).saturating_sub(10).min(self.acts),
            _ => chance.usize(0..=self.acts),
        }
    }
}

impl Chain<'_> {
    /// Runs a verb to its end while a client writes. Records the disks from shortly before until some time
    /// after it.
    fn operate(&mut self, verb: &str) -> Result<(Recording, Vec<Acknowledged>)> {
        let writer = writer::begin(&self.namespace, self.next);
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

    /// Cuts the power at a random position and checks the disks.
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
        let copy = match self.judge(recording, acknowledged, position) {
            Ok(copy) => copy,
            Err(error) => {
                self.chance = before;
                let evidence = match self.keep(recording, position, storage) {
                    Ok(dir) => format!("both disks are in {dir}"),
                    Err(error) => format!("the disks could not be kept: {error:#}"),
                };
                let with = if storage { ", including the storage" } else { "" };
                let of = recording.acts();
                return Err(error.context(format!("cut at act {position} of {of}{with} ({evidence})")));
            }
        };
        seen.cuts += 1;
        seen.storage += u32::from(storage);
        add(&mut seen.node, node);
        add(&mut seen.lun, lun);
        match copy {
            BootCopy::Lun { retires } => {
                seen.on_lun += 1;
                seen.retiring += u32::from(retires);
            }
            BootCopy::Local | BootCopy::RolledBack => seen.local += 1,
            BootCopy::Returning { .. } => seen.returning += 1,
        }
        Ok(())
    }

    /// Puts both disks in place, with the content that they have after the cut.
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

    fn judge(
        &self,
        recording: &Recording,
        acknowledged: &[Acknowledged],
        position: usize,
    ) -> Result<BootCopy> {
        let moment = recording.moment(position);
        let earlier = acknowledged.iter().filter(|one| one.at < moment).map(|one| one.number);
        let all: Vec<u64> = self.acknowledged.iter().copied().chain(earlier).collect();
        let [node, lun] = ["cut-node", "cut-lun"].map(|name| self.caches.file(name));
        let wwid = Lun::new(1, lun.clone()).wwid();
        let run = &self.stage.bed.run;
        Cut { run, node: &node, lun: (&lun, &wwid), acknowledged: &all, hash: self.hash }.judge()
    }

    /// Tests the test itself: if no disk was ever asked to flush, cuts must do damage that the test detects.
    fn sees_forgotten_flushes(&mut self, unflushed: &Recording, acknowledged: &[Acknowledged]) -> Result<()> {
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let position = self.chance.usize(unflushed.acts() / 2..=unflushed.acts());
            self.put(unflushed, position, true)?;
            if let Err(error) = self.judge(unflushed, acknowledged, position) {
                let text: String = format!("{error:#}").chars().take(300).collect();
                println!(
                    "        cuts: without any flush, the test detects the damage of a cut, as it must: {text}…"
                );
                return Ok(());
            }
        }
        bail!("all flushes were removed, and the test detected no damage in {TRIES} cuts: it cannot fail")
    }

    /// Keeps the disks of a cut, as they were before the check.
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
