//! Whole runs on simulated facts: complete, interrupted after any step, at boot, and with a target that becomes
//! reachable late.

use super::*;
use plan::LabelRefusal;
use support::say;

/// Runs plans until nothing is left. With `crash` the run is interrupted after that many steps in total.
fn run(world: &mut World, crash: Option<usize>) -> Result<usize, Refusal> {
    run_as(world, crash, "systemd", Occasion::ByHand)
}

/// Runs by hand until nothing is left.
pub fn to_the_end(world: &mut World) {
    run(world, None).unwrap();
}

fn run_as(
    world: &mut World,
    crash: Option<usize>,
    runtime: &str,
    occasion: Occasion,
) -> Result<usize, Refusal> {
    follow(world, Goal::Lun(occasion), runtime, crash, 6, |_, _| ())
}

fn is_done(world: &World) -> bool {
    let node = &world.node;
    let authoritative = node.record.known().cloned().flatten().map(|record| record.authority);
    authoritative == Some(Authority::Lun)
        && world.lun_is_copy
        && node.etcd.known().is_some_and(|etcd| etcd.is_up() || etcd.start_queued)
        && node.local.known().is_some_and(LocalDir::is_fenced)
        && matches!(node.mount, Fact::Known(Some(_)))
}

#[test]
fn law_6_stopping_anywhere_and_starting_again_reaches_the_same_end() {
    for (runtime, sidecars_write) in [("systemd", false), ("static-pod", false), ("static-pod", true)] {
        cut_short_at_every_pair_of_places(runtime, sidecars_write);
    }
}

fn cut_short_at_every_pair_of_places(runtime: &str, sidecars_write: bool) {
    let run = |world: &mut World, crash| run_as(world, crash, runtime, Occasion::ByHand);
    let start = || World { sidecars_write, ..World::new(node()) };
    let mut whole = start();
    let steps = run(&mut whole, None).unwrap();
    assert!(is_done(&whole), "{whole:#?}");
    for first in 0..steps {
        for second in 0..=steps {
            let mut world = start();
            for crash in [first, second] {
                run(&mut world, Some(crash)).unwrap();
                world.crash();
                // etcd is enabled, so a reboot starts it wherever it can start.
                let lun_is_authoritative = world
                    .node
                    .record
                    .known()
                    .cloned()
                    .flatten()
                    .is_some_and(|record| record.authority == Authority::Lun);
                if !lun_is_authoritative {
                    world.lun_is_copy = false; // etcd has written to the local disk since
                    world.node.etcd = Fact::Known(etcd("active"));
                }
            }
            run(&mut world, None)
                .unwrap_or_else(|refusal| panic!("cut at {first}, then {second}: {refusal}"));
            assert!(is_done(&world), "cut at {first}, then {second}: {world:#?}");
        }
    }
    say!("{runtime}: {steps} steps, cut short at every pair of places");
}

#[test]
fn a_reboot_after_the_migration_counts_one_use() {
    let mut world = World::new(node());
    run(&mut world, None).unwrap();
    // The state after a boot: no session, no mount, and etcd has failed because of the fence.
    world.unmount();
    world.crash();
    world.node.sessions = Fact::Known(Vec::new());
    world.node.lun = Fact::Known(LunView::NoSession);
    world.node.etcd = Fact::Known(etcd("failed"));
    run(&mut world, None).unwrap();
    assert!(is_done(&world));
    let uses = world.node.record.known().cloned().flatten().map(|record| record.activations);
    assert_eq!(uses, Some(2));
}

/// A run by hand grows the filesystem of a LUN that has grown, and the map over its paths first; the service does not.
#[test]
fn a_lun_that_has_grown_is_used_by_hand() {
    for mapped in [false, true] {
        let mut world = World::new(node());
        run(&mut world, None).unwrap();
        let lun = machine::seen(&mut world.node);
        lun.path_size = Bytes(40 << 30);
        if mapped {
            lun.multipath = Multipath::Mapped;
        } else {
            lun.size = Bytes(40 << 30);
        }
        let mut silent = world.clone();
        machine::seen(&mut silent.node).silent = true;
        assert_eq!(run(&mut silent, None), Ok(0), "the target does not answer");
        assert_eq!(run_as(&mut world, None, "systemd", Occasion::Boot), Ok(0));
        assert_eq!(run(&mut world, None), Ok(if mapped { 2 } else { 1 }));
        assert_eq!(known(&mut world.node.mount).as_ref().unwrap().free.unwrap().1, Bytes(40 << 30));
        assert!(is_done(&world), "{world:#?}");
    }
}

