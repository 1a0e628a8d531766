//! A second, small model: etcd runs on the LUN, and paths come and go, the config changes, and the LUN grows. It visits every
//! state, and lets every event happen at every place of a run of `apply`, which is also cut short there. The program's own
//! `plan` decides.
//!
//! Two portals, each with at most one session. What a path is worth and what the kernel believes of it are apart: a target
//! that falls silent is noticed later.

use config::{Backing, Config};
use node::{Fact, LunView, Multipath, Node, SeenSession};
use plan::{Goal, NodeStep, Occasion, Step, step::Grow};
use rustc_hash::FxHashSet;
use std::{
    collections::{HashMap, VecDeque},
    sync::LazyLock,
};
use support::say;
use terms::{Bytes, Portal};

const BOTH: [usize; 2] = [0, 1];

fn portal(which: usize) -> Portal {
    format!("10.77.0.{}", which + 1).parse().unwrap()
}

/// What is at one portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Path {
    /// Whether the target answers there.
    alive: bool,
    /// Whether there is a session.
    session: bool,
    /// Whether the kernel takes the session for logged in. It notices later that a target is silent.
    up: bool,
    /// Whether the kernel has its disk: the session was scanned.
    disk: bool,
    /// Whether the map has its disk.
    in_map: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct World {
    paths: [Path; 2],
    /// The portals of the config.
    config: [bool; 2],
    /// Whether multipathd has a map over the LUN.
    mapped: bool,
    /// Sizes of the LUN, the map and the filesystem.
    lun: u8,
    map: u8,
    filesystem: u8,
}

/// What a mutant leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Before a path is taken away, no other one is looked for.
    AnotherPath,
    /// Another one counts as soon as the kernel takes it for active: no command is sent over it.
    Answer,
    /// Before a session is logged out, nobody looks whether its disk is in use.
    Free,
    /// Before the filesystem grows, the size is not read again.
    Size,
    /// What multipathd has is not looked at: the config's portals are enough.
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Nothing,
    Dies(usize),
    Noticed(usize),
    Back(usize),
    /// multipathd takes a path into the map that is there, as after an event of udev.
    Taken(usize),
    Config([bool; 2]),
    Grows,
    Shrinks,
}

impl World {
    fn works(&self, which: usize) -> bool {
        let path = self.paths[which];
        path.alive && path.session && path.up && path.disk && (path.in_map || !self.mapped)
    }

    fn after(mut self, event: Event) -> Option<Self> {
        let before = self;
        match event {
            Event::Nothing => {}
            Event::Dies(which) => self.paths[which].alive = false,
            Event::Noticed(which) => self.paths[which].up &= self.paths[which].alive,
            Event::Back(which) => {
                self.paths[which].alive = true;
                self.paths[which].up = self.paths[which].session;
            }
            Event::Taken(which) => self.paths[which].in_map |= self.mapped && self.paths[which].disk,
            Event::Config(portals) => self.config = portals,
            Event::Grows => self.lun = 2,
            Event::Shrinks => self.lun = 1,
        }
        (self != before).then_some(self)
    }

    fn events(&self) -> Vec<Event> {
        let of_path =
            |which| [Event::Dies(which), Event::Noticed(which), Event::Back(which), Event::Taken(which)];
        let configs = [[true, false], [false, true], [true, true]].map(Event::Config);
        let all = BOTH.into_iter().flat_map(of_path).chain(configs).chain([Event::Grows, Event::Shrinks]);
        all.filter(|event| self.after(*event).is_some()).collect()
    }

    fn node(&self, without: Without) -> Node {
        let mut node = support::migrated();
        let disk = |which: usize| format!("sd{which}");
        let sessions = BOTH.into_iter().filter(|which| self.paths[*which].session);
        let fact = |which: usize| SeenSession {
            configured: self.config[which].then(|| portal(which)),
            in_use: if self.paths[which].in_map || !self.mapped && self.paths[which].disk {
                vec![disk(which)]
            } else {
                Vec::new()
            },
            ..support::shown(support::session(), |session| {
                session.sid = u32::try_from(which).unwrap();
                session.portal = Some((&portal(which)).into());
                session.state = if self.paths[which].up { "LOGGED_IN" } else { "FAILED" }.into();
                session.recovery_timeout = Some(3600);
            })
        };
        node.sessions = Fact::Known(sessions.clone().map(fact).collect());
        let answers =
            |which: &usize| self.config[*which] && self.paths[*which].alive && !self.paths[*which].up;
        node.answering = BOTH.into_iter().filter(answers).map(portal).collect();
        node.initiator.multipathd_active = Fact::Known(self.mapped || without == Without::Map);
        let LunView::Seen(lun) = support::known(&mut node.lun) else { panic!("the LUN is seen") };
        lun.paths = sessions.filter(|which| self.paths[*which].disk).map(disk).collect();
        lun.multipath =
            if self.mapped || without == Without::Map { Multipath::Mapped } else { Multipath::Unclaimed };
        (lun.size, lun.path_size) = (size(self.map), size(self.lun));
        lun.silent = !BOTH.into_iter().any(|which| self.works(which));
        let mount = support::known(&mut node.mount).as_mut().unwrap();
        mount.free = Some((Bytes(1 << 30), size(self.filesystem)));
        node
    }
}

