//! The facts of a node as a machine of the program: its own steps look at these facts and change them.

use super::*;
use anyhow::{anyhow, bail, ensure};
use apply::{
    machine::{Aside, Confirmed, Effect, Machine, Place, Source},
    pod::EtcdPod,
};
use node::BarredData;
use plan::{Way, step::Copy};
use terms::{AbsPath, Fingerprint, FsUuid, Span, Wwid};

pub fn seen(node: &mut Node) -> &mut Lun {
    match known(&mut node.lun) {
        LunView::Seen(lun) => lun,
        view => panic!("no LUN: {view:?}"),
    }
}

/// What a run of `apply` keeps in memory and loses when it is interrupted.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The copy that is proven.
    proven: Option<Way>,
    provisional: bool,
    staged: bool,
    retired: bool,
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

impl Machine for World {
    fn identity(&self) -> &node::Identity {
        &self.node.identity
    }

    fn record(&self) -> anyhow::Result<Option<Record>> {
        self.node.record.require().cloned().map_err(|why| anyhow!("{why}"))
    }

    fn stamp(&self, on: Place) -> anyhow::Result<Option<Stamp>> {
        let is_there = match on {
            Place::Staging => self.memory.staged,
            Place::Held | Place::Mounted | Place::Device => matches!(self.node.mount, Fact::Known(Some(_))),
        };
        ensure!(is_there, "nothing is mounted at {on:?}");
        match self.content()? {
            Content::Xfs { stamp, .. } => stamp.require().cloned().map_err(|why| anyhow!("{why}")),
            content => bail!("no stamp can be on {content:?}"),
        }
    }

