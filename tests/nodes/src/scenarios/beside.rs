//! A node that has iSCSI of its own: a CSI driver's session to another target, with the node's own initiator name.

use anyhow::{Result, bail};

use super::carries;
use super::health::finding;
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::IQN;
use crate::target::{BESIDE, Offer};

/// The node's own initiator name, by which the other target knows it.
pub(super) const OWN: &str = "iqn.1994-05.com.redhat:the-node";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("beside/another-targets-session", untouched),
        Scenario::new("beside/no-record-at-rest", no_record),
        Scenario::new("beside/logged-out-under-etcd", super::lost::logged_out),
    ]
}

/// A unit that does what a CSI driver does: it discovers without an interface, logs in by its own record, and then
/// writes to its LUN all the time. A write that fails, or takes longer than 10 s, is noted.
const DRIVER: &str = "[Unit]
After=network-online.target iscsid.socket modprobe@iscsi_tcp.service
Wants=network-online.target iscsid.socket modprobe@iscsi_tcp.service
Before=etcd-lun.service
[Service]
Type=notify
NotifyAccess=all
ExecStart=/usr/local/bin/beside
[Install]
WantedBy=multi-user.target
";

/// Its state: everything that must not change as long as the node is up.
const STATE: &str = "for of in /sys/class/iscsi_session/*; do
    grep -q beside $of/targetname || continue
    echo $of $(cat $of/state $of/initiatorname $of/ifacename $of/recovery_tmo)
    sid=${of##*session}
    cat /sys/class/iscsi_connection/connection$sid:0/state
done
systemctl show --property MainPID --value iscsid.service
cat /etc/iscsi/initiatorname.iscsi
cd /var/lib/iscsi; find nodes/*beside ifaces -type f | sort | xargs sha256sum";

pub(super) fn driver() -> String {
    format!(
        "set -e
         cat >/usr/local/bin/beside <<'END'
#!/bin/sh
until iscsiadm -m discovery -t sendtargets -p 10.77.0.1:3260 | grep {BESIDE}; do sleep 1; done
iscsiadm -m node -T {BESIDE} -p 10.77.0.1:3260 --login
udevadm settle
disk=$(readlink -f /dev/disk/by-path/*{BESIDE}-lun-1)
systemd-notify --ready
while :; do
    timeout 10 dd if=/dev/urandom of=$disk bs=4k count=1 oflag=direct status=none || echo failed >>/var/log/beside
    echo >/run/beside.wrote
    sleep 0.2
done
END
         chmod 755 /usr/local/bin/beside
         cat >/etc/systemd/system/beside.service <<'END'
{DRIVER}END
         echo InitiatorName={OWN} >/etc/iscsi/initiatorname.iscsi
         systemctl daemon-reload; systemctl enable --quiet beside.service; systemctl start beside.service"
    )
}

/// The session is there, and so is the driver that writes to its LUN. Returns its state.
fn state(stage: &Stage) -> Result<String> {
    let found = stage.node.ok(STATE)?;
    for expected in [OWN, "LOGGED_IN", "default", "nodes/iqn.2024-02.com.example:beside"] {
        if !found.contains(expected) {
            bail!("the state of the other session lacks {expected}: {found}");
        }
    }
    if found.contains("etcd-lun") {
        bail!("another program sees our interface, or has a record with it: {found}");
    }
    let written = stage.node.ok(
        "rm -f /run/beside.wrote; for i in $(seq 100); do [ -e /run/beside.wrote ] && break; sleep 0.2; done
         test -e /run/beside.wrote; ! cat /var/log/beside 2>/dev/null",
    )?;
    if !written.is_empty() {
        bail!("writes to the other target's LUN failed: {written}");
    }
    Ok(found)
}

fn is_same(stage: &Stage, before: &str, after: &str) -> Result<()> {
    let now = state(stage)?;
    if now != before {
        bail!("{after} changed the other session, its record, or the node's name:\n{before}\n---\n{now}");
    }
    Ok(())
}

/// The names and interfaces of the sessions to the config's target.
fn ours(stage: &Stage) -> Result<String> {
    stage.node.ok("for of in /sys/class/iscsi_session/*; do
             grep -q :etcd $of/targetname && echo $(cat $of/initiatorname $of/ifacename)
         done; true")
}

fn untouched(stage: &mut Stage) -> Result<()> {
    offer(stage)?;
    stage.configure(&Wanted::default())?;
    stage.node.ok(&driver())?;
    let before = state(stage)?;
    stage.apply()?;
    stage.is_on_lun()?;
    is_same(stage, &before, "a migration")?;
    let found = ours(stage)?;
    if found != format!("{} etcd-lun", scene::INITIATOR) {
        bail!("the session to the config's target is {found}");
    }
    // A discovery without an interface, as a CSI driver's, binds to every interface that it sees.
    stage.node.ok("iscsiadm -m discovery -t sendtargets -p 10.77.0.1:3260")?;
    is_same(stage, &before, "a discovery after a migration")?;

    stage.node.ok(&format!("systemctl enable --quiet etcd.service; {}", scene::AT_BOOT))?;
    stage.node.reboot()?;
    super::boot::wait_for(&stage.node, "etcd-lun.service", "active", scene::LIMIT)?;
    super::boot::wait_for(&stage.node, "etcd.service", "active", scene::LIMIT)?;
    stage.is_on_lun()?;
    let before = state(stage)?;
    let rollback = stage.agent("rollback")?;
    if rollback.code != 0 {
        bail!("the rollback should have succeeded: {rollback}");
    }
    stage.is_untouched()?;
    is_same(stage, &before, "a rollback")?;
    let found = ours(stage)?;
    if !found.is_empty() {
        bail!("the rollback left a session: {found}");
    }
    Ok(())
}

/// The two targets at one portal. The other one lets only the node's own name in.
pub(super) fn offer(stage: &mut Stage) -> Result<()> {
    let file = stage.lun_file("beside");
    crate::target::blank(&file, 64 << 20)?;
    let beside = Some((file, OWN.into()));
    stage.target.offer(Offer {
        only_initiator: Some(scene::INITIATOR.into()),
        beside,
        ..stage.target.offered().clone()
    })
}

/// Everything of our session that a command of others may change.
const SESSION: &str = "for of in /sys/class/iscsi_session/*; do
    grep -q -s etcd-lun $of/ifacename && echo ${of##*/} $(cat $of/state $of/initiatorname $of/recovery_tmo)
