//! A breadth-first search over every reachable state. Runs from the worlds of the frontier go on all processors, and what they lead
//! to is then added in the worlds' order, so that each search visits the same.

use crate::{
    outside::{OTHERS, OWN},
    planner::Planner,
    run::{End, Event, Run, Runtime, Verb},
    world::{Disk, Etcd, Guards, Local, Stamp, Tree, World},
};
use plan::{Goal, Occasion};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// States beyond this number of activations, or beyond the number of generations, are not visited. They
/// differ from visited ones only in their numbers.
const MOST_ACTIVATIONS: u8 = 2;

/// What a search has visited.
#[derive(Debug, Default)]
pub struct Seen {
    pub states: usize,
    pub runs: usize,
    pub cuts: usize,
    pub done: usize,
    pub refused: usize,
    pub failed: usize,
    /// Runs with two events.
    pub pairs: usize,
}

impl Seen {
    fn count(&mut self, end: &End, cuts: usize, events: usize) {
        self.runs += 1;
        self.cuts += cuts + 1;
        self.pairs += usize::from(events == 2);
        self.done += usize::from(*end == End::Done);
        self.refused += usize::from(matches!(end, End::Refused(_)));
        self.failed += usize::from(matches!(end, End::Failed(_)));
    }
}

/// An array's snapshot does not affect a run.
fn without_snapshot(world: World) -> World {
    World { snapshot: None, counted: false, ..world }
}

/// The runs from this world: of each verb, and by hand also while the other members are no quorum.
fn runs_from(world: World) -> impl Iterator<Item = (World, Verb, &'static str)> {
    let alone = World { others: false, ..world };
    let verbs = [
        (Verb::Run(Goal::Lun(Occasion::ByHand)), "apply"),
        (Verb::Run(Goal::Lun(Occasion::Boot)), "apply --boot"),
        (Verb::Run(Goal::Local), "rollback"),
        (Verb::Mark, "mark"),
    ];
    let all = [world, alone].into_iter().flat_map(move |from| verbs.map(|(verb, name)| (from, verb, name)));
    all.filter(move |(from, verb, _)| *from == world || world.is_running() && is_by_hand(*verb))
}

fn beginnings() -> Vec<World> {
    let node = World {
        truth: 1,
        local: Local::Data(1),
        record: None,
        shelf: None,
        aside: None,
        barred: None,
        disk: Disk::Blank,
        snapshot: None,
        counted: false,
        robbed: false,
        meddled: false,
        reachable: true,
        session: false,
        mounted: false,
        shut: false,
        beneath: false,
        elsewhere: false,
        two_volumes: false,
        etcd: Etcd::OnLocal,
        stopped_by_us: false,
        others: true,
        nonce: OWN,
        sidecars: false,
    };
    let stamped = |ours| Disk::Xfs {
        id: OTHERS,
        tree: Tree::Whole(0),
        stamp: Some(Stamp { generation: 1, activations: 1, nonce: OTHERS, released: false, ours }),
    };
    let new_member = World { truth: 0, local: Local::Absent, etcd: Etcd::Failed, ..node };
    [Disk::Blank, Disk::Foreign, stamped(false), stamped(true)]
        .into_iter()
        .flat_map(|disk| [World { disk, ..node }, World { disk, ..new_member }])
        .chain([
            World { two_volumes: true, ..node },
            World { elsewhere: true, local: Local::Data(0), ..node },
        ])
        .collect()
}

/// Whether a person runs this verb, and the cluster is asked.
fn is_by_hand(verb: Verb) -> bool {
    matches!(verb, Verb::Run(goal) if goal.asks_cluster())
}

/// Whether only etcd-lun, etcd and the power have changed this world, and the target is there. Then etcd-lun
/// must repair it.
fn is_ours_to_mend(world: &World, verb: Verb) -> bool {
    // Containers that have not ended yet end by themselves, and the kubelet starts etcd only then. A run waits for them if
    // etcd is stopped by us. Otherwise it may fail until they have ended, and so may an unmount.
    if world.sidecars && (world.shut || !world.stopped_by_us) || !world.others && is_by_hand(verb) {
        return false;
    }
    let half_way = world.record.is_some_and(|record| record.rolled_back)
        && (!matches!(world.local, Local::Data(_)) || world.stopped_by_us);
    match verb {
        // A rollback or a boot finishes a rollback. `apply` by hand or a boot finishes a migration.
        Verb::Run(Goal::Lun(Occasion::ByHand)) if half_way => return false,
        Verb::Run(Goal::Lun(Occasion::Boot)) if world.is_running() && !world.shut => return false,
        Verb::Mark if world.shut => return false,
        // A rollback needs a LUN that answers. `apply` ensures that.
        Verb::Run(Goal::Local) if !(half_way || world.record_says_lun() && world.session) => return false,
        Verb::Run(_) | Verb::Mark => {}
    }
    let ours = |id| world.record.is_some_and(|record| record.id == id);
    let is_our_disk = match world.disk {
        Disk::Blank => true,
        Disk::Foreign => false,
        Disk::Unfinished(id) | Disk::Xfs { id, stamp: None, .. } => ours(id),
        Disk::Xfs { id, stamp: Some(stamp), .. } => ours(id) && stamp.ours && !is_old(world, stamp),
    };
    let is_in_doubt = world.robbed || world.meddled || world.elsewhere || world.two_volumes;
    is_our_disk && world.reachable && !is_in_doubt
}

