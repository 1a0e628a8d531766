//! One migrated node on which one thing after the other is really broken and mended: each time `health` must find that, and
//! nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::host;
use crate::net::{Cut, Path};
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("health/each-check", each_check), Scenario::new("health/timer", timer)]
}

/// What is not asked of an emulated node: how long its disks are waited for.
const NOT_ASKED: &str = "iowait";

/// Has systemd know the units as a MachineConfig does. `health` finds fault with a node that wouldn't come back.
pub(super) const ENABLE: &str =
    "systemctl --quiet enable etcd-lun.service; systemctl --quiet enable --now etcd-lun-health.timer";

/// The checks that aren't ok.
fn ill(stage: &Stage) -> Result<BTreeSet<String>> {
    let output = stage.agent("health --json")?;
    let value: Value = serde_json::from_str(&output.stdout).with_context(|| format!("no JSON: {output}"))?;
    let rows = value["health"]["rows"].as_array().with_context(|| format!("no rows: {output}"))?;
    let ill = rows.iter().filter(|row| row["outcome"] != "ok").filter_map(|row| row["check"].as_str());
    let ill: BTreeSet<String> = ill.map(str::to_owned).collect();
    if output.code != if ill.is_empty() { 0 } else { 4 } {
        bail!("an exit code that doesn't fit: {output}");
    }
    Ok(ill.into_iter().filter(|check| check != NOT_ASKED).collect())
}

/// Every check that can be asked of this node is ok.
pub(super) fn is_well(stage: &Stage) -> Result<()> {
    stage.node.ok(ENABLE)?;
    let ill = ill(stage)?;
    if !ill.is_empty() {
        bail!("not healthy: {ill:?}\n{}", stage.agent("health")?);
    }
    Ok(())
}

/// Name, how it is broken, how it is mended, and which checks must see it. `$D` is the LUN's disk.
const BREAKS: &[(&str, &str, &str, &[&str])] = &[
    (
        "another initiator name",
        "cp -p /etc/iscsi/initiatorname.iscsi /run/kept; echo InitiatorName=iqn.2000-01.x:y >/etc/iscsi/initiatorname.iscsi",
        "cp -p /run/kept /etc/iscsi/initiatorname.iscsi",
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
    ("a read-only device", "blockdev --setro /dev/$D", "blockdev --setrw /dev/$D", &["device-writable"]),
    (
        "over the cluster's bridge",
        "I=$(ip -o route get 10.77.0.1 | sed 's/.* dev \\([^ ]*\\).*/\\1/'); echo $I >/run/kept; ip link set dev $I name br-ex",
        "ip link set dev br-ex name $(cat /run/kept)",
        &["route"],
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
        "another mount unit",
        "echo '# mine' >>/etc/systemd/system/var-lib-etcd.mount; systemctl daemon-reload",
        "sed -i '$d' /etc/systemd/system/var-lib-etcd.mount; systemctl daemon-reload",
        &["mount-unit"],
    ),
    (
        "a unit that isn't enabled",
        "systemctl disable etcd-lun.service",
        "systemctl enable etcd-lun.service",
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
        "sed -i 's/\"activations\": [0-9]*/\"activations\": 99/' /var/lib/etcd-lun/authority.json",
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
    compare("nothing broken", ill(stage)?, &[]);
    for (what, spoil, mend, expected) in BREAKS {
        stage.node.ok(&format!("set -e; {disk}{spoil}"))?;
        let found = ill(stage)?;
        stage.node.ok(&format!("set -e; {disk}{mend}"))?;
        compare(what, found, expected);
    }
    compare("all mended", ill(stage)?, &[]);
    cut(stage, &mut compare)?;
    if wrong.is_empty() { stage.is_on_lun() } else { bail!("{}", wrong.join("\n")) }
}

/// The only path is cut, and comes back: then the kernel's log alone tells of it, until somebody clears it.
fn cut(stage: &Stage, compare: &mut impl FnMut(&str, BTreeSet<String>, &[&str])) -> Result<()> {
    stage.bed.net.cut(Path::A, Cut::Reject)?;
    wait_for(stage, "FAILED")?;
    let found = ill(stage)?;
    stage.bed.net.mend()?;
    let wanted = ["kernel-log", "paths", "portals", "session"];
    if !wanted.iter().all(|check| found.contains(*check)) {
        compare("the path cut", found, &wanted);
    }
    wait_for(stage, "LOGGED_IN")?;
    compare("the path mended", ill(stage)?, &["kernel-log"]);
    stage.node.ok("dmesg --clear")?;
    compare("the log cleared", ill(stage)?, &[]);
    Ok(())
}

fn wait_for(stage: &Stage, state: &str) -> Result<()> {
    let is = format!("grep -q {state} /sys/class/iscsi_session/session*/state");
    let seen = host::poll(Duration::from_secs(90), Duration::from_secs(1), || {
        Ok((stage.node.run(&is)?.code == 0).then_some(()))
    })?;
    seen.with_context(|| format!("the session is not {state}"))
}

/// The timer's service writes metrics where there is a directory for them, and says once what has changed.
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
        bail!("the journal tells of the fence: {told:?}\n{entries:?}");
    }
    let own = "journalctl --sync; journalctl -b --no-pager -o cat -u etcd-lun-health.service | grep -v '^\\(Starting\\|Started\\|Finished\\|etcd-lun-health.service:\\)' | sed 's/:.*//' | sort -u";
    let lines = stage.node.ok(own)?;
    if lines.lines().any(|check| !["fence", "iowait"].contains(&check)) {
        bail!("it says more than what has changed: {lines}");
    }
    Ok(())
}
