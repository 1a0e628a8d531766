//! A cluster of three: the node's etcd, and two members on the host. A client writes to all of them, and its
//! history is checked at the end.
//!
//! - `history`: what a history proves (pure)
//! - `client`: writes, reads, and asks what each member holds
//! - `certificates`, `seat`: certificates and settings of a member
//! - `member`, `node`: a member on the host, and the member in the node
//! - `pool`: three nodes in three virtual machines instead, whose etcds are the members

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::bed::Bed;
use crate::delivery::EtcdRunner;
use crate::gateway::{post, within};
use crate::host;
use crate::image::HOSTNAME;
use crate::net::{Machine, Path};
use crate::node::Node;

pub mod certificates;
pub mod client;
pub mod history;
pub mod member;
pub mod node;
pub mod pool;
pub mod seat;

use certificates::Certificates;
use client::{Client, Endpoint, Work};
use history::Outcome;
use member::Member;
use seat::Seat;

/// The names and addresses of the two members on the host.
const OTHERS: [(&str, &str); 2] = [("master-1", "10.79.0.11"), ("master-2", "10.79.0.12")];
/// How long a member may take to answer or to catch up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster of three members.
#[derive(Debug)]
pub struct Cluster {
    /// The members on the host.
    pub others: Vec<Member>,
    seats: Vec<Seat>,
    certificates: Certificates,
    namespace: PathBuf,
}

/// A part of the client's time, such as a migration.
#[derive(Debug)]
pub struct Span {
    /// What happened.
    pub what: String,
    /// The member to which it happened.
    pub member: String,
    /// Whether that member was the leader when it began.
    pub led: bool,
    /// When it began, since the client's start.
    pub from: Duration,
    /// When it ended.
    pub to: Duration,
}

impl Cluster {
    /// Makes the node's etcd, which has data, the first member, and adds the two others one after the other.
    pub fn around(bed: &Rc<Bed>, node: &Node, runner: EtcdRunner) -> Result<Self> {
        let mut seats = vec![Seat::new(HOSTNAME, &Path::Management.address(Machine::Node))];
        seats.extend(OTHERS.map(|(name, address)| Seat::new(name, address)));
        let names: Vec<(&str, &str)> =
            seats.iter().map(|seat| (seat.name.as_str(), seat.address.as_str())).collect();
        let dir = bed.run.dir().join("certificates");
        let certificates = Certificates::make(&dir, &names)?;
        // With the certificates that it has had so far.
        node.ok(&format!(
            "id=$(etcdctl member list | cut -d, -f1); etcdctl member update $id --peer-urls={}",
            seats[0].peer_url()
        ))?;
        node::prepare(node, runner, &seats[0], &certificates, &seats[..1])?;
        node::restart(node, runner)?;
        let mut cluster = Self { others: Vec::new(), seats, certificates, namespace: namespace(bed) };
        for number in 1..cluster.seats.len() {
            cluster.add(bed, node, number)?;
        }
        Ok(cluster)
    }

    fn add(&mut self, bed: &Rc<Bed>, node: &Node, number: usize) -> Result<()> {
        let seat = &self.seats[number];
        // etcd refuses a further member until the one before it has been connected for some seconds.
        node.ok(&format!(
            "for try in $(seq 60); do etcdctl --command-timeout 30s member add {} --peer-urls={} >/dev/null 2>/run/added && exit 0; sleep 1; done; cat /run/added >&2; exit 1",
            seat.name,
            seat.peer_url()
        ))?;
        let mut member = Member::new(bed, seat)?;
        member.start(self.certificates.dir(), &self.seats[..=number], "existing")?;
        self.others.push(member);
        self.answers(number)
    }

    /// Starts the etcd of a member on the host again, after it was killed.
    pub fn start_again(&mut self, number: usize) -> Result<()> {
        self.others[number].start(self.certificates.dir(), &self.seats, "existing")?;
        self.answers(number + 1)
    }

    /// Starts the etcd of all members on the host again, after they were killed. None has a leader before
    /// another one runs.
    pub fn start_all_again(&mut self) -> Result<()> {
        let (certificates, seats) = (self.certificates.dir(), &self.seats);
        self.others.iter_mut().try_for_each(|member| member.start(certificates, seats, "existing"))
    }

