//! The rollback: checks of one plan against the laws, every combination of facts, and whole runs that are interrupted
//! after any step.

use super::*;
use crate::census::Census;
use node::RollbackStaging;
use plan::{Goal, rollback};
use terms::RecordedFingerprint::Ours;

fn shelves() -> Vec<Fact<RollbackStaging>> {
    let foreign = {
        let mut shelf = staged(Some(OTHER_DATA));
        shelf.copy.as_mut().unwrap().ours = false;
        shelf
    };
    vec![
        Fact::Known(RollbackStaging { free: Bytes(40 << 30), copy: None }),
        Fact::Known(RollbackStaging { free: Bytes(1 << 30), copy: None }),
        Fact::Known(staged(None)),
        Fact::Known(staged(Some(DATA))),
        Fact::Known(foreign),
        unknown(),
    ]
}

fn sessions() -> Vec<Fact<Vec<SeenSession>>> {
    let other = shown(session(), |session| {
        session.sid = 9;
        session.target = "iqn.2000-01.com.example:other".into();
    });
    let used = SeenSession { in_use: vec!["sdb".into()], ..session() };
    vec![
        Fact::Known(vec![used]),
        Fact::Known(vec![session(), other]),
        Fact::Known(vec![shown(session(), |session| session.state = "FAILED".into())]),
        Fact::Known(Vec::new()),
        unknown(),
    ]
}

fn views() -> Vec<Fact<LunView>> {
    let stamps = [Some(stamp(1, 1)), Some(stamp(2, 9)), None];
    let xfs =
        stamps.into_iter().flat_map(|stamp| [true, false].map(|settled| xfs(OURS, stamp.clone(), settled)));
    let seen = xfs.chain([Content::Blank]).map(|content| Fact::Known(LunView::Seen(Box::new(lun(content)))));
    seen.chain([Fact::Known(LunView::NoSession), Fact::Known(LunView::NotAttached), unknown()]).collect()
}

pub fn every_way_back(mut visit: impl FnMut(&Node)) -> usize {
    let mut count = 0;
    let mut node = migrated();
    let right = node.mount.clone();
    let [silent, other] = ["8:16", "9:99"].map(|devno| Fact::Known(Some(data_mount(devno))));
    for mount in [right, silent, other, Fact::Known(None), unknown()] {
        node.mounted_stamp = match mount {
            Fact::Known(None) => Fact::Known(None),
            _ => Fact::Known(Some(stamp(1, 1))),
        };
        node.mount = mount;
        for record in records() {
            node.record = record;
            for local in locals() {
                node.local = local;
                for etcd in etcds() {
                    node.etcd = etcd;
                    for shelf in shelves() {
                        node.rollback_staging = shelf;
                        for sessions in sessions() {
                            node.sessions = sessions;
                            for view in views() {
                                node.lun = view;
                                count += 1;
                                visit(&node);
                            }
                        }
                    }
                }
            }
        }
    }
    count
}

fn is_mounted(node: &Node) -> bool {
    !matches!(node.mount, Fact::Known(None))
}