/// Whether the local copy is authoritative, and the array has restored a snapshot: the stamp is neither that of the last attempt
/// nor what a rollback has left.
fn is_old(world: &World, stamp: Stamp) -> bool {
    let Some(record) = world.record.filter(|record| !record.lun) else { return false };
    let of_attempt = stamp.generation == record.generation && stamp.activations == 0;
    let left = (stamp.activations, Some(stamp.nonce)) == (record.activations, record.nonce);
    !of_attempt && !left && !stamp.released
}

/// Visits every state from every initial state. An error shows the way to the state that breaks an invariant.
pub fn search(guards: Guards, generations: u8, runtime: Runtime) -> Result<Seen, String> {
    visit(guards, generations, runtime, 0).map(|search| search.seen.into_inner().unwrap())
}

/// The same, and what was visited. From worlds less than `near` changes away from an initial state, runs have two events.
pub fn visit(guards: Guards, generations: u8, runtime: Runtime, near: u8) -> Result<Search, String> {
    let mut search = Search {
        planner: Planner::new(guards, runtime),
        generations,
        near,
        distance: 0,
        from: FxHashMap::default(),
        frontier: Vec::new(),
        left: FxHashMap::default(),
        seen: Mutex::default(),
    };
    for world in beginnings() {
        search.add(world, None);
    }
    while !search.frontier.is_empty() {
        for worlds in std::mem::take(&mut search.frontier).chunks(AT_ONCE) {
            search.run_ahead(worlds);
            for world in worlds {
                search.look(*world)?;
            }
        }
        search.distance = search.distance.saturating_add(1);
    }
    search.seen().states = search.from.len();
    Ok(search)
}

/// From so many worlds the runs go side by side. A search that finds a fault ends after at most so many.
const AT_ONCE: usize = 512;

/// The worlds that a run can leave, or why it breaks the protocol.
type Left = Result<Arc<FxHashSet<World>>, String>;

