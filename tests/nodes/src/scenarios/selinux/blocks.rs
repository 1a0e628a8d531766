//! Removes each block of the module and finds out what fails without it. This is for development, because it
//! takes half an hour.
//!
//! `ETCD_LUN_BED_BLOCKS` names the blocks, separated by commas: by parts of their text, by numbers such as
//! `1-30`, or `all`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::{boot, portal};
use crate::delivery::{EtcdRunner, Root};
use crate::scene::LIMIT;
use crate::stage::Stage;
use crate::suite::Scenario;

const SNAPSHOT: &str = "unmigrated";
/// Printed at the end if nothing failed.
const NOTHING: &str = "nothing";
/// The policies by number, and a list of those that are identical to the complete one.
const POLICIES: &str = "/root/policies";

/// What the module must allow. Each part ends as soon as something is denied, and no further part begins
/// then.
const RUN: &str = "
after() { [ \"$(grep -c 'denied .*etcd_lun_' /var/log/audit/audit.log)\" = 0 ] || { echo \"denied: $1\"; exit; }; }
until_it_ends() {
    for _ in $(seq \"$2\"); do
        after \"$1\"
        case $(systemctl show --property ActiveState,SubState --value etcd-lun.service | xargs) in
        'active exited') return ;;
        'failed '*|*' auto-restart') echo \"failed: $1\"; exit ;;
        esac
        sleep 1
    done
    echo \"no end: $1\"; exit
}
# Opens a symbolic link and a socket themselves (O_PATH, O_NOFOLLOW), and a disk.
perl -e 'sysopen(LINK, \"/bin\", 0x220000) and sysopen(SOCKET, \"/run/systemd/notify\", 0x200000) and open(DISK, \"<\", \"/dev/vda\") or die; sleep 1000' >/dev/null 2>&1 &
systemctl start --no-block etcd-lun.service; sleep 2; until_it_ends migration 120
for unit in var-lib-etcd.mount etcd.service; do
    [ -n \"$(systemctl show --property LoadState \"$unit\")\" ] || { echo \"failed: reading the state of $unit\"; exit; }
done
[ -z \"$(restorecon -nR -v /var/lib/etcd-lun /run/etcd-lun)\" ] || { echo 'failed: a file has the wrong label'; exit; }
for verb in health 'bench --writes 100'; do
    systemd-run --quiet --wait --collect --unit=etcd-lun-bed /var/lib/etcd-lun/bin/etcd-lun $verb; code=$?
    after \"$verb\"; [ $code = 0 ] || [ $code = 4 ] || { echo \"failed: $verb, $code\"; exit; }
done
systemctl start etcd.service; systemctl stop etcd.service; umount /var/lib/etcd; iscsiadm --mode node --logout >/dev/null
systemctl start etcd.service
systemctl restart --no-block etcd-lun.service; sleep 2; until_it_ends 'a LUN that comes late' 120
etcdctl --command-timeout 60s endpoint health >/dev/null 2>&1 || { echo 'failed: etcd'; exit; }
sleep 1; after etcd; echo nothing";

/// The same with a target that hangs: etcd-lun kills tools whose time is over.
const HANGS: &str = "
systemctl start --no-block etcd-lun.service
for _ in $(seq 60); do
    [ \"$(grep -c 'denied .*etcd_lun_' /var/log/audit/audit.log)\" = 0 ] || { echo 'denied: a target that hangs'; exit; }
    sleep 1
done
echo nothing";

pub(super) fn scenario() -> Option<Scenario> {
    let wanted = std::env::var("ETCD_LUN_BED_BLOCKS").ok()?;
    Some(Scenario::new("selinux/blocks", move |stage| blocks(stage, &wanted)))
}

/// Boots the node with the service disabled and takes a snapshot. Then migrates it again with each policy.
fn blocks(stage: &mut Stage, wanted: &str) -> Result<()> {
    let disk = portal::delivered(stage, &boot::delivered(stage, &portal::wanted(), EtcdRunner::Unit)?)?;
    let module = boot::module(stage, &portal::wanted())?;
    let _names = portal::NameServer::serve(stage)?;
    let blocks: Vec<&str> = forms(&module)
        .into_iter()
        .filter(|form| takes_out(form))
        .zip(1..)
        .filter(|(form, number)| {
            wanted == "all" || wanted.split(',').any(|part| is_meant(part, form, *number))
        })
        .map(|(form, _)| form)
        .collect();
    let disk = with_policies(stage, &disk, &module, &blocks)?;
    stage.change_node(super::node(stage, &disk, &portal::wanted())?);
    portal::offer(stage)?;
    stage.node.power_on()?;
    stage.node.ok("systemctl start etcd-lun-selinux.service")?;
    stage.node.save(SNAPSHOT)?;
    let same = stage.node.read(&format!("{POLICIES}/same"))?;
    let missed = failure_with(stage, "whole")?;
    if missed != NOTHING {
        bail!("the complete module should allow everything: {missed}");
    }
    let mut unneeded = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let name = block.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
        if same.lines().any(|line| line == number.to_string()) {
            println!("        without {name}: the same policy");
            continue;
        }
        let missed = failure_with(stage, &number.to_string())?;
        println!("        without {name}: {missed}");
        if missed == NOTHING {
            unneeded.push(name);
        }
    }
    if !unneeded.is_empty() {
        bail!("nothing failed without {}", unneeded.join("; "));
    }
    Ok(())
}

/// What failed with one of the policies.
fn failure_with(stage: &mut Stage, policy: &str) -> Result<String> {
    portal::offer(stage)?;
    stage.node.load(SNAPSHOT)?;
    let load = format!(
        ". /etc/selinux/config; cp {POLICIES}/{policy} $(ls /etc/selinux/$SELINUXTYPE/policy/policy.*); load_policy\n"
    );
    let missed = stage.node.run_within(&format!("{load}{RUN}"), LIMIT)?.stdout;
    if missed.trim() != NOTHING {
        return Ok(missed.trim().into());
    }
    stage.node.ok(
        "systemctl stop etcd.service etcd-lun.service; umount /var/lib/etcd; iscsiadm --mode node --logout",
    )?;
    stage.target.freeze()?;
    let hung = stage.node.run_within(HANGS, Duration::from_secs(120));
    stage.target.thaw()?;
    Ok(hung?.stdout.trim().into())
}

/// Makes a disk with one policy for each removed block, and one policy with all blocks.
fn with_policies(stage: &Stage, disk: &std::path::Path, module: &str, blocks: &[&str]) -> Result<PathBuf> {
    const INSTALL: &str =
        "cat >/tmp/etcd_lun.cil; semodule --noreload --priority 350 --install /tmp/etcd_lun.cil
        . /etc/selinux/config; policy=$(ls /etc/selinux/$SELINUXTYPE/policy/policy.*)";
    crate::delivery::change(&stage.bed, "blocks", disk, |root: &Root| {
        root.run(
            "find /etc/systemd/system-preset -type f -exec sed -i '/etcd.service/d; /kubelet/d' '{}' +",
            &[],
        )?;
        root.run("rm -f /etc/systemd/system/*/etcd.service /etc/systemd/system/*/kubelet.service /etc/systemd/system/*/50-etcd-lun.conf", &[])?;
        root.run(
            &format!("{INSTALL}; mkdir {POLICIES}; touch {POLICIES}/same; cp $policy {POLICIES}/whole"),
            module.as_bytes(),
        )?;
        for (number, block) in blocks.iter().enumerate() {
            let keep = format!(
                "{INSTALL}; if cmp -s $policy {POLICIES}/whole; then echo {number} >>{POLICIES}/same; else cp $policy {POLICIES}/{number}; fi"
            );
            root.run(&keep, module.replacen(block, "", 1).as_bytes())?;
        }
        root.run(INSTALL, module.as_bytes())
    })
}

/// The top-level forms of the text.
pub(super) fn forms(text: &str) -> Vec<&str> {
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

/// Whether a part of the selection means this form: by its number, counted from 1, or by its text.
fn is_meant(part: &str, form: &str, number: usize) -> bool {
    match part.split_once('-').map(|(first, last)| (first.parse(), last.parse())) {
        Some((Ok(first), Ok(last))) => (first..=last).contains(&number),
        _ => form.contains(part),
    }
}

/// Whether the form grants a right. Removing single types or labels shows nothing.
fn takes_out(form: &str) -> bool {
    ["(optional ", "(allow ", "(typetransition "].iter().any(|kind| form.starts_with(kind))
}
