//! The state of the world, and what must hold in every state.

use crate::outside::OTHERS;
use std::fmt;

/// How many writes etcd has acknowledged. The number of a copy is the last write that it holds.
pub type Writes = u8;

/// etcd's data on the LUN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tree {
    /// An incomplete copy.
    Partial,
    /// A copy that holds everything up to this write. With 0 it is empty.
    Whole(Writes),
}

/// The stamp on the LUN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub generation: u8,
    pub activations: u8,
    /// The nonce of that use.
    pub nonce: u8,
    /// Whether a rollback has released the LUN.
    pub released: bool,
    /// Whether it names this node.
    pub ours: bool,
}

/// What the LUN holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disk {
    Blank,
    /// What a mkfs leaves that was cut short.
    Unfinished(u8),
    Xfs {
        id: u8,
        tree: Tree,
        stamp: Option<Stamp>,
    },
    /// Data of another owner, of any kind.
    Foreign,
}

/// The record on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    pub lun: bool,
    pub generation: u8,
    pub id: u8,
    pub print: Option<Writes>,
    pub activations: u8,
    /// The nonce of that use; none before the commit point.
    pub nonce: Option<u8>,
    /// Number and nonce of the use that the record announces.
    pub announced: Option<(u8, u8)>,
    /// Whether an administrator has rolled back.
    pub rolled_back: bool,
}

/// What a rollback has copied from the LUN before it puts the copy into the data directory's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shelf {
    pub generation: u8,
    pub tree: Tree,
}

/// Local data that a bar has put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Barred {
    pub writes: Writes,
    /// The generation that it becomes: a person returns to it.
    pub returns_as: Option<u8>,
}

/// The data directory on the local disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Local {
    Absent,
    /// An empty directory in which etcd can write.
    Empty,
    /// A directory with a file where etcd must have a directory.
    Barred,
    /// The same, and immutable.
    Fenced,
    Data(Writes),
}

/// The state of etcd, as systemd sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Etcd {
    Down,
    /// Its start waits in the queue of a boot.
    Queued,
    Failed,
    OnLocal,
    OnLun,
}

/// Everything that exists longer than a run of `apply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    /// The last write that etcd acknowledged.
    pub truth: Writes,
    pub local: Local,
    pub record: Option<Record>,
    pub shelf: Option<Shelf>,
    /// Retired data that was not looked at after that.
    pub aside: Option<Writes>,
    pub barred: Option<Barred>,
    pub disk: Disk,
    /// A snapshot that the array keeps.
    pub snapshot: Option<Disk>,
    /// Whether a mount or a mark has counted a use since the snapshot was taken.
    pub counted: bool,
    /// Whether something else has changed the LUN's content since the LUN became authoritative. The newest
    /// writes may then be lost. etcd-lun must only keep etcd from running on this content.
    pub robbed: bool,
    /// Whether something else made etcd write to the local disk when the record already said LUN. There are
    /// two histories then, and only a person can decide between them.
    pub meddled: bool,
    /// Whether the target answers.
    pub reachable: bool,
    pub session: bool,
    pub mounted: bool,
    /// Whether the mounted filesystem has shut down. It must be mounted again before it reads or writes
    /// anything.
    pub shut: bool,
    /// Whether another computer has mounted the LUN too, and counted a use there. The kernel has the filesystem of before in memory.
    pub beneath: bool,
    /// Whether etcd's data is somewhere else: on a second disk, in another directory. The data directory has what was left there.
    pub elsewhere: bool,
    /// Whether the LUN's paths lead to two volumes with one WWID. The other one is blank.
    pub two_volumes: bool,
    pub etcd: Etcd,
    /// Whether the note exists that etcd-lun stopped etcd.
    pub stopped_by_us: bool,
    /// Whether the other members of the cluster are a quorum without this one. Between two runs they always are.
    pub others: bool,
    /// The nonce that this node draws for a use. Another history of the same node, and a clone, draw another one.
    pub nonce: u8,
    /// Whether etcd of a static pod has ended, and other containers of the pod have not: they still see the directory.
    pub sidecars: bool,
}

