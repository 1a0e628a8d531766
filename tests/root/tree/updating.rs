//! The passes that bring a copy up to date, and what they find out about its device.

use super::*;
use host::tree::{Audit, Ledger, Moved, Progress, Source};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// A copy on a staged LUN.
struct Copy {
    bench: Bench,
    staging: Option<Staging>,
    device: PathBuf,
    ledger: Ledger,
}

impl Copy {
    fn new(test: &str) -> Option<Self> {
        let mut bench = Bench::new(test)?;
        fill(&bench.path("source"));
        let device = bench.xfs();
        let staging = Some(bench.stage(&device, Access::ReadWrite));
        Some(Self { bench, staging, device, ledger: Ledger::new().unwrap() })
    }

    fn source(&self, path: &str) -> PathBuf {
        self.bench.path("source").join(path)
    }

    fn roots(&self) -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
        (tree::open(&self.bench.path("source")).unwrap(), self.staging.as_ref().unwrap().root().unwrap())
    }

    fn told(&mut self, how: Source, tell: &mut dyn FnMut(Progress)) -> Result<Moved, TreeError> {
        let (source, copy) = self.roots();
        tree::update(source, copy, &mut self.ledger, how, &Interrupt::never(), tell)
    }

    fn update(&mut self, how: Source) -> Moved {
        self.told(how, &mut |_| {}).unwrap()
    }

    fn settle(&self) -> Result<tree::Summary, TreeError> {
        let (source, copy) = self.roots();
        tree::settle(source, copy, &self.ledger, &Interrupt::never())
    }

    fn audit(&self) -> Result<Audit, TreeError> {
        let (_, copy) = self.roots();
        tree::audit(copy, &self.ledger, &|| true, &Interrupt::never())
    }

    /// Compares both trees byte by byte, the copy read from a fresh mount.
    fn compare(&mut self) -> tree::Summary {
        self.staging.take().unwrap().unmount().unwrap();
        self.staging = Some(self.bench.stage(&self.device, Access::ReadWrite));
        self.bench.proof_like(self.staging.as_ref().unwrap(), self.ledger.seed()).unwrap()
    }

    /// What the pass has proven is what a comparison of all bytes finds.
    fn is_the_same(&mut self) {
        self.update(Source::AtRest);
        let proven = self.settle().unwrap();
        assert_eq!(proven, self.compare());
        self.audit().unwrap();
    }

    fn end(mut self) {
        self.staging.take().unwrap().unmount().unwrap();
    }
}

fn write_at(path: &Path, bytes: &[u8], at: u64) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// Changes one bit of the medium, which holds the marker, without the filesystem.
fn flip(image: &Path, at: u64) {
    let image = OpenOptions::new().read(true).write(true).open(image).unwrap();
    let mut byte = [0];
    image.read_exact_at(&mut byte, at).unwrap();
    image.write_all_at(&[byte[0] ^ 1], at).unwrap();
    image.sync_all().unwrap();
}

#[test]
fn a_pass_copies_everything_and_the_next_one_only_what_differs() {
    let Some(mut copy) = Copy::new("update") else { return };
    let moved = copy.update(Source::AtRest);
    assert_eq!(moved.read, (5 + 64) * MIB as u64 + 123 + 5);
    assert!(moved.written < 6 * MIB as u64, "{moved:?}");
    // Holes stay holes.
    let blocks = fs::metadata(copy.bench.path("staging/member/wal/0.wal")).unwrap().blocks() * 512;
    assert!(blocks < MIB as u64, "{blocks}");
    assert_eq!(copy.settle().unwrap(), copy.compare());
    assert_eq!(copy.update(Source::AtRest).written, 0);

    // In place, with the same size and time, as etcd writes its database.
    let db = copy.source("member/snap/db");
    let time = fs::metadata(&db).unwrap();
    write_at(&db, b"page", 4 * MIB as u64);
    let time = Timespec { tv_sec: time.mtime(), tv_nsec: time.mtime_nsec() };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, &db, &times, AtFlags::empty()).unwrap();
    write_at(&copy.source("member/wal/0.wal"), b"more", 40_000_001);
    assert_eq!(copy.update(Source::AtRest).written, 2 * (64 << 10));
    assert_eq!(copy.settle().unwrap(), copy.compare());
    copy.end();
}

/// A new ledger knows nothing, so the copy is read from its device first. What rsync has copied is not written again.
#[test]
fn what_is_there_already_is_read_and_not_written() {
    let Some(mut copy) = Copy::new("there") else { return };
    copy.bench.copy(Pass::Fill).unwrap();
    write_at(&copy.bench.path("staging/member/snap/db"), b"wrong", 2 * MIB as u64);
    let moved = copy.update(Source::InUse);
    assert_eq!((moved.written, moved.left), (64 << 10, 0));
    // A source in use proves nothing.
    assert!(copy.settle().unwrap_err().is_a_change());
    copy.is_the_same();
    copy.end();
}