#[test]
fn a_lun_that_was_made_smaller_is_refused() {
    let shrunk = |node: &mut Node| machine::seen(node).path_size = Bytes(10 << 30);
    let mut mounted = World::new(node());
    run(&mut mounted, None).unwrap();
    let mut unmounted = mounted.clone();
    unmounted.unmount();
    unmounted.crash();
    for mut world in [mounted, unmounted] {
        shrunk(&mut world.node);
        world.behind = machine::seen(&mut world.node).clone();
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            world.node.etcd = Fact::Known(etcd("inactive"));
            let refusal = run_as(&mut world.clone(), None, "systemd", occasion).unwrap_err().to_string();
            assert!(refusal.contains("has 10GiB, and the filesystem on it has 20GiB"), "{refusal}");
        }
    }
}

#[test]
fn a_new_member_starts_on_the_lun() {
    let mut world = World::new(Node { local: Fact::Known(LocalDir::Absent), ..attached(Content::Blank) });
    world.node.etcd = Fact::Known(etcd("failed"));
    run(&mut world, None).unwrap();
    assert!(is_done(&world), "{world:#?}");
}

#[test]
fn a_boot_migrates_before_etcd_starts() {
    for runtime in ["systemd", "static-pod"] {
        let waiting = Etcd { start_queued: true, ..etcd("inactive") };
        let start = Node { etcd: Fact::Known(waiting), ..node() };
        let mut whole = World::new(start.clone());
        let steps = run_as(&mut whole, None, runtime, Occasion::Boot).unwrap();
        assert!(is_done(&whole), "{whole:#?}");
        for cut in 0..steps {
            let mut world = World::new(start.clone());
            run_as(&mut world, Some(cut), runtime, Occasion::Boot).unwrap();
            world.crash();
            run_as(&mut world, None, runtime, Occasion::Boot).unwrap();
            assert!(is_done(&world), "{runtime}, cut at {cut}: {world:#?}");
        }
    }
}

#[test]
fn a_late_target_gets_the_failing_etcd_onto_the_lun() {
    for (runtime, state) in
        situations().flat_map(|(runtime, _)| [(runtime, "failed"), (runtime, "activating")])
    {
        let mut world = World::new(node());
        run(&mut world, None).unwrap();
        world.crash();
        world.node.mount = Fact::Known(None);
        world.node.etcd = Fact::Known(etcd(state));
        let config = config_for(runtime);
        let stage = plan(&config, &world.node, Occasion::Boot).unwrap();
        world.step(&stage.steps[0]);
        let ids: Vec<_> =
            plan(&config, &world.node, Occasion::Boot).unwrap().steps.iter().map(Step::id).collect();
        let expected: &[&str] = match (runtime, state) {
            // systemd starts one again that is activating, unless its start limit is reached.
            ("systemd", _) | (_, "failed") => &["activate", "mount-data", "start-etcd"],
            _ => &["activate", "stop-etcd", "mount-data", "start-etcd"],
        };
        assert_eq!(ids, expected, "{runtime}, {state}");
    }
}

#[test]
fn an_etcd_that_serves_is_moved_by_a_person_only() {
    for runtime in ["systemd", "static-pod"] {
        let refusal = plan(&config_for(runtime), &node(), Occasion::Boot).unwrap_err();
        assert!(matches!(refusal, Refusal::Cluster(ClusterRefusal::EtcdServes { .. })), "{refusal}");
    }
}

/// Otherwise an administrator could migrate, and SELinux would deny the service what it needs at the next
/// boot.
#[test]
fn with_selinux_the_data_directory_lies_where_the_service_can_exchange_it() {
    let beside = |label: Option<&str>| Selinux::On {
        enforcing: true,
        module: InForce::Right,
        knows_data_label: true,
        context: "unconfined_u:unconfined_r:unconfined_t:s0".into(),
        program: None,
        beside: label.map(String::from),
        unit: None,
    };
    for record in [None, Some(record()), Some(used(1))] {
        let seen = |selinux| Node { selinux, record: Fact::Known(record.clone()), ..node() };
        let plan = |selinux| plan(&config(), &seen(selinux), Occasion::ByHand);
        let good = Fact::Known(beside(Some("system_u:object_r:var_lib_t:s0")));
        assert_eq!(plan(good), plan(Fact::Known(Selinux::Off)));
        for label in [Some("system_u:object_r:var_t:s0"), None] {
            let refusal = plan(Fact::Known(beside(label))).unwrap_err();
            assert!(matches!(refusal, Refusal::Label(LabelRefusal::OtherLabel { .. })), "{refusal}");
        }
        assert!(matches!(plan(unknown()).unwrap_err(), Refusal::Unknown { what: "SELinux", .. }));
    }
    let back =
        Node { selinux: Fact::Known(beside(None)), record: Fact::Known(Some(rolled_back(DATA))), ..node() };
    assert!(!matches!(
        plan(&config(), &back, Occasion::Boot),
        Err(Refusal::Label(LabelRefusal::OtherLabel { .. }))
    ));
}

