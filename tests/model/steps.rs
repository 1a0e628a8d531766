//! What the steps that do not run on a [`machine`](crate::machine) do to the world, effect by effect, in the order in which
//! `apply` makes them durable.

use crate::{
    facts::number,
    run::{Run, Stop},
    support,
    world::{Disk, Etcd, Local, Record, Shelf, Stamp, Tree, Writes},
};
use etcd_lun::{
    node::authority,
    plan::{
        Step, Way,
        step::{CatchUp, Copy},
    },
    terms::RecordedFingerprint,
};

impl Run<'_> {
    fn fail<T>(why: &str) -> Result<T, Stop> {
        Err(Stop::Failed(why.into()))
    }

    pub fn at_rest(&self) -> Result<(), Stop> {
        if self.world.is_running() {
            return Self::fail("somebody started etcd");
        }
        if self.world.sidecars && self.guards.pod_end {
            return Self::fail("a container of etcd's pod uses the directory");
        }
        Ok(())
    }

    fn not_the_truth(&self) -> Result<(), Stop> {
        if self.world.record_says_lun() { Self::fail("the LUN's copy is authoritative") } else { Ok(()) }
    }

    /// Checks that the LUN answers and holds the filesystem that the record names.
    pub fn lun_of_ours(&self) -> Result<(u8, Tree, Option<Stamp>), Stop> {
        match (self.world.disk, self.world.record) {
            _ if !self.world.session || !self.world.reachable => Self::fail("the LUN has gone"),
            (Disk::Xfs { id, tree, stamp }, Some(record)) if id == record.id || !self.guards.uuid => {
                Ok((id, tree, stamp))
            }
            _ => Self::fail("the LUN does not hold the filesystem of the record"),
        }
    }

    pub fn local_writes(&self) -> Writes {
        match self.world.local {
            Local::Data(writes) => writes,
            Local::Absent | Local::Empty | Local::Barred | Local::Fenced => 0,
        }
    }

    pub fn step(&mut self, step: &Step) -> Result<(), Stop> {
        // An event may also come before a step's first effect.
        self.step_begins = true;
        self.effect(|_| ())?;
        self.step_begins = false;
        match step {
            Step::SetInitiatorName { .. }
            | Step::SetTimeout { .. }
            | Step::ResizeMap { .. }
            | Step::UpdateRecord(_)
            | Step::DeleteRecord { .. }
            | Step::RemovePath(_)
            | Step::AddPath(_) => Ok(()),
            // The size of a filesystem is no part of the world: no write depends on it.
            Step::Grow(_) => self.data_is_on_lun().map(drop),
            // It leaves nothing behind.
            Step::Preflight(_) => Ok(()),
            Step::LogOut { .. } => self.effect(|world| world.session = false),
            Step::LogIn(_) if !self.world.reachable => Self::fail("no portal answers"),
            Step::LogIn(_) => self.effect(|world| world.session = true),
            Step::AttachLun(_) | Step::AwaitDisk { .. } if !self.world.reachable => {
                Self::fail("the LUN has gone")
            }
            Step::AttachLun(_) | Step::AwaitDisk { .. } => Ok(()),
            Step::PreCopy(Copy { way: Way::ToLocal { generation }, .. }) => {
                self.data_is_on_lun()?;
                self.shelve(*generation, Tree::Partial)
            }
            Step::PreCopy(Copy { way: Way::ToLun, .. }) => {
                self.not_the_truth()?;
                let (id, _, stamp) = self.lun_of_ours()?;
                self.effect(|world| world.disk = Disk::Xfs { id, tree: Tree::Partial, stamp })
            }
            Step::CatchUp(CatchUp { way, .. }) => self.catch_up(*way),
            Step::StopEtcd { needs_quorum, whole_pod, .. } => {
                self.happen()?;
                if self.world.is_running() && !self.world.others {
                    if *needs_quorum && self.guards.quorum {
                        return Self::fail("the other members are no quorum");
                    }
                    // A member whose filesystem has shut down acknowledges nothing, so it may be stopped.
                    if self.by_hand && !self.world.shut {
                        let why = "a member is stopped by hand while the others are no quorum";
                        return Err(Stop::Broken(why.into()));
                    }
                }
                self.take(|world| world.stopped_by_us = true)?;
                self.effect(|world| {
                    world.etcd = Etcd::Down;
                    world.sidecars = !whole_pod;
                })
            }
            Step::Copy(step) => self.copy(step),
            // This step reads and writes only a file without a name.
            Step::Measure { .. } => Ok(()),
            Step::Prove { way, provisional, .. } => self.prove(*way, *provisional),
            Step::AwaitPodEnd { .. } => {
                self.happen()?;
                if self.world.is_running() {
                    return Self::fail("the manifest was written again");
                }
                let ignored = !self.guards.pod_end;
                self.take(|world| world.sidecars &= ignored)
            }
            Step::Confirm(step) => {
                self.happen()?;
                self.at_rest()?;
                match self.memory.provisional.take() {
                    Some(proven) if proven == self.writes(step.way) => {
                        self.memory.proven = Some(proven);
                        Ok(())
                    }
                    _ => {
                        self.copy(step)?;
                        self.prove(step.way, false)
                    }
                }
            }
            // Nobody else uses the LUN while this is run.
            Step::WatchLun(_) => Ok(()),
            Step::KeepLocal { .. } | Step::Unbar { .. } => Self::fail("nobody runs `claim --local` here"),
            Step::AwaitMember(_) => {
                self.happen()?;
                if self.world.is_running() { Ok(()) } else { Self::fail("the member does not serve") }
            }
            step => self.protocol(step),
        }
    }

    /// What the source of a copy holds.
    fn writes(&self, way: Way) -> Writes {
        match way {
            Way::ToLun => self.local_writes(),
            Way::ToLocal { .. } => self.lun_writes(),
        }
    }

    fn copy(&mut self, step: &Copy) -> Result<(), Stop> {
        match step.way {
            Way::ToLun => self.not_the_truth()?,
            Way::ToLocal { .. } => self.data_is_on_lun()?,
        }
        if !step.provisional {
            self.at_rest()?;
        }
        match step.way {
            Way::ToLun => {
                let (id, _, stamp) = self.lun_of_ours()?;
                self.effect(|world| world.disk = Disk::Xfs { id, tree: Tree::Partial, stamp })?;
                self.lun_of_ours()?;
                let tree = self.copied(step.way)?;
                self.take(|world| world.disk = Disk::Xfs { id, tree, stamp })
            }
            Way::ToLocal { generation } => {
                self.shelve(generation, Tree::Partial)?;
                let copied = self.copied(step.way)?;
                self.shelve(generation, copied)
            }
        }
    }

    /// The result of a copy that ends now.
    fn copied(&mut self, way: Way) -> Result<Tree, Stop> {
        let before = self.writes(way);
        let lied = self.lies()?;
        if lied && self.guards.read_back {
            return Self::fail("the device has not kept what was written");
        }
        // If someone wrote while the source was read, the copy matches no moment.
        let torn = self.world.is_running() || self.writes(way) != before;
        self.memory.copied = (!torn).then_some(before);
        // A block that the ledger takes for right is not written again.
        let wrong = torn || lied || self.memory.ledger_is_wrong || !self.guards.proof;
        Ok(if wrong { Tree::Partial } else { Tree::Whole(before) })
    }

    /// Whether the device lies now.
    fn lies(&mut self) -> Result<bool, Stop> {
        let before = self.lied;
        self.copying = true;
        self.happen()?;
        self.copying = false;
        Ok(self.lied && !before)
    }

    /// Rounds while etcd runs, and then a read of the whole copy.
    fn catch_up(&mut self, way: Way) -> Result<(), Stop> {
        self.memory.ledger_is_wrong = false;
        match way {
            Way::ToLun => {
                self.not_the_truth()?;
                let (id, _, stamp) = self.lun_of_ours()?;
                self.effect(|world| world.disk = Disk::Xfs { id, tree: Tree::Partial, stamp })?;
            }
            Way::ToLocal { generation } => {
                self.data_is_on_lun()?;
                self.shelve(generation, Tree::Partial)?;
            }
        }
        let lied = self.lies()?;
        if lied && self.guards.audit {
            return Self::fail("the device returns something else than before");
        }
        self.memory.ledger_is_wrong = lied;
        Ok(())
    }

    fn shelve(&mut self, generation: u64, tree: Tree) -> Result<(), Stop> {
        let generation = u8::try_from(generation).unwrap();
        self.take(|world| world.shelf = Some(Shelf { generation, tree }))
    }

    pub fn data_is_on_lun(&self) -> Result<(), Stop> {
        let world = &self.world;
        let right = world.mounted && !world.shut && world.record_says_lun() && world.reachable;
        if right { Ok(()) } else { Self::fail("the data is not on the LUN") }
    }

    pub fn lun_writes(&self) -> Writes {
        match self.world.disk {
            Disk::Xfs { tree: Tree::Whole(writes), .. } => writes,
            _ => 0,
        }
    }

    /// Compares the source with what the ledger says of the copy.
    fn prove(&mut self, way: Way, provisional: bool) -> Result<(), Stop> {
        match way {
            Way::ToLun => self.lun_of_ours().map(drop)?,
            Way::ToLocal { .. } => self.data_is_on_lun()?,
        }
        let writes = self.writes(way);
        let same = self.memory.copied == Some(writes) || !self.guards.proof;
        if provisional {
            self.memory.provisional = (same && !self.world.is_running()).then_some(writes);
            return Ok(());
        }
        if !same {
            return Self::fail("the copy is not what was copied");
        }
        if self.guards.proof {
            self.at_rest()?;
        }
        self.memory.proven = Some(writes);
        Ok(())
    }
}

pub fn small(record: &authority::Record) -> Record {
    Record {
        lun: record.authority == authority::Authority::Lun,
        generation: u8::try_from(record.generation).unwrap(),
        id: number(&record.uuid),
        print: record.fingerprint.map(|print| match print {
            RecordedFingerprint::Ours(print) => print.hash[0],
            RecordedFingerprint::Older(_) => panic!("no older version takes part"),
        }),
        activations: u8::try_from(record.activations).unwrap(),
        nonce: record.nonce.map(|nonce| nonce.0[0]),
        announced: record.announced.map(|next| (u8::try_from(next.activations).unwrap(), next.nonce.0[0])),
        rolled_back: record.rolled_back,
    }
}

pub fn small_stamp(stamp: &authority::Stamp) -> Stamp {
    Stamp {
        generation: u8::try_from(stamp.generation).unwrap(),
        activations: u8::try_from(stamp.activations).unwrap(),
        nonce: stamp.nonce.unwrap().0[0],
        released: stamp.released,
        ours: stamp.machine_id == support::MACHINE,
    }
}