done; true";

/// Fails if open-iscsi's database, or our directory below /run, has a record of ours or one of the secrets.
fn is_nothing_at_rest(stage: &Stage) -> Result<()> {
    for account in [scene::chap(), scene::mutual(), scene::discovery()] {
        let found = stage.node.run(&format!(
            "grep -r -l -e '{}' /etc/iscsi /var/lib/iscsi /run/etcd-lun /run/etcd-lun-hands /run/lock 2>/dev/null",
            account.secret
        ))?;
        if found.code == 0 {
            bail!("a secret is at rest: {found}");
        }
    }
    let left = stage.node.ok(
        "find /etc/iscsi /var/lib/iscsi \\( -name 'etcd-lun*' -o -name '*,etcd-lun' -o -path '*:etcd*' \\) 2>/dev/null
         find /run/etcd-lun*/iscsi -mindepth 1 2>/dev/null; true",
    )?;
    if !left.is_empty() {
        bail!("open-iscsi's database has something of ours: {left}");
    }
    Ok(())
}

/// A run is killed while the portal answers no discovery. The secret was where only this run saw it, and is nowhere then.
fn killed_while_discovering(stage: &Stage) -> Result<()> {
    let secret = scene::discovery().secret;
    stage.target.freeze()?;
    let killed = stage.node.run(&format!(
        "etcd-lun apply >/dev/null 2>&1 & pid=$!
         seen() {{ grep -rqs '{secret}' /proc/$pid/root/run/etcd-lun-hands/iscsi/send_targets; }}
         for i in $(seq 300); do seen && pgrep -x iscsiadm && break; sleep 0.1; done
         seen || {{ echo no record of a discovery; exit 1; }}
         ! grep -rls '{secret}' /etc/iscsi /var/lib/iscsi /run || exit 2
         kill -KILL $pid; pkill -KILL -x iscsiadm
         ! grep -rls '{secret}' /etc/iscsi /var/lib/iscsi /run || exit 3"
    ))?;
    stage.target.thaw()?;
    if killed.code != 0 {
        bail!("a run that is killed during a discovery should leave the secret nowhere: {killed}");
    }
    Ok(())
}

