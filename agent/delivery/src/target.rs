//! Renders a script that makes the target of the config, with LIO on a Linux machine.
//!
//! The fixed part of the script is `target.sh`. Secrets never pass through targetcli, which keeps a history and a log of its
//! commands: the script reads them from files and writes them to configfs.

use config::{ChapSource, IscsiNode, NodeEntry, SecretSource, Target};
use std::{collections::BTreeSet, fmt::Write as _, net::IpAddr};
use terms::{AbsPath, Bytes, LunNumber, Portal, Wwid};

/// The functions of the script, and its checks before it changes anything.
const FUNCTIONS: &str = include_str!("target.sh");

/// The storage of the LUNs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backstores {
    /// A file for each node in this directory.
    Files(AbsPath),
    /// A block device for each node, given as an argument of the script.
    Devices,
}

/// Why the script can't make the target of the config.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// targetcli splits an argument at other characters.
    #[error("{what} `{word}` can't be an argument of targetcli: use letters, digits, \"-\", \"_\" and \".\"")]
    Word {
        /// The name of the text.
        what: &'static str,
        /// The text in the config.
        word: String,
    },
    /// LIO has one name for all portals of a target.
    #[error(
        "`target.portals` has names of their own, and this script makes one target: leave `iqn` out there"
    )]
    Names,
    /// The script has to give the LUN a number.
    #[error(
        "the entry of {node} has no `lun`: add the number that the LUN is to have at the target, such as `lun = 1`"
    )]
    Number {
        /// The node.
        node: String,
    },
    /// A WWID that LIO can't give to a LUN.
    #[error(
        "the config has the WWID {wwid} for {node}, and LIO's are `naa.6001405` and 25 digits: leave `wwid` out"
    )]
    Wwid {
        /// The node.
        node: String,
        /// The WWID in the config.
        wwid: Wwid,
    },
}

/// Renders the script. `least` is the smallest size of a LUN.
///
/// All the nodes have this target.
pub fn target(
    target: &Target,
    nodes: &[IscsiNode],
    least: Bytes,
    backstores: &Backstores,
) -> Result<String, TargetError> {
    if target.iqn.all().nth(1).is_some() {
        return Err(TargetError::Names);
    }
    let mut script = head(target, nodes, backstores)?;
    let _ = writeln!(script, "\n{FUNCTIONS}");
    script.push_str(match backstores {
        Backstores::Files(_) => "mkdir -p \"$directory\"\n",
        Backstores::Devices => {
            "for device; do\n    [ -b \"$device\" ] || die \"$device is not a block device: name one for each node\"\ndone\n"
        }
    });
    for (at, node) in nodes.iter().enumerate() {
        backstore(&mut script, least, node, at, backstores)?;
    }
    script.push_str("\nensure \"$in_kernel\" /iscsi create \"$target\"\n");
    attributes(&mut script, target.chap.is_some());
    portals(&mut script, &target.portals);
    for node in nodes {
        grant(&mut script, node, backstores, target.chap.as_ref())?;
    }
    if let Some(chap) = &target.discovery_chap {
        discovery(&mut script, chap);
    }
    script.push_str("\ntargetcli saveconfig >&2\necho '# For the nodes in etcd-lun'\\''s config:'\nprintf %s \"$found\"\n");
    Ok(script)
}

fn head(target: &Target, nodes: &[IscsiNode], backstores: &Backstores) -> Result<String, TargetError> {
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
# Makes the target of etcd-lun's config on a Linux machine with LIO and targetcli: a LUN for each of {} nodes.
# Rendered by `etcd-lun render target`. Run it there as root:
#
#     sh this-script{usage}
#
# It keeps what matches the config, stops at what doesn't, and ends with the WWID of each LUN, for the config. It can be
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
            return Err(TargetError::Word { what: "the directory", word: dir.to_string() });
        }
        let _ = writeln!(head, "directory={dir}");
    }
    secret_files(&mut head, "chap", "target.chap", target.chap.as_ref());
    secret_files(&mut head, "discovery", "target.discovery_chap", target.discovery_chap.as_ref());
    Ok(head)
}

/// Sets a variable for each file with a secret of a table. Their names begin with `name`.
fn secret_files(script: &mut String, name: &str, table: &str, chap: Option<&ChapSource>) {
    let Some(chap) = chap else { return };
    let mutual = chap.mutual.as_ref().map(|(_, secret)| (format!("{name}_in"), "password_in", secret));
    for (name, key, secret) in [(name.to_owned(), "password", &chap.password)].into_iter().chain(mutual) {
        let variable = name.to_uppercase();
        let _ = writeln!(script, "# The file with the secret of {table}, {key}; readable by root only.");
        let _ = match secret {
            SecretSource::File(path) => {
                writeln!(script, "{name}_file=${{{variable}_FILE:-{}}}", quoted(path.as_str()))
            }
            SecretSource::Inline(_) | SecretSource::Credential(_) => {
                writeln!(
                    script,
                    "{name}_file=${{{variable}_FILE:?'must name a file with the secret of {table}, {key}'}}"
                )
            }
        };
    }
}

/// The part of the entry's WWID that is the serial number of LIO's; none if the config requires no WWID. LIO makes no others.
fn serial(entry: &NodeEntry) -> Result<Option<&str>, TargetError> {
    let Some(wwid) = &entry.wwid else { return Ok(None) };
    match wwid.as_str().strip_prefix("naa.6001405") {
        Some(serial) if serial.len() == 25 => Ok(Some(serial)),
        _ => Err(TargetError::Wwid { node: entry.name.clone(), wwid: wwid.clone() }),
    }
}

/// Files have whole mebibytes: the target ignores the rest of a file that isn't a whole block.
const MIB: u64 = 1 << 20;

fn backstore(
    script: &mut String,
    least: Bytes,
    node: &IscsiNode,
    at: usize,
    backstores: &Backstores,
) -> Result<(), TargetError> {
    if !is_word(&node.entry.name) {
        return Err(TargetError::Word { what: "the node's name", word: node.entry.name.clone() });
    }
    let wwn = serial(&node.entry)?.map(|serial| format!(" wwn={serial}")).unwrap_or_default();
    let (kind, name) = (kind(backstores), store(node));
    let plugin = if kind == "block" { "iblock" } else { kind };
    let _ = write!(
        script,
        "\nensure \"$configfs\"/core/{plugin}_*/{name} /backstores/{kind} create name={name}{wwn} \\\n    "
    );
    let _ = match backstores {
        // write_back=false: a write that the target has acknowledged survives a loss of power. sparse=true: in spite of the
        // name, targetcli reserves the space at once with posix_fallocate; with false it writes zeros to all of it.
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

/// A portal is bound to an address. If a portal is given by name, all addresses of the machine are bound instead.
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

/// The number that the node's LUN is to have.
fn number(node: &IscsiNode) -> Result<LunNumber, TargetError> {
    node.lun.ok_or_else(|| TargetError::Number { node: node.entry.name.clone() })
}

fn grant(
    script: &mut String,
    node: &IscsiNode,
    backstores: &Backstores,
    chap: Option<&ChapSource>,
) -> Result<(), TargetError> {
    let IscsiNode { entry: NodeEntry { name, wwid, .. }, initiator, .. } = node;
    let lun = number(node)?;
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
    Ok(())
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

/// True if neither a shell nor targetcli changes or splits the text.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
