//! mkfs.xfs, interrupted at any point.

use super::*;
use std::{thread, time::Instant};
use terms::FsUuid;

const UUID: &str = "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b";

fn uuid() -> FsUuid {
    UUID.parse().unwrap()
}

/// A generator of random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The remains of mkfs.xfs must be recognised with the expected UUID, must be foreign with any other, and must be
/// cleared so that mkfs.xfs accepts the device again. Counts the outcomes: blank, unfinished, finished.
fn judge(host: &Host, name: &str, what: &str, counts: &mut [u32; 3]) {
    match probe(host, name, Some(&uuid())).unwrap() {
        Content::Blank => counts[0] += 1,
        Content::XfsUnfinished { uuid: found } => {
            counts[1] += 1;
            assert_eq!(found, uuid());
            assert!(matches!(probe(host, name, None).unwrap(), Content::Foreign { .. }), "{what}");
            let other = FsUuid([7; 16]);
            assert!(clear_unfinished(host, name, &other).is_err());
            clear_unfinished(host, name, &uuid()).unwrap();
        }
        Content::Xfs(found) => {
            counts[2] += 1;
            assert_eq!(found.uuid, uuid());
            assert!(clear_unfinished(host, name, &uuid()).is_err());
            return;
        }
        foreign @ Content::Foreign { .. } => panic!("{what}: {foreign:?}"),
    }
    assert_eq!(probe(host, name, None).unwrap(), Content::Blank, "{what}");
    let made = mkfs(&host.root.locate(node(name).unwrap().as_path()), &[]).output().unwrap();
    assert!(made.status.success(), "{what}: {made:?}");
    assert!(matches!(probe(host, name, None).unwrap(), Content::Xfs(_)), "{what}");
}

fn mkfs(device: &Path, more: &[&str]) -> Command {
    let mut command = Command::new("mkfs.xfs");
    command.args(["-K", "-q", "-m", &format!("uuid={UUID}"), "-L", "etcd-lun"]).args(more).arg(device);
    command
}

/// A device with a volatile cache may keep any subset of the writes when its power fails.
#[test]
fn any_sector_may_be_missing() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let whole = super::formats::recorded("xfs");
    for round in 0..300 {
        let keep = 1 + random.below(100);
        let mut part = whole.sectors.clone();
        part.retain(|_| random.below(100) < keep);
        let started = part.first_mut().filter(|(at, _)| *at == 0).map(|(_, superblock)| superblock[126] = 1);
        let code = if started.is_some() { 0 } else { 2 };
        let some = part.len();
        let bench = Recorded { code, stdout: whole.stdout.clone(), size: whole.size, sectors: part }.play();
        let content = probe(&bench.host, "img", Some(&uuid())).unwrap();
        let others = bench.probe();
        if some == 0 {
            assert_eq!((content, others), (Content::Blank, Content::Blank), "{round}");
            continue;
        }
        assert_eq!(content, Content::XfsUnfinished { uuid: uuid() }, "{round}");
        assert!(matches!(others, Content::Foreign { .. }), "{round}");
        clear_unfinished(&bench.host, "img", &uuid()).unwrap();
        assert_eq!(bench.probe_as(2), Content::Blank, "{round}");
    }
}

