//! The kernel's sessions, as sysfs shows them.
//!
//! ```text
//! /sys/class/iscsi_session/session3/{targetname,state,initiatorname,target_id,tpgt,recovery_tmo}
//! /sys/class/iscsi_session/session3/device -> ../../../host2/session3
//! /sys/class/iscsi_connection/connection3:0/{persistent_address,persistent_port,address,port,state}
//! /sys/class/iscsi_host/host2/ipaddress
//! ```
//!
//! Nothing else is read there, because other attributes hold the CHAP secrets in clear text. Formats: Linux
//! drivers/scsi/scsi_transport_iscsi.c.

use crate::{
    Host,
    root::absent_is_none,
    route::{self, Outgoing},
};
use std::{io, net::IpAddr, str::FromStr, time::Duration};
use terms::{Endpoint, INTERFACE, Session, TargetName};

const SESSIONS: &str = "/sys/class/iscsi_session";
const CONNECTIONS: &str = "/sys/class/iscsi_connection";

/// A session of which nothing but its number and its host is known.
fn unread(sid: u32, host_no: u32) -> Session {
    Session {
        sid,
        target: String::new(),
        state: UNKNOWN.into(),
        initiator: None,
        interface: None,
        portal: None,
        address: None,
        connection: None,
        host_no,
        target_id: None,
        tpgt: None,
        recovery_timeout: None,
    }
}

/// How often, and after which pause, a session is read again if reading fails because the session is just appearing or
/// ending.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// All sessions, by number; none if the kernel's iSCSI modules are not loaded.
///
/// Two kinds are left out: a session that ends while it is read, and a session that has no target name yet. The kernel
/// has made the second kind, but iscsid has not set its target yet.
pub fn sessions(host: &Host) -> io::Result<Vec<Session>> {
    let mut sessions = Vec::new();
    for name in host.root.list_opt(SESSIONS)?.unwrap_or_default() {
        sessions.extend(read_unless_gone(host, &name)?);
    }
    sessions.sort_by_key(|session| session.sid);
    Ok(sessions)
}

/// The sessions of our interface to one target.
pub fn sessions_of(host: &Host, target: &TargetName) -> io::Result<Vec<Session>> {
    let all = sessions(host)?;
    Ok(all.into_iter().filter(|session| session.is_of(target)).collect())
}

/// Sets for how long a session without a connection keeps commands waiting. The session must be connected. Otherwise
/// its timer is running already, and the kernel refuses the change (`iscsi_priv_session_rw_attr`). The session's record
/// is not changed.
pub fn set_recovery_timeout(host: &Host, sid: u32, limit: Duration) -> io::Result<()> {
    host.root.poke(format!("{SESSIONS}/session{sid}/recovery_tmo"), &limit.as_secs().to_string())
}

