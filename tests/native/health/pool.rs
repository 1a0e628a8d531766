//! The health of a pool, from what the nodes print.

use health::{CHECKS, SaidNode, differing};
use support::printed_health;

#[test]
fn its_own_report_is_read() {
    let well = SaidNode::parse("master-0", &printed_health(&[])).unwrap();
    assert!(well.is_healthy() && well.rows.len() == CHECKS.len() && well.not_whole().is_none());
    let ill =
        SaidNode::parse("master-1", &printed_health(&[("session", "gone"), ("cluster", "2 of 3")])).unwrap();
    assert!(!ill.is_healthy());
    assert_eq!(ill.not_whole(), Some("2 of 3"));
    let silent = SaidNode::silent("master-2", "no route".into());
    assert!(!silent.is_healthy());
    assert_eq!(silent.not_whole(), Some("no route"));
    assert_eq!(differing(&[well, ill, silent]), ["session", "cluster"]);
}

#[test]
fn what_is_no_report() {
    for (text, why) in [
        ("", "no report"),
        ("Starting pod/master-0-debug\n", "no report"),
        ("{\"version\":2}", "version 2"),
        ("{\"version\":1}", "no report"),
        ("{\"version\":1,\"health\":{\"rows\":[{}]}}", "no report"),
        ("{\"version\":1,\"error\":\"x\",\"message\":\"error [no-config]: no config\"}", "error [no-config]"),
    ] {
        let said = SaidNode::parse("a", text).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
    // An older release does not know the check.
    let old = SaidNode::parse("a", "{\"version\":1,\"health\":{\"rows\":[]}}").unwrap();
    assert!(old.not_whole().unwrap().contains("does not say"));
}
