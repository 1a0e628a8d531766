//! Writes plan and status for a person.

use super::page::Page;
use config::{Config, Iscsi, Runtime};
use node::{
    Content, Etcd, Fact, InForce, LocalDir, LunView, Node, Retired, SeenSession, Selinux,
    authority::{Authority, Record, Stamp},
    layout::{RETIRED, RETURNING},
};
use plan::{Goal, Horizon, Occasion, Plan};
use std::fmt::Write as _;
use terms::Bytes;

/// The mount namespace. It is left out if this process was started in PID 1's.
fn namespace(page: &mut Page, node: &Node) {
    let joined = node.identity.joined_host_namespace;
    match &node.in_host_namespace {
        Fact::Known(true) if !joined => {}
        fact => page.fact("namespace", fact, |is_host| {
            let said = if *is_host {
                "this process joined PID 1's mount namespace"
            } else {
                "this process is NOT in PID 1's mount namespace: mounts shown here may differ from those of the host"
            };
            said.into()
        }),
    }
}

/// An empty plan of `claim`.
pub(super) const NOTHING_TO_CLAIM: &str =
    "Nothing to claim: the LUN's stamp names this node. See `etcd-lun plan` for what `apply` would do.";

/// An empty plan; on a node that may have been rolled back, or that is not to be migrated yet.
pub(super) fn nothing_to_do(rolled_back: Option<u64>, held: bool) -> String {
    match rolled_back {
        Some(generation) => format!(
            "Nothing to do: etcd was rolled back to the local disk on purpose (generation {generation}), and stays there until somebody runs `etcd-lun apply`."
        ),
        None if held => {
            "Nothing to do: etcd stays on the local disk, because this node's entry has `migrate = false`."
                .into()
        }
        None => "Nothing to do: the node is what the config asks for.".into(),
    }
}

/// `plan`, of a node with this config.
pub(super) fn plan(plan: &Plan, config: &Config, node: &Node, goal: Goal) -> String {
    let mut text = String::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let _ = writeln!(text, "{:>3}. {step}", at + 1);
    }
    if let Some(horizon) = plan.horizon {
        let _ = writeln!(text, "     … {horizon}");
        if goal == Goal::Lun(Occasion::ByHand) && horizon == Horizon::Lun {
            text.push_str(&outline(config, node));
        }
    }
    if let Some(cluster) = &plan.cluster {
        let _ = writeln!(text, "cluster: {cluster}");
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// What is done once the LUN is seen: for somebody who decides whether to begin a migration, or whose etcd is down.
fn outline(config: &Config, node: &Node) -> String {
    if let Some(Some(record)) = node.record.known()
        && record.authority == Authority::Lun
    {
        return format!(
            "     … if it holds etcd's data of generation {}, use {}: mount it, and start etcd; anything else is refused, and nothing is formatted\n",
            record.generation, record.activations
        );
    }
    let Some(LocalDir::Present { size, with_state: true, .. }) = node.local.known() else {
        return String::new();
    };
    let data = size.map_or("etcd's data".into(), |size| format!("{size} of etcd's data"));
    // A container that does not end when it is asked takes its grace period, and the data is copied and proved meanwhile
    // (docs/guide.md). The proof reads what is on the LUN.
    let pause = match config.etcd.runtime {
        Runtime::StaticPod { .. } => "as long as its pod takes to end and to start, at most about a minute",
        Runtime::Systemd { .. } => "as long as a restart takes, and the time to read its data once",
    };
    format!(
        "     … if it is blank and the right one: make an XFS; copy {data} while etcd runs;\n       \
         stop etcd for {pause};\n       \
         copy what has changed and prove the copy; mount the LUN; start etcd from it\n"
    )
}

fn authority(record: &Record) -> String {
    let Record { authority, generation, activations, .. } = record;
    if record.rolled_back {
        return format!(
            "{authority}, generation {generation}: rolled back on purpose; only `etcd-lun apply` by hand moves the data again"
        );
    }
    format!("{authority}, generation {generation}, use {activations}")
}

/// `status` while the config cannot be used: what this node knows without it.
pub(super) fn status_without_config(record: &Fact<Option<Record>>, last_run: &str) -> String {
    let mut page = Page::default();
    page.line("last run", last_run);
    let absent = "no record here: not migrated, or the record is lost";
    page.fact("authority", record, |record| record.as_ref().map_or(absent.into(), authority));
    if let Some(Some(record)) = record.known() {
        page.line("LUN", format!("{}, XFS {}", record.wwid, record.uuid));
    }
    page.0
}

fn without_record(is_held: bool, is_fenced: bool) -> &'static str {
    match (is_fenced, is_held) {
        (true, _) => "no record, and the fence says that this node was migrated: see the last run's refusal",
        (false, true) => "local disk: not migrated, because its entry has `migrate = false`",
        (false, false) => "local disk: not migrated",
    }
}

