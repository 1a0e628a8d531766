//! Held against zbus, which writes what is read here and reads what is written here; and against a bus that lies.

use super::*;
use std::{collections::HashMap, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};
use zbus::{ObjectPath, Variant as Told, wire::Endian};

/// A call of zbus, to be answered.
fn asked() -> zbus::Message {
    zbus::Message::method_call("/", "GetAll").sender(":1.7").build(&()).unwrap()
}

fn answer<B: serde::Serialize + zbus::wire::DynamicType>(body: &B, endian: Endian) -> Vec<u8> {
    let asked = asked();
    let answer = zbus::Message::method_return(&asked.header()).endian(endian).build(body).unwrap();
    answer.data().to_vec()
}

#[test]
fn calls_as_zbus_writes_them() {
    let arguments: [&[&str]; 5] = [&[], &["x.service"], &["x.service", "replace"], &[""], &["é", "", "abc"]];
    for arguments in arguments {
        let (destination, path) = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1");
        let (interface, method) = ("org.freedesktop.systemd1.Manager", "StartUnit");
        let call = || {
            let call = zbus::Message::method_call(path, method);
            call.interface(interface).destination(destination)
        };
        let theirs = match *arguments {
            [] => call().build(&()),
            [one] => call().build(&one),
            [one, two] => call().build(&(one, two)),
            [one, two, three] => call().build(&(one, two, three)),
            _ => panic!("{arguments:?}"),
        };
        let theirs = theirs.unwrap();
        let serial = theirs.primary_header().serial_num().get();
        let ours = Call { destination, path, interface, method, arguments }.message(serial).unwrap();
        assert_eq!(ours, theirs.data().to_vec(), "{arguments:?}");
        let read = Message::parse(ours).unwrap();
        assert_eq!(
            (read.kind, read.member.as_deref(), read.path.as_deref()),
            (Kind::Call, Some(method), Some(path))
        );
    }
    let null = Call { destination: "a.b", path: "/", interface: "a.b", method: "C", arguments: &["a\0b"] };
    assert!(matches!(null.message(1), Err(DbusError::Null)));
}

#[test]
fn answers_as_zbus_writes_them() {
    let nested = (7_u8, vec![(1_i16, 2.5_f64, vec!["a"]), (3, 4.5, vec![])], Told::new(Told::new(true)));
    let told: HashMap<&str, Told<'_>> = [
        ("Text", Told::from("x")),
        ("Flag", true.into()),
        ("Number", u32::MAX.into()),
        ("Texts", vec!["a", "", "é"].into()),
        ("None", Vec::<&str>::new().into()),
        ("Job", (7_u32, ObjectPath::try_from("/job/7").unwrap()).into()),
        ("Nested", nested.into()),
        ("Bytes", vec![0_u8, 255].into()),
        ("Wide", (1_u16, -1_i64, u64::MAX, -5_i32).into()),
        ("Signature", zbus::Signature::try_from("a{sv}").unwrap().into()),
        ("Table", HashMap::from([("k", Told::from(1_u8))]).into()),
    ]
    .into();
    for endian in [Endian::Little, Endian::Big] {
        let message = Message::parse(answer(&told, endian)).unwrap();
        let read = message.properties().unwrap();
        assert_eq!(read.len(), told.len());
        for (name, value) in &told {
            assert_eq!(read[name].signature, value.value_signature().to_string(), "{name}");
        }
        let value = |name: &str| read[name].value;
        assert_eq!((value("Text").text(), value("Flag").flag()), (Ok("x"), Ok(true)));
        assert_eq!(value("Number").number(), Ok(u32::MAX));
        assert_eq!(value("Texts").texts().unwrap(), ["a", "", "é"]);
        assert_eq!(value("None").texts().unwrap(), Vec::<String>::new());
        let mut job = value("Job");
        job.begin_struct().unwrap();
        assert_eq!((job.number(), job.path()), (Ok(7), Ok("/job/7")));
        assert!(message.body("s").is_err());
        // Cut anywhere it is no message; with a byte changed it is one or none, and never a panic.
        let whole = answer(&told, endian);
        for at in 0..whole.len() {
            assert!(Message::parse(whole[..at].to_vec()).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                if let Ok(message) = Message::parse(changed) {
                    let _ = message.properties();
                }
            }
        }
    }
}