pub fn way_back(census: &mut Census, node: &Node, plan: &Plan) {
    let mut fail = |law: u8, what: &str| census.breaks(law, what, node, plan);
    let record = node.record.known().cloned().flatten();
    let Some(record) = record else { return fail(3, "without a record there is no rollback") };
    let lun_is_authoritative = record.authority == Authority::Lun;
    let running = node.etcd.known().is_none_or(|etcd| etcd.running);
    for id in ["begin-record", "clear-unfinished", "format", "unstamp", "stamp", "commit", "log-in"] {
        if at(plan, id).is_some() {
            fail(4, "a rollback writes to no LUN and makes no session");
        }
    }
    if plan.steps.iter().any(Step::is_destructive)
        && (node.local.known().is_none()
            || node.etcd.known().is_none()
            || node.rollback_staging.known().is_none())
        && at(plan, "retire").is_none()
        && at(plan, "bar").is_none()
    {
        fail(3, "a destructive step needs known facts");
    }
    let order = "pre-copy preflight catch-up stop-etcd copy prove confirm unmount-data commit-local return start-etcd";
    if at(plan, "mount-data").is_none() && !judge::is_sorted(plan, order) {
        fail(6, "the order of the protocol");
    }
    judge::copies(plan, &["prove", "unmount-data", "commit-local", "return"], running, &mut fail);
    if at(plan, "copy").is_some() {
        let in_reach = node.sessions.known().is_some_and(|all| all.iter().any(|one| one.is_logged_in()));
        if !lun_is_authoritative || !is_mounted(node) || !in_reach {
            fail(7, "what is copied is the authoritative copy, and it can be read");
        }
        if !node.local.known().is_some_and(LocalDir::is_fenced) {
            fail(7, "the data directory is fenced until the copy takes its place");
        }
        let shelf = node.rollback_staging.known().unwrap();
        if shelf.free < Bytes(5 << 30) || shelf.copy.as_ref().is_some_and(|copy| !copy.ours) {
            fail(4, "there is space for the copy, and no foreign data in its place");
        }
    } else if at(plan, "commit-local").is_some() {
        fail(6, "only a copy is committed");
    }
    if at(plan, "log-out").is_some() {
        let used = |sid| {
            node.sessions
                .known()
                .unwrap()
                .iter()
                .any(|one| one.sid == sid && (!one.in_use.is_empty() || one.target != TARGET))
        };
        if lun_is_authoritative || is_mounted(node) || node.local.known().unwrap().is_fenced() {
            fail(8, "sessions are logged out last");
        }
        if plan.steps.iter().any(|step| matches!(step, Step::Node(NodeStep::LogOut { sid }) if used(*sid))) {
            fail(8, "a session that is in use, or is not ours, is never logged out");
        }
    }
    for step in &plan.steps {
        if let Step::Protocol(ProtocolStep::StartEtcd(StartEtcd { on, .. })) = step
            && (*on != Authority::Local || lun_is_authoritative && at(plan, "commit-local").is_none())
        {
            fail(7, "etcd is started on the authoritative copy");
        }
    }
    if at(plan, "return").is_some() && at(plan, "commit-local").is_none() {
        returned(census, node, plan);
    }
}

/// The copy is put in the place of the data directory only if the record allows it, and only if it is the proven copy.
fn returned(census: &mut Census, node: &Node, plan: &Plan) {
    let mut fail = |law: u8, what: &str| census.breaks(law, what, node, plan);
    let record = node.record.known().cloned().flatten().unwrap();
    let copy =
        node.rollback_staging.known().and_then(|shelf| shelf.copy.as_ref()).and_then(|copy| copy.fingerprint);
    if node.rolled_back().is_none() || copy.is_none() || copy.map(Ours) != record.fingerprint {
        fail(7, "only a proven copy is put in place");
    }
    if is_mounted(node) || !node.local.known().is_some_and(LocalDir::is_empty) {
        fail(4, "only the fence is replaced");
    }
}

/// Checks `apply` on a node that was rolled back.
pub fn after_it(census: &mut Census, node: &Node, plan: &Plan, occasion: Occasion) {
    let mut fail = |law: u8, what: &str| census.breaks(law, what, node, plan);
    let moves = ["begin-record", "format", "stage", "copy"].iter().any(|id| at(plan, id).is_some());
    if occasion == Occasion::Boot && moves {
        fail(7, "a boot does not migrate data that a person has rolled back");
    }
    if occasion == Occasion::ByHand && at(plan, "return").is_some() {
        fail(6, "by hand a rollback is finished by `rollback`");
    }
    if at(plan, "return").is_some() {
        returned(census, node, plan);
    }
}

/// Follows a goal. After each step of a rollback, etcd must either be able to start on the authoritative copy, or not
/// be able to start at all.
fn go(world: &mut World, goal: Goal, runtime: &str, crash: Option<usize>) -> Result<usize, Refusal> {
    follow(world, goal, runtime, crash, 8, |world, step| {
        if goal == Goal::Local {
            starts_on_the_authoritative_copy(world, step);
        }
    })
}

fn starts_on_the_authoritative_copy(world: &World, step: &Step) {
    let node = &world.node;
    let authoritative = node.record.known().unwrap().as_ref().unwrap().authority;
    let mounted = is_mounted(node);
    let fenced = node.local.known().unwrap().is_fenced();
    let starts_on = match (mounted, fenced) {
        (true, _) => Some(Authority::Lun),
        (false, true) => None,
        (false, false) => Some(Authority::Local),
    };
    assert!(starts_on.is_none_or(|place| place == authoritative), "after {}: {world:#?}", step.id());
}