#[test]
fn clears_only_what_is_ours() {
    let whole = super::formats::recorded("xfs");
    let bench = whole.play();
    let before = bench.bytes();
    let refuses = |why: &str| {
        let error = clear_unfinished(&bench.host, "img", &uuid()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    refuses("a finished XFS");
    assert!(bench.bytes() == before);
    bench.write(126, &[1]);
    bench.write(64 * MIB, b"x");
    let before = bench.bytes();
    refuses("offset 67108864");
    let Content::Foreign { found } = probe(&bench.host, "img", Some(&uuid())).unwrap() else { panic!() };
    assert!(found.starts_with("an unfinished XFS and bytes"), "{found}");
    assert!(bench.bytes() == before);
    let error = clear_unfinished(&bench.host, "img", &FsUuid([1; 16])).unwrap_err();
    assert!(error.to_string().contains("bytes of something else at offset 0 "), "{error}");
    assert!(bench.bytes() == before);
}

#[test]
fn a_long_log_record_is_ours() {
    // As on a device with stripes of 256 KiB: the record's inner sectors have only the number of the cycle.
    let bench = Bench::scripted(512 * MIB, 2, "");
    let record = 128 * MIB - 64 * KIB;
    for at in (record..record + 256 * KIB).step_by(512) {
        bench.write(at, &[0, 0, 0, 1]);
    }
    assert!(matches!(probe(&bench.host, "img", Some(&uuid())).unwrap(), Content::Foreign { .. }));
    bench.write(record, &[0xfe, 0xed, 0xba, 0xbe]);
    bench.write(record + 304, &uuid().0);
    let content = probe(&bench.host, "img", Some(&uuid())).unwrap();
    assert_eq!(content, Content::XfsUnfinished { uuid: uuid() });
    bench.write(128 * MIB + 512, &[0, 0, 0, 2]);
    assert!(matches!(probe(&bench.host, "img", Some(&uuid())).unwrap(), Content::Foreign { .. }));
}

#[test]
#[ignore = "takes minutes and needs root, loop devices and mkfs.xfs: stops it hundreds of times"]
fn stopped_at_random() {
    let attach = || super::devices::Loop::attach(512 * MIB, &[]);
    let device = attach();
    let start = Instant::now();
    assert!(mkfs(&device.node(), &[]).status().unwrap().success());
    let whole = start.elapsed();
    drop(device);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut counts = [0; 3];
    for round in 0..200 {
        let device = attach();
        let mut running = mkfs(&device.node(), &[]).spawn().unwrap();
        thread::sleep(whole * u32::try_from(random.below(1000)).unwrap() / 1000);
        running.kill().unwrap();
        running.wait().unwrap();
        judge(&device.bench.host, &device.name, &format!("round {round}"), &mut counts);
    }
    println!("blank, unfinished, finished: {counts:?}");
}

#[test]
#[ignore = "takes minutes and needs mkfs.xfs and strace: stops it at each write"]
fn stopped_at_every_write() {
    for (size, more) in [
        (512 * MIB, &[][..]),
        (8 * GIB, &[]),
        (8 * GIB, &["-s", "size=4096"]),
        (8 * GIB, &["-d", "su=64k,sw=4"]),
        (8 * GIB, &["-d", "agcount=16"]),
        (5 << 40, &[]),
    ] {
        let mut counts = [0; 3];
        for number in 1.. {
            let bench = Bench::new(size);
            let inject = format!("inject=pwrite64,fallocate:signal=KILL:when={number}");
            let real = mkfs(&bench.image, more);
            let mut traced = Command::new("strace");
            traced.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,fallocate", "-e", &inject]);
            let ended = traced.arg(real.get_program()).args(real.get_args()).status().unwrap();
            judge(&bench.host, "img", &format!("{size} {more:?} write {number}"), &mut counts);
            if ended.success() {
                break;
            }
            assert_eq!(ended.code(), None, "{more:?}"); // strace ends by the same signal as its program
        }
        println!("{size} {more:?}: blank, unfinished, finished: {counts:?}");
    }
}

#[test]
#[ignore = "takes minutes and needs mkfs.xfs: makes filesystems of many shapes"]
fn of_any_shape() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut counts = [0; 3];
    for _ in 0..100 {
        let scale = 29 + random.below(12);
        let size = (300 * MIB + random.below(1 << scale)) / 512 * 512;
        let bench = Bench::new(size);
        let stripe = format!("su={}k,sw={}", 4 << random.below(8), 1 + random.below(12));
        let more = if random.below(2) == 0 { vec![] } else { vec!["-d", &stripe] };
        let made = mkfs(&bench.image, &more).output().unwrap();
        if !made.status.success() {
            println!("left out, mkfs.xfs refuses: {size} {more:?}");
            continue;
        }
        bench.write(126, &[1]); // as before the last write
        judge(&bench.host, "img", &format!("{size} {more:?}"), &mut counts);
    }
    println!("blank, unfinished, finished: {counts:?}");
}
