//! Renders the SELinux policy module and the udev rule for a config, and lists the paths that get a label from them. Pure.
//!
//! The module is written in CIL, which `semodule --install` accepts directly: a node has no policy compiler. The comments in
//! `selinux/` say what each block allows and why; the rendered module doesn't contain them.

mod embedded;
mod udev;

pub use config::defaults::DATA_LABEL;
pub use udev::{RULE, rule};

use embedded::embedded;

use config::{Config, EtcdConfig, HealthConfig, Pool, Runtime, SecretSource, Target};
use terms::{AbsPath, ISCSI_PORT, checksum};

/// The module's name, which semodule derives from the name of the file.
pub const MODULE: &str = "etcd_lun";
/// The module's priority. It is below 400, the default of `semodule --install`, so that a person can install a replacement
/// (semodule(8)).
pub const PRIORITY: u32 = 350;
/// The domain of the service.
pub const DOMAIN: &str = "etcd_lun_t";
/// The type of the program file, by which PID 1 enters the domain.
pub const PROGRAM_TYPE: &str = "etcd_lun_exec_t";
/// The label of the runtime directory.
pub const RUNTIME_LABEL: &str = "system_u:object_r:etcd_lun_var_run_t:s0";
/// The label of everything in the filesystem in memory that has iscsiadm's records.
pub const RECORDS_LABEL: &str = "system_u:object_r:etcd_lun_records_t:s0";
/// The label of the hands' directory.
pub const HANDS_LABEL: &str = "system_u:object_r:etcd_lun_hands_run_t:s0";
/// The type of the directory for node-exporter's metrics.
pub const METRICS_TYPE: &str = "etcd_lun_metrics_t";
/// The label of the LUN's device node.
pub const DEVICE_LABEL: &str = "system_u:object_r:etcd_lun_device_t:s0";

/// Tells a reader of the module where its reasons are.
const HEAD: &str = "; The SELinux policy module of etcd-lun. What each block is for is said in its sources, in selinux/, below the same heading.";
const TEMPLATE: &str = embedded!("etcd_lun.cil.in");
const OTHER_PORTS: &str = embedded!("other_ports.cil");
const PORTAL_DNS: &str = embedded!("portal_dns.cil");
const CREDENTIALS: &str = embedded!("credentials.cil");
const ETCD_UNIT: &str = embedded!("etcd_unit.cil.in");
const STATIC_POD: &str = embedded!("static_pod.cil.in");

/// The part of the config that the module depends on: the same for every node.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInput<'a> {
    targets: &'a [Target],
    etcd: &'a EtcdConfig,
    health: &'a HealthConfig,
}

impl<'a> From<&'a Config> for PolicyInput<'a> {
    fn from(config: &'a Config) -> Self {
        Self { targets: config.storage.targets(), etcd: &config.etcd, health: &config.health }
    }
}

impl<'a> From<&'a Pool> for PolicyInput<'a> {
    fn from(pool: &'a Pool) -> Self {
        Self { targets: pool.storage.targets(), etcd: &pool.etcd, health: &pool.health }
    }
}

impl PolicyInput<'_> {
    /// etcd's data directory.
    pub fn data_dir(&self) -> &AbsPath {
        &self.etcd.data_dir
    }
}

/// The module for a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The module in CIL.
    pub text: String,
    /// A label that the kernel accepts only while a module with exactly this text is loaded: see [`module`].
    pub mark: String,
}

/// Renders the module, the same bytes for the same config.
///
/// The name of one type in the module contains the checksum of the module's text. If the kernel knows that type, the loaded
/// policy has exactly this text. Any process can ask the kernel, and at no cost. The policy store has no such list, and the
/// service has no right to read the store.
pub fn module<'a>(input: impl Into<PolicyInput<'a>>) -> Module {
    let PolicyInput { targets, etcd, health } = input.into();
    let template = match targets {
        [] => &without_iscsi(TEMPLATE),
        _ => TEMPLATE,
    };
    let mut text = format!("{HEAD}\n{template}");
    let portals = || targets.iter().flat_map(|target| &target.portals);
    if portals().any(|portal| portal.port() != ISCSI_PORT) {
        text = format!("{text}\n{OTHER_PORTS}");
    }
    if portals().any(|portal| portal.address().is_none()) {
        text = format!("{text}\n{PORTAL_DNS}");
    }
    let mut secrets = targets.iter().flat_map(Target::secrets);
    if secrets.any(|secret| matches!(secret, SecretSource::Credential(_))) {
        text = format!("{text}\n{CREDENTIALS}");
    }
    text = match &etcd.runtime {
        Runtime::Systemd { unit } => format!("{text}\n{}", ETCD_UNIT.replace("@ETCD_UNIT@", &regex(unit))),
        Runtime::StaticPod { .. } => format!("{text}\n{STATIC_POD}"),
    };
    let text = text
        .replace("@DATA_DIR@", &regex(etcd.data_dir.as_str()))
        .replace("@TEXTFILE_DIR@", &regex(health.textfile.parent().as_str()));
    let checksum = &checksum(&text);
    Module {
        mark: format!("system_u:object_r:etcd_lun_module_{checksum}_t:s0"),
        text: text.replace("@CHECKSUM@", checksum),
    }
}