/// Reads a session. While the kernel removes a session, its attributes disappear first, with ENOENT or ENODEV; it stays
/// listed for a moment longer. Seen on Linux 6.12.
fn read_unless_gone(host: &Host, name: &str) -> io::Result<Option<Session>> {
    let mut tries = 0;
    loop {
        let error = match read_session(host, name) {
            Ok(session) => return Ok(session),
            Err(error) => error,
        };
        tries += 1;
        if host.root.mode(format!("{SESSIONS}/{name}"))?.is_none() {
            tracing::debug!("{name} ended while it was read: {error}");
            return Ok(None);
        }
        if tries == TRIES {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
}

fn read_session(host: &Host, name: &str) -> io::Result<Option<Session>> {
    let dir = format!("{SESSIONS}/{name}");
    let sid = number(name, "session").ok_or_else(|| unknown(&dir, name))?;
    let Some(target) = text(host, &dir, "targetname")? else { return Ok(None) };
    let device = host.root.resolve(format!("{dir}/device"))?;
    let device = device.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{dir}/device")))?;
    let host_no = device.iter().rev().find_map(|part| number(part.to_str()?, "host"));
    let host_no = host_no.ok_or_else(|| unknown(&dir, &device.display().to_string()))?;
    let interface = absent_is_none(text(host, &dir, "ifacename"))?.flatten();
    if interface.as_deref() != Some(INTERFACE) {
        return Ok(Some(of_others(host, &dir, Session { target, interface, ..unread(sid, host_no) })));
    }
    let connection = read_connection(host, sid)?;
    Ok(Some(Session {
        target,
        state: text(host, &dir, "state")?.unwrap_or_else(|| UNKNOWN.into()),
        initiator: text(host, &dir, "initiatorname")?,
        interface,
        portal: connection.portal,
        address: connection.address,
        connection: connection.state,
        target_id: absent_is_none(value(host, &dir, "target_id"))?.flatten(),
        tpgt: value(host, &dir, "tpgt")?,
        recovery_timeout: value(host, &dir, "recovery_tmo")?,
        ..unread(sid, host_no)
    }))
}

/// The state of a session whose state the kernel does not report.
const UNKNOWN: &str = "unknown";

/// The session of another program. What of it cannot be read is left out: the driver of an offload card shows no initiator name
/// (drivers/scsi/qla4xxx/ql4_os.c, `qla4_attr_is_visible`), and nothing that concerns our LUN depends on it.
fn of_others(host: &Host, dir: &str, known: Session) -> Session {
    let read = |attribute| text(host, dir, attribute).ok().flatten();
    let connection = read_connection(host, known.sid).unwrap_or_default();
    Session {
        state: read("state").unwrap_or_else(|| UNKNOWN.into()),
        initiator: read("initiatorname"),
        portal: connection.portal,
        address: connection.address,
        connection: connection.state,
        ..known
    }
}

#[derive(Debug, Default)]
struct Connection {
    portal: Option<Endpoint>,
    address: Option<Endpoint>,
    state: Option<String>,
}

/// The session's connection. open-iscsi makes only one.
fn read_connection(host: &Host, sid: u32) -> io::Result<Connection> {
    let names = host.root.list_opt(CONNECTIONS)?.unwrap_or_default();
    let prefix = format!("connection{sid}:");
    let Some(name) = names.iter().find(|name| name.starts_with(&prefix)) else {
        return Ok(Connection::default());
    };
    let dir = format!("{CONNECTIONS}/{name}");
    let endpoint = |address, port| -> io::Result<Option<Endpoint>> {
        let host_name = text(host, &dir, address)?;
        Ok(host_name.zip(value(host, &dir, port)?).map(|(host, port)| Endpoint { host, port }))
    };
    let address = match endpoint("address", "port") {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
        other => other?,
    };
    Ok(Connection {
        // A kernel or driver that has no portal for it is connected to it.
        portal: endpoint("persistent_address", "persistent_port")?.or_else(|| address.clone()),
        address,
        state: absent_is_none(text(host, &dir, "state"))?.flatten(),
    })
}

/// Returns where the packets of a session leave this machine: over the interface with the address of its connection, which the
/// kernel shows for a session over TCP (`iscsi_sw_tcp_host_get_param`). None without a connection, or if no interface has the address.
pub fn outgoing(host: &Host, session: &Session) -> io::Result<Option<Outgoing>> {
    let dir = format!("/sys/class/iscsi_host/host{}", session.host_no);
    let from: Option<IpAddr> = match value(host, &dir, "ipaddress") {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
        other => other?,
    };
    from.map_or(Ok(None), |from| route::outgoing(host, from))
}

/// An attribute; none if the kernel has no value, which it prints as an empty text or as a null pointer.
fn text(host: &Host, dir: &str, attribute: &str) -> io::Result<Option<String>> {
    let text = host.root.read(format!("{dir}/{attribute}"))?;
    let text = text.trim_end_matches('\n');
    if text.chars().any(char::is_control) {
        return Err(unknown(&format!("{dir}/{attribute}"), text));
    }
    Ok((!matches!(text, "" | "(null)" | "<NULL>")).then(|| text.to_owned()))
}

/// A number; none if the kernel prints `off` or -1.
fn value<T: FromStr>(host: &Host, dir: &str, attribute: &str) -> io::Result<Option<T>> {
    match text(host, dir, attribute)?.as_deref() {
        None | Some("off" | "-1") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| unknown(&format!("{dir}/{attribute}"), text)),
    }
}

fn number(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix).filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

fn unknown(path: &str, found: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path}: found `{}`", found.escape_debug()))
}

