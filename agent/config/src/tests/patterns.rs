//! Entries for machines that are created anew.

use super::*;

const PATTERN: &str = r#"
[target]
iqn = "iqn.2024-02.com.example:etcd"
portals = ["192.168.10.5"]
lun_masking = true
[etcd]
runtime = "static-pod"
[[node]]
hostname = "master-*"
initiator = "iqn.2024-02.com.example:{hostname}"
lun = 1
"#;

fn pool(texts: &[&str]) -> Result<Pool, String> {
    let sources: Vec<_> =
        texts.iter().enumerate().map(|(at, text)| source(&format!("{at}.toml"), text)).collect();
    let pool = Pool::load(&sources).map_err(|error| error.to_string())?;
    pool.nodes().map_err(|error| error.to_string())?;
    Ok(pool)
}

#[test]
fn a_node_gets_an_initiator_name_of_its_own() {
    for (host, initiator) in [
        ("master-0", "iqn.2024-02.com.example:master-0"),
        ("MASTER-x7k.prod.example", "iqn.2024-02.com.example:master-x7k"),
    ] {
        let config = load(&[PATTERN], ID, host).unwrap();
        assert_eq!(iscsi(&config).initiator.as_str(), initiator);
        assert_eq!(iscsi(&config).lun.number.unwrap().0, 1);
        assert_eq!(config.node.name, host);
        assert_eq!(config.node.chosen_by, "hostname = \"master-*\" in 0.toml, line 8");
    }
    assert!(load(&[PATTERN], ID, "worker-0").unwrap_err().contains("no [[node]] entry"));
    // The name is no iSCSI name.
    let error = load(&[PATTERN], ID, "master-a_b").unwrap_err();
    assert!(
        error.starts_with("`node.initiator` in 0.toml, line 8: iqn.2024-02.com.example:{hostname} with the host name master-a_b, expected"),
        "{error}"
    );
    // Nobody has given the node a name yet.
    let all = PATTERN.replace("master-*", "*");
    assert!(load(&[&all], ID, "localhost").unwrap_err().contains("no [[node]] entry"));
}

#[test]
fn an_entry_of_its_own_comes_first() {
    let own = "[[node]]\nhostname = \"master-1\"\ninitiator = \"iqn.2024-02.com.example:own\"\nlun = 7\n";
    let by_id =
        format!("[[node]]\nmachine_id = \"{ID}\"\ninitiator = \"iqn.2024-02.com.example:by-id\"\nlun = 8\n");
    let number =
        |id: &str, host: &str| iscsi(&load(&[PATTERN, own, &by_id], id, host).unwrap()).lun.number.unwrap().0;
    let other = "00000000000000000000000000000001";
    assert_eq!((number(other, "master-1"), number(other, "master-2"), number(ID, "master-2")), (7, 1, 8));
    let error = load(&[PATTERN, own, &by_id], ID, "master-1").unwrap_err();
    assert!(error.starts_with("2 [[node]] entries"), "{error}");
}

