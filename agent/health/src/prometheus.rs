//! Writes the report and the figures in Prometheus' text format, for node-exporter's textfile collector.
//!
//! Names follow <https://prometheus.io/docs/practices/naming/>: a prefix, base units, and `_total` for counters.

use super::report::{Outcome, Report, Row};
use node::{HealthFacts, Node, authority::Authority};
use std::{fmt::Write as _, time::Duration};
use terms::{Bytes, TargetName};

/// The run that observed the figures.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// This program's version.
    pub version: &'a str,
    /// When it ended, as time since 1970.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
}

/// The text: one family of metrics after another.
#[derive(Debug, Default)]
struct Text(String);

/// A label and its value.
type Label<'a> = (&'a str, &'a str);

impl Text {
    fn family<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<Label<'a>>, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let name = format!("etcd_lun_{name}");
        let _ = writeln!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}", help.replace('\\', r"\\"));
        for (labels, value) in samples {
            let labels: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) {
        self.family(name, "gauge", help, value.map(|value| (Vec::new(), value)));
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Counters above 2^53 lose their last bits, which do not matter.
#[allow(clippy::cast_precision_loss)]
fn count(number: u64) -> f64 {
    number as f64
}

/// Writes the text, with only those sessions that lead to `target`. An unknown fact has no sample: alerts use the metric
/// `check_unknown` of its check instead.
pub fn metrics(
    report: &Report,
    node: &Node,
    health: &HealthFacts,
    target: Option<&TargetName>,
    run: Run<'_>,
) -> String {
    let mut text = Text::default();
    of_checks(&mut text, report);
    of_data(&mut text, node, health);
    if let Some(target) = target {
        of_sessions(&mut text, node, target);
    }
    of_paths(&mut text, health);
    text.family(
        "build_info",
        "gauge",
        "The version that wrote this.",
        [(vec![("version", run.version)], 1.0)],
    );
    text.gauge(
        "last_run_timestamp_seconds",
        "When the checks were last run, in seconds since 1970.",
        Some(run.at.as_secs_f64()),
    );
    text.gauge("last_run_duration_seconds", "How long the last run took.", Some(run.took.as_secs_f64()));
    text.0
}

fn of_checks(text: &mut Text, report: &Report) {
    let labels = |row: &Row| vec![("check", row.check), ("severity", row.severity.word())];
    text.family(
        "check",
        "gauge",
        "1 if a check is ok, 0 if it found something or could not tell.",
        report.rows.iter().map(|row| (labels(row), flag(row.outcome.is_ok()))),
    );
    text.family(
        "check_unknown",
        "gauge",
        "1 if a check could not tell.",
        report.rows.iter().map(|row| (labels(row), flag(matches!(row.outcome, Outcome::CannotTell(_))))),
    );
    text.gauge("healthy", "1 if every check is ok.", Some(flag(report.is_healthy())));
}

fn of_data(text: &mut Text, node: &Node, health: &HealthFacts) {
    let record = node.record.known().and_then(Option::as_ref);
    text.gauge(
        "on_lun",
        "1 if the record says that the LUN holds etcd's authoritative data.",
        node.record
            .known()
            .map(|record| flag(record.as_ref().is_some_and(|record| record.authority == Authority::Lun))),
    );
    text.gauge("rolled_back", "1 if a rollback moved etcd's data back to the local disk.", {
        node.record.known().map(|_| flag(node.rolled_back().is_some()))
    });
    text.gauge(
        "generation",
        "The number of the last migration or rollback.",
        record.map(|record| count(record.generation)),
    );
    text.family(
        "activations_total",
        "counter",
        "The LUN's use counter in this generation.",
        record.map(|record| (Vec::new(), count(record.activations))),
    );
    let mount = node.mount.known();
    text.gauge("mounted", "1 if something is mounted on etcd's data directory.", {
        mount.map(|mount| flag(mount.is_some()))
    });
    text.gauge(
        "shut_down",
        "1 if the filesystem on the LUN has shut down after an I/O error, until it is mounted anew.",
        mount.and_then(Option::as_ref).map(|mount| flag(mount.io_error)),
    );
    let space = mount.and_then(Option::as_ref).and_then(|mount| mount.free);
    text.gauge("size_bytes", "Size of the filesystem on the LUN.", space.map(|(_, Bytes(all))| count(all)));
    text.gauge(
        "free_bytes",
        "Free space of the filesystem on the LUN.",
        space.map(|(Bytes(free), _)| count(free)),
    );
    let local = health.local_space.known().map(|(Bytes(free), _)| count(*free));
    text.gauge("local_free_bytes", "Free space of the local filesystem with etcd-lun's own state.", local);
    let errors = health.kernel_errors.known().map(|errors| count(errors.len() as u64));
    text.gauge("kernel_errors", "Errors of the LUN in the kernel's log since it was mounted.", errors);
    let retired = node.retired.known().into_iter().flatten();
    text.family(
        "retired_age_seconds",
        "gauge",
        "How long ago local data was retired.",
        retired.map(|one| (vec![("generation", one.name.as_str())], one.age.0.as_secs_f64())),
    );
    let pressure = health.pressure.known();
    text.gauge("iowait_ratio", "The share of processor time spent waiting for disks.", {
        pressure.map(|pressure| pressure.iowait / 100.0)
    });
}

fn of_sessions(text: &mut Text, node: &Node, target: &TargetName) {
    let sessions = node.sessions.known().into_iter().flatten();
    let ours: Vec<_> = sessions.filter(|session| target.is(&session.target)).collect();
    if node.sessions.known().is_some() {
        text.gauge("sessions", "Sessions to the target.", Some(count(ours.len() as u64)));
    }
    let at: Vec<_> = ours.iter().map(|session| session.at()).collect();
    text.family(
        "session_up",
        "gauge",
        "1 if a session to the target is logged in.",
        ours.iter()
            .zip(&at)
            .map(|(session, at)| (vec![("portal", at.as_str())], flag(session.is_logged_in()))),
    );
}

fn of_paths(text: &mut Text, health: &HealthFacts) {
    let paths: Vec<_> = health.paths.known().into_iter().flatten().collect();
    text.family(
        "path_up",
        "gauge",
        "1 if a path to the LUN is running.",
        paths.iter().map(|path| (vec![("device", path.name.as_str())], flag(path.state == "running"))),
    );
    text.family(
        "path_timeouts_total",
        "counter",
        "Commands that timed out on a path.",
        paths.iter().filter_map(|path| Some((vec![("device", path.name.as_str())], count(path.timeouts?)))),
    );
    text.family(
        "path_errors_total",
        "counter",
        "Commands that failed on a path, including a few from probing.",
        paths.iter().filter_map(|path| Some((vec![("device", path.name.as_str())], count(path.errors?)))),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_empty_families_left_out() {
        let mut text = Text::default();
        text.family("x", "gauge", r"a\b", [(vec![("l", "a\"b\\c\nd")], 0.5)]);
        text.gauge("absent", "", None);
        text.gauge("y_bytes", "Y.", Some(count(16_106_127_360)));
        let expected = "# HELP etcd_lun_x a\\\\b\n# TYPE etcd_lun_x gauge\netcd_lun_x{l=\"a\\\"b\\\\c\\nd\"} 0.5\n\
            # HELP etcd_lun_y_bytes Y.\n# TYPE etcd_lun_y_bytes gauge\netcd_lun_y_bytes 16106127360\n";
        assert_eq!(text.0, expected);
    }
}