    /// Replaces a member on the host by a learner that has no data.
    pub fn replace_by_learner(&mut self, bed: &Rc<Bed>, node: &Node, number: usize) -> Result<()> {
        let seat = self.seats[number + 1].clone();
        node.ok(&format!("etcdctl --command-timeout 60s member remove {}", id_of(&seat)))?;
        drop(self.others.remove(number));
        node.ok(&format!(
            "etcdctl --command-timeout 60s member add {} --learner --peer-urls={}",
            seat.name,
            seat.peer_url()
        ))?;
        let mut member = Member::new(bed, &seat)?;
        member.start(self.certificates.dir(), &self.seats, "existing")?;
        self.others.insert(number, member);
        self.sees(number + 1, true)
    }

    /// Gives a learner its vote.
    pub fn promote(&self, node: &Node, number: usize) -> Result<()> {
        let id = id_of(&self.seats[number + 1]);
        // etcd refuses this until the learner has caught up.
        node.ok(&format!(
            "for try in $(seq 60); do etcdctl member promote {id} >/dev/null 2>/run/promoted && exit 0; sleep 1; done; cat /run/promoted >&2; exit 1"
        ))
        .map(drop)
    }

    /// Waits until every member answers linearizable reads.
    pub fn all_serve(&self) -> Result<()> {
        (0..self.seats.len()).try_for_each(|number| self.answers(number))
    }

    /// Waits until the node's member sees no leader.
    pub fn lost_leader(&self) -> Result<()> {
        self.sees(0, false)
    }

    /// Waits until a member answers a linearizable read.
    fn answers(&self, number: usize) -> Result<()> {
        self.wait(number, "does not answer", |address| {
            post(address, "/v3/kv/range", &json!({ "key": "AA==" })).is_ok()
        })
    }

    /// Waits until a member sees a leader, or none.
    fn sees(&self, number: usize, leader: bool) -> Result<()> {
        let what = if leader { "sees no leader" } else { "still sees a leader" };
        self.wait(number, what, move |address| {
            // The gateway leaves out a leader of 0, which is none.
            let status = post(address, "/v3/maintenance/status", &json!({}));
            status.is_ok_and(|status| status["leader"].is_string() == leader)
        })
    }

    fn wait(
        &self,
        number: usize,
        otherwise: &str,
        done: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<()> {
        let Endpoint { member, address } = self.seats[number].endpoint();
        let ok = within(&self.namespace, move || {
            host::poll(PATIENCE, Duration::from_millis(300), || Ok(done(&address).then_some(())))
        })?;
        ok.with_context(|| format!("{member} {otherwise} after {} s", PATIENCE.as_secs()))
    }

    /// All members, the node's first.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.seats.iter().map(Seat::endpoint).collect()
    }

    /// Starts a client that writes to all members, and asks the node's for its own answers.
    pub fn client(&self) -> Result<Client> {
        Client::begin(&self.namespace, &self.endpoints(), &[&self.seats[0].name])
    }

