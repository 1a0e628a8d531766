//! Breaks and repairs one thing after the other on one migrated node. Each time `health` must find that fault
//! and no other.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::host;
use crate::net::{Cut, Path};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("health/each-check", each_check), Scenario::new("health/timer", timer)]
}

/// This check is ignored: it measures how long disks are waited for, which says nothing on an emulated node.
const IGNORED: &str = "iowait";

/// Puts the drop-ins in place, as a MachineConfig does, and starts the timer. Otherwise `health` reports that the node would
/// not recover after a boot.
pub(super) const ENABLE: &str = "etcd-lun render units --into /etc/systemd/system >/dev/null; systemctl daemon-reload; systemctl start etcd-lun-health.timer";

/// What one check says.
#[derive(Debug)]
pub(super) struct Row {
    /// Its name.
    pub check: String,
    /// Whether all is well.
    pub is_ok: bool,
    /// What was observed.
    pub detail: String,
}

/// What each check says.
pub(super) fn rows(stage: &Stage) -> Result<Vec<Row>> {
    let output = stage.agent("health --json")?;
    let value = verbs::parsed(&output)?;
    let rows = value["health"]["rows"].as_array().with_context(|| format!("no rows: {output}"))?;
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| Row {
            check: text(row, "check"),
            is_ok: row["outcome"] == "ok",
            detail: text(row, "detail"),
        })
        .collect();
    if output.code != if rows.iter().all(|row| row.is_ok) { 0 } else { 4 } {
        bail!("the exit code does not fit the checks: {output}");
    }
    Ok(rows)
}

/// The checks that are not ok.
pub(super) fn failing(stage: &Stage) -> Result<BTreeSet<String>> {
    let rows = rows(stage)?.into_iter().filter(|row| !row.is_ok);
    Ok(rows.map(|row| row.check).filter(|check| check != IGNORED).collect())
}

/// What this check has found, which must not be ok.
pub(super) fn finding(stage: &Stage, check: &str) -> Result<String> {
    let found = rows(stage)?.into_iter().find(|row| row.check == check && !row.is_ok);
    Ok(found.with_context(|| format!("the check {check} should have found something"))?.detail)
}

/// Checks that every check is ok, except the ignored one.
pub fn is_well(stage: &Stage) -> Result<()> {
    stage.node.ok(ENABLE)?;
    let failing = failing(stage)?;
    if !failing.is_empty() {
        bail!("not healthy: {failing:?}\n{}", stage.agent("health")?);
    }
    Ok(())
}

