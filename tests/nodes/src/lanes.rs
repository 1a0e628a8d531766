//! Plays several stages at the same time. Each has a process of its own, and all take scenarios from one
//! list.
//!
//! An emulated node uses three quarters of one processor, so two processors are enough for three lanes. Lanes
//! share one file, which holds the number of the next scenario and the results so far, and the node's snapshots,
//! which the first lane that needs one takes (`stage`).

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use crate::image::Image;
use crate::ledger::Run;
use crate::packages;
use crate::suite::Tally;

/// The shared state of all lanes: the number of the next scenario, and how many passed and failed.
#[derive(Debug)]
pub struct Claims(File);

/// The file's content: the next scenario, and the tally so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct State {
    next: usize,
    tally: Tally,
}

impl Claims {
    /// Opens the file that the parent process made.
    pub fn open(file: &Path) -> Result<Self> {
        // A lane must not outlive its parent, however the parent ends.
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
        let open = OpenOptions::new().read(true).write(true).open(file);
        Ok(Self(open.with_context(|| format!("cannot open {}", file.display()))?))
    }

    /// Takes the number of a scenario that no other lane plays.
    pub fn take(&self) -> Result<usize> {
        let mut taken = 0;
        self.change(|state| {
            taken = state.next;
            state.next += 1;
        })?;
        Ok(taken)
    }

    /// Counts one scenario as passed or failed.
    pub fn note(&self, passed: bool) -> Result<()> {
        self.change(|state| match passed {
            true => state.tally.passed += 1,
            false => state.tally.failed += 1,
        })
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        let lock = Flock::lock(self.0.try_clone()?, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
        let mut file = &*lock;
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        let mut state = State::parse(&text)?;
        change(&mut state);
        file.rewind()?;
        // The text never becomes shorter than before, because the numbers only grow. So no truncation is
        // needed.
        write!(file, "{} {} {}", state.next, state.tally.passed, state.tally.failed)?;
        Ok(())
    }
}

impl State {
    fn parse(text: &str) -> Result<Self> {
        let numbers: Vec<usize> = text
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .context("the file of claims is damaged")?;
        match numbers[..] {
            [] => Ok(Self::default()),
            [next, passed, failed] => Ok(Self { next, tally: Tally { passed, failed } }),
            _ => bail!("the file of claims is damaged: {text:?}"),
        }
    }
}

/// Plays `count` scenarios in several lanes. Each lane runs this program with `arguments` and the file of
/// claims. A scenario without a result counts as failed.
pub fn play(lanes: usize, count: usize, arguments: &[&str]) -> Result<Tally> {
    // Done once here, so that the lanes do not each do it.
    packages::ensure()?;
    Image::ensure()?;
    let run = Run::begin()?;
    let file = run.dir().join("claims");
    File::create(&file).with_context(|| format!("cannot create {}", file.display()))?;
    let myself = std::env::current_exe().context("cannot find this program")?;
    let mut children = Vec::new();
    for _ in 0..lanes {
        let mut lane = Command::new(&myself);
        lane.args(arguments).arg("--claims").arg(&file).stdin(Stdio::null());
        children.push(lane.spawn().context("cannot start a lane")?);
    }
    for child in &mut children {
        let status = child.wait()?;
        if !status.success() && status.code() != Some(1) {
            println!("bed: a lane ended with {status}");
        }
    }
    let text = std::fs::read_to_string(&file)?;
    let mut tally = State::parse(&text)?.tally;
    let lost = count.saturating_sub(tally.passed + tally.failed);
    if lost > 0 {
        println!("FAILED  {lost} scenarios have no result: their lane ended first");
        tally.failed += lost;
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_is_taken_once() {
        let file = std::env::temp_dir().join(format!("bed-claims-test-{}", std::process::id()));
        File::create(&file).unwrap();
        let take = |many: usize| {
            let file = file.clone();
            std::thread::spawn(move || {
                let open = || OpenOptions::new().read(true).write(true).open(&file).unwrap();
                let claims = Claims(open());
                (0..many)
                    .map(|_| {
                        claims.note(true).unwrap();
                        claims.take().unwrap()
                    })
                    .collect::<Vec<_>>()
            })
        };
        let lanes = [take(100), take(100)];
        let mut taken: Vec<usize> = lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..200).collect::<Vec<_>>());
        let state = State::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(state, State { next: 200, tally: Tally { passed: 200, failed: 0 } });
        std::fs::remove_file(&file).unwrap();
        assert!(State::parse("1 2").is_err() && State::parse("x 0 0").is_err());
    }
}
