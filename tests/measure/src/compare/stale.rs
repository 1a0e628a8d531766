//! The disk has a copy from an earlier move of the same etcd. The newer data is on the root disk.

use anyhow::{Result, bail};

use super::moved::kept;
use super::rig::Rig;
use super::seen::Place;
use super::table::Table;
use super::way::Way;
use nodes::target::fingerprint;

/// Writes keys, moves etcd to the old copy's disk, and counts what is lost.
pub fn play(rig: &mut Rig, way: Way, table: &mut Table) -> Result<()> {
    let kept = kept(rig, way)?;
    rig.fresh(way, Some(&kept))?;
    let acknowledged = rig.write(way, 1)?;
    let disk = fingerprint(&rig.file(way))?;
    let (logs_in, also) = match way {
        Way::Ours | Way::SecondDisk => {
            rig.deliver(way)?;
            (rig.reboot()?, None)
        }
        Way::ByHand => {
            let device = rig.attach()?;
            (true, Some(rig.format(&device)?))
        }
    };
    let seen = rig.look(logs_in, &acknowledged)?;
    let mut cell = seen.to_string();
    match (way, also) {
        (Way::Ours, _) => {
            let refusal = refusal(rig)?;
            if !seen.is_whole_at(Place::Old) || fingerprint(&rig.file(way))? != disk {
                bail!(
                    "etcd-lun must refuse the LUN of an earlier migration and must not write to it: {seen}"
                );
            }
            cell += &format!("; refused, and nothing written: `{refusal}`");
        }
        (Way::ByHand, Some(output)) if output.code != 0 => {
            let word = output.stderr.lines().next().unwrap_or_default();
            cell += &format!("; the runbook stops before etcd is stopped: `{}`", word.trim());
        }
        (Way::ByHand, output) => bail!("mkfs.xfs formatted a disk with an XFS: {output:?}"),
        (Way::SecondDisk, _) => (),
    }
    table.put("An older copy of this etcd on the disk, newer data on the old disk", way, cell);
    Ok(())
}

/// The first part of the service's refusal, which says what it found. The cure follows after it.
fn refusal(rig: &Rig) -> Result<String> {
    rig.settle()?;
    let said = rig.stage.node.said("etcd-lun.service")?;
    match said.lines().find_map(|line| crate::compare::refused(line.trim())) {
        Some(line) => Ok(line.split("; ").next().unwrap_or(line).to_string()),
        None => bail!("etcd-lun.service did not refuse an earlier migration's LUN: {said}"),
    }
}
