//! What each effect of the program does to the world, and the events that may come before it.

use super::{Sim, halt};
use crate::{
    facts::{self, small_stamp},
    run::Stop,
    world::{Barred, Disk, Etcd, Local, Shelf, Tree, World},
};
use anyhow::{bail, ensure};
use apply::machine::{Aside, Effect, Place};

impl Sim<'_, '_> {
    pub(super) fn carry_out(&mut self, effect: &Effect) -> anyhow::Result<()> {
        let guards = self.run.borrow().guards;
        match effect {
            Effect::WriteRecord { record } => self.write(record)?,
            Effect::SetStamp { on: Place::Held, .. } if !guards.mark_on_stamp => {}
            Effect::SetStamp { on, stamp } => self.restamp(*on, Some(small_stamp(stamp)))?,
            Effect::RemoveStamp => self.restamp(Place::Staging, None)?,
            Effect::StopEtcd { whole_pod, .. } => {
                let mut run = self.run.borrow_mut();
                let world = run.world;
                // A member whose filesystem has shut down acknowledges nothing, so it may be stopped.
                if run.by_hand && world.is_running() && !world.others && !world.shut {
                    let why = "a member is stopped by hand while the others are no quorum";
                    return Err(halt(Stop::Broken(why.into())));
                }
                run.take(|world| world.stopped_by_us = true).map_err(halt)?;
                run.effect(|world| {
                    world.etcd = Etcd::Down;
                    world.sidecars = !whole_pod;
                })
                .map_err(halt)?;
            }
            // A container that was asked may end or not, and CRI-O may answer or not: in any case one that has not ended may
            // write until its end is awaited.
            Effect::EndOthers { .. } => {
                let mut run = self.run.borrow_mut();
                run.happen().map_err(halt)?;
                ensure!(!run.world.is_running() || !guards.pod_is_down, "somebody started etcd");
                if run.world.is_running() {
                    run.broken = Some("containers beside an etcd that runs are ended");
                }
            }
            Effect::AwaitPodEnd { .. } => {
                let mut run = self.run.borrow_mut();
                run.happen().map_err(halt)?;
                ensure!(!run.world.is_running(), "the manifest was written again");
                run.take(|world| world.sidecars &= !guards.pod_end).map_err(halt)?;
            }
            Effect::PreCopy { copy } => self.run.borrow_mut().pre_copy(copy.way).map_err(halt)?,
            Effect::CatchUp { catch_up } => self.run.borrow_mut().catch_up(catch_up.way).map_err(halt)?,
            Effect::Copy { copy } => self.run.borrow_mut().copy(copy.way).map_err(halt)?,
            Effect::Prove { way, .. } => {
                let mut run = self.run.borrow_mut();
                let same = run.compared(*way).map_err(halt)?;
                ensure!(same.is_some(), "the copy is not what was copied");
                run.memory.proven = same;
            }
            Effect::ProveProvisionally { way, .. } => {
                let mut run = self.run.borrow_mut();
                let same = run.compared(*way).map_err(halt)?;
                run.memory.provisional = same.filter(|_| !run.world.is_running());
            }
            Effect::ForgetProof => self.run.borrow_mut().memory.proven = None,
            Effect::ClearUnfinished { .. } => self.act(|world| world.disk = Disk::Blank)?,
            Effect::Format { format } => {
                self.run.borrow_mut().happen().map_err(halt)?;
                let world = self.run.borrow().world;
                ensure!(world.session && world.reachable, "the LUN has gone");
                ensure!(world.disk == Disk::Blank, "the LUN is not blank now");
                let id = facts::number(&format.uuid);
                // A mkfs that is cut short leaves parts of it.
                self.act(|world| world.disk = Disk::Unfinished(id))?;
                self.act(|world| world.disk = Disk::Xfs { id, tree: Tree::Whole(0), stamp: None })?;
            }
            Effect::Stage { uuid, .. } => {
                let mut run = self.run.borrow_mut();
                run.happen().map_err(halt)?;
                run.memory.staged = false;
                ensure!(run.world.session && run.world.reachable, "the LUN has gone");
                let is_it = matches!(run.world.disk, Disk::Xfs { id, .. } if id == facts::number(uuid) || !guards.uuid);
                ensure!(is_it, "the LUN holds another filesystem");
                run.memory.staged = true;
            }
            Effect::StageAgain => {
                let mut run = self.run.borrow_mut();
                run.happen().map_err(halt)?;
                run.lun_of_ours().map_err(halt)?;
                run.memory.staged = true;
            }
            Effect::Unstage | Effect::LeaveStaging => {
                let memory = &mut self.run.borrow_mut().memory;
                (memory.staged, memory.stamp) = (false, None);
            }
            Effect::Expose { .. } => {
                self.run.borrow_mut().happen().map_err(halt)?;
                self.run.borrow().lun_of_ours().map_err(halt)?;
                let mut run = self.run.borrow_mut();
                run.happen().map_err(halt)?;
                let there = run.world.reachable;
                run.take(|world| world.mounted |= there).map_err(halt)?;
                ensure!(run.world.mounted, "the LUN has gone");
            }
            Effect::TakeBack { .. } => {
                ensure!(self.run.borrow().world.etcd != Etcd::OnLun, "target is busy");
                self.act(|world| (world.mounted, world.shut) = (false, false))?;
            }
            Effect::Unmount { .. } => {
                let mut run = self.run.borrow_mut();
                run.happen().map_err(halt)?;
                ensure!(run.world.mounted, "it is not mounted any more");
                // A filesystem that is in use cannot be unmounted.
                run.at_rest().map_err(halt)?;
                run.take(|world| {
                    world.mounted = false;
                    world.shut = false;
                })
                .map_err(halt)?;
            }
            Effect::RetireBarred { .. } => self.act(|world| world.barred = None)?,
            Effect::ChooseBarred { generation } => {
                let returns_as = Some(u8::try_from(*generation)?);
                self.act(|world| {
                    world.barred = world.barred.map(|barred| Barred { returns_as, ..barred });
                })?;
            }
            Effect::Unbar { generation } => {
                let generation = u8::try_from(*generation)?;
                let Some(Barred { writes, .. }) = self.run.borrow().world.barred else {
                    bail!("nothing is barred")
                };
                self.act(|world| {
                    world.shelf = Some(Shelf { generation, tree: Tree::Whole(writes) });
                    world.barred = None;
                })?;
            }
            Effect::PutAside { aside, .. } => {
                // Somebody may open the data right before the exchange.
                self.run.borrow_mut().happen().map_err(halt)?;
                let (world, left) = (self.run.borrow().world, self.left());
                let Local::Data(data) = world.local else { bail!("there is no data") };
                ensure!(*aside != Aside::Barred || world.barred.is_none(), "there is barred data already");
                let barred = Barred { writes: data, returns_as: None };
                let moved = |world: &mut World| {
                    world.local = left;
                    match aside {
                        Aside::Retired { .. } => world.aside = Some(data),
                        Aside::Barred => world.barred = Some(barred),
                    }
                };
                self.run.borrow_mut().take(moved).map_err(halt)?;
            }
            Effect::PutBack { aside, .. } => self.act(|world| {
                let data = match aside {
                    Aside::Retired { .. } => world.aside.take(),
                    Aside::Barred => world.barred.take().map(|barred| barred.writes),
                };
                world.local = Local::Data(data.unwrap());
            })?,
            Effect::MarkAside { aside: Aside::Barred, .. } => {}
            Effect::MarkAside { aside: Aside::Retired { .. }, .. } => {
                self.act(|world| world.aside = None)?;
                self.run.borrow_mut().memory.retired = true;
            }
            Effect::Bar { .. } => {
                self.run.borrow_mut().happen().map_err(halt)?;
                let local = self.run.borrow().world.local;
                ensure!(!matches!(local, Local::Data(_)), "only an empty directory is fenced");
                let left = self.left();
                if matches!(local, Local::Absent | Local::Empty) {
                    self.run.borrow_mut().take(|world| world.local = left).map_err(halt)?;
                }
            }
            Effect::MakeImmutable { .. } => {
                if !guards.fence_is_atomic {
                    self.act(|world| world.local = Local::Empty)?;
                }
                self.act(|world| world.local = Local::Fenced)?;
            }
            Effect::Return { generation, .. } => {
                let shelf = self.run.borrow().world.shelf;
                let copy = shelf.filter(|shelf| u64::from(shelf.generation) == *generation);
                let Some(Shelf { tree: Tree::Whole(writes), .. }) = copy else { bail!("there is no copy") };
                // First the flag goes, then the directories are exchanged. Nobody uses what is left of the fence.
                let left = self.left();
                self.act(|world| world.local = left)?;
                self.act(|world| {
                    world.local = Local::Data(writes);
                    world.shelf = None;
                })?;
            }
            Effect::StartEtcd { wait, .. } => self.start(*wait)?,
        }
        Ok(())
    }
}
