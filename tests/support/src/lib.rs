//! Facts of a node, and what else tests of several crates share.
#![allow(clippy::disallowed_methods, reason = "nothing here is a part of the program")]

pub mod certificates;
pub mod printed;
pub mod say;
pub mod schema;
pub mod size;
pub mod wrap;

use config::{Config, Source};
use health::{CHECKS, Outcome, Report, Row, Severity};
use node::{
    Cluster, Content, DataMount, Etcd, EtcdState, Fact, HealthFacts, Identity, Initiator, LocalDir, Lun,
    LunView, Member, MemberHealth, Multipath, Node, Path, Pressure, RollbackStaging, Route, SeenSession,
    Selinux, StagedCopy, Starter, UnitState, WriteCache,
    authority::{LunUse, Record, Stamp},
};
use std::sync::LazyLock;
use terms::{Bytes, Endpoint, Fingerprint, FsLabel, FsUuid, Nonce, Portal, Session, Span, Wwid};

pub const MACHINE: &str = "0123456789abcdef0123456789abcdef";
pub const OTHER_MACHINE: &str = "ffffffffffffffffffffffffffffffff";
pub const TARGET: &str = "iqn.2024-02.com.example:etcd";
pub const INITIATOR: &str = "iqn.1994-05.com.redhat:master0";
pub const DATA: Fingerprint = Fingerprint { seed: 0, hash: [7; 16] };
pub const OTHER_DATA: Fingerprint = Fingerprint { seed: 0, hash: [8; 16] };
pub const OURS: FsUuid = FsUuid([1; 16]);
pub const FRESH: FsUuid = FsUuid([2; 16]);
pub const FOREIGN: FsUuid = FsUuid([3; 16]);

/// The model asks for these millions of times, so they are parsed once.
static WWID: LazyLock<Wwid> = LazyLock::new(|| "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4".parse().unwrap());
static LABEL: LazyLock<Option<FsLabel>> = LazyLock::new(|| "etcd-lun".parse().ok());
static PORTAL: LazyLock<Option<Portal>> = LazyLock::new(|| "10.77.0.1".parse().ok());

pub fn wwid() -> Wwid {
    WWID.clone()
}

pub fn other_wwid() -> Wwid {
    "naa.60014051d8e4a3bd5a94f3f9ffffffff".parse().unwrap()
}

pub fn config() -> Config {
    config_for("systemd")
}

pub fn config_for(runtime: &str) -> Config {
    let text = format!(
        "[target]\niqn = \"{TARGET}\"\nportals = [\"10.77.0.1\"]\n[etcd]\nruntime = \"{runtime}\"\n\
         [[node]]\nhostname = \"master-0\"\ninitiator = \"{INITIATOR}\"\nlun = 1\n"
    );
    Config::load(&[Source { path: "config.toml".into(), text }], MACHINE, "master-0").unwrap()
}

pub const LINK: &str = "/dev/disk/by-id/virtio-etcd0";

/// The same config with a local disk instead of the target.
pub fn device_config_for(runtime: &str) -> Config {
    let text = format!("[device]\npath = \"{LINK}\"\n[etcd]\nruntime = \"{runtime}\"\n");
    Config::load(&[Source { path: "config.toml".into(), text }], MACHINE, "master-0").unwrap()
}

/// The facts of a node with that config: sessions are not observed, and none is missing.
pub fn with_device(mut node: Node) -> Node {
    let why = "the config names a device";
    node.initiator =
        Initiator { name: Fact::Unknown(why.into()), multipathd_active: Fact::Unknown(why.into()) };
    node.sessions = Fact::Unknown(why.into());
    if matches!(node.lun, Fact::Known(LunView::NoSession)) {
        node.lun = Fact::Known(LunView::NotAttached);
    }
    node
}

/// The nonce that a run of these tests draws. Nothing has it before.
pub const DRAWN: Nonce = Nonce([0xdd; 16]);

/// The use with this number, and a nonce that is the same each time.
pub fn nth(activations: u64) -> LunUse {
    LunUse { activations, nonce: Nonce(u128::from(activations).to_be_bytes()) }
}

