//! Compares etcd-lun with two other ways to move an etcd to another disk, in the same situations on equal
//! nodes.
//!
//! The table only shows what was observed. The comparison ends with an error when etcd-lun loses something,
//! or when any way ends in a state that the code does not expect.
//!
//! - `way`: the ways; their scripts and units are in `tests/measure/guest`
//! - `rig`, `client`: the node, its disks, and the client of its etcd
//! - `boot`: what etcd-lun did in a boot, and how long each part took
//! - `moved`, `stale`, `cut`, `foreign`: the situations
//! - `seen`, `times`, `table`: the results

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use nodes::bed::Bed;

mod boot;
pub(crate) mod client;
mod cut;
mod foreign;
mod moved;
mod rig;
mod seen;
mod stale;
mod table;
mod times;
mod way;

use rig::Rig;
use table::Table;
use times::Times;
use way::Way;

/// The situations. `--only` selects them by these names.
const SITUATIONS: [&str; 5] = ["move", "later", "stale", "cut", "foreign"];

/// The text of a line `refused [NAME]: …`.
fn refused(line: &str) -> Option<&str> {
    line.strip_prefix("refused [")?.split_once("]: ").map(|(_, text)| text)
}

/// Plays every situation whose name `way/situation` contains one of the texts in `only`, which commas
/// separate. Each reboot and each move is measured so many times. Prints the table.
pub fn play(bed: &Rc<Bed>, agent: &Path, only: &str, times: usize) -> Result<()> {
    let begun = Instant::now();
    let chosen: Vec<(Way, &str)> = Way::ALL
        .iter()
        .flat_map(|way| SITUATIONS.iter().map(move |situation| (*way, *situation)))
        .filter(|(way, situation)| {
            let name = format!("{way}/{situation}");
            only.split(',').any(|part| name.contains(part))
        })
        .collect();
    if chosen.is_empty() {
        bail!("no situation has {only:?} in its name");
    }
    let mut rig = Rig::build(bed, agent)?;
    let plain = match chosen.iter().any(|(_, situation)| ["move", "later"].contains(situation)) {
        true => moved::baseline(&mut rig, times)?,
        false => Times::default(),
    };
    let mut table = Table::default();
    let mut failed = None;
    for (way, situation) in chosen {
        let played = match situation {
            "move" => moved::play(&mut rig, way, &mut table, &plain, times),
            "later" => moved::later(&mut rig, way, &mut table, &plain, times),
            "stale" => stale::play(&mut rig, way, &mut table),
            "cut" => cut::play(&mut rig, way, &mut table),
            _ => foreign::play(&mut rig, way, &mut table),
        };
        if let Err(error) = played.with_context(|| format!("{way}/{situation}")) {
            println!("FAILED  {error:#}");
            evidence(&rig);
            failed = Some(error);
        }
    }
    println!(
        "\n{}\nThe comparison took {} s; nodes ran under {}.",
        table.markdown(),
        begun.elapsed().as_secs(),
        bed.accel()
    );
    failed.map_or(Ok(()), Err)
}

/// Collects evidence to read after a failure.
fn evidence(rig: &Rig) {
    let dir = nodes::suite::failure_dir().join("compare");
    match rig.stage.node.collect(&dir) {
        Ok(()) => println!("        evidence: {}", dir.display()),
        Err(error) => println!("        evidence could not be collected: {error:#}"),
    }
}
