//! A client on another machine. It writes to all members in turn, reads a counter through all members, and
//! asks chosen members whether they answer by themselves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::history::{self, COUNTER, Held, History, Number, Outcome, PREFIX, PREFIX_END, Put, Read};
use crate::again::Again;
use crate::etcd::base64;
use crate::gateway::{NoAnswer, ask, post, within};

/// The pauses after a write, a read and a local question. They leave an emulated node time for its work.
const WRITES: Duration = Duration::from_millis(50);
const READS: Duration = Duration::from_millis(120);
const QUESTIONS: Duration = Duration::from_millis(100);
/// The pause before the client tries the next member.
const RETRY: Duration = Duration::from_millis(10);
/// How long the client waits for a member. Then it goes on with another one.
const WAIT: Duration = Duration::from_secs(2);
/// How long the client leaves a member out that did not answer.
const LEFT_OUT: Duration = Duration::from_secs(2);

/// A member, as the client reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The member's name.
    pub member: String,
    /// Address and port of plain HTTP.
    pub address: String,
}

/// A client at work.
#[derive(Debug)]
pub struct Client {
    namespace: PathBuf,
    endpoints: Vec<Endpoint>,
    since: Instant,
    writer: Again<Put>,
    reader: Again<Read>,
    watchers: Vec<(String, Again<Duration>)>,
}

/// What a client did and saw, with the times at which members answered by themselves.
#[derive(Debug)]
pub struct Work {
    /// The history.
    pub history: History,
    /// For each watched member, when it answered.
    pub answers: HashMap<String, Vec<Duration>>,
    /// When the client stopped.
    pub ended: Duration,
}

impl Client {
    /// Starts a client in a network namespace. It asks each of the `watched` members for local answers.
    pub fn begin(namespace: &Path, endpoints: &[Endpoint], watched: &[&str]) -> Result<Self> {
        let first = endpoints.first().context("a client needs a member")?.address.clone();
        within(namespace, move || put_counter(&first)).context("cannot begin the counter")?;
        let since = Instant::now();
        let watchers = endpoints
            .iter()
            .filter(|endpoint| watched.contains(&endpoint.member.as_str()))
            .map(|endpoint| {
                let address = endpoint.address.clone();
                let watcher = Again::begin(Some(namespace), QUESTIONS, move || {
                    Ok(watch(&address).then(|| since.elapsed()))
                });
                (endpoint.member.clone(), watcher)
            })
            .collect();
        let (mut for_writer, mut for_reader) = (Turns::new(endpoints), Turns::new(endpoints));
        let mut numbers = 1..;
        let write = move || numbers.next().map(|number| write(&mut for_writer, since, number)).transpose();
        Ok(Self {
            namespace: namespace.into(),
            endpoints: endpoints.to_vec(),
            since,
            writer: Again::begin(Some(namespace), Duration::ZERO, write),
            reader: Again::begin(Some(namespace), READS, move || read(&mut for_reader, since)),
            watchers,
        })
    }

    /// The time since the client's start.
    pub fn now(&self) -> Duration {
        self.since.elapsed()
    }

    /// Stops.
    pub fn end(self) -> Result<(Work, Survey)> {
        let ended = self.since.elapsed();
        self.writer.stop();
        self.reader.stop();
        self.watchers.iter().for_each(|(_, watcher)| watcher.stop());
        let history = History { puts: self.writer.end()?, reads: self.reader.end()? };
        let mut answers = HashMap::new();
        for (member, watcher) in self.watchers {
            answers.insert(member, watcher.end()?);
        }
        let survey = Survey { namespace: self.namespace, endpoints: self.endpoints };
        Ok((Work { history, answers, ended }, survey))
    }
}

impl Work {
    /// How long a watched member was away around a time: from its last local answer to its next one.
    pub fn away(&self, member: &str, from: Duration, to: Duration) -> Result<Duration> {
        let answers = self.answers.get(member).with_context(|| format!("{member} was not watched"))?;
        Ok(history::longest_gap(answers.iter().copied(), from, to))
    }
}

/// Asks every member what it holds.
#[derive(Debug)]
pub struct Survey {
    namespace: PathBuf,
    endpoints: Vec<Endpoint>,
}

