//! Observes the etcd cluster: asks this node's member for the list of members, and then each of the others.

use super::certificates::{Keys, certificates};
use config::{Config, Runtime};
use host::{
    Host,
    etcd_api::{self, ApiError, ListedMember, Status},
    http::Certificates,
    route,
};
use node::{Cluster, Fact, Member, MemberHealth, Node};
use std::time::Duration;
use terms::ClientUrl;

/// How many entries of the log a healthy member may be behind. etcd keeps 5,000 entries for slow members (`SnapshotCatchUpEntries`
/// in etcd `server/etcdserver/server.go`); one that is further behind may need the whole database. A member that has applied
/// 5,000 entries less than are committed takes no writes (`maxGapBetweenApplyAndCommitIndex` in `v3_server.go`).
const MOST_BEHIND: u64 = 5000;

/// OpenShift's etcd answers HTTP at this port where its client port answers gRPC only (openshift/cluster-etcd-operator
/// `bindata/etcd/pod.yaml` since April 2026).
const OPENSHIFT_HTTP_PORT: u16 = 2381;

/// The cluster. None without a question while this node's etcd does not run.
///
/// Patient is who may stop a member by the answer. A reader does not wait for a member that does not answer.
pub fn cluster(host: &Host, config: &Config, node: &Node, patient: bool) -> Option<Fact<Cluster>> {
    let runs = node.etcd.known().is_none_or(|etcd| etcd.running);
    runs.then(|| cluster_now(host, config, patient))
}

/// How often the members are asked while they do not agree on their leader, or a member that is needed is not healthy. An election
/// ends within a few of its time-outs: 1 s by default, 2.5 s in OpenShift's profile `Slower`.
const LOOKS: usize = 4;
/// The time between two of these looks.
const ELECTION: Duration = Duration::from_secs(2);

/// The cluster, asked now. The members are asked one after the other, so an election meanwhile makes them name different
/// leaders, or none. Then all are asked again. Before a stop is refused they are, too: a member that is loaded, or was just started or
/// promoted, answers late.
pub fn cluster_now(host: &Host, config: &Config, patient: bool) -> Fact<Cluster> {
    settled(|| ask(host, config), patient, || host.pause(ELECTION).is_ok())
        .map_or_else(Fact::Unknown, Fact::Known)
}

/// The cluster, and true if all members that answer agree on one leader.
type Look = Result<(Cluster, bool), String>;

fn settled(ask: impl Fn() -> Look, patient: bool, pause: impl Fn() -> bool) -> Result<Cluster, String> {
    for _ in 1..LOOKS {
        let (cluster, agreed) = ask()?;
        let waits = patient && !cluster.can_spare_own() && !cluster.other_voters().all(Member::is_healthy);
        if agreed && !waits || !pause() {
            return Ok(cluster);
        }
    }
    Ok(ask()?.0)
}

/// The state of this node's member, once it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// It has a leader and has applied all that the leader had committed.
    Voter,
    /// It sees a leader. A learner answers no reads that are up to date.
    Learner,
}