/// Name, script that breaks something, script that repairs it, and the checks that must find it. `$D` is the
/// LUN's disk.
const BREAKS: &[(&str, &str, &str, &[&str])] = &[
    (
        "another initiator name",
        "cp -p /etc/etcd-lun/config.toml /run/kept; sed -i 's/^initiator = .*/initiator = \"iqn.2000-01.x:y\"/' /etc/etcd-lun/config.toml",
        "cp -p /run/kept /etc/etcd-lun/config.toml",
        &["initiator-name"],
    ),
    (
        "flushes switched off",
        "echo write through >/sys/block/$D/queue/write_cache",
        "echo write back >/sys/block/$D/queue/write_cache",
        &["write-cache"],
    ),
    (
        "a short timeout",
        "cat /sys/class/iscsi_session/session*/recovery_tmo >/run/kept; echo 7 | tee /sys/class/iscsi_session/session*/recovery_tmo",
        "cat /run/kept | tee /sys/class/iscsi_session/session*/recovery_tmo",
        &["session-timeout"],
    ),
    (
        "another program has a record of the target",
        "D=/var/lib/iscsi/nodes/iqn.2024-02.com.example:etcd/10.77.0.9,3260,1; mkdir -p $D; echo iface.iscsi_ifacename = default >$D/default",
        "rm -r /var/lib/iscsi/nodes/iqn.2024-02.com.example:etcd",
        &["shared-target"],
    ),
    ("a read-only device", "blockdev --setro /dev/$D", "blockdev --setrw /dev/$D", &["device-writable"]),
    (
        "over the cluster's bridge",
        "I=$(ip -o route get 10.77.0.1 | sed 's/.* dev \\([^ ]*\\).*/\\1/'); echo $I >/run/kept; ip link set dev $I name br-ex",
        "ip link set dev br-ex name $(cat /run/kept)",
        &["route"],
    ),
    (
        "a kernel that panics when a task hangs",
        "sysctl -q kernel.hung_task_panic=1",
        "sysctl -q kernel.hung_task_panic=0",
        &["session-timeout"],
    ),
    (
        "hardly any space",
        "fallocate -l $(($(df --output=avail -B1 /var/lib/etcd | tail -n 1) - 100000000)) /var/lib/etcd/filler",
        "rm /var/lib/etcd/filler",
        &["free-space"],
    ),
    (
        "no fence",
        "unshare --mount sh -c 'umount /var/lib/etcd && chattr -i /var/lib/etcd'",
        "unshare --mount sh -c 'umount /var/lib/etcd && chattr +i /var/lib/etcd'",
        &["fence"],
    ),
    (
        "no drop-in",
        "mv /etc/systemd/system/multi-user.target.d/50-etcd-lun.conf /run/kept; systemctl daemon-reload",
        "mv /run/kept /etc/systemd/system/multi-user.target.d/50-etcd-lun.conf; systemctl daemon-reload",
        &["units"],
    ),
    (
        "a link of an earlier release",
        "L=/etc/systemd/system/kubelet.service.requires; mkdir -p $L; ln -s ../etcd-lun.service $L; systemctl daemon-reload",
        "systemctl disable etcd-lun.service",
        &["units"],
    ),
    ("no timer", "systemctl stop etcd-lun-health.timer", "systemctl start etcd-lun-health.timer", &["units"]),
    ("etcd down", "systemctl stop etcd", "systemctl start etcd", &["etcd"]),
    (
        "mounted read-only",
        "systemctl stop etcd; mount -o remount,ro /var/lib/etcd",
        "mount -o remount,rw,_netdev /var/lib/etcd; systemctl start etcd",
        &["etcd", "mount-options"],
    ),
    (
        "no record",
        "mv /var/lib/etcd-lun/authority.json /run/kept",
        "cp /run/kept /var/lib/etcd-lun/authority.json; rm /run/kept",
        &["fence", "record", "stamp"],
    ),
    (
        "another device in the record",
        "cp /var/lib/etcd-lun/authority.json /run/kept; sed -i 's/\"naa\\.[0-9a-f]*\"/\"naa.60014050000000000000000000000000\"/' /var/lib/etcd-lun/authority.json",
        "cp /run/kept /var/lib/etcd-lun/authority.json",
        &["device-identity"],
    ),
    (
        "a LUN from the past",
        "cp /var/lib/etcd-lun/authority.json /run/kept; sed -i 's/\"activations\": [0-9]*/\"activations\": 99/' /var/lib/etcd-lun/authority.json",
        "cp /run/kept /var/lib/etcd-lun/authority.json",
        &["stamp"],
    ),
    ("an old copy", "date --set '+40 days' >/dev/null", "date --set '-40 days' >/dev/null", &["retired"]),
];

fn each_check(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    stage.node.ok(&format!("{ENABLE}; dmesg --clear"))?;
    let disk = "D=$(basename $(findmnt -no SOURCE /var/lib/etcd))\n";
    let mut wrong = Vec::new();
    let mut compare = |what: &str, found: BTreeSet<String>, expected: &[&str]| {
        let expected: BTreeSet<String> = expected.iter().map(|&check| check.to_owned()).collect();
        if found != expected {
            wrong.push(format!("{what}: found {found:?}, expected {expected:?}"));
        }
    };
    compare("nothing broken", failing(stage)?, &[]);
    for (what, damage, repair, expected) in BREAKS {
        stage.node.ok(&format!("set -e; {disk}{damage}"))?;
        let found = failing(stage)?;
        stage.node.ok(&format!("set -e; {disk}{repair}"))?;
        compare(what, found, expected);
    }
    compare("all repaired", failing(stage)?, &[]);
    cut(stage, &mut compare)?;
    if wrong.is_empty() { stage.is_on_lun() } else { bail!("{}", wrong.join("\n")) }
}