    /// Does something to the node under the client's writes.
    pub fn during<T>(
        &self,
        client: &Client,
        what: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(Span, T)> {
        during(client, &self.namespace, &self.endpoints(), what, &self.seats[0].name, work)
    }

    /// Makes the node's member the leader.
    pub fn lead(&self) -> Result<()> {
        let (endpoints, name) = (self.endpoints(), self.seats[0].name.clone());
        within(&self.namespace, move || {
            host::poll(PATIENCE, Duration::from_secs(1), || {
                let states = states(&endpoints)?;
                let own = states.iter().find(|state| state.member == name).context("it is no member")?;
                let Some(leader) = states.iter().find(|state| state.id == own.leader) else {
                    return Ok(None);
                };
                if leader.member == name {
                    return Ok(Some(()));
                }
                let question = json!({ "targetID": own.id });
                // An error means that the leader changes just now.
                post(&leader.address, "/v3/maintenance/transfer-leadership", &question).ok();
                Ok(None)
            })?
            .with_context(|| format!("{name} does not become the leader"))
        })
    }
}

/// A shell's expression for a member's id.
fn id_of(seat: &Seat) -> String {
    // An unstarted member has no name in the list, but always its URL.
    format!("$(etcdctl member list | grep -F {} | cut -d, -f1)", seat.peer_url())
}

/// The run's network namespace.
pub fn namespace(bed: &Bed) -> PathBuf {
    PathBuf::from("/run/netns").join(bed.run.namespace())
}

/// Does something to a member under the client's writes.
pub fn during<T>(
    client: &Client,
    namespace: &std::path::Path,
    endpoints: &[Endpoint],
    what: &str,
    member: &str,
    work: impl FnOnce() -> Result<T>,
) -> Result<(Span, T)> {
    let led = within(namespace, || {
        let states = states(endpoints)?;
        Ok(states.iter().any(|state| state.member == member && state.leader == state.id))
    })?;
    let from = client.now();
    let done = work()?;
    Ok((Span { what: what.into(), member: member.into(), led, from, to: client.now() }, done))
}

/// The member that leads the cluster; none if the members do not agree.
pub fn leader(namespace: &std::path::Path, endpoints: &[Endpoint]) -> Result<Option<String>> {
    within(namespace, || {
        let states = states(endpoints)?;
        let leads = |state: &&State| states.iter().all(|other| other.leader == state.id);
        Ok(states.iter().find(leads).map(|state| state.member.clone()))
    })
}

/// What a member says of itself.
struct State {
    member: String,
    address: String,
    id: String,
    leader: String,
}

fn states(endpoints: &[Endpoint]) -> Result<Vec<State>> {
    endpoints
        .iter()
        .map(|endpoint| {
            let status = post(&endpoint.address, "/v3/maintenance/status", &json!({}))?;
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_string();
            Ok(State {
                member: endpoint.member.clone(),
                address: endpoint.address.clone(),
                id: text(&status["header"]["member_id"]),
                leader: text(&status["leader"]),
            })
        })
        .collect()
}

/// How long the client waited for a write.
fn slowest(put: &history::Put) -> String {
    let how = match put.outcome {
        Outcome::Acknowledged => "was acknowledged",
        Outcome::Failed => "failed",
        Outcome::Unknown => "had no answer",
    };
    format!(", and one write {how} after {:.1} s", (put.ended - put.begun).as_secs_f32())
}

/// Ends the client, checks its history against what every member holds, and prints the times without an
/// answer.
pub fn judge(client: Client, spans: &[Span]) -> Result<Work> {
    // Some writes after the last span.
    std::thread::sleep(Duration::from_secs(2));
    let (work, survey) = client.end()?;
    let held = survey.take(PATIENCE)?;
    let history = &work.history;
    let [acknowledged, failed, unknown] =
        [Outcome::Acknowledged, Outcome::Failed, Outcome::Unknown].map(|outcome| history.count(outcome));
    println!(
        "        client: {acknowledged} writes acknowledged, {failed} not sent, {unknown} without an answer, {} reads of the counter, in {:.0} s",
        history.reads.len(),
        work.ended.as_secs_f32()
    );
    for span in spans {
        println!(
            "        {} of {}{}: {:.1} s. No write was acknowledged for {:.1} s at most{}; the member itself did not answer for {:.1} s",
            span.what,
            span.member,
            if span.led { " (the leader)" } else { "" },
            (span.to - span.from).as_secs_f32(),
            history.longest_gap(span.from, span.to).as_secs_f32(),
            history.slowest(span.from, span.to).map(slowest).unwrap_or_default(),
            work.away(&span.member, span.from, span.to)?.as_secs_f32()
        );
    }
    let faults = history.faults(&held);
    if !faults.is_empty() {
        let told: Vec<String> = faults.iter().take(10).map(ToString::to_string).collect();
        bail!("{} faults in the client's history:\n{}", faults.len(), told.join("\n"));
    }
    // Otherwise the check would prove nothing.
    if acknowledged < 50 || history.reads.len() < 20 {
        bail!("only {acknowledged} writes were acknowledged and {} reads answered", history.reads.len());
    }
    let (revision, hash, _) = held.first().context("there is no member")?.hash;
    println!(
        "        all {} members have every acknowledged write, and hash {hash} at revision {revision}",
        held.len()
    );
    Ok(work)
}
