//! The state of the world, and what must hold in every one.

use std::fmt;

/// How many writes etcd has acknowledged; a copy is known by the last that it holds.
pub type Writes = u8;

/// A tree of etcd's data on the LUN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tree {
    /// Not all of a copy.
    Partial,
    /// Everything up to a write; nothing at all for 0.
    Whole(Writes),
}

/// The stamp on the LUN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub generation: u8,
    pub activations: u8,
    /// Whether it names this node.
    pub ours: bool,
}

/// What the LUN holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disk {
    Blank,
    /// What a mkfs that was cut short leaves.
    Unfinished(u8),
    Xfs {
        id: u8,
        tree: Tree,
        stamp: Option<Stamp>,
    },
    /// Somebody else's, of whatever kind.
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
    /// Whether a person rolled back.
    pub rolled_back: bool,
}

/// What a rollback has copied from the LUN, before it takes the data directory's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shelf {
    pub generation: u8,
    pub tree: Tree,
}

/// The data directory on the local disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Local {
    Absent,
    /// Empty, and etcd can write there.
    Empty,
    /// A file where etcd must have a directory.
    Barred,
    /// As above, and immutable.
    Fenced,
    Data(Writes),
}

/// What runs etcd, as systemd sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Etcd {
    Down,
    /// Its start waits in the queue of a boot.
    Queued,
    Failed,
    OnLocal,
    OnLun,
}

/// Everything that outlives a run of `apply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    /// The last write that was acknowledged to anybody.
    pub truth: Writes,
    pub local: Local,
    pub record: Option<Record>,
    pub shelf: Option<Shelf>,
    pub disk: Disk,
    /// A snapshot that the array keeps.
    pub snapshot: Option<Disk>,
    /// Whether a use was counted, by a mount or a mark, since it was taken.
    pub counted: bool,
    /// Whether what is on the LUN was changed behind our back since it became the truth: then the newest writes may be
    /// gone, and all that is left to do is not to run on what is there.
    pub robbed: bool,
    /// Whether somebody else had etcd write to the local disk when the record said LUN already: two histories, which only
    /// a person can judge.
    pub meddled: bool,
    /// Whether the target answers.
    pub reachable: bool,
    pub session: bool,
    pub mounted: bool,
    /// Whether the mounted filesystem has shut down: it reads and writes nothing until it is mounted anew.
    pub shut: bool,
    pub etcd: Etcd,
    /// The note that a run of ours stopped etcd.
    pub stopped_by_us: bool,
}

/// Guards that a mutant can take out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guards {
    /// `Retire` leaves a file where etcd must have a directory.
    pub bar: bool,
    /// The fence makes the directory immutable before anything in it goes.
    pub fence_is_atomic: bool,
    /// Retiring looks for whoever has the retired data open, and takes the exchange back.
    pub rest_after_retire: bool,
    /// The proof compares both trees.
    pub proof: bool,
    /// The stamp comes before the commit.
    pub stamp_first: bool,
    /// `Retire` asks whether the data is what was copied.
    pub fingerprint: bool,
    /// The stamp's generation is looked at.
    pub generation: bool,
    /// The stamp's owner is looked at.
    pub owner: bool,
    /// The stamp's count of activations is looked at.
    pub counter: bool,
    /// The filesystem's UUID is looked at.
    pub uuid: bool,
    /// An etcd that is put back is so only where the record says local.
    pub put_back: bool,
    /// The stamp is counted up before the record is.
    pub stamp_before_record: bool,
    /// A mark raises the count on the stamp.
    pub mark_on_stamp: bool,
    /// A mark raises the count in the record.
    pub mark_in_record: bool,
    /// A mount or a mark counts on from the higher of both counts.
    pub counts_on: bool,
    /// A rollback unmounts the LUN before its commit point.
    pub unmount_first: bool,
    /// That a mounted filesystem has shut down is looked at.
    pub shut: bool,
    /// A rollback's mark in the record is looked at.
    pub rolled_back: bool,
}

impl Guards {
    pub const ALL: Self = Self {
        bar: true,
        fence_is_atomic: true,
        rest_after_retire: true,
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
        unmount_first: true,
        shut: true,
        rolled_back: true,
    };
}

/// What etcd would run on, were it started now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It can't.
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

    /// Where etcd would run; an error is what makes that a loss.
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
            Local::Barred | Local::Fenced => Ok(Start::Nowhere),
            Local::Data(writes) if writes == self.truth => Ok(Start::Local),
            Local::Data(writes) => Err(format!("etcd can start on local data of write {writes}")),
            // A new member: nothing was ever written that it could lack.
            Local::Empty | Local::Absent if self.truth == 0 => Ok(Start::Local),
            Local::Empty | Local::Absent => Err("etcd can start in an empty local directory".into()),
        }
    }

    /// What must hold in every state, whoever is at work.
    pub fn check(&self) -> Result<(), String> {
        self.start()?;
        match (self.etcd, self.local, self.disk) {
            (Etcd::OnLocal, Local::Data(writes), _) if writes == self.truth => {}
            (Etcd::OnLun, _, Disk::Xfs { tree: Tree::Whole(writes), .. }) if writes == self.truth => {}
            (Etcd::OnLocal | Etcd::OnLun, local, disk) => {
                return Err(format!("etcd runs ({:?}) beside the truth: {local:?}, {disk:?}", self.etcd));
            }
            (Etcd::Down | Etcd::Queued | Etcd::Failed, _, _) => {}
        }
        if self.mounted && self.record.is_none_or(|record| !record.lun) {
            return Err("the LUN is mounted, and the truth is local".into());
        }
        if self.etcd == Etcd::OnLocal && self.mounted {
            return Err("the LUN is mounted over a running etcd".into());
        }
        let on_local = matches!(self.local, Local::Data(writes) if writes == self.truth) || self.truth == 0;
        let on_lun = matches!(self.disk, Disk::Xfs { tree: Tree::Whole(writes), .. } if writes == self.truth);
        let on_shelf = self.shelf.is_some_and(|shelf| shelf.tree == Tree::Whole(self.truth));
        if !on_local && !on_lun && !on_shelf && !self.robbed {
            return Err("no copy holds the last write".into());
        }
        Ok(())
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "truth {}, local {:?}, record {:?}, shelf {:?}, disk {:?}, snapshot {:?}, {}{}{}{}{}etcd {:?}{}",
            self.truth,
            self.local,
            self.record,
            self.shelf,
            self.disk,
            self.snapshot,
            if self.reachable { "reachable, " } else { "" },
            if self.session { "session, " } else { "" },
            if self.mounted { "mounted, " } else { "" },
            if self.shut { "shut down, " } else { "" },
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