fn is_back(world: &World) -> bool {
    let node = &world.node;
    node.rolled_back() == Some(2)
        && world.local_is_copy
        && node.etcd.known().is_some_and(|etcd| etcd.is_up() || etcd.start_queued)
        && matches!(node.mount, Fact::Known(None))
        && !node.local.known().unwrap().is_fenced()
        && node.rollback_staging.known().unwrap().copy.is_none()
}

fn is_on_lun(world: &World) -> bool {
    let node = &world.node;
    node.record.known().unwrap().as_ref().unwrap().authority == Authority::Lun
        && node.etcd.known().is_some_and(|etcd| etcd.is_up() || etcd.start_queued)
        && node.local.known().unwrap().is_fenced()
        && is_mounted(node)
}

/// The state at the next boot: no mount, no session. etcd is about to start, unless its manifest is parked.
fn reboot(world: &mut World, runtime: &str) {
    world.crash();
    world.unmount();
    world.node.sessions = Fact::Known(Vec::new());
    world.node.lun = Fact::Known(LunView::NoSession);
    let parked = runtime == "static-pod" && known(&mut world.node.etcd).stopped_by_us;
    let down = etcd("inactive");
    world.node.etcd = Fact::Known(match parked {
        true => Etcd { enabled: false, stopped_by_us: true, ..down },
        false => Etcd { start_queued: true, ..down },
    });
}

#[test]
fn law_6_a_rollback_cut_short_anywhere_is_finished_by_a_rerun() {
    for (runtime, sidecars_write) in [("systemd", false), ("static-pod", false), ("static-pod", true)] {
        let start = || World { sidecars_write, ..World::new(migrated()) };
        let mut whole = start();
        let steps = go(&mut whole, Goal::Local, runtime, None).unwrap();
        assert!(is_back(&whole) && known(&mut whole.node.sessions).is_empty(), "{whole:#?}");
        for first in 0..steps {
            for second in 0..=steps {
                let mut world = start();
                for crash in [first, second] {
                    go(&mut world, Goal::Local, runtime, Some(crash)).unwrap();
                    world.crash();
                }
                go(&mut world, Goal::Local, runtime, None)
                    .unwrap_or_else(|refusal| panic!("cut at {first}, then {second}: {refusal}"));
                assert!(is_back(&world), "cut at {first}, then {second}: {world:#?}");
            }
        }
    }
}

#[test]
fn a_boot_after_a_cut_goes_to_the_side_of_the_commit_point_that_it_finds() {
    for runtime in ["systemd", "static-pod"] {
        let steps = go(&mut World::new(migrated()), Goal::Local, runtime, None).unwrap();
        let mut ends = [0, 0];
        for cut in 0..=steps {
            let mut world = World::new(migrated());
            go(&mut world, Goal::Local, runtime, Some(cut)).unwrap();
            let committed = world.node.rolled_back().is_some();
            reboot(&mut world, runtime);
            let boot = Goal::Lun(Occasion::Boot);
            go(&mut world, boot, runtime, None).unwrap_or_else(|refusal| panic!("cut at {cut}: {refusal}"));
            assert!(if committed { is_back(&world) } else { is_on_lun(&world) }, "cut at {cut}: {world:#?}");
            ends[usize::from(committed)] += 1;
            // Every later boot keeps it there.
            reboot(&mut world, runtime);
            go(&mut world, boot, runtime, None).unwrap();
            assert!(if committed { is_back(&world) } else { is_on_lun(&world) }, "cut at {cut}: {world:#?}");
        }
        assert!(ends.iter().all(|count| *count >= 3), "{ends:?}");
    }
}

#[test]
fn only_a_person_moves_it_again_and_as_a_new_generation() {
    let mut world = World::new(migrated());
    go(&mut world, Goal::Local, "systemd", None).unwrap();
    let boot = plan(&config(), &world.node, Occasion::Boot).unwrap();
    assert!(boot.is_empty(), "{boot:#?}");
    go(&mut world, Goal::Lun(Occasion::ByHand), "systemd", None).unwrap();
    assert!(is_on_lun(&world) && world.lun_is_copy, "{world:#?}");
    let record = known(&mut world.node.record).clone().unwrap();
    assert_eq!((record.generation, record.rolled_back), (3, false));
}

