//! A bus that is a script: what dbus-daemon would never do.

use super::{super::*, LIMIT};
use crate::{Root, transcript::NoTools};
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::mpsc,
    time::Instant,
};
use zbus::{DynamicType, Message, ObjectPath};

const JOB: &str = "/org/freedesktop/systemd1/job/7";
const SYSTEMD: &str = ":1.1";

/// One side of a connection, and what it has been asked.
struct Peer {
    stream: UnixStream,
}

impl Peer {
    fn say(&mut self, bytes: &[u8]) {
        // The program may have hung up.
        self.stream.write_all(bytes).ok();
    }

    /// Lets the program in; the next call is its first.
    fn let_in(&mut self) {
        let mut heard = Vec::new();
        while !heard.ends_with(b"BEGIN\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            heard.extend(byte);
        }
        let user: String =
            nix::unistd::geteuid().to_string().bytes().map(|digit| format!("{digit:x}")).collect();
        assert_eq!(String::from_utf8(heard).unwrap(), format!("\0AUTH EXTERNAL {user}\r\nBEGIN\r\n"));
        self.say(b"OK 0123456789abcdef0123456789abcdef\r\n");
        self.answer("Hello", &":1.7");
    }

    /// Takes the next call, which must be of this method; its serial.
    fn take(&mut self, method: &str) -> u32 {
        let mut start = [0; 16];
        self.stream.read_exact(&mut start).unwrap();
        let number = |at| u32::from_le_bytes(start[at..at + 4].try_into().unwrap());
        let mut rest = vec![0; (number(12).next_multiple_of(8) + number(4)) as usize];
        self.stream.read_exact(&mut rest).unwrap();
        assert!(rest.windows(method.len()).any(|part| part == method.as_bytes()), "no {method}");
        number(8)
    }

    fn answer(&mut self, method: &str, body: &(impl serde::Serialize + DynamicType)) {
        let serial = self.take(method);
        self.reply(serial, body);
    }

    fn reply(&mut self, serial: u32, body: &(impl serde::Serialize + DynamicType)) {
        let reply = Message::method_return(&asked().header()).sender(SYSTEMD).build(body).unwrap();
        self.say(&answering(&reply, serial));
    }

    fn refuse(&mut self, method: &str, name: &str, body: &(impl serde::Serialize + DynamicType)) {
        let serial = self.take(method);
        let error = Message::error(&asked().header(), name).sender(SYSTEMD).build(body).unwrap();
        self.say(&answering(&error, serial));
    }

    /// Up to the call that queues the job.
    fn until_start(&mut self) -> u32 {
        self.let_in();
        self.answer("AddMatch", &());
        self.answer("Subscribe", &());
        self.answer("GetNameOwner", &SYSTEMD);
        self.take("StartUnit")
    }

    fn removed(&mut self, sender: &str, job: &str, padding: usize, result: &str) {
        let unit = "x".repeat(padding);
        let body = (7_u32, ObjectPath::try_from(job).unwrap(), unit.as_str(), result);
        self.signal(sender, "JobRemoved", &body);
    }

    fn signal(&mut self, sender: &str, member: &str, body: &(impl serde::Serialize + DynamicType)) {
        let signal = Message::signal(bus::MANAGER_PATH, bus::MANAGER, member).sender(sender);
        self.say(signal.build(body).unwrap().data());
    }

    /// Waits until the program hangs up.
    fn until_end(&mut self) {
        std::io::copy(&mut self.stream, &mut std::io::sink()).ok();
    }
}

fn asked() -> Message {
    Message::method_call("/", "X").sender(":1.7").build(&()).unwrap()
}

/// The same message as the answer to another call.
fn answering(message: &Message, serial: u32) -> Vec<u8> {
    let mut bytes = message.data().to_vec();
    let at = bytes.windows(4).position(|part| part == [5, 1, b'u', 0]).unwrap() + 4;
    bytes[at..at + 4].copy_from_slice(&serial.to_le_bytes());
    bytes
}

/// A host whose bus is the script, and what tells that the script has ended.
struct Scripted {
    base: PathBuf,
    host: Host,
    ended: mpsc::Receiver<()>,
}

