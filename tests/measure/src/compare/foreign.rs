//! The disk already holds data of another owner.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::rig::Rig;
use super::seen::Place;
use super::table::Table;
use super::way::Way;
use nodes::host;
use nodes::scene::LUN_SIZE;
use nodes::target::{blank, fingerprint};

const LIMIT: Duration = Duration::from_secs(60);

/// The other owner's data.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// A filesystem with files.
    Ext4,
    /// Records from the disk's first byte on, as some databases write them. blkid does not recognise them.
    Records,
}

impl Content {
    fn name(self) -> &'static str {
        match self {
            Content::Ext4 => "Another owner's ext4 on the disk",
            Content::Records => "Another owner's data on the disk, which blkid does not recognise",
        }
    }

    fn make(self, rig: &Rig) -> Result<PathBuf> {
        let file = rig.stage.bed.run.dir().join("foreign");
        blank(&file, LUN_SIZE)?;
        let records: String = (0..200_000).map(|number| format!("customer {number:08}\n")).collect();
        match self {
            Content::Ext4 => {
                let dir = file.with_extension("tree");
                fs::create_dir_all(&dir)?;
                fs::write(dir.join("customers"), records)?;
                let mut mke2fs = Command::new("mke2fs");
                host::ok(mke2fs.args(["-q", "-t", "ext4", "-d"]).arg(&dir).arg(&file), LIMIT)?;
            }
            Content::Records => {
                fs::OpenOptions::new().write(true).open(&file).and_then(|mut open| {
                    use std::io::Write;
                    open.write_all(records.as_bytes())
                })?;
            }
        }
        Ok(file)
    }
}

/// Moves etcd to the disk and checks whether the other owner's data is still there.
pub fn play(rig: &mut Rig, way: Way, table: &mut Table) -> Result<()> {
    for content in [Content::Ext4, Content::Records] {
        let file = content.make(rig)?;
        rig.fresh(way, Some(&file))?;
        let disk = fingerprint(&rig.file(way))?;
        let (logs_in, also) = try_it(rig, way)?;
        let seen = rig.look(logs_in, &[])?;
        rig.stage.node.power_cut();
        let same = fingerprint(&rig.file(way))? == disk;
        if way == Way::Ours && !(same && seen.is_whole_at(Place::Old)) {
            bail!(
                "{}: etcd-lun must not change the disk, and etcd must keep its data: {seen}",
                content.name()
            );
        }
        let became = if same { "not touched" } else { "**overwritten**" };
        table.put(content.name(), way, format!("{became}{also}; {seen}"));
    }
    Ok(())
}

/// Moves etcd as far as the way allows. Returns whether ssh works afterwards, and the message of a refusal.
fn try_it(rig: &mut Rig, way: Way) -> Result<(bool, String)> {
    if way == Way::SecondDisk {
        rig.deliver(way)?;
        return Ok((rig.reboot()?, String::new()));
    }
    let output = if way == Way::Ours {
        rig.deliver(way)?;
        rig.stage.agent("apply")?
    } else {
        let device = rig.attach()?;
        rig.format(&device)?
    };
    if way == Way::Ours && output.code != 3 {
        bail!("`etcd-lun apply` should have refused: {output}");
    }
    if output.code == 0 {
        return Ok((true, String::new()));
    }
    // etcd-lun also prints its steps and their results on stderr.
    let mut lines = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let word = match way {
        Way::Ours => lines.find_map(|line| crate::compare::refused(line)),
        _ => lines.next(),
    }
    .with_context(|| format!("no message gives the reason: {output}"))?;
    let word: String = word.split("; ").next().unwrap_or(word).chars().take(160).collect();
    Ok((true, format!(", declined: `{word}`")))
}
