//! Three nodes in three virtual machines, whose etcds are one cluster. Each has a LUN of its own at one target, and all have one
//! config. `etcd-lun pool apply` on the host moves the etcds one after the other, while a client writes to all of them. On the way
//! a node cannot be reached, another one's LUN is not blank, and the terminal closes.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use nodes::bed::Bed;
use nodes::cluster::client::{Client, Endpoint};
use nodes::cluster::node::ANSWERS;
use nodes::cluster::pool::{self, Pool};
use nodes::cluster::seat::Seat;
use nodes::cluster::{Span, during, judge};
use nodes::delivery::EtcdRunner;
use nodes::desk::{Desk, Next};
use nodes::net::{Machine, Path as Network};
use nodes::node::Node;
use nodes::scenarios::boot::NODES;
use nodes::scene::{self, LUN_SIZE, Wanted};
use nodes::target::{self, Target};
use nodes::tour::{self, At, Tour};
use nodes::{cluster, host, scenarios};

/// Plays the roll, and afterwards the way back if that is wanted. What the desk prints is what docs/tour.md says, or is written
/// there.
pub fn play(bed: &Rc<Bed>, agent: &Path, rollback: bool, write_tour: bool) -> Result<()> {
    let begun = Instant::now();
    let tour = Tour::read(Path::new(tour::PAGE))?;
    let mut target = pool::offer(bed, 1..=3, scene::LUN_SIZE)?;
    let roll = Roll::boot(bed, agent)?;
    println!(
        "bed: three nodes, whose etcds are one cluster with {} keys, ready in {} s",
        pool::KEYS,
        begun.elapsed().as_secs()
    );
    let played = roll.play(bed, agent, &mut target, rollback);
    if played.is_err() {
        roll.0.collect("roll")?;
    }
    let said = played?;
    if said.len() != tour.commands(At::Desk).count() {
        bail!(
            "docs/tour.md should have the desk's commands: apply until it stops, apply until all is done, health"
        );
    }
    let said: Vec<_> = tour.commands(At::Desk).zip(said).collect();
    if !write_tour {
        return said.iter().try_for_each(|(shown, printed)| shown.is_printed_by(printed));
    }
    fs::write(tour::PAGE, tour.with(&said)?).context("writing docs/tour.md")
}

/// The pool of the roll.
struct Roll(Pool);

impl Roll {
    fn boot(bed: &Rc<Bed>, agent: &Path) -> Result<Self> {
        let pool = Pool::boot(bed, EtcdRunner::Unit, |node, seat| {
            scene::install(node, agent)?;
            scene::configure_with_units(node, &wanted())?;
            pool::link_certificate(node, seat)
        })?;
        Ok(Self(pool))
    }

    /// Returns what the desk's commands of the tour printed.
    fn play(&self, bed: &Rc<Bed>, agent: &Path, target: &mut Target, rollback: bool) -> Result<Vec<String>> {
        let endpoints: Vec<Endpoint> = self.0.seats.iter().map(Seat::endpoint).collect();
        let client = Client::begin(&self.0.namespace, &endpoints, &NODES)?;
        let desk = Desk::new(bed, agent, &wanted(), &self.0.names())?;
        let restart = self.restart_a_follower(&client, &endpoints)?;
        let (mut spans, said) = self.apply(&client, &endpoints, bed, &desk, target)?;
        spans.insert(0, restart);
        for (node, seat) in self.0.nodes.iter().zip(&self.0.seats).filter(|_| rollback) {
            spans.push(self.operate(&client, &endpoints, node, seat, "rollback", "")?);
        }
        judge(client, &spans)?;
        Ok(said)
    }

    /// A plain restart of a member that does not lead: what the cluster's clients notice of it is what they may notice of a move.
    fn restart_a_follower(&self, client: &Client, endpoints: &[Endpoint]) -> Result<Span> {
        let leader = host::poll(Duration::from_secs(30), Duration::from_secs(1), || {
            cluster::leader(&self.0.namespace, endpoints)
        })?;
        let leader = leader.context("the members name no leader")?;
        let (node, seat) = self
            .0
            .nodes
            .iter()
            .zip(&self.0.seats)
            .find(|(_, seat)| seat.name != leader)
            .context("every node leads")?;
        let what = "a plain restart";
        let (span, ()) = during(client, &self.0.namespace, endpoints, what, &seat.name, || {
            cluster::node::restart(node, EtcdRunner::Unit)
        })?;
        Ok(span)
    }

