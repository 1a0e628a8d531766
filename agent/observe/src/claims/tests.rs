#![allow(clippy::disallowed_methods, reason = "the test makes a machine of files")]

use super::*;
use config::Source;
use host::{Root, files::Files, transcript::Transcript};
use std::os::unix::fs::symlink;

fn config() -> Config {
    let text = "[device]\npath = \"/dev/disk/by-id/second\"\n[etcd]\nruntime = \"systemd\"\n[[node]]\nhostname = \"a\"\n";
    let source = Source { path: "config.toml".into(), text: text.into() };
    Config::load(&[source], "0123456789abcdef0123456789abcdef", "a").unwrap()
}

fn host(machine: &Files) -> Host {
    Host::fixture(Root::new(&machine.0), Box::new(Transcript::default())).unwrap()
}

#[test]
fn each_name_of_the_data_directory_is_found() {
    for (path, text, expected) in [
        ("etc/systemd/system/var-lib-etcd.mount", "[Mount]\nWhat=/dev/sdc\n", "the unit /etc"),
        ("usr/local/lib/systemd/system/var-lib-etcd.mount", "", "the unit /usr/local"),
        ("run/systemd/generator/var-lib-etcd.mount", "", "the unit /run/systemd/generator/"),
        ("etc/systemd/system/local-fs.target.requires/var-lib-etcd.mount", "", "the link /etc"),
        ("etc/systemd/system/var-lib-etcd.mount.wants/restorecon.service", "", "the link /etc"),
        ("usr/lib/systemd/system/create-local-etcd.service", "", "the unit /usr/lib"),
        ("etc/fstab", "/dev/sdc /var/lib/etcd/ xfs defaults 0 0\n", "the line `/dev/sdc"),
        ("run/udev/data/b8:32", "I:1\nE:ID_FS_LABEL=local-etcd\n", "the filesystem labelled local-etcd"),
    ] {
        let machine = Files::new("claims");
        assert_eq!(claims(&host(&machine), &config()), Fact::Known(Vec::new()));
        machine.put(path, text);
        let found = claims(&host(&machine), &config());
        let found = found.require().unwrap();
        assert!(found.len() == 1 && found[0].starts_with(expected), "{path}: {found:?}");
    }
}

#[test]
fn what_is_ours_or_leads_elsewhere_is_no_claim() {
    let machine = Files::new("no-claims");
    machine.put("etc/systemd/system/var-lib-etcd.mount", "[Mount]\nWhat=/run/etcd-lun-hands/verified\n");
    machine.put("etc/systemd/system/var-lib-etcd.mount.d/50-order.conf", "");
    machine.put("etc/systemd/system/local-fs.target.requires/var.mount", "");
    machine.put(
        "etc/fstab",
        "# /dev/sdc /var/lib/etcd xfs\n/dev/sda1 /boot ext4\n/dev/sdb /var/lib/etcd-lun xfs\n",
    );
    machine.put("run/udev/data/b8:16", "I:1\nE:ID_FS_LABEL=etcd-lun\n");
    assert_eq!(claims(&host(&machine), &config()), Fact::Known(Vec::new()));
    let mut own = config();
    own.lun.label = "var-lib-etcd".parse().unwrap();
    machine.put("run/udev/data/b8:16", "I:1\nE:ID_FS_LABEL=var-lib-etcd\n");
    assert_eq!(claims(&host(&machine), &own), Fact::Known(Vec::new()));
}

#[test]
fn a_link_that_leads_nowhere_is_a_claim_and_what_is_unreadable_is_unknown() {
    let machine = Files::new("odd-claims");
    machine.put("etc/systemd/system/other.service", "");
    symlink("/nowhere", machine.0.join("etc/systemd/system/var-lib-etcd.mount")).unwrap();
    assert_eq!(claims(&host(&machine), &config()).require().unwrap().len(), 1);
    let machine = Files::new("unreadable-claims");
    machine.put("etc/fstab/no-file", "");
    assert!(claims(&host(&machine), &config()).require().is_err());
}
