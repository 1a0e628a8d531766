//! A list of LUNs in the config, of which a node takes one: every combination of what they hold and of what the node has.

use super::*;
use config::Source;
use plan::{ListRefusal, step::TakeLun};
use terms::Wwid;

const LIST: [&str; 3] = [
    "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4",
    "naa.60014051d8e4a3bd5a94f3f9a1a2b3c5",
    "naa.60014051d8e4a3bd5a94f3f9a1a2b3c6",
];

fn listed() -> Config {
    let text = format!(
        "[target]\niqn = \"{TARGET}\"\nportals = [\"10.77.0.1\"]\nlun_masking = true\n[etcd]\nruntime = \"systemd\"\n\
         [[node]]\nhostname = \"master-*\"\ninitiator = \"iqn.1994-05.com.redhat:{{hostname}}\"\nwwids = {LIST:?}\n"
    );
    let mut config =
        Config::load(&[Source { path: "config.toml".into(), text }], MACHINE, "master-0").unwrap();
    let config::Backing::Iscsi(iscsi) = &mut config.backing else { panic!("there is a target") };
    iscsi.initiator = INITIATOR.parse().unwrap();
    config
}

fn name(at: usize) -> Wwid {
    LIST[at].parse().unwrap()
}

/// What a LUN of the list can be, and what has to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Free,
    Own,
    Taken,
    Unknown,
}

fn states() -> Vec<(Is, Lun)> {
    let user = User { at: "/mnt".into(), pid: 7, command: "sh".into() };
    let blank = || lun(Content::Blank);
    let mut released = stamp(3, 4);
    released.released = true;
    let of = |content| lun(content);
    vec![
        (Is::Free, blank()),
        (Is::Own, of(xfs(OURS, Some(stamp(1, 1)), false))),
        (Is::Own, of(xfs(FOREIGN, Some(released), false))),
        (Is::Taken, of(xfs(FOREIGN, Some(foreign_stamp(1)), false))),
        (Is::Taken, of(xfs(FOREIGN, None, false))),
        (Is::Taken, of(Content::Unfinished { uuid: OURS })),
        (Is::Taken, of(Content::Foreign { found: "an ext4 filesystem".into() })),
        (Is::Taken, Lun { read_only: true, ..blank() }),
        (Is::Taken, Lun { holders: vec!["dm-3".into()], ..blank() }),
        (Is::Taken, Lun { partitions: vec!["sdb1".into()], ..blank() }),
        (Is::Taken, Lun { path_size: Bytes(1 << 30), ..blank() }),
        (Is::Unknown, Lun { users: Fact::Known(vec![user]), ..blank() }),
        (Is::Unknown, Lun { users: unknown(), ..blank() }),
        (Is::Unknown, Lun { content: unknown(), ..blank() }),
        (
            Is::Unknown,
            of(Content::Xfs {
                uuid: FOREIGN,
                label: None,
                size: Bytes(20 << 30),
                stamp: unknown(),
                settled: false,
                empty: None,
            }),
        ),
    ]
}

/// All lists of three of which at least one is shown.
fn every_list(mut then: impl FnMut(&[Option<Is>; 3], &[Lun])) {
    let states = states();
    let choices: Vec<Option<&(Is, Lun)>> = std::iter::once(None).chain(states.iter().map(Some)).collect();
    for first in &choices {
        for second in &choices {
            for third in &choices {
                let all = [first, second, third];
                let shown: Vec<_> = all
                    .iter()
                    .enumerate()
                    .filter_map(|(at, choice)| {
                        Some(Lun { wwid: Fact::Known(name(at)), ..choice.as_ref()?.1.clone() })
                    })
                    .collect();
                if !shown.is_empty() {
                    then(&all.map(|choice| choice.map(|(is, _)| *is)), &shown);
                }
            }
        }
    }
}

fn with_list(shown: &[Lun]) -> Node {
    Node { lun: Fact::Known(LunView::Listed(shown.to_vec())), ..attached(Content::Blank) }
}

fn taken(plan: &Plan) -> Option<&TakeLun> {
    plan.steps.iter().find_map(|step| match step {
        Step::TakeLun(taken) => Some(taken),
        _ => None,
    })
}

