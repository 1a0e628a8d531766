//! The safety laws, over every combination of facts, and over every place to be cut short.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[allow(dead_code, reason = "each test takes what it needs")]
#[path = "../support/mod.rs"]
mod support;

mod decisions;
mod device;
mod mark;
mod retired;
mod rollback;
mod runs;
#[path = "../support/say.rs"]
mod say;
mod world;

use etcd_lun::{
    config::{Config, Runtime},
    node::{
        Content, DataMount, Etcd, Fact, InForce, LocalDir, Lun, LunView, MountUnit, Multipath, Node, Selinux,
        Session, User,
        authority::{Authority, Record, Stamp},
    },
    plan::{Goal, Horizon, Occasion, Plan, Refusal, Step, plan},
    terms::Bytes,
};
use say::say;
use support::*;
use world::World;

fn unknown<T>() -> Fact<T> {
    Fact::Unknown("it could not be read".into())
}

fn records() -> Vec<Fact<Option<Record>>> {
    let committed = record().commit(Some(DATA));
    vec![
        Fact::Known(None),
        Fact::Known(Some(record())),
        Fact::Known(Some(committed.clone())),
        Fact::Known(Some(record().commit(None))),
        Fact::Known(Some(committed.activated(5))),
        Fact::Known(Some(rolled_back(DATA))),
        unknown(),
    ]
}

fn stamps() -> Vec<Fact<Option<Stamp>>> {
    let foreign = Stamp::new(1, OTHER_MACHINE.into(), "master-1".into(), 1);
    vec![
        Fact::Known(None),
        Fact::Known(Some(stamp(1, 1))),
        Fact::Known(Some(stamp(2, 9))),
        Fact::Known(Some(foreign)),
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
                    stamp: stamp.clone(),
                    settled,
                    empty,
                }));
            }
        }
    }
    contents
}

/// Each a LUN that must not be touched, or one that may.
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
            Lun { holders: vec!["dm-3".into()], ..good.clone() },
            Lun { partitions: vec!["sdb1".into()], ..good.clone() },
            Lun { users: Fact::Known(vec![user]), ..good.clone() },
            Lun { users: unknown(), ..good.clone() },
            Lun { same_label: Fact::Known(vec!["sdz".into()]), ..good.clone() },
            Lun { same_label: unknown(), ..good.clone() },
            Lun { multipath: Multipath::Claimed, ..good.clone() },
            Lun { paths: vec!["sdb".into(), "sdc".into()], ..good.clone() },
            good,
        ]);
    }
    luns
}