/// The kernel would refuse the mount after etcd has been stopped, or at every boot. A node whose LUN is mounted goes on, and so does
/// one that was rolled back.
#[test]
fn the_policy_knows_the_label_of_the_mount() {
    let without = || {
        Fact::Known(Selinux::On {
            enforcing: true,
            module: InForce::Absent,
            knows_data_label: false,
            context: "unconfined_u:unconfined_r:unconfined_t:s0".into(),
            program: None,
            beside: Some("system_u:object_r:var_lib_t:s0".into()),
            unit: None,
        })
    };
    for record in [None, Some(record()), Some(used(1))] {
        let seen = Node { selinux: without(), record: Fact::Known(record), ..node() };
        for goal in [Goal::Lun(Occasion::ByHand), Goal::Lun(Occasion::Boot), Goal::Claim] {
            let refusal = goal.plan(&config(), &seen).unwrap_err();
            let Refusal::Label(LabelRefusal::UnknownDataLabel { label }) = &refusal else {
                panic!("{goal:?}: {refusal}")
            };
            assert_eq!(label, "system_u:object_r:etcd_lun_data_t:s0");
        }
    }
    let mut world = World::new(node());
    run(&mut world, None).unwrap();
    let mounted = Node { selinux: without(), ..world.node };
    assert_eq!(plan(&config(), &mounted, Occasion::Boot).unwrap().steps, []);
    let back = Node { selinux: without(), record: Fact::Known(Some(rolled_back(DATA))), ..node() };
    assert!(!matches!(
        plan(&config(), &back, Occasion::Boot),
        Err(Refusal::Label(LabelRefusal::UnknownDataLabel { .. }))
    ));
}

#[test]
fn a_filesystem_that_has_shut_down_is_mounted_anew() {
    let states = [("systemd", "failed"), ("systemd", "active"), ("static-pod", "active")];
    for ((runtime, state), occasion) in
        states.into_iter().flat_map(|one| [(one, Occasion::ByHand), (one, Occasion::Boot)])
    {
        let mut world = World::new(node());
        run(&mut world, None).unwrap();
        world.crash();
        known(&mut world.node.mount).as_mut().unwrap().io_error = true;
        world.node.mounted_stamp = unknown();
        world.node.etcd = Fact::Known(etcd(state));
        let steps = run_as(&mut world.clone(), None, runtime, occasion).unwrap();
        for cut in 0..=steps {
            let mut world = world.clone();
            run_as(&mut world, Some(cut), runtime, occasion).unwrap();
            world.crash();
            run_as(&mut world, None, runtime, occasion).unwrap();
            assert!(is_done(&world), "{runtime}, {state}, cut at {cut}: {world:#?}");
        }
    }
}

/// Somebody else's log-out, or the array: the session comes back as at a boot, and then a filesystem that has shut down is unmounted.
#[test]
fn a_lun_that_is_lost_while_it_is_mounted_is_attached_again_at_once() {
    for lost in [LunView::NoSession, LunView::NotAttached] {
        for shut in [true, false] {
            let mut world = World::new(node());
            run(&mut world, None).unwrap();
            let mut node = world.node.clone();
            assert!(!has_lost_its_lun(&config(), &node), "it is there");
            known(&mut node.mount).as_mut().unwrap().io_error = shut;
            node.mounted_stamp = unknown();
            let attached = std::mem::replace(&mut node.lun, Fact::Known(lost.clone()));
            node.sessions = Fact::Known(Vec::new());
            assert!(has_lost_its_lun(&config(), &node));
            let ids = |occasion| -> Vec<_> {
                plan(&config(), &node, occasion).unwrap().steps.iter().map(Step::id).collect()
            };
            assert_eq!(ids(Occasion::Boot), ["log-in", "attach-lun"]);
            // By hand a filesystem that has shut down is unmounted first.
            assert_eq!(ids(Occasion::ByHand).contains(&"log-in"), !shut);
            // Of a record that does not say LUN, of a foreign mount and of a device nothing is lost.
            for other in [None, Some(record()), Some(rolled_back(DATA))] {
                let other = Node { record: Fact::Known(other), ..node.clone() };
                assert!(!has_lost_its_lun(&config(), &other));
            }
            let mut foreign = node.clone();
            known(&mut foreign.mount).as_mut().unwrap().fs_type = "nfs4".into();
            assert!(!has_lost_its_lun(&config(), &foreign));
            assert!(!has_lost_its_lun(&config(), &Node { mount: Fact::Known(None), ..node.clone() }));
            if shut {
                let mut back = Node { lun: attached, sessions: world.node.sessions.clone(), ..node.clone() };
                let ends = plan(&config(), &back, Occasion::Boot).unwrap();
                assert!(ends.steps.iter().any(|step| step.id() == "unmount-shut-down"), "{ends:?}");
                // After another volume was taken away it is attached again as a new disk.
                (machine::seen(&mut back).devno, machine::seen(&mut back).wwid) =
                    ("8:32".into(), Fact::Known(other_wwid()));
                machine::seen(&mut back).users = Fact::Known(Vec::new());
                let refusal = plan(&config(), &back, Occasion::Boot).unwrap_err();
                assert!(matches!(refusal, Refusal::WrongLun { .. }), "{refusal}");
            }
        }
    }
}

