//! Every check must be ok on a good node, find its fault on a broken node, and report that it cannot
//! determine an unknown fact.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod figures;
mod pool;
mod storage;
mod written;

use health::{
    self, AFTER_ROLLBACK, AT_WORK, BEFORE_MIGRATION, CHANGED_BY_A_RUN, CHECKS, Outcome, Report, Run,
};
use node::{
    ActiveState, EtcdState, Fact, HealthFacts, InForce, LocalDir, LunView, MemberHealth, Multipath, Node,
    OtherUse, Retired, Selinux,
};
use std::time::Duration;
use support::*;
use terms::{Bytes, Span};
use unit::SELINUX_CONTEXT;

fn assess(config: &config::Config, node: &Node) -> Report {
    health::assess(config, node, &health_facts())
}

fn outcome(node: &Node, check: &str) -> Outcome {
    let report = assess(&config(), node);
    report.rows.into_iter().find(|row| row.check == check).unwrap().outcome
}

const PROGRAM: &str = "system_u:object_r:etcd_lun_exec_t:s0";

/// SELinux's state as the service sees it.
fn confined(enforcing: bool, module: InForce, context: &str, program: &str) -> Fact<Selinux> {
    Fact::Known(Selinux::On {
        enforcing,
        module,
        knows_data_label: module != InForce::Absent,
        context: context.into(),
        program: Some(program.into()),
        beside: Some("system_u:object_r:var_lib_t:s0".into()),
        unit: Some("etcd-lun.service".into()),
    })
}

fn unknown<T>() -> Fact<T> {
    Fact::Unknown("it could not be read".into())
}

/// A second disk of the administrator's is mounted. A cure for its options or its size would take etcd away from it.
#[test]
fn the_filesystem_of_another_disk_is_not_judged_as_the_luns() {
    let mut other = data_mount("9:99");
    (other.options, other.free) = (vec!["rw".into()], Some((Bytes(1 << 30), Bytes(2 << 30))));
    let node = Node { mount: Fact::Known(Some(other)), ..migrated() };
    for check in ["mount-options", "lun-size"] {
        assert!(matches!(outcome(&node, check), Outcome::CannotTell(_)), "{check}");
    }
}

/// A kernel without SELinux has no labels, and shows none.
#[test]
fn the_mount_has_its_label_where_selinux_is_on() {
    let without_label = |selinux| {
        let mut node = Node { selinux, ..migrated() };
        known(&mut node.mount).as_mut().unwrap().options.retain(|option| !option.starts_with("context="));
        outcome(&node, "mount-options")
    };
    let on = confined(true, InForce::Right, SELINUX_CONTEXT, PROGRAM);
    let Outcome::Found(said) = without_label(on) else { panic!() };
    assert!(said.starts_with("mounted without context=system_u:object_r:etcd_lun_data_t:s0: "), "{said}");
    assert!(matches!(without_label(Fact::Known(Selinux::Off)), Outcome::Ok(_)));
}

#[test]
fn a_migrated_node_is_healthy() {
    let enforcing = confined(true, InForce::Right, SELINUX_CONTEXT, PROGRAM);
    let confined = Node { selinux: enforcing, ..migrated() };
    assert!(assess(&config(), &confined).is_healthy());
    let report = assess(&config(), &migrated());
    assert!(report.is_healthy(), "{report:#?}");
    assert_eq!(report.rows.len(), CHECKS.len());
    assert!(!assess(&config(), &node()).is_healthy());
}

/// A database may take twice its size for a while. How full the LUN is in percent does not matter.
#[test]
fn free_space_is_room_for_a_defragmentation() {
    let outcome_with = |free: u64, database: Option<u64>| {
        let mut node = migrated();
        let mount = known(&mut node.mount).as_mut().unwrap();
        (mount.free, mount.database) = (Some((Bytes(free), Bytes(20 << 30))), database.map(Bytes));
        outcome(&node, "free-space")
    };
    let files = 256 << 20;
    for database in [0, 1 << 30, 9 << 30] {
        assert!(matches!(outcome_with(database + files + 1, Some(database)), Outcome::Ok(_)), "{database}");
        assert!(matches!(outcome_with(database + files, Some(database)), Outcome::Found(_)), "{database}");
    }
    assert!(matches!(outcome_with(19 << 30, None), Outcome::CannotTell(_)));
}

