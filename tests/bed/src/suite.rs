//! Runs scenarios, each on a stage set back, and says of each what became of it.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::lanes::Claims;
use crate::stage::Stage;

type Play = Box<dyn Fn(&mut Stage) -> Result<()>>;

/// A scenario: what happens, and what must hold then.
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

/// How many scenarios went well, and how many did not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Went well.
    pub passed: usize,
    /// Did not.
    pub failed: usize,
}

/// Plays what the claims give, until there is no more.
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
        // At once: other lanes write there too.
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
    stage.bed.net.mend()?;
    stage.node.collect(dir)?;
    let run = stage.bed.run.dir();
    fs::copy(run.join("tgtd.log"), dir.join("tgtd.log"))?;
    // Of a second machine, when the scenario had one.
    for file in ["lio.serial", "lio.transcript"] {
        fs::copy(run.join(file), dir.join(file)).ok();
    }
    Ok(())
}

/// Outside the run's own directory, which goes when the run ends.
pub(crate) fn failure_dir() -> PathBuf {
    let root = std::env::var_os("ETCD_LUN_BED_FAILURES")
        .map_or("/var/tmp/etcd-lun-bed-failures".into(), PathBuf::from);
    root.join(std::process::id().to_string())
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f32())
}
