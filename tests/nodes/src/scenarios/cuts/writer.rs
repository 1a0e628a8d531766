//! A client of the node's etcd, on another machine. It writes one key after another and remembers each
//! acknowledged one.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::again::Again;
use crate::etcd::{PLAIN, base64};
use crate::gateway::{NoAnswer, WAIT, ask, post, within};
use crate::net::{Machine, Path as NetPath};

const PREFIX: &str = "/cut/";
/// So many keys are asked for at a time: an emulated node answers for thousands only after seconds.
const AT_ONCE: usize = 2000;
/// The pause between two writes. It is short enough for writes at every moment, and long enough not to slow
/// the emulated node down.
pub const PAUSE: Duration = Duration::from_millis(40);

/// A key that etcd has acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledged {
    /// The key's number.
    pub number: u64,
    /// When the client got the answer.
    pub at: Instant,
}

/// A client that writes with this number and the next ones, as soon as etcd answers. At its end it returns the acknowledged keys.
pub fn begin(namespace: &Path, first: u64) -> Again<Acknowledged> {
    let mut numbers = first..;
    Again::begin(Some(namespace), PAUSE, move || {
        let Some(number) = numbers.next() else { return Ok(None) };
        // A failed write may or may not be in etcd. Its number is not used again.
        Ok(put(number).is_ok().then(|| Acknowledged { number, at: Instant::now() }))
    })
}

/// The acknowledged keys that the node's etcd lacks or that have another value.
pub fn missing(namespace: &Path, acknowledged: &[u64]) -> Result<Vec<u64>> {
    within(namespace, || missing_at(&address(), acknowledged))
}

/// The same for an etcd at an address in this thread's network namespace.
pub fn missing_at(address: &str, acknowledged: &[u64]) -> Result<Vec<u64>> {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_string();
    let mut found = HashMap::new();
    for numbers in acknowledged.chunks(AT_ONCE) {
        let [Some(first), Some(last)] = [numbers.iter().min(), numbers.iter().max()] else { continue };
        let range = json!({ "key": pair(*first).0, "range_end": pair(last + 1).0 });
        let answer = post(address, "/v3/kv/range", &range)?;
        let pairs = answer["kvs"].as_array().into_iter().flatten();
        found.extend(pairs.map(|entry| (text(&entry["key"]), text(&entry["value"]))));
    }
    let has = |number: u64| {
        let (key, value) = pair(number);
        found.get(&key) == Some(&value)
    };
    Ok(acknowledged.iter().copied().filter(|number| !has(*number)).collect())
}

/// The address at which the node's etcd answers.
pub fn address() -> String {
    format!("{}:{PLAIN}", NetPath::Management.address(Machine::Node))
}

fn pair(number: u64) -> (String, String) {
    let key = format!("{PREFIX}{number:08}");
    (base64(key.as_bytes()), base64(format!("{number} ").repeat(20).as_bytes()))
}

fn put(number: u64) -> Result<()> {
    Ok(put_within(number, WAIT)?)
}

/// Writes the key with this number, and waits this long for the answer.
pub fn put_within(number: u64, wait: Duration) -> Result<(), NoAnswer> {
    let (key, value) = pair(number);
    ask(&address(), "/v3/kv/put", &json!({ "key": key, "value": value }), wait).map(drop)
}
