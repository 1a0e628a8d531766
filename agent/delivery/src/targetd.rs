//! Renders a script that makes the LUNs of the config at an appliance, by the API of targetd (its `API.md`).
//!
//! The fixed part of the script is `targetd.sh`. It needs curl and jq, and runs on any machine that reaches the appliance.

use super::target::{TargetError, arguments, number, quoted, secret_files, serial};
use config::{IscsiNode, NodeEntry, Target};
use std::fmt::Write as _;
use terms::Bytes;

/// The functions of the script, and what it reads before it changes anything.
const FUNCTIONS: &str = include_str!("targetd.sh");

/// A pool of the appliance: a volume group of LVM, or a thin pool in it, `GROUP/POOL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appliance {
    /// The pool's name.
    pub pool: String,
}

/// The API has whole extents of LVM; 4 MiB is the usual one.
const EXTENT: u64 = 4 << 20;

/// Renders the script. `least` is the smallest size of a LUN.
pub fn targetd(
    target: &Target,
    nodes: &[IscsiNode],
    least: Bytes,
    appliance: &Appliance,
) -> Result<String, TargetError> {
    let is_part = |text: &str| !text.is_empty() && text.bytes().all(is_of_name);
    if !appliance.pool.split('/').all(is_part) || appliance.pool.split('/').count() > 2 {
        return Err(TargetError::Pool { pool: appliance.pool.clone() });
    }
    let mut script = format!(
        "#!/bin/sh
# Makes the LUNs of etcd-lun's config at an appliance that runs targetd: a volume for each of {} nodes, exported to that
# node only. Rendered by `etcd-lun render target --kind targetd`. Run it on any machine with curl and jq:
#
#     sh this-script https://APPLIANCE:18700/targetrpc NETRC-FILE [CA-FILE]
#
# NETRC-FILE has the account of targetd, with mode 0600: machine APPLIANCE login USER password SECRET
#
# It keeps what matches the config, stops at what doesn't before it changes anything, and ends with the WWID of each LUN,
# for the config. It can be run again, after a failure and after a change of the config; it removes nothing.
#
# targetd's API cannot set the name of its target. On the appliance, /etc/target/targetd.yaml must have:
#     target_name: {iqn}
set -eu
umask 077
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo \"usage: $0 https://APPLIANCE:18700/targetrpc NETRC-FILE [CA-FILE]\" >&2
    exit 2
fi
url=$1
netrc=$2
authority=${{3-}}
pool={pool}
size={size}
",
        nodes.len(),
        iqn = target.iqn,
        pool = appliance.pool,
        size = least.0.div_ceil(EXTENT) * EXTENT,
    );
    secret_files(&mut script, "chap", "target.chap", target.chap.as_ref());
    let _ = writeln!(script, "\n{FUNCTIONS}");
    if let Some(chap) = &target.chap {
        script.push_str("holds_secret \"$chap_file\"\n");
        if chap.mutual.is_some() {
            script.push_str("holds_secret \"$chap_in_file\"\n");
        }
    }
    for verb in ["check", "make"] {
        for node in nodes {
            let lun = number(node)?;
            let _ = writeln!(script, "{verb} {} {} {lun}", words(&node.entry), node.initiator);
        }
    }
    if let Some(chap) = &target.chap {
        for node in nodes {
            let _ = writeln!(script, "credentials {} {}", node.initiator, arguments("chap", chap));
        }
        // An initiator with credentials offers CHAP only, and LIO accepts none then (`authentication=0`, in targetd's
        // `export_create`).
        let _ = writeln!(
            script,
            "echo 'note: targetd turns CHAP off at each new export, and nodes cannot log in until it is on. On the appliance run:
    targetcli /iscsi/{}/tpg1 set attribute authentication=1
    targetcli saveconfig' >&2",
            target.iqn
        );
    }
    if target.discovery_chap.is_some() {
        script.push_str(
            "echo 'note: targetd has no method for the account of discovery: set it on the appliance with targetcli, or remove target.discovery_chap from the config' >&2\n",
        );
    }
    script.push_str(
        "exports=$(jq -n '{}' | call export_list)\necho '# For the nodes in etcd-lun'\\''s config:'\n",
    );
    for node in nodes {
        serial(&node.entry)?;
        let wwid = node.entry.wwid.as_ref().map(|wwid| format!(" {wwid}")).unwrap_or_default();
        let _ = writeln!(script, "show {}{wwid}", words(&node.entry));
    }
    Ok(script)
}

/// The node's name and its volume's. The config has checked the name: but for dots, all its characters are targetd's too.
fn words(NodeEntry { name, .. }: &NodeEntry) -> String {
    format!("{} etcd-lun-{}", quoted(name), name.replace('.', "_"))
}

/// "All names must only contain characters in [a-z][A-Z][0-9]_-" (API.md, Conventions).
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}
