//! Checks of the map, of a disk of the machine's own, and of the target's other users.

use super::{config, unknown};
use config::{Backing, Config};
use health::{self, ISCSI_ONLY, Outcome, Run};
use node::{Fact, HealthFacts, LunView, Multipath, Node, OtherUse};
use std::time::Duration;
use support::*;
use terms::Span;

/// What `target.multipath = true` asks of a node in use, and of a map in use in any case.
#[test]
fn of_a_map_that_the_config_asks_for() {
    let mut wanted = config();
    let Backing::Iscsi(iscsi) = &mut wanted.backing else { panic!() };
    iscsi.target.multipath = true;
    let healthy = |multipath, runs| {
        let mut node = migrated();
        let LunView::Seen(lun) = known(&mut node.lun) else { panic!() };
        lun.multipath = multipath;
        known(&mut node.sessions)[0].session.recovery_timeout = Some(5);
        node.initiator.multipathd_active = Fact::Known(runs);
        node
    };
    let facts = health_facts();
    let outcome = |config: &Config, node: &Node, facts: &HealthFacts, check: &str| {
        let report = health::assess(config, node, facts);
        report.rows.into_iter().find(|row| row.check == check).unwrap().outcome
    };
    let found = |config: &Config, node: &Node, facts: &HealthFacts, check: &str, words: &str| {
        let outcome = outcome(config, node, facts, check);
        assert!(matches!(&outcome, Outcome::Found(said) if said.contains(words)), "{words}: {outcome:?}");
    };
    let good = healthy(Multipath::Mapped, true);
    for check in ["paths", "session-timeout"] {
        assert!(matches!(outcome(&wanted, &good, &facts, check), Outcome::Ok(_)), "{check}");
    }
    let stopped = healthy(Multipath::Mapped, false);
    for config in [&wanted, &config()] {
        found(config, &stopped, &facts, "paths", "run `systemctl start multipathd`");
    }
    found(
        &wanted,
        &healthy(Multipath::Unclaimed, false),
        &facts,
        "paths",
        "systemctl enable --now multipathd",
    );
    found(
        &wanted,
        &healthy(Multipath::Unclaimed, true),
        &facts,
        "paths",
        "multipathd has made no map of sdb",
    );
    found(&wanted, &healthy(Multipath::Claimed, true), &facts, "paths", "has made no map");
    let unclaimed = healthy(Multipath::Unclaimed, true);
    assert!(matches!(outcome(&config(), &unclaimed, &facts, "paths"), Outcome::Ok(_)));
    let mut two = health_facts();
    let second = known(&mut two.paths)[0].clone();
    known(&mut two.paths).push(second);
    found(&config(), &unclaimed, &two, "paths", "are one LUN, and no map combines them");
    let mut more_portals = wanted.clone();
    let Backing::Iscsi(iscsi) = &mut more_portals.backing else { panic!() };
    iscsi.target.portals.push("10.78.0.1".parse().unwrap());
    found(&more_portals, &good, &facts, "paths", "fewer paths (sdb) than the config has portals (2)");
    let mut forgotten = good.clone();
    let LunView::Seen(lun) = known(&mut forgotten.lun) else { panic!() };
    lun.paths.push("sdc".into());
    for config in [&wanted, &config()] {
        found(config, &forgotten, &facts, "paths", "lacks sdc, a path of the LUN: run `etcd-lun apply`");
    }
    for seconds in [Some(6), None] {
        let mut late = good.clone();
        known(&mut late.sessions)[0].session.recovery_timeout = seconds;
        found(&wanted, &late, &facts, "session-timeout", "set `fast_io_fail_tmo 5` in /etc/multipath.conf");
    }
}

#[test]
fn of_a_disk_of_the_machine_s_own_nobody_asks_for_a_target() {
    let config = device_config_for("systemd");
    let node = with_device(migrated());
    let look = |node: &Node, health_facts: &HealthFacts| health::assess(&config, node, health_facts);
    let mut health_facts = health_facts();
    health_facts.routes = Fact::Known(Vec::new());
    let report = look(&node, &health_facts);
    assert!(report.is_healthy(), "{report:#?}");
    let rows: Vec<_> = report.rows.iter().map(|row| row.check).collect();
    assert!(ISCSI_ONLY.iter().all(|check| !rows.contains(check)), "{rows:?}");
    assert!(
        ["paths", "device-identity", "write-cache", "mount", "kernel-log"]
            .iter()
            .all(|check| rows.contains(check))
    );
    let gone = look(&Node { lun: Fact::Known(LunView::NotAttached), ..node.clone() }, &health_facts);
    for row in &gone.rows {
        assert!(!row.outcome.detail().contains("target"), "{row:?}");
    }
    let identity = gone.rows.iter().find(|row| row.check == "device-identity").unwrap();
    assert!(matches!(&identity.outcome, Outcome::Found(said) if said.contains(LINK)), "{identity:?}");
    let run = Run { version: "0.0.0", at: Duration::from_secs(1), took: Duration::from_secs(1) };
    let text = health::metrics(&report, &node, &health_facts, None, run);
    assert!(!text.contains("session") && text.contains("etcd_lun_path_up{device=\"sdb\"} 1"), "{text}");
}

/// Another program's log-out ends every session to the target, unless iscsid is set to refuse that.
#[test]
fn a_target_that_others_use_is_fine_if_iscsid_ends_no_session_in_use() {
    let look = |safe_logout, mounted_anew| {
        let others = Fact::Known(vec![OtherUse::Session { sid: 9, interface: None }]);
        let facts = HealthFacts { others, safe_logout, mounted_anew, ..health_facts() };
        let rows = health::assess(&config(), &migrated(), &facts).rows;
        rows.into_iter().find(|row| row.check == "shared-target").unwrap().outcome
    };
    let outcome = |safe_logout| look(safe_logout, Fact::Known(Vec::new()));
    // What has happened is said, and what can happen again.
    for (safe, says_both) in [(true, false), (false, true)] {
        let anew = Fact::Known([600, 60].map(|ago| Span(Duration::from_secs(ago))).to_vec());
        let said = look(Fact::Known(safe), anew).detail().to_owned();
        assert!(said.contains("anew, the last time 1min ago (2 within a day)"), "{said}");
        assert_eq!(said.contains("ends etcd's session too"), says_both, "{said}");
    }
    assert!(matches!(outcome(Fact::Known(true)), Outcome::Ok(_)));
    assert!(matches!(outcome(Fact::Known(false)), Outcome::Found(_)));
    assert!(matches!(outcome(unknown()), Outcome::CannotTell(_)));
}
