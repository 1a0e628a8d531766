//! Checks one plan against the laws. Each law has the number that it has in ARCHITECTURE.md.

use super::*;
use census::Census;

/// Checks what is allowed at boot and by hand, and how etcd is stopped and started.
pub fn occasion_and_etcd(
    census: &mut Census,
    node: &Node,
    plan: &Plan,
    runtime: &Runtime,
    occasion: Occasion,
) {
    let mut fail = |law: u8, what: &str| census.breaks(law, what, node, plan);
    let stops = at(plan, "stop-etcd").is_some();
    let lun_is_authoritative =
        node.record.known().cloned().flatten().is_some_and(|record| record.authority == Authority::Lun);
    let running = node.etcd.known().is_none_or(|etcd| etcd.running);
    let systemd = matches!(runtime, Runtime::Systemd { .. });
    if occasion == Occasion::Boot && stops && (systemd || !lun_is_authoritative) {
        fail(7, "an etcd that serves is not stopped at boot");
    }
    let unit_finds_it = systemd
        && occasion == Occasion::Boot
        && lun_is_authoritative
        && node.etcd.known().is_some_and(|etcd| etcd.lock_holders.is_empty());
    if running && !stops && !unit_finds_it && (at(plan, "mount-data").is_some() || at(plan, "copy").is_some())
    {
        fail(8, "nothing is copied or mounted under a running etcd");
    }
    for step in &plan.steps {
        match step {
            Step::Protocol(ProtocolStep::StopEtcd(StopEtcd { runtime: of, .. })) if of != runtime => {
                fail(7, "etcd is stopped by the runtime of the config")
            }
            Step::Protocol(ProtocolStep::StartEtcd(StartEtcd { runtime: of, .. })) if of != runtime => {
                fail(7, "etcd is started by the runtime of the config")
            }
            Step::Node(NodeStep::Grow(_)) | Step::Node(NodeStep::ResizeMap { .. })
                if occasion == Occasion::Boot =>
            {
                fail(7, "a filesystem grows only by hand")
            }
            Step::Protocol(ProtocolStep::StartEtcd(StartEtcd { wait, .. }))
                if *wait != (occasion == Occasion::ByHand) =>
            {
                fail(7, "apply waits for etcd only by hand");
            }
            Step::Protocol(ProtocolStep::StartEtcd(_))
                if !stops
                    && node.etcd.known().is_some_and(|etcd| etcd.start_queued && !etcd.stopped_by_us) =>
            {
                fail(7, "an etcd whose start is queued is not started again");
            }
            _ => {}
        }
    }
}

/// A session that is lost comes back, whatever has become of the filesystem.
fn makes_a_session(step: &Step) -> bool {
    matches!(
        step,
        Step::Node(NodeStep::SetInitiatorName { .. })
            | Step::Node(NodeStep::LogOut { .. })
            | Step::Node(NodeStep::LogIn(_))
            | Step::Node(NodeStep::AttachLun(_))
            | Step::Node(NodeStep::AwaitDisk { .. })
    )
}

