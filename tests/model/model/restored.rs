//! The node's disk goes back to an earlier state, and the LUN stays: a snapshot of the root disk is restored. A clone of the disk
//! on another computer sees the same.
//!
//! From every world that the search has visited, the disk goes back to every state that it had on the way there. Then the machine
//! boots. etcd waits for the boot's run, which may be cut short by a power failure at any place. What must hold:
//!
//! * etcd can start on nothing that is older than the newest write that the node's disks hold.
//! * No run replaces a newer write on a LUN that has served.
//! * A person gets the node back with `claim` and `apply`, with the newest write.
//! * Or with `claim --local`, if the local data was barred, with what that holds.
//! * A person who waits whether a clone uses the LUN takes it only if none does.
//!
//! What cannot be detected is exempt, and each exemption is a function here.

use crate::{
    outside::OTHERS,
    planner::Planner,
    run::{End, Event, Run, Runtime, Verb},
    search::{Search, visit},
    world::{Disk, Etcd, Guards, Local, Look, Stamp, Start, Tree, World, Writes},
};
use plan::{Goal, Occasion};
use rustc_hash::FxHashSet;
use support::say;

/// The nonce that the node draws after its disk went back.
const RESTORED: u8 = 2;

/// The newest write that the node's disks hold.
fn newest(world: &World) -> Writes {
    let local = match world.local {
        Local::Data(writes) => writes,
        Local::Absent | Local::Empty | Local::Barred | Local::Fenced => 0,
    };
    let shelf = world.shelf.map_or(0, |shelf| whole(shelf.tree));
    local.max(shelf).max(world.barred_writes().unwrap_or(0)).max(on_lun(world))
}

fn whole(tree: Tree) -> Writes {
    match tree {
        Tree::Whole(writes) => writes,
        Tree::Partial => 0,
    }
}

fn on_lun(world: &World) -> Writes {
    match world.disk {
        Disk::Xfs { tree, stamp: Some(Stamp { ours: true, .. }), .. } => whole(tree),
        _ => 0,
    }
}

/// The world after its disk went back to what it was in `earlier`, and a boot.
fn restored(now: &World, earlier: &World, runtime: Runtime) -> World {
    let World { local, record, shelf, barred, stopped_by_us, .. } = *earlier;
    let world = World { local, record, shelf, barred, stopped_by_us, nonce: RESTORED, ..*now };
    World { truth: newest(&world), ..world }.rebooted(runtime)
}

/// The LUN was mounted for use since its data was copied. Before, it holds a copy that no client ever wrote to, and its stamp is
/// what a power cut right before the commit leaves: whether etcd has run locally since cannot be known.
fn has_served(world: &World) -> bool {
    matches!(world.disk, Disk::Xfs { stamp: Some(stamp), .. } if stamp.ours && stamp.activations > 0)
}

/// A run without an event: the world after it, its end, and the worlds that a power cut and a new boot leave at each of its places.
fn played(planner: &Planner, world: World, verb: Verb) -> (World, End, FxHashSet<World>) {
    let mut cuts = FxHashSet::default();
    let mut keep = |cut: World| {
        cuts.insert(cut.rebooted(planner.runtime));
    };
    let mut run = Run::new(world, planner, &[], &mut keep);
    run.unchecked = true;
    let end = run.verb(verb);
    (run.world, end, cuts)
}

/// The ways in which a run can end, with a power cut and a new boot at every place, and no other event.
fn ends(search: &Search, world: World, verb: Verb) -> Result<(World, End), String> {
    let (after, end, cuts) = played(&search.planner, world, verb);
    for cut in cuts {
        let (after, ..) = played(&search.planner, cut, verb);
        is_safe(&world, &after, verb).map_err(|why| format!("{why}, after a cut at {cut}"))?;
    }
    is_safe(&world, &after, verb)?;
    Ok((after, end))
}

/// What must hold after a run has ended, so that etcd may be started.
fn is_safe(before: &World, after: &World, verb: Verb) -> Result<(), String> {
    if has_served(before) && on_lun(after) < on_lun(before) && newest(after) < newest(before) {
        return Err(format!("{verb:?} has lowered the newest write: {after}"));
    }
    if !has_served(before) {
        return Ok(());
    }
    after.start().map(drop).map_err(|why| format!("after {verb:?}: {why}: {after}"))
}

