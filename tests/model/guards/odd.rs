//! A machine that answers each look as a case says, and only notes what is done to it.

use anyhow::{anyhow, bail};
use apply::{
    machine::{Aside, Confirmed, Effect, Machine, Place, Source},
    pod::EtcdPod,
};
use config::Runtime;
use node::{
    Etcd, Identity,
    authority::{Record, Stamp},
};
use plan::step::Copy;
use std::{
    cell::{Cell, RefCell},
    sync::LazyLock,
};
use support::etcd;
use terms::{AbsPath, Fingerprint, FsUuid, Span, Wwid};

/// What a look of [`Machine`] is called here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    Record,
    Stamp,
    Etcd,
    Users,
    MountedOn,
    IsFenced,
    DataIsOnLun,
    IsUnfinished,
    IsShutDown,
    IsStaged,
    Filesystem,
    HasRetired,
    Hold,
    Fingerprint,
    Unchanged,
    Proof,
    StillHolds,
    Confirm,
    Quorum,
    Pod,
    StampAtRest,
    StampInPlace,
    Pause,
}

impl Look {
    /// True if the look is at what this run keeps in memory, and so cannot fail.
    pub fn cannot_fail(self) -> bool {
        matches!(self, Self::IsStaged | Self::HasRetired | Self::Proof)
    }
}

/// What the looks find.
#[derive(Debug, Clone)]
pub struct Facts {
    pub record: Option<Record>,
    /// The stamp, wherever the LUN is mounted.
    pub stamp: Option<Stamp>,
    /// The stamp on the device beneath a mount.
    pub in_place: Option<Stamp>,
    pub etcd_runs: bool,
    pub users: Vec<String>,
    pub mounted_on: Option<String>,
    pub is_fenced: bool,
    pub data_is_on_lun: bool,
    pub is_unfinished: bool,
    pub is_shut_down: bool,
    pub is_staged: bool,
    pub filesystem: FsUuid,
    pub has_retired: bool,
    pub fingerprint: Fingerprint,
    pub is_unchanged: bool,
    pub proof: Option<Fingerprint>,
    pub still_holds: bool,
    pub confirmed: Confirmed,
    pub is_quorum: bool,
    pub is_in_a_pod: bool,
}

/// How facts change.
pub type Change = fn(&mut Facts);

/// A machine with these facts.
pub struct Odd {
    facts: Facts,
    /// After so many effects and pauses the facts change.
    change: Option<(usize, Change)>,
    /// The look with this number fails.
    failing_look: Option<usize>,
    /// The effect with this number fails.
    failing_effect: Option<usize>,
    /// Each look, with the number of effects and pauses before it.
    pub looks: RefCell<Vec<(usize, Look)>>,
    /// What was done.
    pub effects: Vec<Effect>,
    pauses: usize,
    tried: Cell<usize>,
}

impl Odd {
    pub fn new(facts: Facts) -> Self {
        Self {
            facts,
            change: None,
            failing_look: None,
            failing_effect: None,
            looks: RefCell::default(),
            effects: Vec::new(),
            pauses: 0,
            tried: Cell::default(),
        }
    }

    /// The same machine, with facts that change after so many effects.
    pub fn changing(facts: Facts, after: usize, change: Change) -> Self {
        let mut machine = Self { change: Some((after, change)), ..Self::new(facts) };
        machine.changes();
        machine
    }

    pub fn failing_look(facts: Facts, number: usize) -> Self {
        Self { failing_look: Some(number), ..Self::new(facts) }
    }

    pub fn failing_effect(facts: Facts, number: usize) -> Self {
        Self { failing_effect: Some(number), ..Self::new(facts) }
    }

    fn changes(&mut self) {
        if let Some((after, change)) = self.change
            && after == self.moment()
        {
            change(&mut self.facts);
        }
    }

    fn moment(&self) -> usize {
        self.effects.len() + self.pauses
    }

    fn look(&self, look: Look) -> anyhow::Result<()> {
        let mut looks = self.looks.borrow_mut();
        let number = looks.len();
        looks.push((self.moment(), look));
        if self.failing_look == Some(number) && !look.cannot_fail() {
            bail!("this look fails");
        }
        Ok(())
    }

    fn found<T>(&self, look: Look, fact: impl FnOnce(&Facts) -> T) -> anyhow::Result<T> {
        self.look(look).map(|()| fact(&self.facts))
    }
}

impl Machine for Odd {
    fn identity(&self) -> &Identity {
        static NODE: LazyLock<Identity> = LazyLock::new(support::identity);
        &NODE
    }

    fn record(&self) -> anyhow::Result<Option<Record>> {
        self.found(Look::Record, |facts| facts.record.clone())
    }

