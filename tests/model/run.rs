//! A run of `apply` on the world: the program's plans, and each step's effects one by one.

use crate::{
    facts::{config, node, number},
    support,
    world::{Disk, Etcd, Guards, Local, Record, Stamp, Start, Tree, World, Writes},
};
use etcd_lun::{
    node::authority,
    plan::{Occasion, Step, plan},
};

/// What a run keeps in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    pub staged: bool,
    proven: Option<Writes>,
}

/// What happens to a run in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Nothing,
    TargetGone,
    EtcdStarted,
    Written,
    /// The copy is not what it says it is.
    CopyLies,
    /// A person or systemd asks the run to stop.
    Interrupted,
}

/// How a run came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Done,
    Refused(String),
    Failed(String),
    /// Plans that don't come to an end, or an invariant that broke.
    Broken(String),
}

/// The steps that have to be undone, or that must not go on.
enum Stop {
    Failed(String),
    Broken(String),
}

/// A run of `apply`, with one event at one place between two effects.
pub struct Run<'a> {
    pub world: World,
    pub guards: Guards,
    /// Sees the world between any two effects.
    pub between: &'a mut dyn FnMut(World),
    memory: Memory,
    copying: bool,
    lied: bool,
    interrupted: bool,
    event: (usize, Event),
    /// Events that would have changed something, with their places.
    pub possible: Vec<(usize, Event)>,
    place: usize,
}

impl<'a> Run<'a> {
    pub fn new(
        world: World,
        guards: Guards,
        event: (usize, Event),
        between: &'a mut dyn FnMut(World),
    ) -> Self {
        Self {
            world,
            guards,
            between,
            memory: Memory::default(),
            copying: false,
            lied: false,
            interrupted: false,
            event,
            possible: Vec::new(),
            place: 0,
        }
    }

    /// Runs to the end, as `apply` does: observe, plan, act, until nothing is left.
    pub fn whole(&mut self, occasion: Occasion) -> End {
        for _round in 0..6 {
            let planned = plan(config(), &node(&self.world, &self.memory, self.guards), occasion);
            let steps = match planned {
                Ok(plan) if plan.is_empty() => return End::Done,
                Ok(plan) => self.reordered(plan.steps),
                Err(refusal) => return self.ended(End::Refused(refusal.to_string())),
            };
            for step in &steps {
                if self.interrupted {
                    return self.ended(End::Failed("interrupted".into()));
                }
                let acted = self.step(step).and_then(|()| self.effect(|_| ()));
                match acted {
                    Ok(()) => {}
                    Err(Stop::Failed(why)) => {
                        return self.ended(End::Failed(format!("{}: {why}", step.id())));
                    }
                    Err(Stop::Broken(why)) => return End::Broken(format!("{}: {why}", step.id())),
                }
            }
        }
        End::Broken("plans without end".into())
    }

    /// The order of a mutant.
    fn reordered(&self, mut steps: Vec<Step>) -> Vec<Step> {
        let at = |steps: &[Step], id| steps.iter().position(|step| step.id() == id);
        if !self.guards.stamp_first
            && let (Some(stamp), Some(commit)) = (at(&steps, "stamp"), at(&steps, "commit"))
        {
            steps.swap(stamp, commit);
        }
        steps
    }

    /// Before the commit point etcd is put back where it was.
    fn ended(&mut self, end: End) -> End {
        self.memory = Memory::default();
        if self.world.stopped_by_us && !(self.guards.put_back && self.world.record_says_lun()) {
            match self.world.etcd_started() {
                Ok(started) => {
                    // Ours to answer for, and no meddling.
                    let meddled = self.world.meddled;
                    self.world = World { stopped_by_us: false, meddled, ..started.unwrap_or(self.world) };
                }
                Err(why) => return End::Broken(format!("putting etcd back: {why}")),
            }
        }
        end
    }

    /// Does one effect, after which the run may be cut short. The event comes before the effect at its place, after
    /// whatever the step has looked at.
    fn effect(&mut self, act: impl FnOnce(&mut World)) -> Result<(), Stop> {
        self.happen()?;
        self.take(act)
    }

    fn take(&mut self, act: impl FnOnce(&mut World)) -> Result<(), Stop> {
        act(&mut self.world);
        if self.world.etcd == Etcd::OnLocal && self.world.record_says_lun() {
            self.world.meddled = true;
        }
        self.world.check().map_err(Stop::Broken)?;
        (self.between)(self.world);
        Ok(())
    }