#[test]
fn errors_and_signals() {
    let asked = asked();
    let refused = zbus::Message::error(&asked.header(), "org.freedesktop.systemd1.NoSuchUnit");
    let refused =
        Message::parse(refused.build(&"Unit x.service not found.").unwrap().data().to_vec()).unwrap();
    assert_eq!(refused.error_name.as_deref(), Some("org.freedesktop.systemd1.NoSuchUnit"));
    assert_eq!(refused.text().as_deref(), Some("Unit x.service not found."));
    let refused = zbus::Message::error(&asked.header(), "a.B").build(&7_u32).unwrap();
    assert_eq!(Message::parse(refused.data().to_vec()).unwrap().text(), None);
    let signal = zbus::Message::signal("/a", "a.b", "C").sender(":1.2");
    let signal = signal.build(&(1_u32, ObjectPath::try_from("/j").unwrap(), "u", "done")).unwrap();
    let signal = Message::parse(signal.data().to_vec()).unwrap();
    assert_eq!((signal.kind, signal.sender.as_deref()), (Kind::Signal, Some(":1.2")));
    let mut body = signal.body("uoss").unwrap();
    assert_eq!(
        (body.number(), body.path(), body.text(), body.text()),
        (Ok(1), Ok("/j"), Ok("u"), Ok("done"))
    );
    assert!(body.is_at_end());
}

/// A message of a type, with fields of an array and a body, both as bytes.
fn raw(kind: u8, fields: &[u8], body: &[u8]) -> Vec<u8> {
    let mut message = vec![b'l', kind, 0, 1];
    message.extend((body.len() as u32).to_le_bytes());
    message.extend(1_u32.to_le_bytes());
    message.extend((fields.len() as u32).to_le_bytes());
    message.extend(fields);
    message.resize(message.len().next_multiple_of(8), 0);
    message.extend(body);
    message
}

#[test]
fn against_the_specification() {
    let serial = [5, 1, b'u', 0, 9, 0, 0, 0];
    let texts = [[8, 1, b'g', 0, 1, b's', 0, 0], serial].concat();
    assert!(Message::parse(raw(2, &serial, b"")).is_ok());
    // A field and a type that a later specification may have.
    let later = [serial, [99, 1, b'y', 0, 1, 0, 0, 0]].concat();
    assert!(Message::parse(raw(2, &later[..13], b"")).is_ok());
    assert_eq!(Message::parse(raw(77, b"", b"")).unwrap().kind, Kind::Unknown);
    let body = |body: &[u8]| {
        Message::parse(raw(2, &texts, body)).unwrap().body("s").map(|mut body| body.text().map(str::to_owned))
    };
    assert_eq!(body(b"\x01\0\0\0a\0"), Ok(Ok("a".into())));
    for garbled in [
        &b"\x01\0\0\0a\0\0"[..], // longer than its type
        b"\x01\0\0\0a",          // without its null
        b"\x02\0\0\0a\0\0",      // with one too many
        b"\x01\0\0\0\xff\0",     // no UTF-8
        b"\xff\xff\xff\xff",     // announced, not sent
        b"",
    ] {
        assert!(body(garbled).is_err(), "{garbled:?}");
    }
    for (name, message) in [
        ("no type", raw(0, &serial, b"")),
        ("no serial of a call", raw(2, b"", b"")),
        ("padding that isn't zero", raw(2, &[&serial[..], &[7, 1, b's', 1]].concat(), b"")),
        ("descriptors", raw(2, &[serial, [9, 1, b'u', 0, 1, 0, 0, 0]].concat(), b"")),
        ("a field of another type", raw(2, &[5, 1, b's', 0, 1, 0, 0, 0, b'9', 0], b"")),
        ("a field that is invalid", raw(2, &[serial, [0, 1, b'u', 0, 1, 0, 0, 0]].concat(), b"")),
        ("an array that ends in a field", raw(2, &[&serial[..], &[99]].concat(), b"")),
        ("no such path", raw(4, &[1, 1, b'o', 0, 2, 0, 0, 0, b'/', b'/', 0], b"")),
    ] {
        assert!(Message::parse(message).is_err(), "{name}");
    }
    for (at, byte) in [(0, b'x'), (3, 2), (8, 0)] {
        let mut message = raw(2, &serial, b"");
        message[at] = byte;
        assert!(Message::parse(message).is_err(), "{at}");
    }
    let mut long = [0; 16];
    long[..4].copy_from_slice(b"l\x02\0\x01");
    for (at, over) in [(4, LENGTH_MAX as u32 - 15), (4, u32::MAX), (12, u32::MAX), (12, LENGTH_MAX as u32)] {
        let mut start = long;
        start[at..at + 4].copy_from_slice(&over.to_le_bytes());
        assert!(Message::length(&start).is_err(), "{over} at {at}");
    }
    long[4..8].copy_from_slice(&(LENGTH_MAX as u32 - 16).to_le_bytes());
    assert_eq!(Message::length(&long), Ok(LENGTH_MAX));
}