impl Scripted {
    fn new(script: impl FnOnce(&mut Peer) + Send + 'static) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("etcd-lun-peer-{}-{count}", std::process::id()));
        let socket = base.join("run/dbus/system_bus_socket");
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let (end, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            script(&mut Peer { stream });
            end.send(()).ok();
        });
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        Self { base, host, ended }
    }

    /// Starts a unit; what comes of it, and that it does not take until its limit.
    fn start(&self) -> String {
        let begun = Instant::now();
        let done = start(&self.host, "x.service", LIMIT);
        assert!(begun.elapsed() < LIMIT);
        done.map_or_else(|error| error.to_string(), |()| "well".into())
    }

    /// The script came to its end: nothing it asserts was wrong, and the program hung up.
    fn end(&self) {
        self.ended.recv_timeout(LIMIT).unwrap();
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).unwrap();
    }
}

/// What comes of a start, for a script that answers it.
fn started(script: impl FnOnce(&mut Peer) + Send + 'static) -> String {
    let scripted = Scripted::new(move |peer| {
        script(peer);
        peer.until_end();
    });
    let said = scripted.start();
    scripted.end();
    said
}

const FAILED: &str = "starting x.service: the job ended as `failed`; see `journalctl -u x.service`";

#[test]
fn a_flood_before_the_answer() {
    let said = started(|peer| {
        let serial = peer.until_start();
        for _ in 0..5_000 {
            peer.removed(SYSTEMD, "/org/freedesktop/systemd1/job/999", 10, "done");
            peer.signal(SYSTEMD, "UnitNew", &("x", ObjectPath::try_from("/x").unwrap()));
        }
        // Our own end comes before the answer that says that it is ours.
        peer.removed(SYSTEMD, JOB, 10, "failed");
        for _ in 0..20 {
            peer.removed(SYSTEMD, "/org/freedesktop/systemd1/job/999", 1 << 20, "done");
            peer.signal(":1.9", "Other", &"x".repeat(4 << 20));
        }
        peer.reply(serial, &ObjectPath::try_from(JOB).unwrap());
    });
    assert_eq!(said, FAILED);
}

#[test]
fn a_flood_while_the_sender_is_asked_for() {
    let said = started(|peer| {
        let serial = peer.until_start();
        peer.reply(serial, &ObjectPath::try_from(JOB).unwrap());
        peer.removed(":1.9", JOB, 10, "done");
        let serial = peer.take("GetNameOwner");
        for _ in 0..5_000 {
            peer.removed(SYSTEMD, "/org/freedesktop/systemd1/job/999", 100, "done");
        }
        peer.reply(serial, &SYSTEMD);
        // From the connection that has the name by now, as after `systemctl daemon-reexec`.
        peer.removed(":1.2", JOB, 10, "failed");
        peer.answer("GetNameOwner", &":1.2");
    });
    assert_eq!(said, FAILED);
}

#[test]
fn a_flood_that_is_too_large() {
    let said = started(|peer| {
        peer.until_start();
        for _ in 0..=removals::KEPT_MAX >> 22 {
            peer.removed(SYSTEMD, "/org/freedesktop/systemd1/job/999", 4 << 20, "done");
        }
    });
    assert_eq!(said, "starting x.service: more signals came than can be kept; try again");
}

/// Nobody has subscribed to anything here, and signals come all the same.
#[test]
fn a_flood_at_a_question() {
    let scripted = Scripted::new(|peer| {
        peer.let_in();
        let serial = peer.take("Get");
        for _ in 0..5_000 {
            peer.removed(SYSTEMD, JOB, 10, "done");
        }
        for _ in 0..20 {
            peer.signal(":1.9", "Other", &"x".repeat(4 << 20));
        }
        peer.reply(serial, &zbus::Variant::from("stopping"));
        peer.until_end();
    });
    assert!(is_stopping(&scripted.host).unwrap());
    // It hung up at the end of the call: the script has ended while the host still lives.
    scripted.end();
}