/// Copied, the file would keep etcd out on the LUN too.
#[test]
fn a_directory_that_holds_only_the_fences_file_is_not_migrated() {
    let started = record();
    for record in [None, Some(started)] {
        let mut node = attached(Content::Blank);
        node.local = Fact::Known(barred(false));
        node.record = Fact::Known(record);
        node.etcd = Fact::Known(etcd("inactive"));
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let refusal = plan(&config(), &node, occasion).unwrap_err();
            assert!(matches!(refusal, Refusal::FencedWithoutRecord { .. }), "{refusal}");
        }
        node.local = Fact::Known(dir(&[], false));
        assert!(plan(&config(), &node, Occasion::ByHand).is_ok(), "an empty directory is migrated");
    }
}

/// Whatever is there, and whatever its fingerprint is: it is not retired, and no message says that it has changed.
#[test]
fn data_that_an_older_version_has_copied_is_not_compared() {
    let committed = of_older_version(&used(1));
    let mut node = attached(xfs(OURS, Some(old_stamp(1, 1)), true));
    node.record = Fact::Known(Some(committed));
    for found in [None, Some(DATA), Some(OTHER_DATA)] {
        node.local = Fact::Known(match dir(&["member"], false) {
            LocalDir::Present { entries, barred, immutable, with_state, size, .. } => {
                LocalDir::Present { entries, barred, immutable, fingerprint: found, with_state, size }
            }
            LocalDir::Absent => LocalDir::Absent,
        });
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let refusal = plan(&config(), &node, occasion).unwrap_err();
            assert!(matches!(refusal, Refusal::OlderFingerprint { generation: 1, .. }), "{refusal}");
            let said = refusal.to_string();
            assert!(said.contains("`mv /var/lib/etcd /var/lib/etcd.before-lun`"), "{said}");
        }
        // Someone has the database open, so it is certainly other data.
        let mut held = node.clone();
        known(&mut held.etcd).lock_holders = vec!["etcd (pid 7)".into()];
        let refusal = plan(&config(), &held, Occasion::ByHand).unwrap_err();
        assert!(matches!(refusal, Refusal::TwoHistories { .. }), "{refusal}");
    }
    // Once it is retired or moved away, the node continues like any other.
    for local in [dir(&[], true), LocalDir::Absent] {
        node.local = Fact::Known(local);
        assert!(plan(&config(), &node, Occasion::Boot).is_ok());
    }
}

/// systemd starts a unit again that has failed against the fence, until its start limit is reached. That may be right before the
/// LUN is mounted.
#[test]
fn a_unit_that_fails_against_the_fence_is_started_after_the_mount() {
    for state in ["activating", "failed"] {
        let node = Node {
            record: Fact::Known(Some(used(1))),
            local: Fact::Known(dir(&[], true)),
            etcd: Fact::Known(etcd(state)),
            ..attached(xfs(OURS, Some(stamp(1, 1)), true))
        };
        let plan = plan(&config(), &node, Occasion::Boot).unwrap();
        let start = at(&plan, "start-etcd").unwrap_or_else(|| panic!("{state}: {plan:#?}"));
        assert!(at(&plan, "mount-data").is_some_and(|mount| mount < start), "{state}: {plan:#?}");
        assert_eq!(at(&plan, "await-member"), None, "a boot does not wait for it: {plan:#?}");
    }
}
