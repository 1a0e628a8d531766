//! The size of the object, and whether a cluster can have it.

use crate::{CONFIG, Dir, content, files, noise, program};
use serde_json::{Value, json};

/// The largest object for three nodes, in bytes as the API server stores it. What is larger takes room from the pool's other configs.
const LARGEST: usize = 30_000;

/// A program of which at least this many bytes remain when it is packed.
fn large(dir: &Dir, bytes: usize) -> String {
    let mut large = program();
    large.extend(noise(bytes));
    dir.write("large", &large)
}

/// The size that `render` tells.
fn told(err: &str) -> usize {
    let line = err.lines().find(|line| line.starts_with("the object has ")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap()
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
fn each_limit_has_its_warning_with_a_cure() {
    let dir = Dir::new("limits");
    let render = |bytes| dir.render("machineconfig", &["--embed", "--program", &large(&dir, bytes)]);
    let (apply, assisted, agent) = ("oc apply --server-side", "assisted installer", "agent-based installer");
    let pool = "check yours with --beside";
    for (bytes, said) in [
        (100_000, vec![]),
        (230_000, vec![apply]),
        (300_000, vec![apply, agent]),
        (800_000, vec![apply, agent, assisted]),
        (1_050_000, vec![apply, agent, assisted, pool]),
    ] {
        let (code, out, err) = render(bytes);
        assert!(code == 0 && !out.is_empty(), "{err}");
        for warning in [apply, agent, assisted, pool] {
            assert_eq!(err.contains(warning), said.contains(&warning), "{bytes}, {warning}: {err}");
        }
        let warnings = err.lines().filter(|line| line.starts_with("warning: ")).count();
        assert_eq!(warnings, said.len(), "{err}");
    }
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

/// A rendered config of the pool of this many bytes.
fn rendered(bytes: usize) -> String {
    let of = |filling: usize| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": { "name": "rendered-master-0123" },
            "spec": { "config": {
                "ignition": { "version": "3.4.0" },
                "storage": { "files": [{ "path": "/etc/a", "contents": { "source": "x".repeat(filling) } }] },
            } },
        })
        .to_string()
    };
    of(bytes - of(0).len())
}

#[test]
fn beside_the_pools_own_config() {
    let dir = Dir::new("beside");
    let beside = |text: &str| {
        let file = dir.write("rendered.json", text);
        dir.render("machineconfig", &["--beside", &file])
    };
    let whole = |err: &str| {
        let line =
            err.lines().find(|line| line.starts_with("the pool's rendered config with it has ")).unwrap();
        line.split_whitespace().nth(7).unwrap().parse::<usize>().unwrap()
    };
    let (code, _, err) = beside(&rendered(200_000));
    assert_eq!(code, 0, "{err}");
    // All of the object but what is around its files and units.
    let more = whole(&err) - 200_000;
    assert!(more <= told(&err) && more + 400 > told(&err), "{more}: {err}");
    assert!(!err.contains("warning"), "{err}");
    let (code, _, err) = beside(&rendered(1_240_000));
    assert!(code == 0 && err.contains("warns above 80 %"), "{err}");
    let (code, out, err) = beside(&rendered(1_572_864 - more));
    assert!(code == 0 && !out.is_empty() && whole(&err) == 1_572_864, "{err}");
    let (code, out, err) = beside(&rendered(1_572_865 - more));
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    assert!(err.contains("the pool's rendered config with this object would have 1572865 bytes"), "{err}");
    // A pool that has this object already does not have it twice.
    let object = dir.object("machineconfig", &[]);
    let mut pool: Value = serde_json::from_str(&rendered(200_000)).unwrap();
    pool["spec"]["config"]["storage"]["files"].as_array_mut().unwrap().extend(files(&object).clone());
    pool["spec"]["config"]["systemd"] = object["spec"]["config"]["systemd"].clone();
    let (_, _, err) = beside(&pool.to_string());
    assert_eq!(whole(&err), 200_000 + more, "{err}");
    for wrong in ["", "{}", "{\"kind\": \"Pod\"}", "kind: MachineConfig\n"] {
        let (code, _, err) = beside(wrong);
        assert!(code == 2 && err.contains("oc get machineconfigpool master"), "{wrong}: {err}");
    }
    let (code, _, err) = dir.render("machineconfig", &["--beside", "/nonexistent"]);
    assert!(code == 2 && err.contains("--beside: /nonexistent: No such file"), "{err}");
}