#[test]
fn no_answer() {
    let script = |peer: &mut Peer| {
        peer.let_in();
        peer.take("Reload");
        peer.until_end();
    };
    let scripted = Scripted::new(script);
    // Long enough for the conversation before it on a busy machine.
    let limit = Duration::from_secs(3);
    let conversation = Conversation::begin("reloading", "systemd", limit, None).unwrap();
    let bus = Bus::connect(&scripted.host, conversation).unwrap();
    let error = bus.conversation.wait(bus.manager.reload()).unwrap_err();
    drop(bus);
    assert!(matches!(error, SystemdError::TimedOut { doing: "reloading", .. }), "{error}");
    // It hung up, though nobody waits for anything on the host's own runtime.
    scripted.end();
    let scripted = Scripted::new(|peer| {
        peer.until_start();
        peer.until_end();
    });
    let error = start(&scripted.host, "x.service", limit).unwrap_err();
    assert!(matches!(error, SystemdError::TimedOut { doing: "starting", .. }), "{error}");
    scripted.end();
}

#[test]
fn errors_by_name() {
    for (name, said) in [
        ("systemd1.NoSuchUnit", "there is no unit x.service: install it, then `systemctl daemon-reload`"),
        ("systemd1.LoadFailed", "starting x.service: why (org.freedesktop.systemd1.LoadFailed)"),
        ("systemd1.UnitMasked", "starting x.service: why (org.freedesktop.systemd1.UnitMasked)"),
        (
            "systemd1.TransactionIsDestructive",
            "starting x.service: why (org.freedesktop.systemd1.TransactionIsDestructive)",
        ),
        ("DBus.Error.ServiceUnknown", "starting x.service: why (org.freedesktop.DBus.Error.ServiceUnknown)"),
        ("DBus.Error.NoReply", "starting x.service: why (org.freedesktop.DBus.Error.NoReply)"),
    ] {
        let refused = started(move |peer| {
            peer.let_in();
            peer.answer("AddMatch", &());
            peer.answer("Subscribe", &());
            peer.answer("GetNameOwner", &SYSTEMD);
            peer.refuse("StartUnit", &format!("org.freedesktop.{name}"), &"why\n");
        });
        assert_eq!(refused, said);
    }
    for name in ["AccessDenied", "AuthFailed", "InteractiveAuthorizationRequired"] {
        let refused = started(move |peer| {
            peer.let_in();
            peer.refuse("AddMatch", &format!("org.freedesktop.DBus.Error.{name}"), &"SELinux");
        });
        let hint = "run as root, and see `ausearch -m user_avc,avc -ts recent`";
        assert_eq!(refused, format!("starting x.service is not allowed: SELinux; {hint}"));
    }
    // A text is usual, not certain.
    let refused = started(|peer| {
        peer.let_in();
        peer.refuse("AddMatch", "a.B", &7_u32);
    });
    assert_eq!(refused, "starting x.service: no message (a.B)");
}

#[test]
fn a_peer_that_hangs_up() {
    let scripts: [fn(&mut Peer); 5] = [
        |_| {},
        |peer| peer.say(b"OK 0123"),
        |peer| peer.let_in(),
        |peer| {
            peer.until_start();
        },
        |peer| {
            let serial = peer.until_start();
            peer.reply(serial, &ObjectPath::try_from(JOB).unwrap());
        },
    ];
    for (at, script) in scripts.into_iter().enumerate() {
        let scripted = Scripted::new(script);
        let said = scripted.start();
        assert!(said.starts_with("starting x.service: the connection to the bus broke: "), "{at}: {said}");
        scripted.end();
    }
}