pub fn laws(census: &mut Census, node: &Node, plan: &Plan) {
    let mut fail = |law: u8, what: &str| census.breaks(law, what, node, plan);
    let content = match node.lun.known() {
        Some(LunView::Seen(lun)) => lun.content.known(),
        _ => None,
    };
    let record = node.record.known().cloned().flatten();
    let lun_is_authoritative = record.as_ref().is_some_and(|record| record.authority == Authority::Lun);
    let etcd_runs = node.etcd.known().is_none_or(|etcd| etcd.running);
    let mounted = !matches!(node.mount, Fact::Known(None));
    let shut = node.mount.known().is_some_and(|mount| mount.as_ref().is_some_and(|mount| mount.io_error));
    if at(plan, "unmount-shut-down").is_some() {
        let fenced = node.local.known().is_some_and(LocalDir::is_fenced);
        if !shut || !lun_is_authoritative || !fenced || (etcd_runs && at(plan, "stop-etcd").is_none()) {
            fail(
                8,
                "a filesystem is unmounted only if it has shut down, the directory beneath is fenced, and etcd is stopped",
            );
        }
    } else if shut && !plan.steps.iter().all(makes_a_session) {
        fail(8, "nothing is done on a filesystem that has shut down");
    }

    let grows =
        |step: &Step| matches!(step, Step::Node(NodeStep::Grow(_)) | Step::Node(NodeStep::ResizeMap { .. }));
    if plan.steps.iter().any(grows) {
        let silent = !matches!(node.lun.known(), Some(LunView::Seen(lun)) if !lun.silent);
        if !plan.steps.iter().all(grows) || !mounted || shut || silent || !lun_is_authoritative {
            fail(
                8,
                "only a filesystem of ours that is in use and answers grows, and nothing else is done with it",
            );
        }
    }
    let shrunk = matches!(
        (node.lun.known(), node.mount.known()),
        (Some(LunView::Seen(lun)), Some(Some(mount)))
            if lun.devno == mount.devno && mount.free.is_some_and(|(_, size)| lun.least_size() < size)
    );
    if shrunk && !shut && !plan.steps.is_empty() {
        fail(4, "nothing is done on a LUN that ends before its filesystem");
    }

    for pair in plan.steps.windows(2) {
        // A session may be lost at any moment. That must not keep etcd down.
        match pair {
            [
                Step::Protocol(ProtocolStep::StartEtcd(_)),
                Step::Node(NodeStep::SetTimeout { .. }) | Step::Node(NodeStep::AwaitMember(_)),
            ] => {}
            [Step::Protocol(ProtocolStep::StartEtcd(_)), ..] => {
                fail(7, "etcd is started last, but for the sessions' time-outs and the wait for its member");
            }
            [Step::Node(NodeStep::SetTimeout { .. }), later]
                if !matches!(
                    later,
                    Step::Node(NodeStep::SetTimeout { .. }) | Step::Node(NodeStep::AwaitMember(_))
                ) =>
            {
                fail(7, "nothing that etcd needs comes after the sessions' time-outs");
            }
            _ => {}
        }
    }
    if plan.steps.iter().any(Step::is_destructive)
        && (node.record.known().is_none() || node.local.known().is_none() || node.etcd.known().is_none())
    {
        fail(3, "a destructive step needs known facts");
    }
    if at(plan, "format").is_some() {
        let cleared =
            at(plan, "clear-unfinished") < at(plan, "format") && at(plan, "clear-unfinished").is_some();
        match content {
            Some(Content::Blank) => {}
            Some(Content::Unfinished { uuid: OURS }) if cleared => {}
            _ => fail(4, "only a provably blank LUN is formatted"),
        }
    }
    if lun_is_authoritative {
        for id in
            "begin-record clear-unfinished format unstamp pre-copy catch-up copy stamp commit".split(' ')
        {
            if at(plan, id).is_some() {
                fail(7, "the authoritative copy is never written over");
            }
        }
    }
    if let Some(LunView::Seen(lun)) = node.lun.known() {
        let bad = lun.wwid != Fact::Known(wwid()) && lun_is_authoritative
            || lun.wwid.known().is_none()
            || lun.read_only
            || lun.size.0 < 20 << 30 && !lun_is_authoritative
            || !lun.holders.is_empty()
            || !lun.partitions.is_empty()
            || lun.users != Fact::Known(Vec::new())
            || lun.multipath == Multipath::Claimed
            || lun.paths.len() > 1;
        let touches = ["format", "stage", "clear-unfinished", "copy", "activate", "mount-data"];
        if bad && !mounted && touches.iter().any(|id| at(plan, id).is_some()) {
            fail(4, "a LUN that is wrong, unknown or in use is never touched");
        }
    }
    let order = "begin-record format stage pre-copy preflight catch-up stop-etcd copy prove confirm stamp commit retire fence \
                 mount-data start-etcd await-member";
    if !is_sorted(plan, order) {
        fail(6, "the order of the protocol");
    }
    copies(plan, &["begin-record", "prove", "stamp", "commit", "fence", "mount-data"], etcd_runs, &mut fail);
    let fenced = node.local.known().is_some_and(LocalDir::is_fenced) || at(plan, "fence").is_some();
    if at(plan, "mount-data").is_some() && (!fenced || mounted) {
        fail(8, "a mount needs a fence and a free mount point");
    }
    let on_local = |step: &Step| {
        matches!(step, Step::Protocol(ProtocolStep::StartEtcd(StartEtcd { on: Authority::Local, .. })))
    };
    if plan.steps.iter().any(on_local) {
        if node.rolled_back().is_none() || at(plan, "mount-data").is_some() {
            fail(7, "etcd is started on the local disk only after a rollback");
        }
    } else if at(plan, "start-etcd").is_some() {
        if !mounted && at(plan, "mount-data").is_none() {
            fail(7, "etcd is started on the LUN");
        }
        if !lun_is_authoritative && at(plan, "commit").is_none() {
            fail(7, "etcd is started on the authoritative copy");
        }
    }
    if let Some(Content::Xfs { uuid, .. }) = content
        && record.as_ref().is_none_or(|record| record.uuid != *uuid)
        && ["stage", "unstamp", "copy", "activate", "mount-data"].iter().any(|id| at(plan, id).is_some())
    {
        fail(4, "a foreign filesystem is not even mounted");
    }
    if let Some(Content::Xfs { stamp: Fact::Known(Some(stamp)), .. }) = content
        && stamp.machine_id != MACHINE
        && ["stage", "unstamp", "copy", "activate", "mount-data"].iter().any(|id| at(plan, id).is_some())
    {
        fail(4, "a LUN with the stamp of another node is not even mounted: that node may have it mounted");
    }
}

