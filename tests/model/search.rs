//! Breadth first over every state that can be reached.

use crate::{
    outside::OTHERS,
    run::{End, Event, Run},
    world::{Disk, Etcd, Guards, Local, Stamp, Tree, World},
};
use etcd_lun::plan::Occasion;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    rc::Rc,
};

/// Beyond these a state is not looked at further: it differs from an earlier one by its numbers only.
const MOST_GENERATIONS: u8 = 2;
const MOST_ACTIVATIONS: u8 = 2;

/// What a search has seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub states: usize,
    pub runs: usize,
    pub cuts: usize,
    pub done: usize,
    pub refused: usize,
    pub failed: usize,
}

fn beginnings() -> Vec<World> {
    let node = World {
        truth: 1,
        local: Local::Data(1),
        record: None,
        disk: Disk::Blank,
        snapshot: None,
        robbed: false,
        meddled: false,
        reachable: true,
        session: false,
        mounted: false,
        etcd: Etcd::OnLocal,
        stopped_by_us: false,
    };
    let stamped = |ours| Disk::Xfs {
        id: OTHERS,
        tree: Tree::Whole(0),
        stamp: Some(Stamp { generation: 1, activations: 1, ours }),
    };
    let new_member = World { truth: 0, local: Local::Absent, etcd: Etcd::Failed, ..node };
    [Disk::Blank, Disk::Foreign, stamped(false), stamped(true)]
        .into_iter()
        .flat_map(|disk| [World { disk, ..node }, World { disk, ..new_member }])
        .collect()
}

fn is_small(world: &World) -> bool {
    world
        .record
        .is_none_or(|record| record.generation <= MOST_GENERATIONS && record.activations <= MOST_ACTIVATIONS)
}

/// Whether nobody but us, etcd and the power had a hand in this, and the target is there.
fn is_ours_to_mend(world: &World) -> bool {
    let ours = |id| world.record.is_some_and(|record| record.id == id);
    let is_our_disk = match world.disk {
        Disk::Blank => true,
        Disk::Foreign => false,
        Disk::Unfinished(id) | Disk::Xfs { id, stamp: None, .. } => ours(id),
        Disk::Xfs { id, stamp: Some(stamp), .. } => ours(id) && stamp.ours,
    };
    is_our_disk && world.reachable && !world.robbed && !world.meddled
}

/// Every state, from every beginning. The error tells the way to the one that breaks an invariant.
pub fn search(guards: Guards) -> Result<Seen, String> {
    let mut search = Search {
        guards,
        from: HashMap::new(),
        queue: VecDeque::new(),
        left: HashMap::new(),
        seen: Seen::default(),
    };
    for world in beginnings() {
        search.add(world, None);
    }
    while let Some(world) = search.queue.pop_front() {
        search.look(world)?;
    }
    search.seen.states = search.from.len();
    Ok(search.seen)
}

struct Search {
    guards: Guards,
    /// How each state was come by.
    from: HashMap<World, Option<(World, &'static str)>>,
    queue: VecDeque<World>,
    /// How runs left the world that they began in.
    left: HashMap<(World, bool), Rc<HashSet<World>>>,
    seen: Seen,
}

impl Search {
    fn add(&mut self, world: World, from: Option<(World, &'static str)>) {
        if is_small(&world) && !self.from.contains_key(&world) {
            self.from.insert(world, from);
            self.queue.push_back(world);
        }
    }

    fn look(&mut self, world: World) -> Result<(), String> {
        world.check().map_err(|why| self.broken(world, &why))?;
        let next = world.outside().map_err(|why| self.broken(world, &why))?;
        for after in next {
            self.add(after, Some((world, "outside")));
        }
        for (occasion, name) in [(Occasion::ByHand, "apply"), (Occasion::Boot, "apply --boot")] {
            self.run(world, occasion, name)?;
        }
        Ok(())
    }

    /// Runs from here. What the array keeps besides makes no difference to them.
    fn run(&mut self, world: World, occasion: Occasion, name: &'static str) -> Result<(), String> {
        let plain = World { snapshot: None, ..world };
        let key = (plain, occasion == Occasion::Boot);
        let left = match self.left.get(&key) {
            Some(left) => Rc::clone(left),
            None => {
                let left: Rc<HashSet<World>> =
                    Rc::new(self.runs(plain, occasion, name).map_err(|why| self.broken(world, &why))?);
                self.left.insert(key, Rc::clone(&left));
                left
            }
        };
        for cut in left.iter() {
            let cut = World { snapshot: world.snapshot, ..*cut };
            // Killed: the world stays as it is. Without power: what is in memory goes too.
            self.add(cut, Some((world, name)));
            self.add(cut.rebooted(), Some((world, name)));
        }
        Ok(())
    }

    /// A run, undisturbed and with every event at every place. Each place is one to be cut short, too: in what state the
    /// world can be left.
    fn runs(&mut self, world: World, occasion: Occasion, name: &str) -> Result<HashSet<World>, String> {
        let mut left = Vec::new();
        let mut keep = |world: World| left.push(world);
        let mut run = Run::new(world, self.guards, (usize::MAX, Event::Nothing), &mut keep);
        let end = run.whole(occasion);
        let (events, after) = (std::mem::take(&mut run.possible), run.world);
        self.end(&end, name)?;
        match &end {
            End::Done => is_done(after)?,
            // What only we and the power did, we also mend.
            End::Refused(why) | End::Failed(why)
                if occasion == Occasion::ByHand && is_ours_to_mend(&world) =>
            {
                return Err(format!("a person is needed: {why}"));
            }
            End::Refused(_) | End::Failed(_) | End::Broken(_) => {}
        }
        left.push(after);
        for event in events {
            let mut keep = |world: World| left.push(world);
            let mut run = Run::new(world, self.guards, event, &mut keep);
            let end = run.whole(occasion);
            let after = run.world;
            self.end(&end, name)?;
            left.push(after);
        }
        self.seen.cuts += left.len();
        Ok(left.into_iter().collect())
    }

    fn end(&mut self, end: &End, name: &str) -> Result<(), String> {
        self.seen.runs += 1;
        match end {
            End::Done => self.seen.done += 1,
            End::Refused(_) => self.seen.refused += 1,
            End::Failed(_) => self.seen.failed += 1,
            End::Broken(why) => return Err(format!("{name}: {why}")),
        }
        Ok(())
    }

    fn broken(&self, world: World, why: &str) -> String {
        let mut way = vec![format!("  {world}")];
        let mut at = world;
        while let Some(Some((before, how))) = self.from.get(&at) {
            way.push(format!("  {before}\n    {how}"));
            at = *before;
        }
        way.reverse();
        format!("{why}\n{}", way.join("\n"))
    }
}

/// After a run that says so, etcd is on the LUN and can be nowhere else.
fn is_done(world: World) -> Result<(), String> {
    let right = world.mounted
        && world.record_says_lun()
        && world.local == Local::Fenced
        && matches!(world.etcd, Etcd::OnLun | Etcd::Queued);
    if right { Ok(()) } else { Err(format!("done, it says, with {world}")) }
}