#[test]
fn a_peer_that_refuses_or_sends_garbage() {
    let denied = started(|peer| peer.say(b"REJECTED ANONYMOUS\r\n"));
    let said = "starting x.service: D-Bus handshake failed: EXTERNAL rejected by the server. Accepted mechanisms: \
                [ANONYMOUS]; run as root, and see `systemctl status dbus.socket`";
    assert_eq!(denied, said);
    let header = |endian, kind, body: u32, fields: u32| {
        [&[endian, kind, 0, 1][..], &body.to_le_bytes(), &[1, 0, 0, 0], &fields.to_le_bytes()].concat()
    };
    let whole = Message::signal("/a", "a.b", "C").build(&"x").unwrap().data().to_vec();
    let mut late: Vec<(&str, Vec<u8>)> = vec![
        ("no byte order", header(b'x', 2, 0, 0)),
        ("no type", header(b'l', 0, 0, 0)),
        ("no serial of a call", header(b'l', 2, 0, 0)),
        ("4 GiB of a body", header(b'l', 2, u32::MAX, 8)),
        ("4 GiB of fields", header(b'l', 2, 0, u32::MAX)),
        ("zeros", vec![0; 100_000]),
        ("a text", b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(100)),
    ];
    late.extend((0..whole.len().min(12)).map(|at| {
        let mut changed = whole.clone();
        changed[at] ^= 0x80;
        ("a byte changed", [changed, vec![0; 1 << 16]].concat())
    }));
    for (name, bytes) in late {
        let said = started(move |peer| {
            peer.let_in();
            peer.say(&bytes);
            peer.stream.shutdown(std::net::Shutdown::Write).ok();
        });
        let known = ["what came over the bus cannot be read", "the connection to the bus broke"];
        assert!(known.iter().any(|known| said.contains(known)), "{name}: {said}");
    }
    for (name, bytes) in [
        ("an end without a line", b"\nOK".to_vec()),
        ("an end without its return", b"OK\n".to_vec()),
        ("a line without an end", vec![b'x'; 1 << 20]),
        ("no word of the handshake", b"WHAT\r\n".to_vec()),
        ("no GUID", b"OK\r\n".to_vec()),
        ("no text", b"OK \xff\xfe\r\n".to_vec()),
        ("nothing but returns", b"\r\n".to_vec()),
    ] {
        let said = started(move |peer| peer.say(&bytes));
        assert!(said.starts_with("starting x.service: "), "{name}: {said}");
        assert!(!said.contains("well"), "{name}: {said}");
    }
}

#[test]
fn answers_of_another_type() {
    let unreadable = "what came over the bus cannot be read: ";
    let number = started(|peer| {
        let serial = peer.until_start();
        peer.reply(serial, &7_u32);
    });
    assert!(number.contains(unreadable), "{number}");
    let text = started(|peer| {
        let serial = peer.until_start();
        peer.reply(serial, &JOB);
    });
    assert!(text.contains(unreadable), "{text}");
    let nothing = started(|peer| {
        let serial = peer.until_start();
        peer.reply(serial, &());
    });
    assert!(nothing.contains(unreadable), "{nothing}");
    // A signal of another form is not PID 1's, and is passed over.
    let signal = started(|peer| {
        let serial = peer.until_start();
        peer.signal(SYSTEMD, "JobRemoved", &(JOB, "done"));
        peer.signal(SYSTEMD, "JobRemoved", &());
        peer.reply(serial, &ObjectPath::try_from(JOB).unwrap());
        peer.signal(SYSTEMD, "JobRemoved", &(JOB, "done"));
        peer.removed(SYSTEMD, JOB, 1, "failed");
    });
    assert_eq!(signal, FAILED);
    let scripted = Scripted::new(|peer| {
        peer.let_in();
        peer.answer("Get", &zbus::Variant::from(7_u32));
        peer.until_end();
    });
    let said = is_stopping(&scripted.host).unwrap_err().to_string();
    assert!(said.starts_with("asking for the state of the system: ") && said.contains(unreadable), "{said}");
    let scripted = Scripted::new(|peer| {
        peer.let_in();
        peer.answer("LoadUnit", &ObjectPath::try_from("/x").unwrap());
        peer.answer("GetAll", &("no", "properties"));
        peer.until_end();
    });
    let said = unit(&scripted.host, "x.service").unwrap_err().to_string();
    assert!(said.starts_with("asking for x.service: ") && said.contains(unreadable), "{said}");
}

#[test]
fn a_name_that_no_message_can_carry() {
    let host = Host::fixture(Root::new("/nonexistent"), Box::new(NoTools)).unwrap();
    let said = reset_failed(&host, "a\0b.service").unwrap_err().to_string();
    assert_eq!(said, "resetting the failed state of ab.service: an argument holds a null character");
}