fn locals() -> Vec<Fact<LocalDir>> {
    let with = |entries: &[&str], print| match dir(entries, false) {
        LocalDir::Present { entries, immutable, with_state, size, .. } => {
            LocalDir::Present { entries, immutable, fingerprint: print, with_state, size }
        }
        LocalDir::Absent => LocalDir::Absent,
    };
    let changed = |immutable, with_state| LocalDir::Present {
        entries: vec!["member".into()],
        immutable,
        fingerprint: None,
        with_state,
        size: None,
    };
    [
        Fact::Known(LocalDir::Absent),
        Fact::Known(dir(&[], false)),
        Fact::Known(dir(&[], true)),
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

/// Every combination of facts about an attached LUN and an unmounted data directory, and the
/// other views and mounts beside them.
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
                    for unit in [Fact::Known(MountUnit::Right), Fact::Known(MountUnit::Absent), unknown()] {
                        node.mount_unit = unit;
                        count += 1;
                        visit(&node);
                    }
                }
            }
        }
        node.mount_unit = Fact::Known(MountUnit::Right);
        node.local = Fact::Known(dir(&[], true));
        node.etcd = Fact::Known(etcd("inactive"));
        let shut = DataMount { io_error: true, ..data_mount("8:16") };
        for mount in [
            Fact::Known(Some(data_mount("8:16"))),
            Fact::Known(Some(data_mount("9:99"))),
            Fact::Known(Some(shut)),
            unknown(),
        ] {
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

#[test]
fn laws_hold_for_every_combination_of_facts() {
    for (runtime, occasion) in situations() {
        let config = config_for(runtime);
        let (mut plans, mut refusals) = (0, 0);
        let count = every_node(|node| match plan(&config, node, occasion) {
            Ok(plan) => {
                plans += 1;
                laws(node, &plan);
                manners(node, &plan, &config.etcd.runtime, occasion);
            }
            Err(refusal) => {
                refusals += 1;
                assert!(refusal.to_string().len() > 20, "{refusal:?}");
            }
        });
        say!("{runtime}, {occasion:?}: {count} combinations of facts, {plans} plans, {refusals} refusals");
        assert!(count > 100_000 && plans > 100 && refusals > 100);
    }
}

fn situations() -> impl Iterator<Item = (&'static str, Occasion)> {
    ["systemd", "static-pod"]
        .into_iter()
        .flat_map(|runtime| [Occasion::ByHand, Occasion::Boot].map(|occasion| (runtime, occasion)))
}

/// What the occasion allows, and how etcd is stopped and started.
fn manners(node: &Node, plan: &Plan, runtime: &Runtime, occasion: Occasion) {
    let fail = |law: &str| panic!("{law}\nplan: {plan:#?}\nnode: {node:#?}");
    let stops = at(plan, "stop-etcd").is_some();
    let truth_is_lun =
        node.record.known().cloned().flatten().is_some_and(|record| record.authority == Authority::Lun);
    let running = node.etcd.known().is_none_or(|etcd| etcd.running);
    let systemd = matches!(runtime, Runtime::Systemd { .. });
    if occasion == Occasion::Boot && stops && (systemd || !truth_is_lun) {
        fail("at boot no etcd is stopped that serves");
    }
    let unit_finds_it = systemd
        && occasion == Occasion::Boot
        && truth_is_lun
        && node.etcd.known().is_some_and(|etcd| etcd.lock_holders.is_empty());
    if running && !stops && !unit_finds_it && (at(plan, "mount-data").is_some() || at(plan, "copy").is_some())
    {
        fail("nothing is copied or mounted under a running etcd");
    }
    for step in &plan.steps {
        match step {
            Step::StopEtcd { runtime: of } if of != runtime => fail("etcd is stopped as it is run"),
            Step::StartEtcd { runtime: of, .. } if of != runtime => fail("etcd is started as it is run"),
            Step::StartEtcd { wait, .. } if *wait != (occasion == Occasion::ByHand) => {
                fail("only a person waits for etcd");
            }
            Step::StartEtcd { .. }
                if !stops
                    && node.etcd.known().is_some_and(|etcd| etcd.start_queued && !etcd.stopped_by_us) =>
            {
                fail("what starts by itself is not started");
            }
            _ => {}
        }
    }
}

fn laws(node: &Node, plan: &Plan) {
    let fail = |law: &str| panic!("{law}\nplan: {plan:#?}\nnode: {node:#?}");
    let content = match node.lun.known() {
        Some(LunView::Seen(lun)) => lun.content.known(),
        _ => None,
    };
    let record = node.record.known().cloned().flatten();
    let truth_is_lun = record.as_ref().is_some_and(|record| record.authority == Authority::Lun);
    let etcd_runs = node.etcd.known().is_none_or(|etcd| etcd.running);
    let mounted = !matches!(node.mount, Fact::Known(None));
    let shut = node.mount.known().is_some_and(|mount| mount.as_ref().is_some_and(|mount| mount.io_error));
    if at(plan, "unmount-shut-down").is_some() {
        let fenced = node.local.known().is_some_and(LocalDir::is_fenced);
        if !shut || !truth_is_lun || !fenced || (etcd_runs && at(plan, "stop-etcd").is_none()) {
            fail("only what has shut down is unmounted, with the fence up and etcd stopped");
        }
    } else if shut && !plan.steps.is_empty() {
        fail("nothing is done on a filesystem that has shut down");
    }

    for pair in plan.steps.windows(2) {
        if matches!(pair, [Step::StartEtcd { .. }, ..]) {
            fail("etcd is started last");
        }
    }
    if plan.steps.iter().any(Step::is_destructive)
        && (node.record.known().is_none() || node.local.known().is_none() || node.etcd.known().is_none())
    {
        fail("a destructive step needs known facts");
    }
    if at(plan, "format").is_some() {
        let cleared =
            at(plan, "clear-unfinished") < at(plan, "format") && at(plan, "clear-unfinished").is_some();
        match content {
            Some(Content::Blank) => {}
            Some(Content::Unfinished { uuid: OURS }) if cleared => {}
            _ => fail("only what is provably blank is formatted"),
        }
    }
    if truth_is_lun {
        for id in
            ["begin-record", "clear-unfinished", "format", "unstamp", "pre-copy", "copy", "stamp", "commit"]
        {
            if at(plan, id).is_some() {
                fail("the truth is never written over");
            }
        }
    }
    if let Some(LunView::Seen(lun)) = node.lun.known() {
        let bad = lun.wwid != Fact::Known(wwid()) && truth_is_lun
            || lun.wwid.known().is_none()
            || lun.read_only
            || lun.size.0 < 8 << 30
            || !lun.holders.is_empty()
            || !lun.partitions.is_empty()
            || lun.users != Fact::Known(Vec::new())
            || lun.multipath == Multipath::Claimed
            || lun.paths.len() > 1;
        let touches = ["format", "stage", "clear-unfinished", "copy", "activate", "mount-data"];
        if bad && !mounted && touches.iter().any(|id| at(plan, id).is_some()) {
            fail("a LUN that is wrong, unknown or in use is never touched");
        }
    }
    let order = [
        "begin-record",
        "format",
        "stage",
        "pre-copy",
        "stop-etcd",
        "copy",
        "prove",
        "stamp",
        "commit",
        "retire",
        "fence",
        "mount-data",
        "start-etcd",
    ];
    let places: Vec<_> = order.iter().filter_map(|id| at(plan, id)).collect();
    if !places.is_sorted() {
        fail("the order of the protocol");
    }
    if at(plan, "copy").is_some() {
        for id in ["begin-record", "prove", "stamp", "commit", "fence", "mount-data"] {
            if at(plan, id).is_none() {
                fail("a copy goes all the way");
            }
        }
        if etcd_runs && at(plan, "stop-etcd").is_none() {
            fail("the copy that counts is made with etcd stopped");
        }
    }
    let fenced = node.local.known().is_some_and(LocalDir::is_fenced) || at(plan, "fence").is_some();
    if at(plan, "mount-data").is_some() && (!fenced || mounted) {
        fail("a mount needs a fence and a free mount point");
    }
    let on_local = |step: &Step| matches!(step, Step::StartEtcd { on: Authority::Local, .. });
    if plan.steps.iter().any(on_local) {
        if node.rolled_back().is_none() || at(plan, "mount-data").is_some() {
            fail("etcd is started on the local disk only after a rollback");
        }
    } else if at(plan, "start-etcd").is_some() {
        if !mounted && at(plan, "mount-data").is_none() {
            fail("etcd is started on the LUN");
        }
        if !truth_is_lun && at(plan, "commit").is_none() {
            fail("etcd is started on the truth");
        }
    }
    if let Some(Content::Xfs { uuid, .. }) = content
        && record.as_ref().is_none_or(|record| record.uuid != *uuid)
        && ["stage", "unstamp", "copy", "activate", "mount-data"].iter().any(|id| at(plan, id).is_some())
    {
        fail("a foreign filesystem is not even mounted");
    }
    if let Some(Content::Xfs { stamp: Fact::Known(Some(stamp)), .. }) = content
        && stamp.machine_id != MACHINE
        && ["stage", "unstamp", "copy", "activate", "mount-data"].iter().any(|id| at(plan, id).is_some())
    {
        fail("what another node has stamped is not even mounted: that node may have it mounted");
    }
}

/// Follows a goal's plans until nothing is left, or until so many steps were taken in all; `after` sees the world after
/// each step.
fn follow(
    world: &mut World,
    goal: Goal,
    runtime: &str,
    crash: Option<usize>,
    rounds: usize,
    mut after: impl FnMut(&World, &Step),
) -> Result<usize, Refusal> {
    let config = config_for(runtime);
    let mut steps = 0;
    for _ in 0..rounds {
        let plan = goal.plan(&config, &world.node)?;
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
    panic!("plans without end: {:#?}", goal.plan(&config, &world.node));
}

/// Measured on the staged LUN, and before etcd is stopped or anything copied: a slow LUN costs nobody a second of etcd.
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
        for later in ["pre-copy", "stop-etcd", "copy", "commit"] {
            assert!(at(later).is_some_and(|later| measured < later), "{later}: {ids:?}");
        }
    }
}
