//! What others or a former life left: a reservation of the computer that had the LUN before, and a session that no iscsid
//! serves any more.

use anyhow::{Context, Result, bail};

use super::{declines, failed};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::IQN;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("lun/reserved-by-a-former-host", reserved),
        Scenario::new("login/session-that-nobody-serves", stuck),
    ]
}

/// Another initiator at the same target: a session of its own, by which its commands go. `$disk` is its disk.
fn former_host() -> String {
    let account = scene::chap();
    format!(
        "set -e
         modprobe iscsi_tcp
         # iscsid does not start without a name, and the node has none before its first migration.
         [ -e /etc/iscsi/initiatorname.iscsi ] || {{
             echo InitiatorName=iqn.1994-05.com.redhat:the-node >/etc/iscsi/initiatorname.iscsi
             systemctl reset-failed iscsid.socket iscsid.service; systemctl start iscsid.socket
         }}
         iscsiadm -m iface -I former -o new && iscsiadm -m iface -I former -o update -n iface.initiatorname -v iqn.1994-05.com.redhat:former
         set -- -m node -T {IQN} -p 10.77.0.1:3260,1 -I former
         iscsiadm \"$@\" -o new
         iscsiadm \"$@\" -o update -n node.session.auth.authmethod -v CHAP -n node.session.auth.username -v {} -n node.session.auth.password -v {}
         iscsiadm \"$@\" --login
         udevadm settle
         disk=/dev/$(ls /sys/class/iscsi_session/session*/device/target*/*/block | grep -m 1 ^sd)\n",
        account.user, account.secret
    )
}

/// tgtd drops a reservation with the session that made it, so that session stays, without its disk. Reads succeed with the first
/// kind, and only writes fail. With the second kind nothing succeeds.
fn reserved(stage: &mut Stage) -> Result<()> {
    let kinds = [
        ("write exclusive", 5, failed("mkfs-failed", &["LUN 1", "sg_persist"]).in_step("format")),
        (
            "exclusive access",
            6,
            failed("lun-reserved-for-reads", &["LUN 1", "sg_persist"]).in_step("attach-lun"),
        ),
    ];
    for (kind, number, how) in kinds {
        stage.node.ok(&format!(
            "{}
             sg_persist --no-inquiry --out --register-ignore --param-sark=0xbed $disk
             sg_persist --no-inquiry --out --reserve --param-rk=0xbed --prout-type={number} $disk
             echo 1 >/sys/class/block/${{disk#/dev/}}/device/delete",
            former_host()
        ))?;
        let wanted = Wanted { attach_timeout: "20s".into(), ..Wanted::default() };
        declines(stage, &wanted, how).context(kind)?;
        stage.node.run(
            "iscsiadm -m session -u; rm -r /var/lib/iscsi/nodes/*; iscsiadm -m iface -I former -o delete",
        )?;
        // The administrator releases it at the target. tgtd keeps it in memory only.
        stage.target.restart()?;
    }
    stage.apply()?;
    stage.is_on_lun()
}

/// iscsid is killed while it tries to reach a target that is away, and the kernel has given the session up. Nobody would log that
/// session in again, and its disk answers nothing. `apply` ends the session and makes another one.
fn stuck(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    for (what, act) in [
        ("killed", "systemctl kill --signal=KILL iscsid"),
        ("stopped", "systemctl stop iscsid.socket iscsid"),
        ("alive, and the kernel has given up", "true"),
    ] {
        let session = "ls -d /sys/class/iscsi_session/session*";
        stage.node.ok("systemctl stop etcd var-lib-etcd.mount")?;
        let before = stage.node.ok(session)?;
        // The kernel takes another time-out only while the session works.
        stage.node.ok("echo 1 >$(ls /sys/class/iscsi_session/session*/recovery_tmo)")?;
        stage.target.stop();
        stage.wait_until("grep -q FREE /sys/class/iscsi_session/session*/state").context(what)?;
        stage.node.ok(&format!("{act}; sleep 1"))?;
        stage.target.restart()?;
        let apply = stage.apply().context(what)?;
        stage.is_on_lun().context(what)?;
        let (after, state) =
            (stage.node.ok(session)?, stage.node.ok("cat /sys/class/iscsi_session/session*/state")?);
        println!("        with iscsid {what}: {} before, {} after", before.trim(), after.trim());
        if state.trim() != "LOGGED_IN" {
            bail!("with iscsid {what}: the sessions are {state}: {apply}");
        }
    }
    Ok(())
}
