//! Every check: ok on a good node, found when the thing is broken, and can't tell when it can't be seen.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "each test takes what it needs")]
mod support;

use etcd_lun::{
    health::{CHECKS, Outcome, ROLLED_BACK, assess},
    node::{Fact, InForce, LocalDir, LunView, MountUnit, Node, Selinux},
    terms::Bytes,
    unit::SELINUX_CONTEXT,
};
use support::*;

fn outcome(node: &Node, check: &str) -> Outcome {
    let report = assess(&config(), node);
    report.rows.into_iter().find(|row| row.check == check).unwrap().outcome
}

const PROGRAM: &str = "system_u:object_r:etcd_lun_exec_t:s0";

/// As the service sees it.
fn confined(enforcing: bool, module: InForce, context: &str, program: &str) -> Fact<Selinux> {
    Fact::Known(Selinux::On {
        enforcing,
        module,
        context: context.into(),
        program: Some(program.into()),
        beside: Some("system_u:object_r:var_lib_t:s0".into()),
        unit: Some("etcd-lun.service".into()),
    })
}

fn unknown<T>() -> Fact<T> {
    Fact::Unknown("it could not be read".into())
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
    assert_eq!(rows, ROLLED_BACK);
    let Outcome::Ok(said) = outcome(&back, "record") else { panic!("{report:#?}") };
    assert!(said.contains("rolled back to the local disk on purpose"), "{said}");
    for (ill, said) in [
        (Node { local: Fact::Known(dir(&[], true)), ..back.clone() }, "not finished"),
        (Node { shelf: Fact::Known(staged(Some(DATA))), ..back.clone() }, "not finished"),
        (Node { mount: Fact::Known(Some(data_mount("8:16"))), ..back.clone() }, "mounted over"),
    ] {
        let Outcome::Found(detail) = outcome(&ill, "fence") else { panic!("{ill:#?}") };
        assert!(detail.contains(said), "{detail}");
    }
    let blind = Node { shelf: unknown(), ..back };
    assert!(matches!(outcome(&blind, "fence"), Outcome::CannotTell(_)));
}

#[test]
fn every_check_finds_and_every_check_can_fail_to_tell() {
    type Change = fn(&mut Node);
    let session = |node: &mut Node| known(&mut node.sessions)[0].state = "FAILED".into();
    let broken: &[(&str, Change, &str)] = &[
        ("record", |node| node.record = Fact::Known(None), "not migrated"),
        ("session", session, "is FAILED"),
        ("portals", |node| known(&mut node.sessions).clear(), "no session at 10.77.0.1:3260"),
        (
            "initiator-name",
            |node| node.initiator.name = Fact::Known(Some("iqn.2000-01.x:y".into())),
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
        ("mount", |node| node.mount = Fact::Known(Some(data_mount("9:99"))), "expected sdb"),
        ("mount", |node| known(&mut node.mount).as_mut().unwrap().io_error = true, "has shut down"),
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
        ("mount-unit", |node| node.mount_unit = Fact::Known(MountUnit::Absent), "render units"),
        ("stamp", |node| node.mounted_stamp = Fact::Known(None), "no stamp"),
        ("stamp", |node| node.mounted_stamp = Fact::Known(Some(stamp(1, 0))), "went back in time"),
        ("fence", |node| node.local = Fact::Known(dir(&[], false)), "is not immutable"),
        ("fence", |node| node.local = Fact::Known(dir(&["member"], false)), "is not empty"),
        (
            "free-space",
            |node| {
                known(&mut node.mount).as_mut().unwrap().free = Some((Bytes(1 << 30), Bytes(20 << 30)));
            },
            "less than 20 %",
        ),
        ("etcd", |node| known(&mut node.etcd).state = "failed".into(), "is failed"),
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
            "of this version",
        ),
        (
            "selinux",
            |node| {
                let unconfined = "system_u:system_r:unconfined_service_t:s0";
                node.selinux = confined(true, InForce::Right, unconfined, PROGRAM);
            },
            "and not in etcd_lun_t",
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
    }
    let blind = Node {
        sessions: unknown(),
        lun: unknown(),
        record: unknown(),
        local: unknown(),
        mount: unknown(),
        mounted_stamp: unknown(),
        mount_unit: unknown(),
        etcd: unknown::<etcd_lun::node::Etcd>(),
        selinux: unknown(),
        initiator: etcd_lun::node::Initiator {
            name: unknown(),
            iscsid_active: unknown(),
            multipathd_active: unknown(),
        },
        ..migrated()
    };
    let _: &Fact<LocalDir> = &blind.local;
    for check in CHECKS {
        let outcome = outcome(&blind, check.name);
        assert!(
            matches!(&outcome, Outcome::CannotTell(why) if why == "it could not be read"),
            "{}: {outcome:?}",
            check.name
        );
        assert!(broken.iter().any(|(name, _, _)| *name == check.name), "{} is never broken", check.name);
    }
}
