//! How the program reaches the nodes: by an image, or inside the object.

use crate::{Dir, IMAGE, content, files, noise, program, tool};
use serde_json::Value;

fn order(object: &Value) -> String {
    let file = files(object).iter().find(|file| file["path"] == "/etc/etcd-lun/program").unwrap();
    String::from_utf8(content(file)).unwrap()
}

/// A program for another machine.
fn foreign(machine: u16) -> Vec<u8> {
    let mut file = program();
    file[18..20].copy_from_slice(&machine.to_ne_bytes());
    file
}

/// One object serves a pool of several architectures. Each node finds its own checksum.
#[test]
fn one_object_for_a_mixed_pool() {
    let dir = Dir::new("mixed");
    let (intel, arm) = (dir.write("intel", foreign(62)), dir.write("arm", foreign(183)));
    let object = dir.object("machineconfig", &["--program", &intel, "--program", &arm]);
    let sum = |file: &str| {
        let said = tool("sha256sum", &[file], b"").unwrap().stdout;
        String::from_utf8(said).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    let lines: Vec<_> = order(&object).lines().skip(1).map(str::to_owned).collect();
    let expected =
        [format!("image={IMAGE}"), format!("x86_64={}", sum(&intel)), format!("aarch64={}", sum(&arm))];
    assert_eq!(lines, expected);
    let (_, _, err) = dir.render("machineconfig", &["--program", &intel, "--program", &arm]);
    assert!(err.contains(&format!("with the program for x86_64 and aarch64 from {IMAGE}")), "{err}");
    let (code, _, err) = dir.render("machineconfig", &["--program", &arm, "--program", &arm]);
    assert!(code == 2 && err.contains("two programs are for aarch64"), "{err}");
    let (code, _, err) = dir.render("machineconfig", &["--embed", "--program", &intel, "--program", &arm]);
    assert!(code == 2 && err.contains("give one --program"), "{err}");
}

#[test]
fn images_that_nodes_cannot_use() {
    let dir = Dir::new("images");
    let digest = IMAGE.split_once('@').unwrap().1;
    let at = |name: &str| format!("{name}@{digest}");
    for (image, said) in [
        ("registry.example.com/tools/etcd-lun:1.0".to_owned(), "a tag may name another program tomorrow"),
        (at("registry.example.com/tools/etcd-lun:1.0"), "remove `:1.0`"),
        (
            at("image-registry.openshift-image-registry.svc:5000/etcd-lun/etcd-lun"),
            "the cluster's own registry",
        ),
        (at("etcd-lun"), "does not name its registry"),
    ] {
        for verb in ["machineconfig", "butane", "pinnedimageset"] {
            let (code, out, err) = match verb {
                "pinnedimageset" => dir.run(&[verb, "--image", &image]),
                _ => dir.render(verb, &["--image", &image]),
            };
            assert_eq!((code, out.as_str()), (2, ""), "{image}: {err}");
            assert!(err.contains(said), "{image}: {err}");
        }
    }
    for more in [
        &["--image", IMAGE, "--embed"][..],
        &["--image", IMAGE, "--without-program"],
        &["--embed", "--without-program"],
        &["--program", "x", "--without-program"],
    ] {
        let (code, _, err) = dir.run(&[&["machineconfig"], more].concat());
        assert!(code == 2 && err.contains(more[0]), "{more:?}: {err}");
    }
    let (code, _, err) = dir.run(&["machineconfig", "--config", &dir.path("pool.toml")]);
    assert!(code == 2 && err.contains("<--image <IMAGE>|--without-program|--embed>"), "{err}");
}

/// The node's xz gets the same program out of the object.
#[test]
fn a_program_inside_the_object() {
    let dir = Dir::new("embedded");
    for machine in [62u16, 183] {
        let mut program = foreign(machine);
        program.extend((0..15_000u32).flat_map(|at| (at / 7).to_le_bytes()));
        program.extend(noise(20_000));
        let file = dir.write("large", &program);
        let object = dir.object("machineconfig", &["--embed", "--program", &file]);
        let (rest, packed): (Vec<_>, Vec<_>) =
            files(&object).iter().partition(|file| file["path"] != "/usr/local/lib/etcd-lun/program.lzma");
        let by_image = dir.object("machineconfig", &["--program", &file]);
        assert_eq!(rest.len(), files(&by_image).len());
        assert!(!order(&object).contains("image="));
        let packed = content(packed[0]);
        assert!(packed.len() < program.len() - 10_000);
        let Some(output) = tool("xz", &["--decompress", "--stdout"], &packed) else { return };
        assert!(output.status.success() && output.stdout == program);
    }
}

/// The objects beside the MachineConfig.
#[test]
fn objects_for_an_early_fetch_and_for_no_reboot() {
    let dir = Dir::new("objects");
    let object = |args: &[&str]| -> Value {
        let (code, out, err) = dir.run(args);
        assert_eq!(code, 0, "{err}");
        serde_norway::from_str(&out).unwrap()
    };
    assert_eq!(
        object(&["pinnedimageset", "--image", IMAGE, "--role", "etcd"]),
        serde_json::json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "PinnedImageSet",
            "metadata": {
                "labels": { "machineconfiguration.openshift.io/role": "etcd" },
                "name": "98-etcd-etcd-lun",
            },
            "spec": { "pinnedImages": [{ "name": IMAGE }] },
        })
    );
    let policy = object(&["nodedisruptionpolicy"]);
    assert_eq!(
        (&policy["kind"], &policy["metadata"]["name"]),
        (&"MachineConfiguration".into(), &"cluster".into())
    );
    let file = &policy["spec"]["nodeDisruptionPolicy"]["files"][0];
    let delivered = dir.object("machineconfig", &[]);
    assert!(files(&delivered).iter().any(|one| one["path"] == file["path"]));
    let units = delivered["spec"]["config"]["systemd"]["units"].as_array().unwrap();
    let restarted: Vec<_> =
        file["actions"].as_array().unwrap().iter().map(|action| &action["restart"]["serviceName"]).collect();
    assert_eq!(restarted, ["etcd-lun-program.service", "etcd-lun-selinux.service"]);
    assert!(restarted.iter().all(|name| units.iter().any(|unit| unit["name"] == **name)));
    let (code, _, err) = dir.run(&["pinnedimageset"]);
    assert!(code == 2 && err.contains("--image"), "{err}");
}
