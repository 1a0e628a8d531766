//! A run of `apply`, `rollback` or `mark` in the world: the program's plans, events during the run, and
//! putting etcd back.

use crate::{
    planner::Planner,
    world::{Disk, Etcd, Guards, Stamp, Start, World, Writes},
};
use apply::MAX_ROUNDS;
use plan::{Attempt, Goal, ProtocolStep, Refusal, Step, Undo};

/// What runs etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Unit,
    StaticPod,
}

/// The verb that is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `apply` or `rollback`.
    Run(Goal),
    /// `mark`.
    Mark,
}

/// What a run keeps in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    pub staged: bool,
    /// The target was lost during this run, which had a session.
    pub session_lost: bool,
    /// The local data was retired, and nobody used it after that.
    pub retired: bool,
    /// What the last copy was of, if its source did not change meanwhile.
    pub copied: Option<Writes>,
    /// A block of the copy has changed on its device since the ledger took it.
    pub ledger_is_wrong: bool,
    pub proven: Option<Writes>,
    pub provisional: Option<Writes>,
    /// A stamp that the node's kernel has, and the device has lost.
    pub stamp: Option<Stamp>,
}

/// An event during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    TargetGone,
    /// The target answers again.
    TargetBack,
    /// The array has another volume behind the LUN, which holds what no tool knows.
    LunIsForeign,
    /// The array has another volume behind the LUN: this node's, after another node has used it.
    LunWasUsed,
    /// A clone of this node counts a use on the LUN, and serves there.
    CloneServes,
    ShutDown,
    EtcdStarted,
    /// Something starts etcd, which accepts a write and ends.
    EtcdFlickered,
    Written,
    /// A container of etcd's pod, but not etcd, writes to the directory.
    SidecarWrites,
    /// The LUN reports success, and does not hold what was written. Or it changes what it held.
    CopyLies,
    /// The LUN reports that a stamp is written, and does not keep it.
    StampLost,
    /// An effect changes nothing, and fails: the node's disk is full, for example, or a tool is.
    Fails,
    /// A person or systemd asks the run to stop.
    Interrupted,
    /// So many of the other members go down that the rest is no quorum.
    OthersGone,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Done,
    Refused(String),
    Failed(String),
    /// The plans never end, or an invariant is broken.
    Broken(String),
}

/// Why a step stopped.
#[derive(Debug)]
pub enum Stop {
    Failed(String),
    Broken(String),
}

/// Events of a run, in their order, each with its place between two effects.
pub type Events<'a> = &'a [(usize, Event)];

/// A run with these events.
pub struct Run<'a> {
    pub world: World,
    pub guards: Guards,
    planner: &'a Planner,
    /// Called with the world after each effect.
    pub between: &'a mut dyn FnMut(World),
    pub memory: Memory,
    /// The fault that the device may have now.
    pub may_fail: Option<Event>,
    /// Whether it has had it.
    pub has_failed: bool,
    pub step_begins: bool,
    /// Whether the run waits, to see whether somebody else uses the LUN.
    pub is_watching: bool,
    /// Whether the world may be one in which etcd must not start, until the run has ended.
    pub unchecked: bool,
    /// Whether a person runs this, so that the other members are asked.
    pub by_hand: bool,
    /// What an effect has broken, though its step goes on without it.
    pub broken: Option<&'static str>,
    interrupted: bool,
    events: Events<'a>,
    /// Events that are possible once those of this run have happened, with their places.
    pub possible: Vec<(usize, Event)>,
    place: usize,
    /// The first step of the protocol, and the one that unmounts the LUN, once they have begun.
    begun: Vec<Step>,
    saw: Attempt<'static>,
}

impl<'a> Run<'a> {
    pub fn new(
        world: World,
        planner: &'a Planner,
        events: Events<'a>,
        between: &'a mut dyn FnMut(World),
    ) -> Self {
        Self {
            world,
            guards: planner.guards,
            planner,
            between,
            memory: Memory::default(),
            may_fail: None,
            has_failed: false,
            step_begins: false,
            is_watching: false,
            unchecked: false,
            by_hand: false,
            broken: None,
            interrupted: false,
            events,
            possible: Vec::new(),
            place: 0,
            begun: Vec::new(),
            saw: Attempt::default(),
        }
    }