    fn stamp_at_rest(&self, _wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<Option<Stamp>> {
        ensure!(!self.memory.staged, "looking at a LUN that is written to");
        match self.content()? {
            Content::Xfs { uuid: found, stamp, .. } if found == uuid => {
                stamp.require().cloned().map_err(|why| anyhow!("{why}"))
            }
            content => bail!("the LUN has {content:?}"),
        }
    }

    fn etcd(&self) -> anyhow::Result<Etcd> {
        self.node.etcd.require().cloned().map_err(|why| anyhow!("{why}"))
    }

    fn users(&self, _of: &AbsPath) -> anyhow::Result<Vec<String>> {
        Ok(if self.is_in_use() { vec!["somebody".into()] } else { Vec::new() })
    }

    fn mounted_on(&self, _data_dir: &AbsPath) -> anyhow::Result<Option<String>> {
        let mount = self.node.mount.require().map_err(|why| anyhow!("{why}"))?;
        Ok(mount.as_ref().map(|_| "the LUN".into()))
    }

    fn is_fenced(&self, _data_dir: &AbsPath) -> anyhow::Result<bool> {
        Ok(self.local()?.is_fenced())
    }

    fn data_is_on_lun(&self, _data_dir: &AbsPath) -> anyhow::Result<()> {
        ensure!(self.authoritative_lun_is_mounted(), "the authoritative LUN is not mounted");
        Ok(())
    }

    /// Runs are cut short between steps only here, and each step marks what it puts aside.
    fn is_unfinished(&self, _aside: Aside) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn is_shut_down(&self, _data_dir: &AbsPath) -> anyhow::Result<bool> {
        Ok(self.node.mount.known().and_then(Option::as_ref).is_some_and(|mount| mount.io_error))
    }

    fn is_staged(&self) -> bool {
        self.memory.staged
    }

    fn staged_filesystem(&self) -> anyhow::Result<FsUuid> {
        match self.content()? {
            Content::Xfs { uuid, .. } => Ok(*uuid),
            content => bail!("no filesystem can be on {content:?}"),
        }
    }

    fn has_retired(&self) -> bool {
        self.memory.retired
    }

    fn hold(&mut self, _data_dir: &AbsPath) -> anyhow::Result<()> {
        Ok(())
    }

    /// A directory holds [`DATA`], unless its facts say otherwise.
    fn fingerprint(&mut self, of: &Source, _seed: u64) -> anyhow::Result<Fingerprint> {
        match (of, self.local()?) {
            (Source::Dir(path), LocalDir::Present { fingerprint: Some(found), .. })
                if *path == record().data_dir =>
            {
                Ok(*found)
            }
            _ => Ok(DATA),
        }
    }

    fn unchanged(&self, _of: &Source) -> anyhow::Result<()> {
        Ok(())
    }

    fn proof(&self) -> Option<Fingerprint> {
        self.memory.proven.map(|_| DATA)
    }

    fn still_holds(&self, _source: &Source) -> anyhow::Result<Fingerprint> {
        match self.memory.proven {
            Some(way) if self.is_copied(way) => Ok(DATA),
            proven => bail!("the proof of {proven:?} does not hold"),
        }
    }

    fn confirm(&mut self, of: &Copy) -> anyhow::Result<Confirmed> {
        let is_copied = self.is_copied(of.way);
        match std::mem::take(&mut self.memory.provisional) {
            false => Ok(Confirmed::Nothing),
            true if !is_copied => Ok(Confirmed::Changed("a container has written".into())),
            true => {
                self.memory.proven = Some(of.way);
                Ok(Confirmed::Holds(DATA))
            }
        }
    }

    fn others_are_a_quorum(&self) -> anyhow::Result<()> {
        Ok(())
    }

    fn etcd_pod(&self, runtime: &Runtime) -> anyhow::Result<Option<EtcdPod>> {
        Ok(matches!(runtime, Runtime::StaticPod { .. }).then(|| EtcdPod("pod".into())))
    }

    fn pause(&mut self, _span: Span) -> anyhow::Result<()> {
        Ok(())
    }

    fn note(&mut self, _text: &str) {}

    fn perform(&mut self, effect: &Effect) -> anyhow::Result<String> {
        match effect {
            Effect::WriteRecord { record } => {
                self.node.record = Fact::Known(Some(record.clone()));
                self.fingerprints();
            }
            Effect::SetStamp { on, stamp } => {
                self.set_stamp(Some(stamp.clone()))?;
                if *on != Place::Staging {
                    self.node.mounted_stamp = Fact::Known(Some(stamp.clone()));
                }
            }
            Effect::RemoveStamp => self.set_stamp(None)?,
            Effect::StopEtcd { whole_pod, .. } => {
                self.sidecars = !whole_pod;
                let etcd = known(&mut self.node.etcd);
                etcd.state = EtcdState::Unit("inactive".into());
                etcd.running = false;
                etcd.stopped_by_us = true;
                self.node.cluster = None;
            }
            Effect::EndOthers { .. } => {
                ensure!(!self.runs(), "containers beside a running etcd are asked to end")
            }
            Effect::AwaitPodEnd { .. } => {
                ensure!(!self.runs(), "the pod was not stopped");
                if std::mem::take(&mut self.sidecars) && self.sidecars_write {
                    (self.lun_is_copy, self.shelf_is_copy) = (false, false);
                }
            }
            Effect::PreCopy { copy } => self.copies(copy.way, false)?,
            Effect::CatchUp { catch_up } => {
                ensure!(self.runs(), "catching up with an etcd that does not run");
                self.copies(catch_up.way, false)?;
            }
            Effect::Copy { copy } => {
                ensure!(copy.provisional || !self.is_in_use(), "copying while somebody writes");
                (self.memory.proven, self.memory.provisional) = (None, false);
                self.copies(copy.way, true)?;
            }
            Effect::Prove { way, .. } => {
                self.memory.provisional = false;
                ensure!(self.is_copied(*way), "the copy is not what was copied");
                self.memory.proven = Some(*way);
            }
            Effect::ProveProvisionally { way, .. } => {
                self.memory.proven = None;
                self.memory.provisional = self.is_copied(*way);
            }
            Effect::ForgetProof => (self.memory.proven, self.memory.provisional) = (None, false),
            Effect::ClearUnfinished { .. } => seen(&mut self.node).content = Fact::Known(Content::Blank),
            Effect::Format { format } => {
                ensure!(*self.content()? == Content::Blank, "the LUN is not blank");
                seen(&mut self.node).content = Fact::Known(xfs(format.uuid, None, false));
                self.lun_is_copy = false;
            }
            Effect::Stage { uuid, .. } => {
                ensure!(matches!(self.content()?, Content::Xfs { uuid: found, .. } if found == uuid));
                self.memory.staged = true;
            }
            Effect::StageAgain => {
                let uuid = Machine::record(self)?.map(|record| record.uuid);
                ensure!(matches!(self.content()?, Content::Xfs { uuid: found, .. } if Some(*found) == uuid));
                self.memory.staged = true;
            }
            Effect::Unstage => {
                self.memory.staged = false;
                self.settle(false);
            }
            Effect::LeaveStaging => self.memory.staged = false,
            Effect::Expose { .. } => {
                ensure!(!self.runs(), "mounting over a running etcd");
                self.mount()?;
            }
            Effect::TakeBack { .. } | Effect::Unmount { .. } => self.unmount(),
            Effect::PutAside { .. } => {
                ensure!(!self.local()?.is_empty(), "there is no data to put aside");
                *known(&mut self.node.local) = barred(false);
            }
            Effect::PutBack { .. } => *known(&mut self.node.local) = dir(&["member"], false),
            Effect::MarkAside { aside: Aside::Retired { .. }, .. } => self.memory.retired = true,
            Effect::MarkAside { aside: Aside::Barred, .. } => {
                self.node.barred_data = Fact::Known(Some(BarredData { returns_as: None }));
            }
            Effect::Bar { .. } => {
                ensure!(self.local()?.is_empty(), "fencing data");
                if !self.local()?.is_fenced() {
                    *known(&mut self.node.local) = barred(false);
                }
            }
            Effect::MakeImmutable { .. } => {
                ensure!(self.local()?.is_empty(), "fencing data");
                *known(&mut self.node.local) = dir(&[], true);
            }
            Effect::Return { .. } => {
                ensure!(self.shelf_is_copy, "putting in place what is not a complete copy");
                known(&mut self.node.rollback_staging).copy = None;
                self.shelf_is_copy = false;
                self.local_is_copy = true;
                self.node.local = Fact::Known(dir(&["member"], false));
            }
            Effect::StartEtcd { wait, .. } => self.start(*wait)?,
            Effect::RetireBarred { .. } => self.node.barred_data = Fact::Known(None),
            Effect::ChooseBarred { generation } => {
                let returns_as = Some(*generation);
                self.node.barred_data = Fact::Known(Some(BarredData { returns_as }));
            }
            Effect::Unbar { .. } => {
                self.node.barred_data = Fact::Known(None);
                *known(&mut self.node.rollback_staging) = staged(None);
                self.shelf_is_copy = true;
                self.fingerprints();
            }
        }
        Ok(String::new())
    }
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
        self.settle(false);
        // The next observation computes the local data's fingerprint only if the record says LUN.
        self.fingerprints();
    }

