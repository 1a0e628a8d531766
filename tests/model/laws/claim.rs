//! `claim`: the LUN of a node whose machine id has changed, and a LUN that is newer than the record.

use super::*;
use node::{BarredData, Elsewhere, Order, order};
use plan::{
    AuthorityRefusal, claim,
    step::{Claim, WatchLun},
};
use support::say;

/// A node whose record does not name the stamp's machine id, or is older than the stamp.
fn claimable(record: Option<Record>, of: Stamp, settled: bool) -> Node {
    let local = Fact::Known(if record.as_ref().is_some_and(|record| record.authority == Authority::Lun) {
        dir(&[], true)
    } else {
        dir(&["member"], false)
    });
    let etcd = Fact::Known(etcd("failed"));
    Node { record: Fact::Known(record), local, etcd, ..attached(xfs(OURS, Some(of), settled)) }
}

/// The LUN is taken only if the stamp is newer than the record, or differs in nothing but the machine id. The new use is above
/// every use that was ever seen, and etcd can start nowhere else.
#[test]
fn only_this_nodes_own_lun_is_claimed() {
    let config = config();
    let (mut claims, mut idle, mut refused) = (0, 0, 0);
    let mut look = |node: &Node| match claim(&config, node) {
        Ok(plan) => {
            let ids: Vec<_> = plan.steps.iter().map(Step::id).collect();
            let record = node.record.known().cloned().flatten();
            let Some(Step::Protocol(ProtocolStep::Claim(Claim { from, stamp: to, record: next }))) =
                plan.steps.last()
            else {
                idle += usize::from(ids.is_empty());
                let allowed = [
                    "set-initiator-name",
                    "log-out",
                    "log-in",
                    "attach-lun",
                    "watch-lun",
                    "stage",
                    "retire",
                    "fence",
                ];
                assert!(ids.iter().all(|id| allowed.contains(id)), "{ids:?}");
                // Staging writes to the LUN.
                assert_eq!(ids.contains(&"stage"), ids.contains(&"watch-lun"), "{ids:?}");
                return;
            };
            claims += 1;
            let Some(LunView::Seen(lun)) = node.lun.known() else { panic!("{node:#?}") };
            assert_eq!((lun.users.clone(), lun.read_only), (Fact::Known(Vec::new()), false));
            let Some(Content::Xfs { uuid, stamp, settled: true, .. }) = lun.content.known() else {
                panic!("{node:#?}")
            };
            let found = stamp.known().cloned().flatten().unwrap();
            assert_eq!((&found, *uuid), (from, next.uuid));
            let ours = found.clone().owned_by(MACHINE.into());
            let expected = if found.machine_id == MACHINE {
                let is_renamed = record.as_ref().is_some_and(|record| record.wwid != next.wwid);
                match order(record.as_ref(), Some(*uuid), &found, &identity()) {
                    Order::Newer => {}
                    Order::Same { .. } => assert!(is_renamed, "{node:#?}"),
                    order => panic!("{order:?}: {node:#?}"),
                }
                ours
            } else {
                assert_eq!(found.node, "master-0", "a LUN of another node");
                assert!(record.as_ref().is_some_and(|record| record.uuid == *uuid));
                ours
            };
            let begins = to.last_use().unwrap();
            assert_eq!(*to, expected.used(begins));
            assert!(begins.activations > found.activations);
            assert!(record.as_ref().is_none_or(|record| begins.activations > record.activations));
            assert_eq!(begins.nonce, DRAWN);
            assert_eq!((next.authority, next.generation), (Authority::Lun, found.generation));
            // etcd can start nowhere else: the local data is put aside, or retired, or fenced already.
            let fenced = node.local.known().unwrap().is_fenced();
            assert!(fenced || ids.contains(&"bar") || ids.contains(&"fence"), "{ids:?}");
        }
        Err(refusal) => {
            refused += 1;
            assert!(refusal.to_string().len() > 20, "{refusal:?}");
        }
    };
    every_node(&mut look);
    let other = Stamp::new(1, OTHER_MACHINE.into(), "master-9".into(), nth(1));
    for of in [stamp(1, 1), stamp(1, 2), stamp(2, 1), stamp(2, 1).owned_by(OTHER_MACHINE.into()), other] {
        for of in [of.clone(), of.owned_by(OTHER_MACHINE.into())] {
            for settled in [true, false] {
                for record in records() {
                    let node = claimable(None, of.clone(), settled);
                    for local in [dir(&["member"], false), dir(&[], true)] {
                        let local = Fact::Known(local);
                        look(&Node { record: record.clone(), local, ..node.clone() });
                    }
                }
            }
        }
    }
    say!("{claims} claims, {idle} times nothing to claim, {refused} refusals");
    assert!(claims >= 10 && idle > 10 && refused > 1000);
}

