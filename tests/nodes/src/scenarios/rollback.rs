//! The rollback to the local disk: complete ones, ones cut short before and after the commit point, and
//! refused ones.

use anyhow::{Result, bail};

use super::{check, failed, held, refused, unhealthy, warns};
use crate::etcd::{self, KeyHash};
use crate::host::Output;
use crate::scene::{self, Wanted};
use crate::stage::{FENCE_CONTENT, Stage};
use crate::suite::Scenario;
use crate::target::IQN;
use crate::verbs;

const RETURNING: &str = "/var/lib/etcd-lun/returning";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("rollback/cut-after-the-commit-then-a-boot", cut_then_boot),
        Scenario::new("rollback/killed-before-the-commit", killed),
        Scenario::new("rollback/written-after-the-proof", written_after_the_proof),
        Scenario::new("rollback/refused", |stage| {
            stage.configure(&Wanted::default())?;
            check(&roll_back(stage)?, refused("nothing-to-return", &[]))?;
            stage.apply()?;
            no_room(stage)?;
            target_gone(stage)
        }),
    ]
}

fn roll_back(stage: &Stage) -> Result<Output> {
    stage.agent("rollback")
}

fn ok(output: Output) -> Result<Output> {
    if output.code != 0 {
        bail!("the command should have succeeded: {output}");
    }
    Ok(output)
}

/// Writes a new key and returns the hash with it.
fn write(stage: &Stage, key: &str) -> Result<KeyHash> {
    stage.node.ok(&format!("etcdctl put /between/{key} {key}"))?;
    etcd::hash_now(&stage.node)
}

fn has(stage: &Stage, wanted: KeyHash) -> Result<()> {
    let now = etcd::hash_at(&stage.node, wanted.revision)?;
    if now != wanted {
        bail!("etcd's keys changed: {wanted} before, {now} now");
    }
    Ok(())
}

/// Checks that etcd runs from the local disk with every key, that nothing of the LUN is left, and that the
/// verbs report the rollback.
fn is_back(stage: &Stage, wanted: KeyHash) -> Result<()> {
    stage.is_untouched()?;
    has(stage, wanted)?;
    let left = stage.node.ok(&format!(
        "ls -A {RETURNING}; iscsiadm -m session 2>/dev/null; getfattr -m etcd-lun -d /var/lib/etcd; \
         ls -A /var/lib/etcd; stat --format '%A %U %G' /var/lib/etcd"
    ))?;
    if left != "member\ndrwx------ etcd etcd" {
        bail!("the rollback left something of the LUN, or the data directory is not as expected: {left}");
    }
    verbs::stays_rolled_back(&stage.node, "rollback")?;
    verbs::stays_rolled_back(&stage.node, "apply --boot")?;
    ok(stage.agent("health")?)?;
    let status = verbs::json(&stage.node, "status")?;
    if status["node"]["record"]["known"]["rolled_back"] != true {
        bail!("`status` does not say that the data was rolled back: {status}");
    }
    Ok(())
}

/// Makes the last step of a rollback fail. In this step the copy takes the data directory's place. It cannot
/// do that if the directory `returning` is immutable. So the rollback is committed and unfinished.
pub(super) fn stuck_after_the_commit(stage: &Stage) -> Result<()> {
    stage.node.ok(&format!("mkdir -p {RETURNING} && chmod 700 {RETURNING}"))?;
    let (output, _) = held::at_the_last_copy(stage, "rollback", scene::LIMIT, || {
        // The copy's directory is named by its generation, which depends on what happened to the node before.
        stage.node.ok(&format!("test -n \"$(ls {RETURNING})\" && chattr +i {RETURNING}"))
    })?;
    check(&output, failed("exchange-failed", &["Operation not permitted"]).in_step("return"))?;
    if !warns(&output, "etcd-lun rollback") {
        bail!("the run does not name the command that continues: {output}");
    }
    // etcd cannot start on either copy, and only `rollback` continues.
    check(&stage.agent("apply")?, refused("rollback-unfinished", &["etcd-lun rollback"]))?;
    unhealthy(&stage.agent("health")?, &["fence"])?;
    let seen = stage.look()?;
    if !seen.mount.is_empty() || !seen.is_fenced() || seen.content != FENCE_CONTENT || seen.keys.is_some() {
        bail!("etcd could start on a copy: {seen:?}");
    }
    // The caller may cut the power next, so the state must be on the disk.
    stage.node.ok(&format!("chattr -i {RETURNING}; sync")).map(drop)
}

