//! The file in which a run says what it does. A person who starts another run meanwhile reads it there.
//!
//! The run that holds the lock replaces the file as a whole with each line. At its end it adds the result and leaves the
//! file. A run that was killed leaves the file without a result.

use host::{Host, exec::one_line};
use node::layout::RUN_FILE;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use terms::AbsPath;

/// The format of the file. Another version of the program may have written it.
const VERSION: u32 = 1;

/// The report of a run on itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    version: u32,
    /// The command, such as `rollback` or `apply --boot`.
    pub verb: String,
    /// The process.
    pub pid: u32,
    /// When it took the lock, in milliseconds since 1970.
    begun: u64,
    /// The step under way, with its number, as it stands on the terminal. Empty before the first step.
    pub step: String,
    /// The text that it has printed so far.
    pub lines: Vec<String>,
    /// How it has ended. None while it runs, and if it was killed.
    pub result: Option<RunResult>,
}

/// How a run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// The exit code.
    pub code: u8,
    /// Its last line.
    pub text: String,
    /// The output of `--json`.
    pub json: serde_json::Value,
}

impl RunState {
    /// True if both are of one run.
    pub fn is_of_same_run(&self, other: &Self) -> bool {
        (self.pid, self.begun) == (other.pid, other.begun)
    }

    /// True if this process holds the lock for the run. Who holds it may be unknown: then it is the process that says that it runs.
    pub fn may_be(&self, holder: Option<u32>) -> bool {
        holder.is_none_or(|pid| pid == self.pid)
    }

    /// How long ago it began, in whole seconds.
    pub fn age(&self) -> Duration {
        Duration::from_secs(since_1970().saturating_sub(self.begun) / 1000)
    }
}

/// The state that the file holds; none if there is no file. The error says why it cannot be read.
pub fn read(host: &Host) -> Result<Option<RunState>, String> {
    let Some(text) = host.root.read_ours(RUN_FILE).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    // First only the version: a file of another version may have any other content.
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let wrong = |error: serde_json::Error| one_line(&error.to_string());
    match serde_json::from_str(&text).map_err(wrong)? {
        Versioned { version: VERSION } => serde_json::from_str(&text).map(Some).map_err(wrong),
        Versioned { version } => {
            Err(format!("its version is {version}, and this program knows version {VERSION}"))
        }
    }
}

/// The file of this run, which holds the lock.
#[derive(Debug)]
pub struct RunFile<'a> {
    host: &'a Host,
    state: RunState,
}

impl<'a> RunFile<'a> {
    /// Replaces the file of the last run.
    pub(super) fn begin(host: &'a Host, verb: &str) -> Self {
        let state = RunState {
            version: VERSION,
            verb: verb.to_owned(),
            pid: std::process::id(),
            begun: since_1970(),
            step: String::new(),
            lines: Vec::new(),
            result: None,
        };
        let file = Self { host, state };
        file.write();
        file
    }

    /// A step begins; the line names it.
    pub fn step(&mut self, line: &str) {
        line.clone_into(&mut self.state.step);
        self.line(line);
    }

    /// A line for a person.
    pub fn line(&mut self, line: &str) {
        self.state.lines.push(line.to_owned());
        self.write();
    }

    /// The run ends. The caller still holds the lock.
    pub fn end(mut self, result: RunResult) {
        self.state.result = Some(result);
        self.write();
    }

    /// An error is only logged: nobody can follow the run then, and the run itself does not need the file.
    fn write(&self) {
        let write = || -> anyhow::Result<()> {
            let path: AbsPath = RUN_FILE.parse()?;
            Ok(self.host.root.write_durably(&path, &serde_json::to_string(&self.state)?, 0o600)?)
        };
        if let Err(error) = write() {
            tracing::debug!("saying what this run does: {error:#}");
        }
    }
}

fn since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
