//! Records what the module's rules grant while a scenario runs. This is for development.
//!
//! With `ETCD_LUN_BED_GRANTED=FILE` every enforcing node has a second module. It makes the kernel and systemd
//! audit what our module allows. Whenever a scenario looks for denials, the granted rights are appended to
//! FILE. `selinux/check --granted FILE` then prints the blocks of the module that nothing depends on.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::boot;
use crate::delivery::{self, Root};
use crate::node::Node;
use crate::scene::{LIMIT, Wanted};
use crate::stage::Stage;

/// Prints each access once: permission, source, target, class.
const EACH: &str = r#"
if (/avc: +granted +\{ (.*?) \}.*scontext=\w+:\w+:(\w+)\S* tcontext=\w+:\w+:(\w+)\S* tclass=(\w+)/) {
    my ($permissions, @rest) = ($1, $2, $3, $4);
    $seen{"$_ @rest\n"} = 1 for split " ", $permissions;
}
END { print keys %seen }"#;

/// These rules are used whenever etcd-lun looks at a process, tens of thousands of times. Auditing them would
/// take all of an emulated node's time.
const FREQUENT: [&str; 2] = ["(allow etcd_lun_t domain ", "(allow etcd_lun_t etcd_lun_anything "];

fn file() -> Option<PathBuf> {
    std::env::var_os("ETCD_LUN_BED_GRANTED").map(PathBuf::from)
}

/// Returns the disk itself, or a copy with the second module if grants are wanted.
pub(super) fn with_audit_module(stage: &Stage, disk: &Path, wanted: &Wanted) -> Result<PathBuf> {
    if file().is_none() {
        return Ok(disk.into());
    }
    let module = auditing(&boot::module(stage, wanted)?);
    delivery::change(&stage.bed, "watched", disk, |root: &Root| {
        // The log must keep thousands of lines, each on its own and unchanged. journald must not get them
        // too, because it would drop other messages then.
        root.run(
            "sed -i 's/^max_log_file = .*/max_log_file = 1000/; s/^flush = .*/flush = NONE/; s/^log_format = .*/log_format = RAW/' \
                 /etc/audit/auditd.conf
             systemctl --quiet mask systemd-journald-audit.socket
             printf '%s\\n' '-b 65536' '-a never,task' >/etc/audit/rules.d/zz-bed.rules",
            &[],
        )?;
        super::install(root, "bed_audit", &module)
    })
}

/// Appends the rights that were granted so far.
pub(super) fn keep(node: &Node) -> Result<()> {
    let Some(file) = file() else { return Ok(()) };
    let granted = node.run_within(&format!("perl -ne '{EACH}' /var/log/audit/audit.log*"), LIMIT)?;
    if granted.stdout.is_empty() {
        bail!("the node's audit log has no granted access: {granted}");
    }
    let mut to = OpenOptions::new().create(true).append(true).open(&file)?;
    to.write_all(granted.stdout.as_bytes()).with_context(|| format!("cannot write to {}", file.display()))
}

/// The second module. It audits every rule of the module except the frequent ones. Each is in an optional block,
/// which systems without the module ignore.
fn auditing(module: &str) -> String {
    let allows = forms(module).into_iter().flat_map(|form| match form.strip_prefix("(optional ") {
        Some(block) => forms(block.strip_suffix(')').unwrap_or_default())
            .into_iter()
            .filter(|form| form.starts_with("(allow "))
            .collect(),
        None if form.starts_with("(allow ") => vec![form],
        None => Vec::new(),
    });
    let quiet = allows.filter(|allow| !FREQUENT.iter().any(|frequent| allow.starts_with(frequent)));
    let audits = quiet.enumerate().map(|(number, allow)| {
        format!(
            "(optional etcd_lun_audit_{number} (audit{}))\n",
            allow.strip_prefix('(').map_or("", |rule| &rule[..rule.len() - 1])
        )
    });
    audits.collect()
}

/// The top-level forms of the text.
fn forms(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found, mut comment) = (0_u32, 0, Vec::new(), false);
    for (at, letter) in text.char_indices() {
        match letter {
            '\n' => comment = false,
            _ if comment => {}
            ';' => comment = true,
            '(' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.push(&text[start..=at]);
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_audited() {
        let module = "; (a comment)\n(type a_t)\n(allow etcd_lun_t domain (dir (read)))\n(allow a_t self (process (signal)))\n\
                      (optional one\n    (typetransition a_t b_t dir c_t)\n    (allow a_t b_t (dir (search))))\n";
        assert_eq!(
            auditing(module),
            "(optional etcd_lun_audit_0 (auditallow a_t self (process (signal))))\n\
             (optional etcd_lun_audit_1 (auditallow a_t b_t (dir (search))))\n"
        );
    }
}
