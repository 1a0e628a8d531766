//! The history of a client, and what it proves about the cluster.
//!
//! The client writes number after number. Each write is one transaction: it puts a key of its own and raises
//! a counter to the number, unless the counter is at that number or above. So a write that etcd carries out
//! late cannot lower the counter, and every linearizable read of the counter has a lower and an upper bound.
//!
//! Nothing here reads a clock or asks an etcd. Times are since the client's start.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The number of a write. The first one is 1; the counter begins at 0.
pub type Number = u64;

/// What the client knows of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// etcd said that it is done.
    Acknowledged,
    /// etcd cannot have got it, or said that it did nothing.
    Failed,
    /// There was no answer. etcd may have done it, or may do it later.
    Unknown,
}

/// One write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    /// Its number. No number is used twice.
    pub number: Number,
    /// When the client began it.
    pub begun: Duration,
    /// When the client knew the outcome.
    pub ended: Duration,
    /// The outcome.
    pub outcome: Outcome,
}

/// One linearizable read of the counter that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The counter's value.
    pub number: Number,
    /// When the client began it.
    pub begun: Duration,
    /// When the client had the answer.
    pub ended: Duration,
}

/// What a client did and saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Its writes, in order. They do not overlap.
    pub puts: Vec<Put>,
    /// Its reads, in order.
    pub reads: Vec<Read>,
}

/// What one member holds at the end, as the member itself answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The member's name.
    pub member: String,
    /// The keys of the history and their values.
    pub pairs: BTreeMap<String, String>,
    /// The counter's value.
    pub counter: Number,
    /// The revision of the hash, the hash of all keys up to it, and the revision of the last compaction. A
    /// hash depends on all three.
    pub hash: (u64, u64, u64),
}

/// A proof that the cluster is broken. Each names the member or the read that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comment of each fault names its fields")]
pub enum Fault {
    /// `member` lacks write `number`, which was acknowledged.
    Lost { member: String, number: Number },
    /// `member` has a `value` in `key` that no client wrote there.
    Foreign { member: String, key: String, value: String },
    /// The `counter` of `member` is below the highest write that was `acknowledged`.
    CounterBehind { member: String, counter: Number, acknowledged: Number },
    /// The `read` returned less than was `known` before it began.
    WentBack { read: Read, known: Number },
    /// The `read` returned a number that was never written, or not yet.
    FromNowhere { read: Read },
    /// Two `members` hold different data, as their `hashes` show.
    HashesDiffer { members: [String; 2], hashes: [(u64, u64, u64); 2] },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Lost { member, number } => {
                write!(f, "{member} lost write {number}, which was acknowledged")
            }
            Fault::Foreign { member, key, value } => {
                write!(f, "{member} has the value {value:?} in {key}, which no client wrote there")
            }
            Fault::CounterBehind { member, counter, acknowledged } => {
                write!(f, "the counter of {member} is {counter}, but {acknowledged} was acknowledged")
            }
            Fault::WentBack { read, known } => write!(
                f,
                "a linearizable read at {:.3} s returned {}, but {known} was known before",
                read.begun.as_secs_f64(),
                read.number
            ),
            Fault::FromNowhere { read } => write!(
                f,
                "a linearizable read at {:.3} s returned {}, which nobody had written",
                read.begun.as_secs_f64(),
                read.number
            ),
            Fault::HashesDiffer { members: [one, other], hashes: [a, b] } => {
                write!(
                    f,
                    "the data of {one} and {other} differs: (revision, hash, compacted) {a:?} and {b:?}"
                )
            }
        }
    }
}

/// The prefix of the history's keys.
pub const PREFIX: &str = "/history/";
/// The first key after all keys with the prefix: `0` follows `/`.
pub const PREFIX_END: &str = "/history0";
/// The counter's key.
pub const COUNTER: &str = "/history-counter";

/// The key of a write.
pub fn key(number: Number) -> String {
    format!("{PREFIX}{number:010}")
}

/// The value of a write. Each is unique.
pub fn value(number: Number) -> String {
    format!("{number:010} ").repeat(12)
}

