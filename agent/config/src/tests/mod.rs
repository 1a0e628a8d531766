//! Configs as people write them, right and wrong.

use super::*;

mod merging;
mod mistakes;
mod patterns;
mod several;
mod targets;

const GOOD: &str = r#"
[target]
iqn = "iqn.2024-02.com.example:etcd"
portals = ["192.168.10.5:3260", "[2001:db8::5]", "san1.example"]
[target.chap]
username = "initiator1"
password_file = "/etc/etcd-lun/chap.secret"
[etcd]
runtime = "systemd"
[[node]]
hostname = "master-0"
initiator = "iqn.1994-05.com.redhat:master0"
lun = 1
[[node]]
machine_id = "0123456789abcdef0123456789abcdef"
initiator = "iqn.1994-05.com.redhat:master1"
lun = 2
wwid = "360014051d8e4a3bd5a94f3f9a1a2b3c4"
"#;

const ID: &str = "fedcba9876543210fedcba9876543210";

fn iscsi(config: &Config) -> &Iscsi {
    config.backing.iscsi().unwrap()
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), text: text.into() }
}

fn load(texts: &[&str], machine_id: &str, hostname: &str) -> Result<Config, String> {
    let sources: Vec<_> =
        texts.iter().enumerate().map(|(at, text)| source(&format!("{at}.toml"), text)).collect();
    Config::load(&sources, machine_id, hostname).map_err(|error| error.to_string())
}

#[test]
fn entry_by_short_name_fqdn_and_machine_id() {
    let id = "0123456789ABCDEF0123456789ABCDEF";
    for (machine_id, hostname, lun) in
        [(ID, "master-0", 1), (ID, "master-0.cluster.example", 1), (ID, "MASTER-0", 1), (id, "anything", 2)]
    {
        let config = load(&[GOOD], machine_id, hostname).unwrap();
        assert_eq!(iscsi(&config).lun.number, Some(terms::LunNumber(lun)), "{hostname}");
    }
    let fqdn = GOOD.replace("master-0\"", "master-0.a.example\"");
    assert!(load(&[&fqdn], ID, "master-0").is_ok());
    assert!(load(&[&fqdn], ID, "master-0.a.example").is_ok());
    assert!(load(&[&fqdn], ID, "master-0.b.example").unwrap_err().contains("no [[node]] entry"));
}

#[test]
fn none_or_two_entries_say_what_was_tried() {
    let error = load(&[GOOD], ID, "worker-7").unwrap_err();
    for part in ["worker-7", ID, "hostname = \"master-0\" in 0.toml", "machine_id = \"0123"] {
        assert!(error.contains(part), "{error}");
    }
    let error = load(&[GOOD], "0123456789abcdef0123456789abcdef", "master-0").unwrap_err();
    assert!(error.starts_with("2 [[node]] entries"), "{error}");
    let none = load(&[GOOD.split("[[node]]").next().unwrap()], ID, "x").unwrap_err();
    assert!(none.contains("the config has no [[node]] entry"), "{none}");
}

#[test]
fn later_fragments_win_key_by_key_and_add_entries() {
    let later = "[lun]\nmin_size = \"20GiB\"\n[target]\nportals = [\"10.0.0.1\"]\n[[node]]\nhostname = \"b\"\ninitiator = \"iqn.2024-02.a.b:c\"\nlun = 9";
    let config = load(&[GOOD, later], ID, "b").unwrap();
    assert_eq!(config.lun.min_size.to_string(), "20GiB");
    assert_eq!(iscsi(&config).target.portals.len(), 1);
    assert_eq!(iscsi(&config).target.iqn.to_string(), "iqn.2024-02.com.example:etcd");
    assert_eq!(iscsi(&config).lun.number.unwrap().0, 9);
}

