//! The size of the object, and whether a cluster can have it.

use crate::{CONFIG, Dir, content, files, noise, program};
use serde_json::Value;

/// The largest object for three nodes, in bytes as the API server stores it. What is larger takes room from the pool's other configs.
const LARGEST: usize = 27_000;

/// A program of which at least this many bytes remain when it is packed.
fn large(dir: &Dir, bytes: usize) -> String {
    let mut large = program();
    large.extend(noise(bytes));
    dir.write("large", &large)
}

/// The size that `render` tells.
fn told(err: &str) -> usize {
    let (_, told) = err.split_once(": the object has ").unwrap();
    told.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn an_object_for_three_nodes_is_small() {
    let dir = Dir::new("three");
    let third =
        "[[node]]\nhostname = \"master-2\"\ninitiator = \"iqn.1994-05.com.redhat:master2\"\nlun = 1\n";
    let config = dir.write("three.toml", format!("{CONFIG}{third}"));
    let (code, out, err) = dir.render("machineconfig", &["--config", &config]);
    assert_eq!(code, 0, "{err}");
    assert!(told(&err) <= LARGEST, "{}", told(&err));
    eprintln!("three nodes: {} bytes, {} as YAML", told(&err), out.len());
    assert!(!err.contains("warning"), "{err}");
    // No source but data: the operator's controller accepts others, and no node can apply them.
    let object: Value = serde_norway::from_str(&out).unwrap();
    assert!(files(&object).iter().all(|file| !content(file).is_empty()));
}

/// The size is that of the JSON that the API server stores. Python's JSON is the judge, with the escapes of Go.
#[test]
fn the_size_is_the_stored_one() {
    let dir = Dir::new("stored");
    let runtime = "runtime = \"static-pod\"";
    let text = CONFIG.replace(runtime, &format!("{runtime}\ndata_dir = \"/var/lib/a&b\""));
    let config = dir.write("escaped.toml", text);
    let (_, out, err) = dir.render("machineconfig", &["--config", &config]);
    let object: Value = serde_norway::from_str(&out).unwrap();
    let plain = serde_json::to_string(&object).unwrap();
    let escaped = plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    assert!(escaped.len() > plain.len());
    assert_eq!(told(&err), escaped.len());
    let (_, _, err) = dir.render("butane", &["--config", &config]);
    assert_eq!(told(&err), escaped.len());
}

#[test]
fn an_object_that_no_cluster_stores_is_refused() {
    let dir = Dir::new("limits");
    let render = |bytes| dir.render("machineconfig", &["--embed", "--program", &large(&dir, bytes)]);
    let (code, out, err) = render(1_050_000);
    assert!(code == 0 && !out.is_empty() && told(&err) < 1_572_864, "{err}");
    assert!(err.contains("bytes, of 1572864 for all objects of the pool"), "{err}");
    let (code, out, err) = render(1_200_000);
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    assert!(
        err.starts_with(
            "refused [object-too-large]: MachineConfig 98-master-etcd-lun: this object alone would have 16"
        ),
        "{err}"
    );
    assert!(err.contains("accepts 1572864: bring the program by --image"), "{err}");
}
