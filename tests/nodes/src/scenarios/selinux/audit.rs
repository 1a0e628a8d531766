//! Reads the denials from the audit log.

use anyhow::{Result, bail};

use crate::node::Node;

/// The denials since this boot that concern the module: its domain was denied something, or a process was
/// denied access to its types. The image has `dontaudit` rules switched off, so every denial is in the log.
pub(in crate::scenarios) fn denials(node: &Node) -> Result<Vec<String>> {
    // The kernel's backlog may still have messages for the log.
    node.ok("for n in $(seq 50); do auditctl -s | grep -qx 'backlog 0' && break; sleep 0.2; done")?;
    let status = node.ok("auditctl -s | xargs; systemctl is-active auditd.service")?;
    if !status.contains("lost 0") || !status.ends_with("\nactive") {
        bail!("the audit log is not complete: {status}");
    }
    // Exit code 1 means that there are none. Granted accesses are audited only for `grants`.
    let found = node.run(
        "ausearch --input-logs --raw -ts boot -m avc,user_avc,selinux_err,user_selinux_err >/run/avc; code=$?
         grep -v 'avc:  granted' /run/avc; rm /run/avc; exit $code",
    )?;
    if found.code > 1 || (found.code == 1 && !found.both().contains("no matches")) {
        bail!("cannot read the audit log: {found}");
    }
    Ok(found
        .stdout
        .lines()
        .filter(|line| is_denial(line) && line.contains("etcd_lun_"))
        .map(String::from)
        .collect())
}

fn is_denial(line: &str) -> bool {
    ["type=AVC ", "type=USER_AVC ", "type=SELINUX_ERR ", "type=USER_SELINUX_ERR "]
        .iter()
        .any(|kind| line.starts_with(kind))
}

/// Checks that there are no denials.
pub(super) fn nothing_denied(node: &Node) -> Result<()> {
    none_left(node, &denials(node)?)
}

/// Checks that nothing was denied but to read a disk whose name begins so. It had lost its label, or not got one yet.
pub(super) fn nothing_else_denied(node: &Node, disk: &str) -> Result<()> {
    let mut denials = denials(node)?;
    let name = format!(" name=\"{disk}");
    denials.retain(|line| !["{ read }", "dev=\"devtmpfs\"", &name].iter().all(|part| line.contains(part)));
    none_left(node, &denials)
}

fn none_left(node: &Node, denials: &[String]) -> Result<()> {
    if !denials.is_empty() {
        bail!("SELinux denied {} times:\n{}", denials.len(), denials.join("\n"));
    }
    super::grants::keep(node)
}