/// An array whose ports are targets of their own.
#[test]
fn a_name_for_each_portal() {
    let of = |iqn: &str, portals: &str| {
        let text =
            GOOD.replace("portals = [\"192.168.10.5:3260\", \"[2001:db8::5]\", \"san1.example\"]", portals);
        load(&[&text.replace("iqn = \"iqn.2024-02.com.example:etcd\"\n", iqn)], ID, "master-0")
    };
    let [all, port] = [
        "iqn = \"iqn.2015-10.com.example:all\"\n",
        "{ address = \"192.168.11.5\", iqn = \"iqn.2015-10.com.example:b\" }",
    ];
    let other = port.replace("11.5", "10.5").replace("e:b", "e:a");
    let both = of("", &format!("portals = [{other}, {port}]")).unwrap();
    let target = &iscsi(&both).target;
    let names = target.portals.iter().map(|portal| target.iqn.at(portal).as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["iqn.2015-10.com.example:a", "iqn.2015-10.com.example:b"]);
    let one = of(all, &format!("portals = [\"192.168.10.5\", {port}]")).unwrap();
    assert_eq!(iscsi(&one).target.iqn.to_string(), "iqn.2015-10.com.example:all, iqn.2015-10.com.example:b");
    for (iqn, portals, parts) in [
        ("", format!("[\"192.168.10.5\", {port}]"), ["`target.iqn` is missing", "iqn"]),
        (all, format!("[{port}]"), ["`target.iqn`", "each portal has one of its own"]),
        (all, format!("[\"192.168.11.5\", {port}]"), ["`target.portals`", "listed twice"]),
        (all, port.replace("{", "[{").replace(", iqn", "}, {iqn").replace(" }", " }]"), ["`iqn`", ""]),
        (all, format!("[{}]", port.replace("iqn =", "name =")), ["`name`", "`iqn`"]),
    ] {
        let error = of(iqn, &format!("portals = {portals}")).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn defaults() {
    let config = load(&[GOOD], ID, "master-0").unwrap();
    assert_eq!(config.etcd.data_dir.as_str(), "/var/lib/etcd");
    assert_eq!(config.etcd.runtime, Runtime::Systemd { unit: "etcd.service".into() });
    let label = "context=system_u:object_r:etcd_lun_data_t:s0";
    assert_eq!(
        config.lun.options_for_etcd(true),
        ["_netdev", "prjquota", label, "nodev", "nosuid", "noexec"]
    );
    assert_eq!(config.lun.options_for_etcd(false), config.lun.options_in_effect());
    assert_eq!(config.lun.options_in_effect(), ["prjquota", label, "nodev", "nosuid", "noexec"]);
    assert_eq!(config.boot.gate, Gate::Etcd);
    assert_eq!(config.boot.attach_timeout.to_string(), "5min");
    assert_eq!(config.lun.label.as_str(), "etcd-lun");
    let asked = r#"mount_options = ["prjquota", "_netdev", "noexec", "suid", "context=u:object_r:own_t:s0"]"#;
    let lun = load(&[&format!("{GOOD}\n[lun]\n{asked}")], ID, "master-0").unwrap().lun;
    let own = "context=u:object_r:own_t:s0";
    assert_eq!(lun.options_for_etcd(true), ["_netdev", "prjquota", "noexec", "suid", own, "nodev"]);
    assert_eq!(lun.data_label(), "u:object_r:own_t:s0");
}

#[test]
fn wrong_configs_name_file_key_and_what_was_expected() {
    let with = |from: &str, to: &str| GOOD.replace(from, to);
    for (text, parts) in [
        (with("lun = 1", "lun = 1\nwwn = \"x\""), vec!["0.toml, line 14", "`wwn`"]),
        (with("[etcd]", "[etdc]"), vec!["line 8", "`etdc`"]),
        (with("runtime = \"systemd\"", ""), vec!["`etcd.runtime` is missing", "\"static-pod\""]),
        (with("\"systemd\"", "\"upstart\""), vec!["line 9", "`upstart`"]),
        (with("lun = 1", "lun = \"1\""), vec!["line 13, column 7", "without quotes"]),
        (with("lun = 1", "lun = -1"), vec!["line 13"]),
        (with("192.168.10.5:3260", "192.168.10.5:0"), vec!["line 4", "is not a portal"]),
        (with("iqn.2024-02.com.example:etcd", "etcd"), vec!["line 3", "`etcd` is not an iSCSI name"]),
        (
            with("portals = [\"192.168.10.5:3260\", \"[2001:db8::5]\", \"san1.example\"]", "portals = []"),
            vec!["`target.portals`", "at least one"],
        ),
        (with("\"san1.example\"", "\"192.168.10.5\""), vec!["listed twice"]),
        (
            with("password_file = \"/etc/etcd-lun/chap.secret\"", "password_file = \"chap.secret\""),
            vec!["line 7", "expected the absolute path"],
        ),
        (
            with("password_file = \"/etc/etcd-lun/chap.secret\"", "password = 12"),
            vec!["line 7", "text in quotes"],
        ),
        (with("password_file", "password_fiel"), vec!["line 7", "`password_fiel`"]),
        (with("username = \"initiator1\"", ""), vec!["`target.chap`", "username is missing"]),
        (with("password_file", "password = \"a\"\npassword_file"), vec!["`target.chap`", "more than one"]),
        (with("password_file = \"/etc/etcd-lun/chap.secret\"", ""), vec!["no secret"]),
        (with("[etcd]", "password_in = \"x\"\n[etcd]"), vec!["username_in is missing"]),
        (with("[etcd]", "[lun]\nmin_size = 8\n[etcd]"), vec!["line 9", "a size with a unit"]),
        (with("[etcd]", "[lun]\nmin_size = \"8\"\n[etcd]"), vec!["line 9", "is not a size"]),
        (with("[etcd]", "[lun]\nmin_size = \"1MiB\"\n[etcd]"), vec!["at least 300MiB"]),
        (
            with("[etcd]", "[lun]\nmount_options = [\"ro\"]\n[etcd]"),
            vec!["`lun.mount_options` in 0.toml, line 9: ro"],
        ),
        (with("[etcd]", "[etcd]\ndata_dir = \"var/lib\""), vec!["line 9", "absolute path"]),
        (with("[etcd]", "[etcd]\ndata_dir = \"/etcd\""), vec!["below a directory"]),
        (with("[etcd]", "[etcd]\nunit = \"etcd\""), vec!["`etcd.unit`", "service unit"]),
        (
            with("runtime = \"systemd\"", "runtime = \"systemd\"\nmanifest = \"/a/b/c\""),
            vec!["`etcd.manifest`"],
        ),
        (
            with("runtime = \"systemd\"", "runtime = \"static-pod\"\nunit = \"a.service\""),
            vec!["`etcd.unit`"],
        ),
        (
            with("runtime = \"systemd\"", "runtime = \"static-pod\"\nmanifest = \"/a/b/.c\""),
            vec!["`etcd.manifest`", "/a/b/.c", "/etc/kubernetes/manifests/etcd-pod.yaml"],
        ),
        (
            with("runtime = \"systemd\"", "runtime = \"static-pod\"\nmanifest = \"/a/b\""),
            vec!["`etcd.manifest`"],
        ),
        (with("[etcd]", "[health]\ninterval = \"1s\"\n[etcd]"), vec!["`health.interval`", "15s"]),
        (with("[etcd]", "[health]\nevery = \"1min\"\n[etcd]"), vec!["line 9", "`every`"]),
        (
            with("[etcd]", "[health]\ntextfile = \"/var/x/etcd.txt\"\n[etcd]"),
            vec!["`health.textfile`", "/var/x/etcd.txt", ".prom"],
        ),
        (with("[etcd]", "[health]\ntextfile = \"/var/x.prom\"\n[etcd]"), vec!["`health.textfile`"]),
        (
            with("[etcd]", "[cluster]\nclient_url = \"ftp://10.0.0.1:21\"\n[etcd]"),
            vec!["line 9", "`ftp://10.0.0.1:21` is not an address of an etcd member"],
        ),
        (with("[etcd]", "[cluster]\ncert = \"/a/crt\"\n[etcd]"), vec!["`cluster.key`", "both or neither"]),
        (with("[etcd]", "[cluster]\nkey = \"/a/key\"\n[etcd]"), vec!["`cluster.cert`", "both or neither"]),
        (with("[etcd]", "[cluster]\nhttp_port = 0\n[etcd]"), vec!["`cluster.http_port`", "a port"]),
        (with("[etcd]", "[cluster]\nserve_timeout = \"0s\"\n[etcd]"), vec!["`cluster.serve_timeout`"]),
        (with("[etcd]", "[cluster]\nwithout_quorum = \"yes\"\n[etcd]"), vec!["line 9", "without_quorum"]),
        (with("[etcd]", "[cluster]\nurl = 1\n[etcd]"), vec!["line 9", "`url`"]),
        (with("[etcd]", "[lun]\nrequire_fsync_p99 = \"0ms\"\n[etcd]"), vec!["`lun.require_fsync_p99`"]),
        (with("[etcd]", "[boot]\ngate = \"all\"\n[etcd]"), vec!["line 9", "`all`"]),
        (with("hostname = \"master-0\"", ""), vec!["neither hostname nor machine_id"]),
        (with("[target]\n", "[target\n"), vec!["0.toml, line 2"]),
    ] {
        let error = load(&[&text], ID, "master-0").unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    assert!(load(&[], ID, "x").unwrap_err().contains("/etc/etcd-lun/config.toml"));
}

#[test]
fn a_pool_has_all_its_nodes() {
    let nodes = |text: &str| {
        let sources = [source("0.toml", text)];
        let pool = Pool::load(&sources).map_err(|error| error.to_string())?;
        match pool.nodes().map_err(|error| error.to_string())? {
            Nodes::Iscsi(nodes) => Ok::<_, String>(nodes),
            Nodes::Device(_) => panic!("a target's nodes have no device"),
        }
    };
    let names: Vec<_> =
        nodes(GOOD).unwrap().into_iter().map(|node| (node.entry.name, node.lun.unwrap().0)).collect();
    assert_eq!(names, [("master-0".to_owned(), 1), ("0123456789abcdef0123456789abcdef".to_owned(), 2)]);
    for (from, to, said) in [
        ("master1\"", "master0\"", "iqn.1994-05.com.redhat:master0 in two entries"),
        (
            "machine_id = \"0123456789abcdef0123456789abcdef\"",
            "hostname = \"Master-0\"",
            "two entries for Master-0",
        ),
        ("lun = 1", "", "`node.lun` is missing"),
        ("hostname = \"master-0\"", "", "neither hostname nor machine_id"),
    ] {
        let error = nodes(&GOOD.replace(from, to)).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let none = GOOD.split("[[node]]").next().unwrap();
    assert!(
        nodes(none)
            .unwrap_err()
            .contains("`node` in the config: there is none, expected one table for each node")
    );
}

#[test]
fn the_wwid_identifies_and_the_number_is_a_hint() {
    let second = "machine_id = \"0123456789abcdef0123456789abcdef\"";
    let nodes = |text: &str| {
        let pool = Pool::load(&[source("0.toml", text)]).unwrap();
        pool.nodes().map(|_| pool.warnings()).map_err(|error| error.to_string())
    };
    // Without a number the WWID is enough, and is how the LUN is named.
    let text = GOOD.replace("lun = 2", "").replace(second, "hostname = \"master-1\"");
    let config = load(&[&text], ID, "master-1").unwrap();
    assert_eq!(iscsi(&config).lun.number, None);
    assert_eq!(config.backing.place().to_string(), "LUN naa.60014051d8e4a3bd5a94f3f9a1a2b3c4");
    // One warning for all entries that have none.
    let warnings = nodes(GOOD).unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("none for master-0, so"), "{warnings:?}");
    // One number for two nodes is right where the array numbers the LUNs anew for each initiator, and nowhere else.
    let third =
        "\n[[node]]\nhostname = \"master-9\"\ninitiator = \"iqn.1994-05.com.redhat:master9\"\nlun = 1\n";
    let warnings = nodes(&format!("{GOOD}{third}")).unwrap();
    assert!(warnings.len() == 2 && warnings[1].contains("master-0, master-9 have number 1"), "{warnings:?}");
    let masked = GOOD.replace("[target]\n", "[target]\nlun_masking = true\n");
    assert_eq!(nodes(&format!("{masked}{third}")).unwrap().len(), 1);
    let named = GOOD.replace("lun = 1", "lun = 1\nwwid = \"360014051d8e4a3bd5a94f3f9a1a2b3c5\"");
    assert_eq!(nodes(&named).unwrap(), [""; 0]);
    // Above one byte arrays differ in the addressing.
    for (number, is_right) in [(255, true), (256, false), (300, false)] {
        let text = GOOD.replace("lun = 1", &format!("lun = {number}"));
        let result = nodes(&text);
        assert_eq!(result.is_ok(), is_right, "{number}: {result:?}");
        if let Err(error) = result {
            assert!(error.contains("`node.lun` in 0.toml") && error.contains("has no `wwid`"), "{error}");
        }
        // A node whose record names the WWID goes on.
        assert_eq!(iscsi(&load(&[&text], ID, "master-0").unwrap()).lun.number.unwrap().0, number);
        assert!(nodes(&named.replace("lun = 1", &format!("lun = {number}"))).is_ok());
    }
}

#[test]
fn a_static_pod() {
    let text = GOOD.replace("\"systemd\"", "\"static-pod\"\n[boot]\ngate = \"kubelet\"");
    let config = load(&[&text], ID, "master-0").unwrap();
    let manifest = "/etc/kubernetes/manifests/etcd-pod.yaml".parse().unwrap();
    assert_eq!(config.etcd.runtime, Runtime::StaticPod { manifest });
    assert_eq!(config.boot.gate, Gate::Kubelet);
}

const DEVICE: &str = "[device]\npath = \"/dev/disk/by-id/virtio-etcd0\"\n[etcd]\nruntime = \"static-pod\"\n";

fn path(config: &Config) -> String {
    config.backing.place().to_string()
}

#[test]
fn a_device_for_every_node_or_one_of_its_own() {
    let config = load(&[DEVICE], ID, "ip-10-0-1-7").unwrap();
    assert_eq!(path(&config), "/dev/disk/by-id/virtio-etcd0");
    assert_eq!((config.node.name.as_str(), &config.node.wwid), ("ip-10-0-1-7", &None));
    let entries = "[[node]]\nhostname = \"a\"\n[[node]]\nhostname = \"b\"\npath = \"/dev/disk/by-path/pci-0000:00:1f.0-nvme-1\"\nwwid = \"virtio.etcd0\"\n";
    let both = format!("{DEVICE}{entries}");
    assert_eq!(path(&load(&[&both], ID, "a").unwrap()), "/dev/disk/by-id/virtio-etcd0");
    let b = load(&[&both], ID, "b").unwrap();
    assert_eq!(path(&b), "/dev/disk/by-path/pci-0000:00:1f.0-nvme-1");
    assert_eq!(b.node.wwid.unwrap().as_str(), "virtio.etcd0");
    let error = load(&[&both], ID, "c").unwrap_err();
    assert!(error.contains("no [[node]] entry") && error.contains("its path"), "{error}");
    let pool = Pool::load(&[source("0.toml", &both)]).unwrap();
    let Nodes::Device(nodes) = pool.nodes().unwrap() else { panic!("a device's nodes have no target") };
    assert_eq!(nodes.len(), 2);
    // [device] without a path, and each entry with one.
    let own = both.replace("path = \"/dev/disk/by-id/virtio-etcd0\"\n", "");
    assert!(load(&[&own], ID, "b").is_ok());
    assert!(load(&[&own], ID, "a").unwrap_err().contains("`device.path` is missing"));
    let later = "[device]\npath = \"/dev/disk/by-id/virtio-other\"";
    assert_eq!(path(&load(&[DEVICE, later], ID, "x").unwrap()), "/dev/disk/by-id/virtio-other");
}

#[test]
fn a_device_and_a_target_dont_mix() {
    let neither = DEVICE.replace("[device]\npath = \"/dev/disk/by-id/virtio-etcd0\"\n", "");
    for (texts, parts) in [
        (vec![GOOD, DEVICE], vec!["both [target] and [device]"]),
        (vec![neither.as_str()], vec!["neither [target] nor [device]"]),
        (
            vec![DEVICE, "[[node]]\nhostname = \"x\"\nlun = 1"],
            vec!["`node.lun`", "hostname = \"x\" in 1.toml", "[device]"],
        ),
        (
            vec![DEVICE, "[[node]]\nhostname = \"x\"\ninitiator = \"iqn.2024-02.a.b:c\""],
            vec!["`node.initiator`", "[device]"],
        ),
        (
            vec![GOOD, "[[node]]\nhostname = \"x\"\npath = \"/dev/disk/by-id/virtio-etcd0\""],
            vec!["`node.path`", "[target]"],
        ),
        (vec![DEVICE, "[device]\npath = \"/dev/sdb\""], vec!["1.toml, line 2", "change from boot to boot"]),
        (vec![DEVICE, "[device]\nlink = 1"], vec!["1.toml, line 2", "`link`"]),
    ] {
        let error = load(&texts, ID, "x").unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn how_the_cluster_is_asked_depends_on_what_runs_etcd() {
    let asked = |text: &str| load(&[text], ID, "master-0").unwrap().cluster;
    let unit = asked(GOOD);
    assert_eq!(unit.client_url.to_string(), "http://127.0.0.1:2379");
    assert_eq!(
        (unit.without_quorum, unit.http_port, unit.serve_timeout.to_string()),
        (false, None, "5min".into())
    );
    let pod = asked(&GOOD.replace("\"systemd\"", "\"static-pod\""));
    assert_eq!(pod.client_url.to_string(), "https://localhost:2379");
    let more =
        "[cluster]\nclient_url = \"https://[fd00::1]:2379\"\nwithout_quorum = true\nhttp_port = 2381\n[etcd]";
    let given = asked(&GOOD.replace("[etcd]", more));
    assert_eq!(given.client_url.to_string(), "https://[fd00::1]:2379");
    assert_eq!((given.without_quorum, given.http_port), (true, Some(2381)));
}

#[test]
fn as_json() {
    let json = |texts: &[&str], name: &str| serde_json::to_value(load(texts, ID, name).unwrap()).unwrap();
    let iscsi = &json(&[GOOD], "master-0")["backing"]["iscsi"];
    assert_eq!(iscsi["target"]["iqn"], "iqn.2024-02.com.example:etcd");
    assert_eq!(
        (&iscsi["lun"]["number"], &iscsi["initiator"]),
        (&1.into(), &"iqn.1994-05.com.redhat:master0".into())
    );
    let device = json(&[DEVICE], "x");
    assert_eq!(device["backing"]["device"]["path"], "/dev/disk/by-id/virtio-etcd0");
    assert_eq!(device["lun"]["min_size"], "20GiB");
}