fn cut_then_boot(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    stage.node.ok(scene::AT_BOOT)?;
    let before = write(stage, "cut")?;
    stuck_after_the_commit(stage)?;
    stage.node.power_cut();
    stage.node.power_on()?;
    stage.is_untouched()?;
    ok(roll_back(stage)?)?; // which ends the session of the boot's look at the LUN
    is_back(stage, before)
}

/// A rollback that is killed before the commit point leaves etcd on the LUN. `apply --boot` starts it there.
/// Then another rollback succeeds.
fn killed(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    let before = write(stage, "killed")?;
    held::at_the_last_copy(stage, "rollback", scene::LIMIT, || {
        stage.node.ok(&format!("test -e {RETURNING}/2; pkill -KILL -x etcd-lun"))
    })?;
    // The next boot runs this command.
    ok(stage.agent("apply --boot")?)?;
    stage.wait_until("etcdctl --command-timeout 2s endpoint health")?;
    stage.is_on_lun()?;
    has(stage, before)?;
    // An administrator interrupts the rollback. It must then start etcd on the LUN at once and by itself.
    let (output, _) =
        held::at_the_last_copy(stage, "rollback", scene::LIMIT, || stage.node.ok("pkill -INT -x etcd-lun"))?;
    check(&output, failed("interrupted", &[]))?;
    stage.is_on_lun()?;
    let planned = verbs::planned(&stage.node, "rollback --dry-run")?;
    let said = verbs::json(&stage.node, "rollback")?;
    if !planned.has_step("commit-local") || said["rollback"]["rolled_back"] != 2 {
        bail!("the plan or the result is not as expected: {planned:?}\n{said}");
    }
    is_back(stage, before)
}

/// Somebody starts etcd after the copy was proven. It acknowledges a write, and ends before the next look for users: before the
/// unmount, and in another run before the commit, with the LUN mounted elsewhere for a moment. The LUN alone has that write,
/// so etcd must be on the LUN afterwards.
fn written_after_the_proof(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    const WRITES: &str = "systemctl start etcd; etcdctl put acknowledged yes; systemctl stop etcd";
    let output = held::run(stage, "rollback", &["unmount-data"], |node, _| node.ok(WRITES).map(drop))?;
    check(&output, failed("data-changed", &[]).in_step("unmount-data"))?;
    stage.is_on_lun()?;
    stage.has_kept("acknowledged")?;

    const ON_LUN: &str =
        "mkdir -p /run/elsewhere; mount -o prjquota /dev/disk/by-label/etcd-lun /run/elsewhere
         touch /run/elsewhere/member/wal; umount /run/elsewhere";
    let output = held::run(stage, "rollback", &["commit-local"], |node, _| node.ok(ON_LUN).map(drop))?;
    check(&output, failed("data-changed", &[]).in_step("commit-local"))?;
    stage.is_on_lun()?;
    stage.has_kept("acknowledged")?;
    ok(roll_back(stage)?)?;
    stage.is_untouched()?;
    stage.has_kept("acknowledged")
}

/// etcd-lun must see this before it stops etcd.
fn no_room(stage: &Stage) -> Result<()> {
    let etcd = super::main_pid(stage)?;
    stage.node.ok(
        "free=$(df --output=avail -B1M /var/lib | tail -n 1); fallocate -l $((free - 250))M /var/filler",
    )?;
    check(&roll_back(stage)?, refused("no-local-room", &["/var/lib/etcd-lun/retired"]))?;
    stage.node.ok("rm /var/filler")?;
    if super::main_pid(stage)? != etcd {
        bail!("a refused rollback interrupted etcd");
    }
    stage.is_on_lun()
}

fn target_gone(stage: &mut Stage) -> Result<()> {
    stage.target.stop();
    stage.wait_until("! grep -qx LOGGED_IN /sys/class/iscsi_session/session*/state")?;
    check(&roll_back(stage)?, refused("out-of-reach", &[&stage.wwid(1), IQN]))?;
    stage.target.restart()
}
