//! The world as a machine of the program: its own steps look at this world and change it.

use crate::{
    facts::{self, print},
    run::{Run, Stop},
    steps::{small, small_stamp},
    support,
    world::{Disk, Local, Stamp, Writes},
};
use anyhow::{anyhow, ensure};
use etcd_lun::{
    apply::{
        machine::{Effect, Machine, Place, Source},
        protocol,
    },
    node::{self, authority},
    plan::{
        Step,
        step::{Claim, Mark},
    },
    terms::{AbsPath, Fingerprint},
};
use std::{cell::RefCell, fmt};

/// A look of a step, which a mutant can leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Etcd,
    Users,
    Mounted,
    Fenced,
    Held,
    Holds,
}

/// Why a step of the program stops, as one of its errors.
#[derive(Debug)]
struct Halt(Stop);

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Stop::Failed(why) | Stop::Broken(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Halt {}

fn halt(stop: Stop) -> anyhow::Error {
    Halt(stop).into()
}

impl Run<'_> {
    /// Has the program do one of its steps in this world.
    pub fn protocol(&mut self, step: &Step) -> Result<(), Stop> {
        let step = self.miscounted(step);
        let mut machine = Sim { name: step.id(), run: RefCell::new(self), shadow: None };
        let counts = machine.begins_a_use();
        match protocol::step(&mut machine, &step) {
            Ok(_) => {
                self.world.counted |= counts;
                Ok(())
            }
            Err(error) => Err(match error.downcast::<Halt>() {
                Ok(Halt(stop)) => stop,
                Err(error) => Stop::Failed(format!("{error:#}")),
            }),
        }
    }

    /// The step of a program that counts on from the record alone, if the mutant asks for that.
    fn miscounted(&self, step: &Step) -> Step {
        let mut step = step.clone();
        let (false, Some(record)) = (self.guards.counts_on, self.world.record) else { return step };
        let activations = u64::from(record.activations) + 1;
        match &mut step {
            Step::Activate { stamp } | Step::Claim(Claim { stamp, .. }) => stamp.activations = activations,
            Step::Mark(Mark { stamp, record, .. }) => {
                stamp.activations = activations;
                record.announced = stamp.last_use();
            }
            _ => {}
        }
        step
    }
}

/// The world during one step.
struct Sim<'s, 'a> {
    name: &'static str,
    run: RefCell<&'s mut Run<'a>>,
    /// What a step believes that it has written, though a mutant has left the write out.
    shadow: Option<authority::Record>,
}

impl Sim<'_, '_> {
    /// An event may come before a look, and the mutant may leave the look out.
    fn looks(&self, look: Look) -> anyhow::Result<bool> {
        let mut run = self.run.borrow_mut();
        run.happen().map_err(halt)?;
        Ok(run.guards.blind != Some((self.name, look)))
    }

    fn begins_a_use(&self) -> bool {
        ["activate", "claim", "mark"].contains(&self.name)
    }

    fn write(&mut self, record: &authority::Record) -> anyhow::Result<()> {
        let guards = self.run.borrow().guards;
        let is_mark = self.name == "mark";
        let announced = record.announced.filter(|_| self.begins_a_use());
        let is_left_out = announced.is_some() && !guards.announces
            || announced.is_none() && is_mark && !guards.mark_in_record;
        self.shadow = is_left_out.then(|| record.clone());
        if is_left_out {
            return Ok(());
        }
        // Until the record has taken a use over, a snapshot of the use before is what the record says too.
        let counts = self.begins_a_use() && announced.is_none();
        let mut run = self.run.borrow_mut();
        run.effect(|world| {
            world.record = Some(small(record));
            world.counted |= counts;
        })
        .map_err(halt)?;
        drop(run);
        if let Some(next) = announced.filter(|_| !guards.stamp_before_record) {
            self.shadow = Some(record.clone());
            let used = record.clone().used(next);
            self.run.borrow_mut().effect(|world| world.record = Some(small(&used))).map_err(halt)?;
        }
        Ok(())
    }

    fn restamp(&self, stamp: Option<Stamp>) -> anyhow::Result<()> {
        let is_new_generation = self.name == "stamp";
        // etcd may write before this effect.
        let mut run = self.run.borrow_mut();
        run.happen().map_err(halt)?;
        let (id, tree, _) = run.lun_of_ours().map_err(halt)?;
        run.take(|world| {
            world.disk = Disk::Xfs { id, tree, stamp };
            // The stamp has a new generation, so an older snapshot of the LUN is detected.
            world.counted |= is_new_generation;
        })
        .map_err(halt)
    }