fn size(units: u8) -> Bytes {
    Bytes(u64::from(units) * (20 << 30))
}

fn config(portals: [bool; 2]) -> &'static Config {
    static CONFIGS: LazyLock<HashMap<[bool; 2], Config>> = LazyLock::new(|| {
        let with = |portals: [bool; 2]| {
            let mut config = support::config();
            let mut iscsi = config.backing.iscsi().unwrap().clone();
            iscsi.target.portals = BOTH.into_iter().filter(|which| portals[*which]).map(portal).collect();
            config.backing = Backing::Iscsi(Box::new(iscsi));
            (portals, config)
        };
        [[true, false], [false, true], [true, true]].map(with).into()
    });
    &CONFIGS[&portals]
}

/// A run of `apply` with one event at one place.
struct Run {
    world: World,
    without: Without,
    event: (usize, Event),
    place: usize,
    /// What the world was at each place.
    seen: Vec<World>,
}

enum End {
    Done,
    Failed,
    Broken(String),
}

impl Run {
    fn happen(&mut self) {
        if self.place == self.event.0 {
            self.world = self.world.after(self.event.1).unwrap_or(self.world);
        }
        self.seen.push(self.world);
        self.place += 1;
    }

    fn whole(&mut self, occasion: Occasion) -> End {
        for _ in 0..8 {
            self.happen();
            let planned = Goal::Lun(occasion).plan(config(self.world.config), &self.world.node(self.without));
            let Ok(plan) = planned else { return End::Failed };
            if plan.is_empty() {
                return End::Done;
            }
            if occasion == Occasion::Boot {
                return End::Broken(format!("the service does {plan:?}"));
            }
            for step in &plan.steps {
                match self.step(step) {
                    Ok(true) => {}
                    Ok(false) => return End::Failed,
                    Err(why) => return End::Broken(why),
                }
            }
        }
        End::Broken("plans without end".into())
    }

    /// Does a step; false if its guard or the target stops it.
    fn step(&mut self, step: &Step) -> Result<bool, String> {
        self.happen();
        let without = self.without;
        let world = &mut self.world;
        let Step::Node(step) = step else { return Err(format!("a node whose etcd runs needs no {step:?}")) };
        match step {
            NodeStep::LogIn(step) => {
                let mut any = false;
                for which in BOTH.into_iter().filter(|which| step.portals.contains(&portal(*which))) {
                    let path = &mut world.paths[which];
                    if path.alive {
                        (path.session, path.up, any) = (true, true, true);
                    }
                }
                if !world.mapped && BOTH.into_iter().all(|which| world.paths[which].session) {
                    return Err("a second session shows the LUN as a second disk".into());
                }
                self.happen();
                Ok(any)
            }
            NodeStep::AttachLun(_) => {
                for path in &mut world.paths {
                    // A scan over a silent path ends when the kernel has noticed it.
                    path.up &= path.alive;
                    if path.up && !path.disk {
                        (path.disk, path.in_map) = (true, world.mapped);
                    }
                }
                Ok(true)
            }
            NodeStep::RemovePath(step) => {
                let leaves = usize::try_from(step.sid).unwrap();
                let mut another = without == Without::AnotherPath;
                for other in BOTH.into_iter().filter(|which| *which != leaves && world.config[*which]) {
                    let path = &mut world.paths[other];
                    let active = path.session && path.up && path.in_map;
                    // A command over a silent path ends when the kernel has noticed it.
                    path.up &= path.alive || without == Without::Answer;
                    another |= active && path.up;
                }
                if !another || !world.paths[leaves].in_map {
                    return Ok(false);
                }
                world.paths[leaves].in_map = false;
                let left = BOTH.into_iter().any(|which| world.works(which));
                if left { Ok(true) } else { Err("no path is left that works".into()) }
            }
            NodeStep::AddPath(step) => {
                let comes = BOTH.into_iter().find(|which| step.path == format!("sd{which}")).unwrap();
                if !world.paths[comes].disk || world.paths[comes].in_map {
                    return Ok(false);
                }
                world.paths[comes].in_map = true;
                Ok(true)
            }
            NodeStep::LogOut { sid } => {
                let path = &mut world.paths[usize::try_from(*sid).unwrap()];
                let used = path.in_map || !world.mapped;
                if used && without != Without::Free {
                    return Ok(false);
                }
                (path.session, path.up, path.disk) = (false, false, false);
                if used { Err("law 8: a session in use is logged out".into()) } else { Ok(true) }
            }
            NodeStep::ResizeMap { to, .. } => {
                world.map = world.lun;
                Ok(size(world.map) >= *to)
            }
            NodeStep::Grow(Grow { to, .. }) => {
                let enough = size(world.map.min(world.lun)) >= *to;
                if !enough && without != Without::Size {
                    return Ok(false);
                }
                world.filesystem = if *to == size(2) { 2 } else { 1 };
                if enough { Ok(true) } else { Err("the filesystem ends behind the LUN".into()) }
            }
            other => Err(format!("a node whose etcd runs needs no {other:?}")),
        }
    }
}

