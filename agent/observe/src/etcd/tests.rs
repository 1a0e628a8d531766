use super::*;
use host::{Root, files::Files, transcript::Transcript};

const DATABASE: &str = "var/lib/etcd/member/snap/db";
const LOG: &str = "var/lib/etcd/member/wal/0.wal";
/// Debian's etcd has a directory of its own in there.
const IN_A_CHILD: [&str; 2] =
    ["var/lib/etcd/default/member/snap/db", "var/lib/etcd/default/member/wal/0.wal"];

/// What an etcd in this group, with these files open, is said to have in another place.
fn seen(group: &str, open: &[&str], locks: &str) -> Fact<Option<String>> {
    let machine = Files::new("etcd-files");
    for file in [DATABASE, LOG, "srv/etcd/member/snap/db", "srv/wal/0.wal"].into_iter().chain(IN_A_CHILD) {
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
            (IN_A_CHILD.to_vec(), "/var/lib/etcd/default/member/wal/0.wal open"),
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

#[test]
fn the_quota_is_what_etcd_takes_from_its_arguments_and_variables() {
    let found = |arguments: &str, variables: &str| {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        quota_of(&words(arguments), &words(variables)).map(|quota| quota.0)
    };
    for (arguments, variables, quota) in [
        ("etcd", "PATH=/bin", 2 << 30),
        ("etcd --quota-backend-bytes=0", "", 2 << 30),
        ("etcd --quota-backend-bytes=1073741824", "", 1 << 30),
        ("etcd --quota-backend-bytes 1073741824 --name a", "", 1 << 30),
        ("etcd -quota-backend-bytes=7 -quota-backend-bytes=8", "", 8),
        ("etcd", "ETCD_NAME=a ETCD_QUOTA_BACKEND_BYTES=8589934592", 8 << 30),
        ("etcd --quota-backend-bytes=5", "ETCD_QUOTA_BACKEND_BYTES=8589934592", 5),
        ("etcd", "ETCD_QUOTA_BACKEND_BYTES= ETCD_CONFIG_FILE=", 2 << 30),
        ("etcd --name quota-backend-bytes", "XETCD_QUOTA_BACKEND_BYTES=1", 2 << 30),
    ] {
        assert_eq!(found(arguments, variables), Ok(quota), "{arguments} {variables}");
    }
    for (arguments, variables) in [
        ("etcd --config-file /etc/etcd.yml --quota-backend-bytes=5", ""),
        ("etcd --config-file=/etc/etcd.yml", ""),
        ("etcd --quota-backend-bytes=5", "ETCD_CONFIG_FILE=/etc/etcd.yml"),
        ("etcd --quota-backend-bytes=-1", ""),
        ("etcd --quota-backend-bytes=8GiB", ""),
    ] {
        assert!(found(arguments, variables).is_err(), "{arguments} {variables}");
    }
}

#[test]
fn the_quota_is_asked_of_the_process_that_has_the_database() {
    let machine = Files::new("etcd-quota");
    machine.put(DATABASE, "");
    machine.put("proc/locks", "");
    machine.put("proc/7/cmdline", "etcd\0--quota-backend-bytes\x005\0");
    machine.put("proc/7/environ", "");
    let host = Host::fixture(Root::new(&machine.0), Box::new(Transcript::default())).unwrap();
    assert!(quota(&host, &"/var/lib/etcd".parse().unwrap()).require().is_err());
}
