//! Records the writes and flushes of all disks in one order. From a recording, each disk can be made as it
//! was at any position, so the tests can cut its power there.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Disk;

/// A burst ends when no write or flush follows within this time.
const PAUSE: Duration = Duration::from_millis(50);

/// The disks by name, and the recording if there is one.
#[derive(Debug, Default)]
pub(super) struct Disks {
    all: Vec<(String, Disk)>,
    recording: Option<Recording>,
}

impl Disks {
    pub fn put(&mut self, name: &str, disk: Disk) {
        match self.named(name) {
            Some(old) => *old = disk,
            None => self.all.push((name.into(), disk)),
        }
    }

    pub fn named(&mut self, name: &str) -> Option<&mut Disk> {
        self.all.iter_mut().find(|(known, _)| known == name).map(|(_, disk)| disk)
    }

    pub fn place(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|(known, _)| known == name)
    }

    pub fn at(&mut self, place: usize) -> Option<&mut Disk> {
        self.all.get_mut(place).map(|(_, disk)| disk)
    }

    pub fn read(&self, place: usize, at: u64, length: usize) -> io::Result<Vec<u8>> {
        self.all[place].1.read(at, length)
    }

    pub fn write(&mut self, place: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
        let bytes: Arc<[u8]> = bytes.into();
        let (name, disk) = &mut self.all[place];
        disk.write(at, Arc::clone(&bytes))?;
        if let Some(recording) = &mut self.recording {
            recording.note(name, What::Write { at, bytes });
        }
        Ok(())
    }

    pub fn flush(&mut self, place: usize) {
        let (name, disk) = &mut self.all[place];
        disk.flush();
        if let Some(recording) = &mut self.recording {
            recording.note(name, What::Flush);
        }
    }

    pub fn record(&mut self, names: &[&str]) {
        let start = self.all.iter().filter(|(name, _)| names.contains(&name.as_str())).cloned().collect();
        self.recording = Some(Recording { start, acts: Vec::new(), end: Instant::now() });
    }

    pub fn recorded(&mut self) -> Option<Recording> {
        let mut recording = self.recording.take()?;
        recording.end = Instant::now();
        Some(recording)
    }
}

/// The writes and flushes of disks, and the state of these disks before them.
#[derive(Debug)]
pub struct Recording {
    start: Vec<(String, Disk)>,
    acts: Vec<Act>,
    end: Instant,
}

/// One write or flush of one disk. The disk had completed it, and had answered, after `moment`.
#[derive(Debug)]
struct Act {
    disk: usize,
    moment: Instant,
    what: What,
}

#[derive(Debug)]
enum What {
    Write { at: u64, bytes: Arc<[u8]> },
    Flush,
}

impl Recording {
    fn note(&mut self, name: &str, what: What) {
        if let Some(disk) = self.start.iter().position(|(known, _)| known == name) {
            self.acts.push(Act { disk, moment: Instant::now(), what });
        }
    }

    /// The number of acts. A position is the number of acts before it.
    pub fn acts(&self) -> usize {
        self.acts.len()
    }

    /// How many writes and how many flushes a disk got.
    pub fn told(&self, name: &str) -> (usize, usize) {
        let of_disk = || self.acts.iter().filter(|act| self.start[act.disk].0 == name);
        let flushes = of_disk().filter(|act| matches!(act.what, What::Flush)).count();
        (of_disk().count() - flushes, flushes)
    }

    /// The last moment at a position. Everything that a client was told before this moment follows from the
    /// acts before the position.
    pub fn moment(&self, position: usize) -> Instant {
        self.acts.get(position).map_or(self.end, |act| act.moment)
    }

    /// The positions right before and after each flush, and between two bursts.
    pub fn boundaries(&self) -> Vec<usize> {
        let mut boundaries = vec![0, self.acts.len()];
        for (position, act) in self.acts.iter().enumerate() {
            if matches!(act.what, What::Flush) {
                boundaries.extend([position, position + 1]);
            }
            if position > 0 && act.moment - self.acts[position - 1].moment > PAUSE {
                boundaries.push(position);
            }
        }
        boundaries.sort_unstable();
        boundaries.dedup();
        boundaries
    }

