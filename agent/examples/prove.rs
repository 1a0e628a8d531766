//! Compares two directories as `etcd-lun` does after a copy: `prove SOURCE COPY`.
//!
//! Prints one line of `key=value` words, for `tests/bench-proof`.

use anyhow::{Context, bail};
use etcd_lun::host::{Interrupt, Root, tree};
use std::{path::Path, time::Instant};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, copy] = args.as_slice() else { bail!("usage: prove SOURCE COPY") };
    let (source, copy) = (tree::open(Path::new(source))?, tree::open(Path::new(copy))?);
    let start = Instant::now();
    let found = tree::compare(source, copy, &Interrupt::never(), &mut |_| {})?;
    let seconds = start.elapsed().as_secs_f64();
    // `VmHWM`: the most that was ever resident (`proc_pid_status(5)`).
    let status = Root::new("/").read("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in status")?;
    let peak = peak.trim().trim_end_matches(" kB");
    println!(
        "seconds={seconds:.3} bytes={} peak_kib={peak} fingerprint={}",
        found.bytes.0, found.fingerprint
    );
    Ok(())
}
