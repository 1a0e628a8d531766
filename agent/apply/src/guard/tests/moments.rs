//! Whose processes count, a connection that comes back, and stamps of other moments.

use super::*;
use nix::{sys::stat::Mode, unistd::mkfifo};
use std::{io::Read, os::unix::fs::OpenOptionsExt, path::Path, thread};

fn user(pid: u32) -> User {
    User { pid, command: "pause".into(), at: "/mnt".into() }
}

/// Without a staged LUN this process is one as any other.
#[test]
fn only_the_process_that_has_staged_the_lun_is_no_user() {
    let users = [user(7), user(8)];
    assert_eq!(somebody_else(&users, None).map(|user| user.pid), Some(7));
    assert_eq!(somebody_else(&users, Some(7)).map(|user| user.pid), Some(8));
    assert_eq!(somebody_else(&users[..1], Some(7)), None);
    assert_eq!(somebody_else(&users[..1], Some(8)).map(|user| user.pid), Some(7));
}

const FIRST: &str = "sys/class/iscsi_session/session1/state";

/// Both sessions have lost their connection.
fn disconnected(recovery: &str) -> Node {
    let node = Node::with_paths(BOTH_WORK);
    for sid in [1, 2] {
        let session = format!("sys/class/iscsi_session/session{sid}");
        node.put(&format!("{session}/state"), "FAILED\n");
        node.put(&format!("{session}/recovery_tmo"), recovery);
    }
    node
}

#[test]
fn a_connection_that_comes_back_is_waited_for() {
    let node = disconnected("120");
    let state = node.files.0.join(FIRST);
    let later = state.clone();
    let comes_back = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        fs::write(later, "LOGGED_IN\n").unwrap();
    });
    node.look(wait_for_connection).unwrap();
    assert_eq!(fs::read_to_string(state).unwrap(), "LOGGED_IN\n");
    comes_back.join().unwrap();
}

/// The other path, or the end of the kernel's patience.
#[test]
fn nothing_is_waited_for_that_does_not_matter() {
    let begun = Instant::now();
    let other_works = disconnected("120");
    other_works.put(FIRST, "LOGGED_IN\n");
    other_works.look(wait_for_connection).unwrap();
    disconnected("0").look(wait_for_connection).unwrap();
    let gone = disconnected("120");
    for sid in [1, 2] {
        gone.put(&format!("sys/class/iscsi_session/session{sid}/state"), "FREE\n");
    }
    gone.look(wait_for_connection).unwrap();
    assert!(begun.elapsed() < NOT_IN_USE.0 / 2, "{:?}", begun.elapsed());
}

/// A path's answer to the command that the kernel is made to send counts, and not what was known before it.
#[test]
fn a_path_that_goes_away_while_it_is_asked_does_not_work() {
    let step = RemovePath { map: "dm-0".into(), path: "sda".into(), sid: 1 };
    let after = |change: fn(&Path)| {
        let node = Node::with_paths(BOTH_WORK);
        let base = node.files.0.clone();
        node.put("sys/class/block/sdb/device/scsi_level", "6\n");
        let rescan = base.join("sys/class/block/sdb/device/rescan");
        mkfifo(&rescan, Mode::S_IRWXU).unwrap();
        let asked = thread::spawn(move || {
            // The guard has looked at the path by then, and waits for a reader.
            thread::sleep(Duration::from_millis(300));
            change(&base);
            let mut reader = OpenOptions::new();
            reader.read(true).custom_flags(nix::libc::O_NONBLOCK).open(rescan).unwrap()
        });
        let found = node.look(|run| another_path_works(run, &step));
        let mut said = [0];
        assert_eq!((asked.join().unwrap().read(&mut said).unwrap(), said), (1, *b"1"));
        found
    };
    assert_eq!(after(|_| ()), Ok("sdb".into()));
    let gone: [fn(&Path); 2] = [
        |base| fs::write(base.join("sys/class/iscsi_session/session2/state"), "FAILED\n").unwrap(),
        |base| fs::write(base.join("sys/class/block/sdb/device/state"), "offline\n").unwrap(),
    ];
    for change in gone {
        let error = after(change).unwrap_err();
        assert!(error.contains("sdb has not answered"), "{error}");
    }
}

/// This node has no bus, so whether etcd runs is not known.
#[test]
fn an_unknown_etcd_is_not_stopped() {
    let error = Node::with_device().look(others_are_a_quorum).unwrap_err();
    assert!(error.starts_with("whether etcd runs cannot be determined"), "{error}");
}

/// A mount replays the log, which writes. What is older before that may be the same afterwards.
#[test]
fn a_lun_is_not_mounted_that_cannot_be_of_the_records_moment() {
    let node = Node::with_device();
    let record = record().commit(None);
    let seen = node.look(|run| lun(run, &wwid())).unwrap();
    let (label, size, settled, empty) = (None, seen.size, false, None);
    let stamp = |machine: &str, generation, activations| {
        let last = LunUse { activations, nonce: Nonce([0; 16]) };
        Fact::Known(Some(Stamp::new(generation, machine.into(), "master-0".into(), last)))
    };
    let look = |stamp| {
        let content =
            Fact::Known(Content::Xfs { uuid: OURS, label: label.clone(), size, stamp, settled, empty });
        node.look(|run| may_be_mounted(run, &record, &Lun { content, ..seen.clone() }))
    };
    let now = record.announced.map_or(record.activations, |next| next.activations);
    for passes in [
        stamp(MACHINE, 1, now),
        stamp(MACHINE, 0, now),
        Fact::Known(None),
        Fact::Unknown("not readable".into()),
    ] {
        look(passes).unwrap();
    }
    for refused in [stamp(MACHINE, 2, now), stamp(MACHINE, 1, now + 7), stamp("another", 1, now)] {
        let error = look(refused).unwrap_err();
        assert!(error.starts_with("the filesystem is stamped for master-0, generation"), "{error}");
    }
}
