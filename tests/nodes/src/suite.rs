//! Plays scenarios, each on a stage that was reset for it, and prints the result of each.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::lanes::Claims;
use crate::stage::Stage;

type Play = Box<dyn Fn(&mut Stage) -> Result<()>>;

/// A scenario: a name, and a function that plays it and checks the result.
pub struct Scenario {
    /// Its name, `group/subject`.
    pub name: String,
    play: Play,
}

impl Scenario {
    /// A scenario.
    pub fn new(name: &str, play: impl Fn(&mut Stage) -> Result<()> + 'static) -> Self {
        Self { name: name.into(), play: Box::new(play) }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// How many scenarios passed and how many failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Scenarios that passed.
    pub passed: usize,
    /// Scenarios that failed.
    pub failed: usize,
}

/// Plays the scenarios that the claims assign to this process, until none is left.
pub fn play(stage: &mut Stage, scenarios: &[Scenario], claims: &Claims) -> Result<()> {
    let failures = failure_dir();
    while let Some(scenario) = scenarios.get(claims.take()?) {
        let begun = Instant::now();
        let played = stage.reset().and_then(|()| (scenario.play)(stage));
        let took = seconds(begun.elapsed());
        let told = match &played {
            Ok(()) => format!("ok      {} ({took})\n", scenario.name),
            Err(error) => {
                let dir = failures.join(scenario.name.replace('/', "-"));
                let evidence = match collect(stage, &dir) {
                    Ok(()) => format!("evidence: {}", dir.display()),
                    Err(error) => format!("evidence could not be collected: {error:#}"),
                };
                let why = format!("{error:#}\n{evidence}").replace('\n', "\n        ");
                format!("FAILED  {} ({took})\n        {why}\n", scenario.name)
            }
        };
        // One write, flushed at once, because other lanes write to the same output.
        std::io::stdout().write_all(told.as_bytes())?;
        std::io::stdout().flush()?;
        claims.note(played.is_ok())?;
    }
    if stage.bed.panics() > 0 {
        println!("bed: the emulated kernel panicked {} times; those boots were repeated", stage.bed.panics());
    }
    Ok(())
}

fn collect(stage: &mut Stage, dir: &Path) -> Result<()> {
    fs::remove_dir_all(dir).ok();
    stage.bed.net.repair()?;
    stage.node.collect(dir)?;
    let run = stage.bed.run.dir();
    fs::copy(run.join("tgtd.log"), dir.join("tgtd.log"))?;
    // Files of the second machine and of further members. They exist only if the scenario had them.
    for file in ["lio.serial", "lio.transcript", "etcd-master-1.log", "etcd-master-2.log"] {
        fs::copy(run.join(file), dir.join(file)).ok();
    }
    Ok(())
}

/// The directory for evidence. It is outside the run's own directory, because the end of the run deletes that
/// one.
pub fn failure_dir() -> PathBuf {
    let root = std::env::var_os("ETCD_LUN_BED_FAILURES")
        .map_or("/var/tmp/etcd-lun-bed-failures".into(), PathBuf::from);
    root.join(std::process::id().to_string())
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f32())
}
