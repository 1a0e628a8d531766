//! `render butane`.

use crate::{Dir, content, files, tool};
use serde_json::Value;

/// The MachineConfig and the Butane config have the same content.
#[test]
fn butane_says_the_same() {
    let dir = Dir::new("butane");
    let (object, butane) = (dir.object("machineconfig", &[]), dir.object("butane", &[]));
    assert_eq!((&butane["variant"], &butane["version"]), (&"openshift".into(), &"4.12.0".into()));
    assert_eq!(butane["metadata"], object["metadata"]);
    assert_eq!(butane["systemd"], object["spec"]["config"]["systemd"]);
    let theirs = butane["storage"]["files"].as_array().unwrap();
    assert_eq!(theirs.len(), files(&object).len());
    for (theirs, ours) in theirs.iter().zip(files(&object)) {
        let bytes = theirs["contents"]["inline"].as_str().unwrap().as_bytes();
        assert_eq!((&theirs["path"], bytes), (&ours["path"], &*content(ours)));
        assert_eq!(theirs["overwrite"], true);
    }
    let (_, text, _) = dir.render("butane", &[]);
    // The text has YAML 1.1's octal numbers, as Butane's own examples do. The parser above reads YAML 1.2, so
    // the text is searched.
    assert_eq!(
        (text.matches("\n    mode: 0600\n").count(), text.matches("\n    mode: 0644\n").count()),
        (2, 4)
    );
    let packed = |object: &Value, files: &str| {
        let files = object.pointer(files).unwrap().as_array().unwrap();
        let file = files.iter().find(|file| file["path"] == "/usr/local/lib/etcd-lun/program.lzma").unwrap();
        file["contents"].clone()
    };
    let (object, butane) = (dir.object("machineconfig", &["--embed"]), dir.object("butane", &["--embed"]));
    assert_eq!(packed(&object, "/spec/config/storage/files"), packed(&butane, "/storage/files"));
    // Debian has no Butane. Where it is installed, it must make the same object, except for the compression.
    let Some(output) = tool("butane", &["--strict"], text.as_bytes()) else {
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made: Value = serde_norway::from_slice(&output.stdout).unwrap();
    for part in ["/apiVersion", "/kind", "/metadata", "/spec/config/ignition", "/spec/config/systemd"] {
        let sorted = |value: &Value| {
            let mut value = value.pointer(part).unwrap().clone();
            value
                .get_mut("units")
                .and_then(Value::as_array_mut)
                .into_iter()
                .for_each(|units| units.sort_by_key(|unit| unit["name"].to_string()));
            value
        };
        assert_eq!(sorted(&made), sorted(&object), "{part}");
    }
    for (made, ours) in files(&made).iter().zip(files(&object)) {
        assert_eq!(
            (&made["path"], &made["mode"], &made["overwrite"]),
            (&ours["path"], &ours["mode"], &ours["overwrite"])
        );
    }
}
