//! A node made of facts, and what each step does to them.

use etcd_lun::{
    config::{Config, Source},
    node::{
        Content, DataMount, Etcd, Fact, Identity, Initiator, LocalDir, Lun, LunView, Metrics, MountUnit,
        Multipath, Node, Path, Pressure, Route, Sample, Selinux, Session, Shelf, StagedCopy, UnitState,
        Vitals, WriteCache,
        authority::{Authority, Record, Stamp},
    },
    plan::{Step, Way},
    terms::{Bytes, Fingerprint, FsUuid, Wwid},
};

pub const MACHINE: &str = "0123456789abcdef0123456789abcdef";
pub const OTHER_MACHINE: &str = "ffffffffffffffffffffffffffffffff";
pub const TARGET: &str = "iqn.2024-02.com.example:etcd";
pub const INITIATOR: &str = "iqn.1994-05.com.redhat:master0";
pub const DATA: Fingerprint = Fingerprint([7; 32]);
pub const OTHER_DATA: Fingerprint = Fingerprint([8; 32]);
pub const OURS: FsUuid = FsUuid([1; 16]);
pub const FRESH: FsUuid = FsUuid([2; 16]);
pub const FOREIGN: FsUuid = FsUuid([3; 16]);

pub fn wwid() -> Wwid {
    "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4".parse().unwrap()
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

/// The same with a disk of the machine's own in the target's place.
pub fn device_config_for(runtime: &str) -> Config {
    let text = format!("[device]\npath = \"{LINK}\"\n[etcd]\nruntime = \"{runtime}\"\n");
    Config::load(&[Source { path: "config.toml".into(), text }], MACHINE, "master-0").unwrap()
}

/// The node as it is seen with that config: nobody is asked for sessions, and there is none to be missing.
pub fn with_device(mut node: Node) -> Node {
    let why = "the config names a device";
    node.initiator = Initiator {
        name: Fact::Unknown(why.into()),
        iscsid_active: Fact::Unknown(why.into()),
        multipathd_active: Fact::Unknown(why.into()),
    };
    node.sessions = Fact::Unknown(why.into());
    if matches!(node.lun, Fact::Known(LunView::NoSession)) {
        node.lun = Fact::Known(LunView::NotAttached);
    }
    node
}

pub fn record() -> Record {
    Record::begin(1, OURS, wwid(), config().etcd.data_dir)
}

pub fn stamp(generation: u64, activations: u64) -> Stamp {
    Stamp::new(generation, MACHINE.into(), "master-0".into(), activations)
}

pub fn xfs(uuid: FsUuid, stamp: Option<Stamp>, settled: bool) -> Content {
    let empty = settled.then_some(false);
    Content::Xfs { uuid, label: "etcd-lun".parse().ok(), stamp: Fact::Known(stamp), settled, empty }
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
        read_only: false,
        holders: Vec::new(),
        partitions: Vec::new(),
        users: Fact::Known(Vec::new()),
        content: Fact::Known(content),
        same_label: Fact::Known(Vec::new()),
    }
}

pub fn session() -> Session {
    Session {
        sid: 1,
        target: TARGET.into(),
        portal: "10.77.0.1:3260".into(),
        configured: "10.77.0.1".parse().ok(),
        state: "LOGGED_IN".into(),
        initiator: Some(INITIATOR.into()),
        recovery_timeout: Some(30),
        in_use: Vec::new(),
    }
}

pub fn dir(entries: &[&str], immutable: bool) -> LocalDir {
    LocalDir::Present {
        entries: entries.iter().map(|&name| name.to_owned()).collect(),
        immutable: Some(immutable),
        fingerprint: None,
        with_state: true,
        size: Some(Bytes(1 << 30)),
    }
}

/// A copy that a rollback has staged.
pub fn staged(fingerprint: Option<Fingerprint>) -> Shelf {
    let copy = Some(StagedCopy { ours: true, size: Bytes(1 << 30), fingerprint });
    Shelf { free: Bytes(40 << 30), copy }
}

/// A record of a node that was rolled back to generation 2, with this data.
pub fn rolled_back(data: Fingerprint) -> Record {
    Record::begin(2, OURS, wwid(), config().etcd.data_dir).roll_back(data)
}

/// A node as it is after a migration.
pub fn migrated() -> Node {
    let stamp = stamp(1, 1);
    let mut mount = data_mount("8:16");
    mount.free = Some((Bytes(15 << 30), Bytes(20 << 30)));
    let session = Session { in_use: vec!["sdb".into()], recovery_timeout: Some(3600), ..session() };
    Node {
        sessions: Fact::Known(vec![session]),
        record: Fact::Known(Some(record().commit(Some(DATA)))),
        mount: Fact::Known(Some(mount)),
        mounted_stamp: Fact::Known(Some(stamp.clone())),
        local: Fact::Known(dir(&[], true)),
        ..attached(xfs(OURS, Some(stamp), false))
    }
}