impl Survey {
    /// What each member holds when all have the same revision.
    pub fn take(&self, limit: Duration) -> Result<Vec<Held>> {
        let endpoints = self.endpoints.clone();
        within(&self.namespace, move || {
            let end = Instant::now() + limit;
            let revision = loop {
                let now: Vec<Result<u64>> =
                    endpoints.iter().map(|endpoint| revision(&endpoint.address)).collect();
                match agreed(&now) {
                    Some(revision) => break revision,
                    None if Instant::now() >= end => {
                        bail!("after {} s the members do not have one revision: {now:?}", limit.as_secs())
                    }
                    None => std::thread::sleep(Duration::from_millis(500)),
                }
            };
            endpoints.iter().map(|endpoint| held(endpoint, revision)).collect()
        })
    }
}

fn agreed(revisions: &[Result<u64>]) -> Option<u64> {
    let first = *revisions.first()?.as_ref().ok()?;
    revisions.iter().all(|one| one.as_ref().is_ok_and(|one| *one == first)).then_some(first)
}

/// Which member is next: each in turn, and those that did not answer only after a while.
#[derive(Debug)]
struct Turns {
    members: Vec<(String, Option<Instant>)>,
    next: usize,
}

impl Turns {
    fn new(endpoints: &[Endpoint]) -> Self {
        Self { members: endpoints.iter().map(|one| (one.address.clone(), None)).collect(), next: 0 }
    }

    /// The next member. When all are left out, the one that has been left out longest.
    fn take(&mut self, now: Instant) -> (usize, String) {
        let count = self.members.len();
        let is_in = |member: &usize| {
            self.members[*member].1.is_none_or(|failed| now.saturating_duration_since(failed) >= LEFT_OUT)
        };
        let turns = (0..count).map(|step| (self.next + step) % count);
        let longest = (0..count).min_by_key(|member| self.members[*member].1).unwrap_or(0);
        let taken = turns.clone().find(is_in).unwrap_or(longest);
        self.next = (taken + 1) % count;
        (taken, self.members[taken].0.clone())
    }

    fn note(&mut self, member: usize, answered: bool) {
        self.members[member].1 = (!answered).then(Instant::now);
    }
}

/// One write, and the pause after it.
fn write(turns: &mut Turns, since: Instant, number: Number) -> Result<Put> {
    let (member, address) = turns.take(Instant::now());
    let begun = since.elapsed();
    let answer = ask(&address, "/v3/kv/txn", &transaction(number), WAIT);
    let ended = since.elapsed();
    turns.note(member, answer.is_ok());
    let outcome = match &answer {
        Ok(answer) if answer["succeeded"] == true => Outcome::Acknowledged,
        Ok(_) | Err(NoAnswer::NotSent(_)) => Outcome::Failed,
        Err(NoAnswer::Unknown(_)) => Outcome::Unknown,
    };
    std::thread::sleep(if answer.is_ok() { WRITES } else { RETRY });
    Ok(Put { number, begun, ended, outcome })
}

/// Puts the write's own key and raises the counter, if the counter is lower.
fn transaction(number: Number) -> Value {
    let put = |key: &str, value: &str| json!({ "requestPut": { "key": base64(key.as_bytes()), "value": base64(value.as_bytes()) } });
    let counter = history::counter(number);
    json!({
        "compare": [{
            "key": base64(COUNTER.as_bytes()), "target": "VALUE", "result": "LESS", "value": base64(counter.as_bytes())
        }],
        "success": [put(&history::key(number), &history::value(number)), put(COUNTER, &counter)],
    })
}

fn put_counter(address: &str) -> Result<()> {
    let pair = json!({ "key": base64(COUNTER.as_bytes()), "value": base64(history::counter(0).as_bytes()) });
    post(address, "/v3/kv/put", &pair).map(drop)
}

/// One read, if a member answers.
fn read(turns: &mut Turns, since: Instant) -> Result<Option<Read>> {
    let (member, address) = turns.take(Instant::now());
    let begun = since.elapsed();
    // A range is linearizable unless it asks for `serializable`.
    let answer = ask(&address, "/v3/kv/range", &json!({ "key": base64(COUNTER.as_bytes()) }), WAIT);
    let ended = since.elapsed();
    turns.note(member, answer.is_ok());
    answer.ok().map(|answer| Ok(Read { number: counter_in(&answer)?, begun, ended })).transpose()
}

