//! The names of mount and device units, which are escaped paths: systemd.unit(5), "String escaping for inclusion in unit
//! names".

use terms::AbsPath;

/// Escapes a path for a unit name, as `systemd-escape --path` does.
///
/// The root becomes `-`. Of any other path the leading slash is removed, inner slashes become `-`, and every byte that isn't
/// an ASCII letter, a digit, `:`, `_` or `.` becomes `\xNN`. So does a leading `.`.
pub fn escape_path(path: &AbsPath) -> String {
    let inner = path.as_str().trim_matches('/');
    if inner.is_empty() {
        return "-".into();
    }
    let mut escaped = String::new();
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'/' => escaped.push('-'),
            b'.' if at == 0 => escaped.push_str(r"\x2e"),
            b':' | b'_' | b'.' => escaped.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!(r"\x{byte:02x}")),
        }
    }
    escaped
}

/// The name of the mount unit for `place`.
///
/// systemd has no unit whose name is longer than 255 bytes; such a file can't even be created.
pub fn mount_unit_name(place: &AbsPath) -> String {
    escape_path(place) + ".mount"
}

/// The name of the device unit for a device node, or for a link to one.
pub fn device_unit_name(node: &AbsPath) -> String {
    escape_path(node) + ".device"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CASES: [(&str, &str); 12] = [
        ("/", "-"),
        ("/var/lib/etcd", "var-lib-etcd"),
        ("/dev/disk/by-label/etcd-lun", r"dev-disk-by\x2dlabel-etcd\x2dlun"),
        ("/.hidden/.x", r"\x2ehidden-.x"),
        ("/...", r"\x2e.."),
        ("/-", r"\x2d"),
        ("/a b", r"a\x20b"),
        (r"/a\x2db", r"a\x5cx2db"),
        ("/ü/日", r"\xc3\xbc-\xe6\x97\xa5"),
        ("/a@b:c_d%e", r"a\x40b:c_d\x25e"),
        ("/ lead/trail ", r"\x20lead-trail\x20"),
        (
            r#"/"'$*?[]{}~#!;&|<>=,+"#,
            r"\x22\x27\x24\x2a\x3f\x5b\x5d\x7b\x7d\x7e\x23\x21\x3b\x26\x7c\x3c\x3e\x3d\x2c\x2b",
        ),
    ];

    #[test]
    fn escaping() {
        for (path, escaped) in CASES {
            assert_eq!(escape_path(&path.parse().unwrap()), escaped, "{path}");
        }
        let path: AbsPath = "/dev/sda".parse().unwrap();
        assert_eq!(
            (mount_unit_name(&path), device_unit_name(&path)),
            ("dev-sda.mount".into(), "dev-sda.device".into())
        );
    }

    /// Compares with the tool, where it is installed. The table above is tested everywhere.
    #[test]
    #[allow(clippy::disallowed_methods)] // the oracle of a test
    fn as_systemd_escape() {
        let ascii = (b' '..=b'~').map(char::from).filter(|&c| c != '/');
        let single = ascii.flat_map(|c| [format!("/x{c}y/{c}z"), format!("/{c}q"), format!("/q{c}")]);
        let paths = CASES.iter().map(|(path, _)| (*path).to_owned()).chain(single);
        // A path with a component "." or ".." isn't an `AbsPath`.
        let paths: Vec<AbsPath> = paths.filter_map(|path| path.parse().ok()).collect();
        let names = paths.iter().map(AbsPath::as_str);
        let Ok(output) = Command::new("systemd-escape").arg("--path").arg("--").args(names).output() else {
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let theirs: Vec<_> = text.split_whitespace().collect();
        let ours: Vec<_> = paths.iter().map(escape_path).collect();
        assert_eq!(ours, theirs);
        assert!(ours.len() > 280);
    }
}