/// The counter's value. etcd compares values as strings, so all have the same length.
pub fn counter(number: Number) -> String {
    format!("{number:010}")
}

impl History {
    /// Everything that is wrong. An empty list means that the cluster lost nothing and never answered wrongly.
    pub fn faults(&self, held: &[Held]) -> Vec<Fault> {
        let mut faults: Vec<Fault> = held.iter().flat_map(|member| self.faults_of(member)).collect();
        faults.extend(self.reads.iter().filter_map(|read| self.fault_of_read(*read)));
        for pair in held.windows(2) {
            if let [one, other] = pair
                && one.hash != other.hash
            {
                faults.push(Fault::HashesDiffer {
                    members: [one.member.clone(), other.member.clone()],
                    hashes: [one.hash, other.hash],
                });
            }
        }
        faults
    }

    fn faults_of(&self, held: &Held) -> Vec<Fault> {
        let member = || held.member.clone();
        let mut faults = Vec::new();
        let mut allowed = BTreeMap::new();
        for put in &self.puts {
            if put.outcome == Outcome::Acknowledged && !held.pairs.contains_key(&key(put.number)) {
                faults.push(Fault::Lost { member: member(), number: put.number });
            }
            if put.outcome != Outcome::Failed {
                allowed.insert(key(put.number), value(put.number));
            }
        }
        for (key, value) in &held.pairs {
            if allowed.get(key) != Some(value) {
                faults.push(Fault::Foreign { member: member(), key: key.clone(), value: value.clone() });
            }
        }
        let acknowledged = self.highest(|put| put.outcome == Outcome::Acknowledged);
        if held.counter < acknowledged {
            faults.push(Fault::CounterBehind { member: member(), counter: held.counter, acknowledged });
        }
        faults
    }

    /// A read may return any number from the highest that was known before it began to the highest that was
    /// tried before it ended.
    fn fault_of_read(&self, read: Read) -> Option<Fault> {
        let acknowledged =
            self.highest(|put| put.outcome == Outcome::Acknowledged && put.ended <= read.begun);
        let seen = self.reads.iter().filter(|earlier| earlier.ended <= read.begun).map(|read| read.number);
        let known = seen.max().unwrap_or(0).max(acknowledged);
        if read.number < known {
            return Some(Fault::WentBack { read, known });
        }
        let is_its_write = |put: &Put| {
            put.number == read.number && put.outcome != Outcome::Failed && put.begun <= read.ended
        };
        (read.number > 0 && !self.puts.iter().any(is_its_write)).then_some(Fault::FromNowhere { read })
    }

    fn highest(&self, wanted: impl Fn(&&Put) -> bool) -> Number {
        self.puts.iter().filter(wanted).map(|put| put.number).max().unwrap_or(0)
    }

    /// How many writes had this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.puts.iter().filter(|put| put.outcome == outcome).count()
    }

    /// The longest time without an acknowledged write between two moments.
    pub fn longest_gap(&self, from: Duration, to: Duration) -> Duration {
        let acknowledged = self.puts.iter().filter(|put| put.outcome == Outcome::Acknowledged);
        longest_gap(acknowledged.map(|put| put.ended), from, to)
    }

    /// The write between two moments that its client waited for longest.
    pub fn slowest(&self, from: Duration, to: Duration) -> Option<&Put> {
        let between = self.puts.iter().filter(|put| put.ended >= from && put.begun <= to);
        between.max_by_key(|put| put.ended.saturating_sub(put.begun))
    }
}

/// The longest time without an event between two moments. Events are in order. The time from the last event
/// before the first moment counts, and so does the time to the first event after the second moment.
pub fn longest_gap(events: impl Iterator<Item = Duration>, from: Duration, to: Duration) -> Duration {
    let (mut last, mut longest) = (None, Duration::ZERO);
    for event in events {
        let since = last.unwrap_or(from);
        if event >= from && since <= to {
            longest = longest.max(event.saturating_sub(since));
        }
        last = Some(event);
    }
    // No event came after the last one.
    let since = last.unwrap_or(from);
    if since <= to { longest.max(to - since) } else { longest }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