/// Tells the kernel to ask a session's target for its LUNs (REPORT LUNS), and waits for the end of the scan. The kernel then knows
/// all LUNs that the target shows this initiator, by the addresses that the target has reported.
///
/// A scan for one LUN would need its address, and the kernel sends a number as it is: for the 300 of an array with flat
/// addressing it would ask for another LUN ([`LunAddress`](terms::LunAddress)).
///
/// This succeeds also if the target has no LUN and if the session isn't connected, because the kernel reports no result
/// (`iscsi_user_scan`, drivers/scsi/scsi_transport_iscsi.c). The channel is always 0. Host and target are given, so no other
/// session is scanned.
pub fn scan(host: &Host, session: &Session) -> io::Result<()> {
    let path = format!("/sys/class/scsi_host/host{}/scan", session.host_no);
    let target_id = session.target_id.ok_or_else(|| {
        io::Error::other(format!(
            "session {} to {} is not bound to its SCSI host",
            session.sid, session.target
        ))
    })?;
    host.root.poke(path, &format!("0 {target_id} -"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::iscsi::tests::Fixture;
    use std::{fs, os::unix::fs::symlink};

    /// As Linux 6.12 shows a session of iscsi_tcp.
    pub(in crate::iscsi) fn session(fixture: &Fixture, sid: u32, persistent: &str, address: Option<&str>) {
        let device = format!("/sys/devices/platform/host{}/session{sid}", sid + 1);
        let real = format!("{device}/iscsi_session/session{sid}");
        for (name, text) in [
            ("targetname", "iqn.2024-02.com.example:etcd\n"),
            ("state", "LOGGED_IN\n"),
            ("initiatorname", "iqn.1994-05.com.redhat:master0\n"),
            ("ifacename", "etcd-lun\n"),
            ("target_id", "0\n"),
            ("tpgt", "1\n"),
            ("recovery_tmo", "120\n"),
        ] {
            fixture.file(&format!("{real}/{name}"), text);
        }
        let link = |target: &str, name: String| {
            let path = fixture.host.root.locate(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(fixture.host.root.locate(target), path).unwrap();
        };
        link(&device, format!("{real}/device"));
        link(&real, format!("{SESSIONS}/session{sid}"));
        let connection = format!("{CONNECTIONS}/connection{sid}:0");
        for (name, text) in [("persistent_address", persistent), ("persistent_port", "3260")]
            .into_iter()
            .chain([("address", address.unwrap_or("(null)")), ("port", "3260"), ("state", "up")])
        {
            fixture.file(&format!("{connection}/{name}"), &format!("{text}\n"));
        }
    }

    /// The kernel shows an address of IPv6 in full, and none of a session whose connection is lost.
    #[test]
    fn the_interface_of_a_connection() {
        let fixture = Fixture::new("outgoing");
        session(&fixture, 1, "10.77.0.1", Some("10.77.0.1"));
        let session = sessions(&fixture.host).unwrap().remove(0);
        fixture.file("/sys/class/net/lo/mtu", "65536\n");
        for (from, interface) in [
            ("127.0.0.1", Some("lo")),
            ("0000:0000:0000:0000:0000:ffff:7f00:0001", Some("lo")),
            ("203.0.113.7", None),
            ("(null)", None),
        ] {
            fixture.file("/sys/class/iscsi_host/host2/ipaddress", &format!("{from}\n"));
            let found = outgoing(&fixture.host, &session).unwrap();
            let wanted = interface.map(|name| Outgoing { interface: name.into(), mtu: Some(65536) });
            assert_eq!(found, wanted, "{from}");
        }
    }

    #[test]
    fn none_and_some() {
        let fixture = Fixture::new("sessions");
        assert_eq!(sessions(&fixture.host).unwrap(), []);
        session(&fixture, 10, "san1.example", Some("10.77.0.1"));
        session(&fixture, 9, "2001:db8::1", Some("2001:0db8:0000:0000:0000:0000:0000:0001"));
        session(&fixture, 11, "(null)", None);
        session(&fixture, 12, "(null)", Some("10.77.0.9"));
        let found = sessions(&fixture.host).unwrap();
        assert_eq!(
            found.iter().map(|one| (one.sid, one.host_no)).collect::<Vec<_>>(),
            [(9, 10), (10, 11), (11, 12), (12, 13)]
        );
        let shown = |end: &Option<Endpoint>| end.as_ref().map(ToString::to_string).unwrap_or_default();
        assert_eq!(shown(&found[0].address), "[2001:db8::1]:3260");
        assert_eq!(shown(&found[1].portal), "san1.example:3260");
        assert_eq!((&found[2].portal, &found[2].address), (&None, &None));
        assert_eq!(shown(&found[3].portal), "10.77.0.9:3260", "no portal is known, but an address");
        for (index, portal, is_there) in [
            (0, "[2001:DB8:0::1]", true),
            (0, "[2001:db8::1]:3261", false),
            (1, "SAN1.example", true),
            (1, "10.77.0.1", true),
            (1, "10.77.0.2", false),
            (2, "10.77.0.1", false),
        ] {
            assert_eq!(found[index].is_at(&portal.parse().unwrap()), is_there, "{portal}");
        }
        let one = &found[1];
        assert!(one.is_logged_in());
        assert_eq!((one.target_id, one.tpgt, one.recovery_timeout), (Some(0), Some(1), Some(120)));
        assert_eq!(one.initiator.as_deref(), Some("iqn.1994-05.com.redhat:master0"));
        assert_eq!(one.interface.as_deref(), Some("etcd-lun"));
        let target: TargetName = "iqn.2024-02.com.example:etcd".parse().unwrap();
        let ours =
            || -> Vec<_> { sessions_of(&fixture.host, &target).unwrap().iter().map(|one| one.sid).collect() };
        assert_eq!(ours(), [9, 10, 11, 12]);
        // A machine that boots from a LUN of the same target, with the same initiator name.
        fixture.file(&format!("{SESSIONS}/session10/ifacename"), "default\n");
        assert_eq!(ours(), [9, 11, 12]);
    }

    #[test]
    fn a_session_of_an_offload_card_hides_no_other() {
        let fixture = Fixture::new("offload");
        session(&fixture, 1, "10.77.0.1", None);
        session(&fixture, 2, "10.77.0.2", None);
        let dir = format!("{SESSIONS}/session2");
        for attribute in ["ifacename", "initiatorname", "tpgt", "recovery_tmo", "state"] {
            fs::remove_file(fixture.host.root.locate(format!("{dir}/{attribute}"))).unwrap();
        }
        fixture.file(&format!("{CONNECTIONS}/connection2:0/port"), "none\n");
        let found = sessions(&fixture.host).unwrap();
        assert_eq!(found.iter().map(|one| one.sid).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            (found[1].state.as_str(), &found[1].initiator, &found[1].portal),
            ("unknown", &None, &None)
        );
    }

    #[test]
    fn unset_is_none_and_unknown_is_an_error() {
        let fixture = Fixture::new("attributes");
        session(&fixture, 1, "10.77.0.1", None);
        let dir = format!("{SESSIONS}/session1");
        let set = |name: &str, text: &str| fixture.file(&format!("{dir}/{name}"), text);
        set("recovery_tmo", "off\n");
        set("target_id", "-1\n");
        set("initiatorname", "(null)\n");
        set("state", "FAILED\n");
        let found = sessions(&fixture.host).unwrap().remove(0);
        assert_eq!((found.recovery_timeout, found.target_id, found.initiator.as_ref()), (None, None, None));
        assert!(!found.is_logged_in());
        assert!(scan(&fixture.host, &found).is_err());
        for (name, text) in [
            ("recovery_tmo", "soon\n"),
            ("tpgt", "70000\n"),
            ("targetname", "iqn\u{7}\n"),
            ("state", "\u{1b}[2J\n"),
        ] {
            let path = format!("{dir}/{name}");
            let good = fixture.host.root.read(&path).unwrap();
            set(name, text);
            let error = sessions(&fixture.host).unwrap_err().to_string();
            assert!(error.starts_with(&dir) && !error.contains('\u{1b}'), "{error}");
            set(name, &good);
        }
        for unset in ["", "(null)\n"] {
            set("targetname", unset);
            assert_eq!(sessions(&fixture.host).unwrap(), [], "just being made");
        }
        fs::remove_file(fixture.host.root.locate(format!("{dir}/targetname"))).unwrap();
        assert!(sessions(&fixture.host).is_err(), "the session is there, its name isn't");
        fs::remove_dir_all(fixture.host.root.locate("/sys/devices")).unwrap();
        assert_eq!(sessions(&fixture.host).unwrap(), [], "a link that leads nowhere any more");
    }

    #[test]
    fn scan_names_no_lun_and_no_other_session() {
        let fixture = Fixture::new("scan");
        session(&fixture, 1, "10.77.0.1", None);
        fixture.file("/sys/class/scsi_host/host2/scan", "");
        let found = sessions(&fixture.host).unwrap().remove(0);
        scan(&fixture.host, &found).unwrap();
        assert_eq!(fixture.host.root.read("/sys/class/scsi_host/host2/scan").unwrap(), "0 0 -");
    }
}