/// The timer's run does not ask the cluster, and has no row for it.
#[test]
fn a_cluster_that_nobody_asked_is_no_finding() {
    let report = assess(&config(), &Node { cluster: None, ..migrated() });
    assert!(report.is_healthy() && report.rows.iter().all(|row| row.check != "cluster"), "{report:#?}");
}

#[test]
fn a_node_that_was_rolled_back_says_so_and_is_healthy() {
    let back = Node {
        record: Fact::Known(Some(rolled_back(DATA))),
        local: Fact::Known(dir(&["member"], false)),
        ..node()
    };
    let report = assess(&config(), &back);
    assert!(report.is_healthy(), "{report:#?}");
    let rows: Vec<_> = report.rows.iter().map(|row| row.check).collect();
    assert_eq!(rows, AFTER_ROLLBACK);
    let Outcome::Ok(said) = outcome(&back, "record") else { panic!("{report:#?}") };
    assert!(said.contains("rolled back to the local disk on purpose"), "{said}");
    for (ill, said) in [
        (Node { local: Fact::Known(dir(&[], true)), ..back.clone() }, "not finished"),
        (Node { rollback_staging: Fact::Known(staged(Some(DATA))), ..back.clone() }, "not finished"),
        (Node { mount: Fact::Known(Some(data_mount("8:16"))), ..back.clone() }, "mounted over"),
    ] {
        let Outcome::Found(detail) = outcome(&ill, "fence") else { panic!("{ill:#?}") };
        assert!(detail.contains(said), "{detail}");
    }
    let blind = Node { rollback_staging: unknown(), ..back };
    assert!(matches!(outcome(&blind, "fence"), Outcome::CannotTell(_)));
}

fn seen(node: &mut Node) -> &mut node::Lun {
    match known(&mut node.lun) {
        LunView::Seen(lun) => lun,
        other => panic!("{other:?}"),
    }
}

/// Nine checks of a LUN that nobody has moved to would each tell the reader to stop etcd.
#[test]
fn a_node_that_is_not_migrated_has_one_verdict() {
    let report = assess(&config(), &node());
    let bad: Vec<_> = report.rows.iter().filter(|row| !row.outcome.is_ok()).collect();
    let [row] = bad.as_slice() else { panic!("{report:#?}") };
    assert_eq!(row.check, "record");
    assert!(
        row.outcome.detail().starts_with("not migrated yet: etcd's data is on the local disk"),
        "{row:?}"
    );
    assert!(report.rows.iter().all(|row| BEFORE_MIGRATION.contains(&row.check)), "{report:#?}");
    let bare = Node { missing_tools: vec!["iscsiadm (package iscsi-initiator-utils)".into()], ..node() };
    let Outcome::Found(said) = outcome(&bare, "record") else { panic!() };
    assert!(
        said.ends_with("first install what is missing: iscsiadm (package iscsi-initiator-utils)"),
        "{said}"
    );
    let begun = Node { record: Fact::Known(Some(record())), ..node() };
    let Outcome::Found(said) = outcome(&begun, "record") else { panic!() };
    assert!(said.starts_with("a migration was begun and not finished"), "{said}");
    // A record that was lost, and a LUN that is mounted: every check has something to say.
    let lost = Node { record: Fact::Known(None), ..migrated() };
    assert_eq!(assess(&config(), &lost).rows.len(), CHECKS.len());
}

#[test]
fn a_migrated_node_names_the_tools_that_are_gone() {
    let bare = Node { missing_tools: vec!["rsync (package rsync)".into()], ..migrated() };
    let Outcome::Found(said) = outcome(&bare, "units") else { panic!() };
    assert_eq!(said, "tools are missing, install them: rsync (package rsync)");
}