    pub fn verb(&mut self, verb: Verb) -> End {
        match verb {
            Verb::Run(goal) => self.whole(goal),
            Verb::Mark => self.mark(),
        }
    }

    /// Runs `mark`, which has one step or none.
    fn mark(&mut self) -> End {
        let steps = match self.planner.mark(&self.world).0 {
            Ok(steps) => steps,
            Err(refusal) => return End::Refused(refusal.to_string()),
        };
        let Some(step) = steps.first() else { return End::Done };
        match self.step(step).and_then(|()| self.effect(|_| ())) {
            Ok(()) => End::Done,
            Err(Stop::Failed(why)) => End::Failed(format!("{}: {why}", step.id())),
            Err(Stop::Broken(why)) => End::Broken(format!("{}: {why}", step.id())),
        }
    }

    /// Runs to the end as `apply` does: observes, plans and acts until nothing is left.
    pub fn whole(&mut self, goal: Goal) -> End {
        self.by_hand = goal.asks_cluster();
        for _round in 0..MAX_ROUNDS {
            let (planned, saw) = self.planner.plan(goal, &self.world, self.memory.staged);
            self.saw.saw_lun |= saw.saw_lun;
            self.saw.is_kept_out = saw.is_kept_out;
            let steps = match planned {
                Ok(steps) if steps.is_empty() => return End::Done,
                Ok(steps) => steps,
                Err(refusal) => {
                    return self.ended(goal, End::Refused(refusal.to_string()), Some(&refusal));
                }
            };
            for step in steps.iter() {
                if self.interrupted {
                    return self.ended(goal, End::Failed("interrupted".into()), None);
                }
                let is_kept = match step {
                    Step::Protocol(ProtocolStep::UnmountData { .. }) => true,
                    Step::Protocol(_) => self.begun.is_empty(),
                    Step::Node(_) => false,
                };
                if is_kept {
                    self.begun.push(step.clone());
                }
                let acted = self.step(step).and_then(|()| self.effect(|_| ()));
                match acted {
                    Ok(()) => {}
                    Err(Stop::Failed(why)) => {
                        let failed = End::Failed(format!("{}: {why}", step.id()));
                        return self.ended(goal, failed, None);
                    }
                    Err(Stop::Broken(why)) => return End::Broken(format!("{}: {why}", step.id())),
                }
            }
        }
        End::Broken(format!("plans without end, in {}", self.world))
    }

    /// After a failure, what the run has changed is put back as the program decides.
    fn ended(&mut self, goal: Goal, end: End, refusal: Option<&Refusal>) -> End {
        let begun = std::mem::take(&mut self.begun);
        let saw_lun = self.saw.saw_lun || !self.guards.put_back;
        let attempt = Attempt { begun: &begun, refusal, saw_lun, ..self.saw };
        self.memory = Memory::default();
        self.interrupted = false;
        for _round in 0..MAX_ROUNDS {
            let undo = match self.planner.undo(goal, &self.world, self.memory.staged, attempt) {
                Ok(undo) => undo,
                Err(_) => return end,
            };
            let plan = match undo {
                Undo::PutBack(plan, _) => plan,
                Undo::Accept(_) => return End::Done,
                Undo::Nothing | Undo::Leave(_) => return end,
            };
            for step in &plan.steps {
                match self.step(step).and_then(|()| self.effect(|_| ())) {
                    Ok(()) => {}
                    Err(Stop::Failed(_)) => return end,
                    Err(Stop::Broken(why)) => {
                        return End::Broken(format!("putting etcd back: {}: {why}", step.id()));
                    }
                }
            }
        }
        End::Broken("putting etcd back without end".into())
    }

    /// Does one effect. The run may be cut short after it. The event of this place comes before the effect,
    /// but after the step's own checks.
    pub fn effect(&mut self, act: impl FnOnce(&mut World)) -> Result<(), Stop> {
        self.happen()?;
        self.take(act)
    }