#[test]
fn files_that_change_in_any_way_between_passes() {
    let Some(mut copy) = Copy::new("any-way") else { return };
    copy.update(Source::InUse);
    let there = |copy: &Copy, path: &str| copy.bench.path("staging").join(path);
    // Grows, is truncated, and both.
    let db = copy.source("member/snap/db");
    File::options().append(true).open(&db).unwrap().set_len(9 * MIB as u64 + 1).unwrap();
    write_at(&db, b"end", 9 * MIB as u64 - 1);
    copy.is_the_same();
    File::options().write(true).open(&db).unwrap().set_len(4097).unwrap();
    copy.is_the_same();
    File::options().write(true).open(&db).unwrap().set_len(3 * MIB as u64).unwrap();
    copy.is_the_same();
    // A log segment is renamed and another one made, a snapshot is purged, and a defragmentation writes all anew.
    fs::rename(copy.source("member/wal/0.wal"), copy.source("member/wal/1.wal")).unwrap();
    fs::write(copy.source("member/wal/0.tmp"), vec![7; MIB]).unwrap();
    fs::remove_file(copy.source("member/wal/other")).unwrap();
    fs::write(copy.source("member/snap/db.tmp"), vec![8; 2 * MIB]).unwrap();
    fs::rename(copy.source("member/snap/db.tmp"), &db).unwrap();
    copy.is_the_same();
    // Types, and what is only on the copy.
    fs::remove_file(copy.source("member/db")).unwrap();
    fs::create_dir(copy.source("member/db")).unwrap();
    fs::write(copy.source("member/db/file"), "now in a directory").unwrap();
    fs::create_dir_all(there(&copy, "lost/deep")).unwrap();
    fs::write(there(&copy, "lost/deep/file"), "old").unwrap();
    fs::write(there(&copy, "member/leftover"), "old").unwrap();
    copy.is_the_same();
    fs::remove_dir_all(copy.source("member/db")).unwrap();
    symlink("elsewhere", copy.source("member/db")).unwrap();
    copy.is_the_same();
    fs::remove_file(copy.source("member/db")).unwrap();
    copy.is_the_same();
    // Owners, modes, and times that differ by nanoseconds.
    chown(&db, Some(7), Some(8)).unwrap();
    fs::set_permissions(&db, fs::Permissions::from_mode(0o6751)).unwrap();
    fs::set_permissions(copy.source("member"), fs::Permissions::from_mode(0o750)).unwrap();
    set_time(&copy.source("member/wal/1.wal"), 1);
    set_time(&copy.source("member/snap"), 1);
    copy.is_the_same();
    set_time(&copy.source("member/wal/1.wal"), 2);
    set_time(&copy.source("member/snap"), 2);
    copy.is_the_same();
    copy.end();
}

#[test]
fn hard_links_come_and_go() {
    let Some(mut copy) = Copy::new("links") else { return };
    copy.is_the_same();
    let names = ["member/wal/a", "member/wal/b", "member/wal/c"];
    let [a, b, c] = names.map(|name| copy.source(name));
    fs::write(&a, "one").unwrap();
    fs::hard_link(&a, &b).unwrap();
    fs::write(&c, "two").unwrap();
    copy.is_the_same();
    // Another pair, then none, then all three.
    fs::remove_file(&b).unwrap();
    fs::hard_link(&c, &b).unwrap();
    copy.is_the_same();
    fs::remove_file(&b).unwrap();
    fs::write(&b, "three").unwrap();
    copy.is_the_same();
    for other in [&b, &c] {
        fs::remove_file(other).unwrap();
        fs::hard_link(&a, other).unwrap();
    }
    copy.is_the_same();
    copy.end();
}

/// The LUN takes a write, and holds something else.
#[test]
fn what_the_device_has_not_kept_is_found() {
    let Some(mut copy) = Copy::new("kept") else { return };
    let image = copy.bench.image();
    for (how, at) in [(Source::InUse, 2), (Source::AtRest, 3)] {
        let db = copy.source("member/snap/db");
        write_at(&db, format!("{at} {}", String::from_utf8_lossy(MARKER)).as_bytes(), at * MIB as u64);
        let marker = format!("{at} {}", String::from_utf8_lossy(MARKER));
        let error = copy
            .told(how, &mut |progress| {
                if matches!(progress, Progress::Synced(_)) {
                    flip(&image, find(&image, marker.as_bytes()));
                }
            })
            .unwrap_err();
        assert!(matches!(error, TreeError::NotKept { .. }) && !error.is_a_change(), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("member/snap/db on the copy: the device returns something else"), "{text}");
        // The next pass doesn't believe that the block was kept.
        copy.update(how);
        copy.is_the_same();
    }
    copy.end();
}

