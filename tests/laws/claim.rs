//! `claim`: the LUN of a node whose machine id has changed.

use super::*;
use crate::say::say;
use etcd_lun::plan::claim;

/// The stamp is changed only if it differs from the record and the node in nothing but the machine id. The plan does nothing
/// else to the LUN.
#[test]
fn only_a_lun_that_differs_in_nothing_but_the_machine_id_is_claimed() {
    let config = config();
    let (mut claims, mut idle, mut refused) = (0, 0, 0);
    let mut look = |node: &Node| match claim(&config, node) {
        Ok(plan) => {
            let ids: Vec<_> = plan.steps.iter().map(Step::id).collect();
            let record = node.record.known().cloned().flatten().unwrap();
            assert_eq!(record.authority, Authority::Lun, "{node:#?}");
            match plan.steps.as_slice() {
                [] => idle += 1,
                [Step::Activate { stamp: to, record: next }] => {
                    claims += 1;
                    let Some(LunView::Seen(lun)) = node.lun.known() else { panic!("{node:#?}") };
                    assert_eq!(lun.wwid, Fact::Known(record.wwid.clone()));
                    assert_eq!((lun.users.clone(), lun.read_only), (Fact::Known(Vec::new()), false));
                    let Some(Content::Xfs { uuid, stamp, settled: true, .. }) = lun.content.known() else {
                        panic!("{node:#?}")
                    };
                    let from = stamp.known().cloned().flatten().unwrap();
                    assert_eq!(*uuid, record.uuid);
                    assert_eq!((from.generation, from.activations), (record.generation, record.activations));
                    assert_eq!((from.node.as_str(), to.machine_id.as_str()), ("master-0", MACHINE));
                    assert_ne!(from.machine_id, MACHINE);
                    let uses = record.activations + 1;
                    assert_eq!(from.owned_by(MACHINE.into()).activated(uses), *to);
                    assert_eq!(record.activated(uses), *next);
                }
                _ => assert!(
                    ids.iter().all(|id| ["set-initiator-name", "log-in", "attach-lun", "stage"].contains(id)),
                    "{ids:?}"
                ),
            }
        }
        Err(refusal) => {
            refused += 1;
            assert!(refusal.to_string().len() > 20, "{refusal:?}");
        }
    };
    every_node(&mut look);
    for of in
        [stamp(1, 1), stamp(1, 2), stamp(2, 1), Stamp::new(1, OTHER_MACHINE.into(), "master-9".into(), 1)]
    {
        let of = of.owned_by(OTHER_MACHINE.into());
        for lun in [true, false].map(|settled| lun(xfs(OURS, Some(of.clone()), settled))) {
            for record in records() {
                for mount in [Fact::Known(None), Fact::Known(Some(data_mount("8:16"))), unknown()] {
                    let lun = Fact::Known(LunView::Seen(Box::new(lun.clone())));
                    look(&Node { lun, record: record.clone(), mount, ..attached(Content::Blank) });
                }
            }
        }
    }
    say!("{claims} claims, {idle} times nothing to claim, {refused} refusals");
    assert!(claims >= 2 && idle > 10 && refused > 1000);
}

/// `apply` names the way back only where `claim` goes it, and goes on after it.
#[test]
fn apply_names_it_where_it_helps_and_goes_on_after_it() {
    let foreign = |stamp: Stamp| {
        let lun = lun(xfs(OURS, Some(stamp.owned_by(OTHER_MACHINE.into())), true));
        let record = Fact::Known(Some(record().commit(Some(DATA))));
        let local = Fact::Known(dir(&[], true));
        Node { lun: Fact::Known(LunView::Seen(Box::new(lun))), record, local, ..attached(Content::Blank) }
    };
    let config = config();
    for (of, helps) in [(stamp(1, 1), true), (stamp(1, 2), false), (stamp(2, 1), false)] {
        let node = foreign(of);
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let said = plan(&config, &node, occasion).unwrap_err().to_string();
            assert_eq!(said.contains("run `etcd-lun claim`"), helps, "{said}");
        }
        assert_eq!(claim(&config, &node).is_ok(), helps);
    }
    let mut world = World::new(foreign(stamp(1, 1)));
    follow(&mut world, Goal::Claim, "systemd", None, 4, |_, _| ()).unwrap();
    world.crash();
    follow(&mut world, Goal::Lun(Occasion::ByHand), "systemd", None, 8, |_, _| ()).unwrap();
    assert!(matches!(world.node.mount, Fact::Known(Some(_))), "{world:#?}");
}