/// etcd's session needs no node record. Without one, `iscsiadm --logoutall` passes it by, and iscsid adopts it after a
/// restart, with its secrets.
fn no_record(stage: &mut Stage) -> Result<()> {
    stage.target.offer(Offer {
        mutual: Some(scene::mutual()),
        discovery_chap: Some(scene::discovery()),
        ..stage.target.offered().clone()
    })?;
    stage.configure(&Wanted {
        mutual: Some(scene::mutual()),
        discovery_chap: Some(scene::discovery()),
        ..Wanted::default()
    })?;
    // A file that many guides and MachineConfigs bring.
    stage
        .node
        .ok("printf 'node.session.%s\\n' 'nr_sessions = 2' 'reopen_max = 5' >>/etc/iscsi/iscsid.conf")?;
    killed_while_discovering(stage)?;
    stage.apply()?;
    stage.is_on_lun()?;
    if stage.target.sessions()? != 1 {
        bail!("there should be one session, whatever the node's iscsid.conf says");
    }
    is_nothing_at_rest(stage)?;
    let (session, etcd) = (stage.node.ok(SESSION)?, super::main_pid(stage)?);
    let is_same = |stage: &Stage, after: &str| -> Result<()> {
        stage.node.ok("etcdctl --command-timeout=60s put beside/no-record yes")?;
        let now = stage.node.ok(SESSION)?;
        if now != session || super::main_pid(stage)? != etcd {
            bail!("after {after} the session is {now:?}, it was {session:?}; etcd's process was {etcd}");
        }
        stage.is_on_lun()
    };
    for command in [
        "--logoutall=manual",
        "--logoutall=automatic",
        "--logoutall=all",
        "--loginall=manual",
        "-o update -n node.session.auth.password -v other",
    ] {
        let output = stage.node.run(&format!("iscsiadm -m node {command}"))?;
        println!("        iscsiadm -m node {command}: {}, {}", output.code, output.both().trim());
        is_same(stage, command)?;
    }

    // iscsid takes the session from the kernel, and logs in again with the secrets that it finds there.
    let pings = "grep . /sys/class/iscsi_connection/*/{ping_tmo,recv_tmo}";
    println!("        before the restart of iscsid: {}", stage.node.ok(pings)?.replace('\n', " "));
    let since = stage.node.ok("date +%s")?;
    let operational =
        format!("journalctl -u iscsid --since=@{since} --no-pager | grep -c 'is operational after recovery'");
    stage.node.ok("systemctl restart iscsid")?;
    stage.wait_until(&format!("[ $({operational}) -ge 1 ]"))?;
    is_same(stage, "a restart of iscsid")?;
    println!("        after it: {}", stage.node.ok(pings)?.replace('\n', " "));
    stage.target.restart()?;
    stage.wait_until(&format!("[ $({operational}) -ge 2 ]"))?;
    is_same(stage, "a restart of the target, with an iscsid that found no record")?;
    println!("{}", stage.node.ok(&format!("journalctl -u iscsid --since=@{since} --no-pager -o cat"))?);

    // A record in the node's database, whoever made it, is named, and is nobody's of this run.
    stage.node.ok(&format!("{}record 10.77.0.1:3260", scene::record_by_hand()))?;
    carries(&finding(stage, "shared-target")?, &["10.77.0.1:3260"])?;
    stage
        .node
        .ok(&format!("rm -rf /etc/iscsi/{{nodes,static}}/{IQN}* /var/lib/iscsi/{{nodes,static}}/{IQN}*"))?;
    stage.node.ok(&format!("systemctl enable --quiet etcd.service && {}", scene::AT_BOOT))?;
    stage.node.reboot()?;
    super::boot::wait_for(&stage.node, "etcd-lun.service", "active", scene::LIMIT)?;
    super::boot::wait_for(&stage.node, "etcd.service", "active", scene::LIMIT)?;
    stage.is_on_lun()?;
    is_nothing_at_rest(stage)?;
    super::health::is_well(stage)?;
    // A rollback logs out without a record.
    let rollback = stage.agent("rollback")?;
    if rollback.code != 0 || !stage.node.ok(SESSION)?.is_empty() {
        bail!("the rollback should have ended the session: {rollback}");
    }
    is_nothing_at_rest(stage)?;
    stage.is_untouched().map(drop)
}
