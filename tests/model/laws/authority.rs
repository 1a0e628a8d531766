//! Which copy is authoritative: the holes that the order of record and stamp closes. `tests/model/order.rs` has the order itself.

use super::*;
use crate::machine::seen;
use node::BarredData;
use plan::AuthorityRefusal;

/// A node whose record does not say LUN, with local data, and a LUN of this filesystem with this stamp.
fn with(record: Option<Record>, uuid: terms::FsUuid, stamp: Stamp, settled: bool) -> Node {
    let etcd = Fact::Known(Etcd { start_queued: true, ..etcd("inactive") });
    Node { record: Fact::Known(record), etcd, ..attached(xfs(uuid, Some(stamp), settled)) }
}

/// Each is a node whose disk went back in time, or has a clone that uses the LUN. The LUN is not written and not mounted, the
/// local data is barred, and then the run is refused; at boot, and by hand.
#[test]
fn a_lun_that_is_newer_is_never_overwritten_and_the_local_data_is_barred() {
    let migrated_since = rolled_back(DATA);
    for (what, record, uuid, of) in [
        ("attempt 1 failed, attempt 2 served", Some(record()), OURS, stamp(2, 500)),
        ("the attempt itself has served", Some(record()), OURS, stamp(1, 1)),
        ("its rollback is forgotten", Some(record()), OURS, stamp(1, 3).release()),
        ("rolled back, and migrated since", Some(migrated_since), OURS, stamp(3, 7)),
        ("no record", None, OURS, stamp(1, 7)),
        ("no record, and a rollback is forgotten", None, OURS, stamp(1, 7).release()),
        ("no record, of the last release", None, OURS, old_stamp(1, 7)),
        ("another filesystem since", Some(record()), FOREIGN, stamp(2, 7)),
    ] {
        for settled in [true, false] {
            for occasion in [Occasion::ByHand, Occasion::Boot] {
                let node = with(record.clone(), uuid, of.clone(), settled);
                // At boot nothing is moved after a rollback, so the LUN is not even looked at.
                if occasion == Occasion::Boot && node.rolled_back().is_some() {
                    continue;
                }
                let mut world = World::new(node);
                let refusal = follow(&mut world, Goal::Lun(occasion), "systemd", None, 4, |_, step| {
                    assert_eq!(step.id(), "bar", "{what}");
                })
                .unwrap_err();
                assert!(
                    matches!(refusal, Refusal::Authority(AuthorityRefusal::LunNewer { .. })),
                    "{what}: {refusal}"
                );
                assert!(world.node.local.known().unwrap().is_fenced(), "{what}");
                assert_eq!(world.node.barred_data.known().unwrap(), &Some(BarredData { returns_as: None }));
                // So it stays, also at a boot whose target is away.
                let again = plan(&config(), &world.node, Occasion::Boot).unwrap_err();
                assert!(
                    matches!(again, Refusal::Authority(AuthorityRefusal::LunNewer { .. })),
                    "{what}: {again}"
                );
                for goal in [Goal::Claim, Goal::ClaimLocal] {
                    assert!(!goal.plan(&config(), &world.node).unwrap().is_empty(), "{what}");
                }
                world.node.lun = Fact::Known(LunView::NotAttached);
                let later = plan(&config(), &world.node, Occasion::Boot).unwrap();
                assert_eq!(later.steps.iter().map(Step::id).collect::<Vec<_>>(), ["attach-lun"], "{what}");
            }
        }
    }
}

/// In a cluster of two nodes with fencing, nothing moves: pacemaker would start etcd whenever it likes. A node that was moved
/// before goes on, and has a way back.
#[test]
fn an_etcd_of_pacemaker_is_not_moved() {
    let found = "the ConfigMap external-etcd-pod is on this node";
    let of_pacemaker = |node: Node| Node {
        etcd: Fact::Known(Etcd { by_pacemaker: Some(found), ..node.etcd.known().unwrap().clone() }),
        ..node
    };
    for occasion in [Occasion::ByHand, Occasion::Boot] {
        let refusal = plan(&config(), &of_pacemaker(node()), occasion).unwrap_err();
        assert_eq!(refusal, ClusterRefusal::ByPacemaker { found }.into());
        assert!(plan(&config(), &of_pacemaker(migrated()), occasion).unwrap().steps.is_empty());
    }
}

/// An etcd that runs on out-of-date data is not stopped by us, and its directory is not taken away from it.
#[test]
fn nothing_is_barred_under_an_etcd_that_runs() {
    for occasion in [Occasion::ByHand, Occasion::Boot] {
        let node = Node { etcd: Fact::Known(etcd("active")), ..with(None, OURS, stamp(1, 7), false) };
        let refusal = plan(&config(), &node, occasion).unwrap_err();
        match occasion {
            Occasion::ByHand => {
                assert!(refusal.to_string().contains("etcd runs on /var/lib/etcd"), "{refusal}")
            }
            Occasion::Boot => {
                assert!(matches!(refusal, Refusal::Cluster(ClusterRefusal::EtcdServes { .. })), "{refusal}")
            }
        }
    }
}

