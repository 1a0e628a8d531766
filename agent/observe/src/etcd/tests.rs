use super::*;
use host::{Root, files::Files, transcript::Transcript};

const DATABASE: &str = "var/lib/etcd/member/snap/db";
const LOG: &str = "var/lib/etcd/member/wal/0.wal";

/// What an etcd in this group, with these files open, is said to have in another place.
fn seen(group: &str, open: &[&str], locks: &str) -> Fact<Option<String>> {
    let machine = Files::new("etcd-files");
    for file in [DATABASE, LOG, "srv/etcd/member/snap/db", "srv/wal/0.wal"] {
        machine.put(file, "");
    }
    machine.put("proc/locks", locks);
    machine.put("proc/7/comm", "etcd\n");
    machine.put("proc/7/cgroup", &format!("0::{group}\n"));
    machine.dir("proc/7/fd");
    for (at, file) in open.iter().enumerate() {
        machine.link(machine.0.join(file).to_str().unwrap(), &format!("proc/7/fd/{at}"));
    }
    let host = Host::fixture(Root::new(&machine.0), Box::new(Transcript::default())).unwrap();
    let runtime = Runtime::Systemd { unit: "etcd.service".into() };
    other_place(&host, &runtime, &"/var/lib/etcd".parse().unwrap())
}

#[test]
fn a_database_or_a_log_in_another_place_is_seen() {
    for group in ["/system.slice/etcd.service", "/"] {
        let other = |open: &[&str]| seen(group, open, "").require().unwrap().clone();
        assert_eq!(other(&[DATABASE, LOG]), None);
        for (open, expected) in [
            (vec![DATABASE, LOG, "srv/wal/0.wal"], "/srv/wal/0.wal open"),
            (vec![DATABASE, "srv/wal/0.wal"], "/srv/wal/0.wal open"),
            (vec!["srv/etcd/member/snap/db", LOG], "/srv/etcd/member/snap/db open"),
            (vec![LOG], "does not have /var/lib/etcd/member/snap/db open"),
            (vec![DATABASE], "has no log in /var/lib/etcd/member/wal open"),
            (vec![], "does not have /var/lib/etcd/member/snap/db open"),
        ] {
            assert!(other(&open).is_some_and(|found| found.ends_with(expected)), "{group} {open:?}");
        }
    }
}

#[test]
fn locks_that_cannot_be_read_make_the_place_unknown() {
    assert!(seen("/", &[], "garbage").require().is_err());
}