    fn stamp(&self, on: Place) -> anyhow::Result<Option<Stamp>> {
        if on == Place::Device {
            return self.found(Look::StampInPlace, |facts| facts.in_place.clone());
        }
        self.found(Look::Stamp, |facts| facts.stamp.clone())
    }

    fn stamp_at_rest(&self, _wwid: &Wwid, _uuid: &FsUuid) -> anyhow::Result<Option<Stamp>> {
        self.found(Look::StampAtRest, |facts| facts.stamp.clone())
    }

    fn etcd(&self) -> anyhow::Result<Etcd> {
        self.found(Look::Etcd, |facts| etcd(if facts.etcd_runs { "active" } else { "inactive" }))
    }

    fn users(&self, _of: &AbsPath) -> anyhow::Result<Vec<String>> {
        self.found(Look::Users, |facts| facts.users.clone())
    }

    fn mounted_on(&self, _data_dir: &AbsPath) -> anyhow::Result<Option<String>> {
        self.found(Look::MountedOn, |facts| facts.mounted_on.clone())
    }

    fn is_fenced(&self, _data_dir: &AbsPath) -> anyhow::Result<bool> {
        self.found(Look::IsFenced, |facts| facts.is_fenced)
    }

    fn data_is_on_lun(&self, _data_dir: &AbsPath) -> anyhow::Result<()> {
        match self.found(Look::DataIsOnLun, |facts| facts.data_is_on_lun)? {
            true => Ok(()),
            false => Err(anyhow!("the data is not on the LUN")),
        }
    }

    fn is_unfinished(&self, _aside: Aside) -> anyhow::Result<bool> {
        self.found(Look::IsUnfinished, |facts| facts.is_unfinished)
    }

    fn is_shut_down(&self, _data_dir: &AbsPath) -> anyhow::Result<bool> {
        self.found(Look::IsShutDown, |facts| facts.is_shut_down)
    }

    fn is_staged(&self) -> bool {
        self.look(Look::IsStaged).is_ok() && self.facts.is_staged
    }

    fn staged_filesystem(&self) -> anyhow::Result<FsUuid> {
        self.found(Look::Filesystem, |facts| facts.filesystem)
    }

    fn has_retired(&self) -> bool {
        self.look(Look::HasRetired).is_ok() && self.facts.has_retired
    }

    fn hold(&mut self, _data_dir: &AbsPath) -> anyhow::Result<()> {
        self.look(Look::Hold)
    }

    fn fingerprint(&mut self, _of: &Source, _seed: u64) -> anyhow::Result<Fingerprint> {
        self.found(Look::Fingerprint, |facts| facts.fingerprint)
    }

    fn unchanged(&self, _of: &Source) -> anyhow::Result<()> {
        match self.found(Look::Unchanged, |facts| facts.is_unchanged)? {
            true => Ok(()),
            false => Err(anyhow!("a file has another time")),
        }
    }

    fn proof(&self) -> Option<Fingerprint> {
        self.look(Look::Proof).ok().and(self.facts.proof)
    }

    fn still_holds(&self, _source: &Source) -> anyhow::Result<Fingerprint> {
        match self.found(Look::StillHolds, |facts| (facts.still_holds, facts.proof))? {
            (true, Some(proof)) => Ok(proof),
            _ => Err(anyhow!("the data has changed since it was compared")),
        }
    }

    fn confirm(&mut self, _of: &Copy) -> anyhow::Result<Confirmed> {
        self.found(Look::Confirm, |facts| facts.confirmed.clone())
    }

    fn others_are_a_quorum(&self) -> anyhow::Result<()> {
        match self.found(Look::Quorum, |facts| facts.is_quorum)? {
            true => Ok(()),
            false => Err(anyhow!("the others are no quorum")),
        }
    }

    fn etcd_pod(&self, _runtime: &Runtime) -> anyhow::Result<Option<EtcdPod>> {
        self.found(Look::Pod, |facts| facts.is_in_a_pod.then(|| EtcdPod("pod".into())))
    }

    fn pause(&mut self, _span: Span) -> anyhow::Result<()> {
        self.look(Look::Pause)?;
        self.pauses += 1;
        self.changes();
        Ok(())
    }

    fn note(&mut self, _text: &str) {}

    fn perform(&mut self, effect: &Effect) -> anyhow::Result<String> {
        if self.failing_effect == Some(self.tried.replace(self.tried.get() + 1)) {
            bail!("this effect fails");
        }
        match effect {
            Effect::WriteRecord { record } => self.facts.record = Some(record.clone()),
            Effect::SetStamp { stamp, .. } => self.facts.stamp = Some(stamp.clone()),
            Effect::RemoveStamp => self.facts.stamp = None,
            _ => {}
        }
        self.effects.push(effect.clone());
        self.changes();
        Ok(String::new())
    }
}