/// A run takes etcd and its mount away and brings them back. The report names the run once, and advises nothing against it.
fn beside_a_run(node: &Node) {
    let run = "UNDER WAY for 7 s: `etcd-lun apply`, [3/9] stop etcd";
    let facts = HealthFacts { at_work: Some(run.into()), ..health_facts() };
    let rows = health::assess(&config(), node, &facts).rows.into_iter();
    for (beside, alone) in rows.zip(assess(&config(), node).rows) {
        let (check, outcome) = (beside.check, beside.outcome);
        match alone.outcome {
            _ if check == "record" => assert_eq!(outcome, Outcome::CannotTell(run.into())),
            Outcome::Found(_) | Outcome::CannotTell(_) if CHANGED_BY_A_RUN.contains(&check) => {
                assert_eq!(outcome, Outcome::CannotTell(AT_WORK.into()), "{check}");
            }
            Outcome::Found(_) => assert!(!outcome.detail().contains("run `etcd-lun apply"), "{outcome:?}"),
            alone => assert_eq!(outcome, alone, "{check}"),
        }
    }
}

#[test]
fn every_check_finds_and_every_check_can_fail_to_tell() {
    type Change = fn(&mut Node);
    let session = |node: &mut Node| known(&mut node.sessions)[0].session.state = "FAILED".into();
    let broken: &[(&str, Change, &str)] = &[
        ("record", |node| node.record = Fact::Known(None), "not migrated"),
        ("session", session, "is FAILED"),
        (
            "session",
            |node| {
                known(&mut node.sessions)[0].session.state = "FAILED".into();
                node.answering = vec!["10.77.0.1".parse().unwrap()];
            },
            "etcd-lun restarts iscsid after 30 s, so if this stays, the target refuses the log-in",
        ),
        ("portals", |node| known(&mut node.sessions).clear(), "no session at 10.77.0.1:3260"),
        (
            "portals",
            |node| known(&mut node.sessions)[0].configured = None,
            "session 1 is at 10.77.0.1:3260, which the config does not name: it stays until the next boot",
        ),
        (
            "portals",
            |node| {
                known(&mut node.sessions)[0].configured = None;
                node.initiator.multipathd_active = Fact::Known(true);
            },
            "run `etcd-lun apply`, which logs it out when there is a session at each portal of the config",
        ),
        (
            "session-timeout",
            |node| known(&mut node.sessions)[0].session.recovery_timeout = Some(5),
            "waits 5 s",
        ),
        (
            "session-timeout",
            |node| known(&mut node.sessions)[0].session.recovery_timeout = None,
            "waits for ever",
        ),
        (
            "retired",
            |node| {
                let age = Span(Duration::from_secs(40 * 24 * 3600));
                let old = Retired { name: "1".into(), ours: true, size: Bytes(1 << 30), age };
                known(&mut node.retired).push(old);
            },
            "retired/1 was retired 40 days ago",
        ),
        (
            "initiator-name",
            |node| known(&mut node.sessions)[0].session.initiator = Some("iqn.2000-01.x:y".into()),
            "the config says",
        ),
        (
            "device-identity",
            |node| {
                let mut lun = lun(xfs(OURS, None, false));
                lun.wwid = Fact::Known(other_wwid());
                node.lun = Fact::Known(LunView::Seen(Box::new(lun)));
            },
            "expected naa.6001",
        ),
        (
            "device-writable",
            |node| {
                let LunView::Seen(lun) = known(&mut node.lun) else { panic!() };
                lun.read_only = true;
            },
            "read-only",
        ),
        ("mount", |node| node.mount = Fact::Known(Some(data_mount("9:99"))), "expected sdb"),
        (
            "mount",
            |node| node.claims = Fact::Known(vec!["the unit /x".into()]),
            "by the unit /x; remove that",
        ),
        (
            "mount",
            |node| known(&mut node.mount).as_mut().unwrap().io_error = true,
            "has shut down; etcd-lun mounts the LUN anew within a minute; if it does not, run `etcd-lun apply`",
        ),
        (
            "mount",
            |node| {
                known(&mut node.mount).as_mut().unwrap().io_error = true;
                known(&mut node.sessions)[0].session.state = "FREE".into();
            },
            "has shut down; make the target reachable",
        ),
        (
            "mount",
            |node| {
                node.mount = Fact::Known(None);
                node.claims = Fact::Known(vec!["/etc/fstab".into()]);
            },
            "may be on another disk, by /etc/fstab; see `etcd-lun plan`",
        ),
        (
            "mount-options",
            |node| known(&mut node.mount).as_mut().unwrap().options = vec!["ro".into()],
            "read-only",
        ),
        (
            "mount-options",
            |node| known(&mut node.mount).as_mut().unwrap().options = vec!["rw".into()],
            "prjquota",
        ),
        (
            "mount-options",
            |node| known(&mut node.mount).as_mut().unwrap().options.retain(|option| option != "nodev"),
            "mounted without nodev: reboot, or stop etcd, run `systemctl stop var-lib-etcd.mount` and then",
        ),
        ("stamp", |node| node.mounted_stamp = Fact::Known(None), "no stamp"),
        ("stamp", |node| node.mounted_stamp = Fact::Known(Some(stamp(1, 0))), "restored from a snapshot"),
        (
            "stamp",
            |node| seen(node).content = Fact::Known(xfs(FRESH, None, false)),
            "the LUN holds another XFS, UUID",
        ),
        (
            "stamp",
            |node| seen(node).content = Fact::Known(xfs(OURS, Some(stamp(1, 2)), false)),
            "use 2, where this node has written generation 1, use 1: another computer writes to it",
        ),
        (
            "stamp",
            |node| seen(node).paths_differ = Some("two volumes have one WWID: sda shows A, sdb B".into()),
            "sdb B; before that, stop etcd now",
        ),
        ("fence", |node| node.local = Fact::Known(dir(&[], false)), "is not immutable"),
        ("fence", |node| node.local = Fact::Known(dir(&["member"], false)), "is not empty"),
        (
            "free-space",
            |node| {
                let mount = known(&mut node.mount).as_mut().unwrap();
                (mount.free, mount.database) =
                    (Some((Bytes(9 << 30), Bytes(20 << 30))), Some(Bytes((9 << 30) - (256 << 20))));
            },
            "9GiB of 20GiB free, and the database has 8.8GiB: a defragmentation, which writes a second one, can fill the LUN and end etcd. Do not defragment; grow the LUN at the target",
        ),
        (
            "lun-size",
            |node| (seen(node).size, seen(node).path_size) = (Bytes(40 << 30), Bytes(40 << 30)),
            "the LUN has 40GiB, the filesystem on /var/lib/etcd 20GiB",
        ),
        ("lun-size", |node| seen(node).path_size = Bytes(40 << 30), "run `etcd-lun apply`, which grows it"),
        ("lun-size", |node| seen(node).size = Bytes(10 << 30), "it was made smaller; stop etcd"),
        ("lun-size", |node| seen(node).path_size = Bytes(10 << 30), "it was made smaller"),
        ("etcd", |node| known(&mut node.etcd).state = EtcdState::Unit(ActiveState::Failed), "is failed"),
        (
            "etcd",
            |node| known(&mut node.etcd).other_place = Fact::Known(Some("has /srv/wal/0.wal open".into())),
            "has /srv/wal/0.wal open, so its data is not in",
        ),
        (
            "cluster",
            |node| {
                let mut cluster = cluster(3);
                cluster.others[1].health = MemberHealth::NotHealthy("connection refused".into());
                node.cluster = Some(Fact::Known(cluster));
            },
            "3 voters, 2 healthy, leader master-0; master-2: connection refused; see `etcdctl",
        ),
        (
            "cluster",
            |node| {
                let mut cluster = cluster(1);
                cluster.own.health = MemberHealth::NotHealthy("it reports memberID:7 alarm:NOSPACE".into());
                node.cluster = Some(Fact::Known(cluster));
            },
            "alarm:NOSPACE. etcd's database is at its quota, and etcd takes no writes. While `free-space` is ok: compact etcd",
        ),
        (
            "selinux",
            |node| node.selinux = confined(false, InForce::Right, SELINUX_CONTEXT, PROGRAM),
            "permissive",
        ),
        (
            "selinux",
            |node| node.selinux = confined(true, InForce::Absent, SELINUX_CONTEXT, PROGRAM),
            "not installed",
        ),
        (
            "selinux",
            |node| node.selinux = confined(true, InForce::Other, SELINUX_CONTEXT, PROGRAM),
            "of another version",
        ),
        (
            "selinux",
            |node| {
                let unconfined = "system_u:system_r:unconfined_service_t:s0";
                node.selinux = confined(true, InForce::Right, unconfined, PROGRAM);
            },
            "not in etcd_lun_t",
        ),
        (
            "selinux",
            |node| {
                node.selinux = confined(true, InForce::Right, SELINUX_CONTEXT, "system_u:object_r:bin_t:s0")
            },
            "not etcd_lun_exec_t",
        ),
    ];
    for (check, change, said) in broken {
        let mut node = migrated();
        change(&mut node);
        match outcome(&node, check) {
            Outcome::Found(detail) => assert!(detail.contains(said), "{check}: {detail}"),
            other => panic!("{check}: {other:?}"),
        }
        beside_a_run(&node);
    }
    beside_a_run(&node());
    let blind = Node {
        sessions: unknown(),
        lun: unknown(),
        record: unknown(),
        local: unknown(),
        retired: unknown(),
        mount: unknown(),
        mounted_stamp: unknown(),
        etcd: unknown::<node::Etcd>(),
        cluster: Some(unknown()),
        selinux: unknown(),
        initiator: node::Initiator { name: unknown(), multipathd_active: unknown() },
        ..migrated()
    };
    let _: &Fact<LocalDir> = &blind.local;
    let blind_vitals = HealthFacts {
        at_work: None,
        paths: unknown(),
        map_cache: unknown(),
        local_space: unknown(),
        size_announced: unknown(),
        kernel_errors: unknown(),
        units: unknown(),
        starters: unknown(),
        others: unknown(),
        safe_logout: unknown(),
        routes: unknown(),
        pressure: unknown(),
        hung_task_panic: unknown(),
        iscsid: unknown(),
        mounted_anew: unknown(),
    };
    let report = health::assess(&config(), &blind, &blind_vitals);
    assert_eq!(report.rows.len(), CHECKS.len());
    for row in report.rows {
        assert!(
            matches!(&row.outcome, Outcome::CannotTell(why) if why == "it could not be read"),
            "{}: {:?}",
            row.check,
            row.outcome
        );
        let is = |name: &str| name == row.check;
        let found = broken.iter().any(|(name, ..)| is(name))
            || figures::broken_vitals().iter().any(|(name, ..)| is(name));
        assert!(found, "{} is never broken", row.check);
    }
}