pub fn etcd(state: &str) -> Etcd {
    Etcd {
        name: "etcd.service".into(),
        exists: true,
        state: state.into(),
        running: !["inactive", "failed"].contains(&state),
        start_queued: false,
        enabled: true,
        stopped_by_us: false,
        lock_holders: Vec::new(),
    }
}

pub fn data_mount(devno: &str) -> DataMount {
    DataMount {
        devno: devno.into(),
        source: "/dev/sdb".into(),
        fs_type: "xfs".into(),
        options: vec!["rw".into(), "prjquota".into()],
        layers: 1,
        free: None,
        io_error: false,
    }
}

/// The figures of a node that is well, its etcd's metrics from here.
pub fn vitals(metrics: Option<[&str; 2]>) -> Vitals {
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
    Vitals {
        paths: Fact::Known(vec![path]),
        map_cache: Fact::Known(None),
        free_inodes: Fact::Known(Some(10_000_000)),
        kernel_errors: Fact::Known(Vec::new()),
        units: Fact::Known(vec![
            unit("etcd-lun-health.service", "static", "activating"),
            unit("etcd-lun-health.timer", "enabled", "active"),
            unit("etcd-lun.service", "enabled", "active"),
        ]),
        routes: Fact::Known(vec![Route { to: "10.77.0.1:3260".into(), interface: Some("ens4".into()) }]),
        pressure: Fact::Known(Pressure { iowait: 0.5, some: Some(1.0), full: Some(0.1) }),
        metrics: metrics.map(|texts| {
            let samples = texts.map(|text| Sample::parse(text).unwrap());
            Fact::Known(Metrics { ill: None, samples })
        }),
    }
}

/// A node before anything was done: etcd runs on the local disk, no session.
pub fn node() -> Node {
    Node {
        identity: Identity {
            machine_id: MACHINE.into(),
            hostname: "master-0".into(),
            joined_host_namespace: false,
        },
        missing_tools: Vec::new(),
        in_host_namespace: Fact::Known(true),
        initiator: Initiator {
            name: Fact::Known(None),
            iscsid_active: Fact::Known(false),
            multipathd_active: Fact::Known(false),
        },
        sessions: Fact::Known(Vec::new()),
        lun: Fact::Known(LunView::NoSession),
        record: Fact::Known(None),
        local: Fact::Known(dir(&["member"], false)),
        shelf: Fact::Known(Shelf { free: Bytes(40 << 30), copy: None }),
        retired: Fact::Known(Vec::new()),
        mount: Fact::Known(None),
        mounted_stamp: Fact::Known(None),
        mount_unit: Fact::Known(MountUnit::Right),
        etcd: Fact::Known(etcd("active")),
        selinux: Fact::Known(Selinux::Off),
        fresh_uuid: FRESH,
    }
}

/// A node that sees a LUN with this content.
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

fn seen(node: &mut Node) -> &mut Lun {
    match known(&mut node.lun) {
        LunView::Seen(lun) => lun,
        view => panic!("no LUN: {view:?}"),
    }
}

/// What a run of `apply` keeps in memory and loses when it is cut short.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    proven: bool,
    staged: bool,
}

/// The world: a node's facts, and what they don't show.
#[derive(Debug, Clone)]
pub struct World {
    pub node: Node,
    /// What a login would show.
    pub behind: Lun,
    pub memory: Memory,
    /// Whether the LUN's tree is whole and the same as the data that etcd wrote last.
    pub lun_is_copy: bool,
    /// The same of what a rollback has staged, and of what it has put in its place.
    pub shelf_is_copy: bool,
    pub local_is_copy: bool,
}

impl World {
    pub fn new(node: Node) -> Self {
        let behind = match node.lun.known() {
            Some(LunView::Seen(lun)) => (**lun).clone(),
            _ => lun(Content::Blank),
        };
        Self {
            node,
            behind,
            memory: Memory::default(),
            lun_is_copy: false,
            shelf_is_copy: false,
            local_is_copy: false,
        }
    }

    /// The process is gone; the facts of the node stay, staging does not.
    pub fn crash(&mut self) {
        self.memory = Memory::default();
        self.node.mount = match &self.node.mount {
            Fact::Known(mount) => Fact::Known(mount.clone()),
            Fact::Unknown(why) => Fact::Unknown(why.clone()),
        };
        self.settle(false);
        // The next observation fingerprints what lies beneath only when the record says LUN.
        self.fingerprint();
    }