/// Where barred data is left over, the bar is begun too: it fails, and keeps etcd out by the flag of its database.
#[test]
fn a_bar_is_begun_also_where_it_cannot_end() {
    let node = with(Some(record()), OURS, stamp(2, 500), true);
    let node = Node { barred_data: Fact::Known(Some(BarredData { returns_as: None })), ..node };
    let steps = plan(&config(), &node, Occasion::Boot).unwrap().steps;
    assert_eq!(steps.iter().map(Step::id).collect::<Vec<_>>(), ["bar"]);
}

/// At boot nothing comes before the look at the LUN: whatever else is wrong with the node, etcd must not start on old data.
#[test]
fn at_boot_the_lun_is_looked_at_first() {
    let node = Node { mounted_stamp: unknown(), ..with(None, OURS, stamp(1, 7), false) };
    assert!(plan(&config(), &Node { record: unknown(), ..node.clone() }, Occasion::Boot).is_err());
    let on = |beside: Option<&str>, knows_data_label| {
        Fact::Known(Selinux::On {
            enforcing: true,
            module: InForce::Right,
            knows_data_label,
            context: "system_u:system_r:etcd_lun_t:s0".into(),
            program: None,
            beside: beside.map(Into::into),
            unit: None,
        })
    };
    let var_lib = Some("system_u:object_r:var_lib_t:s0");
    let mut without_wwid = node.clone();
    seen(&mut without_wwid).wwid = unknown();
    for also in [
        without_wwid,
        node.clone(),
        Node { selinux: unknown(), ..node.clone() },
        Node { selinux: on(var_lib, false), ..node.clone() },
        Node { selinux: on(None, true), ..node.clone() },
        Node { claims: unknown(), ..node.clone() },
        Node { missing_tools: vec!["rsync".into()], ..node },
    ] {
        assert_eq!(plan(&config(), &also, Occasion::Boot).unwrap().steps[0].id(), "bar", "{also:#?}");
    }
}

/// By hand too, where the directory keeps etcd out and the record is lost: what the LUN holds says where the data is.
#[test]
fn a_lost_record_leads_to_a_claim() {
    let lost = |stamp| Node { local: Fact::Known(dir(&[], true)), ..with(None, OURS, stamp, false) };
    for (node, says) in [
        (lost(stamp(1, 7)), "newer than this node's record"),
        (lost(stamp(1, 7).owned_by(OTHER_MACHINE.into())), "keeps etcd out"),
        (Node { local: Fact::Known(barred(false)), ..lost(stamp(1, 7)) }, "keeps etcd out"),
    ] {
        let said = plan(&config(), &node, Occasion::ByHand).unwrap_err().to_string();
        assert!(said.contains(says) && said.contains("run `etcd-lun claim`"), "{said}");
    }
    let away =
        Node { lun: Fact::Known(LunView::NoSession), sessions: Fact::Known(vec![]), ..lost(stamp(1, 7)) };
    assert_eq!(plan(&config(), &away, Occasion::ByHand).unwrap().steps[0].id(), "log-in");
}

/// A node that was rolled back looks at its LUN at each boot: its disk may be of a moment before a later migration.
#[test]
fn a_boot_after_a_rollback_looks_at_the_lun() {
    let back =
        |stamp| Node { record: Fact::Known(Some(rolled_back(DATA))), ..with(None, OURS, stamp, false) };
    let of = |node: &Node| plan(&config(), node, Occasion::Boot).unwrap();
    assert_eq!(of(&back(stamp(3, 7))).steps[0].id(), "bar");
    assert!(of(&back(stamp(1, 1))).is_empty());
    let away =
        Node { lun: Fact::Known(LunView::NoSession), sessions: Fact::Known(vec![]), ..back(stamp(3, 7)) };
    for gate in [Gate::Etcd, Gate::Kubelet] {
        let mut config = config();
        config.boot.gate = gate;
        let plan = plan(&config, &away, Occasion::Boot).unwrap();
        let Some(Step::Node(NodeStep::AttachLun(attach))) = plan.steps.last() else { panic!("{plan:#?}") };
        assert_eq!(attach.limit.to_string(), "30s");
    }
    assert!(of(&Node { etcd: Fact::Known(etcd("active")), ..away }).is_empty(), "etcd serves");
}

