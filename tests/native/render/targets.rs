//! What is made for a pool on two arrays serves the nodes of both.

use crate::{CONFIG, Dir, NO_SECRETS, content, files};
use std::fs;

/// Two targets, of which the second has a map, other time-outs, a port and secrets of its own.
fn config() -> String {
    let own = CONFIG
        .replace("[target]\n", "[[target]]\nname = \"a\"\n")
        .replace("lun = 1\n", "lun = 1\ntarget = \"a\"\n");
    let second = "[[target]]\nname = \"b\"\niqn = \"iqn.2024-02.com.example:b\"\nportals = [\"192.168.20.5:3261\", \"192.168.21.5:3261\"]\n\
                  multipath = true\nsafe_logout = true\nreplacement_timeout = \"2h\"\nnoop_timeout = \"4s\"\n\
                  [target.chap]\nusername = \"initiator2\"\ncredential = \"chap-b\"\nusername_in = \"b\"\n\
                  password_in_file = \"/etc/etcd-lun/b-in.secret\"\n[etcd]\n";
    let (first, last) = own.split_once("[etcd]\n").unwrap();
    let last = last.replace(
        "redhat:master1\"\nlun = 1\ntarget = \"a\"\n",
        "redhat:master1\"\nlun = 1\nwwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\ntarget = \"b\"\n",
    );
    format!("{first}{second}{last}")
}

fn prepared(name: &str) -> (Dir, String) {
    let dir = Dir::new(name);
    let path = dir.write("two.toml", config());
    dir.write("b-in.secret", "hunter2 of the second\n");
    (dir, path)
}

#[test]
fn udev_and_multipathd_know_the_luns_of_both() {
    let (dir, config) = prepared("two-rules");
    let (code, rule, err) = dir.run(&["udev", "--config", &config]);
    assert_eq!((code, err.as_str()), (0, ""));
    let labelled: Vec<_> = rule.lines().filter(|line| line.contains("SECLABEL")).collect();
    let of = |name: &str| labelled.iter().filter(|line| line.contains(name)).count();
    // One number in each form at the first, one WWID at the second, and no LUN of the one at the other.
    assert_eq!(
        (of("-iscsi-iqn.2024-02.com.example:etcd-lun-"), of("-iscsi-iqn.2024-02.com.example:b-lun-")),
        (3, 1)
    );
    assert_eq!(
        (
            of("example:b-lun-*\", ATTRS{wwid}==\"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\""),
            of("mpath-360014051")
        ),
        (1, 1)
    );
    let lost = rule.lines().filter(|line| line.contains("+=\"etcd-lun-lost.service\""));
    assert_eq!(lost.filter(|line| line.contains(":etcd-lun-*") || line.contains(":b-lun-*")).count(), 2);
    let (code, maps, err) = dir.run(&["multipath", "--config", &config]);
    assert_eq!((code, err.as_str()), (0, ""));
    let set: Vec<_> =
        maps.lines().filter(|line| line.contains("wwid \"3") || line.contains("no_path_retry 1")).collect();
    assert_eq!(set, ["\t\twwid \"360014051d8e4a3bd5a94f3f9a1a2b3c4\"", "\t\tno_path_retry 1440"]);
    assert!(maps.contains("the sum of 1s (`target.noop_interval`), 4s\n# (`target.noop_timeout`)"), "{maps}");
}

#[test]
fn the_units_reach_both() {
    let (dir, config) = prepared("two-units");
    let (code, _, err) = dir.run(&["units", "--into", &dir.path(""), "--config", &config]);
    assert_eq!(code, 0, "{err}");
    let unit = |name: &str| fs::read_to_string(dir.path(name)).unwrap();
    let hands = unit("etcd-lun-hands@.service");
    assert!(
        hands.contains(" --target iqn.2024-02.com.example:etcd --target iqn.2024-02.com.example:b "),
        "{hands}"
    );
    let portals = unit("etcd-lun-portals@.service");
    assert!(portals.contains("\nIPAddressAllow=192.168.10.5 192.168.20.5 192.168.21.5"), "{portals}");
    assert!(unit("etcd-lun.service").contains("\nLoadCredential=chap-b\n"));
    for name in
        ["etcd-lun-multipath.service", "etcd-lun-iscsid.service", "multipathd.service.d/50-etcd-lun.conf"]
    {
        assert!(!unit(name).is_empty());
    }
    // The port and the credential are the second one's.
    let (_, policy, err) = dir.run(&["policy", "--config", &config]);
    assert_eq!(err, "");
    let one = dir.path("pool.toml");
    let (_, of_one, _) = dir.run(&["policy", "--config", &one]);
    let sections = |text: &str| text.lines().filter(|line| line.starts_with(";; ")).count();
    assert_eq!(sections(&policy), sections(&of_one) + 2);
}

#[test]
fn the_object_has_the_secrets_of_both() {
    let (dir, config) = prepared("two-secrets");
    let object = dir.object("machineconfig", &["--config", &config]);
    let paths = ["/etc/etcd-lun/b-in.secret", "/etc/etcd-lun/chap.secret"];
    let secret = |file: &&serde_json::Value| paths.contains(&file["path"].as_str().unwrap());
    let found: Vec<_> = files(&object).iter().filter(secret).map(content).collect();
    assert_eq!(found, [&b"hunter2 of the second\n"[..], b"hunter2 hunter2\n"]);
    let (code, _, err) = dir.render("machineconfig", &["--config", &config, NO_SECRETS]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("each node with `target = \"b\"` needs the credential chap-b: on the node"),
        "{err}"
    );
    assert!(paths.iter().all(|path| err.contains(&format!("{path} is left out"))), "{err}");
    dir.write("b-in.secret", "\n");
    let (_, _, err) = dir.render("machineconfig", &["--config", &config]);
    assert!(err.contains("`target.chap` of b"), "{err}");
}

#[test]
fn each_target_has_a_script() {
    let (dir, config) = prepared("two-scripts");
    let script = |more: &[&str]| dir.run(&[&["target", "--config", &config], more].concat());
    for more in [&[][..], &["--target", "c"]] {
        let (code, out, err) = script(more);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("name it with --target; the config has a, b"), "{err}");
    }
    for (name, has, has_not) in [("a", "master-0", "master-1"), ("b", "master-1", "master-0")] {
        let (code, out, err) = script(&["--target", name]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains(&format!("\ngrant {has} ")) && !out.contains(has_not), "{out}");
        assert_eq!(out.contains("initiator2"), name == "b");
    }
}