/// What a person has decided.
#[derive(Debug, Default)]
struct Decided {
    for_the_lun: usize,
    for_local_data: usize,
    /// A clone began to use the LUN while a person waited.
    beside_a_clone: usize,
}

fn check(search: &Search, world: World, decided: &mut Decided) -> Result<(), String> {
    let (booted, _) = ends(search, world, Verb::Run(Goal::Lun(Occasion::Boot)))?;
    let (tried, _) = ends(search, booted, Verb::Run(Goal::Lun(Occasion::ByHand)))?;
    decided.for_local_data += usize::from(returns(search, tried)?);
    // Where a person has to decide, the decision for the LUN leads to its newest write.
    let is_claimable =
        has_served(&world) && on_lun(&world) == world.truth && !tried.is_running() && !tried.mounted;
    if !is_claimable {
        return Ok(());
    }
    decided.beside_a_clone += beside_a_clone(&search.planner, tried)?;
    let (claimed, end) = ends(search, tried, Verb::Run(Goal::Claim))?;
    if end != End::Done {
        return Err(format!("`claim` does not help: {end:?}: {claimed}"));
    }
    let (after, end) = ends(search, claimed, Verb::Run(Goal::Lun(Occasion::ByHand)))?;
    match after.start() {
        Ok(Start::Lun) if end == End::Done => {
            decided.for_the_lun += 1;
            Ok(())
        }
        found => Err(format!("after `claim`, `apply` ends with {end:?}, {found:?}: {after}")),
    }
}

/// A person decides for the barred data, and loses what only the LUN holds. At no moment can etcd start on anything else. False if
/// there is nothing to decide.
fn returns(search: &Search, tried: World) -> Result<bool, String> {
    let Some(chosen) = tried.barred_writes() else { return Ok(false) };
    if tried.is_running() || tried.mounted {
        return Ok(false);
    }
    let world = World { truth: chosen, ..tried };
    let verb = Verb::Run(Goal::ClaimLocal);
    let run = |world, verb| played(&search.planner, world, verb);
    // At a boot etcd's start waits in the queue, and a run leaves it there.
    let is_back = |after: World, end| match (end, after.etcd, after.local) {
        (End::Done, Etcd::OnLocal | Etcd::Queued, Local::Data(writes)) if writes == chosen => Ok(()),
        (end, ..) => Err(format!("`claim --local` does not help: {end:?}: {after}")),
    };
    let (after, end, cuts) = run(world, verb);
    is_back(after, end)?;
    for cut in cuts {
        let (booted, _, _) = run(cut, Verb::Run(Goal::Lun(Occasion::Boot)));
        booted.start().map_err(|why| format!("{why}, after a cut of `claim --local` at {cut}"))?;
        let (after, end, _) = run(booted, verb);
        is_back(after, end).map_err(|why| format!("{why}, after a cut at {cut}"))?;
    }
    Ok(true)
}

/// A clone begins to use the LUN while a person waits whether one does. Returns how many moments there are for that.
fn beside_a_clone(planner: &Planner, tried: World) -> Result<usize, String> {
    let claim = |events: &[(usize, Event)]| {
        let mut ignore = |_| ();
        let mut run = Run::new(tried, planner, events, &mut ignore);
        run.unchecked = true;
        let end = run.verb(Verb::Run(Goal::Claim));
        (end, run.world, std::mem::take(&mut run.possible))
    };
    let (_, _, possible) = claim(&[]);
    let moments: Vec<_> = possible.into_iter().filter(|(_, event)| *event == Event::CloneServes).collect();
    for moment in &moments {
        let (end, after, _) = claim(&[*moment]);
        let is_left = matches!(after.disk, Disk::Xfs { stamp: Some(Stamp { nonce: OTHERS, .. }), .. });
        if end == End::Done || !is_left {
            return Err(format!("`claim` takes a LUN that a clone uses: {after}"));
        }
    }
    Ok(moments.len())
}