/// Guards that a mutant can remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guards {
    /// `Retire` leaves a file where etcd must have a directory.
    pub bar: bool,
    /// The fence makes the directory immutable before it removes anything from it.
    pub fence_is_atomic: bool,
    /// A rollback compares the LUN with its copy once more, before the unmount and before the commit.
    pub compare_lun: bool,
    /// The whole source at rest is held against what the copy holds.
    pub proof: bool,
    /// The stamp comes before the commit.
    pub stamp_first: bool,
    /// `Retire` checks that the data is the data that was copied.
    pub fingerprint: bool,
    /// The stamp's generation is checked.
    pub generation: bool,
    /// The stamp's owner is checked.
    pub owner: bool,
    /// The stamp's use counter is checked.
    pub counter: bool,
    /// The filesystem's UUID is checked.
    pub uuid: bool,
    /// etcd is put back on the local disk only if the record says local.
    pub put_back: bool,
    /// The stamp's use counter is raised before the record's.
    pub stamp_before_record: bool,
    /// A mark raises the stamp's use counter.
    pub mark_on_stamp: bool,
    /// A mark raises the record's use counter.
    pub mark_in_record: bool,
    /// A mount or a mark raises the higher of both use counters.
    pub counts_on: bool,
    /// The record announces a use before the stamp gets it.
    pub announces: bool,
    /// A rollback unmounts the LUN before its commit point.
    pub unmount_first: bool,
    /// Whether the mounted filesystem has shut down is checked.
    pub shut: bool,
    /// What the device has beneath the mount is looked at.
    pub in_place: bool,
    /// Where etcd has its data is looked at.
    pub source: bool,
    /// What each path shows is compared.
    pub paths: bool,
    /// A rollback's mark in the record is checked.
    pub rolled_back: bool,
    /// What counts is done after all containers of the pod have ended.
    pub pod_end: bool,
    /// Containers beside etcd are asked to end only while no etcd runs.
    pub pod_is_down: bool,
    /// What was written to the copy is read back from its device.
    pub read_back: bool,
    /// The stamp of the staged LUN is read back from its device.
    pub stamp_read_back: bool,
    /// The whole copy is read from its device once more, before etcd is stopped.
    pub audit: bool,
    /// A look that a step of the protocol does not make.
    pub blind: Option<(&'static str, Look)>,
}

impl Guards {
    pub const ALL: Self = Self {
        bar: true,
        fence_is_atomic: true,
        compare_lun: true,
        proof: true,
        stamp_first: true,
        fingerprint: true,
        generation: true,
        owner: true,
        counter: true,
        uuid: true,
        put_back: true,
        stamp_before_record: true,
        mark_on_stamp: true,
        mark_in_record: true,
        counts_on: true,
        announces: true,
        unmount_first: true,
        shut: true,
        in_place: true,
        source: true,
        paths: true,
        rolled_back: true,
        pod_end: true,
        pod_is_down: true,
        read_back: true,
        stamp_read_back: true,
        audit: true,
        blind: None,
    };
}

/// A look of a step, which a mutant can leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Confirmed,
    Etcd,
    Users,
    Mounted,
    Fenced,
    OnLun,
    Holds,
    Quorum,
    Read,
    ShutDown,
    Stamp,
    Unchanged,
    Unfinished,
}

/// Where etcd would run if it were started now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// etcd cannot start.
    Nowhere,
    Local,
    Lun,
}

impl World {
    pub fn is_running(&self) -> bool {
        matches!(self.etcd, Etcd::OnLocal | Etcd::OnLun)
    }

    pub fn record_says_lun(&self) -> bool {
        self.record.is_some_and(|record| record.lun)
    }

    /// Where etcd would run. An error says why that would lose writes.
    pub fn start(&self) -> Result<Start, String> {
        if self.mounted && self.shut {
            return Ok(Start::Nowhere);
        }
        if self.mounted {
            return match self.disk {
                Disk::Xfs { tree: Tree::Whole(writes), .. } if writes == self.truth => Ok(Start::Lun),
                disk => Err(format!("etcd can start on the LUN, which holds {disk:?}")),
            };
        }
        match self.local {
            _ if self.elsewhere => Ok(Start::Local),
            Local::Barred | Local::Fenced => Ok(Start::Nowhere),
            Local::Data(writes) if writes == self.truth => Ok(Start::Local),
            Local::Data(writes) => Err(format!("etcd can start on local data of write {writes}")),
            // A new member has written nothing, so an empty directory loses nothing.
            Local::Empty | Local::Absent if self.truth == 0 => Ok(Start::Local),
            Local::Empty | Local::Absent => Err("etcd can start in an empty local directory".into()),
        }
    }

