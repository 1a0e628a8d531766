//! Messages of D-Bus: what is understood here, zbus understands, and the same.

use crate::Input;
use etcd_lun::host::systemd::dbus::{Message, Variant};
use std::collections::HashMap;
use zbus::{
    ObjectPath, Variant as Told,
    wire::{
        Endian,
        serialized::{Context, Data},
    },
};

type All<'t> = HashMap<&'t str, Told<'t>>;

/// As PID 1 tells of a unit, in either byte order; and a signal and an error.
fn corpus() -> Vec<Vec<u8>> {
    let job = (7_u32, ObjectPath::try_from("/org/freedesktop/systemd1/job/7").unwrap());
    let command = ("/usr/bin/x", vec!["x", "-y"], false, 1_u64, 2_u64, 3_u64, 4_u64, 5_u32, 0_i32, 0_i32);
    let told: All<'_> = [
        ("Id", Told::from("x.service")),
        ("Job", job.clone().into()),
        ("ExecStart", vec![command].into()),
        ("DropInPaths", vec!["/etc/systemd/system/x.service.d/a.conf"].into()),
        ("NeedDaemonReload", true.into()),
        ("MainPID", 7_u32.into()),
        ("CPUUsageNSec", u64::MAX.into()),
        ("SocketBindAllow", vec![(1_i32, 2_u16)].into()),
        ("IPAddressAllow", vec![(2_i32, vec![10_u8, 0, 0, 1], 8_u32)].into()),
        ("More", Told::new(HashMap::from([("k", Told::new(Told::from(1.5)))]))),
    ]
    .into();
    let asked = zbus::Message::method_call("/", "GetAll").build(&()).unwrap();
    let asked = asked.header();
    let answer = |endian| zbus::Message::method_return(&asked).endian(endian).build(&told).unwrap();
    let signal = zbus::Message::signal("/a", "a.b", "JobRemoved").sender(":1.2");
    let refused = zbus::Message::error(&asked, "org.freedesktop.systemd1.NoSuchUnit");
    [
        answer(Endian::Little),
        answer(Endian::Big),
        signal.build(&(1_u32, job.1, "x.service", "done")).unwrap(),
        refused.build(&"Unit x.service not found.").unwrap(),
    ]
    .map(|message| message.data().to_vec())
    .into()
}

/// What zbus reads in the body of the same bytes.
fn theirs(bytes: &[u8]) -> Data<'static, 'static> {
    let endian = if bytes[0] == b'B' { Endian::Big } else { Endian::Little };
    let length: [u8; 4] = bytes[12..16].try_into().unwrap();
    let fields = if bytes[0] == b'B' { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
    let body = (16 + fields as usize).next_multiple_of(8);
    Data::new(bytes[body..].to_vec(), Context::new(endian, body))
}

fn same(ours: &Variant<'_>, theirs: &Told<'_>) {
    assert_eq!(ours.signature, theirs.value_signature().to_string());
    let mut value = ours.value;
    match ours.signature {
        "s" => assert_eq!(value.text().unwrap(), <&str>::try_from(theirs).unwrap()),
        "b" => assert_eq!(value.flag().unwrap(), bool::try_from(theirs).unwrap()),
        "u" => assert_eq!(value.number().unwrap(), u32::try_from(theirs).unwrap()),
        "as" => {
            let theirs: Vec<String> = theirs.try_clone().unwrap().try_into().unwrap();
            assert_eq!(value.texts().unwrap(), theirs);
        }
        _ => {}
    }
}

pub(super) fn answers() -> Input {
    Input {
        name: "D-Bus",
        corpus: corpus(),
        holds: Box::new(|bytes| {
            // A change that alters the length is one of the message too: its header says how long it is.
            let mut bytes = bytes.to_vec();
            if let (Some(start), true) = (bytes.first_chunk::<16>(), bytes.len() % 2 == 0) {
                let mut start = *start;
                start[4..8].fill(0);
                if let Ok(body) = Message::length(&start).map(|header| bytes.len().saturating_sub(header)) {
                    let body = body as u32;
                    let body = if start[0] == b'B' { body.to_be_bytes() } else { body.to_le_bytes() };
                    bytes[4..8].copy_from_slice(&body);
                }
            }
            let Ok(message) = Message::parse(bytes.clone()) else { return false };
            let _ = message.text();
            let signal = message.body("uoss").is_ok_and(|mut body| {
                let ours = (body.number(), body.path(), body.text(), body.text());
                let theirs = theirs(&bytes);
                let ((id, path, unit, result), _) =
                    theirs.deserialize::<(u32, ObjectPath<'_>, &str, &str)>().unwrap();
                assert_eq!(ours, (Ok(id), Ok(path.as_str()), Ok(unit), Ok(result)));
                true
            });
            let Ok(ours) = message.properties() else { return signal || message.error_name.is_some() };
            let theirs = theirs(&bytes);
            let (theirs, length) = theirs.deserialize::<All<'_>>().unwrap();
            assert_eq!(ours.len(), theirs.len());
            assert!(length <= bytes.len());
            for (name, value) in &ours {
                same(value, &theirs[name]);
            }
            true
        }),
    }
}