/// Where no fence stands, a stamp that is newer than a commit that never served bars the local data, and a person may return to it.
#[test]
fn a_newer_lun_bars_what_was_not_retired() {
    let mut node = with(Some(record().commit(Some(DATA))), OURS, stamp(2, 500), false);
    if let LocalDir::Present { fingerprint, .. } = known(&mut node.local) {
        *fingerprint = Some(OTHER_DATA);
    }
    for occasion in [Occasion::ByHand, Occasion::Boot] {
        assert_eq!(plan(&config(), &node, occasion).unwrap().steps[0].id(), "bar");
    }
    node.local = Fact::Known(dir(&[], true));
    node.barred_data = Fact::Known(Some(BarredData { returns_as: None }));
    let said = plan(&config(), &node, Occasion::Boot).unwrap_err().to_string();
    assert!(said.contains("the fence keeps it"), "{said}");
    assert_eq!(Goal::ClaimLocal.plan(&config(), &node).unwrap().steps[1].id(), "keep-local");
}

/// A clone has counted the next use: the node refuses, and stays on the fence.
#[test]
fn a_clone_that_uses_the_lun_is_found() {
    for stamped in [stamp(1, 1).used(clones(2)), stamp(1, 2)] {
        for record in [used(1), used(1).announcing(&stamp(1, 1), nth(3))] {
            for settled in [true, false] {
                let mut node = with(Some(record.clone()), OURS, stamped.clone(), settled);
                node.local = Fact::Known(dir(&[], true));
                for occasion in [Occasion::ByHand, Occasion::Boot] {
                    let refusal = plan(&config(), &node, occasion).unwrap_err();
                    assert!(
                        matches!(refusal, Refusal::Authority(AuthorityRefusal::LunNewer { .. })),
                        "{refusal}"
                    );
                }
            }
        }
    }
}

/// The record says LUN, the LUN never served, and the local disk has other data than what was copied: etcd ran there. The commit
/// is taken back, and the node migrates again. A LUN that has served is another history.
#[test]
fn a_commit_that_never_served_is_taken_back() {
    let local = match dir(&["member"], false) {
        LocalDir::Present { entries, barred, immutable, with_state, size, .. } => {
            LocalDir::Present { entries, barred, immutable, fingerprint: Some(OTHER_DATA), with_state, size }
        }
        LocalDir::Absent => LocalDir::Absent,
    };
    let committed = record().commit(Some(DATA));
    for occasion in [Occasion::ByHand, Occasion::Boot] {
        let mut node = with(Some(committed.clone()), OURS, stamp(1, 0), false);
        node.local = Fact::Known(local.clone());
        let mut world = World::new(node.clone());
        let mut done = Vec::new();
        follow(&mut world, Goal::Lun(occasion), "systemd", None, 8, |_, step| done.push(step.id())).unwrap();
        assert_eq!(done[..3], ["stage", "take-back", "unstamp"], "{done:?}");
        let record = known(&mut world.node.record).clone().unwrap();
        assert_eq!((record.authority, record.generation, record.activations), (Authority::Lun, 2, 1));
        assert!(world.lun_is_copy);
        seen(&mut node).content = Fact::Known(xfs(OURS, Some(stamp(1, 1)), true));
        for record in [used(1), committed.clone().announcing(&stamp(1, 0), nth(1))] {
            node.record = Fact::Known(Some(record));
            let refusal = plan(&config(), &node, occasion).unwrap_err();
            assert!(matches!(refusal, Refusal::TwoHistories { .. }), "{refusal}");
        }
    }
}

/// No advice clears a LUN that may hold the only copy of this node's data, or that another node may be filling right now. A LUN of
/// another machine with this machine id bars nothing.
#[test]
fn what_may_be_needed_is_not_advised_to_be_cleared() {
    let named = |name: &str, id: &str| {
        let mut stamp = stamp(1, 7).owned_by(id.into());
        stamp.node = name.into();
        stamp
    };
    let label = |text: &str| Some(text.parse().unwrap());
    let unstamped = |with| {
        let mut content = xfs(FOREIGN, None, true);
        if let Content::Xfs { label, .. } = &mut content {
            *label = with;
        }
        content
    };
    for (content, may_clear) in [
        (xfs(FOREIGN, Some(named("master-9", MACHINE)), true), false),
        (xfs(FOREIGN, Some(named("master-0", OTHER_MACHINE)), true), false),
        (xfs(FOREIGN, Some(stamp(1, 0)), true), false),
        (xfs(FOREIGN, Some(named("master-9", OTHER_MACHINE)), true), true),
        (unstamped(label("etcd-lun")), false),
        (unstamped(label("data")), true),
        (Content::Unfinished { uuid: FOREIGN }, false),
    ] {
        let node = Node { etcd: Fact::Known(etcd("inactive")), ..attached(content) };
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let said = plan(&config(), &node, occasion).unwrap_err().to_string();
            assert_eq!(said.contains("clear the whole LUN"), may_clear, "{said}");
        }
    }
}