/// Cuts the only path and restores it. After that only the kernel's log shows the fault, until it is cleared.
fn cut(stage: &Stage, compare: &mut impl FnMut(&str, BTreeSet<String>, &[&str])) -> Result<()> {
    stage.bed.net.cut(Path::A, Cut::Reject)?;
    wait_for(stage, "FAILED")?;
    let found = failing(stage)?;
    stage.bed.net.repair()?;
    let wanted = ["kernel-log", "paths", "portals", "session"];
    if !wanted.iter().all(|check| found.contains(*check)) {
        compare("the path cut", found, &wanted);
    }
    wait_for(stage, "LOGGED_IN")?;
    compare("the path repaired", failing(stage)?, &["kernel-log"]);
    stage.node.ok("dmesg --clear")?;
    compare("the log cleared", failing(stage)?, &[]);
    Ok(())
}

fn wait_for(stage: &Stage, state: &str) -> Result<()> {
    let is = format!("grep -q {state} /sys/class/iscsi_session/session*/state");
    let seen = host::poll(Duration::from_secs(90), Duration::from_secs(1), || {
        Ok((stage.node.run(&is)?.code == 0).then_some(()))
    })?;
    seen.with_context(|| format!("the session is not {state}"))
}

/// The timer's service writes metrics only if their directory exists. It reports each change once.
fn timer(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    stage.node.ok(&format!("{ENABLE}; dmesg --clear; journalctl --rotate"))?;
    stage.node.ok("systemctl start etcd-lun-health.service; test ! -e /var/node_exporter")?;
    stage.node.ok("mkdir -p /var/node_exporter/textfile; unshare --mount sh -c 'umount /var/lib/etcd && chattr -i /var/lib/etcd'")?;
    stage.node.ok("systemctl start etcd-lun-health.service; systemctl start etcd-lun-health.service")?;
    stage.node.ok("grep -q '^etcd_lun_check{check=\"fence\",severity=\"critical\"} 0$' /var/node_exporter/textfile/etcd-lun.prom")?;
    stage.node.ok("unshare --mount sh -c 'umount /var/lib/etcd && chattr +i /var/lib/etcd'; systemctl start etcd-lun-health.service")?;
    stage.node.ok("grep -q '^etcd_lun_check{check=\"fence\",severity=\"critical\"} 1$' /var/node_exporter/textfile/etcd-lun.prom")?;
    let entries = stage.node.journal("CHECK=fence")?;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| {
            let field = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (field("OLD"), field("NEW"), field("SEVERITY"), field("MESSAGE_ID").len())
        })
        .collect();
    let of = |old: &str, new: &str| (old.to_owned(), new.to_owned(), "critical".to_owned(), 32);
    if told != [of("ok", "found"), of("found", "ok")] {
        bail!("unexpected journal entries about the fence: {told:?}\n{entries:?}");
    }
    let own = "journalctl --sync; journalctl -b --no-pager -o cat -u etcd-lun-health.service | grep -v '^\\(Starting\\|Started\\|Finished\\|etcd-lun-health.service:\\)' | sed 's/:.*//' | sort -u";
    let lines = stage.node.ok(own)?;
    if lines.lines().any(|check| !["fence", "iowait"].contains(&check)) {
        bail!("the service reports more than the changes: {lines}");
    }
    // A driver's rescan of all sessions makes the LUNs of other nodes known over etcd's.
    crate::target::blank(&stage.lun_file(2), 64 << 20)?;
    stage.target.map(crate::target::Lun::new(2, stage.lun_file(2)))?;
    let disks = "udevadm settle; lsblk --nodeps --noheadings --output NAME";
    let before = stage.node.ok(disks)?;
    let rescanned = stage.node.ok(&format!("iscsiadm --mode session --rescan >/dev/null; {disks}"))?;
    let after = stage.node.ok(&format!("systemctl start etcd-lun-health.service; {disks}"))?;
    if rescanned == before || after != before {
        bail!("before a rescan, after it, and after the service: {before} / {rescanned} / {after}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_that_must_find_something_exists() {
        for check in BREAKS.iter().flat_map(|(_, _, _, checks)| *checks) {
            assert!(health::CHECKS.iter().any(|known| known.name == *check), "{check}");
        }
    }
}
