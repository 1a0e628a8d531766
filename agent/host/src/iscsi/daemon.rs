//! iscsid's own settings.

use super::initiator::value_of;
use crate::Host;
use std::io;

/// `CONFIG_FILE`, usr/config.h. iscsid reads it only when it starts.
const FILE: &str = "/etc/iscsi/iscsid.conf";

/// The file that iscsid reads in its place with our drop-in (units/etcd-lun-iscsid.conf.in).
const OURS: &str = "/run/etcd-lun-iscsid.conf";
/// The drop-in.
const DROP_IN: &str = "/etc/systemd/system/iscsid.service.d/50-etcd-lun.conf";

/// True if iscsid is set to end no session whose disks are mounted, swapped on or held, whoever asks (`iscsid.safe_logout`,
/// usr/iscsid.c: only `Yes` counts). An iscsid that has not been started since does not know it; with our drop-in each start
/// writes the file.
pub fn keeps_sessions_in_use(host: &Host) -> io::Result<bool> {
    let ours = match host.root.mode(DROP_IN)? {
        Some(_) => host.root.read_opt(OURS)?,
        None => None,
    };
    let text = match ours {
        Some(text) => Some(text),
        None => host.root.read_opt(FILE)?,
    };
    Ok(text.and_then(|text| value_of(&text, "iscsid.safe_logout")).as_deref() == Some("Yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::tests::Fixture;

    #[test]
    fn only_yes_counts() {
        let fixture = Fixture::new("safe-logout");
        assert!(!keeps_sessions_in_use(&fixture.host).unwrap());
        for (text, keeps) in [
            ("node.startup = manual\niscsid.safe_logout = Yes\n", true),
            ("# iscsid.safe_logout = Yes\n", false),
            ("iscsid.safe_logout = yes\n", false),
            ("iscsid.safe_logout = No\n", false),
            ("iscsid.safe_logout = No\niscsid.safe_logout = Yes\n", false),
            ("", false),
        ] {
            fixture.file(FILE, text);
            assert_eq!(keeps_sessions_in_use(&fixture.host).unwrap(), keeps, "{text}");
        }
        // Our file counts as long as iscsid's unit has our drop-in.
        fixture.file(OURS, "iscsid.safe_logout = Yes\n");
        assert!(!keeps_sessions_in_use(&fixture.host).unwrap());
        fixture.file(DROP_IN, "");
        assert!(keeps_sessions_in_use(&fixture.host).unwrap());
    }
}