    pub fn settle(&mut self, now: bool) {
        if let Fact::Known(LunView::Seen(lun)) = &mut self.node.lun
            && let Fact::Known(Content::Xfs { settled, empty, .. }) = &mut lun.content
        {
            *settled = now;
            *empty = now.then_some(!self.lun_is_copy);
        }
    }

    pub fn fingerprints(&mut self) {
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

    pub fn authoritative_lun_is_mounted(&self) -> bool {
        let record = self.node.record.known().and_then(Option::as_ref);
        record.is_some_and(|record| record.authority == Authority::Lun)
            && matches!(self.node.mount, Fact::Known(Some(_)))
    }

    fn local(&self) -> anyhow::Result<&LocalDir> {
        self.node.local.require().map_err(|why| anyhow!("{why}"))
    }

    fn content(&self) -> anyhow::Result<&Content> {
        match self.node.lun.known() {
            Some(LunView::Seen(lun)) => lun.content.require().map_err(|why| anyhow!("{why}")),
            view => bail!("no LUN is attached: {view:?}"),
        }
    }

    fn runs(&self) -> bool {
        self.node.etcd.known().is_some_and(|etcd| etcd.running)
    }

    fn is_in_use(&self) -> bool {
        self.runs() || self.sidecars
    }

    fn is_copied(&self, way: Way) -> bool {
        match way {
            Way::ToLocal { .. } => self.shelf_is_copy,
            Way::ToLun => self.lun_is_copy,
        }
    }

    /// Copies. The copy is `whole` unless etcd runs meanwhile.
    fn copies(&mut self, way: Way, whole: bool) -> anyhow::Result<()> {
        match way {
            Way::ToLocal { .. } => {
                ensure!(self.authoritative_lun_is_mounted(), "copying from a copy that is not authoritative");
                *known(&mut self.node.rollback_staging) = staged(None);
                self.shelf_is_copy = whole;
            }
            Way::ToLun => {
                ensure!(self.memory.staged, "copying to a LUN that is not staged");
                self.lun_is_copy |= whole;
            }
        }
        Ok(())
    }

    fn set_stamp(&mut self, new: Option<Stamp>) -> anyhow::Result<()> {
        match &mut seen(&mut self.node).content {
            Fact::Known(Content::Xfs { stamp, .. }) => {
                *stamp = Fact::Known(new);
                Ok(())
            }
            content => bail!("stamping {content:?}"),
        }
    }

    fn mount(&mut self) -> anyhow::Result<()> {
        self.node.mounted_stamp = Fact::Known(self.stamp(Place::Staging)?);
        let mount = DataMount { free: Some((Bytes(15 << 30), Bytes(20 << 30))), ..data_mount("8:16") };
        self.node.mount = Fact::Known(Some(mount));
        if let Fact::Known(sessions) = &mut self.node.sessions {
            sessions.iter_mut().for_each(|session| session.in_use = vec!["sdb".into()]);
        }
        Ok(())
    }

    /// Starts etcd on what the data directory leads to.
    fn start(&mut self, wait: bool) -> anyhow::Result<()> {
        let is_mounted = matches!(self.node.mount, Fact::Known(Some(_)));
        ensure!(is_mounted || !self.local()?.is_empty(), "starting etcd without its data");
        let etcd = known(&mut self.node.etcd);
        if wait {
            etcd.state = EtcdState::Unit("active".into());
        }
        etcd.running = wait;
        etcd.start_queued = !wait;
        etcd.stopped_by_us = false;
        // It runs, and does not answer yet.
        self.node.cluster = Some(Fact::Unknown("connection refused".into()));
        Ok(())
    }
}