    fn happen(&mut self) -> Result<(), Stop> {
        let place = self.place;
        if self.event.1 == Event::Nothing {
            let world = &self.world;
            let can_start = !world.is_running() && !matches!(world.start(), Ok(Start::Nowhere));
            let possible = [
                (Event::TargetGone, world.reachable),
                (Event::EtcdStarted, can_start),
                (Event::Written, world.written().is_some()),
                (Event::CopyLies, self.copying),
                (Event::Interrupted, true),
            ];
            self.possible.extend(possible.iter().filter(|(_, can)| *can).map(|(event, _)| (place, *event)));
        } else if place == self.event.0 {
            let world = match self.event.1 {
                Event::Nothing => Ok(None),
                Event::TargetGone => Ok(Some(self.world.lost_target())),
                Event::EtcdStarted => self.world.etcd_started(),
                Event::Written => Ok(self.world.written()),
                Event::CopyLies => {
                    self.lied = true;
                    Ok(None)
                }
                Event::Interrupted => {
                    self.interrupted = true;
                    Ok(None)
                }
            };
            self.world = world.map_err(Stop::Broken)?.unwrap_or(self.world);
        }
        self.place += 1;
        Ok(())
    }

    fn fail<T>(why: &str) -> Result<T, Stop> {
        Err(Stop::Failed(why.into()))
    }

    fn at_rest(&self) -> Result<(), Stop> {
        if self.world.is_running() { Self::fail("somebody started etcd") } else { Ok(()) }
    }

    fn not_the_truth(&self) -> Result<(), Stop> {
        if self.world.record_says_lun() { Self::fail("the LUN is the truth") } else { Ok(()) }
    }

    /// The LUN answers, and holds the filesystem that the record names.
    fn lun_of_ours(&self) -> Result<(u8, Tree, Option<Stamp>), Stop> {
        match (self.world.disk, self.world.record) {
            _ if !self.world.session || !self.world.reachable => Self::fail("the LUN has gone"),
            (Disk::Xfs { id, tree, stamp }, Some(record)) if id == record.id || !self.guards.uuid => {
                Ok((id, tree, stamp))
            }
            _ => Self::fail("the LUN does not hold the filesystem of the record"),
        }
    }