/// Variants in variants: each is one container more, and there is an end to it.
#[test]
fn depth() {
    let fields = [[5, 1, b'u', 0, 9, 0, 0, 0], [8, 1, b'g', 0, 1, b'v', 0, 0]].concat();
    let nested = |times| {
        let mut body = [1, b'v', 0].repeat(times);
        body.extend([1, b'y', 0, 7]);
        Message::parse(raw(2, &fields[..15], &body)).unwrap().body("v").is_ok()
    };
    assert!(nested(63) && !nested(64) && !nested(100_000));
}

/// What a bus says, and what becomes of a call.
fn conversation(script: impl AsyncFnOnce(&mut UnixStream)) -> Result<Option<String>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let talk = async {
            let mut bus = Connection::open(ours).await?;
            let signal = Signal { sender: "a.b", path: "/a", interface: "a.b", member: "C" };
            bus.listen(signal).await?;
            bus.call(&Call { destination: "a.b", path: "/", interface: "a.b", method: "D", arguments: &[] })
                .await?;
            let signal = bus.signal().await?;
            Ok::<_, DbusError>(signal.sender)
        };
        let said = async {
            script(&mut theirs).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = talk => done.map_err(|error| error.to_string()),
            () = said => unreachable!(),
            () = tokio::time::sleep(Duration::from_secs(20)) => Err("it hangs".into()),
        }
    })
}

async fn hear(stream: &mut UnixStream, until: &[u8]) {
    let mut heard = Vec::new();
    while !heard.ends_with(until) {
        heard.push(stream.read_u8().await.unwrap());
    }
}

/// Reads a call, whole.
async fn take_call(stream: &mut UnixStream) -> u32 {
    let mut start = [0; 16];
    stream.read_exact(&mut start).await.unwrap();
    let mut rest = vec![0; Message::length(&start).unwrap() - 16];
    stream.read_exact(&mut rest).await.unwrap();
    u32::from_le_bytes(start[8..12].try_into().unwrap())
}

async fn let_in(stream: &mut UnixStream) {
    hear(stream, b"\r\n").await;
    stream.write_all(b"OK 0123456789abcdef0123456789abcdef\r\n").await.unwrap();
    hear(stream, b"BEGIN\r\n").await;
    for _ in 0..2 {
        let serial = take_call(stream).await;
        stream.write_all(&reply(serial)).await.unwrap();
    }
}

fn reply(serial: u32) -> Vec<u8> {
    let serial = serial.to_le_bytes();
    raw(2, &[&[5, 1, b'u', 0][..], &serial].concat(), b"")
}

fn signal(member: &str, body: usize) -> Vec<u8> {
    let signal = zbus::Message::signal("/a", "a.b", member).sender(":1.2");
    signal.build(&"x".repeat(body)).unwrap().data().to_vec()
}

#[test]
fn a_bus_that_lies() {
    let right = conversation(async |bus| {
        let_in(bus).await;
        let serial = take_call(bus).await;
        for _ in 0..1000 {
            bus.write_all(&signal("C", 1)).await.unwrap();
            bus.write_all(&signal("Other", 1)).await.unwrap();
        }
        bus.write_all(&reply(serial + 1)).await.unwrap();
        bus.write_all(&reply(serial)).await.unwrap();
    });
    assert_eq!(right, Ok(Some(":1.2".into())));
    let refused = conversation(async |bus| {
        bus.write_all(b"REJECTED ANONYMOUS\r\n").await.unwrap();
    });
    assert_eq!(refused, Err("D-Bus handshake failed: the bus said `REJECTED ANONYMOUS`".into()));
    let endless = conversation(async |bus| {
        let _ = bus.write_all(&[b'x'; 4096]).await;
    });
    assert_eq!(endless, Err("a garbled message: a line of the handshake has no end".into()));
    let long = conversation(async |bus| {
        let_in(bus).await;
        bus.write_all(b"l\x02\0\x01\xff\xff\xff\xff\x01\0\0\0\x08\0\0\0").await.unwrap();
    });
    assert_eq!(long, Err("a garbled message: it is longer than 32 MiB".into()));
    let cut = conversation(async |bus| {
        let_in(bus).await;
        let whole = signal("C", 100);
        bus.write_all(&whole[..whole.len() - 1]).await.unwrap();
        bus.shutdown().await.unwrap();
    });
    assert_eq!(cut, Err("a garbled message: it ends in the middle".into()));
    let flooded = conversation(async |bus| {
        let_in(bus).await;
        let signal = signal("C", 4 << 20);
        for _ in 0..9 {
            let _ = bus.write_all(&signal).await;
        }
    });
    assert_eq!(flooded, Err("more signals came than can be kept".into()));
    let gone = conversation(async |bus| {
        let_in(bus).await;
        bus.shutdown().await.unwrap();
    });
    assert!(gone.unwrap_err().starts_with("the connection to the bus broke: "));
}
