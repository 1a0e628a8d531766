//! `target.safe_logout`: what is delivered for iscsid.

use crate::{CONFIG, Dir, content, files, tool};
use serde_json::Value;
use std::fs;

/// The drop-in as a file, because the unit is the node's own, and the unit that writes the config. By hand the same.
#[test]
fn is_delivered() {
    let dir = Dir::new("safe-logout");
    let config = dir.write("s.toml", CONFIG.replace("3260\"]", "3260\"]\nsafe_logout = true"));
    let (object, without) =
        (dir.object("machineconfig", &["--config", &config]), dir.object("machineconfig", &[]));
    let paths = |object: &Value| -> Vec<String> {
        files(object).iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    };
    let more: Vec<_> = paths(&object).into_iter().filter(|path| !paths(&without).contains(path)).collect();
    assert_eq!(more, ["/etc/systemd/system/iscsid.service.d/etcd-lun.conf"]);
    let (code, _, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &config]);
    assert_eq!(code, 0, "{err}");
    let drop_in = fs::read_to_string(dir.path("iscsid.service.d/etcd-lun.conf")).unwrap();
    let file = files(&object).iter().find(|file| file["path"] == more[0]).unwrap();
    assert_eq!((content(file), file["mode"].as_u64()), (drop_in.into_bytes(), Some(0o644)));
    let units = object["spec"]["config"]["systemd"]["units"].as_array().unwrap();
    let unit = units.iter().find(|unit| unit["name"] == "etcd-lun-iscsid.service").unwrap();
    let path = dir.path("etcd-lun-iscsid.service");
    assert_eq!(unit["contents"], fs::read_to_string(&path).unwrap());
    if let Some(output) =
        tool("systemd-analyze", &["verify", "--man=no", "--recursive-errors=no", &path], b"")
    {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
