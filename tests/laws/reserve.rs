//! `lun.reserve`: nothing is written to the LUN, and nothing is decided about it, without its reservation.

use super::*;
use etcd_lun::{
    node::Reservation,
    plan::step::{Reserve, Reserving},
};

fn reserved() -> Config {
    let mut config = config_for("systemd");
    config.lun.reserve = true;
    config
}

/// What is done about the reservation, in order, in a whole run. Each step that needs it finds it: the simulated machine checks the
/// looks, and this the steps that write.
fn run(world: &mut World, goal: Goal) -> Result<Vec<Reserving>, Refusal> {
    let mut done = Vec::new();
    let mut look = |world: &World, step: &Step| match step {
        Step::Reserve(Reserve { how, .. }) => done.push(*how),
        Step::ClearUnfinished { .. }
        | Step::Format(_)
        | Step::Stage { .. }
        | Step::MountData(_)
        | Step::Claim(_) => {
            assert!(world.is_reserved(), "{step}");
        }
        _ => {}
    };
    follow_with(&reserved(), world, goal, None, 8, &mut look)?;
    Ok(done)
}

/// A boot: what `/run` had is gone, and the path to the LUN is another one.
fn boot(world: &mut World) {
    world.crash();
    world.unmount();
    world.node.reservation = Fact::Known(None);
    world.node.etcd = Fact::Known(etcd("inactive"));
}

#[test]
fn it_is_taken_before_the_first_write_and_given_up_after_a_rollback() {
    use Reserving::{GiveUp, Keep, Take};
    for content in [Content::Blank, Content::Unfinished { uuid: OURS }] {
        let unfinished = matches!(content, Content::Unfinished { .. });
        let mut world =
            World::new(Node { record: Fact::Known(unfinished.then(record)), ..attached(content) });
        // Before the commit and before the mount.
        assert_eq!(run(&mut world, Goal::Lun(Occasion::ByHand)).unwrap(), [Take, Keep, Keep]);
        boot(&mut world);
        assert_eq!(run(&mut world, Goal::Lun(Occasion::Boot)).unwrap(), [Take, Keep]);
        assert_eq!(run(&mut world, Goal::Lun(Occasion::ByHand)).unwrap(), []);
        let back = run(&mut world, Goal::Local).unwrap();
        assert_eq!(back, [Take, GiveUp]);
        assert!(!world.is_reserved());
    }
}

/// The hands want the record to name the LUN.
#[test]
fn the_record_comes_first() {
    let plan = Goal::Lun(Occasion::Boot)
        .plan(&reserved(), &Node { etcd: Fact::Known(etcd("inactive")), ..attached(Content::Blank) })
        .unwrap();
    let ids: Vec<_> = plan.steps.iter().map(Step::id).collect();
    assert_eq!(ids[..4], ["begin-record", "reserve", "format", "stage"]);
}

/// Without the key no plan has such a step, and with it no plan has anything else that it had not.
#[test]
fn the_reservation_is_no_reason_for_a_plan() {
    let (with, without) = (reserved(), config_for("systemd"));
    let mut count = 0;
    every_node(|node| {
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let plan = |config: &Config| Goal::Lun(occasion).plan(config, node);
            match (plan(&with), plan(&without)) {
                (Ok(mut with), Ok(without)) => {
                    let all = with.steps.len();
                    with.steps.retain(|step| !matches!(step, Step::Reserve(_)));
                    count += usize::from(all > with.steps.len());
                    assert_eq!(with, without);
                }
                (with, without) => assert_eq!(with, without),
            }
        }
    });
    assert!(count > 100, "{count}");
}

/// A computer with another key has taken it. `claim` looks twice, and takes it back.
#[test]
fn a_reservation_that_is_lost_is_claimed_after_both_looks() {
    let lost = |wwid| Fact::Known(Some(Reservation { wwid, lost: Some("another computer".into()) }));
    let node = Node {
        record: Fact::Known(Some(used(1))),
        local: Fact::Known(dir(&[], true)),
        etcd: Fact::Known(etcd("failed")),
        reservation: lost(wwid()),
        ..attached(xfs(OURS, Some(stamp(1, 1)), false))
    };
    let ids = |config: &Config, node: &Node| -> Vec<_> {
        Goal::Claim.plan(config, node).unwrap().steps.iter().map(Step::id).collect()
    };
    assert_eq!(ids(&reserved(), &node), ["watch-lun", "reserve"]);
    assert!(ids(&config_for("systemd"), &node).is_empty());
    assert!(ids(&reserved(), &Node { reservation: lost(other_wwid()), ..node.clone() }).is_empty());
    let mut world = World::new(node.clone());
    assert_eq!(run(&mut world, Goal::Claim).unwrap(), [Reserving::TakeOver]);
    assert!(world.is_reserved());
    // A LUN that is newer is taken with its reservation, also by both looks first.
    let newer = Node { reservation: Fact::Known(None), ..node };
    let newer = Node { lun: attached(xfs(OURS, Some(stamp(1, 9)), false)).lun, ..newer };
    let mut world = World::new(newer);
    assert_eq!(run(&mut world, Goal::Claim).unwrap(), [Reserving::TakeOver, Reserving::Keep]);
}