/// These steps come in this order.
pub fn is_sorted(plan: &Plan, order: &str) -> bool {
    order.split_whitespace().filter_map(|id| at(plan, id)).is_sorted()
}

/// A plan that copies has all of these steps too. Nothing comes between the last try and the stop, and nothing counts too early.
pub fn copies(plan: &Plan, too: &[&str], etcd_runs: bool, fail: &mut impl FnMut(u8, &str)) {
    if at(plan, "copy").is_some() {
        if too.iter().any(|id| at(plan, id).is_none()) {
            fail(6, "a plan that copies goes on to the mount");
        }
        if at(plan, "stop-etcd") != at(plan, "catch-up").map(|caught_up| caught_up + 1)
            || at(plan, "catch-up") != at(plan, "preflight").map(|tried| tried + 1)
        {
            fail(6, "what comes after the stop is tried just before it");
        }
        if etcd_runs && at(plan, "stop-etcd").is_none() {
            fail(7, "the final copy is made with etcd stopped");
        }
    }
    if let Some(what) = counts_too_early(plan) {
        fail(7, what);
    }
}

/// What a plan does too early while containers of etcd's pod may still write, if it does anything.
fn counts_too_early(plan: &Plan) -> Option<&'static str> {
    let (mut may_write, mut unconfirmed) = (false, false);
    for step in &plan.steps {
        match step {
            Step::Protocol(ProtocolStep::StopEtcd(StopEtcd {
                runtime: Runtime::Systemd { .. },
                whole_pod: false,
                ..
            })) => {
                return Some("a unit has no other containers");
            }
            Step::Protocol(ProtocolStep::StopEtcd(StopEtcd { whole_pod, .. })) => may_write = !whole_pod,
            Step::Protocol(ProtocolStep::PreCopy(copy)) if !copy.provisional => {
                return Some("a pre-copy does not count");
            }
            Step::Protocol(ProtocolStep::Copy(copy)) if copy.provisional != may_write => {
                return Some("a copy is provisional while containers may write, and only then");
            }
            Step::Protocol(ProtocolStep::Prove { provisional, .. }) if *provisional != may_write => {
                return Some("a proof is provisional while containers may write, and only then");
            }
            Step::Protocol(ProtocolStep::Prove { provisional, .. }) => unconfirmed = *provisional,
            Step::Protocol(ProtocolStep::AwaitPodEnd { .. }) => may_write = false,
            Step::Protocol(ProtocolStep::Confirm(copy)) if may_write || copy.provisional || !unconfirmed => {
                return Some("a proof is confirmed after the pod's end");
            }
            Step::Protocol(ProtocolStep::Confirm(_)) => unconfirmed = false,
            Step::Protocol(ProtocolStep::CatchUp(_)) if may_write => {
                return Some("the copy is caught up with before the stop");
            }
            Step::Protocol(ProtocolStep::PreCopy(_))
            | Step::Protocol(ProtocolStep::CatchUp(_))
            | Step::Protocol(ProtocolStep::Copy(_)) => {}
            _ if may_write || unconfirmed => return Some("what is not confirmed does not count"),
            _ => {}
        }
    }
    (may_write || unconfirmed).then_some("a proof is confirmed in the same plan")
}
