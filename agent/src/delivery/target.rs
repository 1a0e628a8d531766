//! The other side of the wire: a script that makes LIO's target for the same config.
//!
//! Its fixed part is `target.sh`; what follows from the config is around it. Secrets never pass through targetcli, which
//! keeps a history and a log of its commands: the script reads them from files and writes them to configfs.

use crate::{
    config::{ChapSource, IscsiNode, NodeEntry, SecretSource, Target},
    terms::{AbsPath, Bytes, Portal, Wwid},
};
use std::{collections::BTreeSet, fmt::Write as _, net::IpAddr};

/// The functions of the script, and what it does before it changes anything.
const FUNCTIONS: &str = include_str!("target.sh");

/// What the LUNs are kept in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backstores {
    /// A file for each node in this directory.
    Files(AbsPath),
    /// A block device for each node, named when the script is run.
    Devices,
}

/// Why there is no such target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoTarget {
    /// targetcli takes a word apart at other characters.
    #[error("{what} `{word}` can't be a word of targetcli's: use letters, digits, \"-\", \"_\" and \".\"")]
    Word {
        /// What it is.
        what: &'static str,
        /// As it is written.
        word: String,
    },
    /// A WWID of another make.
    #[error(
        "{node} wants the WWID {wwid}, and those of LIO are `naa.6001405` and 25 digits: leave `wwid` out"
    )]
    Wwid {
        /// The node.
        node: String,
        /// As the config has it.
        wwid: Wwid,
    },
}

/// Prints the script. `least` is what the smallest LUN must have.
pub fn target(
    target: &Target,
    nodes: &[IscsiNode],
    least: Bytes,
    backstores: &Backstores,
) -> Result<String, NoTarget> {
    let mut script = head(target, nodes, backstores)?;
    let _ = writeln!(script, "\n{FUNCTIONS}");
    script.push_str(match backstores {
        Backstores::Files(_) => "mkdir -p \"$directory\"\n",
        Backstores::Devices => {
            "for device; do\n    [ -b \"$device\" ] || die \"$device is no block device: name one for each node\"\ndone\n"
        }
    });
    for (at, node) in nodes.iter().enumerate() {
        backstore(&mut script, least, node, at, backstores)?;
    }
    script.push_str("\nensure \"$in_kernel\" /iscsi create \"$target\"\n");
    attributes(&mut script, target.chap.is_some());
    portals(&mut script, &target.portals);
    for node in nodes {
        grant(&mut script, node, backstores, target.chap.as_ref());
    }
    if let Some(chap) = &target.discovery_chap {
        discovery(&mut script, chap);
    }
    script.push_str("\ntargetcli saveconfig >&2\necho '# For the nodes in etcd-lun'\\''s config:'\nprintf %s \"$found\"\n");
    Ok(script)
}

fn head(target: &Target, nodes: &[IscsiNode], backstores: &Backstores) -> Result<String, NoTarget> {
    let (usage, check) = match backstores {
        Backstores::Files(_) => (String::new(), String::new()),
        Backstores::Devices => {
            let names: Vec<_> = nodes.iter().map(|node| format!("DEVICE-OF-{}", node.entry.name)).collect();
            let names = names.join(" ");
            let check = format!(
                "if [ $# -ne {} ]; then\n    echo \"usage: $0 {names}\" >&2\n    exit 2\nfi\n",
                nodes.len()
            );
            (format!(" {names}"), check)
        }
    };
    let mut head = format!(
        "#!/bin/sh
# Makes the target of etcd-lun's config on a Linux machine with LIO and targetcli: a LUN of its own for each of {} nodes.
# Rendered by `etcd-lun render target`. Run it there as root:
#
#     sh this-script{usage}
#
# It keeps what is there and fits, stops at what doesn't, and ends with the WWID of each LUN, for the config. It can be
# run again, after a failure and after a change of the config; it removes nothing. That the target is there after a
# reboot is up to the service of the package: target.service (RHEL) or rtslib-fb-targetctl.service (Debian).
set -eu
umask 077
{check}
target={}
",
        nodes.len(),
        target.iqn
    );
    if let Backstores::Files(dir) = backstores {
        if !is_word(dir.as_str().trim_start_matches('/').replace('/', "_").as_str()) {
            return Err(NoTarget::Word { what: "the directory", word: dir.to_string() });
        }
        let _ = writeln!(head, "directory={dir}");
    }
    let tables = [
        ("target.chap", "chap", &target.chap),
        ("target.discovery_chap", "discovery", &target.discovery_chap),
    ];
    for (table, name, chap) in tables {
        let Some(chap) = chap else { continue };
        let mutual = chap.mutual.as_ref().map(|(_, secret)| (format!("{name}_in"), "password_in", secret));
        for (name, key, secret) in [(name.to_owned(), "password", &chap.password)].into_iter().chain(mutual) {
            let variable = name.to_uppercase();
            let _ = writeln!(head, "# The file with the secret of {table}, {key}; readable for root alone.");
            let _ = match secret {
                SecretSource::File(path) => {
                    writeln!(head, "{name}_file=${{{variable}_FILE:-{}}}", quoted(path.as_str()))
                }
                SecretSource::Inline(_) | SecretSource::Credential(_) => {
                    writeln!(
                        head,
                        "{name}_file=${{{variable}_FILE:?'must name a file with the secret of {table}, {key}'}}"
                    )
                }
            };
        }
    }
    Ok(head)
}

