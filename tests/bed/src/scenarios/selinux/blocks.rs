//! What each block of the module is for, by taking it out: a development option, for it takes half an hour.
//!
//! `ETCD_LUN_BED_BLOCKS` names the blocks, as parts of their text with commas between, or is `all`.

use anyhow::{Result, bail};

use super::audit::denials;
use super::boot::{self, Runs};
use crate::delivery::Root;
use crate::scene::LIMIT;
use crate::stage::Stage;
use crate::suite::Scenario;

const ALL: &str = "/etc/etcd-lun-all.cil";
const SNAPSHOT: &str = "unmigrated";

pub(super) fn scenario() -> Option<Scenario> {
    let wanted = std::env::var("ETCD_LUN_BED_BLOCKS").ok()?;
    Some(Scenario::new("selinux/blocks", move |stage| blocks(stage, &wanted)))
}

/// The node boots with the service disabled and is kept as it is; with each policy it is migrated anew.
fn blocks(stage: &mut Stage, wanted: &str) -> Result<()> {
    let disk = boot::delivered(stage, &boot::pool(), Runs::Unit)?;
    let module = boot::module(stage, &boot::pool())?;
    let blocks: Vec<&str> = forms(&module)
        .into_iter()
        .filter(|form| {
            takes_out(form) && (wanted == "all" || wanted.split(',').any(|part| form.contains(part)))
        })
        .collect();
    let disk = crate::delivery::change(&stage.bed, "blocks", &disk, |root: &Root| {
        root.run("sed -i '/etcd-lun/d; /etcd.service/d; /kubelet/d' /etc/systemd/system-preset/*", &[])?;
        root.run("rm -f /etc/systemd/system/*/etcd.service /etc/systemd/system/*/kubelet.service", &[])?;
        for (number, block) in blocks.iter().enumerate() {
            let without = module.replacen(block, "", 1);
            root.run(
                &format!(
                    "cat >/tmp/etcd_lun.cil; semodule --noreload --priority 350 --install /tmp/etcd_lun.cil
                     cp /etc/selinux/default/policy/policy.[0-9]* /root/{number}.policy"
                ),
                without.as_bytes(),
            )?;
        }
        root.run(&format!("cat >{ALL}"), module.as_bytes())?;
        root.run(
            "cp /etc/etcd-lun-all.cil /tmp/etcd_lun.cil
             semodule --noreload --priority 350 --install /tmp/etcd_lun.cil",
            &[],
        )
    })?;
    stage.change_node(super::node(stage, &disk)?);
    boot::offer(stage)?;
    stage.node.power_on()?;
    stage.node.ok("systemctl start etcd-lun-selinux.service")?;
    stage.node.save(SNAPSHOT)?;
    let mut unneeded = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        boot::offer(stage)?;
        stage.node.load(SNAPSHOT)?;
        let run = stage.node.run_within(
            &format!(
                "cp /root/{number}.policy $(ls /etc/selinux/default/policy/policy.*); load_policy
                 timeout 120 systemctl start etcd-lun.service; echo $?
                 systemd-run --quiet --wait --unit=bed-health /usr/local/bin/etcd-lun health; echo $?"
            ),
            LIMIT,
        )?;
        let denied = denials(&stage.node)?.len();
        let name = block.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        println!("        without {name}: exit codes {}, {denied} denials", run.stdout.replace('\n', " "));
        if run.stdout == "0\n0\n" && denied == 0 {
            unneeded.push(name);
        }
    }
    if !unneeded.is_empty() {
        bail!("nothing missed {}", unneeded.join("; "));
    }
    Ok(())
}

/// The text's top-level forms.
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

/// What makes a right; types and labels are of no use one by one.
fn takes_out(form: &str) -> bool {
    ["(optional ", "(allow ", "(typetransition "].iter().any(|kind| form.starts_with(kind))
}