    pub fn take(&mut self, act: impl FnOnce(&mut World)) -> Result<(), Stop> {
        if let Some(why) = self.broken {
            return Err(Stop::Broken(why.into()));
        }
        act(&mut self.world);
        self.world = self.world.settled();
        if self.world.etcd == Etcd::OnLocal && self.world.record_says_lun() {
            self.world.meddled = true;
        }
        if !self.unchecked {
            self.world.check().map_err(Stop::Broken)?;
        }
        // Up to its last event a run goes as the one without that event, whose places are known.
        if self.events.is_empty() {
            (self.between)(self.world);
        }
        Ok(())
    }

    pub fn happen(&mut self) -> Result<(), Stop> {
        let place = self.place;
        self.place += 1;
        let Some(((at, event), later)) = self.events.split_first() else {
            self.foresee(place);
            return Ok(());
        };
        if place == *at {
            self.events = later;
            self.meet(*event)?;
        }
        Ok(())
    }

    /// True if the next effect fails. It is a place of its own, at which nothing else happens.
    pub fn effect_fails(&mut self) -> bool {
        let place = self.place;
        self.place += 1;
        match self.events.split_first() {
            None => self.possible.push((place, Event::Fails)),
            Some(((at, _), later)) if *at == place => {
                self.events = later;
                return true;
            }
            Some(_) => {}
        }
        false
    }

    /// Notes the events that are possible at this place.
    fn foresee(&mut self, place: usize) {
        let world = &self.world;
        let can_start = !world.is_running() && !matches!(world.start(), Ok(Start::Nowhere));
        // A volume that is replaced under a mount can't be detected: the kernel goes on with what it has in memory. Not played
        // are the moments at which a step unmounts and mounts again within one effect.
        let is_in_use = world.mounted || self.memory.staged;
        let possible = [
            (Event::TargetGone, world.reachable),
            (Event::TargetBack, !world.reachable),
            (Event::LunIsForeign, !is_in_use && world.disk != Disk::Foreign),
            (Event::LunWasUsed, !is_in_use && world.used_by_another().is_some()),
            // At other moments it is the same as a LUN that is newer from the beginning.
            (Event::CloneServes, self.is_watching && world.used_by_a_clone().is_some()),
            (Event::ShutDown, world.shut_down().is_some()),
            (Event::EtcdStarted, can_start),
            // Where no run has stopped etcd, this is the same as a start and a write before the run.
            (Event::EtcdFlickered, world.stopped_by_us && matches!(world.flickered(), Ok(Some(_)) | Err(_))),
            (Event::Written, world.written().is_some()),
            (Event::SidecarWrites, world.written_by_sidecar().is_some()),
            (Event::CopyLies, self.may_fail == Some(Event::CopyLies)),
            (Event::StampLost, self.may_fail == Some(Event::StampLost)),
            // A run notices this request only at the beginning of a step.
            (Event::Interrupted, self.step_begins),
            // Once etcd is being stopped, nothing can take that back.
            (Event::OthersGone, self.by_hand && world.others && world.is_running() && !world.stopped_by_us),
        ];
        self.possible.extend(possible.iter().filter(|(_, can)| *can).map(|(event, _)| (place, *event)));
    }

    fn meet(&mut self, event: Event) -> Result<(), Stop> {
        let world = match event {
            Event::TargetGone => {
                self.memory.session_lost = self.world.session;
                Ok(Some(self.world.lost_target()))
            }
            // iscsid connects the session again.
            Event::TargetBack => {
                let session = self.world.session || self.memory.session_lost;
                Ok(Some(World { reachable: true, session, ..self.world }))
            }
            Event::LunIsForeign => Ok(Some(self.world.changed(Disk::Foreign))),
            Event::LunWasUsed => Ok(self.world.used_by_another()),
            Event::CloneServes => Ok(self.world.used_by_a_clone()),
            Event::ShutDown => Ok(self.world.shut_down()),
            Event::EtcdStarted => self.world.etcd_started(),
            Event::EtcdFlickered => self.world.flickered(),
            Event::Written => Ok(self.world.written()),
            Event::SidecarWrites => Ok(self.world.written_by_sidecar()),
            Event::CopyLies | Event::StampLost | Event::Fails => {
                self.has_failed = true;
                Ok(None)
            }
            Event::OthersGone => Ok(Some(World { others: false, ..self.world })),
            Event::Interrupted => {
                self.interrupted = true;
                Ok(None)
            }
        };
        self.world = world.map_err(Stop::Broken)?.unwrap_or(self.world);
        Ok(())
    }
}