#[test]
fn two_patterns_that_match_are_an_error() {
    let second =
        "[[node]]\nhostname = \"*-0\"\ninitiator = \"iqn.2024-02.com.example:other.{hostname}\"\nlun = 1\n";
    let error = load(&[PATTERN, second], ID, "master-0").unwrap_err();
    for part in ["2 [[node]] entries", "\"master-*\" in 0.toml, line 8", "\"*-0\" in 1.toml, line 1"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(load(&[PATTERN, second], ID, "master-1").is_ok());
    // The desk is told before a node has that name.
    let warnings = pool(&[PATTERN, second]).unwrap().warnings();
    assert!(warnings.iter().any(|said| said.contains("both master-* and *-0")), "{warnings:?}");
    let chap = "`target.chap`: there is none, so whoever reaches a portal, a pod too, gets etcd's data by a node's initiator name alone";
    assert_eq!(pool(&[PATTERN]).unwrap().warnings(), [chap]);
}

#[test]
fn what_a_pattern_must_have() {
    let with = |from: &str, to: &str| PATTERN.replace(from, to);
    for (text, parts) in [
        (with("lun_masking = true\n", ""), ["`node.hostname` in 0.toml, line 7", "`lun_masking = true`"]),
        (
            with(":{hostname}", ":m"),
            ["`node.initiator`", "iqn.2024-02.com.example:m for all nodes that master-* matches"],
        ),
        (with("{hostname}", "{host}"), ["{host}` is not an iSCSI name", "line 10"]),
        (with("{hostname}", "{hostname}-{hostname}"), ["`{hostname}` in it once", "line 10"]),
        (
            with("initiator = \"iqn.2024-02.com.example:{hostname}\"\n", ""),
            ["`node.initiator` is missing", "{hostname}"],
        ),
        (with("lun = 1", ""), ["`node.lun` is missing", "master-*"]),
        (with("lun = 1", "wwid = \"naa.6001405000000001\""), ["`node.wwid`", "a WWID is that of one LUN"]),
        (with("lun = 1", "lun = 300"), ["`node.lun`", "300 for master-*"]),
        (with("master-*", "master 1*"), ["line 9", "or with \"*\" such as \"master-*\""]),
        (
            with(
                "hostname = \"master-*\"",
                "hostname = \"m*\"\nmachine_id = \"0123456789abcdef0123456789abcdef\"",
            ),
            ["both hostname and machine_id", "exactly one"],
        ),
        (
            with("hostname = \"master-*\"", "machine_id = \"0123456789abcdef0123456789abcdef\""),
            ["`node.initiator`", "only an entry with a pattern"],
        ),
        (
            with("hostname = \"master-*\"", "hostname = \"master-0\""),
            ["`node.initiator`", "only an entry with a pattern"],
        ),
        (with("hostname = \"master-*\"", "machine_id = \"01234567*\""), ["machine id", "32 hex digits"]),
    ] {
        let error = pool(&[&text]).unwrap_err();
        let errors = error.lines().filter(|line| !line.contains(" | "));
        assert_eq!(errors.count(), 1, "one mistake is one error: {error}");
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn no_two_nodes_get_one_initiator_name() {
    let entry = |host: &str, initiator: &str| {
        format!("[[node]]\nhostname = \"{host}\"\ninitiator = \"{initiator}\"\nlun = 1\n")
    };
    let taken = entry("node-7", "iqn.2024-02.com.example:master-7");
    let error = pool(&[PATTERN, &taken]).unwrap_err();
    assert!(error.contains("is what the pattern master-* gives to master-7"), "{error}");
    // The node's own name, and one that the pattern never gives.
    for other in [
        entry("master-7", "iqn.2024-02.com.example:master-7"),
        entry("node-7", "iqn.2024-02.com.example:node-7"),
        entry("infra-*", "iqn.2024-02.com.example:{hostname}"),
    ] {
        assert!(pool(&[PATTERN, &other]).is_ok(), "{other}");
    }
    let [a, b] = ["*.a.example", "*.b.example"].map(|host| entry(host, "iqn.2024-02.com.example:{hostname}"));
    let head = PATTERN.split("[[node]]").next().unwrap();
    let error = pool(&[head, &a, &b]).unwrap_err();
    assert!(error.contains("for *.a.example and *.b.example, which may be hosts of one name"), "{error}");
    let error = pool(&[PATTERN, &entry("MASTER-*", "iqn.2024-02.com.example:x.{hostname}")]).unwrap_err();
    assert!(error.contains("two entries for MASTER-*"), "{error}");
}

#[test]
fn the_nodes_that_are_named() {
    let own = "[[node]]\nhostname = \"infra-1\"\ninitiator = \"iqn.2024-02.com.example:own\"\nlun = 7\n";
    let pool = pool(&[PATTERN, own]).unwrap();
    assert_eq!(
        (pool.host_names().unwrap(), pool.patterns()),
        (vec!["infra-1".into()], vec!["master-*".into()])
    );
    assert_eq!(
        pool.rows().unwrap()[0].initiator.as_ref().unwrap().to_string(),
        "iqn.2024-02.com.example:{hostname}"
    );
    let named = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let Nodes::Iscsi(nodes) = pool.nodes_named(&names).unwrap() else { panic!("there is a target") };
        nodes.into_iter().map(|node| format!("{} {}", node.entry.name, node.initiator)).collect::<Vec<_>>()
    };
    assert_eq!(named(&[]), ["infra-1 iqn.2024-02.com.example:own"]);
    assert_eq!(
        named(&["master-1", "infra-1", "master-2.x"]),
        [
            "infra-1 iqn.2024-02.com.example:own",
            "master-1 iqn.2024-02.com.example:master-1",
            "master-2.x iqn.2024-02.com.example:master-2"
        ]
    );
    assert!(pool.knows("master-9") && pool.knows("infra-1") && !pool.knows("worker-1"));
}

/// Every machine has a disk of its own at the path, so nothing has to be masked.
#[test]
fn a_pattern_with_a_device() {
    let entries = "[[node]]\nhostname = \"etcd-*\"\npath = \"/dev/disk/by-path/pci-0000:00:1f.0-nvme-1\"\n[[node]]\nhostname = \"master-*\"\nwwid = \"virtio.etcd0\"\n";
    let both = format!("{DEVICE}{entries}");
    assert!(pool(&[&both]).is_ok());
    assert_eq!(path(&load(&[&both], ID, "etcd-x7k").unwrap()), "/dev/disk/by-path/pci-0000:00:1f.0-nvme-1");
    let master = load(&[&both], ID, "master-2").unwrap();
    assert_eq!(
        (path(&master), master.node.wwid.unwrap().as_str()),
        ("/dev/disk/by-id/virtio-etcd0".into(), "virtio.etcd0")
    );
    let one = both.replace("virtio.etcd0\"\n", "eui.0025388b710116a1\"\n");
    for error in [pool(&[&one]).unwrap_err(), load(&[&one], ID, "master-2").unwrap_err()] {
        assert!(error.contains("eui.0025388b710116a1 for all nodes that master-* matches"), "{error}");
    }
}

/// multipath-tools names each LUN by its WWID, and a pattern has none.
#[test]
fn multipath_needs_an_entry_for_each_node() {
    let text = PATTERN.replace("lun_masking = true", "lun_masking = true\nmultipath = true");
    let error = pool(&[&text]).unwrap_err();
    assert!(
        error.contains("`node.wwid`") && error.contains("an entry for each node with its `wwid`"),
        "{error}"
    );
}