/// Another use with the same number: a clone of the node has counted it.
pub fn clones(activations: u64) -> LunUse {
    LunUse { activations, nonce: Nonce([0xcc; 16]) }
}

pub fn record() -> Record {
    Record::begin(1, OURS, wwid(), config().etcd.data_dir, nth(0).nonce)
}

/// The record of a node whose LUN was used so often.
pub fn used(activations: u64) -> Record {
    record().commit(Some(DATA)).used(nth(activations))
}

pub fn stamp(generation: u64, activations: u64) -> Stamp {
    Stamp::new(generation, MACHINE.into(), "master-0".into(), nth(activations))
}

/// The stamp of another node.
pub fn foreign_stamp(activations: u64) -> Stamp {
    Stamp::new(1, OTHER_MACHINE.into(), "master-1".into(), nth(activations))
}

/// Stamp and record in the formats of the last release, which knew no nonces.
pub fn old_stamp(generation: u64, activations: u64) -> Stamp {
    let text = format!(
        r#"{{"version":1,"generation":{generation},"machine_id":"{MACHINE}","node":"master-0","activations":{activations}}}"#
    );
    Stamp::parse(&text).unwrap()
}

pub fn old_record(authority: &str, generation: u64, activations: u64, rolled_back: bool) -> Record {
    let print =
        if authority == "lun" || rolled_back { format!(r#""fingerprint":"{DATA}","#) } else { String::new() };
    let text = format!(
        r#"{{"version":3,"authority":"{authority}","generation":{generation},"uuid":"{OURS}","wwid":"{}","data_dir":"/var/lib/etcd",{print}"activations":{activations},"rolled_back":{rolled_back}}}"#,
        wwid()
    );
    Record::parse(&text).unwrap()
}

pub fn xfs(uuid: FsUuid, stamp: Option<Stamp>, settled: bool) -> Content {
    let empty = settled.then_some(false);
    let (label, size) = (LABEL.clone(), Bytes(20 << 30));
    Content::Xfs { uuid, label, size, stamp: Fact::Known(stamp), settled, empty }
}

pub fn lun(content: Content) -> Lun {
    Lun {
        device: "sdb".into(),
        devno: "8:16".into(),
        paths: vec!["sdb".into()],
        multipath: Multipath::Unclaimed,
        wwid: Fact::Known(wwid()),
        serial: None,
        size: Bytes(20 << 30),
        path_size: Bytes(20 << 30),
        paths_differ: None,
        silent: false,
        read_only: false,
        holders: Vec::new(),
        partitions: Vec::new(),
        users: Fact::Known(Vec::new()),
        content: Fact::Known(content),
    }
}

pub fn session() -> SeenSession {
    let session = Session {
        sid: 1,
        target: TARGET.into(),
        portal: PORTAL.as_ref().map(Endpoint::from),
        address: None,
        state: "LOGGED_IN".into(),
        initiator: Some(INITIATOR.into()),
        interface: Some("etcd-lun".into()),
        recovery_timeout: Some(30),
        connection: Some("up".into()),
        host_no: 2,
        target_id: Some(0),
        tpgt: Some(1),
    };
    SeenSession { session, configured: PORTAL.clone(), in_use: Vec::new() }
}

/// A session that the kernel shows otherwise.
pub fn shown(mut seen: SeenSession, change: impl FnOnce(&mut Session)) -> SeenSession {
    change(&mut seen.session);
    seen
}

pub fn dir(entries: &[&str], immutable: bool) -> LocalDir {
    LocalDir::Present {
        entries: entries.iter().map(|&name| name.to_owned()).collect(),
        barred: false,
        immutable: Some(immutable),
        fingerprint: None,
        with_state: true,
        size: Some(Bytes(1 << 30)),
    }
}

/// A directory with the file that keeps etcd out, and nothing else.
pub fn barred(immutable: bool) -> LocalDir {
    match dir(&[], immutable) {
        LocalDir::Present { entries, immutable, fingerprint, with_state, size, .. } => {
            LocalDir::Present { entries, barred: true, immutable, fingerprint, with_state, size }
        }
        LocalDir::Absent => LocalDir::Absent,
    }
}

/// A copy that a rollback has staged.
pub fn staged(fingerprint: Option<Fingerprint>) -> RollbackStaging {
    let copy = Some(StagedCopy { ours: true, size: Bytes(1 << 30), fingerprint });
    RollbackStaging { free: Bytes(40 << 30), copy }
}

/// The record of a node that was rolled back to generation 2 with this data.
pub fn rolled_back(data: Fingerprint) -> Record {
    used(1).leave(2, &stamp(1, 1)).roll_back(data)
}

/// The same record as an older version of etcd-lun has written it: with a fingerprint of another hash, and without nonces.
pub fn of_older_version(record: &Record) -> Record {
    let mut text: serde_json::Value = serde_json::from_str(&record.to_text().unwrap()).unwrap();
    let keys = text.as_object_mut().unwrap();
    keys.remove("nonce");
    keys.remove("announced");
    keys["version"] = 1.into();
    assert_eq!(keys["fingerprint"].as_str(), Some(DATA.to_string().as_str()));
    keys["fingerprint"] = "07".repeat(32).into();
    Record::parse(&text.to_string()).unwrap()
}

/// A node after a migration.
pub fn migrated() -> Node {
    let stamp = stamp(1, 1);
    let mut mount = data_mount("8:16");
    mount.free = Some((Bytes(15 << 30), Bytes(20 << 30)));
    let session = shown(session(), |session| session.recovery_timeout = Some(3600));
    let session = SeenSession { in_use: vec!["sdb".into()], ..session };
    Node {
        sessions: Fact::Known(vec![session]),
        record: Fact::Known(Some(used(1))),
        mount: Fact::Known(Some(mount)),
        mounted_stamp: Fact::Known(Some(stamp.clone())),
        local: Fact::Known(dir(&[], true)),
        ..attached(xfs(OURS, Some(stamp), false))
    }
}

pub fn etcd(state: &str) -> Etcd {
    let state = EtcdState::Unit(state.into());
    Etcd {
        name: "etcd.service".into(),
        exists: true,
        running: state.is_running(),
        state,
        start_queued: false,
        enabled: true,
        stopped_by_us: false,
        by_pacemaker: None,
        lock_holders: Vec::new(),
        other_place: Fact::Known(None),
    }
}

pub fn data_mount(devno: &str) -> DataMount {
    DataMount {
        devno: devno.into(),
        source: "/dev/sdb".into(),
        fs_type: "xfs".into(),
        options: [
            "rw",
            "nosuid",
            "nodev",
            "noexec",
            "context=system_u:object_r:etcd_lun_data_t:s0",
            "prjquota",
        ]
        .map(str::to_owned)
        .to_vec(),
        layers: 1,
        free: None,
        database: Some(Bytes(100 << 20)),
        io_error: false,
        root_age: Some(Span(std::time::Duration::from_secs(3600))),
    }
}

/// The figures of a healthy node.
pub fn health_facts() -> HealthFacts {
    let back = || Some("write back".to_owned());
    let path = Path {
        name: "sdb".into(),
        state: "running".into(),
        timeouts: Some(0),
        errors: Some(2),
        cache: WriteCache { kernel: back(), target: back(), fua: Some(true) },
    };
    let unit = |name: &str, file: &str, active: &str| UnitState {
        name: name.into(),
        load: "loaded".into(),
        file: file.into(),
        active: active.into(),
        result: name.ends_with("service").then(|| "success".into()),
    };
    let starter = |name: &str, load: &str, wants: &[&str]| Starter {
        name: name.into(),
        load: load.into(),
        drop_in: true,
        wants: wants.iter().map(ToString::to_string).collect(),
        requires: Vec::new(),
    };
    HealthFacts {
        at_work: None,
        paths: Fact::Known(vec![path]),
        map_cache: Fact::Known(None),
        local_space: Fact::Known((Bytes(50 << 30), Bytes(100 << 30))),
        size_announced: Fact::Known(false),
        kernel_errors: Fact::Known(Vec::new()),
        units: Fact::Known(vec![
            unit("etcd-lun-health.service", "static", "activating"),
            unit("etcd-lun-health.timer", "static", "active"),
            unit("etcd-lun.service", "static", "active"),
        ]),
        starters: Fact::Known(vec![
            starter("crio.service", "loaded", &[]),
            starter("kubelet-dependencies.target", "not-found", &[]),
            starter("kubelet.service", "loaded", &[]),
            starter("multi-user.target", "loaded", &["etcd-lun-health.timer", "etcd-lun.service"]),
        ]),
        others: Fact::Known(Vec::new()),
        safe_logout: Fact::Known(false),
        routes: Fact::Known(vec![Route {
            to: "10.77.0.1:3260".into(),
            interface: Some("ens4".into()),
            mtu: Some(1500),
        }]),
        pressure: Fact::Known(Pressure { iowait: 0.5, some: Some(1.0), full: Some(0.1) }),
        hung_task_panic: Fact::Known(None),
        iscsid: Fact::Known(true),
        mounted_anew: Fact::Known(Vec::new()),
    }
}

/// The owner of the stamps of `stamp`.
pub fn identity() -> Identity {
    Identity {
        machine_id: MACHINE.into(),
        hostname: "master-0".into(),
        former_name: None,
        joined_host_namespace: false,
    }
}

/// A node before any migration: etcd runs on the local disk, and there is no session.
pub fn node() -> Node {
    Node {
        identity: identity(),
        missing_tools: Vec::new(),
        in_host_namespace: Fact::Known(true),
        initiator: Initiator { name: Fact::Known(None), multipathd_active: Fact::Known(false) },
        sessions: Fact::Known(Vec::new()),
        answering: Vec::new(),
        lun: Fact::Known(LunView::NoSession),
        record: Fact::Known(None),
        local: Fact::Known(dir(&["member"], false)),
        claims: Fact::Known(Vec::new()),
        idle: Fact::Known(Some(Span(std::time::Duration::from_secs(60)))),
        rollback_staging: Fact::Known(RollbackStaging { free: Bytes(40 << 30), copy: None }),
        retired: Fact::Known(Vec::new()),
        barred_data: Fact::Known(None),
        mount: Fact::Known(None),
        mounted_stamp: Fact::Known(None),
        etcd: Fact::Known(etcd("active")),
        quota: Fact::Known(Bytes(8 << 30)),
        fips: Fact::Known(false),
        cluster: Some(Fact::Known(cluster(3))),
        elsewhere: None,
        selinux: Fact::Known(Selinux::Off),
        fresh_uuid: Fact::Known(FRESH),
        fresh_nonce: Fact::Known(DRAWN),
    }
}

/// A cluster of so many voters, all healthy.
pub fn cluster(voters: usize) -> Cluster {
    let member = |name: usize| Member {
        name: format!("master-{name}"),
        learner: false,
        health: MemberHealth::Healthy,
    };
    Cluster { own: member(0), leader: Some("master-0".into()), others: (1..voters).map(member).collect() }
}

/// A node that has a session to a LUN with this content.
pub fn attached(content: Content) -> Node {
    Node {
        initiator: Initiator { name: Fact::Known(Some(INITIATOR.into())), ..node().initiator },
        sessions: Fact::Known(vec![session()]),
        lun: Fact::Known(LunView::Seen(Box::new(lun(content)))),
        ..node()
    }
}

pub fn known<T>(fact: &mut Fact<T>) -> &mut T {
    match fact {
        Fact::Known(value) => value,
        Fact::Unknown(why) => panic!("unknown: {why}"),
    }
}

/// What a node prints of which every check is ok, but these.
pub fn printed_health(bad: &[(&str, &str)]) -> String {
    let rows = CHECKS.iter().map(|check| Row {
        check: check.name,
        protects: check.protects,
        severity: Severity::Critical,
        outcome: match bad.iter().find(|(name, _)| *name == check.name) {
            Some((_, why)) => Outcome::Found((*why).into()),
            None => Outcome::Ok("as it should be".into()),
        },
    });
    serde_json::json!({ "version": 1, "health": Report { rows: rows.collect() } }).to_string()
}
