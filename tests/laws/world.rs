//! A simulated node: what each step does to its facts, and what a run keeps in memory.

use super::*;
use etcd_lun::node::BarredData;
use etcd_lun::plan::{
    Way,
    step::{AddPath, CatchUp, Claim, Copy, Format, Grow, LogIn, Mark, RemovePath},
};

pub fn seen(node: &mut Node) -> &mut Lun {
    match known(&mut node.lun) {
        LunView::Seen(lun) => lun,
        view => panic!("no LUN: {view:?}"),
    }
}

/// What a run of `apply` keeps in memory and loses when it is interrupted.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    proven: bool,
    provisional: bool,
    staged: bool,
}

/// The simulated node: its facts, and what these facts do not show.
#[derive(Debug, Clone)]
pub struct World {
    pub node: Node,
    /// The LUN that a login would show.
    pub behind: Lun,
    pub memory: Memory,
    /// True if the LUN has a complete copy of the data that etcd wrote last.
    pub lun_is_copy: bool,
    /// The same for the copy that a rollback has staged, and for the one that it has put in place.
    pub shelf_is_copy: bool,
    pub local_is_copy: bool,
    /// True if containers of etcd's pod have not ended, though etcd has.
    pub sidecars: bool,
    /// True if they write before they end.
    pub sidecars_write: bool,
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
            sidecars: false,
            sidecars_write: false,
        }
    }

    /// The process ends. The facts of the node stay; the staging mount does not.
    pub fn crash(&mut self) {
        self.memory = Memory::default();
        self.sidecars = false; // they end by themselves
        self.node.mount = match &self.node.mount {
            Fact::Known(mount) => Fact::Known(mount.clone()),
            Fact::Unknown(why) => Fact::Unknown(why.clone()),
        };
        self.settle(false);
        // The next observation computes the local data's fingerprint only if the record says LUN.
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
        let record_has_fingerprint = self
            .node
            .record
            .known()
            .and_then(Option::as_ref)
            .is_some_and(|record| record.fingerprint.is_some());
        if let LocalDir::Present { entries, fingerprint, .. } = known(&mut self.node.local)
            && !entries.is_empty()
            && record_has_fingerprint
        {
            *fingerprint = Some(DATA);
        }
        // The fingerprint of a staged copy is read only if the record says that the copy is authoritative.
        let is_authoritative = self.node.rolled_back().is_some();
        let found = if self.shelf_is_copy { DATA } else { OTHER_DATA };
        if let Some(copy) = &mut known(&mut self.node.rollback_staging).copy {
            copy.fingerprint = is_authoritative.then_some(found);
        }
    }

    /// Does what a step is specified to do. Asserts what the real step's guard checks.
    pub fn step(&mut self, step: &Step) {
        let running = known(&mut self.node.etcd).running;
        match step {
            Step::SetInitiatorName { name } => self.node.initiator.name = Fact::Known(Some(name.to_string())),
            Step::Preflight(_) => assert!(running, "trying what comes after a stop when there is no stop"),
            Step::LogOut { sid } => {
                let sessions = known(&mut self.node.sessions);
                let free = sessions.iter().all(|session| session.sid != *sid || session.in_use.is_empty());
                assert!(free, "law 8: logging out a session that is in use");
                sessions.retain(|session| session.sid != *sid);
                if let Fact::Known(LunView::Seen(lun)) = &mut self.node.lun {
                    lun.paths.retain(|path| *path != format!("sd{sid}"));
                }
            }
            // A log-in beside sessions that are there: each portal shows the LUN as one more path of the map.
            Step::LogIn(LogIn { portals, .. }) if matches!(self.node.mount, Fact::Known(Some(_))) => {
                for portal in portals {
                    let sid = known(&mut self.node.sessions).iter().map(|one| one.sid).max().unwrap_or(0) + 1;
                    known(&mut self.node.sessions).push(Session {
                        sid,
                        portal: portal.to_string(),
                        configured: Some(portal.clone()),
                        in_use: Vec::new(),
                        ..session()
                    });
                }
            }
            Step::LogIn(_) => {
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
            Step::UpdateRecord(step) => {
                let records = known(&mut self.node.records).iter_mut();
                records
                    .filter(|record| record.portal == step.portal)
                    .for_each(|record| record.differs.clear());
            }
            Step::DeleteRecord { portal, .. } => {
                let used = known(&mut self.node.sessions).iter().any(|one| one.at().as_ref() == Some(portal));
                assert!(!used, "deleting the record of a session");
                known(&mut self.node.records).retain(|record| record.portal != *portal);
            }
            Step::RemovePath(step) => self.remove_path(step),
            Step::AddPath(step) => self.add_path(step),
            Step::AttachLun(_) if matches!(self.node.mount, Fact::Known(Some(_))) => self.scan(),
            Step::AttachLun(_) | Step::AwaitDisk { .. } => {
                self.node.lun = Fact::Known(LunView::Seen(Box::new(self.behind.clone())))
            }
            Step::BeginRecord { record } => self.node.record = Fact::Known(Some(record.clone())),
            Step::ClearUnfinished { .. } => seen(&mut self.node).content = Fact::Known(Content::Blank),
            Step::Format(Format { uuid, .. }) => {
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
            Step::PreCopy(Copy { way: Way::ToLun, .. }) => assert!(self.memory.staged),
            Step::PreCopy(Copy { way: Way::ToLocal { .. }, .. }) => self.shelve(false),
            Step::CatchUp(CatchUp { way: Way::ToLun, .. }) => assert!(self.memory.staged && running),
            Step::CatchUp(CatchUp { way: Way::ToLocal { .. }, .. }) => {
                assert!(running, "catching up with an etcd that doesn't run");
                self.shelve(false);
            }
            Step::StopEtcd { whole_pod, .. } => {
                self.sidecars = !whole_pod;
                let etcd = known(&mut self.node.etcd);
                etcd.state = EtcdState::Unit("inactive".into());
                etcd.running = false;
                etcd.stopped_by_us = true;
                self.node.cluster = None;
            }
            Step::Copy(Copy { way, provisional, .. }) => {
                assert!(!running && *provisional == self.sidecars, "copying while somebody writes");
                self.copy(*way);
            }
            Step::Measure { .. } => {
                assert!(self.memory.staged && running == known(&mut self.node.etcd).running)
            }
            Step::Prove { way, provisional, .. } => {
                assert_eq!(*provisional, self.sidecars, "proving while somebody writes");
                let is_copy = self.is_copied(*way);
                self.memory.provisional = *provisional && is_copy;
                self.memory.proven = !provisional && is_copy;
            }
            Step::AwaitPodEnd { .. } => {
                assert!(!running, "waiting for the end of a pod that was not stopped");
                if std::mem::take(&mut self.sidecars) && self.sidecars_write {
                    (self.lun_is_copy, self.shelf_is_copy) = (false, false);
                }
            }
            Step::Confirm(Copy { way, .. }) => {
                assert!(!self.sidecars && !running, "confirming while somebody writes");
                if !self.memory.provisional || !self.is_copied(*way) {
                    self.copy(*way);
                }
                self.memory.proven = true;
            }
            Step::Stamp { stamp } => {
                assert!(self.memory.proven && self.lun_is_copy, "stamping without proof");
                self.set_stamp(Some(stamp.clone()));
            }
            Step::Commit { record } => {
                assert!(self.memory.proven && !running, "committing without proof");
                self.node.record = Fact::Known(Some(record.clone().commit(Some(DATA))));
                self.fingerprint();
            }
            Step::Retire(_) => {
                let local = known(&mut self.node.local);
                *local = dir(&[], false);
            }
            Step::Fence { .. } => {
                let local = known(&mut self.node.local);
                assert!(local.is_empty(), "fencing data");
                *local = dir(&[], true);
            }
            Step::Activate { stamp } => {
                assert!(self.memory.staged, "counting a use of a LUN that is not staged");
                let record = known(&mut self.node.record).clone().unwrap();
                assert_eq!(record.authority, Authority::Lun, "counting a use without a commit");
                self.set_stamp(Some(stamp.clone()));
                self.node.record = Fact::Known(Some(record.used(stamp.last_use().unwrap())));
            }
            Step::TakeBack { record } => {
                assert!(self.memory.staged && self.is_unused(), "taking back a commit that served");
                self.node.record = Fact::Known(Some(record.clone()));
            }
            Step::Bar { .. } => {
                let local = known(&mut self.node.local);
                assert!(!running && !local.is_empty(), "barring what is used, or nothing");
                *local = barred(true);
                self.node.barred_data = Fact::Known(Some(BarredData { returns_as: None }));
            }
            Step::WatchLun(_) => assert!(!self.memory.staged, "looking at a LUN that is written to"),
            Step::Claim(Claim { stamp, record, .. }) => {
                assert!(self.memory.staged && known(&mut self.node.local).is_fenced(), "claiming too early");
                self.set_stamp(Some(stamp.clone()));
                self.node.record = Fact::Known(Some(record.clone().used(stamp.last_use().unwrap())));
                self.node.barred_data = Fact::Known(None);
                self.memory.staged = false;
            }
            Step::KeepLocal { record } => {
                assert!(known(&mut self.node.local).is_fenced(), "deciding while etcd can start");
                self.node.record = Fact::Known(Some(record.clone().roll_back(DATA)));
                let returns_as = Some(record.generation);
                self.node.barred_data = Fact::Known(Some(BarredData { returns_as }));
            }
            Step::Unbar { generation } => {
                assert_eq!(self.node.rolled_back(), Some(*generation), "unbarring what is not authoritative");
                self.node.barred_data = Fact::Known(None);
                *known(&mut self.node.rollback_staging) = staged(None);
                self.shelf_is_copy = true;
                self.fingerprint();
            }
            Step::Release { stamp } => {
                assert!(self.memory.staged && self.node.rolled_back().is_some(), "releasing a LUN in use");
                self.set_stamp(Some(stamp.clone()));
                self.memory.staged = false;
                self.settle(false);
            }
            Step::UnmountShutDown { .. } => {
                let shut = known(&mut self.node.mount).as_ref().is_some_and(|mount| mount.io_error);
                assert!(shut && !running, "unmounting what has not shut down, or is in use");
                self.node.mount = Fact::Known(None);
                self.node.mounted_stamp = Fact::Known(None);
                self.settle(false);
            }
            Step::Mark(Mark { stamp, record, .. }) => {
                assert!(self.authoritative_lun_is_mounted(), "counting what is not mounted");
                self.set_stamp(Some(stamp.clone()));
                self.node.mounted_stamp = Fact::Known(Some(stamp.clone()));
                self.node.record = Fact::Known(Some(record.clone().used(stamp.last_use().unwrap())));
            }
            Step::MountData(_) => {
                assert!(!running, "mounting over a running etcd");
                self.memory.staged = false;
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
                assert!(
                    self.memory.proven && !running && !self.sidecars,
                    "unmounting under a running etcd, or without a proven copy"
                );
                self.unmount();
            }
            Step::CommitLocal { record } => {
                assert!(self.memory.proven && !running, "committing without proof");
                assert!(matches!(self.node.mount, Fact::Known(None)), "committing while the LUN is mounted");
                assert!(known(&mut self.node.local).is_fenced(), "committing without a fence");
                self.node.record = Fact::Known(Some(record.clone().roll_back(DATA)));
                self.fingerprint();
            }
            Step::Return { .. } => {
                assert!(
                    self.node.rolled_back().is_some() && !running,
                    "removing the fence without a rollback, or while etcd runs"
                );
                assert!(self.shelf_is_copy, "putting in place what is not a complete copy");
                known(&mut self.node.rollback_staging).copy = None;
                self.shelf_is_copy = false;
                self.local_is_copy = true;
                self.node.local = Fact::Known(dir(&["member"], false));
            }
            Step::ResizeMap { to, .. } => seen(&mut self.node).size = *to,
            Step::Grow(Grow { from, to, .. }) => {
                assert!(self.authoritative_lun_is_mounted(), "growing what is not mounted");
                let size = seen(&mut self.node).size;
                let mount = known(&mut self.node.mount).as_mut().unwrap();
                let (free, now) = mount.free.unwrap();
                assert!(now == *from && *to <= size && from < to, "growing beyond the LUN");
                mount.free = Some((Bytes(free.0 + to.0 - from.0), *to));
            }
            Step::StartEtcd(StartEtcd { on, wait, .. }) => {
                match on {
                    Authority::Lun => assert!(
                        self.authoritative_lun_is_mounted(),
                        "starting etcd while the LUN is not mounted"
                    ),
                    Authority::Local => {
                        let local = known(&mut self.node.local);
                        assert!(!local.is_empty() && self.local_is_copy, "starting etcd without its data");
                        assert!(matches!(self.node.mount, Fact::Known(None)), "starting etcd on the LUN");
                        assert!(
                            self.node.rolled_back().is_some(),
                            "starting etcd on a copy that is not authoritative"
                        );
                    }
                }
                let etcd = known(&mut self.node.etcd);
                if *wait {
                    etcd.state = EtcdState::Unit("active".into());
                }
                etcd.running = *wait;
                etcd.start_queued = !wait;
                etcd.stopped_by_us = false;
                // It runs, and does not answer yet.
                self.node.cluster = Some(Fact::Unknown("connection refused".into()));
            }
            Step::AwaitMember(_) => {
                assert!(running, "waiting for an etcd that was not started");
                self.node.cluster = Some(Fact::Known(cluster(3)));
            }
        }
        if self.memory.staged {
            self.settle(true);
        }
        if let Fact::Known(LunView::Seen(lun)) = &self.node.lun {
            self.behind = (**lun).clone();
        }
    }

    /// What multipathd does. Asserts what the guard reads again: the path is one of the map's only, and another path of it
    /// works, at a portal of the config.
    fn remove_path(&mut self, step: &RemovePath) {
        let RemovePath { map, path, sid } = step;
        let lun = seen(&mut self.node).clone();
        let sessions = known(&mut self.node.sessions);
        let is_path = |one: &Session| one.in_use.iter().any(|disk| lun.paths.contains(disk));
        let works =
            |one: &Session| one.sid != *sid && one.is_logged_in() && one.configured.is_some() && is_path(one);
        assert!(lun.multipath == Multipath::Mapped && lun.device == *map && lun.holders.is_empty());
        assert!(sessions.iter().any(works), "taking away a path without another that works");
        let leaves = sessions.iter_mut().find(|session| session.sid == *sid).unwrap();
        assert_eq!(leaves.in_use, std::slice::from_ref(path), "taking away a path that somebody else uses");
        leaves.in_use.clear();
        seen(&mut self.node).paths.retain(|one| one != path);
    }

    /// Each session without a disk has one then, which the map takes.
    fn scan(&mut self) {
        let sessions = known(&mut self.node.sessions).clone();
        let is_ours = |one: &&mut Session| one.interface.as_deref() == Some("etcd-lun") && one.is_logged_in();
        let outside = seen(&mut self.node).outside_map(&sessions).len();
        let idle =
            known(&mut self.node.sessions).iter_mut().filter(is_ours).filter(|one| one.in_use.is_empty());
        let paths: Vec<_> = idle
            .skip(outside)
            .map(|one| {
                one.in_use.push(format!("scanned{}", one.sid));
                one.in_use[0].clone()
            })
            .collect();
        seen(&mut self.node).paths.extend(paths);
    }

    /// The path is the LUN's, and no session has it in use.
    fn add_path(&mut self, step: &AddPath) {
        let lun = seen(&mut self.node).clone();
        assert!(
            lun.multipath == Multipath::Mapped && lun.device == step.map && lun.paths.contains(&step.path)
        );
        let sessions = known(&mut self.node.sessions);
        assert!(sessions.iter().all(|one| !one.in_use.contains(&step.path)), "adding a path that is in use");
        let free =
            sessions.iter_mut().find(|one| one.in_use.is_empty()).expect("a session without a disk in use");
        free.in_use.push(step.path.clone());
    }

    /// What the cluster answers when it is asked by hand: nobody asks while etcd does not run, and an etcd that was
    /// started by something else serves.
    pub fn ask_cluster(&mut self) {
        let runs = self.node.etcd.known().is_some_and(|etcd| etcd.running);
        if !runs {
            self.node.cluster = None;
        } else if self.node.cluster.is_none() {
            self.node.cluster = Some(Fact::Known(cluster(3)));
        }
    }

    /// Unmounts the LUN, as a shutdown and a rollback do.
    pub fn unmount(&mut self) {
        self.node.mount = Fact::Known(None);
        self.node.mounted_stamp = Fact::Known(None);
        self.settle(false);
        if let Fact::Known(LunView::Seen(lun)) = &self.node.lun {
            self.behind = (**lun).clone();
        }
        if let Fact::Known(sessions) = &mut self.node.sessions {
            sessions.iter_mut().for_each(|session| session.in_use.clear());
        }
    }

    fn authoritative_lun_is_mounted(&self) -> bool {
        let record = self.node.record.known().and_then(Option::as_ref);
        record.is_some_and(|record| record.authority == Authority::Lun)
            && matches!(self.node.mount, Fact::Known(Some(_)))
    }

    fn copy(&mut self, way: Way) {
        match way {
            Way::ToLocal { .. } => self.shelve(true),
            Way::ToLun => {
                assert!(self.memory.staged, "copying to a LUN that is not staged");
                self.lun_is_copy = true;
            }
        }
    }

    fn is_copied(&self, way: Way) -> bool {
        match way {
            Way::ToLocal { .. } => self.shelf_is_copy,
            Way::ToLun => self.lun_is_copy,
        }
    }

    fn shelve(&mut self, is_copy: bool) {
        assert!(self.authoritative_lun_is_mounted(), "copying from a copy that is not authoritative");
        *known(&mut self.node.rollback_staging) = staged(None);
        self.shelf_is_copy = is_copy;
    }

    fn is_unused(&mut self) -> bool {
        matches!(
            &seen(&mut self.node).content,
            Fact::Known(Content::Xfs { stamp: Fact::Known(Some(stamp)), .. }) if stamp.is_unused()
        )
    }

    fn set_stamp(&mut self, new: Option<Stamp>) {
        match &mut seen(&mut self.node).content {
            Fact::Known(Content::Xfs { stamp, .. }) => *stamp = Fact::Known(new),
            content => panic!("stamping {content:?}"),
        }
    }
}
