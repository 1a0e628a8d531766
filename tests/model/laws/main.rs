//! Tests of the safety laws, over every combination of facts, and with an interruption after every step.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod authority;
mod beside;
mod by_law;
mod census;
mod claim;
mod decisions;
mod device;
mod held;
mod judge;
mod machine;
mod mark;
mod multipath;
mod place;
mod portals;
mod quorum;
mod retired;
mod rollback;
mod room;
mod runs;
mod sessions;
mod undo;

use config::{Config, Gate, Runtime};
use machine::World;
use node::{
    Content, DataMount, Etcd, EtcdState, Fact, InForce, LocalDir, Lun, LunView, Multipath, Node, SeenSession,
    Selinux, User,
    authority::{Authority, Record, Stamp},
};
use plan::{
    ClusterRefusal, Goal, NodeStep, Occasion, Plan, ProtocolStep, Refusal, RollbackRefusal, Step,
    has_lost_its_lun, plan,
    step::{StartEtcd, StopEtcd},
};
use support::say;
use support::*;
use terms::{Bytes, Portal};

fn unknown<T>() -> Fact<T> {
    Fact::Unknown("it could not be read".into())
}

fn records() -> Vec<Fact<Option<Record>>> {
    vec![
        Fact::Known(None),
        Fact::Known(Some(record())),
        Fact::Known(Some(record().commit(Some(DATA)))),
        Fact::Known(Some(record().commit(None).used(nth(1)))),
        Fact::Known(Some(used(1))),
        Fact::Known(Some(used(5))),
        Fact::Known(Some(rolled_back(DATA))),
        Fact::Known(Some(of_older_version(&used(1)))),
        Fact::Known(Some(of_older_version(&rolled_back(DATA)))),
        unknown(),
    ]
}

fn stamps() -> Vec<Fact<Option<Stamp>>> {
    vec![
        Fact::Known(None),
        Fact::Known(Some(stamp(1, 0))),
        Fact::Known(Some(stamp(1, 1))),
        Fact::Known(Some(stamp(1, 1).used(clones(2)))),
        Fact::Known(Some(stamp(2, 9))),
        Fact::Known(Some(foreign_stamp(1))),
        unknown(),
    ]
}

fn contents() -> Vec<Fact<Content>> {
    let mut contents = vec![
        Fact::Known(Content::Blank),
        Fact::Known(Content::Unfinished { uuid: OURS }),
        Fact::Known(Content::Unfinished { uuid: FOREIGN }),
        Fact::Known(Content::Foreign { found: "an ext4 filesystem".into() }),
        unknown(),
    ];
    for uuid in [OURS, FOREIGN] {
        for stamp in stamps() {
            for (settled, empty) in [(false, None), (true, Some(false)), (true, Some(true))] {
                let label = "etcd-lun".parse().ok();
                contents.push(Fact::Known(Content::Xfs {
                    uuid,
                    label,
                    size: Bytes(20 << 30),
                    stamp: stamp.clone(),
                    settled,
                    empty,
                }));
            }
        }
    }
    contents
}

/// LUNs that may be used, and one for each reason that forbids it.
fn luns() -> Vec<Lun> {
    let mut luns = Vec::new();
    for content in contents() {
        let good = Lun { content, ..lun(Content::Blank) };
        let user = User { at: "/mnt".into(), pid: 7, command: "sh".into() };
        luns.extend([
            Lun { wwid: Fact::Known(other_wwid()), ..good.clone() },
            Lun { wwid: unknown(), ..good.clone() },
            Lun { read_only: true, ..good.clone() },
            Lun { size: Bytes(1 << 30), ..good.clone() },
            Lun { path_size: Bytes(10 << 30), ..good.clone() },
            Lun { silent: true, ..good.clone() },
            Lun { holders: vec!["dm-3".into()], ..good.clone() },
            Lun { partitions: vec!["sdb1".into()], ..good.clone() },
            Lun { users: Fact::Known(vec![user]), ..good.clone() },
            Lun { users: unknown(), ..good.clone() },
            Lun { multipath: Multipath::Claimed, ..good.clone() },
            Lun { paths: vec!["sdb".into(), "sdc".into()], ..good.clone() },
            good,
        ]);
    }
    luns
}

