//! `health`

use super::{
    apply, config,
    document::{self, Document},
    env,
    exit::Exit,
    follow,
    output::{OutputFormat, is_terminal, print_json, print_out},
    values::absolute,
    view,
};
use ::config::Config;
use anyhow::Context as _;
use clap::{Args, ValueHint, builder::TypedValueParser as _};
use hands::{Door, Requester};
use health::{CHECKS, Change, Outcome, Report, Severity, Verdicts};
use host::{Host, selinux, terminal::Stream};
use node::{Fact, HealthFacts, Node, SeenSession, layout::VERDICTS};
use observe::Asked;
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use terms::{AbsPath, TermError};

/// What `health` prints.
pub const HEALTH: Document<Report> = Document::under("health", "health", "etcd-lun health --json");

/// What `health --list` prints.
pub(super) const HEALTH_LIST: Document<Vec<Listed>> =
    Document::under("checks", "health-list", "etcd-lun health --list --json");

/// A check, as `health --list` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed {
    /// A stable name.
    #[schemars(regex(pattern = document::NAME))]
    name: &'static str,
    /// How bad a finding is.
    severity: Severity,
    /// What it protects.
    protects: &'static str,
    /// What counts as well, and the source of that limit.
    limit: &'static str,
}

/// What to do with the report.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Print all checks, what each one protects, and the source of its limit
    #[arg(long)]
    list: bool,
    /// Also write metrics for node-exporter; FILE must end with .prom
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = absolute().try_map(textfile))]
    prometheus: Option<AbsPath>,
    /// Run as the timer does: print nothing, keep the outcomes, log changes in the journal
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    pub output: OutputFormat,
}

/// A file that node-exporter reads.
fn textfile(path: PathBuf) -> Result<AbsPath, String> {
    let path: AbsPath =
        path.to_str().ok_or("it is not UTF-8")?.parse().map_err(|error: TermError| error.to_string())?;
    if !path.name().ends_with(".prom") {
        return Err(format!("node-exporter does not read {path}: the name must end with .prom"));
    }
    Ok(path)
}

/// Runs the checks, and prints or records their outcomes.
pub(super) fn run(file: Option<&Path>, options: &Options) -> Result<(), Exit> {
    let output = options.output;
    if options.list {
        return list(output);
    }
    let begun = Instant::now();
    let (host, identity, config) = config::TO_LOOK.or_kept().load(file)?;
    // The timer's run may not connect to etcd (SELinux).
    let asked = Asked { cluster: !options.record, ..Asked::BY_HAND };
    let door = Door::of(&host, &config)?;
    let (node, at_work) = view::look(&door, &config, &identity, asked);
    // The timer's run judges all: at a boot a run tries for hours to reach its target, and alerts are to say so.
    let at_work = at_work.filter(|_| !options.record).map(|run| follow::under_way(&run));
    let facts = HealthFacts { at_work, ..observe::health_facts(&door, &config, &node) };
    let report = health::assess(&config, &node, &facts);
    let text = || metrics(&config, &node, &facts, &report, begun.elapsed());
    if options.record {
        // The journal first, so that metrics which cannot be written do not keep the outcomes out of it.
        record(&host, &report)?;
        let unfinished = observe::mounted_anew(&host).context("reading what was mounted anew")?.unfinished;
        let ours = |one: &&SeenSession| config.backing.iscsi().is_some_and(|at| one.is_of(&at.target.iqn));
        let mut sessions = node.sessions.known().into_iter().flatten().filter(ours);
        let leaves_alone = || sessions.any(|one| node.leaves_alone(one));
        let with_iscsid = || anyhow::Ok(apply::with_iscsid(facts.iscsid != Fact::Known(false), leaves_alone));
        call_if_lost(&host, plan::trouble(&config, &node, unfinished, with_iscsid)?.is_some())?;
        write_textfile(&door, &config, &text())?;
    }
    if let Some(path) = &options.prometheus {
        host.root.write_durably(path, &text(), 0o644).context("writing the metrics")?;
    }
    if output.json {
        print_json(&HEALTH, &report)?;
    } else if !options.record {
        print_out(&page(&report, is_terminal(Stream::Out) && env::wants_colour()));
    }
    let bad: Vec<_> = report.rows.iter().filter(|row| !row.outcome.is_ok()).collect();
    match bad.as_slice() {
        [] => Ok(()),
        _ if options.record => Err(Exit::Unhealthy(String::new())),
        rows => Err(Exit::Unhealthy(rows.iter().map(|row| row.check).collect::<Vec<_>>().join(", "))),
    }
}

fn metrics(config: &Config, node: &Node, facts: &HealthFacts, report: &Report, took: Duration) -> String {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let run = health::Run { version: env!("CARGO_PKG_VERSION"), at, took };
    let target = config.backing.iscsi().map(|iscsi| &iscsi.target.iqn);
    health::metrics(report, node, facts, target, run)
}

