//! The units of the health check: its service and its timer; and the journal's catalog.

use super::{
    LOST_SERVICE, Rendered, SELINUX_CONTEXT, UnitError,
    template::{self, NOT_PLAIN, is_plain_path, unfit},
};
use config::HealthConfig;
use terms::AbsPath;

/// The service's name.
pub const HEALTH_SERVICE: &str = "etcd-lun-health.service";
/// The timer's name.
pub const HEALTH_TIMER: &str = "etcd-lun-health.timer";

/// The journal's catalog of our messages: it explains each message id (`journalctl -x`).
pub const CATALOG: &str = include_str!("../../../units/etcd-lun.catalog");
/// The path of the catalog: of journald's directories the one that is writable on Red Hat CoreOS (systemd
/// `src/libsystemd/sd-journal/catalog.c`).
pub const CATALOG_FILE: &str = "/usr/local/lib/systemd/catalog/etcd-lun.catalog";

/// `health --record` writes this file while the LUN is gone that is mounted for etcd. Then the unit starts another one.
pub const LOST: &str = "/run/etcd-lun/lost";

const SERVICE_TEMPLATE: &str = include_str!("../../../units/etcd-lun-health.service.in");
const TIMER_TEMPLATE: &str = include_str!("../../../units/etcd-lun-health.timer.in");

/// Renders service and timer. Fails on values that systemd would split or expand. `program` and `beneath` were validated when the main
/// service was rendered.
pub(super) fn health(
    program: &AbsPath,
    catalog: &str,
    beneath: &[AbsPath],
    config: &HealthConfig,
    at_target: bool,
) -> Result<[Rendered; 2], UnitError> {
    let dir = config.textfile.parent();
    let refuse = |why| {
        let (unit, value) = (HEALTH_SERVICE.into(), dir.to_string());
        Err(UnitError { unit, key: "ExecStartPre=", value, why })
    };
    if let Some(why) = unfit(dir.as_str()) {
        return refuse(why);
    }
    if !is_plain_path(&dir) {
        return refuse(NOT_PLAIN);
    }
    let beneath: Vec<_> = beneath.iter().map(AbsPath::as_str).collect();
    let lost = format!("-+/bin/sh -c '[ ! -e {LOST} ] || exec systemctl --no-block start {LOST_SERVICE}'");
    let service = [
        ("@BENEATH@", beneath.join(" ")),
        ("@SELINUX_CONTEXT@", SELINUX_CONTEXT.to_owned()),
        ("@TEXTFILE_DIR@", dir.to_string()),
        ("@CATALOG@", catalog.to_owned()),
        ("@PROGRAM@", program.to_string()),
        ("@LOST@", if at_target { lost } else { String::new() }),
    ];
    let timer = [("@INTERVAL@", config.interval.to_string())];
    Ok([
        Rendered { name: HEALTH_SERVICE.into(), text: template::filled(SERVICE_TEMPLATE, &service) },
        Rendered { name: HEALTH_TIMER.into(), text: template::filled(TIMER_TEMPLATE, &timer) },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendered() {
        let program: AbsPath = "/var/lib/etcd-lun/bin/etcd-lun".parse().unwrap();
        let of = |file: &str| {
            let config = HealthConfig { textfile: file.parse().unwrap(), interval: "90s".parse().unwrap() };
            health(&program, CATALOG_FILE, &["/var/lib".parse().unwrap()], &config, true)
        };
        let [service, timer] = of("/var/node_exporter/textfile/etcd-lun.prom").unwrap();
        let is_placeholder = |part: &str| {
            !part.is_empty() && part.bytes().all(|letter| letter.is_ascii_uppercase() || letter == b'_')
        };
        for unit in [&service, &timer] {
            assert!(!unit.text.split('@').any(is_placeholder), "{}", unit.text);
        }
        assert!(
            service.text.contains("\nExecStart=/var/lib/etcd-lun/bin/etcd-lun health --record\n"),
            "{}",
            service.text
        );
        assert!(timer.text.contains("\nOnUnitInactiveSec=90s\n"), "{}", timer.text);
        let said = of("/var/a b/x.prom").unwrap_err().to_string();
        assert!(
            said.starts_with("rendering etcd-lun-health.service: ExecStartPre= can't be `/var/a b`"),
            "{said}"
        );
    }

    /// Compiles the catalog with journalctl, where that is installed.
    #[test]
    #[allow(clippy::disallowed_methods)] // a real tool
    fn journald_takes_the_catalog() {
        use std::{fs, process::Command};
        let root = std::env::temp_dir().join(format!("etcd-lun-catalog-{}", std::process::id()));
        fs::create_dir_all(root.join("usr/lib/systemd/catalog")).unwrap();
        fs::create_dir_all(root.join("var/lib/systemd/catalog")).unwrap();
        fs::write(root.join("usr/lib/systemd/catalog/etcd-lun.catalog"), CATALOG).unwrap();
        let run = |verb: &str| Command::new("journalctl").arg(verb).arg("--root").arg(&root).output();
        if let Ok(updated) = run("--update-catalog") {
            assert!(updated.status.success(), "{}", String::from_utf8_lossy(&updated.stderr));
            let listed = String::from_utf8(run("--list-catalog").unwrap().stdout).unwrap();
            assert_eq!(listed.lines().count(), 3, "{listed}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