/// What a search knows.
pub struct Search {
    pub planner: Planner,
    generations: u8,
    /// Runs from worlds at a smaller distance have two events, others one.
    near: u8,
    /// The distance of the world that is looked at: the number of runs and of changes from outside since an initial state.
    distance: u8,
    /// How each state was reached: from which state, and by what.
    from: FxHashMap<World, Option<(World, &'static str)>>,
    /// The worlds at the next distance.
    frontier: Vec<World>,
    left: FxHashMap<(World, &'static str), Left>,
    pub seen: Mutex<Seen>,
}

impl Search {
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn is_small(&self, world: &World) -> bool {
        // A run that is cut short between stamp and record again and again would raise the stamp's counter
        // without limit.
        let stamped = match world.disk {
            Disk::Xfs { stamp: Some(stamp), .. } => stamp.activations <= MOST_ACTIVATIONS,
            _ => true,
        };
        stamped
            && world.record.is_none_or(|record| {
                record.generation <= self.generations && record.activations <= MOST_ACTIVATIONS
            })
    }

    /// The world without what no one can ever see again. This changes nothing but the number of worlds.
    fn plain(&self, mut world: World) -> World {
        // An announced use counts only where a stamp has it.
        let has = |disk: Disk, next| matches!(disk, Disk::Xfs { stamp: Some(stamp), .. } if (stamp.activations, stamp.nonce) == next);
        if let Some(record) = &mut world.record
            && record.lun
            && let Some(next) = record.announced
            && !has(world.disk, next)
            && !world.snapshot.is_some_and(|disk| has(disk, next))
        {
            record.announced = None;
        }
        world.counted &= world.snapshot.is_some();
        world
    }

    fn add(&mut self, world: World, from: Option<(World, &'static str)>) {
        let world = self.plain(world);
        if self.is_small(&world) && !self.from.contains_key(&world) {
            self.from.insert(world, from);
            self.frontier.push(world);
        }
    }

    fn look(&mut self, world: World) -> Result<(), String> {
        world.check().map_err(|why| self.broken(world, &why))?;
        let next = world.outside(self.planner.runtime).map_err(|why| self.broken(world, &why))?;
        // What an array does is the same for a unit and for a pod.
        let is_new = |after: &World| {
            self.planner.runtime == Runtime::Unit || after.snapshot.is_none() && !after.robbed
        };
        for after in next.into_iter().filter(is_new).collect::<Vec<_>>() {
            self.add(after, Some((world, "outside")));
        }
        for (world, _, name) in runs_from(world) {
            self.follow(world, name)?;
        }
        Ok(())
    }

    /// Runs the verbs from these worlds on all processors.
    fn run_ahead(&mut self, worlds: &[World]) {
        let all = worlds.iter().flat_map(|world| runs_from(*world));
        let all = all.map(|(world, verb, name)| ((without_snapshot(world), name), verb));
        let wanted: FxHashMap<_, _> = all.filter(|(key, _)| !self.left.contains_key(key)).collect();
        let wanted: Vec<_> = wanted.into_iter().collect();
        let (next, search) = (AtomicUsize::new(0), &*self);
        let work = || {
            let mut found = Vec::new();
            while let Some((key, verb)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                found.push((*key, search.runs(key.0, *verb, key.1).map(Arc::new)));
            }
            found
        };
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let found: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        self.left.extend(found);
    }

    /// Adds what the verb can leave when it is run from this world.
    fn follow(&mut self, world: World, name: &'static str) -> Result<(), String> {
        let left = self.left[&(without_snapshot(world), name)].clone();
        let left = left.map_err(|why| self.broken(world, &why))?;
        for cut in left.iter() {
            let counted = world.snapshot.is_some() && (world.counted || cut.counted);
            let cut = World { snapshot: world.snapshot, counted, ..*cut };
            // A killed run leaves the world as it is. A power failure also removes what is in memory.
            // Until the next run the other members come back.
            let cut = World { others: true, ..cut };
            self.add(cut, Some((world, name)));
            self.add(cut.rebooted(self.planner.runtime), Some((world, name)));
        }
        Ok(())
    }

    /// Runs the verb without an event, with every possible event at every place, and near an initial state with every second one
    /// after it. The run may be cut short at each place. Returns every world that it can leave.
    fn runs(&self, world: World, verb: Verb, name: &str) -> Result<FxHashSet<World>, String> {
        let mut left = FxHashSet::default();
        let mut sequences: Vec<Vec<(usize, Event)>> = vec![Vec::new()];
        while let Some(events) = sequences.pop() {
            let mut cuts = 0;
            let mut keep = |world: World| {
                cuts += 1;
                left.insert(world);
            };
            let mut run = Run::new(world, &self.planner, &events, &mut keep);
            let end = run.verb(verb);
            let (possible, after) = (std::mem::take(&mut run.possible), run.world);
            self.seen().count(&end, cuts, events.len());
            if let End::Broken(why) = &end {
                return Err(format!("{name}: {why}, with {events:?}"));
            }
            match &end {
                End::Done if events.is_empty() => is_done(after, verb)?,
                // etcd-lun must repair what only etcd-lun and the power have caused.
                End::Refused(why) | End::Failed(why)
                    if events.is_empty() && is_ours_to_mend(&world, verb) =>
                {
                    return Err(format!("etcd-lun needs an administrator: {why}"));
                }
                End::Done | End::Refused(_) | End::Failed(_) | End::Broken(_) => {}
            }
            left.insert(after);
            if events.len() < if self.distance < self.near { 2 } else { 1 } {
                sequences.extend(possible.into_iter().map(|next| [&events[..], &[next]].concat()));
            }
        }
        Ok(left)
    }

    /// Every visited world, with the worlds before it, the latest first.
    pub fn histories(&self) -> impl Iterator<Item = (World, Vec<World>)> {
        self.from.keys().map(|world| {
            let before = |world: &World| self.from.get(world).copied().flatten().map(|(before, _)| before);
            (*world, std::iter::successors(before(world), before).collect())
        })
    }

    pub fn broken(&self, world: World, why: &str) -> String {
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

/// After a run that reports success, etcd is where it should be, and it cannot start anywhere else.
fn is_done(world: World, verb: Verb) -> Result<(), String> {
    let rolled_back = world.record.is_some_and(|record| record.rolled_back);
    let on_lun = world.mounted
        && !world.shut
        && world.record_says_lun()
        && world.local == Local::Fenced
        && matches!(world.etcd, Etcd::OnLun | Etcd::Queued);
    let on_local = !world.mounted && rolled_back && matches!(world.local, Local::Data(_));
    let right = match verb {
        Verb::Run(Goal::Lun(Occasion::ByHand)) => on_lun,
        // A boot does not change a finished rollback.
        Verb::Run(Goal::Lun(Occasion::Boot)) => on_lun || on_local,
        Verb::Run(Goal::Local) => on_local,
        Verb::Run(Goal::Claim | Goal::ClaimLocal) | Verb::Mark => true,
    };
    if right { Ok(()) } else { Err(format!("the run reports success with {world}")) }
}