/// Logs which outcomes have changed since the last run, and keeps the present ones.
fn record(host: &Host, report: &Report) -> anyhow::Result<()> {
    // A text of another form counts as empty. Then every finding is logged once more.
    let text = host.root.read_ours(VERDICTS).context("reading the last verdicts")?.unwrap_or_default();
    let before: Verdicts = serde_json::from_str(&text).unwrap_or_default();
    before.changes(report).iter().for_each(log_change);
    let now = Verdicts::of(report);
    if now == before {
        return Ok(());
    }
    let path: AbsPath = VERDICTS.parse()?;
    host.root.make_dir(path.parent().as_path(), 0o700).context("making the runtime directory")?;
    let text = serde_json::to_string(&now).context("writing the verdicts")?;
    host.root.write_durably(&path, &text, 0o600).context("keeping the verdicts")
}

/// Has the unit start etcd-lun-lost.service, or no longer.
fn call_if_lost(host: &Host, is_lost: bool) -> anyhow::Result<()> {
    if is_lost {
        return host
            .root
            .write_durably(&unit::LOST.parse()?, "", 0o600)
            .context("calling for etcd-lun-lost.service");
    }
    host.root.remove(unit::LOST).context("calling for etcd-lun-lost.service no longer")
}

/// Logs a changed outcome as one entry in the journal.
fn log_change(change: &Change<'_>) {
    let Change { check, old, new, severity, detail } = *change;
    let word = severity.word();
    macro_rules! event {
        ($level:ident, $id:expr) => {
            tracing::$level!(
                MESSAGE_ID = $id,
                CHECK = check,
                OLD = old,
                NEW = new,
                SEVERITY = word,
                "{check}: {new}, was {old}: {detail}"
            )
        };
    }
    match (new, severity) {
        ("ok", _) => event!(info, health::OK_AGAIN),
        ("found", Severity::Critical) => event!(error, health::FOUND),
        ("found", Severity::Warning) => event!(warn, health::FOUND),
        _ => event!(warn, health::CANNOT_TELL),
    }
}

/// Writes the metrics to the file that the config names, if its directory exists. If not, nobody reads them.
///
/// If someone has made the directory since the unit labelled it, this domain may not write there yet. Then only the next
/// run writes, because the unit labels the directory before each run.
fn write_textfile(door: &Door<'_>, config: &Config, text: &str) -> anyhow::Result<()> {
    let (host, path) = (door.host, &config.health.textfile);
    let dir = path.parent();
    if host.root.mode(dir.as_path()).context("looking for the directory of metrics")?.is_none() {
        return Ok(());
    }
    if door.requester == Requester::Service {
        // Where SELinux is off, the kernel has no labels.
        let label =
            selinux::label_of(host, dir.as_str()).context("reading the label of the directory of metrics")?;
        if let Some(label) = label
            && policy::type_of(&label) != Some(policy::METRICS_TYPE)
        {
            tracing::warn!(
                "no metrics are written in this run: the label of {dir} is {label}, not {}; if this is said again, run \
                 `restorecon -R {dir}`, and `matchpathcon {dir}` shows whether a rule of yours gives the label",
                policy::METRICS_TYPE
            );
            return Ok(());
        }
    }
    host.root
        .write_durably(path, text, 0o644)
        .with_context(|| format!("writing metrics; if SELinux denies it, run `restorecon -R {dir}`"))
}

/// `health --list`
fn list(output: OutputFormat) -> Result<(), Exit> {
    if output.json {
        let listed = CHECKS.iter().map(|check| Listed {
            name: check.name,
            severity: check.severity,
            protects: check.protects,
            limit: check.limit,
        });
        return print_json(&HEALTH_LIST, &listed.collect());
    }
    print_out(&table());
    Ok(())
}

fn table() -> String {
    let mut text = format!("{:<16}  {:<8}  {}\n", "CHECK", "SEVERITY", "WHAT IT PROTECTS, AND ITS LIMIT");
    for check in CHECKS {
        let _ = writeln!(text, "{:<16}  {:<8}  {}", check.name, check.severity.word(), check.protects);
        let _ = writeln!(text, "{:<16}  {:<8}    {}", "", "", check.limit);
    }
    text
}

/// The report, for a person; in colour on a terminal.
fn page(report: &Report, colour: bool) -> String {
    let mut text = format!("{:<16}  {:<11}  {}\n", "CHECK", "OUTCOME", "DETAIL");
    for row in &report.rows {
        let (outcome, code) = match &row.outcome {
            Outcome::Ok(_) => ("ok", "32"),
            Outcome::Found(_) => ("FOUND", if row.severity == Severity::Critical { "1;31" } else { "33" }),
            Outcome::CannotTell(_) => ("CANNOT TELL", "35"),
        };
        let padded = format!("{outcome:<11}");
        let shown = if colour { format!("\x1b[{code}m{padded}\x1b[0m") } else { padded };
        let _ = writeln!(text, "{:<16}  {shown}  {}", row.check, row.outcome.detail());
    }
    let good = report.rows.iter().filter(|row| row.outcome.is_ok()).count();
    let _ = writeln!(text, "{good} of {} checks ok", report.rows.len());
    text
}
