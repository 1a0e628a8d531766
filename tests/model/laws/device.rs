//! A local disk instead of the target: the planner makes the same decisions, without iSCSI steps.

use super::{census::Census, rollback::every_way_back, *};
use plan::{MarkPlan, mark, rollback};

const ISCSI: [&str; 5] = ["set-initiator-name", "log-out", "log-in", "set-timeout", "attach-lun"];

/// A plan or refusal without the parts that may differ between target and disk.
fn gist(decided: Result<Plan, Refusal>) -> Result<Vec<Step>, String> {
    match decided {
        Ok(plan) => {
            let reaches = plan.steps.iter().any(|step| ["attach-lun", "await-disk"].contains(&step.id()));
            // The steps after this one depend on what is seen then. They belong to the next plan.
            let kept = plan
                .steps
                .into_iter()
                .filter(|step| !ISCSI.contains(&step.id()) && step.id() != "await-disk");
            let mut kept: Vec<_> = kept.collect();
            if reaches {
                kept.push(Step::Protocol(ProtocolStep::Unstamp)); // stands for attach-lun or await-disk
            }
            Ok(kept)
        }
        Err(Refusal::WrongLun { found, wanted, .. }) => Err(format!("{found} for {wanted}")),
        Err(Refusal::MultipathPending { paths, .. }) => Err(format!("claimed {paths}")),
        Err(Refusal::SeveralPaths { paths, .. }) => Err(format!("several {paths}")),
        Err(Refusal::ForeignMount { at, .. } | Refusal::DiskGone { at, .. }) => Err(format!("mounted {at}")),
        Err(Refusal::Rollback(RollbackRefusal::OutOfReach { generation, .. })) => {
            Err(format!("out of reach {generation}"))
        }
        Err(other) => Err(other.to_string().replace("where the disk comes from", "at the target")),
    }
}

fn is_without_iscsi(plan: &Plan) {
    let found = plan.steps.iter().find(|step| ISCSI.contains(&step.id()));
    assert!(found.is_none(), "{found:?} with a device");
}

#[test]
fn decides_as_with_a_target_and_never_asks_for_iscsi() {
    for (runtime, occasion) in situations() {
        let (target, device) = (config_for(runtime), device_config_for(runtime));
        let (mut plans, mut lost) = (0, 0);
        let mut census = Census::default();
        every_node(|node| {
            let seen = with_device(node.clone());
            let decided = plan(&device, &seen, occasion);
            if let Ok(plan) = &decided {
                plans += 1;
                is_without_iscsi(plan);
                judge::laws(&mut census, &seen, plan);
                judge::occasion_and_etcd(&mut census, &seen, plan, &device.etcd.runtime, occasion);
            }
            let at_target = plan(&target, node, occasion);
            // A session that is lost under the mounted LUN is made again. A disk that is gone is waited for only where the filesystem
            // has shut down.
            let only_iscsi = |plan: &Plan| plan.steps.iter().all(|step| ISCSI.contains(&step.id()));
            if has_lost_its_lun(&target, node)
                && matches!(&at_target, Ok(plan) if !plan.is_empty() && only_iscsi(plan))
            {
                let waits = |plan: &Plan| plan.steps.iter().all(|step| step.id() == "await-disk");
                assert!(decided.as_ref().map_or(true, waits), "{node:#?}");
                lost += 1;
                return;
            }
            assert_eq!(gist(decided), gist(at_target), "{node:#?}");
        });
        assert!(plans > 100 && lost > 0);
        (1..=10).for_each(|law| census.holds(law));
    }
}

#[test]
fn rolls_back_as_with_a_target() {
    let (target, device) = (config_for("systemd"), device_config_for("systemd"));
    let (mut plans, mut refusals) = (0, 0);
    every_way_back(|node| {
        let connected = |sessions: &Vec<SeenSession>| {
            sessions.iter().any(|one| one.target == TARGET && one.is_logged_in())
        };
        if !node.sessions.known().is_some_and(connected) {
            return;
        }
        let decided = rollback(&device, &with_device(node.clone()));
        match &decided {
            Ok(plan) => {
                plans += 1;
                is_without_iscsi(plan);
            }
            Err(_) => refusals += 1,
        }
        // Sessions have time-outs and disks have none, so the time-out is set to the right value.
        let mut node = node.clone();
        known(&mut node.sessions).iter_mut().for_each(|one| one.session.recovery_timeout = Some(3600));
        assert_eq!(gist(decided), gist(rollback(&target, &node)), "{node:#?}");
    });
    assert!(plans > 100 && refusals > 100, "{plans} plans, {refusals} refusals");
}

