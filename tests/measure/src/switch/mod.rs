//! Measures how long a client of etcd gets no answer: in a plain restart, in a move by hand, and in etcd-lun's.
//!
//! All is measured on one node, from one snapshot for each size of the database, so every way begins with the same files,
//! the same memory and a blank LUN. What a goal is set for is measured several times.
//!
//! - `way`: the ways, and their commands
//! - `lab`: the node, its database, and one measurement
//! - `phase`: while etcd's data is copied: which part of that when
//! - `load`: how busy this machine is meanwhile
//! - `start`: etcd's own start, and where its time went
//! - `figures`: the tables

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, bail};

use nodes::bed::Bed;

mod figures;
mod lab;
mod load;
mod phase;
mod start;
mod way;

use figures::Figures;
use lab::Lab;
pub use way::{Runtime, Way};

/// Plays every way with each size, in MiB, and with each runtime. Prints the tables.
/// What has a goal is measured so many times. The LUN's file lies in the directory `lun`, by default in the run's.
pub fn play(
    bed: &Rc<Bed>,
    agent: &Path,
    sizes: &[u64],
    runtimes: &[Runtime],
    ways: &[Way],
    times: usize,
    lun: Option<&Path>,
) -> Result<()> {
    let begun = Instant::now();
    if sizes.is_empty() || !sizes.is_sorted() {
        bail!("the sizes must be in ascending order: the database of one is filled up to the next");
    }
    let dir = lun.unwrap_or_else(|| bed.run.dir());
    let mut lab = Lab::boot(bed, agent, sizes.last().copied().unwrap_or_default(), dir)?;
    let mut figures = Figures::default();
    for size in sizes {
        let bytes = lab.fill(size << 20)?;
        for runtime in runtimes {
            lab.run_by(*runtime)?;
            for way in Way::ALL.into_iter().filter(|way| ways.contains(way)) {
                for _ in 0..if way.has_goal() { times } else { 1 } {
                    if way.begins_anew() {
                        lab.begin()?;
                    }
                    let measured = lab.measure(way)?;
                    println!("bed: {runtime}, {} MiB, {way}: {measured}", bytes >> 20);
                    figures.put(*runtime, bytes, way, measured);
                }
            }
        }
    }
    println!(
        "\n{}\nOf this etcd's own start took, from its process until it served:\n\n{}\n99 of 100 of the client's writes took:\n\n{}\nMeasured in {} s; the node ran under {}.",
        figures.table(),
        figures.starts(),
        figures.noise(),
        begun.elapsed().as_secs(),
        bed.accel()
    );
    Ok(())
}
