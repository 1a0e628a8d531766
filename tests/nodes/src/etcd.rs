//! The node's etcd: writes keys and reads the hash of all keys.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::node::{LIMIT, Node};

/// etcd's default limit of operations in one transaction.
const BATCH: usize = 128;

/// The port of plain HTTP for the bed's client. A real member has none.
pub const PLAIN: u16 = 12379;

/// The hash of all keys up to a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash {
    /// The revision.
    pub revision: u64,
    /// etcd's hash over every key and value up to the revision.
    pub hash: u64,
}

impl KeyHash {
    /// Parses what `etcdctl endpoint hashkv -w json` prints.
    pub fn parse(revision: u64, text: &str) -> Option<Self> {
        let answer: Value = serde_json::from_str(text).ok()?;
        Some(Self { revision, hash: answer[0]["HashKV"]["hash"].as_u64()? })
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at revision {}", self.hash, self.revision)
    }
}

/// Starts etcd and enables it, so that it also starts at boot, as on a real node.
pub fn start(node: &Node) -> Result<()> {
    node.ok("systemctl enable --quiet --now etcd.service").map(drop)
}

/// Whether the unit is active.
pub fn is_active(node: &Node) -> Result<bool> {
    Ok(node.run("systemctl is-active etcd.service")?.stdout.trim() == "active")
}

/// Writes this many keys in transactions. Returns how long that took.
pub fn put_keys(node: &Node, count: usize) -> Result<Duration> {
    put_keys_at(node, &format!("127.0.0.1:{PLAIN}"), count)
}

/// Writes this many keys at an address of plain HTTP.
pub fn put_keys_at(node: &Node, address: &str, count: usize) -> Result<Duration> {
    let begun = Instant::now();
    // etcd's gateway takes the same requests as etcdctl sends. One curl sends them all; etcdctl would start
    // eighty times, and each start is slow in an emulated node.
    let mut requests = String::new();
    for first in (0..count).step_by(BATCH) {
        let operations: Vec<String> = (first..count.min(first + BATCH)).map(put).collect();
        if first > 0 {
            requests.push_str("next\n");
        }
        requests.push_str(&format!(
            "url = http://{address}/v3/kv/txn\nsilent\nshow-error\nfail\noutput = /dev/null\ndata = {{\"success\":[{}]}}\n",
            operations.join(",")
        ));
    }
    node.put("/run/bed-keys", 0o600, requests.as_bytes())?;
    let output = node.run_within("curl --fail-early --config /run/bed-keys && rm /run/bed-keys", LIMIT)?;
    if output.code != 0 {
        bail!("cannot write keys: {output}");
    }
    let seen: usize = node
        .ok("etcdctl get / --prefix --keys-only --limit 1 -w json")
        .and_then(|text| Ok(serde_json::from_str::<Value>(&text)?["count"].as_u64().unwrap_or(0)))?
        .try_into()?;
    if seen != count {
        bail!("{count} keys were written, but etcd has {seen}");
    }
    Ok(begun.elapsed())
}

fn put(number: usize) -> String {
    // Like a cluster's data: the key is a path, the value has some hundred bytes.
    let key = format!("/registry/pods/namespace-{:03}/pod-{number:06}", number % 100);
    let value = format!("{number:06} ").repeat(16);
    format!(
        "{{\"requestPut\":{{\"key\":\"{}\",\"value\":\"{}\"}}}}",
        base64(key.as_bytes()),
        base64(value.as_bytes())
    )
}

/// The current revision.
pub fn revision(node: &Node) -> Result<u64> {
    let text = node.ok("etcdctl endpoint status -w json")?;
    let status: Value = serde_json::from_str(&text)?;
    status[0]["Status"]["header"]["revision"].as_u64().context("no revision in etcd's status")
}

/// The hash of all keys at a revision.
pub fn hash_at(node: &Node, revision: u64) -> Result<KeyHash> {
    let text = node.ok(&format!("etcdctl endpoint hashkv --rev={revision} -w json"))?;
    KeyHash::parse(revision, &text).with_context(|| format!("no hash in {text}"))
}

/// The hash of all keys at the current revision.
pub fn hash_now(node: &Node) -> Result<KeyHash> {
    hash_at(node, revision(node)?)
}

/// Encodes bytes as base64, as etcd's gateway expects keys and values.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number =
            chunk.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for position in 0..4 {
            if position <= chunk.len() {
                let index = (number >> (18 - 6 * position)) & 63;
                text.push(char::from(LETTERS[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_the_one_of_rfc_4648() {
        let examples = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, encoded) in examples {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
