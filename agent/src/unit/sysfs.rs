//! The unit that writes to the kernel's files in `/sys`, for services whose SELinux domain may not.

use super::{Rendered, template};

/// The template unit. The name of an instance says what to write.
pub const SYSFS_SERVICE: &str = "etcd-lun-sysfs@.service";

const TEMPLATE: &str = include_str!("../../../units/etcd-lun-sysfs@.service.in");
/// The requests that only an iSCSI session needs, as lines of the unit's script.
const AT_TARGET: &str = "\
fail:2) d=/sys/class/block/$$2/dm; grep -q ^mpath- $$d/uuid && /usr/sbin/dmsetup message \"$$(cat $$d/name)\" 0 fail_if_no_path; exit;; \\
scan:3) n=$$2$$3; f=/sys/class/iscsi_host/host$$2/device/scsi_host/host$$2/scan; t=\"0 $$3 -\";; \\
drop:4) n=$$2$$3$$4; d=$$2:0:$$3:$$4; f=/sys/bus/scsi/devices/$$d/delete; t=1; \\
case $$(readlink -f \"/sys/bus/scsi/devices/$$d\") in */session[0-9]*/$$d) ;; *) exit 3;; esac;; \\
timeout:3) n=$$2$$3; f=/sys/class/iscsi_session/session$$2/recovery_tmo; t=$$3;; \\
remove:2) d=$$2; f=/sys/class/block/$$d/device/delete; t=1; \\
case $$(readlink -f /sys/class/block/$$d) in */session[0-9]*/block/$$d) ;; *) exit 3;; esac;; \\
";

/// Renders the unit.
pub(super) fn sysfs_unit(at_target: bool) -> Rendered {
    let requests = if at_target { AT_TARGET } else { "" };
    let text = template::filled(TEMPLATE, &[("@AT_TARGET@", requests.to_owned())]);
    Rendered { name: SYSFS_SERVICE.into(), text }
}