    fn local_writes(&self) -> Writes {
        match self.world.local {
            Local::Data(writes) => writes,
            Local::Absent | Local::Empty | Local::Barred | Local::Fenced => 0,
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        // Before its first effect, too.
        self.effect(|_| ())?;
        match step {
            Step::SetInitiatorName { .. } | Step::RestartIscsid => Ok(()),
            Step::LogOut { .. } => self.effect(|world| world.session = false),
            Step::LogIn { .. } if !self.world.reachable => Self::fail("no portal answers"),
            Step::LogIn { .. } => self.effect(|world| world.session = true),
            Step::AttachLun { .. } if !self.world.reachable => Self::fail("the LUN has gone"),
            Step::AttachLun { .. } => Ok(()),
            Step::BeginRecord { record } => {
                let record = small(record);
                self.effect(|world| world.record = Some(record))
            }
            Step::ClearUnfinished { .. } => {
                self.not_the_truth()?;
                self.effect(|world| world.disk = Disk::Blank)
            }
            Step::Format { uuid, .. } => {
                self.not_the_truth()?;
                match self.world.disk {
                    _ if !self.world.session || !self.world.reachable => {
                        return Self::fail("the LUN has gone");
                    }
                    Disk::Blank => {}
                    _ => return Self::fail("the LUN is not blank now"),
                }
                let id = number(uuid);
                self.effect(|world| world.disk = Disk::Unfinished(id))?;
                self.effect(|world| world.disk = Disk::Xfs { id, tree: Tree::Whole(0), stamp: None })
            }
            Step::Stage { .. } => {
                self.memory.staged = false;
                self.lun_of_ours()?;
                self.memory.staged = true;
                Ok(())
            }
            Step::Unstamp => {
                self.not_the_truth()?;
                let (id, tree, _) = self.lun_of_ours()?;
                self.effect(|world| world.disk = Disk::Xfs { id, tree, stamp: None })
            }
            Step::PreCopy { .. } => {
                self.not_the_truth()?;
                let (id, _, stamp) = self.lun_of_ours()?;
                self.effect(|world| world.disk = Disk::Xfs { id, tree: Tree::Partial, stamp })
            }
            Step::StopEtcd { .. } => {
                self.effect(|world| world.stopped_by_us = true)?;
                self.effect(|world| world.etcd = Etcd::Down)
            }
            Step::Copy { .. } => self.copy(),
            Step::Prove { .. } => self.prove(),
            Step::Stamp { stamp } => {
                if self.memory.proven.is_none() {
                    return Self::fail("not proven");
                }
                if self.guards.stamp_first {
                    self.not_the_truth()?;
                }
                let (id, tree, _) = self.lun_of_ours()?;
                let stamp = Some(small_stamp(stamp));
                self.effect(|world| world.disk = Disk::Xfs { id, tree, stamp })
            }
            Step::Commit { record } => {
                let Some(proven) = self.memory.proven else { return Self::fail("not proven") };
                self.not_the_truth()?;
                self.at_rest()?;
                let record = Record { lun: true, print: Some(proven), activations: 1, ..small(record) };
                self.effect(|world| world.record = Some(record))
            }
            Step::Retire { fingerprint, .. } => self.retire(fingerprint.is_some()),
            Step::Fence { .. } => self.fence(),
            Step::Activate { stamp, record } => self.activate(small_stamp(stamp), small(record)),
            Step::MountData { .. } => {
                self.happen()?;
                // A mount of a LUN that doesn't answer fails.
                self.lun_of_ours()?;
                self.at_rest()?;
                self.take(|world| world.mounted = true)
            }
            Step::StartEtcd { wait, .. } => {
                if !self.world.mounted || !self.world.reachable {
                    return Self::fail("the LUN is not mounted");
                }
                let started = self.world.etcd_started().map_err(Stop::Broken)?.unwrap_or(self.world);
                let etcd = if *wait || self.world.is_running() { started.etcd } else { Etcd::Queued };
                self.effect(|world| *world = World { etcd, stopped_by_us: false, ..*world })
            }
        }
    }

    fn copy(&mut self) -> Result<(), Stop> {
        self.not_the_truth()?;
        self.at_rest()?;
        let (id, _, stamp) = self.lun_of_ours()?;
        self.effect(|world| world.disk = Disk::Xfs { id, tree: Tree::Partial, stamp })?;
        self.lun_of_ours()?;
        // What rsync read while etcd wrote is no copy of any moment.
        self.copying = true;
        self.happen()?;
        self.copying = false;
        let torn = self.world.is_running() || self.lied;
        let tree = if torn { Tree::Partial } else { Tree::Whole(self.local_writes()) };
        self.take(|world| world.disk = Disk::Xfs { id, tree, stamp })
    }

    fn prove(&mut self) -> Result<(), Stop> {
        let (_, tree, _) = self.lun_of_ours()?;
        let local = self.local_writes();
        if self.guards.proof {
            if tree != Tree::Whole(local) {
                return Self::fail("the copy is not what is on the local disk");
            }
            self.at_rest()?;
        }
        self.memory.proven = Some(local);
        Ok(())
    }

    fn retire(&mut self, by_record: bool) -> Result<(), Stop> {
        self.at_rest()?;
        let expected = match self.world.record {
            Some(record) if by_record => record.print,
            _ => self.memory.proven,
        };
        if self.guards.fingerprint && expected != Some(self.local_writes()) {
            return Self::fail("the local data has changed");
        }
        let left = if self.guards.bar { Local::Barred } else { Local::Empty };
        // Whoever opened the data in this moment is found in it afterwards, and the exchange is taken back.
        self.happen()?;
        if self.guards.rest_after_retire {
            self.at_rest()?;
        }
        self.take(|world| world.local = left)
    }

    fn fence(&mut self) -> Result<(), Stop> {
        // The bar is a file that only comes to be where there is none of its name: etcd's directory has it.
        self.happen()?;
        match self.world.local {
            Local::Data(_) => return Self::fail("only an empty directory is fenced"),
            Local::Absent | Local::Empty if self.guards.bar => {
                self.take(|world| world.local = Local::Barred)?
            }
            Local::Absent | Local::Empty | Local::Barred | Local::Fenced => {}
        }
        if !self.guards.fence_is_atomic {
            self.effect(|world| world.local = Local::Empty)?;
        }
        self.effect(|world| world.local = Local::Fenced)
    }

    fn activate(&mut self, stamp: Stamp, record: Record) -> Result<(), Stop> {
        let (id, tree, _) = self.lun_of_ours()?;
        let count = |world: &mut World| world.disk = Disk::Xfs { id, tree, stamp: Some(stamp) };
        let note = |world: &mut World| world.record = Some(record);
        if self.guards.stamp_before_record {
            self.effect(count)?;
            self.effect(note)
        } else {
            self.effect(note)?;
            self.lun_of_ours()?;
            self.effect(count)
        }
    }
}

fn small(record: &authority::Record) -> Record {
    Record {
        lun: record.authority == authority::Authority::Lun,
        generation: u8::try_from(record.generation).unwrap(),
        id: number(&record.uuid),
        print: record.fingerprint.map(|print| print.0[0]),
        activations: u8::try_from(record.activations).unwrap(),
    }
}

fn small_stamp(stamp: &authority::Stamp) -> Stamp {
    Stamp {
        generation: u8::try_from(stamp.generation).unwrap(),
        activations: u8::try_from(stamp.activations).unwrap(),
        ours: stamp.machine_id == support::MACHINE,
    }
}
