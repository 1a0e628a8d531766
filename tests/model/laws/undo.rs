//! What is put back after a run has failed.

use super::*;
use plan::{Attempt, AuthorityRefusal, Undo, undo};

const GOALS: [Goal; 5] =
    [Goal::Lun(Occasion::ByHand), Goal::Lun(Occasion::Boot), Goal::Local, Goal::Claim, Goal::ClaimLocal];

fn stopped_by_us(mut node: Node) -> Node {
    node.etcd = Fact::Known(Etcd { stopped_by_us: true, ..etcd("inactive") });
    node
}

/// A run that has seen the LUN.
fn looked() -> Attempt<'static> {
    Attempt { saw_lun: true, ..Attempt::default() }
}

/// Where each start of etcd leads to.
fn starts(undo: &Undo) -> Vec<Authority> {
    let Undo::PutBack(plan, _) = undo else { return Vec::new() };
    let start = |step: &Step| match step {
        Step::Protocol(ProtocolStep::StartEtcd(StartEtcd { on, .. })) => Some(*on),
        _ => None,
    };
    plan.steps.iter().filter_map(start).collect()
}

/// Law 7: etcd is put back on the authoritative copy, or not at all.
#[test]
fn etcd_is_put_back_on_the_authoritative_copy_only() {
    let (config, mut started) = (config(), 0);
    every_node(|node| {
        let node = stopped_by_us(node.clone());
        for goal in GOALS {
            let record = node.record.known();
            let Ok(undo) = undo(&config, &node, goal, looked()) else {
                continue;
            };
            for on in starts(&undo) {
                started += 1;
                let authority = record.unwrap().as_ref().map_or(Authority::Local, |record| record.authority);
                assert_eq!(on, authority, "{goal:?}: {node:#?}");
            }
        }
    });
    assert!(started > 1000, "{started}");
}

/// What cannot be known is not decided.
#[test]
fn without_the_record_nothing_is_started() {
    let node = Node { record: unknown(), ..stopped_by_us(node()) };
    for goal in [Goal::Lun(Occasion::ByHand), Goal::Lun(Occasion::Boot), Goal::Local] {
        let refused = undo(&config(), &node, goal, looked()).unwrap_err().to_string();
        assert!(refused.contains("the record"), "{refused}");
    }
}

/// A rollback that never stopped etcd has nothing to put back, whatever else `apply` would do on that node.
#[test]
fn a_rollback_that_did_not_stop_etcd_is_not_followed_by_an_apply() {
    let mut node = migrated();
    known(&mut node.sessions)[0].session.recovery_timeout = Some(1);
    let more = plan(&config(), &node, Occasion::ByHand);
    assert!(more.is_ok_and(|plan| !plan.is_empty()), "`apply` has something to do here");
    assert_eq!(undo(&config(), &node, Goal::Local, looked()), Ok(Undo::Nothing));
}

/// A rollback that has unmounted the LUN mounts it again, also where etcd was down before.
#[test]
fn what_a_rollback_has_unmounted_is_mounted_again() {
    let mut node = attached(xfs(OURS, Some(stamp(1, 1)), true));
    node.record = Fact::Known(Some(used(1)));
    node.local = Fact::Known(dir(&[], true));
    node.etcd = Fact::Known(etcd("inactive"));
    let unmount = Step::Protocol(ProtocolStep::UnmountData {
        unit: "var-lib-etcd.mount".into(),
        at: config().etcd.data_dir.clone(),
    });
    assert_eq!(undo(&config(), &node, Goal::Local, looked()), Ok(Undo::Nothing));
    let Ok(Undo::PutBack(plan, _)) =
        undo(&config(), &node, Goal::Local, Attempt { begun: &[unmount], ..looked() })
    else {
        panic!("the LUN stays unmounted");
    };
    assert!(
        plan.steps.iter().any(|step| matches!(step, Step::Protocol(ProtocolStep::MountData(_)))),
        "{plan:?}"
    );
}

