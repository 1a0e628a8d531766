//! One test for each law of ARCHITECTURE.md that depends on the plan, over every combination of facts.
//!
//! `runs` and `rollback` test laws 5 to 7 in whole runs. ARCHITECTURE.md says which tests cover laws 2, 9 and 10.

use super::*;
use census::Census;
use plan::Way;

fn holds(law: u8) {
    census::all().iter().for_each(|census| census.holds(law));
}

#[test]
fn law_3_unknown_is_not_absent() {
    holds(3);
}

#[test]
fn law_4_what_matches_is_reused_and_everything_else_refused() {
    holds(4);
}

#[test]
fn law_5_after_success_a_fresh_observation_plans_nothing() {
    let fenced_off = Node { etcd: Fact::Known(etcd("failed")), ..migrated() };
    let new_member = Node { local: Fact::Known(LocalDir::Absent), ..attached(Content::Blank) };
    for runtime in ["systemd", "static-pod"] {
        let config = config_for(runtime);
        for start in [node(), attached(Content::Blank), fenced_off.clone(), new_member.clone()] {
            let mut world = World::new(start);
            for goal in [Goal::Lun(Occasion::ByHand), Goal::Local] {
                follow(&mut world, goal, runtime, None, 8, |_, _| ()).unwrap();
                // The state for the next process.
                world.crash();
                let again = goal.plan(&config, &world.node).unwrap();
                assert!(again.is_empty(), "{runtime}, {goal:?}: {again:#?}\n{world:#?}");
            }
        }
    }
}

#[test]
fn law_6_every_plan_keeps_the_order_of_the_protocol_and_goes_all_the_way() {
    holds(6);
}

#[test]
fn law_7_etcd_starts_on_no_copy_but_the_authoritative_one() {
    holds(7);
}

#[test]
fn law_8_nothing_in_use_is_logged_out_or_mounted_over() {
    holds(8);
}

/// The tests above would also pass if the checks found nothing. So each law must detect a plan that breaks it.
#[test]
fn a_plan_that_breaks_a_law_is_found() {
    let config = config();
    let start = attached(Content::Blank);
    let whole = plan(&config, &start, Occasion::ByHand).unwrap();
    let staged = Node { record: Fact::Known(Some(record())), ..attached(xfs(OURS, None, true)) };
    let copies = plan(&config, &staged, Occasion::ByHand).unwrap();
    let without = |plan: &Plan, id: &str| {
        let mut plan = plan.clone();
        plan.steps.retain(|step| step.id() != id);
        plan
    };
    let foreign = Content::Foreign { found: "an ext4 filesystem".into() };
    let mut early = copies.clone();
    let starts = at(&early, "start-etcd").unwrap();
    early.steps[..=starts].rotate_right(1);
    let to_lun = |plan: &Plan, node: &Node, law: u8| {
        let mut census = Census::default();
        judge::laws(&mut census, node, plan);
        judge::occasion_and_etcd(&mut census, node, plan, &config.etcd.runtime, Occasion::ByHand);
        assert!(census.is_broken(law), "law {law} holds for {plan:#?}");
    };
    to_lun(&whole, &Node { record: unknown(), ..start.clone() }, 3);
    to_lun(&whole, &attached(foreign), 4);
    to_lun(&without(&copies, "prove"), &staged, 6);
    to_lun(&without(&copies, "commit"), &staged, 6);
    to_lun(&without(&copies, "commit"), &staged, 7);
    to_lun(&without(&copies, "stop-etcd"), &staged, 7);
    to_lun(&without(&copies, "preflight"), &staged, 6);
    to_lun(&without(&copies, "catch-up"), &staged, 6);
    to_lun(&early, &staged, 7);
    to_lun(&without(&copies, "stop-etcd"), &staged, 8);
    to_lun(&without(&copies, "fence"), &staged, 8);
    let pod = config_for("static-pod");
    let of_pod = plan(&pod, &staged, Occasion::ByHand).unwrap();
    for id in ["await-pod-end", "confirm"] {
        assert!(at(&of_pod, id).is_some() && at(&copies, id).is_none());
        to_lun(&without(&of_pod, id), &staged, 7);
    }

    let node = migrated();
    let back = Goal::Local.plan(&config, &node).unwrap();
    let way_back = |plan: &Plan, node: &Node, law: u8| {
        let mut census = Census::default();
        rollback::way_back(&mut census, node, plan);
        assert!(census.is_broken(law), "law {law} holds for {plan:#?}");
    };
    way_back(&back, &Node { record: Fact::Known(None), ..node.clone() }, 3);
    way_back(&back, &Node { local: unknown(), ..node.clone() }, 3);
    way_back(&without(&back, "prove"), &node, 6);
    way_back(&without(&back, "stop-etcd"), &node, 7);
    way_back(&without(&back, "preflight"), &node, 6);
    let of_pod = Goal::Local.plan(&pod, &node).unwrap();
    way_back(&without(&of_pod, "await-pod-end"), &node, 7);
    way_back(&without(&of_pod, "confirm"), &node, 7);
    let mut logs_out = back.clone();
    logs_out.steps.push(Step::Node(NodeStep::LogOut { sid: 1 }));
    way_back(&logs_out, &node, 8);
    assert!(
        back.steps
            .iter()
            .any(|step| matches!(step, Step::Protocol(ProtocolStep::Copy(copy)) if matches!(copy.way, Way::ToLocal { .. })))
    );
}

/// What `status --json` and `plan --json` print is as their schemas say, for every kind of fact and decision.
#[test]
fn json_is_as_its_schemas_say() {
    for census in census::all() {
        census.printed.is_as_said();
    }
}