    /// `pool apply` until all nodes are moved, with what may be in its way.
    fn apply(
        &self,
        client: &Client,
        endpoints: &[Endpoint],
        bed: &Bed,
        desk: &Desk,
        target: &mut Target,
    ) -> Result<(Vec<Span>, Vec<String>)> {
        let [first, second, third] = NODES;
        println!("bed: {third} cannot be reached");
        bed.net.link_of(Machine::NODES[2], Network::Management, false)?;
        Desk::says(&desk.run("health", &[])?, 4, &["no answer", &format!("{third}: no answer: ")])?;
        Desk::says(&desk.run("apply", &["--yes"])?, 1, &["no node was changed", third])?;
        bed.net.link_of(Machine::NODES[2], Network::Management, true)?;
        self.are_on(["", "", ""])?;
        self.0.nodes.iter().try_for_each(|node| node.ok(ANSWERS).map(drop))?;

        println!("bed: the LUN of {second} is not blank");
        let mut spans = Spans::new(client, endpoints, &self.0.namespace);
        target.stop();
        let lun = bed.run.dir().join("lun2");
        fs::OpenOptions::new().write(true).open(&lun)?.write_all_at(b"somebody's", 0)?;
        target.restart()?;
        let mut stopped = String::new();
        let code = desk.apply(|line| {
            stopped += &format!("{line}\n");
            spans.line(line)
        })?;
        if code != Some(1) {
            bail!("`pool apply` should stop at {second} with 1, and it ended with {code:?}");
        }
        self.are_on(["xfs", "", ""])?;

        println!("bed: it is, and the terminal closes while etcd of {second} moves");
        target.stop();
        target::blank(&lun, LUN_SIZE)?;
        target.restart()?;
        let mut begun = false;
        let code = desk.apply(|line| {
            spans.line(line)?;
            begun |= line == begins(second);
            // etcd is down then.
            Ok(if begun && line.contains("stop etcd") { Next::Close } else { Next::On })
        })?;
        if code.is_some() || !begun {
            bail!("`pool apply` ended with {code:?} before its terminal was closed");
        }
        let (mut moved, mut went_on) = (Vec::new(), String::new());
        let code = desk.apply(|line| {
            went_on += &format!("{line}\n");
            moved.extend(NODES.iter().filter(|name| line == begins(name)));
            spans.line(line)
        })?;
        spans.end();
        if code != Some(0) || moved.contains(&&first) || !moved.contains(&&third) {
            bail!("`pool apply` ended with {code:?}, after {moved:?}");
        }
        self.are_on(["xfs", "xfs", "xfs"])?;
        Desk::says(&desk.run("apply", &["--yes"])?, 0, &["Done: 0 nodes moved, 3 nodes had nothing to do."])?;
        for node in &self.0.nodes {
            // A boot starts it. The target was restarted on purpose.
            node.ok("systemctl start etcd-lun-health.timer; dmesg --clear")?;
        }
        let health = desk.run("health", &[])?;
        println!("        {}", health.both().trim().replace('\n', "\n        "));
        Ok((spans.done, vec![stopped, went_on, health.both()]))
    }

    /// What is mounted on the data directory of each node.
    fn are_on(&self, filesystems: [&str; 3]) -> Result<()> {
        for ((node, seat), wanted) in self.0.nodes.iter().zip(&self.0.seats).zip(filesystems) {
            let found = node.ok(MOUNTED)?;
            if found != wanted {
                bail!("/var/lib/etcd of {} is a mount of {found:?}, and should be of {wanted:?}", seat.name);
            }
        }
        Ok(())
    }

    /// Runs a verb on one node, and checks where its data is then.
    fn operate(
        &self,
        client: &Client,
        endpoints: &[Endpoint],
        node: &Node,
        seat: &Seat,
        verb: &str,
        filesystem: &str,
    ) -> Result<Span> {
        println!("bed: {}# etcd-lun {verb}", seat.name);
        let what = format!("`etcd-lun {verb}`");
        let (span, output) =
            during(client, &self.0.namespace, endpoints, &what, &seat.name, || scene::agent(node, verb))?;
        if output.code != 0 {
            bail!("on {}, {what}: {output}", seat.name);
        }
        let found = node.ok(&format!("{ANSWERS}; {MOUNTED}"))?;
        if found != filesystem {
            bail!("after {what}, /var/lib/etcd of {} is a mount of {found:?}", seat.name);
        }
        Ok(span)
    }
}

const MOUNTED: &str = "findmnt --noheadings --output FSTYPE --mountpoint /var/lib/etcd || true";

/// The line with which `pool apply` begins at a node.
fn begins(node: &str) -> String {
    format!("{node}: etcd-lun apply")
}

/// The times of each node's move, by the lines of `pool apply`.
struct Spans<'a> {
    client: &'a Client,
    endpoints: &'a [Endpoint],
    namespace: &'a Path,
    done: Vec<Span>,
}

impl<'a> Spans<'a> {
    fn new(client: &'a Client, endpoints: &'a [Endpoint], namespace: &'a Path) -> Self {
        Self { client, endpoints, namespace, done: Vec::new() }
    }

    fn line(&mut self, line: &str) -> Result<Next> {
        if let Some(name) = NODES.iter().find(|name| line == begins(name)) {
            self.end();
            let what = "`etcd-lun pool apply`";
            let (span, ()) = during(self.client, self.namespace, self.endpoints, what, name, || Ok(()))?;
            self.done.push(span);
        }
        Ok(Next::On)
    }

    fn end(&mut self) {
        if let Some(last) = self.done.last_mut() {
            last.to = self.client.now();
        }
    }
}

/// One config for all nodes. Each has its own certificate in the same place.
fn wanted() -> Wanted {
    // Three emulated nodes at once are slow. The scenarios' own time-out is for boots without a target.
    Wanted {
        cluster: format!("client_url = \"http://127.0.0.1:2379\"\n{}", pool::questions()),
        attach_timeout: "5min".into(),
        ..scenarios::boot::pool()
    }
}