/// After the commit point the next run goes on; before it etcd starts again where it was.
#[test]
fn after_the_commit_point_nothing_is_taken_back() {
    let with = |record: Option<Record>| Node { record: Fact::Known(record), ..stopped_by_us(node()) };
    let committed = with(Some(record().commit(Some(DATA))));
    let returned = with(Some(rolled_back(DATA)));
    for (node, goal, says) in [
        (&committed, Goal::Lun(Occasion::ByHand), "`etcd-lun apply` goes on"),
        (&committed, Goal::Lun(Occasion::Boot), "`etcd-lun apply` goes on"),
        (&returned, Goal::Local, "`etcd-lun rollback` goes on"),
        (&returned, Goal::Lun(Occasion::ByHand), "`etcd-lun rollback` goes on"),
    ] {
        let Ok(Undo::Leave(why)) = undo(&config(), node, goal, looked()) else {
            panic!("{goal:?}: {node:#?}")
        };
        assert!(why.contains(says), "{why}");
    }
    for record in [None, Some(record())] {
        let undo = undo(&config(), &with(record), Goal::Lun(Occasion::ByHand), looked()).unwrap();
        assert_eq!(starts(&undo), [Authority::Local]);
    }
}

/// An etcd that is down stays so where its data may be out of date: after a look that shows it, and at a boot without a look.
#[test]
fn a_boot_starts_nothing_that_it_has_not_stopped_before_it_has_seen_the_lun() {
    let (boot, by_hand) = (Goal::Lun(Occasion::Boot), Goal::Lun(Occasion::ByHand));
    let newer = Refusal::from(AuthorityRefusal::LunNewer {
        wwid: wwid(),
        found: String::new(),
        local: String::new(),
    });
    let refused = Attempt { refusal: Some(&newer), ..looked() };
    let unseen = Attempt::default();
    let bar = [Step::Protocol(ProtocolStep::Bar { at: config().etcd.data_dir })];
    let barring = Attempt { begun: &bar, ..looked() };
    let node = Node { record: Fact::Known(None), ..stopped_by_us(node()) };
    for (goal, attempt, is_started) in [
        (boot, looked(), true),
        (boot, unseen, false),
        (boot, refused, false),
        (boot, barring, false),
        (by_hand, unseen, true),
        (by_hand, refused, false),
    ] {
        let undo = undo(&config(), &node, goal, attempt).unwrap();
        assert_eq!(!starts(&undo).is_empty(), is_started, "{goal:?} {attempt:?}: {undo:?}");
    }
    // What the run has seen comes from its observations.
    let seen = |lun| Attempt::default().saw(&Node { lun, ..node.clone() }).saw_lun;
    let attached = attached(xfs(OURS, Some(stamp(1, 1)), false));
    assert!(seen(attached.lun) && !seen(Fact::Known(LunView::NoSession)) && !seen(unknown()));
}

/// After a rollback the target may be removed. A refusal is told all the same, and so is a step of the rollback that fails.
#[test]
fn a_rolled_back_node_needs_no_lun() {
    let node = Node { record: Fact::Known(Some(rolled_back(DATA))), ..node() };
    let ends = |goal, attempt: Attempt<'_>| matches!(undo(&config(), &node, goal, attempt), Ok(Undo::Accept(why)) if why.contains("rollback"));
    let fence = [Step::Protocol(ProtocolStep::Unstamp)];
    let refusal = Refusal::OtherNamespace;
    let (boot, unseen) = (Goal::Lun(Occasion::Boot), Attempt::default());
    assert!(ends(boot, unseen));
    assert!(!ends(Goal::Lun(Occasion::ByHand), unseen));
    assert!(!ends(boot, Attempt { begun: &fence, ..unseen }));
    assert!(!ends(boot, Attempt { refusal: Some(&refusal), ..unseen }));
    assert!(!ends(boot, Attempt { is_kept_out: true, ..unseen }));
}
