//! A config with `target.multipath = true`, on a node with every combination of multipathd, sessions and map.

use super::{rollback::every_way_back, *};
use config::{PATH_FAILS_AFTER, Source};
use node::Initiator;
use plan::step::AttachLun;
use std::time::Duration;
use terms::Span;

fn text(keys: &str) -> String {
    format!(
        "[target]\niqn = \"{TARGET}\"\nportals = [\"10.77.0.1\", \"10.78.0.1\"]\n{keys}\n[etcd]\nruntime = \"systemd\"\n\
         [[node]]\nhostname = \"master-0\"\ninitiator = \"{INITIATOR}\"\nlun = 1\nwwid = \"{}\"\n",
        wwid()
    )
}

fn config_with(keys: &str) -> Config {
    let source = Source { path: "config.toml".into(), text: text(keys) };
    Config::load(&[source], MACHINE, "master-0").unwrap()
}

fn with_multipathd(runs: Fact<bool>, node: &Node) -> Node {
    let initiator = Initiator { multipathd_active: runs, ..node.initiator.clone() };
    Node { initiator, ..node.clone() }
}

fn is_on_lun(node: &Node) -> bool {
    let record = node.record.known().and_then(Option::as_ref);
    record.is_some_and(|record| record.authority == Authority::Lun)
}

/// The pings of a log-in elsewhere follow the key too; see `pings_follow_multipathd`. That is no decision.
fn without_pings(mut plan: Plan) -> Plan {
    for step in &mut plan.steps {
        if let Step::Node(NodeStep::AttachLun(AttachLun { elsewhere: Some(log_in), .. })) = step {
            (log_in.noop_interval, log_in.noop_timeout) = (Span(Duration::ZERO), Span(Duration::ZERO));
        }
    }
    plan
}

/// No data is moved to a LUN that has no map, or while it is not known whether multipathd runs. A LUN that has the data
/// already is used all the same. In all else the key changes no decision.
#[test]
fn the_first_copy_needs_multipathd_and_a_map() {
    let (wanted, free) = (config_with("multipath = true"), config_with(""));
    let (mut refused, mut moved) = (0, 0);
    for runs in [Fact::Known(true), Fact::Known(false), unknown()] {
        for mapped in [false, true] {
            every_node(|node| {
                let mut node = with_multipathd(runs.clone(), node);
                if mapped && let Fact::Known(LunView::Seen(lun)) = &mut node.lun {
                    lun.multipath = Multipath::Mapped;
                }
                let [decided, without] =
                    [&wanted, &free].map(|config| plan(config, &node, Occasion::ByHand).map(without_pings));
                let touches =
                    |plan: &Plan| ["format", "stage", "copy"].iter().any(|id| at(plan, id).is_some());
                let seen = matches!(&node.lun, Fact::Known(LunView::Seen(_)));
                if decided.as_ref().is_ok_and(touches) && !is_on_lun(&node) {
                    assert!(mapped && runs == Fact::Known(true), "{node:#?}");
                    moved += 1;
                }
                if decided == without {
                    return;
                }
                assert!(!is_on_lun(&node), "{node:#?}");
                match decided {
                    Err(Refusal::NoMultipathd) => assert_eq!(runs, Fact::Known(false), "{node:#?}"),
                    Err(Refusal::SeveralPaths { .. }) => assert!(seen && !mapped, "{node:#?}"),
                    Err(Refusal::Unknown { .. }) => assert_eq!(runs, unknown(), "{node:#?}"),
                    other => panic!("{other:#?} instead of {without:#?}: {node:#?}"),
                }
                refused += 1;
            });
        }
    }
    assert!(refused > 100 && moved > 100, "{refused} refused, {moved} moved");
}

/// The way back does not depend on the key: a LUN that has lost its map must not hold the data. Only the last write to the LUN,
/// its release, does: a LUN without the map that it needs is not written.
#[test]
fn the_way_back_is_the_same() {
    let (wanted, free) = (config_with("multipath = true"), config_with(""));
    let without_release = |mut plan: Plan| {
        if plan.steps.iter().any(|step| matches!(step, Step::Protocol(ProtocolStep::Release { .. }))) {
            plan.steps.retain(|step| {
                !matches!(
                    step,
                    Step::Protocol(ProtocolStep::Stage { .. }) | Step::Protocol(ProtocolStep::Release { .. })
                )
            });
        }
        without_pings(plan)
    };
    every_way_back(|node| {
        let [one, other] = [&wanted, &free].map(|config| plan::rollback(config, node).map(without_release));
        assert_eq!(one, other, "{node:#?}");
    });
}

/// The pings of a log-in: short where several paths are used, and as written where they are written.
#[test]
fn pings_follow_multipathd() {
    let one = text("").replace(", \"10.78.0.1\"", "");
    let one = Config::load(&[Source { path: "c".into(), text: one }], MACHINE, "master-0").unwrap();
    let written = config_with("noop_interval = \"3s\"\nnoop_timeout = \"4s\"");
    for (config, runs, expected) in [
        (&config_with(""), false, ["5s", "10s"]),
        (&config_with(""), true, ["1s", "2s"]),
        (&config_with("multipath = true"), true, ["1s", "2s"]),
        (&one, true, ["5s", "10s"]),
        (&written, false, ["3s", "4s"]),
        (&written, true, ["3s", "4s"]),
    ] {
        let expected = expected.map(|span| span.parse().unwrap());
        let planned = plan(config, &with_multipathd(Fact::Known(runs), &node()), Occasion::ByHand).unwrap();
        let logged_in = planned.steps.iter().find_map(|step| match step {
            Step::Node(NodeStep::LogIn(step)) => Some([step.noop_interval, step.noop_timeout]),
            _ => None,
        });
        assert_eq!(logged_in, Some(expected), "{runs}");
    }
}

/// A session waits for the target as long as the config says, unless a map is over its disk: there multipathd decides. It
/// does not where it runs for other LUNs only.
#[test]
fn only_a_map_leaves_the_wait_to_multipathd() {
    for (runs, multipath, is_set) in [
        (false, Multipath::Unclaimed, true),
        (true, Multipath::Unclaimed, true),
        (true, Multipath::Mapped, false),
        (true, Multipath::Claimed, false),
        (false, Multipath::Mapped, false),
    ] {
        let mut world = World::new(node());
        runs::to_the_end(&mut world);
        machine::seen(&mut world.node).multipath = multipath;
        let seconds = u32::try_from(PATH_FAILS_AFTER.0.as_secs()).unwrap();
        known(&mut world.node.sessions)
            .iter_mut()
            .for_each(|one| one.session.recovery_timeout = Some(seconds));
        let node = with_multipathd(Fact::Known(runs), &world.node);
        let planned = plan(&support::config(), &node, Occasion::ByHand).unwrap();
        assert_eq!(at(&planned, "set-timeout").is_some(), is_set, "{runs}, {multipath:?}");
        let blind = Node { lun: unknown(), ..node };
        if let Ok(planned) = plan(&support::config(), &blind, Occasion::ByHand) {
            assert_eq!(at(&planned, "set-timeout"), None);
        }
    }
}
