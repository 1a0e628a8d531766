//! Whose processes count, a connection that comes back, and stamps of other moments.

use super::*;
use crate::{node::Multipath, terms::Bytes};
use std::thread;

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

fn lun_with(stamp: Fact<Option<Stamp>>) -> Lun {
    let (label, size, settled, empty) = (None, Bytes(SIZE), false, None);
    Lun {
        device: "sdb".into(),
        devno: "8:16".into(),
        paths: vec!["sdb".into()],
        multipath: Multipath::Unclaimed,
        wwid: Fact::Known(wwid()),
        serial: None,
        size,
        path_size: size,
        silent: false,
        read_only: false,
        holders: Vec::new(),
        partitions: Vec::new(),
        users: Fact::Known(Vec::new()),
        content: Fact::Known(Content::Xfs { uuid: OURS, label, size, stamp, settled, empty }),
    }
}

/// A mount replays the log, which writes. What is older before that may be the same afterwards.
#[test]
fn a_lun_is_not_mounted_that_cannot_be_of_the_records_moment() {
    let node = Node::with_device();
    let record = record().commit(None);
    let stamp = |machine: &str, generation, activations| {
        let last = LunUse { activations, nonce: Nonce([0; 16]) };
        Fact::Known(Some(Stamp::new(generation, machine.into(), "master-0".into(), last)))
    };
    let look = |stamp| node.look(|run| may_be_mounted(run, &record, &lun_with(stamp)));
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
