//! The SELinux policy module and the udev rule, rendered for a config, and the labels that follow from them. Pure.
//!
//! The module is CIL, as `semodule --install` takes it on a node: there is no compiler on one. What it allows, and why,
//! is said in `selinux/`, above each block, and not in what is rendered.

mod embedded;
mod udev;

pub use udev::{RULE, rule};

use embedded::embedded;

use crate::{
    config::{Config, EtcdWish, HealthWish, Pool, Runtime, SecretSource, Target},
    terms::{AbsPath, Hasher, ISCSI_PORT},
    unit,
};

/// The module's name, which semodule takes from the name of its file.
pub const MODULE: &str = "etcd_lun";
/// The priority that it is installed with: below 400, which a person's `semodule --install` takes, so that a person
/// can put another in its place (semodule(8)).
pub const PRIORITY: u32 = 350;
/// The domain that the service runs in.
pub const DOMAIN: &str = "etcd_lun_t";
/// The type of the program, from which PID 1 enters the domain.
pub const PROGRAM_TYPE: &str = "etcd_lun_exec_t";
/// The label of etcd's data, on the LUN and on the directory that it is mounted on.
pub const DATA_LABEL: &str = "system_u:object_r:etcd_lun_data_t:s0";
/// The label of the LUN's device node.
pub const DEVICE_LABEL: &str = "system_u:object_r:etcd_lun_device_t:s0";

/// Where whoever reads the module finds its reasons.
const HEAD: &str = "; The SELinux policy module of etcd-lun. What each block is for is said in its sources, in selinux/, below the same heading.";
const TEMPLATE: &str = embedded!("etcd_lun.cil.in");
const OTHER_PORTS: &str = embedded!("other_ports.cil");
const PORTAL_DNS: &str = embedded!("portal_dns.cil");
const CREDENTIALS: &str = embedded!("credentials.cil");
const ETCD_UNIT: &str = embedded!("etcd_unit.cil.in");

/// What the module follows from: the same for every node.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    target: Option<&'a Target>,
    etcd: &'a EtcdWish,
    health: &'a HealthWish,
}

impl<'a> From<&'a Config> for Wish<'a> {
    fn from(config: &'a Config) -> Self {
        let target = config.backing.iscsi().map(|iscsi| &iscsi.target);
        Self { target, etcd: &config.etcd, health: &config.health }
    }
}

impl<'a> From<&'a Pool> for Wish<'a> {
    fn from(pool: &'a Pool) -> Self {
        Self { target: pool.storage.target(), etcd: &pool.etcd, health: &pool.health }
    }
}

/// The module for a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// As CIL.
    pub text: String,
    /// A label that is valid where this very text is in force, and nowhere else: see [`module`].
    pub mark: String,
}

/// Renders the module, the same bytes for the same config.
///
/// One type in it has the text's checksum in its name. Whether the kernel knows that type tells, to anybody and at no
/// cost, whether the policy in force has this text: no list of the policy store tells that, and reading the store is
/// a right that the service doesn't have.
pub fn module<'a>(wish: impl Into<Wish<'a>>) -> Module {
    let Wish { target, etcd, health } = wish.into();
    let template = match target {
        Some(_) => TEMPLATE,
        None => &without_iscsi(TEMPLATE),
    };
    let mut text = format!("{HEAD}\n{template}");
    let portals = || target.iter().flat_map(|target| &target.portals);
    if portals().any(|portal| portal.port() != ISCSI_PORT) {
        text = format!("{text}\n{OTHER_PORTS}");
    }
    if portals().any(|portal| portal.address().is_none()) {
        text = format!("{text}\n{PORTAL_DNS}");
    }
    if target
        .is_some_and(|target| target.secrets().any(|secret| matches!(secret, SecretSource::Credential(_))))
    {
        text = format!("{text}\n{CREDENTIALS}");
    }
    if let Runtime::Systemd { unit } = &etcd.runtime {
        text = format!("{text}\n{}", ETCD_UNIT.replace("@ETCD_UNIT@", &regex(unit)));
    }
    let mount_unit = regex(&unit::mount_unit_name(&etcd.data_dir));
    let text = text
        .replace("@DATA_DIR@", &regex(etcd.data_dir.as_str()))
        .replace("@MOUNT_UNIT@", &mount_unit)
        .replace("@TEXTFILE_DIR@", &regex(health.textfile.parent().as_str()));
    let checksum = &Hasher::of(text.as_bytes()).short();
    Module {
        mark: format!("system_u:object_r:etcd_lun_module_{checksum}_t:s0"),
        text: text.replace("@CHECKSUM@", checksum),
    }
}

/// The template for a device: without the rights that only a target needs, and without a label of ours on the files of an
/// open-iscsi that is somebody else's then.
fn without_iscsi(template: &str) -> String {
    const SECTIONS: [&str; 6] =
        ["iscsi-config", "iscsi-records", "iscsi-lock", "iscsi-login", "iscsid-restart", "iscsi-discovery"];
    let mut kept = String::new();
    let mut in_section = false;
    for line in template.lines() {
        if let Some(name) = line.strip_prefix(";; ") {
            in_section = SECTIONS.contains(&name);
        }
        if !in_section && !line.starts_with("(filecon \"/etc/iscsi(") {
            kept.extend([line, "\n"]);
        }
    }
    kept
}

