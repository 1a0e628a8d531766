//! The migration, and the state after it.

use anyhow::{Context, Result, bail};

use super::boot::reboots_with_target_gone;
use super::login::NO_ANSWER;
use super::{check, refused};
use crate::image::HOSTNAME;
use crate::scene::{self, Wanted};
use crate::stage::{FENCE_CONTENT, Stage};
use crate::suite::Scenario;
use crate::verbs;

const CLAIM: &str = "run `etcd-lun claim`";
const ONE_NODE: &[u8] = include_bytes!("../../../../docs/one-node.md");
const TYPE: &[u8] = include_bytes!("../../guest/one-node.sh");

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("migrate/no-committed-write-is-lost-and-nothing-is-done-twice", |stage| {
            stage.configure(&Wanted { wwid: Some(stage.wwid(1)), ..Wanted::default() })?;
            let plan = stage.agent("plan")?;
            if plan.code != 0 || fingerprint_changed(stage)? {
                bail!("`plan` failed or changed the LUN: {plan}");
            }
            no_write_is_lost(stage)?;
            let etcd = super::main_pid(stage)?;
            verbs::plans_nothing(&stage.node)?;
            stage.apply()?;
            if super::main_pid(stage)? != etcd {
                bail!("the second apply interrupted etcd");
            }
            Ok(())
        }),
        Scenario::new("migrate/verbs-afterwards", |stage| {
            stage.migrate()?;
            super::health::is_well(stage)?;
            for verb in ["status", "plan", "config check"] {
                let text = stage.agent(verb)?;
                let json = stage.agent(&format!("{verb} --json"))?;
                let value: serde_json::Value = serde_json::from_str(&json.stdout)?;
                if text.code != 0 || json.code != 0 || value.get("version").is_none() {
                    bail!(
                        "`{verb}` should succeed on a healthy node, and its JSON should have a version: {text}\n{json}"
                    );
                }
            }
            retired(stage)?;
            stage.node.ok("systemctl stop etcd var-lib-etcd.mount")?;
            let ill = stage.agent("health")?;
            if ill.code != 4 {
                bail!("`health` without the mount should exit with 4: {ill}");
            }
            Ok(())
        }),
        Scenario::new("migrate/as-one-node-says", |stage| {
            stage.strip()?;
            stage.node.put("/root/one-node.md", 0o600, ONE_NODE)?;
            stage.node.put("/root/type", 0o700, TYPE)?;
            let (portal, secret) = (crate::net::Path::A.portal(), scene::chap().secret);
            let typed = format!("/root/type {portal} {} {secret}", scene::INITIATOR);
            let output = stage.node.run_within(&typed, 6 * scene::LIMIT)?;
            if output.code == 0 { Ok(()) } else { bail!("docs/one-node.md: {output}") }
        }),
        Scenario::new("migrate/record-lost", |stage| {
            stage.migrate()?;
            stage.node.ok(
                "systemctl stop etcd var-lib-etcd.mount; chattr -i /var/lib/etcd
                 find /var/lib/etcd-lun -mindepth 1 -maxdepth 1 ! -name bin ! -name program -exec rm -rf {} +",
            )?;
            check(&stage.agent("apply")?, refused("fenced-without-record", &["/var/lib/etcd", CLAIM]))?;
            // As the message says. On the way the new record is damaged.
            let quickly = "printf '[health]\\ninterval = \"15s\"\\n' >/etc/etcd-lun/config.d/80-health.toml";
            stage.node.ok(&format!("chattr +i /var/lib/etcd; mkdir -p /etc/etcd-lun/config.d; {quickly}"))?;
            for run in ["apply", "apply --boot"] {
                check(&stage.agent(run)?, refused("lun-newer", &[CLAIM]))?;
            }
            stage.node.ok("etcd-lun claim && echo damaged >/var/lib/etcd-lun/authority.json")?;
            let damaged = refused("unknown", &["mv /var/lib/etcd-lun/authority.json", CLAIM]);
            check(&stage.agent("apply")?, damaged)?;
            damaged.is_in(&stage.agent("apply --boot")?.stderr)?;
            // The node was renamed too, and so its entry in the config.
            stage.node.ok("mv /var/lib/etcd-lun/authority.json /root/; hostname renamed
                 sed -i 's/hostname = .*/hostname = \"renamed\"/' /etc/etcd-lun/config.toml")?;
            let typed = format!("etcd-lun claim --former-name {HOSTNAME}");
            check(&stage.agent("apply")?, refused("fenced-without-record", &[CLAIM]))?;
            for claim in ["claim", "claim --former-name another"] {
                check(&stage.agent(claim)?, refused("stamped-by-other", &[HOSTNAME, &typed]))?;
            }
            stage.node.ok(&format!("{typed} && hostname {HOSTNAME}"))?;
            // The record knows the new name.
            stage.apply()?;
            stage.is_on_lun()
        }),
        Scenario::new("migrate/two-histories", |stage| {
            stage.migrate()?;
            stage.node.ok(
                "systemctl stop etcd var-lib-etcd.mount; chattr -i /var/lib/etcd; rm /var/lib/etcd/member; chown etcd: /var/lib/etcd; chmod 700 /var/lib/etcd; \
                 systemctl reset-failed etcd; systemctl start etcd; etcdctl put new history; systemctl stop etcd",
            )?;
            check(&stage.agent("apply")?, refused("two-histories", &["/var/lib/etcd"]))
        }),
        Scenario::new("migrate/target-gone-afterwards", |stage| {
            stage.migrate()?;
            stage.node.ok("systemctl stop etcd var-lib-etcd.mount && iscsiadm -m node --logout")?;
            stage.target.stop();
            scene::configure(&stage.node, &Wanted { attach_timeout: "10s".into(), ..Wanted::default() })?;
            check(&stage.agent("apply")?, NO_ANSWER)?;
            stays_down(stage)?;
            stage.target.restart()?;
            stage.apply()?;
            stage.is_on_lun()?;
            // No boot has started a unit of ours on this node: its mount alone must let the shutdown end.
            reboots_with_target_gone(stage)
        }),
    ]
}