/// The template for a device: without the rights that only a target needs, and without our label on the files of open-iscsi,
/// which other programs use then.
fn without_iscsi(template: &str) -> String {
    const SECTIONS: [&str; 7] = [
        "iscsi-config",
        "iscsi-database",
        "iscsi-login",
        "iscsid-start",
        "route",
        "portals",
        "hands-multipath",
    ];
    let mut kept = String::new();
    let mut in_section = false;
    for line in template.lines() {
        if let Some(name) = line.strip_prefix(";; ") {
            in_section = SECTIONS.contains(&name);
        }
        if !in_section && !line.starts_with("(filecon \"/etc/iscs[i]") {
            kept.extend([line, "\n"]);
        }
    }
    kept
}

/// Escapes a text for a file context, which is a regular expression (selabel_file(5)), inside a string of CIL.
fn regex(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            // CIL has no escapes in its strings, so a quotation mark becomes `.`, which matches any character.
            '"' => escaped.push('.'),
            '.' | '^' | '$' | '?' | '*' | '+' | '|' | '[' | ']' | '(' | ')' | '{' | '}' | '\\' => {
                escaped.extend(['\\', letter]);
            }
            plain => escaped.push(plain),
        }
    }
    escaped
}

/// The paths that get a label from the module, by restorecon. They must be relabelled when the module was installed or changed. Not
/// all of them need exist. Those in `/run` are not among them: restorecon finds each file by its path, and the service may make links
/// there.
pub fn labelled<'a>(input: impl Into<PolicyInput<'a>>) -> Vec<String> {
    let PolicyInput { etcd, health, .. } = input.into();
    let mut paths = vec![
        unit::PACKAGED_PROGRAM.to_owned(),
        "/etc/etcd-lun".to_owned(),
        "/etc/iscsi".to_owned(),
        "/var/lib/etcd-lun".to_owned(),
        health.textfile.parent().to_string(),
    ];
    // A unit in /usr gets its label when the image is built: /usr may be read-only on the node.
    if let Runtime::Systemd { unit } = &etcd.runtime {
        paths.push(format!("/etc/systemd/system/{unit}"));
    }
    paths
}

/// The type in a label, `user:role:type:range`.
pub fn type_of(label: &str) -> Option<&str> {
    label.split(':').nth(2).filter(|found| !found.is_empty())
}

/// True if a rule for labels is about a directory or its content. The rule is a line of `file_contexts.local`, which
/// `semanage fcontext` writes and which takes precedence over every module.
pub fn is_rule_about(line: &str, dir: &AbsPath) -> bool {
    let Some(path) = line.split_whitespace().next() else { return false };
    path.strip_prefix(dir.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '(']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Source;

    fn pool(portal: &str, etcd: &str) -> Pool {
        let text = format!(
            "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"{portal}\"]\n[etcd]\n{etcd}\n"
        );
        Pool::load(&[Source { path: "config.toml".into(), text }]).unwrap()
    }

    const POD: &str = "runtime = \"static-pod\"";

    /// Returns true if a placeholder of a template is left.
    fn has_placeholder(text: &str) -> bool {
        text.contains('@')
    }

    #[test]
    fn rendered() {
        let plain = module(&pool("10.0.0.1", POD));
        assert!(!has_placeholder(&plain.text), "{}", plain.text);
        assert!(plain.text.contains(r#"(filecon "/var/lib/etcd" "#));
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
            assert!(!has_placeholder(&other.text), "{}", other.text);
        }
        assert!(others[3].text.contains(r"etcd\.service"));
        assert!(others[4].text.contains(r#"(filecon "/var/lib/etcd\.d" "#));
    }

    /// The kernel is asked for the module of the pool, whichever target the node has.
    #[test]
    fn of_several_targets() {
        let target = |name: &str, portal: &str, more: &str| {
            format!(
                "[[target]]\nname = \"{name}\"\niqn = \"iqn.2024-02.com.example:{name}\"\nportals = [\"{portal}\"]\n{more}"
            )
        };
        let second = "[target.chap]\nusername = \"u\"\ncredential = \"chap\"\n";
        let targets = target("a", "10.0.0.1", "") + &target("b", "10.0.1.1:3261", second);
        let node = "[[node]]\nhostname = \"n\"\ninitiator = \"iqn.2024-02.x:n\"\nlun = 1\ntarget = \"a\"\n";
        let text = format!("{targets}[etcd]\n{POD}\n{node}");
        let both = Pool::load(&[Source { path: "config.toml".into(), text }]).unwrap();
        let credential = format!("{POD}\n{second}");
        assert_eq!(module(&both), module(&pool("10.0.1.1:3261", &credential)));
        assert_eq!(module(&both.clone().for_node("", "n").unwrap()), module(&both));
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
            "\"/etc/iscs[i]",
        ] {
            assert!(target.text.contains(right) && !device.text.contains(right), "{right}");
        }
        // mount(8) drops `context=` where it may not see that SELinux is on.
        assert!(device.text.contains("allow etcd_lun_hands_t security_t (filesystem (getattr))"));
        let sections = |text: &str| text.lines().filter(|line| line.starts_with(";; ")).count();
        assert_eq!(sections(&device.text), sections(&target.text) - 7);
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
        assert!(!has_placeholder(&device.text) && device.mark != target.mark, "{}", device.text);
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
