//! Shows the progress of a long run: lines on a terminal, events in the journal, and the file of the run.

use super::{
    env,
    output::{is_terminal, print_err, print_err_part},
};
use apply::{StepNumber, Watcher, run_file::RunFile};
use host::terminal::Stream;
use plan::{Plan, Step};
use std::time::{Duration, Instant};
use terms::Bytes;

/// How often a long step says how far it is where nobody sees it move: in the journal, a pipe, and the file of the run.
const REPORT: Duration = Duration::from_secs(30);

/// Shows the progress of a run.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    terminal: bool,
    quiet: bool,
    /// The number of the step, and of all steps.
    place: String,
    pub(super) title: String,
    /// What was said of the cluster, and warnings.
    said: Vec<String>,
    last: Option<Instant>,
    /// When the step began, or said last how far it is.
    pub(super) reported: Instant,
    /// For those who follow the run.
    file: Option<RunFile<'a>>,
}

impl<'a> Progress<'a> {
    /// Under systemd: only events. Elsewhere: lines on standard error.
    pub(super) fn new() -> Self {
        let quiet = env::under_systemd();
        let terminal = !quiet && is_terminal(Stream::Err) && !env::is_dumb();
        Self {
            terminal,
            quiet,
            place: String::new(),
            title: String::new(),
            said: Vec::new(),
            last: None,
            reported: Instant::now(),
            file: None,
        }
    }

    /// The same, which also says all of it to those who follow the run.
    pub(super) fn followed_in(self, file: RunFile<'a>) -> Self {
        Self { file: Some(file), ..self }
    }

    /// The file in which the run is followed, to end it.
    pub(super) fn into_file(self) -> Option<RunFile<'a>> {
        self.file
    }

    fn line(&self, text: &str) {
        if !self.quiet {
            let erase = if self.terminal && self.last.is_some() { "\r\x1b[K" } else { "" };
            print_err(&format!("{erase}{text}"));
        }
    }

    /// The same, and for those who follow the run.
    fn line_for_all(&mut self, text: &str) {
        if let Some(file) = &mut self.file {
            file.line(text);
        }
        self.line(text);
    }
}

impl Watcher for Progress<'_> {
    fn planned(&mut self, plan: &Plan) {
        if let Some(horizon) = plan.horizon {
            tracing::debug!("{} steps; {horizon}", plan.steps.len());
        }
        let cluster = plan.cluster.iter().map(|cluster| format!("cluster: {cluster}"));
        for text in cluster.chain(plan.warnings.iter().map(|warning| format!("warning: {warning}"))) {
            if !self.said.contains(&text) {
                tracing::info!("{text}");
                self.line_for_all(&text);
                self.said.push(text);
            }
        }
    }

    fn waiting(&mut self, for_what: &str) {
        tracing::info!("{} waits: {for_what}", self.place);
        self.line_for_all(&format!("      waits: {for_what}"));
    }

    fn started(&mut self, number: StepNumber, step: &Step) {
        self.place = number.to_string();
        self.title = format!("{} {step}", self.place);
        self.reported = Instant::now();
        tracing::info!(STEP = step.id(), "{} started", self.title);
        if let Some(file) = &mut self.file {
            file.step(&self.title);
        }
        self.line(&self.title);
    }

    fn moved(&mut self, done: u64, of: Option<u64>) {
        let text = || match of.filter(|of| *of > 0) {
            Some(of) => format!("{} of {}, {} %", Bytes(done), Bytes(of), done.saturating_mul(100) / of),
            None => Bytes(done).to_string(),
        };
        if self.reported.elapsed() >= REPORT {
            self.reported = Instant::now();
            let text = format!("{}: {}", self.title, text());
            tracing::info!("{text}");
            if let Some(file) = &mut self.file {
                file.step(&text);
            }
            if !self.terminal {
                self.line(&text);
            }
        }
        // A person needs ten updates a second at most.
        if self.terminal && self.last.is_none_or(|last| last.elapsed() >= Duration::from_millis(100)) {
            print_err_part(&format!("\r\x1b[K      {}", text()));
            self.last = Some(Instant::now());
        }
    }

    fn ended(&mut self, step: &Step, outcome: Result<&str, &str>, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let (end, what) = match outcome {
            Ok(what) => ("done", what),
            Err(why) => ("failed", why),
        };
        tracing::info!(STEP = step.id(), DURATION_US = micros, "{} {} {end}: {what}", self.place, step.id());
        self.line_for_all(&match outcome {
            Ok(what) => format!("      {what} ({:.1} s)", took.as_secs_f32()),
            Err(_) => "      failed".into(),
        });
        self.last = None;
    }

    fn noted(&mut self, text: &str) {
        if let Some(file) = &mut self.file {
            file.line(text);
        }
        tracing::warn!("{text}");
    }
}