/// Whether `apply` has reached what the config asks for.
fn follows(world: &World) -> bool {
    let right = |which: usize| {
        let (path, wanted) = (world.paths[which], world.config[which]);
        path.session == wanted && (path.in_map || !wanted)
    };
    BOTH.into_iter().all(right) && world.filesystem == world.lun
}

fn search(without: Without) -> Result<(usize, usize), String> {
    let one = Path { alive: true, session: true, up: true, disk: true, in_map: true };
    let other = Path { alive: true, ..Path::default() };
    let mut queue = VecDeque::new();
    let mut seen = FxHashSet::default();
    for mapped in [true, false] {
        let paths = [Path { in_map: mapped, ..one }, other];
        queue.push_back(World { paths, config: [true, false], mapped, lun: 1, map: 1, filesystem: 1 });
    }
    let mut runs = 0;
    while let Some(world) = queue.pop_front() {
        if !seen.insert(world) {
            continue;
        }
        queue.extend(world.events().into_iter().filter_map(|event| world.after(event)));
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            let run = |event| Run { world, without, event, place: 0, seen: Vec::new() };
            let mut plain = run((usize::MAX, Event::Nothing));
            let end = plain.whole(occasion);
            let mut ends = vec![(end, plain.world, Event::Nothing)];
            let settled = |which: usize| {
                world.paths[which].alive && world.paths[which].up == world.paths[which].session
            };
            let fine = BOTH.into_iter().all(settled) && BOTH.into_iter().any(|which| world.works(which));
            let must = occasion == Occasion::ByHand && world.mapped && world.filesystem <= world.lun;
            let has = matches!(ends[0].0, End::Done) && follows(&plain.world);
            if without == Without::Nothing && must && fine && !has {
                return Err(format!("apply does not follow the config: {world:?} becomes {:?}", plain.world));
            }
            for (place, at) in plain.seen.iter().enumerate() {
                for event in at.events() {
                    let mut run = run((place, event));
                    let end = run.whole(occasion);
                    queue.extend(run.seen.iter().copied());
                    ends.push((end, run.world, event));
                }
            }
            queue.extend(plain.seen);
            for (end, after, event) in ends {
                runs += 1;
                queue.push_back(after);
                if let End::Broken(why) = end {
                    return Err(format!("{why}: {event:?} during a run from {world:?}"));
                }
            }
        }
    }
    Ok((seen.len(), runs))
}

#[test]
fn paths_come_and_go_and_etcd_keeps_one_that_works() {
    let (states, runs) = search(Without::Nothing).unwrap_or_else(|broken| panic!("{broken}"));
    say!("paths: {states} states, {runs} runs of apply from them: no invariant broken");
    assert!(states > 500 && runs > 10_000, "{states} states, {runs} runs");
}

#[test]
fn every_guard_of_a_path_is_needed() {
    let mutants = [Without::AnotherPath, Without::Answer, Without::Free, Without::Size, Without::Map];
    for mutant in mutants {
        match search(mutant) {
            Ok(seen) => panic!("without {mutant:?} nothing breaks: {seen:?}"),
            Err(broken) => say!("without {mutant:?}: {broken}"),
        }
    }
}