/// Sizes of files are whole mebibytes: the target cuts what is not a whole block.
const MIB: u64 = 1 << 20;

fn backstore(
    script: &mut String,
    least: Bytes,
    node: &IscsiNode,
    at: usize,
    backstores: &Backstores,
) -> Result<(), NoTarget> {
    if !is_word(&node.entry.name) {
        return Err(NoTarget::Word { what: "the node's name", word: node.entry.name.clone() });
    }
    let wwn = match &node.entry.wwid {
        None => String::new(),
        Some(wwid) => match wwid.as_str().strip_prefix("naa.6001405") {
            Some(serial) if serial.len() == 25 => format!(" wwn={serial}"),
            _ => return Err(NoTarget::Wwid { node: node.entry.name.clone(), wwid: wwid.clone() }),
        },
    };
    let (kind, name) = (kind(backstores), store(node));
    let plugin = if kind == "block" { "iblock" } else { kind };
    let _ = write!(
        script,
        "\nensure \"$configfs\"/core/{plugin}_*/{name} /backstores/{kind} create name={name}{wwn} \\\n    "
    );
    let _ = match backstores {
        // write_back=false: what the target says is written is written, also when it loses power. sparse=true: targetcli
        // takes the space at once by posix_fallocate, whatever the word says; with false it writes every zero of it.
        Backstores::Files(_) => {
            let size = least.0.div_ceil(MIB) * MIB;
            writeln!(script, "\"file_or_dev=$directory/{name}.img\" size={size} write_back=false sparse=true")
        }
        Backstores::Devices => writeln!(script, "\"dev=${{{}}}\"", at + 1),
    };
    Ok(())
}

fn attributes(script: &mut String, chap: bool) {
    let _ = writeln!(
        script,
        "# Before anybody is let in: only listed initiators{}.\ntargetcli \"$portal_group\" set attribute generate_node_acls=0 cache_dynamic_acls=0 demo_mode_write_protect=1 authentication={} >&2",
        if chap { ", and these by CHAP" } else { "" },
        u8::from(chap)
    );
}

/// A portal is bound to an address. Where one is given by name, all addresses of the machine are bound instead.
fn portals(script: &mut String, portals: &[Portal]) {
    let named: Vec<_> = portals.iter().filter(|portal| portal.address().is_none()).collect();
    let mut bound: BTreeSet<(String, u16)> = BTreeSet::new();
    if named.is_empty() {
        bound.extend(portals.iter().map(|portal| (portal.host(), portal.port())));
    } else {
        let names: Vec<_> = named.iter().map(|portal| portal.host()).collect();
        let _ = writeln!(
            script,
            "# A portal can't be bound to a name ({}): every address of this machine is bound instead.",
            names.join(", ")
        );
        let any = if portals.iter().any(|portal| matches!(portal.address(), Some(IpAddr::V6(_)))) {
            "::0"
        } else {
            "0.0.0.0"
        };
        bound.extend(portals.iter().map(|portal| (any.to_owned(), portal.port())));
    }
    for (host, port) in bound {
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let _ = writeln!(
            script,
            "ensure \"$in_kernel/np/{shown}:{port}\" \"$portal_group/portals\" create ip_address={host} ip_port={port}"
        );
    }
}

fn grant(script: &mut String, node: &IscsiNode, backstores: &Backstores, chap: Option<&ChapSource>) {
    let IscsiNode { entry: NodeEntry { name, wwid, .. }, initiator, lun } = node;
    let wwid = wwid.as_ref().map(|wwid| format!(" {wwid}")).unwrap_or_default();
    let _ = writeln!(
        script,
        "\ngrant {name} {initiator} {lun} /backstores/{}/{}{wwid}",
        kind(backstores),
        store(node)
    );
    if let Some(chap) = chap {
        let _ = writeln!(script, "credentials \"$acl/auth\" {}", arguments("chap", chap));
    }
}

fn discovery(script: &mut String, chap: &ChapSource) {
    let _ = write!(
        script,
        "
# Discovery has one account for all targets of this machine: another's is not replaced.
discovery=$configfs/iscsi/discovery_auth
user=$(cat \"$discovery/userid\")
case $user in
'' | NULL | {user}) ;;
*) die \"discovery has an account already, $user: use it in the config, or set it to NULL in $discovery/userid\" ;;
esac
credentials \"$discovery\" {}
printf 1 >\"$discovery/enforce_discovery_auth\"
",
        arguments("discovery", chap),
        user = quoted(&chap.username),
    );
}

fn arguments(name: &str, chap: &ChapSource) -> String {
    let mutual = chap.mutual.as_ref().map(|(user, _)| format!(" {} \"${name}_in_file\"", quoted(user)));
    format!("{} \"${name}_file\"{}", quoted(&chap.username), mutual.unwrap_or_default())
}

fn kind(backstores: &Backstores) -> &'static str {
    match backstores {
        Backstores::Files(_) => "fileio",
        Backstores::Devices => "block",
    }
}

fn store(node: &IscsiNode) -> String {
    format!("etcd-lun-{}", node.entry.name)
}

/// What both a shell and targetcli take as it is.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