/// A clone uses the LUN of a node that is down.
fn used_by_a_clone(now: &World, runtime: Runtime) -> Option<World> {
    let world = World { reachable: true, two_volumes: false, snapshot: None, counted: false, ..*now }
        .used_by_a_clone()?;
    (!now.mounted && !now.is_running()).then(|| world.rebooted(runtime))
}

/// The node neither writes to a LUN that its clone uses, nor mounts it.
fn leaves_the_clone_alone(search: &Search, world: World) -> Result<(), String> {
    for occasion in [Occasion::Boot, Occasion::ByHand] {
        let (after, ..) = played(&search.planner, world, Verb::Run(Goal::Lun(occasion)));
        if after.disk != world.disk || after.mounted {
            return Err(format!("{occasion:?}: the clone's LUN was used: {after}"));
        }
        if !matches!(after.start(), Ok(Start::Nowhere)) {
            return Err(format!("{occasion:?}: etcd can start beside the clone: {after}"));
        }
    }
    Ok(())
}

/// A boot that cannot see the LUN leaves an etcd down that a run of an earlier boot has stopped.
fn stays_down_unseen(planner: &Planner, world: World) -> Result<bool, String> {
    if !world.stopped_by_us {
        return Ok(false);
    }
    let (after, ..) =
        played(planner, World { reachable: false, ..world }, Verb::Run(Goal::Lun(Occasion::Boot)));
    let is_down = after.stopped_by_us && !after.is_running();
    if is_down { Ok(true) } else { Err(format!("etcd was started, and the LUN was not seen: {after}")) }
}

#[test]
fn a_disk_that_goes_back_in_time_loses_nothing_that_the_lun_holds() {
    let (unseen, is_watch_needed) = restore(Runtime::Unit);
    assert!(is_watch_needed, "`claim` without a second look is not seen to take a LUN that a clone uses");
    assert_eq!(unseen, 0, "the note of a unit is gone after a boot");
}

#[test]
fn nor_does_it_where_a_manifest_is_parked() {
    let (unseen, _) = restore(Runtime::StaticPod);
    assert!(unseen > 40, "{unseen}");
}

fn restore(runtime: Runtime) -> (usize, bool) {
    let search = visit(Guards::ALL, 2, runtime, 0).unwrap_or_else(|broken| panic!("{broken}"));
    let mut done = FxHashSet::default();
    let (mut decided, mut clones, mut unseen) = (Decided::default(), 0, 0);
    let blind = Planner::new(Guards { blind: Some(("watch-lun", Look::Stamp)), ..Guards::ALL }, runtime);
    let mut is_watch_needed = false;
    for (now, before) in search.histories() {
        // What others have done to the LUN is the search's subject.
        let foreign = matches!(now.disk, Disk::Xfs { id: OTHERS, .. } | Disk::Foreign);
        if now.robbed || now.meddled || now.snapshot.is_some() || foreign || now.sidecars {
            continue;
        }
        if let Some(world) = used_by_a_clone(&now, runtime)
            && done.insert(world)
        {
            clones += 1;
            leaves_the_clone_alone(&search, world).unwrap_or_else(|why| panic!("{why}\nfrom {world}"));
        }
        for earlier in before {
            let world = World {
                reachable: true,
                two_volumes: false,
                counted: false,
                ..restored(&now, &earlier, runtime)
            };
            if !done.insert(world) {
                continue;
            }
            let checked =
                check(&search, world, &mut decided).and_then(|()| stays_down_unseen(&search.planner, world));
            let is_unseen = checked.unwrap_or_else(|why| {
                panic!(
                    "{why}\nfrom {world}\nthe disk is of {earlier}\nand the LUN of\n{}",
                    search.broken(now, "the history:")
                )
            });
            unseen += usize::from(is_unseen);
            is_watch_needed |= beside_a_clone(&blind, world).is_err();
        }
    }
    say!(
        "{runtime:?}: {} restored disks and clones, {clones} clones, a person has decided: {decided:?}, unseen {unseen}",
        done.len()
    );
    assert!(done.len() > 800 && decided.for_the_lun > 100 && clones > 100);
    assert!(decided.for_local_data > 40 && decided.beside_a_clone > 100);
    (unseen, is_watch_needed)
}