/// A LUN is looked at for longer than two periods of `mark`, and both looks must find the stamp that the plan was made with.
#[test]
fn a_lun_is_watched_before_it_is_taken() {
    let mut config = config();
    config.health.interval = "5min".parse().unwrap();
    let newer = stamp(2, 7);
    for record in [None, Some(record()), Some(used(3)), Some(rolled_back(DATA))] {
        let plan = claim(&config, &claimable(record.clone(), newer.clone(), false));
        let ids = |plan: &Plan| plan.steps.iter().map(Step::id).collect::<Vec<_>>();
        // The record of a rollback has the stamp's own generation: no other attempt of this node made it.
        let plan = plan.unwrap();
        assert_eq!(ids(&plan), ["watch-lun", "stage"], "{record:?}");
        let [Step::Protocol(ProtocolStep::WatchLun(WatchLun { stamp, span, uuid, .. })), _] =
            plan.steps.as_slice()
        else {
            panic!("{plan:?}")
        };
        assert_eq!((stamp.as_ref(), *uuid), (Some(&newer), OURS));
        assert!(span.0 > 2 * config.health.interval.0, "{span}");
        let taken = claim(&config, &claimable(record, newer.clone(), true)).unwrap();
        assert!(ids(&taken).ends_with(&["claim"]), "{taken:?}");
    }
}

/// Without a record a LUN of this machine id under another name is taken only if a person types that name: two machines may have one
/// machine id. Its owner is then this node.
#[test]
fn a_former_name_is_typed() {
    let config = config();
    let renamed = stamp(2, 7).named("etcd-1.example".into());
    for (typed, takes) in
        [(None, false), (Some("etcd-2"), false), (Some("etcd-1"), true), (Some("ETCD-1.example"), true)]
    {
        let mut node = claimable(None, renamed.clone(), true);
        let refused = plan(&config, &node, Occasion::Boot).unwrap_err().to_string();
        assert!(refused.contains("run `etcd-lun claim --former-name etcd-1.example`"), "{refused}");
        node.identity.former_name = typed.map(Into::into);
        let claimed = claim(&config, &node);
        assert_eq!(claimed.is_ok(), takes, "{typed:?}: {claimed:?}");
        match claimed {
            Ok(claimed) => {
                let Some(Step::Protocol(ProtocolStep::Claim(step))) = claimed.steps.last() else {
                    panic!("{claimed:?}")
                };
                assert_eq!((&*step.stamp.node, &step.from), ("master-0", &renamed));
            }
            Err(refusal) => {
                assert!(refusal.to_string().contains("--former-name etcd-1.example"), "{refusal}")
            }
        }
    }
    // Where a record proves that this node made the filesystem its name does not matter.
    let known = claimable(Some(used(1)), stamp(2, 7).named("etcd-1".into()), true);
    assert!(claim(&config, &known).is_ok());
}

/// An array may give the LUN another WWID, and blocks may be copied to another one. The record takes the new one, after both looks.
#[test]
fn a_lun_of_another_wwid_is_claimed_by_what_it_holds() {
    let config = config();
    let other: terms::Wwid = "naa.60014050000000000000000000000009".parse().unwrap();
    for (of, settled, first) in [
        (stamp(1, 1), false, Some("watch-lun")),
        (stamp(1, 1), true, Some("claim")),
        (stamp(2, 9), true, None),
        (stamp(1, 1).owned_by(OTHER_MACHINE.into()), true, None),
    ] {
        let mut node = claimable(Some(used(1)), of, settled);
        node.local = Fact::Known(dir(&[], true));
        machine::seen(&mut node).wwid = Fact::Known(other.clone());
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let said = plan(&config, &node, occasion).unwrap_err().to_string();
            assert_eq!(said.contains("run `etcd-lun claim`"), first.is_some(), "{said}");
        }
        let claimed = claim(&config, &node);
        assert_eq!(claimed.as_ref().ok().map(|plan| plan.steps[0].id()), first, "{claimed:?}");
        if let Ok([Step::Protocol(ProtocolStep::Claim(step))]) = claimed.as_ref().map(|plan| &*plan.steps) {
            assert_eq!((&step.record.wwid, step.stamp.generation, step.stamp.activations), (&other, 1, 2));
        }
    }
}

/// `apply` names the way only where `claim` goes it, and goes on after it.
#[test]
fn apply_names_it_where_it_helps_and_goes_on_after_it() {
    let config = config();
    let id = |stamp: Stamp| stamp.owned_by(OTHER_MACHINE.into());
    for (of, helps) in [
        (id(stamp(1, 1)), true),
        (id(stamp(1, 0)), false),
        (id(stamp(1, 2)), true),
        (stamp(1, 2), true),
        (stamp(2, 9), true),
        (stamp(1, 1).used(clones(1)), false),
    ] {
        let node = claimable(Some(used(1)), of, true);
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let said = plan(&config, &node, occasion).unwrap_err().to_string();
            assert_eq!(said.contains("run `etcd-lun claim`"), helps, "{said}");
        }
        assert_eq!(claim(&config, &node).is_ok(), helps);
        if helps {
            let mut world = World::new(Node { etcd: Fact::Known(etcd("failed")), ..node });
            machine::seen(&mut world.node).content = match machine::seen(&mut world.node).content.clone() {
                Fact::Known(Content::Xfs { uuid, stamp, .. }) => {
                    Fact::Known(xfs(uuid, stamp.known().cloned().flatten(), false))
                }
                content => content,
            };
            follow(&mut world, Goal::Claim, "systemd", None, 4, |_, _| ()).unwrap();
            world.crash();
            follow(&mut world, Goal::Lun(Occasion::ByHand), "systemd", None, 8, |_, _| ()).unwrap();
            assert!(matches!(world.node.mount, Fact::Known(Some(_))), "{world:#?}");
        }
    }
}