fn locals() -> Vec<Fact<LocalDir>> {
    let with = |entries: &[&str], print| match dir(entries, false) {
        LocalDir::Present { entries, barred, immutable, with_state, size, .. } => {
            LocalDir::Present { entries, barred, immutable, fingerprint: print, with_state, size }
        }
        LocalDir::Absent => LocalDir::Absent,
    };
    let changed = |immutable, with_state| LocalDir::Present {
        entries: vec!["member".into()],
        barred: false,
        immutable,
        fingerprint: None,
        with_state,
        size: None,
    };
    [
        Fact::Known(LocalDir::Absent),
        Fact::Known(dir(&[], false)),
        Fact::Known(dir(&[], true)),
        Fact::Known(barred(false)),
        Fact::Known(with(&["member"], Some(DATA))),
        Fact::Known(with(&["member"], Some(OTHER_DATA))),
        Fact::Known(with(&["member"], None)),
        Fact::Known(changed(None, true)),
        Fact::Known(changed(Some(false), false)),
        unknown(),
    ]
    .into()
}

fn etcds() -> Vec<Fact<Etcd>> {
    let held = Etcd { lock_holders: vec!["etcd (pid 9)".into()], ..etcd("inactive") };
    let unwanted = Etcd { enabled: false, ..etcd("inactive") };
    let stopped = Etcd { stopped_by_us: true, ..unwanted.clone() };
    [
        etcd("active"),
        etcd("inactive"),
        etcd("failed"),
        held,
        unwanted,
        stopped,
        Etcd { start_queued: true, ..etcd("inactive") },
        Etcd { stopped_by_us: true, ..etcd("active") },
        Etcd { exists: false, ..etcd("inactive") },
    ]
    .into_iter()
    .map(Fact::Known)
    .chain([unknown()])
    .collect()
}

/// Every combination of facts about an attached LUN and an unmounted data directory, and then the other views of the
/// LUN and the other mounts.
fn every_node(mut visit: impl FnMut(&Node)) -> usize {
    let mut count = 0;
    let mut views: Vec<_> = luns().into_iter().map(|lun| Fact::Known(LunView::Seen(Box::new(lun)))).collect();
    views.extend([Fact::Known(LunView::NoSession), Fact::Known(LunView::NotAttached), unknown()]);
    let mut node = attached(Content::Blank);
    for view in views {
        node.lun = view;
        for record in records() {
            node.record = record;
            for local in locals() {
                node.local = local;
                for etcd in etcds() {
                    node.etcd = etcd;
                    count += 1;
                    visit(&node);
                }
            }
        }
        node.local = Fact::Known(dir(&[], true));
        node.etcd = Fact::Known(etcd("inactive"));
        let shut = DataMount { io_error: true, ..data_mount("8:16") };
        let sized =
            |size: u64| DataMount { free: Some((Bytes(1 << 30), Bytes(size << 30))), ..data_mount("8:16") };
        let mounts = [sized(20), sized(10), sized(30), data_mount("8:16"), data_mount("9:99"), shut];
        for mount in mounts.into_iter().map(|mount| Fact::Known(Some(mount))).chain([unknown()]) {
            node.mount = mount;
            for record in records() {
                node.record = record;
                for stamp in stamps() {
                    node.mounted_stamp = stamp;
                    count += 1;
                    visit(&node);
                }
            }
        }
        node.mount = Fact::Known(None);
    }
    count
}

fn at(plan: &Plan, id: &str) -> Option<usize> {
    plan.steps.iter().position(|step| step.id() == id)
}

fn situations() -> impl Iterator<Item = (&'static str, Occasion)> {
    ["systemd", "static-pod"]
        .into_iter()
        .flat_map(|runtime| [Occasion::ByHand, Occasion::Boot].map(|occasion| (runtime, occasion)))
}

