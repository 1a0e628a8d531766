//! What the config's `target.multipath` brings to the nodes.

use crate::{CONFIG, Dir, content, files, tool};
use serde_json::Value;
use std::fs;

/// The config with two portals and a WWID for each node.
pub fn config() -> String {
    let text = CONFIG.replace("3260\"]", "3260\", \"192.168.11.5\"]\nmultipath = true");
    let wwid = |last| format!("wwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c{last}\"\n");
    text.replacen(
        "[[node]]\nhostname = \"master-1\"",
        &format!("{}[[node]]\nhostname = \"master-1\"", wwid(4)),
        1,
    ) + &wwid(5)
}

/// The whole text: a person reads it on a node.
#[test]
fn the_same_text_every_time() {
    let dir = Dir::new("multipath-text");
    let (code, out, err) = dir.run(&["multipath", "--config", &dir.write("m.toml", config())]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out == include_str!("multipath.expected"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 120), "{out}");
}

/// The drop-in, the unit for the first config of multipathd, and the order to enable the node's own unit: in both forms.
#[test]
fn is_delivered() {
    let dir = Dir::new("multipath-delivered");
    let config = dir.write("m.toml", config());
    let (object, without) =
        (dir.object("machineconfig", &["--config", &config]), dir.object("machineconfig", &[]));
    let names = |object: &Value| {
        let units = object["spec"]["config"]["systemd"]["units"].as_array().unwrap();
        units.iter().map(|unit| unit["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let drop_in = "/etc/multipath/conf.d/etcd-lun.conf";
    let more: Vec<_> = files(&object)
        .iter()
        .filter(|file| !files(&without).iter().any(|one| one["path"] == file["path"]))
        .collect();
    assert_eq!(more.iter().map(|file| &file["path"]).collect::<Vec<_>>(), [drop_in]);
    assert_eq!(more[0]["mode"], 0o644);
    assert_eq!(content(more[0]), include_bytes!("multipath.expected"));
    let own = ["etcd-lun-multipath.service", "multipathd.service"];
    let added: Vec<_> = names(&object).into_iter().filter(|name| !names(&without).contains(name)).collect();
    assert_eq!(added, own);
    assert!(names(&object).is_sorted());
    let units = object["spec"]["config"]["systemd"]["units"].as_array().unwrap();
    let of = |name: &str| units.iter().find(|unit| unit["name"] == name).unwrap();
    // Nothing but its name and our drop-in: the text is the node's own.
    let drop_in = &of(own[1])["dropins"];
    assert!(drop_in[0]["contents"].as_str().unwrap().ends_with("\nWants=etcd-lun-multipath.service\n"));
    assert_eq!(*of(own[1]), serde_json::json!({ "name": own[1], "enabled": true, "dropins": drop_in }));
    assert_eq!(of(own[0]).get("enabled"), None);
    let butane = dir.object("butane", &["--config", &config]);
    assert_eq!(butane["systemd"], object["spec"]["config"]["systemd"]);
    let text = serde_json::to_vec(&object["spec"]["config"]).unwrap();
    if let Some(output) = tool("ignition-validate", &["-"], &text) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let (code, _, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &config]);
    assert_eq!(code, 0, "{err}");
    let path = dir.path(own[0]);
    assert_eq!(of(own[0])["contents"], fs::read_to_string(&path).unwrap());
    if let Some(output) =
        tool("systemd-analyze", &["verify", "--man=no", "--recursive-errors=no", &path], b"")
    {
        let said = String::from_utf8_lossy(&output.stderr);
        // The tool of Red Hat's package may be missing here.
        let others: Vec<_> =
            said.lines().filter(|line| line.contains(own[0]) && !line.contains("mpathconf")).collect();
        assert!(others.is_empty(), "{said}");
    }
}