/// Why this node's member does not serve, or cannot be asked. Its text ends with a cure where there is one.
#[derive(Debug, thiserror::Error)]
pub enum NotServing {
    /// It does not answer as a member does.
    #[error("this node's member at {url}: {error}; see that etcd runs, and check {}", keys(.error))]
    Unanswered {
        /// Where it was asked.
        url: ClientUrl,
        /// The answer.
        error: ApiError,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// The keys of the config that a failure of the node's own member is about.
fn keys(error: &ApiError) -> &'static str {
    match error {
        ApiError::Failed { code: 58, .. } => "`cluster.cert` and `cluster.key`",
        ApiError::Failed { code: 16 | 35 | 52 | 55 | 56, .. } => {
            "`cluster.cert` and `cluster.key`, and `cluster.client_url`"
        }
        ApiError::Failed { code: 60, .. } => {
            "`cluster.ca`; if the certificate has expired, this node's clock, and renew it if that is right"
        }
        ApiError::Failed { code: 77, .. } => "`cluster.ca`",
        _ if error.is_other_protocol() => "`cluster.client_url` and `cluster.http_port`",
        _ => "`cluster.client_url`",
    }
}

impl NotServing {
    /// The finding, for someone who waits for a member that was just started: it opens its database and reads its log before it
    /// answers, and there is nothing to cure.
    pub fn so_far(&self) -> String {
        match self {
            Self::Unanswered { url, error } if error.is_silence() => {
                format!("the member at {url} has not answered yet")
            }
            Self::Unanswered { url, error } => format!("the member at {url} has not answered yet: {error}"),
            Self::Other(why) => why.clone(),
        }
    }
}

impl From<String> for NotServing {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

/// Succeeds if this node's member serves. The error says what it waits for.
pub fn own_member(host: &Host, config: &Config) -> Result<Serving, NotServing> {
    let own = own(host, config)?;
    if own.status.leader == 0 {
        return Err(format!("the member at {} sees no leader", own.url).into());
    }
    if own.status.learner {
        return Ok(Serving::Learner);
    }
    match etcd_api::read(host, &own.url, &own.with) {
        Ok(()) => Ok(Serving::Voter),
        Err(error) => {
            Err(format!("the member at {} has not caught up with its leader: {error}", own.url).into())
        }
    }
}

/// If this node's member leads its cluster, asks it to let the healthy voter lead that has applied the most of the log, and waits
/// until that is so. Returns the voter's name; none if another member leads, or if there is no such voter.
///
/// A leader that ends takes the cluster's writes with it until the others have elected another: an election time-out, 1 s by
/// default and 2.5 s in OpenShift's profile `Slower`, and the election. A leader that hands over first costs no such time.
pub fn hand_over_leadership(host: &Host, config: &Config) -> Result<Option<String>, String> {
    let own = own(host, config).map_err(|why| why.to_string())?;
    if own.status.leader != own.status.member {
        return Ok(None);
    }
    let listed = etcd_api::members(host, &own.url, true, &own.with).map_err(|error| error.to_string())?;
    let others: Vec<_> =
        listed.into_iter().filter(|member| member.id != own.status.member && !member.learner).collect();
    let answers = answers(host, config, &own, &others);
    let healthy = others.iter().zip(&answers).filter_map(|(member, answer)| {
        let status = answer.as_ref().ok()?;
        fault(member, status, &own.status, own.status.committed).is_none().then_some((member, status.applied))
    });
    let Some((next, _)) = healthy.max_by_key(|(_, applied)| *applied) else { return Ok(None) };
    etcd_api::move_leader(host, &own.url, next.id, &own.with).map_err(|error| error.to_string())?;
    Ok(Some(name(next)))
}

/// This node's member, and how it answered.
#[derive(Debug)]
struct Own {
    url: ClientUrl,
    /// The port to ask the others at; none for that of their client URLs.
    port: Option<u16>,
    with: Certificates,
    status: Status,
}

/// Asks a member over HTTP: at the port of the config, or else that of its client URL. Of a static pod [`OPENSHIFT_HTTP_PORT`]
/// is asked first: where it answers, the other one has gRPC only, and closes the connection itself, so that its socket keeps
/// OpenShift's etcd from starting for a minute. Also returns the port; none for that of the client URL.
pub(super) fn over_http<T>(
    config: &Config,
    client_url: &ClientUrl,
    ask: impl Fn(&ClientUrl) -> Result<T, ApiError>,
) -> (Option<u16>, Result<T, ApiError>) {
    let given = config.cluster.http_port;
    let at = |port| (port, ask(&at_port(client_url, port)));
    if given.is_some() || !matches!(config.etcd.runtime, Runtime::StaticPod { .. }) {
        return at(given);
    }
    let of_openshift = at(Some(OPENSHIFT_HTTP_PORT));
    let Err(error) = &of_openshift.1 else { return of_openshift };
    let own = at(None);
    if !own.1.as_ref().is_err_and(ApiError::is_other_protocol) {
        return own;
    }
    // An etcd that starts listens at both ports at once, perhaps only since the first of them was asked.
    let again = if error.is_silence() { at(Some(OPENSHIFT_HTTP_PORT)) } else { of_openshift };
    // What failed at a port that nobody has is no finding.
    if again.1.as_ref().is_err_and(ApiError::has_no_listener) { own } else { again }
}

/// A client URL at this port; none for its own.
pub(super) fn at_port(url: &ClientUrl, port: Option<u16>) -> ClientUrl {
    port.map_or_else(|| url.clone(), |port| url.at_port(port))
}

fn status(host: &Host, url: &ClientUrl, with: &Certificates) -> Result<Status, ApiError> {
    let answer = etcd_api::statuses(host, std::slice::from_ref(url), with).pop();
    answer.unwrap_or(Err(ApiError::Form("there is none")))
}

/// Where each client URL was asked, and the status there. All are asked at once, at the port where another member has answered, and
/// who does not answer HTTP there [`over_http`]: members differ while each of OpenShift's pods gets a newer manifest.
pub(super) fn statuses(
    host: &Host,
    config: &Config,
    urls: &[ClientUrl],
    port: Option<u16>,
    with: &Certificates,
) -> Vec<(ClientUrl, Result<Status, ApiError>)> {
    let asked: Vec<_> = urls.iter().map(|url| at_port(url, port)).collect();
    let answers = etcd_api::statuses(host, &asked, with);
    let again = |((url, asked), answer): ((&ClientUrl, ClientUrl), Result<Status, ApiError>)| match answer {
        Err(error) if error.has_no_listener() || error.is_other_protocol() => {
            let (port, answer) = over_http(config, url, |url| status(host, url, with));
            (at_port(url, port), answer)
        }
        answer => (asked, answer),
    };
    urls.iter().zip(asked).zip(answers).map(again).collect()
}

fn own(host: &Host, config: &Config) -> Result<Own, NotServing> {
    let client_url = &config.cluster.client_url;
    let name = client_url.host();
    match route::is_own(name) {
        Ok(true) => {}
        Ok(false) => {
            return Err(format!(
                "{client_url} is not an address of this node: set `cluster.client_url` to that of its own member"
            )
            .into());
        }
        Err(error) => {
            return Err(format!(
                "{name} cannot be resolved ({error}): see that `cluster.client_url` is right"
            )
            .into());
        }
    }
    let is_pod = matches!(config.etcd.runtime, Runtime::StaticPod { .. });
    let keys = Keys("cluster.cert", "cluster.key");
    let with = certificates(host, config, &config.cluster.certificates, is_pod, client_url.is_tls(), keys)?;
    let (port, answer) = over_http(config, client_url, |url| status(host, url, &with));
    let url = at_port(client_url, port);
    match answer {
        Ok(status) => Ok(Own { url, port, with, status }),
        Err(error) => Err(NotServing::Unanswered { url, error }),
    }
}

fn ask(host: &Host, config: &Config) -> Look {
    let own = own(host, config).map_err(|why| why.to_string())?;
    // A linearizable list needs a quorum. Without one the member's own list is as good: whether the listed members serve is
    // asked of each of them.
    let own_list = || etcd_api::members(host, &own.url, false, &own.with);
    let listed = match own.status.leader {
        0 => own_list(),
        _ => etcd_api::members(host, &own.url, true, &own.with).or_else(|_| own_list()),
    };
    // A learner answers a status, and no list (etcd `server/etcdserver/api/v3rpc/interceptor.go`). It may be stopped whatever the
    // others do.
    if own.status.learner && listed.is_err() {
        let health = match own.status.leader {
            0 => MemberHealth::NotHealthy("it sees no leader".into()),
            _ => MemberHealth::Healthy,
        };
        let this = Member { name: format!("{:x}", own.status.member), learner: true, health };
        let leader = (own.status.leader != 0).then(|| format!("{:x}", own.status.leader));
        return Ok((Cluster { own: this, leader, others: Vec::new() }, true));
    }
    let listed = listed
        .map_err(|error| format!("this node's member at {} does not list the members: {error}", own.url))?;
    let (this, mut others): (Vec<_>, Vec<_>) =
        listed.into_iter().partition(|member| member.id == own.status.member);
    let Some(this) = this.into_iter().next() else {
        return Err(format!(
            "the member at {} is not in its own list of members, so it was removed from the cluster, or `cluster.client_url` leads elsewhere",
            own.url
        ));
    };
    // etcd lists them by their ids, which are random.
    others.sort_by_key(name);
    let answers = answers(host, config, &own, &others);
    let committed = answers.iter().flatten().map(|status| status.committed);
    let latest = committed.chain([own.status.committed]).max().unwrap_or_default();
    let health = |member: &ListedMember, answer: &Result<Status, String>| {
        let finding = match answer {
            Ok(status) => fault(member, status, &own.status, latest),
            Err(why) => Some(why.clone()),
        };
        finding.map_or(MemberHealth::Healthy, MemberHealth::NotHealthy)
    };
    let fact = |member: &ListedMember, health| Member { name: name(member), learner: member.learner, health };
    let leader = others.iter().chain([&this]).find(|member| member.id == own.status.leader).map(name);
    let cluster = Cluster {
        leader: leader.or_else(|| (own.status.leader != 0).then(|| format!("{:x}", own.status.leader))),
        own: fact(&this, health(&this, &Ok(own.status.clone()))),
        others: others
            .iter()
            .zip(&answers)
            .map(|(member, answer)| fact(member, health(member, answer)))
            .collect(),
    };
    Ok((cluster, agree(&own.status, answers.iter().flatten())))
}

fn agree<'a>(own: &Status, mut others: impl Iterator<Item = &'a Status>) -> bool {
    own.leader != 0 && others.all(|other| other.leader == own.leader)
}

fn name(member: &ListedMember) -> String {
    if member.name.is_empty() { format!("{:x}", member.id) } else { member.name.clone() }
}

/// The status of each member, from the first of its client URLs that gives one.
fn answers(host: &Host, config: &Config, own: &Own, all: &[ListedMember]) -> Vec<Result<Status, String>> {
    let at = |text: &String| -> Result<ClientUrl, String> {
        text.parse().map_err(|_| format!("its client URL `{text}` is not of HTTP"))
    };
    let urls: Vec<Vec<_>> = all.iter().map(|member| member.urls.iter().map(at).collect()).collect();
    let asked: Vec<_> = urls.iter().flatten().flatten().cloned().collect();
    let mut found = statuses(host, config, &asked, own.port, &own.with).into_iter();
    let answer = |(member, urls): (&ListedMember, Vec<Result<ClientUrl, String>>)| {
        let mut why = None;
        let mut status = None;
        for url in urls {
            // Each address that was asked has its answer at the same place.
            let answer = url.and_then(|url| match found.next() {
                Some((_, Ok(status))) if status.member == member.id => Ok(status),
                Some((at, Ok(one))) => Err(format!("{at} is answered by another member, {:x}", one.member)),
                Some((at, Err(error))) => Err(format!("{error}, at {at}")),
                None => Err(format!("{url} was not asked")),
            });
            match answer {
                Ok(answer) => status = status.or(Some(answer)),
                Err(error) => why = why.or(Some(error)),
            }
        }
        let why = || why.unwrap_or_else(|| "it has not started yet, or lists no client URL".into());
        status.ok_or_else(why)
    };
    all.iter().zip(urls).map(answer).collect()
}

/// Why a member that answers is not healthy.
fn fault(member: &ListedMember, status: &Status, own: &Status, latest: u64) -> Option<String> {
    let behind = latest.saturating_sub(status.applied);
    if status.cluster != own.cluster {
        Some(format!("it belongs to another cluster, {:x}", status.cluster))
    } else if status.leader == 0 {
        Some("it sees no leader".into())
    } else if status.leader != own.leader {
        Some(format!("it sees another leader, {:x}", status.leader))
    } else if let Some(error) = status.errors.first() {
        Some(format!("it reports {error}"))
    } else if behind > MOST_BEHIND {
        Some(format!("it is {behind} entries of the log behind"))
    } else if status.learner != member.learner {
        Some("it is being promoted".into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