/// Follows a goal's plans until nothing is left, or until this number of steps in total. `after` gets the world after
/// each step.
fn follow(
    world: &mut World,
    goal: Goal,
    runtime: &str,
    crash: Option<usize>,
    rounds: usize,
    mut after: impl FnMut(&World, &Step),
) -> Result<usize, Refusal> {
    follow_with(&config_for(runtime), world, goal, crash, rounds, &mut after)
}

fn follow_with(
    config: &Config,
    world: &mut World,
    goal: Goal,
    crash: Option<usize>,
    rounds: usize,
    after: &mut dyn FnMut(&World, &Step),
) -> Result<usize, Refusal> {
    let mut steps = 0;
    for _ in 0..rounds {
        world.ask_cluster();
        let plan = goal.plan(config, &world.node)?;
        if plan.is_empty() {
            return Ok(steps);
        }
        for step in &plan.steps {
            if crash == Some(steps) {
                return Ok(steps);
            }
            world.step(step);
            steps += 1;
            after(world, step);
        }
    }
    panic!("plans without end: {:#?}", goal.plan(config, &world.node));
}

/// The speed is measured on the staged LUN, before etcd is stopped or anything is copied. So a slow LUN causes no
/// downtime of etcd.
#[test]
fn a_lun_is_measured_before_anything_is_stopped() {
    let mut config = support::config();
    for (content, record) in [(Content::Blank, None), (xfs(OURS, None, true), Some(support::record()))] {
        let node = Node { record: Fact::Known(record), ..attached(content) };
        let plan = |config: &Config| Goal::Lun(Occasion::ByHand).plan(config, &node).unwrap();
        config.lun.require_fsync_p99 = None;
        assert!(plan(&config).steps.iter().all(|step| step.id() != "measure"));
        config.lun.require_fsync_p99 = "10ms".parse().ok();
        let ids: Vec<_> = plan(&config).steps.iter().map(Step::id).collect();
        let at = |id: &str| ids.iter().position(|found| *found == id);
        let measured = at("measure").unwrap();
        assert!(at("stage").is_none_or(|staged| staged < measured), "{ids:?}");
        for later in ["pre-copy", "catch-up", "stop-etcd", "copy", "commit"] {
            assert!(at(later).is_some_and(|later| measured < later), "{later}: {ids:?}");
        }
    }
}

/// At boot the kubelet waits for this run. Once the fence keeps etcd down without the LUN, it does not wait for long, unless
/// the config asks for it (`gate = "kubelet"`).
#[test]
fn a_boot_does_not_hold_the_kubelet_back_for_a_target_that_only_etcd_needs() {
    let mut config = support::config();
    let on_lun = used(1);
    let fenced = Node {
        record: Fact::Known(Some(on_lun)),
        local: Fact::Known(dir(&[], true)),
        etcd: Fact::Known(etcd("inactive")),
        ..node()
    };
    let before = Node { etcd: Fact::Known(etcd("inactive")), ..node() };
    for (asked, gate, is_moved, occasion, expected) in [
        ("5min", Gate::Etcd, true, Occasion::Boot, "30s"),
        ("10s", Gate::Etcd, true, Occasion::Boot, "10s"),
        ("5min", Gate::Kubelet, true, Occasion::Boot, "5min"),
        ("5min", Gate::Etcd, true, Occasion::ByHand, "5min"),
        ("5min", Gate::Etcd, false, Occasion::Boot, "5min"),
    ] {
        (config.boot.attach_timeout, config.boot.gate) = (asked.parse().unwrap(), gate);
        let plan = plan(&config, if is_moved { &fenced } else { &before }, occasion).unwrap();
        let limits: Vec<_> = plan
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Node(NodeStep::LogIn(step)) => Some(step.limit),
                Step::Node(NodeStep::AttachLun(step)) => Some(step.limit),
                _ => None,
            })
            .collect();
        let expected = expected.parse().unwrap();
        assert_eq!(limits, [expected, expected], "{asked}, {gate:?}, {is_moved}, {occasion:?}");
    }
}