/// As it is to stand in a file context, which is a regular expression (selabel_file(5)), inside a string of CIL.
fn regex(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            // CIL has no escapes in its strings: a quotation mark is matched as any letter.
            '"' => escaped.push('.'),
            '.' | '^' | '$' | '?' | '*' | '+' | '|' | '[' | ']' | '(' | ')' | '{' | '}' | '\\' => {
                escaped.extend(['\\', letter]);
            }
            plain => escaped.push(plain),
        }
    }
    escaped
}

/// What has a label by the module, and must be labelled anew when it came or changed; not all of it need exist.
pub fn labelled<'a>(wish: impl Into<Wish<'a>>) -> Vec<String> {
    let Wish { etcd, health, .. } = wish.into();
    let mount_unit = unit::mount_unit_name(&etcd.data_dir);
    let mut paths = vec![
        unit::PROGRAM.to_owned(),
        unit::PACKAGED_PROGRAM.to_owned(),
        "/etc/etcd-lun".to_owned(),
        "/etc/iscsi".to_owned(),
        format!("/etc/systemd/system/{mount_unit}"),
        "/run/etcd-lun".to_owned(),
        "/var/lib/etcd-lun".to_owned(),
        health.textfile.parent().to_string(),
    ];
    if let Runtime::Systemd { unit } = &etcd.runtime {
        // One in /usr is labelled by whoever makes the image: /usr may be read-only.
        paths.push(format!("/etc/systemd/system/{unit}"));
    }
    paths
}

/// The type in a label, `user:role:type:range`.
pub fn type_of(label: &str) -> Option<&str> {
    label.split(':').nth(2).filter(|found| !found.is_empty())
}

/// Whether a rule for labels is about a directory or what is in it: a line of `file_contexts.local`, which
/// `semanage fcontext` writes and which wins over every module.
pub fn is_rule_about(line: &str, dir: &AbsPath) -> bool {
    let Some(path) = line.split_whitespace().next() else { return false };
    path.strip_prefix(dir.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '(']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    fn pool(portal: &str, etcd: &str) -> Pool {
        let text = format!(
            "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"{portal}\"]\n[etcd]\n{etcd}\n"
        );
        Pool::load(&[Source { path: "config.toml".into(), text }]).unwrap()
    }

    const POD: &str = "runtime = \"static-pod\"";

    #[test]
    fn rendered() {
        let plain = module(&pool("10.0.0.1", POD));
        assert!(!plain.text.contains('@'), "{}", plain.text);
        assert!(plain.text.contains(r#"(filecon "/var/lib/etcd" "#));
        assert!(plain.text.contains(r"var-lib-etcd\.mount"));
        let name = type_of(&plain.mark).unwrap();
        assert!(name.starts_with("etcd_lun_module_") && plain.text.contains(&format!("(type {name})")));
        assert_eq!(module(&pool("10.0.0.2", POD)), plain);
        let credential =
            pool("10.0.0.1", &format!("{POD}\n[target.chap]\nusername = \"a\"\ncredential = \"chap\""));
        let others = [
            module(&pool("10.0.0.1:3261", POD)),
            module(&pool("san1.example", POD)),
            module(&credential),
            module(&pool("10.0.0.1", "runtime = \"systemd\"")),
            module(&pool("10.0.0.1", "runtime = \"static-pod\"\ndata_dir = \"/var/lib/etcd.d\"")),
        ];
        for other in &others {
            assert_ne!(other.mark, plain.mark);
            assert!(!other.text.contains('@'), "{}", other.text);
        }
        assert!(others[3].text.contains(r"etcd\.service"));
        assert!(others[4].text.contains(r#"(filecon "/var/lib/etcd\.d" "#));
    }

    #[test]
    fn a_device_takes_no_right_to_iscsi() {
        let text = "[device]\npath = \"/dev/disk/by-id/virtio-etcd0\"\n[etcd]\nruntime = \"static-pod\"\n";
        let device = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
        let (device, target) = (module(&device), module(&pool("10.0.0.1", POD)));
        for right in [
            "iscsi_port_t",
            "iscsi_var_lib_t",
            "iscsi_lock_t",
            "iscsi_unit_file_t",
            "allow etcd_lun_t iscsid_t",
            "\"/etc/iscsi(",
        ] {
            assert!(target.text.contains(right) && !device.text.contains(right), "{right}");
        }
        let sections = |text: &str| text.lines().filter(|line| line.starts_with(";; ")).count();
        assert_eq!(sections(&device.text), sections(&target.text) - 6);
        let brackets = |c| {
            device
                .text
                .lines()
                .filter(|l| !l.starts_with(';'))
                .flat_map(str::chars)
                .filter(|&l| l == c)
                .count()
        };
        assert_eq!(brackets('('), brackets(')'));
        assert!(!device.text.contains('@') && device.mark != target.mark, "{}", device.text);
    }

    #[test]
    fn escaped() {
        assert_eq!(regex("/a.b/c+d"), r"/a\.b/c\+d");
        assert_eq!(regex("/a\"(b)"), r"/a.\(b\)");
    }

    #[test]
    fn rules_about_the_data() {
        let dir: AbsPath = "/var/lib/etcd".parse().unwrap();
        for (line, about) in [
            ("/var/lib/etcd(/.*)?    system_u:object_r:container_var_lib_t:s0", true),
            ("/var/lib/etcd  -d  system_u:object_r:var_lib_t:s0", true),
            ("/var/lib/etcd/.*  system_u:object_r:var_lib_t:s0", true),
            ("/var/lib/etcd-backup(/.*)?  system_u:object_r:var_lib_t:s0", false),
            ("# /var/lib/etcd", false),
            ("", false),
        ] {
            assert_eq!(is_rule_about(line, &dir), about, "{line}");
        }
    }
}