/// The name of the instance for a request.
pub fn sysfs_service(request: &str) -> String {
    SYSFS_SERVICE.replacen('@', &format!("@{request}"), 1)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a real shell runs the script, which writes to a copy of /sys")]
mod tests {
    use super::*;
    use std::{
        fs,
        path::{Path, PathBuf},
        process::Command,
    };

    const SCAN: &str = "devices/platform/host2/scsi_host/host2/scan";
    const TIMEOUT: &str = "class/iscsi_session/session1/recovery_tmo";
    const SESSION: &str = "devices/platform/host2/session1/target2:0:0/2:0:0:1";
    const LOCAL: &str = "devices/pci0000:00/host0/target0:0:0/0:0:0:0";

    /// A copy of what the script uses of `/sys`: a disk of an iSCSI session (sdb), a local one (sda), a multipath map.
    struct Sys(PathBuf);

    impl Sys {
        fn new() -> Self {
            let sys = Self(std::env::temp_dir().join(format!("etcd-lun-sysfs-{}", std::process::id())));
            let of = |disk: &str, file: &str| format!("{disk}/{file}");
            for file in [
                SCAN.to_owned(),
                TIMEOUT.to_owned(),
                of(SESSION, "rescan"),
                of(SESSION, "delete"),
                of(LOCAL, "rescan"),
                of(LOCAL, "delete"),
                "devices/virtual/block/dm-0/uevent".into(),
            ] {
                let path = sys.0.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            for (map, uuid) in [("dm-0", "mpath-36001405"), ("dm-1", "LVM-x")] {
                let dir = sys.0.join(format!("devices/virtual/block/{map}/dm"));
                fs::create_dir_all(&dir).unwrap();
                // Links, so that they are not taken for what the script has written.
                for (name, text) in [("name", "mpath a"), ("uuid", uuid)] {
                    let file = sys.0.with_extension(format!("{map}-{name}"));
                    fs::write(&file, format!("{text}\n")).unwrap();
                    std::os::unix::fs::symlink(&file, dir.join(name)).unwrap();
                }
            }
            let link = |to: &str, at: &str| {
                let at = sys.0.join(at);
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(sys.0.join(to), at).unwrap();
            };
            for (disk, address) in [(SESSION, "2:0:0:1"), (LOCAL, "0:0:0:0")] {
                link(disk, &format!("bus/scsi/devices/{address}"));
            }
            for (disk, name) in [(SESSION, "sdb"), (LOCAL, "sda")] {
                let block = format!("{disk}/block/{name}");
                fs::create_dir_all(sys.0.join(&block)).unwrap();
                link(disk, &format!("{block}/device"));
                link(&block, &format!("class/block/{name}"));
            }
            link("devices/virtual/block/dm-0", "class/block/dm-0");
            link("devices/virtual/block/dm-1", "class/block/dm-1");
            link("devices/platform/host2", "class/iscsi_host/host2/device");
            sys
        }

        /// Runs the unit's script as systemd would, and returns whether it succeeded and all that it has written.
        fn asked(&self, at_target: bool, request: &str) -> (bool, Vec<(String, String)>) {
            let text = sysfs_unit(at_target).text;
            let script =
                text.split_once("ExecStart=/bin/sh -c '").unwrap().1.split_once("' sh %i").unwrap().0;
            let script = script.replace("\\\n", " ").replace("$$", "$");
            let script = script.replace("/sys/", &format!("{}/", self.0.display()));
            let script =
                script.replace("/usr/sbin/dmsetup", &format!("printf '%s\\n' >{}/dmsetup", self.0.display()));
            let done = Command::new("sh").args(["-c", &script, "sh", request]).output().unwrap();
            let mut written = Vec::new();
            collect(&self.0, &mut written);
            let short = |path: &Path| path.strip_prefix(&self.0).unwrap().display().to_string();
            (done.status.success(), written.iter().map(|(path, text)| (short(path), text.clone())).collect())
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Every file with a content, which it loses.
    fn collect(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                collect(&path, found);
            } else if kind.is_file() {
                let text = fs::read_to_string(&path).unwrap();
                if !text.is_empty() {
                    fs::write(&path, "").unwrap();
                    found.push((path, text));
                }
            }
        }
    }

    #[test]
    fn writes_what_the_name_says_and_nothing_else() {
        let sys = Sys::new();
        let one = |path: &str, text: &str| (true, vec![(path.to_owned(), format!("{text}\n"))]);
        assert_eq!(sys.asked(true, "scan:2:0"), one(SCAN, "0 0 -"));
        assert_eq!(sys.asked(true, "drop:2:0:1"), one(&format!("{SESSION}/delete"), "1"));
        assert_eq!(sys.asked(true, "timeout:1:3600"), one(TIMEOUT, "3600"));
        assert_eq!(sys.asked(true, "remove:sdb"), one(&format!("{SESSION}/delete"), "1"));
        for at_target in [true, false] {
            assert_eq!(sys.asked(at_target, "rescan:sdb"), one(&format!("{SESSION}/rescan"), "1"));
            assert_eq!(sys.asked(at_target, "rescan:sda"), one(&format!("{LOCAL}/rescan"), "1"));
            assert_eq!(
                sys.asked(at_target, "change:dm-0"),
                one("devices/virtual/block/dm-0/uevent", "change")
            );
        }
        assert_eq!(sys.asked(true, "fail:dm-0"), one("dmsetup", "message\nmpath a\n0\nfail_if_no_path"));
        // A local disk is never removed, nor forgotten. Neither wildcards nor paths, nor names of other files.
        for request in [
            "remove:sda",
            "drop:0:0:0",
            "drop:2:0:2",
            "drop:2:0:-",
            "drop:2:0:",
            "drop:2:0",
            "scan:2:-",
            "scan:-:-",
            "scan:2",
            "scan:2:0:1",
            "scan:0:0",
            "scan:2:",
            "timeout:1:-1",
            "timeout:1:off",
            "rescan:",
            "rescan:../sda",
            "rescan:..",
            "change:*",
            "change:dm-0/../dm-0",
            "change:$(id)",
            "remove:",
            "uevent:dm-0",
            "fail:dm-1",
            "fail:sda",
            "fail:",
            "",
        ] {
            assert_eq!(sys.asked(true, request), (false, vec![]), "{request}");
        }
        for request in ["scan:2:0", "drop:2:0:1", "timeout:1:3600", "remove:sdb", "fail:dm-0"] {
            assert_eq!(sys.asked(false, request), (false, vec![]), "{request}");
        }
        assert_eq!(sysfs_service("scan:2:0"), "etcd-lun-sysfs@scan:2:0.service");
    }
}