#[test]
fn apply_by_hand_does_not_finish_a_rollback() {
    let mut world = World::new(migrated());
    let config = config();
    let Plan { steps, .. } = rollback(&config, &world.node).unwrap();
    for step in steps.iter().take_while(|step| step.id() != "return") {
        world.step(step);
    }
    world.crash();
    let refusal = plan(&config, &world.node, Occasion::ByHand).unwrap_err();
    assert!(
        matches!(refusal, Refusal::Rollback(RollbackRefusal::RollbackUnfinished { generation: 2 })),
        "{refusal}"
    );
}

/// `apply` does the same before it copies anything.
#[test]
fn a_filesystem_that_has_shut_down_is_mounted_again_first() {
    let mut node = migrated();
    known(&mut node.mount).as_mut().unwrap().io_error = true;
    let plan = rollback(&config(), &node).unwrap();
    let ids: Vec<_> = plan.steps.iter().map(Step::id).collect();
    assert_eq!(ids, ["stop-etcd", "unmount-shut-down"]);
    assert!(plan.horizon.is_some());
}

#[test]
fn what_is_missing_is_named() {
    let gone = |change: fn(&mut Node)| {
        let mut node = migrated();
        change(&mut node);
        rollback(&config(), &node).unwrap_err().to_string()
    };
    for (change, said) in [
        ((|node| node.record = Fact::Known(None)) as fn(&mut Node), "there is no record"),
        (|node| node.record = Fact::Known(Some(record())), "a migration was only begun"),
        (|node| known(&mut node.sessions)[0].session.state = "FAILED".into(), "has lost its connection"),
        (|node| node.lun = Fact::Known(LunView::NoSession), "no session to iqn.2024-02.com.example:etcd"),
        (|node| known(&mut node.rollback_staging).free = Bytes(1 << 30), "make room there"),
        (
            |node| {
                node.rollback_staging =
                    Fact::Known(RollbackStaging { copy: staged(None).copy, free: Bytes(1 << 20) })
            },
            "make room",
        ),
        (
            |node| {
                *known(&mut node.rollback_staging) = staged(None);
                known(&mut node.rollback_staging).copy.as_mut().unwrap().ours = false;
            },
            "/var/lib/etcd-lun/returning/2 holds something",
        ),
        (
            |node| node.record = Fact::Known(Some(rolled_back(DATA))),
            "/dev/sdb is mounted over it at /var/lib/etcd",
        ),
    ] {
        let refusal = gone(change);
        assert!(refusal.contains(said), "{said}: {refusal}");
    }
}

/// Whatever is there, and whatever its fingerprint is: it is not put in place, and no message says that it has changed.
#[test]
fn what_an_older_version_has_proven_is_not_compared() {
    let mut node = node();
    node.record = Fact::Known(Some(of_older_version(&rolled_back(DATA))));
    node.local = Fact::Known(dir(&[], true));
    node.etcd = Fact::Known(Etcd { stopped_by_us: true, ..etcd("inactive") });
    for found in [None, Some(DATA), Some(OTHER_DATA)] {
        node.rollback_staging = Fact::Known(staged(found));
        let refusals = [
            rollback(&config(), &node).unwrap_err(),
            plan(&config(), &node, Occasion::ByHand).unwrap_err(),
            plan(&config(), &node, Occasion::Boot).unwrap_err(),
        ];
        for refusal in refusals {
            assert!(
                matches!(
                    refusal,
                    Refusal::Rollback(RollbackRefusal::OlderFingerprintOfReturned { generation: 2, .. })
                ),
                "{refusal}"
            );
        }
    }
    // The copy is in place already, so nothing is compared any more.
    node.rollback_staging = Fact::Known(RollbackStaging { free: Bytes(40 << 30), copy: None });
    node.local = Fact::Known(dir(&["member"], false));
    let finished = rollback(&config(), &node).unwrap();
    assert_eq!(finished.steps.iter().map(Step::id).collect::<Vec<_>>(), ["start-etcd", "await-member"]);
}
