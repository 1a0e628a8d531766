//! Writes config, plan and status for a person.

use crate::{
    config::{
        Backing, Certificates, ClusterConfig, Config, Discovery, Gate, Iscsi, Runtime, SecretSource, Target,
    },
    node::{
        Content, Etcd, Fact, InForce, LocalDir, LunView, MountUnit, Node, Retired, Selinux, Session,
        authority::Stamp,
        layout::{RETIRED, RETURNING},
    },
    plan::Plan,
    terms::{AbsPath, ChapAlg},
};
use std::fmt::Write as _;

/// Lines of a label and a text, with aligned texts.
#[derive(Debug, Default)]
struct Page(String);

const LABEL_WIDTH: usize = 16;

impl Page {
    fn line(&mut self, label: &str, text: impl AsRef<str>) {
        for (at, part) in text.as_ref().lines().enumerate() {
            let label = if at == 0 { label } else { "" };
            let _ = writeln!(self.0, "{label:<LABEL_WIDTH$}{part}");
        }
    }

    fn fact<T>(&mut self, label: &str, fact: &Fact<T>, show: impl FnOnce(&T) -> String) {
        match fact {
            Fact::Known(value) => self.line(label, show(value)),
            Fact::Unknown(why) => self.line(label, format!("unknown: {why}")),
        }
    }

    /// The mount namespace. It is left out if this process was started in PID 1's.
    fn namespace(&mut self, node: &Node) {
        let joined = node.identity.joined_host_namespace;
        match &node.in_host_namespace {
            Fact::Known(true) if !joined => {}
            fact => self.fact("namespace", fact, |is_host| {
                let said = if *is_host {
                    "this process joined PID 1's mount namespace"
                } else {
                    "this process is NOT in PID 1's mount namespace: mounts shown here may differ from those of the host"
                };
                said.into()
            }),
        }
    }
}

/// `config check`
pub(super) fn config(config: &Config, whose: &str) -> String {
    let mut page = Page::default();
    page.line("host", whose);
    page.line("node entry", &config.node.chosen_by);
    let wwid = config.node.wwid.as_ref().map_or("any WWID".into(), ToString::to_string);
    let least = format!("{wwid}, at least {}", config.lun.min_size);
    match &config.backing {
        Backing::Iscsi(iscsi) => {
            page.line("initiator", iscsi.initiator.as_str());
            page.line("LUN", format!("number {}, {least}", iscsi.lun));
            target(&mut page, &iscsi.target);
        }
        Backing::Device(device) => {
            page.line("device", device.path.to_string());
            page.line("LUN", format!("this disk, {least}"));
        }
    }
    let runtime = match &config.etcd.runtime {
        Runtime::Systemd { unit } => unit.clone(),
        Runtime::StaticPod { manifest } => format!("static pod of {manifest}"),
    };
    page.line("etcd", format!("{runtime}, data in {}", config.etcd.data_dir));
    page.line("mount options", config.lun.unit_options(config.backing.iscsi().is_some()).join(","));
    page.line(
        "gate",
        match config.boot.gate {
            Gate::Etcd => "etcd: without the LUN etcd stays down, the kubelet starts",
            Gate::Kubelet => "kubelet: without the LUN CRI-O and the kubelet stay down",
        },
    );
    page.line("attach timeout", config.boot.attach_timeout.to_string());
    if let Some(limit) = config.lun.require_fsync_p99 {
        page.line("required speed", format!("99 of 100 fdatasync calls within {limit}"));
    }
    page.line(
        "etcd's metrics",
        config.etcd.metrics.as_ref().map_or("not configured".into(), ToString::to_string),
    );
    cluster(&mut page, &config.cluster);
    page.line(
        "health",
        format!(
            "every {}, metrics written to {} if its directory exists",
            config.health.interval, config.health.textfile
        ),
    );
    page.0
}

fn cluster(page: &mut Page, cluster: &ClusterConfig) {
    let port = cluster.http_port.map(|port| format!(", HTTP at port {port}")).unwrap_or_default();
    page.line("cluster", format!("asked at {}{port}", cluster.client_url));
    if cluster.client_url.is_tls() {
        let Certificates { authority, certificate, key } = &cluster.certificates;
        let own = |path: &Option<AbsPath>| path.as_ref().map_or("by default".into(), ToString::to_string);
        page.line("", format!("CA {}, certificate {}, key {}", own(authority), own(certificate), own(key)));
    }
    let quorum = if cluster.without_quorum {
        "WITHOUT A QUORUM: by hand etcd is stopped whatever the other members do (`cluster.without_quorum`)"
            .into()
    } else {
        format!(
            "by hand etcd is stopped only while the others are a quorum, and must serve again within {}",
            cluster.serve_timeout
        )
    };
    page.line("", quorum);
}