    fn settle(&mut self, now: bool) {
        if let Fact::Known(LunView::Seen(lun)) = &mut self.node.lun
            && let Fact::Known(Content::Xfs { settled, empty, .. }) = &mut lun.content
        {
            *settled = now;
            *empty = now.then_some(!self.lun_is_copy);
        }
    }

    fn fingerprint(&mut self) {
        let lun_is_truth = self
            .node
            .record
            .known()
            .and_then(Option::as_ref)
            .is_some_and(|record| record.fingerprint.is_some());
        if let LocalDir::Present { entries, fingerprint, .. } = known(&mut self.node.local)
            && !entries.is_empty()
            && lun_is_truth
        {
            *fingerprint = Some(DATA);
        }
        // What is staged is read only when a record says that it is the truth.
        let is_truth = self.node.rolled_back().is_some();
        let found = if self.shelf_is_copy { DATA } else { OTHER_DATA };
        if let Some(copy) = &mut known(&mut self.node.shelf).copy {
            copy.fingerprint = is_truth.then_some(found);
        }
    }

    /// What a step does, by its contract. The guards that the real one has are asserted.
    pub fn step(&mut self, step: &Step) {
        let running = known(&mut self.node.etcd).running;
        match step {
            Step::SetInitiatorName { name } => self.node.initiator.name = Fact::Known(Some(name.to_string())),
            Step::RestartIscsid => {}
            Step::LogOut { sid } => known(&mut self.node.sessions).retain(|session| session.sid != *sid),
            Step::LogIn { .. } => {
                known(&mut self.node.sessions).push(session());
                self.node.lun = Fact::Known(LunView::NotAttached);
            }
            Step::SetTimeout { sid, replacement } => {
                let sessions = known(&mut self.node.sessions).iter_mut();
                for session in sessions.filter(|session| session.sid == *sid) {
                    assert!(session.is_logged_in(), "the kernel refuses it");
                    session.recovery_timeout = u32::try_from(replacement.0.as_secs()).ok();
                }
            }
            Step::AttachLun { .. } | Step::AwaitDisk { .. } => {
                self.node.lun = Fact::Known(LunView::Seen(Box::new(self.behind.clone())))
            }
            Step::BeginRecord { record } => self.node.record = Fact::Known(Some(record.clone())),
            Step::ClearUnfinished { .. } => seen(&mut self.node).content = Fact::Known(Content::Blank),
            Step::Format { uuid, .. } => {
                let lun = seen(&mut self.node);
                assert_eq!(lun.content, Fact::Known(Content::Blank), "formatting what isn't blank");
                lun.content = Fact::Known(xfs(*uuid, None, false));
                self.lun_is_copy = false;
            }
            Step::Stage { .. } => {
                self.memory.staged = true;
                self.settle(true);
            }
            Step::Unstamp => self.set_stamp(None),
            Step::PreCopy { way: Way::ToLun, .. } => assert!(self.memory.staged),
            Step::PreCopy { way: Way::ToLocal { .. }, .. } => self.shelve(false),
            Step::StopEtcd { .. } => {
                let etcd = known(&mut self.node.etcd);
                etcd.state = "inactive".into();
                etcd.running = false;
                etcd.stopped_by_us = true;
            }
            Step::Copy { way: Way::ToLocal { .. }, .. } => {
                assert!(self.truth_is_mounted() && !running, "copying under a running etcd");
                self.shelve(true);
            }
            Step::Copy { way: Way::ToLun, .. } => {
                assert!(self.memory.staged && !running, "copying under a running etcd");
                self.lun_is_copy = true;
            }
            Step::Measure { .. } => {
                assert!(self.memory.staged && running == known(&mut self.node.etcd).running)
            }
            Step::Prove { way: Way::ToLun, .. } => self.memory.proven = self.lun_is_copy,
            Step::Prove { way: Way::ToLocal { .. }, .. } => self.memory.proven = self.shelf_is_copy,
            Step::Stamp { stamp } => {
                assert!(self.memory.proven && self.lun_is_copy, "stamping without proof");
                self.set_stamp(Some(stamp.clone()));
            }
            Step::Commit { record } => {
                assert!(self.memory.proven && !running, "committing without proof");
                self.node.record = Fact::Known(Some(record.clone().commit(Some(DATA))));
                self.memory.staged = false;
                self.fingerprint();
            }
            Step::Retire { .. } => {
                let local = known(&mut self.node.local);
                *local = dir(&[], false);
            }
            Step::Fence { .. } => {
                let local = known(&mut self.node.local);
                assert!(local.is_empty(), "fencing data");
                *local = dir(&[], true);
            }
            Step::Activate { stamp, record } => {
                self.set_stamp(Some(stamp.clone()));
                self.node.record = Fact::Known(Some(record.clone()));
                self.memory.staged = false;
            }
            Step::UnmountShutDown { .. } => {
                let shut = known(&mut self.node.mount).as_ref().is_some_and(|mount| mount.io_error);
                assert!(shut && !running, "unmounting what has not shut down, or is in use");
                self.node.mount = Fact::Known(None);
                self.node.mounted_stamp = Fact::Known(None);
                self.settle(false);
            }
            Step::Mark { stamp, record, .. } => {
                assert!(self.truth_is_mounted(), "counting what is not mounted");
                self.set_stamp(Some(stamp.clone()));
                self.node.mounted_stamp = Fact::Known(Some(stamp.clone()));
                self.node.record = Fact::Known(Some(record.clone()));
            }
            Step::MountData { .. } => {
                assert!(!running, "mounting over a running etcd");
                let lun = seen(&mut self.node);
                let stamp = match &lun.content {
                    Fact::Known(Content::Xfs { stamp, .. }) => stamp.clone(),
                    content => panic!("mounting {content:?}"),
                };
                self.node.mounted_stamp = stamp;
                let mount =
                    DataMount { free: Some((Bytes(15 << 30), Bytes(20 << 30))), ..data_mount("8:16") };
                self.node.mount = Fact::Known(Some(mount));
                if let Fact::Known(sessions) = &mut self.node.sessions {
                    sessions.iter_mut().for_each(|session| session.in_use = vec!["sdb".into()]);
                }
            }
            Step::UnmountData { .. } => {
                assert!(self.memory.proven && !running, "unmounting under a running etcd, or for nothing");
                self.unmount();
            }
            Step::CommitLocal { record } => {
                assert!(self.memory.proven && !running, "committing without proof");
                assert!(matches!(self.node.mount, Fact::Known(None)), "committing with the LUN in reach");
                assert!(known(&mut self.node.local).is_fenced(), "committing with the fence open");
                self.node.record = Fact::Known(Some(record.clone().roll_back(DATA)));
                self.fingerprint();
            }
            Step::Return { .. } => {
                assert!(self.node.rolled_back().is_some() && !running, "opening the fence for nothing");
                assert!(self.shelf_is_copy, "returning what is no copy");
                known(&mut self.node.shelf).copy = None;
                self.shelf_is_copy = false;
                self.local_is_copy = true;
                self.node.local = Fact::Known(dir(&["member"], false));
            }
            Step::StartEtcd { on, wait, .. } => {
                match on {
                    Authority::Lun => assert!(self.truth_is_mounted(), "starting etcd beside the LUN"),
                    Authority::Local => {
                        let local = known(&mut self.node.local);
                        assert!(!local.is_empty() && self.local_is_copy, "starting etcd on nothing");
                        assert!(matches!(self.node.mount, Fact::Known(None)), "starting etcd on the LUN");
                        assert!(self.node.rolled_back().is_some(), "starting etcd on what is not the truth");
                    }
                }
                let etcd = known(&mut self.node.etcd);
                if *wait {
                    etcd.state = "active".into();
                }
                etcd.running = *wait;
                etcd.start_queued = !wait;
                etcd.stopped_by_us = false;
            }
        }
        if self.memory.staged {
            self.settle(true);
        }
        if let Fact::Known(LunView::Seen(lun)) = &self.node.lun {
            self.behind = (**lun).clone();
        }
    }

    /// What a shutdown does, and a rollback.
    pub fn unmount(&mut self) {
        self.node.mount = Fact::Known(None);
        self.node.mounted_stamp = Fact::Known(None);
        if let Fact::Known(sessions) = &mut self.node.sessions {
            sessions.iter_mut().for_each(|session| session.in_use.clear());
        }
    }

    fn truth_is_mounted(&self) -> bool {
        let record = self.node.record.known().and_then(Option::as_ref);
        record.is_some_and(|record| record.authority == Authority::Lun)
            && matches!(self.node.mount, Fact::Known(Some(_)))
    }

    fn shelve(&mut self, is_copy: bool) {
        assert!(self.truth_is_mounted(), "copying what is not the truth");
        *known(&mut self.node.shelf) = staged(None);
        self.shelf_is_copy = is_copy;
    }

    fn set_stamp(&mut self, new: Option<Stamp>) {
        match &mut seen(&mut self.node).content {
            Fact::Known(Content::Xfs { stamp, .. }) => *stamp = Fact::Known(new),
            content => panic!("stamping {content:?}"),
        }
    }
}
