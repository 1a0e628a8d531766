//! The copy and its proof in the world, and what a machine sees of both sides.

use crate::{
    run::{Event, Run, Stop},
    world::{Disk, Local, Shelf, Stamp, Tree, Writes},
};
use plan::Way;

impl Run<'_> {
    pub fn at_rest(&self) -> Result<(), Stop> {
        if self.world.is_running() {
            return Self::fail("somebody started etcd");
        }
        if self.world.sidecars && self.guards.pod_end {
            return Self::fail("a container of etcd's pod uses the directory");
        }
        Ok(())
    }

    /// Checks that the LUN answers and holds the filesystem that the record names.
    pub fn lun_of_ours(&self) -> Result<(u8, Tree, Option<Stamp>), Stop> {
        match (self.world.disk, self.world.record) {
            _ if !self.world.session || !self.world.reachable => Self::fail("the LUN has gone"),
            _ if self.world.two_volumes && self.guards.paths => Self::fail("two volumes have one WWID"),
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

    /// What the source of a copy holds.
    pub fn writes(&self, way: Way) -> Writes {
        match way {
            Way::ToLun => self.local_writes(),
            Way::ToLocal { .. } => self.lun_writes(),
        }
    }

    pub fn pre_copy(&mut self, way: Way) -> Result<(), Stop> {
        match way {
            Way::ToLun => {
                let (id, _, stamp) = self.lun_of_ours()?;
                self.effect(|world| world.disk = Disk::Xfs { id, tree: Tree::Partial, stamp })
            }
            Way::ToLocal { generation } => self.shelve(generation, Tree::Partial),
        }
    }

    pub fn copy(&mut self, way: Way) -> Result<(), Stop> {
        (self.memory.proven, self.memory.provisional) = (None, None);
        match way {
            Way::ToLun => {
                let (id, _, stamp) = self.lun_of_ours()?;
                self.effect(|world| world.disk = Disk::Xfs { id, tree: Tree::Partial, stamp })?;
                self.lun_of_ours()?;
                let tree = self.copied(way)?;
                self.take(|world| world.disk = Disk::Xfs { id, tree, stamp })
            }
            Way::ToLocal { generation } => {
                self.shelve(generation, Tree::Partial)?;
                let copied = self.copied(way)?;
                self.shelve(generation, copied)
            }
        }
    }

    /// The result of a copy that ends now.
    fn copied(&mut self, way: Way) -> Result<Tree, Stop> {
        let before = self.writes(way);
        let lied = self.device_fails(Some(Event::CopyLies))?;
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

    /// Lets an event come, and says whether it is this fault of the device.
    pub fn device_fails(&mut self, fault: Option<Event>) -> Result<bool, Stop> {
        (self.may_fail, self.has_failed) = (fault, false);
        self.happen()?;
        self.may_fail = None;
        Ok(self.has_failed)
    }

    /// Rounds while etcd runs, and then a read of the whole copy.
    pub fn catch_up(&mut self, way: Way) -> Result<(), Stop> {
        self.memory.ledger_is_wrong = false;
        self.pre_copy(way)?;
        let lied = self.device_fails(Some(Event::CopyLies))?;
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

    /// Compares the source with what the ledger says of the copy. Returns what both hold, if that is the same.
    pub fn compared(&mut self, way: Way) -> Result<Option<Writes>, Stop> {
        (self.memory.proven, self.memory.provisional) = (None, None);
        if way == Way::ToLun {
            self.lun_of_ours()?;
        }
        let writes = self.writes(way);
        Ok((self.memory.copied == Some(writes) || !self.guards.proof).then_some(writes))
    }
}
