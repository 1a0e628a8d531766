//! The audit log: what was denied.

use anyhow::{Result, bail};

use crate::node::Node;

/// What was denied since this boot began and has to do with the module: its domain was denied something, or somebody
/// was denied something of its types. Rules that would keep a denial out of the log are switched off in the image.
pub(in crate::scenarios) fn denials(node: &Node) -> Result<Vec<String>> {
    // What the kernel has not handed over yet is in its backlog.
    node.ok("for n in $(seq 50); do auditctl -s | grep -qx 'backlog 0' && break; sleep 0.2; done")?;
    let status = node.ok("auditctl -s | xargs; systemctl is-active auditd.service")?;
    if !status.contains("lost 0") || !status.ends_with("\nactive") {
        bail!("the audit log is not whole: {status}");
    }
    // Exit code 1 says that there are none.
    // What was granted is audited only for `grants`.
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

/// There are none.
pub(super) fn nothing_denied(node: &Node) -> Result<()> {
    let denials = denials(node)?;
    if !denials.is_empty() {
        bail!("{} denials:\n{}", denials.len(), denials.join("\n"));
    }
    super::grants::keep(node)
}
