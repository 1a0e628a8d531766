//! A disk with a volatile write cache.
//!
//! A read sees every write at once. A power cut keeps only what was flushed before. NVMe, SCSI and ATA allow
//! a disk to behave like this. A killed QEMU alone loses nothing, because its writes are in the host's page
//! cache. So without this disk, the tests would not detect a missing `fsync` in the program.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

/// The unit of memory. It has no effect on which writes survive.
const PAGE: usize = 4096;
/// The unit that a disk writes completely or not at all.
const SECTOR: usize = 512;

/// A page that a disk and its copies share until one of them writes to it.
type Page = Arc<[u8; PAGE]>;

/// A disk. A copy is independent and costs little memory.
#[derive(Debug, Clone)]
pub struct Disk {
    /// The file with the initial content. Nobody writes to it. `None` means zeros.
    base: Option<Arc<File>>,
    size: u64,
    /// The pages that survive a power cut, where they differ from the base.
    durable: HashMap<u64, Page>,
    /// The pages that a read sees, where they differ from the durable ones.
    cached: HashMap<u64, Page>,
    /// The writes since the last flush, in their order.
    unflushed: Vec<(u64, Arc<[u8]>)>,
}

/// What a power cut did to the writes in the cache.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// How many writes were in the cache.
    pub writes: usize,
    /// How many of them are completely on the medium.
    pub kept: usize,
    /// How many of them may be on the medium in part.
    pub torn: usize,
}

impl Disk {
    /// A disk that begins with the content of a file.
    pub fn over(base: &Path) -> io::Result<Self> {
        let base = File::open(base)?;
        let size = base.metadata()?.len();
        Ok(Self { base: Some(Arc::new(base)), ..Self::blank(size) })
    }

    /// A disk that begins with zeros.
    pub fn blank(size: u64) -> Self {
        let nothing = (HashMap::new(), HashMap::new(), Vec::new());
        Self { base: None, size, durable: nothing.0, cached: nothing.1, unflushed: nothing.2 }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads bytes. The result is shorter than `length` at the end of the disk.
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

    /// Writes bytes into the cache.
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

    /// Makes all writes so far durable.
    pub fn flush(&mut self) {
        self.durable.extend(self.cached.drain());
        self.unflushed.clear();
    }

    /// Cuts the power. Of each unflushed write, all, no or some sectors are on the medium then.
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

    /// Writes bytes to the medium.
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

/// The pages that a range touches. For each page: its number, the offset in it where the range begins, and
/// the length.
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