/// The same in a batch that is read back while the next one is written.
#[test]
fn what_the_device_has_not_kept_of_a_large_file_is_found() {
    let Some(mut copy) = Copy::new("batch") else { return };
    let image = copy.bench.image();
    let db = copy.source("member/snap/db");
    let mut content = vec![0x5a; 260 * MIB];
    let marker = b"somewhere in the first batch";
    content[MIB..MIB + marker.len()].copy_from_slice(marker);
    fs::write(&db, content).unwrap();
    for how in [Source::InUse, Source::AtRest] {
        copy.ledger = Ledger::new().unwrap();
        fs::remove_file(copy.bench.path("staging/member/snap/db")).unwrap_or_default();
        let mut first = true;
        let error = copy
            .told(how, &mut |progress| {
                if matches!(progress, Progress::Synced(bytes) if bytes >= 256 << 20) && first {
                    flip(&image, find(&image, marker));
                    first = false;
                }
            })
            .unwrap_err();
        assert!(matches!(error, TreeError::NotKept { .. }), "{error}");
        // The old blocks, with the flipped marker, must not be found instead of the new ones.
        fs::remove_file(copy.bench.path("staging/member/snap/db")).unwrap();
        run("fstrim", &[copy.bench.path("staging").to_str().unwrap()]);
    }
    copy.is_the_same();
    copy.end();
}

/// A block changes on the device after it was read from there. A pass that finds the block in its ledger does not read it
/// again; the read of the whole copy does. It reads the device, although the page cache still has what was written.
#[test]
fn what_the_device_changes_later_is_found() {
    let Some(mut copy) = Copy::new("later") else { return };
    copy.update(Source::InUse);
    let whole = copy.audit().unwrap();
    assert!(whole.read == whole.of && whole.of > 0, "{whole:?}");
    let at = find(&copy.bench.image(), MARKER);
    fs::read(copy.bench.path("staging/member/snap/db")).unwrap();
    flip(&copy.bench.image(), at);
    assert_eq!(copy.update(Source::InUse).written, 0);
    let error = copy.audit().unwrap_err();
    assert_eq!(
        error.to_string(),
        "member/snap/db on the copy: the device returns something else than what it took, from byte 3145728 on: don't use it, and see the kernel's log and its storage"
    );
    let cached = fs::read(copy.bench.path("staging/member/snap/db")).unwrap();
    assert_eq!(&cached[3 * MIB..3 * MIB + MARKER.len()], MARKER);
    // Within no time nothing is read.
    let (_, root) = copy.roots();
    // An end at the limit says how much was left out.
    let cut = tree::audit(root, &copy.ledger, &|| false, &Interrupt::never()).unwrap();
    assert_eq!((cut.read, cut.of), (0, whole.of));
    // Who knows nothing reads the device, and writes what differs.
    copy.ledger = Ledger::new().unwrap();
    assert_eq!(copy.update(Source::InUse).written, 64 << 10);
    copy.is_the_same();
    copy.end();
}

#[test]
fn what_is_written_after_the_pass_is_not_proven() {
    let Some(mut copy) = Copy::new("after") else { return };
    let db = copy.source("member/snap/db");
    for side in [db.clone(), copy.bench.path("staging/member/snap/db")] {
        copy.is_the_same();
        thread::sleep(Duration::from_millis(20)); // longer than the kernel's clock is behind
        let before = fs::metadata(&side).unwrap();
        write_at(&side, b"x", 5);
        let time = Timespec { tv_sec: before.mtime(), tv_nsec: before.mtime_nsec() };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, &side, &times, AtFlags::empty()).unwrap();
        let error = copy.settle().unwrap_err();
        assert!(matches!(&error, TreeError::Changing { file } if file.contains("snap/db")), "{error}");
        fs::write(copy.source("member/new"), "").unwrap();
        assert!(copy.settle().is_err());
        fs::remove_file(copy.source("member/new")).unwrap();
        // Heals the copy, for the next turn.
        copy.ledger = Ledger::new().unwrap();
    }
    copy.is_the_same();
    copy.end();
}

/// Somebody writes, renames and removes all the time. No pass fails, and the one at rest makes both the same.
#[test]
fn passes_while_somebody_writes() {
    let Some(mut copy) = Copy::new("writer") else { return };
    let stop = AtomicBool::new(false);
    let (db, wal) = (copy.source("member/snap/db"), copy.source("member/wal"));
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                write_at(&db, &turn.to_ne_bytes(), turn * 40_503 % (5 * MIB as u64));
                let name = wal.join(format!("{}.tmp", turn % 5));
                fs::write(&name, vec![turn as u8; (turn % 7 * 10_000) as usize]).unwrap();
                if turn % 3 == 0 {
                    fs::rename(&name, wal.join(format!("{}.wal", turn % 4 + 1))).unwrap();
                }
                if turn % 11 == 0 {
                    fs::remove_file(wal.join("1.wal")).unwrap_or_default();
                }
            }
        });
        let passes: Result<Vec<_>, _> = (0..8).map(|_| copy.told(Source::InUse, &mut |_| {})).collect();
        stop.store(true, Ordering::Relaxed);
        passes.unwrap();
    });
    copy.is_the_same();
    copy.end();
}

#[test]
fn a_full_lun_is_said_to_be_full() {
    let Some(mut copy) = Copy::new("no-room") else { return };
    fs::write(copy.source("member/snap/db"), vec![1; 600 * MIB]).unwrap();
    let error = copy.told(Source::AtRest, &mut |_| {}).unwrap_err();
    assert!(matches!(error, TreeError::Unwritable { .. }), "{error}");
    let text = chain(&error);
    assert!(text.contains("writing member/snap/db on the copy: No space left on device"), "{text}");
    copy.end();
}
