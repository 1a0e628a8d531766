//! The world as a machine of the program: its own steps look at this world and change it.

mod effects;

use crate::{
    facts::{self, print, small},
    run::{Event, Run, Stop},
    world::{Disk, Etcd, Local, Look, Shelf, Stamp, Tree, World, Writes},
};
use anyhow::{anyhow, bail, ensure};
use apply::{
    machine::{Aside, Confirmed, Effect, Machine, Place, Source},
    pod::EtcdPod,
    protocol,
};
use config::Runtime;
use node::{
    self, Identity, authority,
    layout::{BARRED, RETIRED, RETURNING},
};
use plan::{
    ProtocolStep,
    step::{Claim, Copy, Mark},
};
use std::{
    cell::{Cell, RefCell},
    fmt,
    sync::LazyLock,
};
use terms::{AbsPath, Fingerprint, FsUuid, Span, Wwid};

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
    pub fn protocol(&mut self, step: &ProtocolStep) -> Result<(), Stop> {
        let step = self.miscounted(step);
        let mut machine = Sim {
            name: step.id(),
            run: RefCell::new(self),
            shadow: None,
            read: None,
            at_rest: Cell::new(None),
        };
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
    fn miscounted(&self, step: &ProtocolStep) -> ProtocolStep {
        let mut step = step.clone();
        let (false, Some(record)) = (self.guards.counts_on, self.world.record) else { return step };
        let activations = u64::from(record.activations) + 1;
        match &mut step {
            ProtocolStep::Activate { stamp } | ProtocolStep::Claim(Claim { stamp, .. }) => {
                stamp.activations = activations
            }
            ProtocolStep::Mark(Mark { stamp, record, .. }) => {
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
    /// What was read of a directory.
    read: Option<Writes>,
    /// The stamp that was seen first of an unmounted LUN.
    at_rest: Cell<Option<Option<Stamp>>>,
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

    fn restamp(&self, on: Place, stamp: Option<Stamp>) -> anyhow::Result<()> {
        let is_new_generation = self.name == "stamp";
        // etcd may write before this effect.
        let mut run = self.run.borrow_mut();
        let may_lose = on == Place::Staging && stamp.is_some();
        let loses = run.device_fails(may_lose.then_some(Event::StampLost)).map_err(halt)?;
        let (id, tree, _) = run.lun_of_ours().map_err(halt)?;
        if run.world.beneath {
            let why = "what another computer has written beneath the mount is written over";
            return Err(halt(Stop::Broken(why.into())));
        }
        ensure!(!loses || !run.guards.stamp_read_back, "the device has not kept the stamp");
        run.memory.stamp = stamp.filter(|_| loses);
        if loses {
            return Ok(());
        }
        run.take(|world| {
            world.disk = Disk::Xfs { id, tree, stamp };
            // The stamp has a new generation, so an older snapshot of the LUN is detected.
            world.counted |= is_new_generation;
        })
        .map_err(halt)
    }

    fn writes(&self, source: &Source) -> Writes {
        let run = self.run.borrow();
        match source {
            Source::Staging => run.lun_writes(),
            Source::Dir(path) if path.as_str().starts_with(RETURNING) => match run.world.shelf {
                Some(Shelf { tree: Tree::Whole(writes), .. }) => writes,
                _ => NO_COPY,
            },
            Source::Mounted(_) => run.lun_writes(),
            Source::Dir(path) if path.as_str().starts_with(RETIRED) => run.world.aside.unwrap_or(NO_COPY),
            Source::Dir(path) if path.as_str().starts_with(BARRED) => {
                run.world.barred_writes().unwrap_or(NO_COPY)
            }
            Source::Dir(_) => run.local_writes(),
        }
    }

    /// What takes the place of data that is put aside.
    fn left(&self) -> Local {
        if self.run.borrow().guards.bar { Local::Barred } else { Local::Empty }
    }

    fn act(&self, act: impl FnOnce(&mut World)) -> anyhow::Result<()> {
        self.run.borrow_mut().effect(act).map_err(halt)
    }

    /// Starts etcd on what the data directory leads to.
    fn start(&self, wait: bool) -> anyhow::Result<()> {
        let world = self.run.borrow().world;
        let started = world.etcd_started().map_err(|why| halt(Stop::Broken(why)))?.unwrap_or(world);
        if started.etcd == Etcd::OnLocal && world.record_says_lun() {
            return Err(halt(Stop::Broken(
                "a run starts etcd on the local disk, and the record says LUN".into(),
            )));
        }
        let etcd = if wait || world.is_running() { started.etcd } else { Etcd::Queued };
        self.act(|world| *world = World { etcd, stopped_by_us: false, ..*world })
    }
}

impl Machine for Sim<'_, '_> {
    fn identity(&self) -> &Identity {
        static NODE: LazyLock<Identity> = LazyLock::new(support::identity);
        &NODE
    }

    fn record(&self) -> anyhow::Result<Option<authority::Record>> {
        if let Some(shadow) = &self.shadow {
            return Ok(Some(shadow.clone()));
        }
        let run = self.run.borrow();
        let record = run.world.record.map(facts::record);
        // A program that commits before it stamps does not ask here, and one that puts etcd back whatever the record says.
        let is_blind = self.name == "stamp" && !run.guards.stamp_first
            || self.name == "start-etcd" && !run.guards.put_back;
        Ok(record.map(|record| if is_blind { record.take_back() } else { record }))
    }

    fn stamp(&self, on: Place) -> anyhow::Result<Option<authority::Stamp>> {
        let run = self.run.borrow();
        match on {
            Place::Staging => ensure!(run.memory.staged, "the LUN is not staged"),
            Place::Held | Place::Mounted | Place::Device => {
                ensure!(run.world.mounted && !run.world.shut, "the LUN is not mounted")
            }
        }
        // What the record expects there, in place of what is there.
        let expected = run.world.record.and_then(|record| match self.name {
            "commit" if !run.guards.stamp_first => Some((record.generation, record.announced?)),
            name if run.guards.blind == Some((name, Look::Stamp)) => {
                Some((record.generation, (record.activations, record.nonce?)))
            }
            _ => None,
        });
        if let Some((generation, (activations, nonce))) = expected {
            let stamp = Stamp { generation, activations, nonce, released: false, ours: true };
            return Ok(Some(facts::stamp(stamp, &run.world, run.guards)));
        }
        let is_device = on == Place::Device && run.guards.in_place;
        match if is_device { run.world.device() } else { run.world.disk } {
            Disk::Xfs { stamp, .. } => {
                let stamp = run.memory.stamp.filter(|_| on == Place::Staging).or(stamp);
                Ok(stamp.map(|stamp| facts::stamp(stamp, &run.world, run.guards)))
            }
            _ => Err(anyhow!("nothing is mounted that could have a stamp")),
        }
    }

    fn stamp_at_rest(&self, _wwid: &Wwid, uuid: &FsUuid) -> anyhow::Result<Option<authority::Stamp>> {
        let looks = self.looks(Look::Stamp)?;
        let run = self.run.borrow();
        ensure!(run.world.session && run.world.reachable, "the LUN has gone");
        let Disk::Xfs { id, stamp, .. } = run.world.disk else { bail!("the LUN holds no XFS") };
        ensure!(id == facts::number(uuid), "the LUN holds another filesystem");
        let first = self.at_rest.get().filter(|_| !looks).unwrap_or(stamp);
        self.at_rest.set(Some(first));
        Ok(first.map(|stamp| facts::stamp(stamp, &run.world, run.guards)))
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

    /// Its name says nothing here.
    fn etcd_pod(&self, runtime: &Runtime) -> anyhow::Result<Option<EtcdPod>> {
        let is_in_a_pod = matches!(runtime, Runtime::StaticPod { .. });
        Ok((is_in_a_pod && self.run.borrow().by_hand).then(|| EtcdPod("pod".into())))
    }

    fn mounted_on(&self, _data_dir: &AbsPath) -> anyhow::Result<Option<String>> {
        let may_be = self.name == "commit-local" && !self.run.borrow().guards.unmount_first;
        let looks = self.looks(Look::Mounted)? && !may_be;
        Ok((looks && self.run.borrow().world.mounted).then(|| "/dev/sdb".into()))
    }

    fn is_fenced(&self, _data_dir: &AbsPath) -> anyhow::Result<bool> {
        let looks = self.looks(Look::Fenced)?;
        let is_fenced = self.run.borrow().world.local == Local::Fenced;
        // What the step goes on with.
        let expected = self.name != "start-etcd";
        Ok(if looks { is_fenced } else { expected })
    }

    fn data_is_on_lun(&self, _data_dir: &AbsPath) -> anyhow::Result<()> {
        match self.looks(Look::OnLun)? {
            true => self.run.borrow().data_is_on_lun().map_err(halt),
            false => Ok(()),
        }
    }

    fn is_unfinished(&self, aside: Aside) -> anyhow::Result<bool> {
        let looks = self.looks(Look::Unfinished)?;
        Ok(looks && matches!(aside, Aside::Retired { .. }) && self.run.borrow().world.aside.is_some())
    }

    fn is_shut_down(&self, _data_dir: &AbsPath) -> anyhow::Result<bool> {
        Ok(!self.looks(Look::ShutDown)? || self.run.borrow().world.shut)
    }

    fn is_staged(&self) -> bool {
        self.run.borrow().memory.staged
    }

    fn staged_filesystem(&self) -> anyhow::Result<FsUuid> {
        match self.run.borrow().world.disk {
            Disk::Xfs { id, .. } => Ok(facts::uuid(id)),
            _ => bail!("the LUN holds no filesystem"),
        }
    }

    fn has_retired(&self) -> bool {
        self.run.borrow().memory.retired
    }

    fn hold(&mut self, _data_dir: &AbsPath) -> anyhow::Result<()> {
        Ok(())
    }

    fn fingerprint(&mut self, of: &Source, _seed: u64) -> anyhow::Result<Fingerprint> {
        let looks = self.looks(Look::Read)?;
        let writes = self.writes(of);
        self.read = Some(writes);
        let run = self.run.borrow();
        let expected = run.world.record.and_then(|record| record.print);
        Ok(print(if looks && run.guards.fingerprint { writes } else { expected.unwrap_or(writes) }))
    }

    fn unchanged(&self, of: &Source) -> anyhow::Result<()> {
        let looks = self.looks(Look::Unchanged)?;
        ensure!(!looks || self.read == Some(self.writes(of)), "somebody has written");
        Ok(())
    }

    fn proof(&self) -> Option<Fingerprint> {
        self.run.borrow().memory.proven.map(print)
    }

    fn still_holds(&self, source: &Source) -> anyhow::Result<Fingerprint> {
        let looks = self.looks(Look::Holds)?;
        let proven = self.run.borrow().memory.proven.ok_or_else(|| anyhow!("nothing is proven"))?;
        let of_lun = matches!(source, Source::Staging | Source::Mounted(_));
        let looks = looks && (!of_lun || self.run.borrow().guards.compare_lun);
        ensure!(!looks || proven == self.writes(source), "somebody has written since the proof");
        Ok(print(proven))
    }

    fn confirm(&mut self, of: &Copy) -> anyhow::Result<Confirmed> {
        let looks = self.looks(Look::Confirmed)?;
        let mut run = self.run.borrow_mut();
        let Some(proven) = run.memory.provisional.take() else { return Ok(Confirmed::Nothing) };
        if looks && proven != run.writes(of.way) {
            return Ok(Confirmed::Changed("somebody has written".into()));
        }
        run.memory.proven = Some(proven);
        Ok(Confirmed::Holds(print(proven)))
    }

    fn others_are_a_quorum(&self) -> anyhow::Result<()> {
        let looks = self.looks(Look::Quorum)?;
        let world = self.run.borrow().world;
        ensure!(!looks || !world.is_running() || world.others, "the other members are no quorum");
        Ok(())
    }

    fn pause(&mut self, _span: Span) -> anyhow::Result<()> {
        let mut run = self.run.borrow_mut();
        run.is_watching = true;
        let happened = run.happen().map_err(halt);
        run.is_watching = false;
        happened
    }

    fn note(&mut self, _text: &str) {}

    fn perform(&mut self, effect: &Effect) -> anyhow::Result<String> {
        ensure!(!self.run.borrow_mut().effect_fails(), "no space left on device");
        self.carry_out(effect)?;
        Ok(String::new())
    }
}

/// What a fingerprint is of that is no copy of any moment.
const NO_COPY: Writes = Writes::MAX;