/// Whether one member answers by itself: a serializable read needs no leader.
fn watch(address: &str) -> bool {
    let question = json!({ "key": base64(COUNTER.as_bytes()), "serializable": true });
    ask(address, "/v3/kv/range", &question, WAIT).is_ok()
}

fn revision(address: &str) -> Result<u64> {
    let question = json!({ "key": base64(COUNTER.as_bytes()), "serializable": true });
    number(&post(address, "/v3/kv/range", &question)?["header"]["revision"])
}

fn held(endpoint: &Endpoint, revision: u64) -> Result<Held> {
    let local = |key: &str, end: Option<&str>| {
        let mut question = json!({ "key": base64(key.as_bytes()), "serializable": true });
        if let Some(end) = end {
            question["range_end"] = base64(end.as_bytes()).into();
        }
        post(&endpoint.address, "/v3/kv/range", &question)
    };
    let found = local(PREFIX, Some(PREFIX_END))?;
    let mut pairs = std::collections::BTreeMap::new();
    for pair in found["kvs"].as_array().into_iter().flatten() {
        pairs.insert(text(&pair["key"])?, text(&pair["value"])?);
    }
    let question = json!({ "revision": revision.to_string() });
    let hash = post(&endpoint.address, "/v3/maintenance/hash", &question)?;
    Ok(Held {
        member: endpoint.member.clone(),
        pairs,
        counter: counter_in(&local(COUNTER, None)?)?,
        hash: (revision, number(&hash["hash"])?, number(&hash["compact_revision"])?),
    })
}

fn counter_in(answer: &Value) -> Result<Number> {
    let value = text(&answer["kvs"][0]["value"])?;
    value.parse().with_context(|| format!("the counter's value is {value:?}"))
}

/// The gateway writes large numbers as strings, and leaves out a field that is 0.
fn number(value: &Value) -> Result<u64> {
    match value {
        Value::Null => Ok(0),
        Value::String(text) => text.parse().with_context(|| format!("{text:?} is no number")),
        other => other.as_u64().with_context(|| format!("{other} is no number")),
    }
}

/// Keys and values are base64 in the gateway's answers.
fn text(value: &Value) -> Result<String> {
    let encoded = value.as_str().context("a key or value is missing in etcd's answer")?;
    String::from_utf8(unbase64(encoded)?).with_context(|| format!("{encoded} is not text"))
}

fn unbase64(text: &str) -> Result<Vec<u8>> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for letter in text.trim_end_matches('=').bytes() {
        let at = LETTERS.iter().position(|one| *one == letter).context("not base64")?;
        bits = (bits << 6 | u32::try_from(at)?) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_comes_back() {
        for plain in ["", "f", "fo", "foo", "foob", &history::value(7)] {
            assert_eq!(unbase64(&base64(plain.as_bytes())).unwrap(), plain.as_bytes());
        }
        assert!(unbase64("a b").is_err());
    }

    #[test]
    fn a_member_that_does_not_answer_is_left_out_for_a_while() {
        let named = |name: &str| Endpoint { member: name.into(), address: name.into() };
        let mut turns = Turns::new(&[named("a"), named("b"), named("c")]);
        let now = Instant::now();
        let take = |turns: &mut Turns, now| turns.take(now).1;
        assert_eq!([0; 4].map(|_| take(&mut turns, now)), ["a", "b", "c", "a"]);
        turns.note(1, false);
        assert_eq!([0; 3].map(|_| take(&mut turns, now)), ["c", "a", "c"]);
        turns.note(0, false);
        turns.note(2, false);
        assert_eq!(take(&mut turns, now), "b", "it has been left out longest");
        let later = Instant::now() + LEFT_OUT;
        assert_eq!([0; 3].map(|_| take(&mut turns, later)), ["c", "a", "b"]);
        turns.note(1, true);
        assert_eq!(take(&mut turns, now), "b");
    }
}
