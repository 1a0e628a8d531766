//! `config check` of a pool on two arrays.

use crate::{Dir, run};

const TWO: &str = "[[target]]\nname = \"a\"\niqn = \"iqn.2024-02.com.example:a\"\nportals = [\"10.0.0.1\"]\n[target.chap]\nusername = \"u\"\n\
    credential = \"a\"\n[[target]]\nname = \"b\"\nportals = [{ address = \"10.0.1.1\", iqn = \"iqn.2024-02.com.example:b1\" }, \
    { address = \"10.0.1.2\", iqn = \"iqn.2024-02.com.example:b2\" }]\n[target.chap]\nusername = \"u\"\npassword = \"hunter2\"\n\
    [etcd]\nruntime = \"static-pod\"\n[[node]]\nhostname = \"m0\"\ninitiator = \"iqn.2024-02.x:m0\"\nlun = 1\ntarget = \"a\"\n\
    [[node]]\nhostname = \"m1\"\ninitiator = \"iqn.2024-02.x:m1\"\nlun = 1\ntarget = \"b\"\n";

#[test]
fn says_which_target_a_node_takes() {
    let dir = Dir::new("two-targets");
    let config = dir.config(TWO);
    let check = |more: &[&str]| run(&[&["config", "check", "--config", &config], more].concat());
    let (code, out, err) = check(&["--node", "m1"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("\ntarget.name = b\n") && !out.contains("iqn.2024-02.com.example:a"), "{out}");
    let names = "portals         10.0.1.1:3260 as iqn.2024-02.com.example:b1\n                10.0.1.2:3260 as iqn.2024-02.com.example:b2\n";
    assert!(out.contains(names), "{out}");
    assert!(err.contains("warning: `target.chap` of b: a secret is shorter"), "{err}");
    assert_eq!(err.matches("`target.chap` of b: a secret is shorter").count(), 1, "{err}");
    assert!(
        err.contains("`target.chap.password` of b: all nodes have this secret")
            && !err.contains("have number 1"),
        "{err}"
    );
    let (_, out, _) = check(&["--node", "m0"]);
    assert!(out.contains("\ntarget.name = a\n") && !out.contains(" as iqn"), "{out}");
    // On a machine that is no node.
    let (code, out, err) = check(&[]);
    assert_eq!(code, 0, "{err}");
    let rows: Vec<_> = out.lines().rev().take(3).collect();
    assert_eq!(
        rows,
        [
            "m1    iqn.2024-02.x:m1  LUN 1 of b  any",
            "m0    iqn.2024-02.x:m0  LUN 1 of a  any",
            "NODE  INITIATOR         LUN         WWID",
        ]
    );
    let (_, json, _) = check(&["--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&value["nodes"][0]["target"], &value["nodes"][1]["target"]), (&"a".into(), &"b".into()));
    let (code, _, err) =
        run(&["config", "check", "--config", &dir.config(&TWO.replace("target = \"b\"", "target = \"c\""))]);
    assert!(code == 2 && err.contains("\n25 | target = \"c\"\n   |          ^\n"), "{err}");
}