/// A member that answers on another computer keeps the LUN, and so does the local data of a node whose member is alive. If nobody
/// can be asked, the step that watches the LUN says so.
#[test]
fn a_member_that_answers_elsewhere_is_not_replaced() {
    let alive = Fact::Known(Elsewhere::Alive { name: "master-0".into(), at: "https://10.0.0.7:2379".into() });
    let barred = Fact::Known(Some(BarredData { returns_as: None }));
    let node = |elsewhere| Node {
        elsewhere,
        local: Fact::Known(dir(&[], true)),
        barred_data: barred.clone(),
        ..claimable(None, stamp(2, 7), false)
    };
    for goal in [Goal::Claim, Goal::ClaimLocal] {
        assert!(goal.asks_others());
        let refusal = goal.plan(&config(), &node(Some(alive.clone()))).unwrap_err().to_string();
        assert!(refusal.contains("master-0 answers at https://10.0.0.7:2379"), "{refusal}");
        let silent = Fact::Known(Elsewhere::Silent { asked: "https://10.0.0.8:2379".into() });
        for (elsewhere, said) in [
            (Some(silent), None),
            (Some(Fact::Known(Elsewhere::Alone)), None),
            (Some(Fact::Unknown("nobody answers".into())), Some("nobody answers".to_owned())),
        ] {
            let plan = goal.plan(&config(), &node(elsewhere)).unwrap();
            let Some(Step::Protocol(ProtocolStep::WatchLun(WatchLun { not_asked, .. }))) = plan.steps.first()
            else {
                panic!("{plan:?}")
            };
            assert_eq!(*not_asked, said);
        }
    }
}

/// While etcd runs on other data, no LUN is taken.
#[test]
fn nothing_is_claimed_beside_an_etcd_that_runs() {
    let config = config();
    for state in ["active", "activating"] {
        let node = Node { etcd: Fact::Known(etcd(state)), ..claimable(None, stamp(2, 7), false) };
        let refusal = claim(&config, &node).unwrap_err();
        assert!(
            matches!(refusal, Refusal::Authority(AuthorityRefusal::ClaimWhileRunning { .. })),
            "{refusal}"
        );
        // One that fails against the fence harms nothing.
        let fenced = Node { local: Fact::Known(dir(&[], true)), ..node };
        assert!(claim(&config, &fenced).is_ok());
    }
}

/// A person returns to the barred data, also after a run that was cut short anywhere: etcd runs from it, the record says so, and
/// the LUN is what this node has left. `apply` by hand migrates again.
#[test]
fn a_person_returns_to_the_local_data() {
    for record in [None, Some(record()), Some(rolled_back(DATA))] {
        let mut barred = claimable(record, stamp(3, 7), false);
        barred.local = Fact::Known(dir(&[], true));
        barred.barred_data = Fact::Known(Some(BarredData { returns_as: None }));
        let run = |world: &mut World, crash| follow(world, Goal::ClaimLocal, "systemd", crash, 8, |_, _| ());
        let steps = run(&mut World::new(barred.clone()), None).unwrap();
        for cut in 0..=steps {
            let mut world = World::new(barred.clone());
            run(&mut world, Some(cut)).unwrap();
            world.crash();
            run(&mut world, None).unwrap();
            let node = &world.node;
            assert_eq!(
                (node.rolled_back(), node.barred_data.known()),
                (Some(4), Some(&None)),
                "cut at {cut}"
            );
            assert!(node.etcd.known().unwrap().is_up() && !node.local.known().unwrap().is_fenced());
            let left = node.record.known().unwrap().as_ref();
            assert_eq!(order(left, Some(OURS), &stamp(3, 7), &identity()), Order::Released);
            world.node.cluster = None; // it serves by now
            follow(&mut world, Goal::Lun(Occasion::ByHand), "systemd", None, 8, |_, _| ()).unwrap();
            assert!(matches!(world.node.mount, Fact::Known(Some(_))));
        }
    }
    let refusal =
        Goal::ClaimLocal.plan(&config(), &claimable(Some(used(1)), stamp(1, 1), false)).unwrap_err();
    assert_eq!(refusal, AuthorityRefusal::NothingBarred.into());
}
