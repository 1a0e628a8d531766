//! The output of health, as metrics and JSON, and the page that documents it.

use super::*;
use cli::documents::HEALTH;

/// Every check has a sample. `tests/root/metrics` checks that promtool and node-exporter accept the text.
#[test]
fn metrics_have_a_sample_for_every_check() {
    let health_facts = health_facts();
    let report = health::assess(&config(), &migrated(), &health_facts);
    let run = Run {
        version: "0.0.0",
        at: Duration::from_millis(1_700_000_000_500),
        took: Duration::from_millis(5250),
    };
    let text = health::metrics(&report, &migrated(), &health_facts, Some(&TARGET.parse().unwrap()), run);
    for check in CHECKS {
        let (name, severity) = (check.name, check.severity.word());
        for (metric, value) in [("check", 1), ("check_unknown", 0)] {
            let line = format!("etcd_lun_{metric}{{check=\"{name}\",severity=\"{severity}\"}} {value}\n");
            assert!(text.contains(&line), "{line} is not in {text}");
        }
    }
    for line in [
        "etcd_lun_healthy 1",
        "etcd_lun_on_lun 1",
        "etcd_lun_generation 1",
        "etcd_lun_activations_total 1",
        "etcd_lun_sessions 1",
        "etcd_lun_session_up{portal=\"10.77.0.1:3260\"} 1",
        "etcd_lun_path_errors_total{device=\"sdb\"} 2",
        "etcd_lun_free_bytes 16106127360",
        "etcd_lun_iowait_ratio 0.005",
        "etcd_lun_build_info{version=\"0.0.0\"} 1",
        "etcd_lun_last_run_timestamp_seconds 1700000000.5",
        "etcd_lun_last_run_duration_seconds 5.25",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    let blind = Node { mount: unknown(), record: unknown(), ..migrated() };
    let report = health::assess(&config(), &blind, &health_facts);
    let text = health::metrics(&report, &blind, &health_facts, Some(&TARGET.parse().unwrap()), run);
    assert!(text.contains("etcd_lun_check_unknown{check=\"mount\",severity=\"critical\"} 1"), "{text}");
    assert!(!text.contains("etcd_lun_free_bytes") && !text.contains("etcd_lun_generation"), "{text}");
}

#[test]
fn json_is_as_its_schema_says() {
    let schema = schema::schema_of("health");
    let mut ill = health_facts();
    ill.routes = unknown();
    let report = health::assess(&config(), &Node { record: Fact::Known(None), ..migrated() }, &ill);
    let mut value = HEALTH.of(&report);
    for outcome in ["ok", "found", "cannot-tell"] {
        let rows = value["health"]["rows"].as_array().unwrap();
        assert!(rows.iter().any(|row| row["outcome"] == outcome), "{outcome}");
    }
    schema::check_printed(&schema, &value).unwrap();
    // The schema also detects what is wrong.
    value["health"]["rows"][0]["outcome"] = "fine".into();
    let wrong = schema::check(&schema, &value).unwrap_err();
    assert!(wrong.contains(".health.rows[0].outcome: another value: \"fine\""), "{wrong}");
    value["health"]["rows"][0]["outcome"] = "ok".into();
    value["health"]["rows"][1].as_object_mut().unwrap().remove("detail");
    assert!(schema::check(&schema, &value).unwrap_err().contains("without \"detail\""));
    value["health"]["rows"][1]["detail"] = "x".into();
    // Keys are added without a new version, so a reader must accept more of them.
    value["health"]["more"] = 1.into();
    schema::check(&schema, &value).unwrap();
}

#[test]
fn the_docs_list_the_checks_that_there_are() {
    let docs = include_str!("../../../docs/health.md");
    for check in CHECKS {
        let first = format!("{:<16}  {:<8}  {}\n", check.name, check.severity.word(), check.protects);
        assert!(
            docs.contains(&format!("{first}{:<30}{}\n", "", check.limit)),
            "docs/health.md describes {} differently",
            check.name
        );
    }
}

/// The docs have a table of metrics. It must agree with the metrics of a node whose facts are all known. The
/// source must have no other metrics.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test rewrites the page on request")]
fn the_docs_list_the_metrics_that_there_are() {
    let health_facts = health_facts();
    let mut node = migrated();
    let old = Retired { name: "1".into(), ours: true, size: Bytes(1), age: "1h".parse().unwrap() };
    known(&mut node.retired).push(old);
    let report = health::assess(&config(), &node, &health_facts);
    let run = Run { version: "0.0.0", at: Duration::from_secs(1), took: Duration::from_secs(1) };
    let text = health::metrics(&report, &node, &health_facts, Some(&TARGET.parse().unwrap()), run);
    let mut table = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let kind = lines.next().and_then(|line| line.rsplit(' ').next()).unwrap();
        let sample = lines.peek().unwrap();
        let labels = sample.split_once('{').map(|(_, labels)| labels.split_once('}').unwrap().0);
        let keys: Vec<_> = labels
            .into_iter()
            .flat_map(|labels| labels.split(','))
            .map(|label| label.split('=').next().unwrap())
            .collect();
        let keys = if keys.is_empty() { String::new() } else { format!("{{{}}}", keys.join(", ")) };
        table += &format!("| `{name}{keys}` | {kind} | {help} |\n");
    }
    let source = include_str!("../../../agent/health/src/prometheus.rs").split("mod tests").next().unwrap();
    for maker in ["text.gauge(", "text.family("] {
        for (at, _) in source.match_indices(maker) {
            let name =
                source[at + maker.len()..].trim_start().strip_prefix('"').unwrap().split('"').next().unwrap();
            assert!(
                table.contains(&format!("`etcd_lun_{name}`"))
                    || table.contains(&format!("`etcd_lun_{name}{{")),
                "{name} has no sample in {table}"
            );
        }
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/health.md");
    let docs = std::fs::read_to_string(page).unwrap();
    let head = "| metric | type | |\n|---|---|---|\n";
    let before = docs.split_once(head).unwrap().0;
    let right = format!("{before}{head}{table}");
    if std::env::var_os("ETCD_LUN_REWRITE").is_some() {
        std::fs::write(page, &right).unwrap();
        return;
    }
    assert_eq!(docs, right, "rewrite it with ETCD_LUN_REWRITE=1 cargo test --test health metrics");
}