#[test]
fn what_a_map_or_a_gap_changes() {
    let report = |health_facts: &HealthFacts, node: &Node| health::assess(&config(), node, health_facts);
    let detail = |report: &Report, check: &str| {
        report.rows.iter().find(|row| row.check == check).unwrap().outcome.clone()
    };
    let mut mapped = migrated();
    let LunView::Seen(lun) = known(&mut mapped.lun) else { panic!() };
    lun.multipath = Multipath::Mapped;
    let with_map = health_facts();
    known(&mut mapped.sessions)[0].session.recovery_timeout = Some(5);
    let Outcome::Ok(said) = detail(&report(&with_map, &mapped), "session-timeout") else { panic!() };
    assert!(said.contains("as multipathd sets it"), "{said}");
    let late = HealthFacts { hung_task_panic: Fact::Known(Some(3600)), ..health_facts() };
    assert!(matches!(detail(&report(&late, &migrated()), "session-timeout"), Outcome::Ok(_)));
    known(&mut mapped.sessions)[0].session.recovery_timeout = Some(30);
    assert!(matches!(detail(&report(&with_map, &mapped), "session-timeout"), Outcome::Ok(_)));
    let mut pathless = health_facts();
    known(&mut pathless.paths).clear();
    assert!(matches!(detail(&report(&pathless, &migrated()), "paths"), Outcome::Found(_)));
    assert!(matches!(detail(&report(&pathless, &migrated()), "write-cache"), Outcome::CannotTell(_)));
    let mut unrouted = health_facts();
    known(&mut unrouted.routes)[0].interface = None;
    assert!(matches!(detail(&report(&unrouted, &migrated()), "route"), Outcome::CannotTell(_)));
    let mut out = migrated();
    known(&mut out.sessions).clear();
    assert!(matches!(detail(&report(&health_facts(), &out), "session-timeout"), Outcome::CannotTell(_)));
}