fn room((free, all): (Bytes, Bytes)) -> String {
    let full = if free < NEXT_LOG { " (FULL: etcd cannot start)" } else { "" };
    format!(", {free} of {all} free{full}")
}

/// The next file of etcd's log, which it allocates as a whole (etcd `server/storage/wal/wal.go`, `SegmentSizeBytes`).
const NEXT_LOG: Bytes = Bytes(64_000_000);

/// `status`
pub(super) fn status(config: &Config, node: &Node, last_run: &str, at_work: bool) -> String {
    let mut page = Page::default();
    page.line("node", format!("{} ({})", node.identity.hostname, node.identity.machine_id));
    namespace(&mut page, node);
    page.line("last run", last_run);
    page.line("MISSING", node.missing_tools.join("\n"));
    let held = plan::is_held(config, node);
    page.fact("authority", &node.record, |record| match record {
        Some(record) if held => format!("{}; its entry has `migrate = false`", authority(record)),
        Some(record) => authority(record),
        None => without_record(held, node.local.known().is_some_and(LocalDir::is_fenced)).into(),
    });
    page.fact("etcd", &node.etcd, |found| etcd(found, node.rolled_back().is_some(), at_work));
    if let Some(cluster) = &node.cluster {
        page.fact("cluster", cluster, ToString::to_string);
    }
    page.fact("mount", &node.mount, |mount| match mount {
        None => format!("nothing on {}", config.etcd.data_dir),
        Some(mount) => {
            let free = mount.free.map(room).unwrap_or_default();
            format!("{} on {} ({}){free}", mount.source, config.etcd.data_dir, mount.options.join(","))
        }
    });
    if node.mount.known().is_some_and(Option::is_some) {
        page.fact("stamp", &node.mounted_stamp, stamp);
    }
    page.fact("beneath", &node.local, local);
    page.fact("retired", &node.retired, |all| retired(all));
    if let Some((copy, generation)) =
        node.rollback_staging.known().and_then(|staging| staging.copy.as_ref()).zip(node.returning())
    {
        let what = match at_work {
            true => "a rollback is under way",
            false => "a rollback was cut short; run `etcd-lun rollback` to continue it",
        };
        page.line("staged", format!("{RETURNING}/{generation}, {}: {what}", copy.size));
    }
    if let Some(Iscsi { target, initiator, .. }) = config.backing.iscsi() {
        page.fact("initiator", &node.initiator.name, |name| {
            let own = name.as_deref().unwrap_or("not set");
            format!("{initiator} at this target; the node's own name is {own}")
        });
        page.fact("sessions", &node.sessions, |sessions| {
            let ours = sessions.iter().filter(|session| session.is_of(&target.iqn));
            let lines: Vec<_> = ours.map(session).collect();
            if lines.is_empty() { format!("none to {}", target.iqn) } else { lines.join("\n") }
        });
    }
    page.fact("LUN", &node.lun, |view| lun(config, view));
    page.fact("SELinux", &node.selinux, selinux);
    page.0
}

/// Retired data, for `status` and `retired list`.
pub(super) fn retired(all: &[Retired]) -> String {
    let line = |one: &Retired| {
        let days = one.age.0.as_secs() / 86_400;
        let ours = if one.ours { "" } else { ", without etcd-lun's mark" };
        format!("{RETIRED}/{}: {}, {days} days old{ours}", one.name, one.size)
    };
    if all.is_empty() { "none".into() } else { all.iter().map(line).collect::<Vec<_>>().join("\n") }
}

/// SELinux, for `status` and `selinux status`.
pub(super) fn selinux(found: &Selinux) -> String {
    let Selinux::On { enforcing, module, context, program, unit, .. } = found else {
        return "off in this kernel".into();
    };
    let mode = if *enforcing { "enforcing" } else { "PERMISSIVE: SELinux denies nothing" };
    let module = match module {
        InForce::Right => "the module is in force",
        InForce::Other => "the module is of another version or config: run `etcd-lun selinux install`",
        InForce::Absent => "the module is not installed: run `etcd-lun selinux install`",
    };
    let unit = unit.as_ref().map(|unit| format!(" of {unit}")).unwrap_or_default();
    let program = program.as_deref().unwrap_or("without a label");
    format!("{mode}; {module}\nthis process{unit} is {context}, its program {program}")
}

