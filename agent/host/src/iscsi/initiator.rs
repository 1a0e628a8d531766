//! The initiator's name, by which every target knows this node.

use crate::Host;
use std::io;
use terms::{AbsPath, Iqn};

/// `INITIATOR_NAME_FILE`, usr/config.h. iscsid reads it only when it starts.
const FILE: &str = "/etc/iscsi/initiatorname.iscsi";

/// The name in the file, which iscsid would use; none if the file is absent or sets no name.
pub fn initiator_name(host: &Host) -> io::Result<Option<String>> {
    Ok(host.root.read_opt(FILE)?.as_deref().and_then(parse_name))
}

/// Debian's `GenerateName=yes` sets no name.
fn parse_name(text: &str) -> Option<String> {
    value_of(text, "InitiatorName")
}

/// Returns the value of the first line that sets this key. The line is parsed as tolerantly as iscsid does it
/// (`cfg_get_string_param`, usr/iscsi_util.c): the key may be anywhere before the `=`, but not after a `#`.
pub(super) fn value_of(text: &str, key: &str) -> Option<String> {
    let value = |line: &str| {
        let (before, after) = line.split_once(key)?;
        let value = after.split_once('=')?.1.trim();
        (!before.contains('#') && !value.is_empty()).then(|| value.to_owned())
    };
    text.lines().find_map(value)
}

/// Sets the name by replacing the file. Its mode is 0600, as with open-iscsi's own script (`iscsi-gen-initiatorname`)
/// and on Debian. iscsid reads the new name only after a restart.
pub fn set_initiator_name(host: &Host, name: &Iqn) -> io::Result<()> {
    let path: AbsPath = FILE.parse().map_err(io::Error::other)?;
    host.root.make_dir(path.parent().as_path(), 0o755)?;
    host.root.write_durably(&path, &format!("# Written by etcd-lun.\nInitiatorName={name}\n"), 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::tests::Fixture;

    #[test]
    fn names() {
        let debian = "## DO NOT EDIT OR REMOVE THIS FILE!\n## If you change the InitiatorName, existing \
            access control lists\n## may reject this initiator.  Do NOT duplicate iSCSI InitiatorNames.\n\
            InitiatorName=iqn.1993-08.org.debian:01:1a7a90cf58a8\n";
        for (text, name) in [
            (debian, Some("iqn.1993-08.org.debian:01:1a7a90cf58a8")),
            ("InitiatorName=iqn.a\nInitiatorName=iqn.b\n", Some("iqn.a")),
            ("  InitiatorName = iqn.1994-05.com.redhat:master0 \r\n", Some("iqn.1994-05.com.redhat:master0")),
            ("InitiatorName=\nInitiatorName\nInitiatorName=iqn.b", Some("iqn.b")),
            ("InitiatorName=iqn.b # comment", Some("iqn.b # comment")),
            ("InitiatorAlias=me\nInitiatorName=iqn.b\n", Some("iqn.b")),
            ("GenerateName=yes\n", None),
            ("#InitiatorName=iqn.b\n", None),
            ("", None),
        ] {
            assert_eq!(parse_name(text).as_deref(), name, "{text}");
        }
    }

    #[test]
    fn set_and_read() {
        let fixture = Fixture::new("name");
        assert_eq!(initiator_name(&fixture.host).unwrap(), None);
        let name: Iqn = "iqn.1994-05.com.redhat:master0".parse().unwrap();
        set_initiator_name(&fixture.host, &name).unwrap();
        assert_eq!(initiator_name(&fixture.host).unwrap().as_deref(), Some(name.as_str()));
        assert_eq!(fixture.host.root.mode(FILE).unwrap(), Some(0o600));
    }
}
