//! Runners for tests: one that replays recorded output, and one without any tool.
#![allow(clippy::unwrap_used, reason = "only tests use this")]

use super::{ExecError, Invocation, Output, Runner, Tool};
use std::{cell::RefCell, collections::BTreeMap, fs, path::PathBuf, rc::Rc};

/// The recorded results, by command line. Any other call fails the test.
#[derive(Debug, Default)]
pub struct Transcript {
    outputs: BTreeMap<String, Output>,
    files: BTreeMap<String, (PathBuf, String)>,
    calls: Calls,
}

/// The command lines that were run, in order. Clones share one list.
pub type Calls = Rc<RefCell<Vec<String>>>;

impl Transcript {
    /// Adds a result: exit code, standard output, standard error.
    pub fn on(mut self, line: &str, code: i32, stdout: &str, stderr: &str) -> Self {
        let output = Output { code, stdout: stdout.into(), stderr: stderr.into() };
        self.outputs.insert(line.into(), output);
        self
    }

    /// Adds a command that succeeds, and writes this text to this file.
    pub fn writing(mut self, line: &str, path: PathBuf, text: &str) -> Self {
        self.files.insert(line.into(), (path, text.into()));
        self.on(line, 0, "", "")
    }

    /// The list of command lines that were run. Get it before the transcript moves into a host.
    pub fn calls(&self) -> Calls {
        Rc::clone(&self.calls)
    }
}

impl Runner for Transcript {
    fn run(&self, what: &Invocation, watch: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
        let line = what.to_string();
        let output = self.outputs.get(&line).unwrap_or_else(|| panic!("not in the transcript: {line}"));
        if let Some((path, text)) = self.files.get(&line) {
            path.parent().map(fs::create_dir_all).transpose().and_then(|_| fs::write(path, text)).unwrap();
        }
        self.calls.borrow_mut().push(line);
        output.stdout.lines().for_each(watch);
        Ok(output.clone())
    }

    fn has(&self, _tool: Tool) -> bool {
        true
    }
}

/// A machine without any tool.
#[derive(Debug)]
pub struct NoTools;

impl Runner for NoTools {
    fn run(&self, what: &Invocation, _: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
        Err(ExecError::Missing(what.tool))
    }

    fn has(&self, _: Tool) -> bool {
        false
    }
}