    /// What the device holds, past the filesystem in memory.
    pub fn device(&self) -> Disk {
        match self.disk {
            Disk::Xfs { id, stamp: Some(stamp), .. } if self.beneath => {
                let (activations, nonce) = (stamp.activations + 1, OTHERS);
                let stamp = Some(Stamp { activations, nonce, released: false, ..stamp });
                Disk::Xfs { id, tree: Tree::Partial, stamp }
            }
            disk => disk,
        }
    }

    /// Without the mount only the device is left.
    pub fn settled(self) -> Self {
        if self.mounted { self } else { Self { disk: self.device(), beneath: false, ..self } }
    }

    pub fn barred_writes(&self) -> Option<Writes> {
        self.barred.map(|barred| barred.writes)
    }

    /// What must hold in every state.
    pub fn check(&self) -> Result<(), String> {
        self.start()?;
        if self.elsewhere && self.record_says_lun() {
            return Err("data that etcd does not use is authoritative".into());
        }
        match (self.etcd, self.local, self.disk) {
            (Etcd::OnLocal, Local::Data(writes), _) if writes == self.truth || self.elsewhere => {}
            // It had opened the data before that was moved away.
            (Etcd::OnLocal, Local::Barred | Local::Empty | Local::Fenced, _)
                if self.aside.or(self.barred_writes()) == Some(self.truth) => {}
            (Etcd::OnLun, _, Disk::Xfs { tree: Tree::Whole(writes), .. }) if writes == self.truth => {}
            (Etcd::OnLocal | Etcd::OnLun, local, disk) => {
                return Err(format!(
                    "etcd runs ({:?}) on a copy that is not authoritative: {local:?}, {disk:?}",
                    self.etcd
                ));
            }
            (Etcd::Down | Etcd::Queued | Etcd::Failed, _, _) => {}
        }
        if self.mounted && self.record.is_none_or(|record| !record.lun) {
            return Err("the LUN is mounted, but the local copy is authoritative".into());
        }
        if self.etcd == Etcd::OnLocal && self.mounted {
            return Err("the LUN is mounted over a running etcd".into());
        }
        let on_local = self.elsewhere
            || matches!(self.local, Local::Data(writes) if writes == self.truth)
            || self.truth == 0;
        let on_lun = matches!(self.disk, Disk::Xfs { tree: Tree::Whole(writes), .. } if writes == self.truth);
        let on_shelf = self.shelf.is_some_and(|shelf| shelf.tree == Tree::Whole(self.truth));
        let aside = self.barred_writes() == Some(self.truth) || self.aside == Some(self.truth);
        if !on_local && !on_lun && !on_shelf && !aside && !self.robbed {
            return Err("no copy holds the last write".into());
        }
        Ok(())
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "truth {}, local {:?}, record {:?}, shelf {:?}, aside {:?}, barred {:?}, disk {:?}, snapshot {:?}, {}{}{}{}{}{}{}{}{}{}etcd {:?}{}",
            self.truth,
            self.local,
            self.record,
            self.shelf,
            self.aside,
            self.barred,
            self.disk,
            self.snapshot,
            if self.reachable { "reachable, " } else { "" },
            if self.session { "session, " } else { "" },
            if self.mounted { "mounted, " } else { "" },
            if self.shut { "shut down, " } else { "" },
            if self.beneath { "used beneath, " } else { "" },
            if self.elsewhere { "etcd's data is elsewhere, " } else { "" },
            if self.two_volumes { "two volumes, " } else { "" },
            if self.others { "" } else { "no quorum of others, " },
            if self.sidecars { "sidecars, " } else { "" },
            match (self.robbed, self.meddled) {
                (true, _) => "changed behind our back, ",
                (false, true) => "etcd was started beside us, ",
                (false, false) => "",
            },
            self.etcd,
            if self.stopped_by_us { " by us" } else { "" },
        )
    }
}