fn target(page: &mut Page, target: &Target) {
    page.line("target", target.iqn.as_str());
    page.line("portals", target.portals.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    let discovery = match target.discovery {
        Discovery::SendTargets => "sendtargets",
        Discovery::Static => "static",
    };
    page.line("discovery", discovery);
    let timeouts = &target.timeouts;
    let [one, many] = [false, true].map(|multipath| timeouts.in_use(multipath));
    let both = if one == many { one.to_string() } else { format!("{one}, {many} under multipath") };
    page.line("writes wait for", both);
    page.line(
        "pings",
        format!("every {}, answered within {}", timeouts.noop_interval, timeouts.noop_timeout),
    );
    for (label, chap) in [("CHAP", &target.chap), ("discovery CHAP", &target.discovery_chap)] {
        page.line(
            label,
            match chap {
                None => "none".into(),
                Some(chap) => {
                    let mutual = chap
                        .mutual
                        .as_ref()
                        .map(|(name, secret)| format!(", mutual: {name}, secret {}", source(secret)));
                    let algs = match ChapAlg::list(&chap.algs) {
                        algs if algs.is_empty() => algs,
                        algs => format!(", by {algs}"),
                    };
                    format!(
                        "{}, secret {}{}{algs}",
                        chap.username,
                        source(&chap.password),
                        mutual.unwrap_or_default()
                    )
                }
            },
        );
    }
}

fn source(secret: &SecretSource) -> String {
    match secret {
        SecretSource::Inline(_) => "in the config".into(),
        SecretSource::File(path) => format!("in {path}"),
        SecretSource::Credential(name) => format!("in the credential {name}"),
    }
}

/// An empty plan of `claim`.
pub(super) const NOTHING_TO_CLAIM: &str =
    "Nothing to claim: the LUN's stamp names this node. See `etcd-lun plan` for what `apply` would do.";

/// An empty plan; on a node that may have been rolled back.
pub(super) fn nothing_to_do(rolled_back: Option<u64>) -> String {
    match rolled_back {
        Some(generation) => format!(
            "Nothing to do: etcd was rolled back to the local disk on purpose (generation {generation}), and stays there until somebody runs `etcd-lun apply`."
        ),
        None => "Nothing to do: the node is what the config asks for.".into(),
    }
}

/// `plan`
pub(super) fn plan(plan: &Plan) -> String {
    let mut text = String::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let _ = writeln!(text, "{:>3}. {step}", at + 1);
    }
    if let Some(horizon) = plan.horizon {
        let _ = writeln!(text, "     … {horizon}");
    }
    if let Some(cluster) = &plan.cluster {
        let _ = writeln!(text, "cluster: {cluster}");
    }
    text
}

/// `status`
pub(super) fn status(config: &Config, node: &Node) -> String {
    let mut page = Page::default();
    page.line("node", format!("{} ({})", node.identity.hostname, node.identity.machine_id));
    page.namespace(node);
    page.fact("authority", &node.record, |record| match record {
        None => "local disk: not migrated".into(),
        Some(record) if record.rolled_back => format!(
            "{}, generation {}: rolled back on purpose; only `etcd-lun apply` by hand moves the data again",
            record.authority, record.generation
        ),
        Some(record) => {
            format!("{}, generation {}, use {}", record.authority, record.generation, record.activations)
        }
    });
    page.fact("etcd", &node.etcd, |found| etcd(found, node.rolled_back().is_some()));
    if let Some(cluster) = &node.cluster {
        page.fact("cluster", cluster, ToString::to_string);
    }
    page.fact("mount", &node.mount, |mount| match mount {
        None => format!("nothing on {}", config.etcd.data_dir),
        Some(mount) => {
            let free = mount.free.map(|(free, all)| format!(", {free} of {all} free")).unwrap_or_default();
            format!("{} on {} ({}){free}", mount.source, config.etcd.data_dir, mount.options.join(","))
        }
    });
    page.fact("mount unit", &node.mount_unit, |unit| match unit {
        MountUnit::Right => "as rendered".into(),
        MountUnit::Absent => "absent: run `etcd-lun render units --into /etc/systemd/system`".into(),
        MountUnit::Differs { path, how } => format!("{path} differs: {how}"),
        MountUnit::NotLoaded => "changed on disk: run `systemctl daemon-reload`".into(),
    });
    if node.mount.known().is_some_and(Option::is_some) {
        page.fact("stamp", &node.mounted_stamp, stamp);
    }
    page.fact("beneath", &node.local, local);
    page.fact("retired", &node.retired, |all| retired(all));
    if let Some((copy, generation)) =
        node.rollback_staging.known().and_then(|staging| staging.copy.as_ref()).zip(node.returning())
    {
        page.line(
            "staged",
            format!(
                "{RETURNING}/{generation}, {}: a rollback was cut short; run `etcd-lun rollback` to continue it",
                copy.size
            ),
        );
    }
    if let Some(Iscsi { target, initiator, .. }) = config.backing.iscsi() {
        page.fact("initiator", &node.initiator.name, |name| {
            let own = name.as_deref().unwrap_or("not set");
            format!("{initiator} at this target; the node's own name is {own}")
        });
        page.fact("sessions", &node.sessions, |sessions| {
            let ours = sessions.iter().filter(|session| session.is_of(&target.iqn, initiator));
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

fn session(session: &Session) -> String {
    format!("{}: {} at {}", session.sid, session.state, session.portal)
}

fn etcd(etcd: &Etcd, rolled_back: bool) -> String {
    if !etcd.exists {
        return format!("systemd does not know the unit {}", etcd.name);
    }
    let boot = if etcd.enabled { "starts at boot" } else { "does not start at boot" };
    let ours = match (etcd.stopped_by_us, rolled_back) {
        (true, false) => ", stopped by etcd-lun: run `etcd-lun apply` to start it",
        (true, true) => ", stopped by etcd-lun: run `etcd-lun rollback` to start it",
        (false, _) => "",
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