/// Without a record: the node's own LUN by its stamp, else the first that is blank and free, and nothing while one of them cannot
/// be judged. No plan on a list writes anything.
#[test]
fn which_one_a_node_without_a_record_takes() {
    let config = listed();
    let mut seen = [0; 4];
    every_list(|is, shown| {
        for (etcd, occasion) in [("active", Occasion::ByHand), ("inactive", Occasion::Boot)] {
            let node = Node { etcd: Fact::Known(etcd_of(etcd)), ..with_list(shown) };
            let said = plan(&config, &node, occasion);
            if let Ok(plan) = &said {
                assert!(plan.steps.len() == 1 && !plan.steps[0].is_destructive(), "{is:?}: {plan:#?}");
            }
            let found = said.as_ref().ok().and_then(taken).map(|taken| taken.wwid.clone());
            let free = is.iter().position(|is| *is == Some(Is::Free));
            if is.contains(&Some(Is::Own)) {
                let own = found.expect("the node's own");
                assert!((0..3).any(|at| is[at] == Some(Is::Own) && name(at) == own), "{is:?}: {own}");
                seen[0] += 1;
            } else if is.contains(&Some(Is::Unknown)) {
                assert!(
                    matches!(said, Err(Refusal::List(ListRefusal::CannotBeJudged { .. }))),
                    "{is:?}: {said:?}"
                );
                seen[1] += 1;
            } else if let Some(at) = free {
                assert_eq!(found, Some(name(at)), "{is:?}");
                let passed = &taken(said.as_ref().unwrap()).unwrap().passed_over;
                assert_eq!(
                    passed.len(),
                    is.iter().filter(|is| **is == Some(Is::Taken)).count(),
                    "{is:?}: {passed:?}"
                );
                seen[2] += 1;
            } else {
                let Err(Refusal::List(ListRefusal::NoneFree { list })) = said else {
                    panic!("{is:?}: {said:?}")
                };
                assert_eq!(
                    list.matches("is not shown to this node").count(),
                    is.iter().filter(|is| is.is_none()).count()
                );
                assert!(LIST.iter().all(|wwid| list.contains(wwid)), "{list}");
                seen[3] += 1;
            }
        }
    });
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    say!("own, cannot be judged, first free, none: {seen:?}");
}

fn etcd_of(state: &str) -> Etcd {
    Etcd { start_queued: state == "inactive", ..etcd(state) }
}

/// With a record: the LUN that it names, and no other, whatever the others hold, and also while that one is not shown.
#[test]
fn a_record_binds_the_node_to_its_lun() {
    let config = listed();
    let records = [record(), record().commit(Some(DATA)), used(5), rolled_back(DATA)];
    every_list(|is, shown| {
        for record in &records {
            let fenced = record.authority == Authority::Lun;
            let local = if fenced { dir(&[], true) } else { dir(&["member"], false) };
            let node = Node {
                record: Fact::Known(Some(record.clone())),
                local: Fact::Known(local),
                ..with_list(shown)
            };
            for goal in [Goal::Lun(Occasion::ByHand), Goal::Lun(Occasion::Boot), Goal::Claim] {
                let Ok(plan) = goal.plan(&config, &node) else { continue };
                assert!(plan.steps.iter().all(|step| !step.is_destructive()), "{is:?}, {goal:?}: {plan:#?}");
                if let Some(taken) = taken(&plan) {
                    assert_eq!(taken.wwid, record.wwid);
                }
            }
            // The next run knows it before it looks: another LUN than that one is never what it plans with.
            let bound = config.with_lun(&record.wwid);
            assert!(bound.listed().is_empty());
            for lun in shown.iter().filter(|lun| lun.wwid.known() != Some(&record.wwid)) {
                let node = Node { lun: Fact::Known(LunView::Seen(Box::new(lun.clone()))), ..node.clone() };
                for goal in [Goal::Lun(Occasion::ByHand), Goal::Lun(Occasion::Boot)] {
                    if record.rolled_back && goal == Goal::Lun(Occasion::Boot) {
                        continue; // it looks at no LUN
                    }
                    let said = goal.plan(&bound, &node);
                    let waits = |plan: &Plan| plan.steps.iter().all(|step| step.id() == "fence");
                    assert!(said.as_ref().is_err() || said.as_ref().is_ok_and(waits), "{is:?}: {said:#?}");
                }
            }
        }
    });
}