    fn writes(&self, source: &Source) -> Writes {
        match source {
            Source::Dir(_) => self.run.borrow().local_writes(),
            Source::Staging => self.run.borrow().lun_writes(),
        }
    }
}

impl Machine for Sim<'_, '_> {
    fn machine_id(&self) -> &str {
        support::MACHINE
    }

    fn record(&self) -> anyhow::Result<Option<authority::Record>> {
        if let Some(shadow) = &self.shadow {
            return Ok(Some(shadow.clone()));
        }
        let run = self.run.borrow();
        let record = run.world.record.map(facts::record);
        // A program that commits before it stamps does not ask here.
        let is_blind = self.name == "stamp" && !run.guards.stamp_first;
        Ok(record.map(|record| if is_blind { record.take_back() } else { record }))
    }

    fn stamp(&self, on: Place) -> anyhow::Result<Option<authority::Stamp>> {
        let run = self.run.borrow();
        match on {
            Place::Staging => ensure!(run.memory.staged, "the LUN is not staged"),
            Place::Held => ensure!(run.world.mounted && !run.world.shut, "the LUN is not mounted"),
        }
        if self.name == "commit" && !run.guards.stamp_first {
            let begun = run.world.record.unwrap();
            let (activations, nonce) = begun.announced.unwrap();
            let stamp =
                Stamp { generation: begun.generation, activations, nonce, released: false, ours: true };
            return Ok(Some(facts::stamp(stamp, &run.world, run.guards)));
        }
        match run.world.disk {
            Disk::Xfs { stamp, .. } => Ok(stamp.map(|stamp| facts::stamp(stamp, &run.world, run.guards))),
            _ => Err(anyhow!("nothing is mounted that could have a stamp")),
        }
    }

    fn etcd(&self) -> anyhow::Result<node::Etcd> {
        let looks = self.looks(Look::Etcd)?;
        Ok(support::etcd(if looks && self.run.borrow().world.is_running() { "active" } else { "inactive" }))
    }

    fn users(&self, _of: &AbsPath) -> anyhow::Result<Vec<String>> {
        let looks = self.looks(Look::Users)?;
        let run = self.run.borrow();
        let uses = run.world.is_running() || run.world.sidecars && run.guards.pod_end;
        Ok(if looks && uses { vec!["somebody".into()] } else { Vec::new() })
    }

    fn mounted_on(&self, _data_dir: &AbsPath) -> anyhow::Result<Option<String>> {
        let looks = self.looks(Look::Mounted)? && self.run.borrow().guards.unmount_first;
        Ok((looks && self.run.borrow().world.mounted).then(|| "/dev/sdb".into()))
    }

    fn is_fenced(&self, _data_dir: &AbsPath) -> anyhow::Result<bool> {
        let looks = self.looks(Look::Fenced)?;
        Ok(!looks || self.run.borrow().world.local == Local::Fenced)
    }

    fn hold_lun(&mut self, _data_dir: &AbsPath) -> anyhow::Result<()> {
        match self.looks(Look::Held)? {
            true => self.run.borrow().data_is_on_lun().map_err(halt),
            false => Ok(()),
        }
    }

    fn proof(&self) -> Option<Fingerprint> {
        self.run.borrow().memory.proven.map(print)
    }

    fn still_holds(&self, source: &Source) -> anyhow::Result<Fingerprint> {
        let looks = self.looks(Look::Holds)?;
        let proven = self.run.borrow().memory.proven.ok_or_else(|| anyhow!("nothing is proven"))?;
        let looks = looks && (*source != Source::Staging || self.run.borrow().guards.compare_lun);
        ensure!(!looks || proven == self.writes(source), "somebody has written since the proof");
        Ok(print(proven))
    }

    fn perform(&mut self, effect: &Effect) -> anyhow::Result<()> {
        let guards = self.run.borrow().guards;
        match effect {
            Effect::WriteRecord { record } => self.write(record),
            Effect::SetStamp { on: Place::Held, .. } if !guards.mark_on_stamp => Ok(()),
            Effect::SetStamp { stamp, .. } => self.restamp(Some(small_stamp(stamp))),
            Effect::RemoveStamp => self.restamp(None),
            Effect::Stage => {
                let mut run = self.run.borrow_mut();
                run.happen().map_err(halt)?;
                run.lun_of_ours().map_err(halt)?;
                run.memory.staged = true;
                Ok(())
            }
            Effect::Unstage => {
                self.run.borrow_mut().memory.staged = false;
                Ok(())
            }
            Effect::RetireBarred { .. } => {
                self.run.borrow_mut().effect(|world| world.barred = None).map_err(halt)
            }
        }
    }
}