    /// The positions right before the writes that contain these bytes. Large writes are copied data and are
    /// skipped.
    pub fn writes_of(&self, wanted: &[u8]) -> Vec<usize> {
        const LARGE: usize = 64 << 10;
        let holds = |act: &Act| match &act.what {
            What::Write { bytes, .. } if bytes.len() <= LARGE => {
                bytes.windows(wanted.len()).any(|some| some == wanted)
            }
            _ => false,
        };
        (0..self.acts.len()).filter(|position| holds(&self.acts[*position])).collect()
    }

    /// A disk at a position, with the content of its cache then.
    pub fn disk(&self, name: &str, position: usize) -> Result<Disk> {
        let number = self.start.iter().position(|(known, _)| known == name).context("no such disk")?;
        let mut disk = self.start[number].1.clone();
        for act in self.acts[..position].iter().filter(|act| act.disk == number) {
            match &act.what {
                What::Write { at, bytes } => disk.write(*at, Arc::clone(bytes))?,
                What::Flush => disk.flush(),
            }
        }
        Ok(disk)
    }

    /// Removes all flushes from the recording, to prove that a test detects this.
    pub fn forget_flushes(&mut self) {
        self.acts.retain(|act| !matches!(act.what, What::Flush));
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// Writes a log on one disk and a mark on the other, correctly: an entry is acknowledged after both were
    /// flushed.
    fn recorded() -> (Recording, Vec<Instant>) {
        let mut disks = Disks::default();
        disks.put("log", Disk::blank(1 << 20));
        disks.put("mark", Disk::blank(4096));
        disks.write(0, 0, &[9; 512]).unwrap();
        disks.record(&["log", "mark"]);
        let mut acknowledged = Vec::new();
        for entry in 1..=20u8 {
            disks.write(0, u64::from(entry) * 512, &[entry; 512]).unwrap();
            disks.flush(0);
            disks.write(1, 0, &[entry; 512]).unwrap();
            disks.flush(1);
            acknowledged.push(Instant::now());
        }
        let recording = disks.recorded().unwrap();
        assert!(disks.recorded().is_none());
        (recording, acknowledged)
    }

    /// How many entries are lost although they were acknowledged before the cut.
    fn lost(recording: &Recording, acknowledged: &[Instant], position: usize, chance: &mut Rng) -> usize {
        let before = acknowledged.iter().filter(|moment| **moment < recording.moment(position)).count();
        let [log, mark] = ["log", "mark"].map(|name| {
            let mut disk = recording.disk(name, position).unwrap();
            disk.cut(chance).unwrap();
            disk
        });
        let marked = mark.read(0, 1).unwrap()[0];
        let entries = (1..=20u8)
            .filter(|entry| log.read(u64::from(*entry) * 512, 512).unwrap().iter().all(|byte| byte == entry));
        before.saturating_sub(entries.count().min(marked.into()))
    }

    #[test]
    fn no_cut_loses_what_was_flushed_and_a_forgotten_flush_shows() {
        let (mut recording, acknowledged) = recorded();
        assert_eq!(
            (recording.acts(), recording.told("log"), recording.told("mark")),
            (80, (20, 20), (20, 20))
        );

        // Each write has a flush before and after it, except the first.
        assert_eq!(recording.boundaries().len(), 81);
        let mut chance = Rng::with_seed(5);
        let mut all = |recording: &Recording| -> usize {
            (0..=recording.acts()).map(|position| lost(recording, &acknowledged, position, &mut chance)).sum()
        };
        assert_eq!(all(&recording), 0);
        recording.forget_flushes();
        assert_eq!(recording.told("log"), (20, 0));
        assert!(all(&recording) > 40, "flushes were forgotten, and nothing was seen to be lost");
    }

    #[test]
    fn a_disk_is_as_it_was_at_each_position() {
        let (recording, _) = recorded();
        for (position, entry) in [(0, 0), (1, 1), (4, 1), (5, 2), (80, 20)] {
            let log = recording.disk("log", position).unwrap();
            // The content from before the recording is there.
            assert_eq!(log.read(0, 1).unwrap(), [9]);
            let last = (0..=20u64).rev().find(|number| log.read(number * 512, 1).unwrap()[0] != 0);
            assert_eq!(last, Some(entry), "at {position}");
        }
        assert!(recording.disk("none", 0).is_err());
        // The entry is written to both disks.
        assert_eq!(recording.writes_of(&[7; 512]), [24, 26]);
    }
}
