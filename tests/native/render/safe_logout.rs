//! `target.safe_logout`: what is delivered for iscsid.

use crate::{CONFIG, Dir, files, tool};
use serde_json::{Value, json};
use std::fs;

/// A drop-in of iscsid's unit, which is the node's own, and the unit that writes the config. `render units` writes both too.
#[test]
fn is_delivered() {
    let dir = Dir::new("safe-logout");
    let config = dir.write("s.toml", CONFIG.replace("3260\"]", "3260\"]\nsafe_logout = true"));
    let (object, without) =
        (dir.object("machineconfig", &["--config", &config]), dir.object("machineconfig", &[]));
    let names = |object: &Value| -> Vec<String> {
        let units = object["spec"]["config"]["systemd"]["units"].as_array().unwrap();
        units.iter().map(|unit| unit["name"].as_str().unwrap().to_owned()).collect()
    };
    let more: Vec<_> = names(&object).into_iter().filter(|name| !names(&without).contains(name)).collect();
    assert_eq!(more, ["etcd-lun-iscsid.service", "iscsid.service"]);
    assert_eq!(files(&object).len(), files(&without).len());
    let (code, _, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &config]);
    assert_eq!(code, 0, "{err}");
    let drop_in = fs::read_to_string(dir.path("iscsid.service.d/50-etcd-lun.conf")).unwrap();
    let units = object["spec"]["config"]["systemd"]["units"].as_array().unwrap();
    let of = |name: &str| units.iter().find(|unit| unit["name"] == name).unwrap();
    let expected = json!([{ "name": "50-etcd-lun.conf", "contents": drop_in }]);
    assert_eq!(
        (&of("iscsid.service")["dropins"], &of("iscsid.service")["contents"]),
        (&expected, &Value::Null)
    );
    let unit = of("etcd-lun-iscsid.service");
    let path = dir.path("etcd-lun-iscsid.service");
    assert_eq!(unit["contents"], fs::read_to_string(&path).unwrap());
    if let Some(output) =
        tool("systemd-analyze", &["verify", "--man=no", "--recursive-errors=no", &path], b"")
    {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
