//! `render target`. The scenario `target/lio` runs the script in a virtual machine.

use crate::{CONFIG, Dir, tool};

/// The part of the script that is the same for every config.
const FIXED: &str = include_str!("../../../agent/delivery/src/target.sh");

fn script(dir: &Dir, config: &str, more: &[&str]) -> String {
    let config = dir.write("variant.toml", config);
    let (code, out, err) = dir.run(&[&["target", "--config", &config], more].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{config}");
    assert!(!out.contains("hunter2"), "{out}");
    if let Some(output) = tool("shellcheck", &["-"], out.as_bytes()) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert!(out.contains(FIXED), "{out}");
    out.replace(FIXED, "FIXED\n")
}

#[test]
fn as_an_administrator_would_write_it() {
    let dir = Dir::new("target");
    let (first, second) = CONFIG.split_once("lun = 1\n").unwrap();
    let wwid = "wwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\n";
    let text = script(&dir, &format!("{first}lun = 1\n{wwid}{second}"), &[]);
    assert!(text == include_str!("target.expected"), "{text}");
}

/// A map is named by the WWID of its LUN, and the LUNs have WWIDs when the script has made them.
#[test]
fn luns_have_no_wwid_before_the_script_makes_them() {
    let dir = Dir::new("before");
    let config = CONFIG.replace("[target]\n", "[target]\nmultipath = true\n");
    assert!(script(&dir, &config, &[]).contains("\ngrant master-0 "));
    let path = dir.write("config.toml", &config);
    let (code, _, err) = dir.run(&["machineconfig", "--config", &path, "--without-program"]);
    assert!(code == 2 && err.contains("`node.wwid`"), "{err}");
}

/// Nobody but the cluster knows the names of the nodes, and each needs a LUN and an access list.
#[test]
fn the_nodes_of_a_pattern_are_named() {
    let dir = Dir::new("pattern");
    let head =
        CONFIG.split("[[node]]").next().unwrap().replace("[target]\n", "[target]\nlun_masking = true\n");
    let config = format!(
        "{head}[[node]]\nhostname = \"master-*\"\ninitiator = \"iqn.2024-02.com.example:{{hostname}}\"\nlun = 1\n"
    );
    let path = dir.write("config.toml", &config);
    let (code, out, err) = dir.run(&["target", "--config", &path]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("the nodes that master-* matches") && err.contains("name them with --node"),
        "{err}"
    );
    let (code, _, err) = dir.run(&["target", "--config", &path, "--node", "worker-0"]);
    assert!(code == 2 && err.contains("`worker-0`"), "{err}");
    let text = script(&dir, &config, &["--node", "node/master-0\nnode/master-1.example"]);
    for part in [
        "a LUN for each of 2 nodes.",
        "\ngrant master-0 iqn.2024-02.com.example:master-0 1 /backstores/fileio/etcd-lun-master-0\n",
        "\ngrant master-1.example iqn.2024-02.com.example:master-1 1 /backstores/fileio/etcd-lun-master-1.example\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What every node gets does not depend on the names.
    let (code, rule, err) = dir.run(&["udev", "--config", &path]);
    assert_eq!(code, 0, "{err}");
    assert!(rule.contains("iscsi-iqn.2024-02.com.example:etcd-lun-1\""), "{rule}");
}

#[test]
fn without_chap_on_devices_at_a_name() {
    let dir = Dir::new("devices");
    let chap = &CONFIG[CONFIG.find("[target.chap]").unwrap()..CONFIG.find("[etcd]").unwrap()];
    let config =
        CONFIG.replace(chap, "").replace("[\"192.168.10.5:3260\"]", "[\"san1.example\", \"[::1]:860\"]");
    let text = script(&dir, &config, &["--backstore-block"]);
    for part in [
        "#     sh this-script DEVICE-OF-master-0 DEVICE-OF-master-1\n",
        "if [ $# -ne 2 ]; then\n",
        "create name=etcd-lun-master-1 \\\n    \"dev=${2}\"\n",
        "authentication=0",
        "# A portal can't be bound to a name (san1.example): every address",
        "create ip_address=::0 ip_port=3260\n",
        "create ip_address=::0 ip_port=860\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for absent in ["credentials", "discovery", "fileio", "directory", "ip_address=::1 "] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
}

#[test]
fn secrets_are_read_from_files_and_names_are_quoted() {
    let dir = Dir::new("quoted");
    let mutual = "username = \"it's; id\"\nusername_in = \"target\"\ncredential_in = \"chap-in\"";
    let config = CONFIG.replacen("username = \"initiator1\"", mutual, 1).replacen(
        "password_file = \"/etc/etcd-lun/chap.secret\"",
        "password = \"hunter2hunter2\"",
        1,
    );
    let text = script(&dir, &config, &["--backstore-dir", "/srv/luns"]);
    for part in [
        "\nchap_file=${CHAP_FILE:?'must name a file with the secret of target.chap, password'}\n",
        "\nchap_in_file=${CHAP_IN_FILE:?'must name a file with the secret of target.chap, password_in'}\n",
        "credentials \"$acl/auth\" 'it'\\''s; id' \"$chap_file\" 'target' \"$chap_in_file\"\n",
        "credentials \"$discovery\" 'finder' \"$discovery_file\"\n",
        "\ndirectory=/srv/luns\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_a_target_cannot_have() {
    let dir = Dir::new("refused");
    let cases: [(&str, &str, &[&str], &str); 4] = [
        (
            "lun = 1\n[[node]]",
            "lun = 1\nwwid = \"naa.600000000000000000bed00000000001\"\n[[node]]",
            &[],
            "leave `wwid` out",
        ),
        ("master-0", "a b", &[], "`a b` is not a host name"),
        ("master-0", "master-0", &["--backstore-dir", "/srv/a b"], "the directory `/srv/a b`"),
        ("redhat:master1", "redhat:master0", &[], "in two entries"),
    ];
    for (from, to, more, said) in cases {
        let config = dir.write("variant.toml", CONFIG.replacen(from, to, 1));
        let (code, out, err) = dir.run(&[&["target", "--config", &config], more].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{said}: {err}");
        assert!(err.contains(said), "{said}: {err}");
    }
}