fn fingerprint_changed(stage: &Stage) -> Result<bool> {
    let blank = stage.lun().with_extension("blank");
    crate::target::blank(&blank, scene::LUN_SIZE)?;
    Ok(crate::target::fingerprint(&stage.lun())? != crate::target::fingerprint(&blank)?)
}

/// A client writes keys during the migration. etcd must have every key that it acknowledged.
fn no_write_is_lost(stage: &Stage) -> Result<()> {
    stage.node.put("/run/writer.sh", 0o700, WRITER.as_bytes())?;
    stage.node.ok("setsid sh /run/writer.sh >/dev/null 2>&1 & sleep 2")?;
    stage.apply()?;
    stage.node.ok("sleep 2; touch /run/enough; while [ ! -e /run/written ]; do sleep 0.2; done")?;
    let acknowledged = stage.node.ok("sort /run/acknowledged")?;
    let there = stage.node.ok("etcdctl get /acknowledged/ --prefix --keys-only | sed '/^$/d' | sort")?;
    let there: std::collections::HashSet<&str> = there.lines().collect();
    let lost: Vec<&str> = acknowledged.lines().filter(|key| !there.contains(key)).collect();
    if !lost.is_empty() {
        bail!("{} acknowledged writes are lost: {lost:?}", lost.len());
    }
    // Some writes must be before the migration and some after it. Otherwise the test proves nothing.
    if acknowledged.lines().count() < 10 {
        bail!("only {} writes were acknowledged", acknowledged.lines().count());
    }
    stage.is_on_lun()
}

const WRITER: &str = "n=0
while [ ! -e /run/enough ]; do
  n=$((n + 1)); key=/acknowledged/$(printf %06d $n); b64=$(printf %s $key | base64)
  curl -sf -m 2 -o /dev/null -d \"{\\\"key\\\":\\\"$b64\\\",\\\"value\\\":\\\"$b64\\\"}\" http://127.0.0.1:2379/v3/kv/put && echo $key >>/run/acknowledged || sleep 0.1
done
touch /run/written";

/// etcd is started without the LUN. It must fail and write nothing.
pub(super) fn stays_down(stage: &Stage) -> Result<()> {
    let node = &stage.node;
    let seen = stage.look()?;
    if !seen.is_fenced() || seen.content != FENCE_CONTENT {
        bail!("the directory below the mount holds data, or is not immutable: {seen:?}");
    }
    let start = node.run("systemctl reset-failed etcd.service; systemctl start etcd.service")?;
    node.run("systemctl stop etcd.service")?;
    if start.code == 0 {
        bail!("etcd started without its LUN");
    }
    if !node.said("etcd.service")?.contains("cannot access data directory")
        || !node.ok("find /var/lib/etcd -mindepth 1 ! -empty")?.is_empty()
    {
        bail!("etcd did not fail because of its missing directory, or it wrote there");
    }
    node.run("systemctl reset-failed etcd.service")?;
    Ok(())
}

/// The retired data is deleted only on request, only after its time, and only while etcd runs.
fn retired(stage: &Stage) -> Result<()> {
    const OLD: &str = "/var/lib/etcd-lun/retired/1";
    let lists = |wanted: &[&str]| {
        let listed = verbs::json(&stage.node, "retired list")?;
        let all = listed["retired"]["known"].as_array().with_context(|| format!("no list: {listed}"))?;
        let names: Vec<_> = all.iter().filter_map(|one| one["name"].as_str()).collect();
        if names != wanted {
            bail!("`retired list` should list {wanted:?}: {listed}");
        }
        Ok(())
    };
    lists(&["1"])?;
    check(&stage.agent("retired delete 1")?, refused("retired-lately", &[OLD, "7d"]))?;
    stage.node.ok(
        "mkdir -p /etc/etcd-lun/config.d; printf '[lun]\\nkeep_retired = \"1s\"\\n' >/etc/etcd-lun/config.d/keep.toml; systemctl stop etcd",
    )?;
    check(&stage.agent("retired delete 1")?, refused("retired-is-needed", &["etcd.service"]))?;
    stage.node.ok("systemctl start etcd")?;
    let absent = refused("nothing-retired", &["/var/lib/etcd-lun/retired/2"]);
    check(&stage.agent("retired delete 2")?, absent)?;
    for (verb, left) in [("retired delete 1 --dry-run", &["1"][..]), ("retired delete 1", &[][..])] {
        let output = stage.agent(verb)?;
        if output.code != 0 || !output.stdout.contains(OLD) {
            bail!("`{verb}` after the retention time: {output}");
        }
        lists(left)?;
    }
    stage.node.ok(&format!("! test -e {OLD}"))?;
    stage.is_on_lun()
}