/// Runs to the end with the disk present or late, cut short at any step, then a boot, then the rollback.
#[test]
fn runs_to_the_same_end() {
    let config = device_config_for("systemd");
    let run = |world: &mut World, goal: Goal, cut: Option<usize>| -> usize {
        let mut steps = 0;
        for _ in 0..7 {
            world.ask_cluster();
            let plan = goal.plan(&config, &world.node).unwrap();
            if plan.is_empty() {
                return steps;
            }
            for step in &plan.steps {
                if cut == Some(steps) {
                    return steps;
                }
                world.step(step);
                steps += 1;
            }
        }
        panic!("plans without end: {:#?}", goal.plan(&config, &world.node));
    };
    let on_lun = Goal::Lun(Occasion::ByHand);
    let is_done = |world: &World| {
        let record = world.node.record.known().cloned().flatten();
        record.is_some_and(|record| record.authority == Authority::Lun)
            && world.lun_is_copy
            && world.node.etcd.known().is_some_and(Etcd::is_up)
    };
    let start = || World::new(with_device(node()));
    let steps = run(&mut start(), on_lun, None);
    for cut in 0..=steps {
        let mut world = start();
        run(&mut world, on_lun, Some(cut));
        world.crash();
        if known(&mut world.node.record).as_ref().is_none_or(|record| record.authority == Authority::Local) {
            world.node.etcd = Fact::Known(etcd("active"));
        }
        run(&mut world, on_lun, None);
        assert!(is_done(&world), "cut at {cut}: {world:#?}");
        // A boot during which the disk appears late.
        world.unmount();
        world.crash();
        world.node.lun = Fact::Known(LunView::NotAttached);
        world.node.etcd = Fact::Known(etcd("failed"));
        let ids: Vec<_> = on_lun.plan(&config, &world.node).unwrap().steps.iter().map(Step::id).collect();
        assert_eq!(ids, ["await-disk"]);
        run(&mut world, on_lun, None);
        assert!(is_done(&world));
        assert!(matches!(mark(&config, &world.node), Ok(MarkPlan::Advance(_))));
        run(&mut world, Goal::Local, None);
        assert!(world.node.rolled_back().is_some() && world.local_is_copy, "{world:#?}");
    }
}

#[test]
fn what_is_wrong_with_a_disk_is_said_of_the_disk() {
    let config = device_config_for("systemd");
    let committed = Fact::Known(Some(used(1)));
    let said = |node: Node| plan(&config, &with_device(node), Occasion::ByHand).unwrap_err().to_string();
    let other = |wwid| Fact::Known(LunView::Seen(Box::new(Lun { wwid, ..lun(Content::Blank) })));
    let fenced = Fact::Known(dir(&[], true));
    let down = Node { record: committed.clone(), local: fenced, etcd: Fact::Known(etcd("failed")), ..node() };
    let wrong = said(Node { lun: other(Fact::Known(other_wwid())), ..down.clone() });
    assert!(
        wrong.contains(LINK) && wrong.contains(other_wwid().as_str()) && wrong.contains("the record names"),
        "{wrong}"
    );
    assert!(!wrong.contains("target"), "{wrong}");
    let nameless = said(Node { lun: other(unknown()), ..down.clone() });
    assert!(nameless.contains("WWID cannot be determined"), "{nameless}");
    let gone = said(Node { lun: Fact::Known(LunView::NotAttached), ..migrated() });
    assert!(gone.contains(LINK) && gone.contains("leads to no disk any more"), "{gone}");
    let back = rollback(&config, &with_device(Node { lun: Fact::Known(LunView::NotAttached), ..migrated() }));
    assert!(back.unwrap_err().to_string().contains(&format!("{LINK} leads to no disk")));
}
