//! A disk with a volatile write cache, as a value.
//!
//! What was written is read back at once, and is kept over a power cut only after a flush: what NVMe, SCSI and ATA
//! allow a disk to do. Without that, a forgotten `fsync` in the program under test would never show, since what a killed
//! QEMU wrote is still in the memory of the machine that it ran on.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

/// What is kept together in memory. Nothing is lost or kept by this size.
const PAGE: usize = 4096;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Shared between a disk and its copies until one of them writes.
type Page = Arc<[u8; PAGE]>;

/// A disk. A copy goes its own way, and costs little.
#[derive(Debug, Clone)]
pub struct Disk {
    /// What it began as, never written to; `None` for zeros.
    base: Option<Arc<File>>,
    size: u64,
    /// What a power cut leaves, where it differs from the base.
    durable: HashMap<u64, Page>,
    /// What a read sees, where it differs from that.
    cached: HashMap<u64, Page>,
    /// The writes since the last flush, in their order.
    unflushed: Vec<(u64, Arc<[u8]>)>,
}

/// What became of the writes that were in the cache.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// How many there were.
    pub writes: usize,
    /// How many of them reached the medium whole.
    pub kept: usize,
    /// How many in part.
    pub torn: usize,
}

impl Disk {
    /// A disk that begins as a file is.
    pub fn over(base: &Path) -> io::Result<Self> {
        let base = File::open(base)?;
        let size = base.metadata()?.len();
        Ok(Self { base: Some(Arc::new(base)), ..Self::blank(size) })
    }

    /// A disk of zeros.
    pub fn blank(size: u64) -> Self {
        let nothing = (HashMap::new(), HashMap::new(), Vec::new());
        Self { base: None, size, durable: nothing.0, cached: nothing.1, unflushed: nothing.2 }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What is there; shorter than asked for at the end of the disk.
    pub fn read(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let length = length.min(usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX));
        let mut bytes = Vec::with_capacity(length);
        for (number, from, count) in pages(at, length) {
            match self.cached.get(&number).or_else(|| self.durable.get(&number)) {
                Some(page) => bytes.extend_from_slice(&page[from..from + count]),
                None => bytes.extend_from_slice(&self.base_page(number)?[from..from + count]),
            }
        }
        Ok(bytes)
    }

    /// Writes into the cache.
    pub fn write(&mut self, at: u64, bytes: Arc<[u8]>) -> io::Result<()> {
        if at + bytes.len() as u64 > self.size {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut rest = &*bytes;
        for (number, from, count) in pages(at, bytes.len()) {
            if !self.cached.contains_key(&number) {
                let page = self.durable_page(number)?;
                self.cached.insert(number, page);
            }
            let (now, later) = rest.split_at(count);
            if let Some(page) = self.cached.get_mut(&number) {
                Arc::make_mut(page)[from..from + count].copy_from_slice(now);
            }
            rest = later;
        }
        self.unflushed.push((at, bytes));
        Ok(())
    }

    /// Makes durable what was written so far.
    pub fn flush(&mut self) {
        self.durable.extend(self.cached.drain());
        self.unflushed.clear();
    }

    /// The power goes: of each write that was not flushed, all, nothing or some sectors are on the medium.
    pub fn cut(&mut self, chance: &mut Rng) -> io::Result<Lost> {
        self.cached.clear();
        let writes = std::mem::take(&mut self.unflushed);
        let mut lost = Lost { writes: writes.len(), ..Lost::default() };
        for (at, bytes) in writes {
            match chance.u8(..3) {
                0 => {}
                1 => {
                    self.put(at, &bytes)?;
                    lost.kept += 1;
                }
                _ => {
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        if chance.bool() {
                            self.put(at + (number * SECTOR) as u64, sector)?;
                        }
                    }
                    lost.torn += 1;
                }
            }
        }
        Ok(lost)
    }

    /// Onto the medium.
    fn put(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        for (number, from, count) in pages(at, bytes.len()) {
            let mut page = self.durable_page(number)?;
            let (now, later) = rest.split_at(count);
            Arc::make_mut(&mut page)[from..from + count].copy_from_slice(now);
            self.durable.insert(number, page);
            rest = later;
        }
        Ok(())
    }

    fn durable_page(&self, number: u64) -> io::Result<Page> {
        match self.durable.get(&number) {
            Some(page) => Ok(page.clone()),
            None => self.base_page(number),
        }
    }

    fn base_page(&self, number: u64) -> io::Result<Page> {
        let mut page = [0; PAGE];
        if let Some(base) = &self.base {
            let mut filled = 0;
            while filled < PAGE {
                match base.read_at(&mut page[filled..], number * PAGE as u64 + filled as u64)? {
                    0 => break,
                    count => filled += count,
                }
            }
        }
        Ok(Arc::new(page))
    }
}

/// The pages that a range touches: the number, where in it the range begins, and how much of it belongs to the range.
fn pages(at: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let size = PAGE as u64;
    let end = at + length as u64;
    (at / size..end.div_ceil(size)).map(move |number| {
        let from = at.max(number * size);
        let to = end.min((number + 1) * size);
        (number, (from - number * size) as usize, (to - from) as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_is_kept_and_the_rest_is_at_the_mercy_of_chance() {
        let mut chance = Rng::with_seed(7);
        let mut seen = [0; 3];
        for _ in 0..200 {
            let mut disk = Disk::blank(1 << 20);
            disk.write(1000, [1; 9000].into()).unwrap();
            disk.flush();
            disk.write(4096, [2; 4096].into()).unwrap();
            assert_eq!(disk.read(4090, 12).unwrap(), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
            let lost = disk.cut(&mut chance).unwrap();
            assert_eq!(lost.writes, 1);
            let now = disk.read(1000, 9000).unwrap();
            let (left, rest) = now.split_at(3096);
            let (middle, right) = rest.split_at(4096);
            assert!(left.iter().chain(right).all(|byte| *byte == 1), "what was flushed is gone");
            assert!(middle.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            let new = middle.iter().filter(|byte| **byte == 2).count();
            assert_eq!(lost.kept == 1, new == 4096 && lost.torn == 0);
            seen[if new == 0 { 0 } else { 1 + usize::from(new == 4096) }] += 1;
        }
        assert!(seen.iter().all(|times| *times > 20), "{seen:?}");
    }

    #[test]
    fn a_disk_begins_as_its_base_is_and_leaves_it_alone() {
        let base = std::env::temp_dir().join(format!("bed-cache-{}", std::process::id()));
        std::fs::write(&base, [b'x'; 10_000]).unwrap();
        let mut disk = Disk::over(&base).unwrap();
        disk.write(9_998, (*b"yy").into()).unwrap();
        disk.flush();
        assert_eq!(disk.read(9_995, 100).unwrap(), b"xxxyy");
        assert!(disk.write(9_999, (*b"zz").into()).is_err(), "beyond the end");
        assert_eq!(std::fs::read(&base).unwrap(), [b'x'; 10_000]);
        std::fs::remove_file(&base).unwrap();
    }

    #[test]
    fn later_writes_win_over_earlier_ones() {
        let mut disk = Disk::blank(8192);
        disk.write(0, [1; 8192].into()).unwrap();
        disk.write(4095, [2; 2].into()).unwrap();
        assert_eq!(disk.read(4094, 4).unwrap(), [1, 2, 2, 1]);
        disk.flush();
        assert_eq!(disk.cut(&mut Rng::with_seed(1)).unwrap(), Lost::default());
        assert_eq!(disk.read(4094, 4).unwrap(), [1, 2, 2, 1]);
    }
}