fn session(session: &SeenSession) -> String {
    format!("session {}: {} at {}", session.sid, session.state, session.at())
}

fn etcd(etcd: &Etcd, rolled_back: bool, at_work: bool) -> String {
    if !etcd.exists {
        return format!("systemd does not know the unit {}", etcd.name);
    }
    let boot = if etcd.enabled { "starts at boot" } else { "does not start at boot" };
    let ours = match (etcd.stopped_by_us, rolled_back) {
        (false, _) => "",
        (true, _) if at_work => ", stopped by the run that is under way",
        (true, false) => ", stopped by etcd-lun: run `etcd-lun apply` to start it",
        (true, true) => ", stopped by etcd-lun: run `etcd-lun rollback` to start it",
    };
    format!("{} is {}, {boot}{ours}", etcd.name, etcd.state)
}

fn stamp(stamp: &Option<Stamp>) -> String {
    match stamp {
        None => "none".into(),
        Some(stamp) => format!("{}, generation {}, use {}", stamp.node, stamp.generation, stamp.activations),
    }
}

fn local(local: &LocalDir) -> String {
    match local {
        LocalDir::Absent => "no such directory".into(),
        LocalDir::Present { .. } if local.is_fenced() => "no data, immutable: the fence is in place".into(),
        LocalDir::Present { entries, immutable, .. } => {
            let flag = match immutable {
                Some(true) => "immutable",
                Some(false) => "writable",
                None => "on a filesystem without the immutable flag",
            };
            let what = if entries.is_empty() { "empty".into() } else { entries.join(", ") };
            format!("{what}; {flag}")
        }
    }
}

fn lun(config: &Config, view: &LunView) -> String {
    let lun = match view {
        LunView::NoSession => return "not visible: no session".into(),
        LunView::NotAttached => return format!("{} is not attached", config.backing.place()),
        LunView::Seen(lun) => lun,
    };
    let content = match &lun.content {
        Fact::Unknown(why) => format!("content unknown: {why}"),
        Fact::Known(Content::Blank) => "blank".into(),
        Fact::Known(Content::Unfinished { uuid }) => format!("an unfinished XFS, UUID {uuid}"),
        Fact::Known(Content::Foreign { found }) => format!("holds {found}"),
        Fact::Known(Content::Xfs { uuid, label, .. }) => {
            let label = label.as_ref().map_or("no label".into(), |label| format!("label {label}"));
            format!("XFS, {label}, UUID {uuid}")
        }
    };
    let paths = if lun.paths.len() > 1 || lun.device != *lun.paths.first().unwrap_or(&lun.device) {
        format!(" over {}", lun.paths.join(", "))
    } else {
        String::new()
    };
    let read_only = if lun.read_only { ", READ-ONLY" } else { "" };
    format!("{}{paths}, {}, {}{read_only}\n{content}", lun.device, lun.wwid, lun.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_record_and_a_full_lun_show() {
        assert!(without_record(false, true).contains("was migrated"));
        assert!(without_record(true, true).contains("was migrated"));
        assert!(without_record(false, false).ends_with("not migrated"));
        assert!(room((Bytes(1 << 20), Bytes(1 << 30))).ends_with("(FULL: etcd cannot start)"));
        assert!(room((Bytes(64 << 20), Bytes(1 << 30))).ends_with("free"));
    }

    /// `apply` beside a run that has stopped etcd would only follow that run, and beside a `rollback` do nothing.
    #[test]
    fn an_etcd_that_a_run_has_stopped_needs_no_cure() {
        let stopped = Etcd {
            name: "etcd.service".into(),
            exists: true,
            state: node::EtcdState::Unit("inactive".into()),
            running: false,
            enabled: true,
            start_queued: false,
            stopped_by_us: true,
            by_pacemaker: None,
            lock_holders: Vec::new(),
            other_place: Fact::Known(None),
        };
        for (rolled_back, at_work, cure) in [
            (false, false, "run `etcd-lun apply` to start it"),
            (true, false, "run `etcd-lun rollback` to start it"),
            (false, true, "stopped by the run that is under way"),
            (true, true, "stopped by the run that is under way"),
        ] {
            assert!(etcd(&stopped, rolled_back, at_work).ends_with(cure), "{cure}");
        }
    }
}
