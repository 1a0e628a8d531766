//! Copies a directory and proves the copy as `etcd-lun` does with etcd stopped: `copy SOURCE COPY`.
//!
//! Prints one line of `key=value` words, for `tests/measure/bench-copy`: the first pass, onto what is there, and a second one,
//! which is the switch of an etcd that has written nothing since.

use anyhow::{Context, bail};
use host::{
    Interrupt, Root,
    tree::{self, Ledger, Source},
};
use std::{path::Path, time::Instant};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, copy] = args.as_slice() else { bail!("usage: copy SOURCE COPY") };
    let (source, copy) = (tree::open(Path::new(source))?, tree::open(Path::new(copy))?);
    let mut ledger = Ledger::new()?;
    let mut pass = || -> anyhow::Result<(f64, u64, u64)> {
        let start = Instant::now();
        let moved =
            tree::update(&source, &copy, &mut ledger, Source::AtRest, &Interrupt::never(), &mut |_| {})?;
        let found = tree::settle(&source, &copy, &ledger, &Interrupt::never())?;
        Ok((start.elapsed().as_secs_f64(), found.bytes.0, moved.written))
    };
    let (first, bytes, written) = pass()?;
    let (second, _, again) = pass()?;
    // `VmHWM`: the most that was ever resident (`proc_pid_status(5)`).
    let status = Root::new("/").read("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in status")?;
    let peak = peak.trim().trim_end_matches(" kB");
    println!(
        "first={first:.3} second={second:.3} bytes={bytes} written={written} again={again} peak_kib={peak}"
    );
    Ok(())
}