/// A LUN that the list does not name any more is not used.
#[test]
fn the_list_must_name_the_recorded_lun() {
    let mut elsewhere = record();
    elsewhere.wwid = other_wwid();
    let config = listed();
    let refused = |config: &Config, node: &Node| plan(config, node, Occasion::ByHand).unwrap_err();
    let node = Node {
        record: Fact::Known(Some(elsewhere)),
        ..with_list(&[Lun { wwid: Fact::Known(name(1)), ..lun(Content::Blank) }])
    };
    assert!(
        matches!(refused(&config, &node), Refusal::List(ListRefusal::NotListed { wwid }) if wwid == other_wwid())
    );
    let there = Lun { wwid: Fact::Known(other_wwid()), ..lun(xfs(OURS, None, false)) };
    let node = Node { lun: Fact::Known(LunView::Seen(Box::new(there))), ..node };
    let bound = config.with_lun(&other_wwid());
    assert!(matches!(refused(&bound, &node), Refusal::List(ListRefusal::NotListed { .. })));
}

#[test]
fn a_claim_does_not_choose_between_two() {
    let own = |at: usize, generation| Lun {
        wwid: Fact::Known(name(at)),
        ..lun(xfs(FOREIGN, Some(stamp(generation, 2)), false))
    };
    let node = Node {
        local: Fact::Known(LocalDir::Absent),
        etcd: Fact::Known(etcd("failed")),
        ..with_list(&[own(0, 1), own(2, 4)])
    };
    let said = Goal::Claim.plan(&listed(), &node).unwrap_err();
    let Refusal::List(ListRefusal::SeveralOwn { own: both }) = &said else { panic!("{said}") };
    assert!(both.contains(LIST[0]) && both.contains(LIST[2]), "{both}");
    // `apply` bars the local data by the newer one, and claims nothing.
    let by_hand = plan(&listed(), &node, Occasion::ByHand).unwrap();
    assert_eq!(taken(&by_hand).unwrap().wwid, name(2));
    let one = Node { lun: Fact::Known(LunView::Listed(vec![own(2, 4)])), ..node };
    assert_eq!(taken(&Goal::Claim.plan(&listed(), &one).unwrap()).unwrap().wwid, name(2));
}

/// A whole migration onto the second LUN, cut short after any step: from the record on each run uses that LUN, whatever becomes of
/// the others.
#[test]
fn a_migration_ends_on_the_lun_that_it_began_on() {
    let open = listed();
    let others = Lun { wwid: Fact::Known(name(0)), ..lun(xfs(FOREIGN, Some(foreign_stamp(1)), false)) };
    let blank = Lun { wwid: Fact::Known(name(1)), ..lun(Content::Blank) };
    let follow = |world: &mut World, crash: Option<usize>| -> Result<usize, Refusal> {
        let mut steps = 0;
        // As `observe::of_record` does when a run begins.
        let recorded = world.node.record.known().cloned().flatten();
        let mut config = recorded.map_or(open.clone(), |record| open.with_lun(&record.wwid));
        if config.listed().is_empty() {
            // The kernel knows the node's own LUN only.
        } else if let Fact::Known(LunView::Seen(lun)) = &world.node.lun {
            world.node.lun = Fact::Known(LunView::Listed(vec![others.clone(), (**lun).clone()]));
        }
        for _ in 0..8 {
            let plan = plan(&config, &world.node, Occasion::ByHand)?;
            if plan.is_empty() {
                return Ok(steps);
            }
            for step in &plan.steps {
                if crash == Some(steps) {
                    return Ok(steps);
                }
                steps += 1;
                match (step, &world.node.lun) {
                    (Step::TakeLun(taken), Fact::Known(LunView::Listed(shown))) => {
                        assert_eq!(taken.wwid, name(1));
                        let lun = shown.iter().find(|lun| lun.wwid.known() == Some(&taken.wwid)).unwrap();
                        world.node.lun = Fact::Known(LunView::Seen(Box::new(lun.clone())));
                        config = open.with_lun(&taken.wwid);
                    }
                    _ => world.step(step),
                }
            }
        }
        panic!("plans without end");
    };
    let start = || {
        World::new(Node {
            lun: Fact::Known(LunView::Seen(Box::new(blank.clone()))),
            ..attached(Content::Blank)
        })
    };
    let mut whole = start();
    let steps = follow(&mut whole, None).unwrap();
    for cut in 0..=steps {
        let mut world = start();
        follow(&mut world, Some(cut)).unwrap();
        world.crash();
        follow(&mut world, None).unwrap_or_else(|refusal| panic!("cut at {cut}: {refusal}"));
        let record = world.node.record.known().cloned().flatten().unwrap();
        assert_eq!((record.authority, record.wwid), (Authority::Lun, name(1)), "cut at {cut}");
        assert!(matches!(world.node.mount, Fact::Known(Some(_))), "cut at {cut}");
    }
    say!("{steps} steps, cut short at every place");
}
