//! A bus of our own with a PID 1 of our own on it: what the real one seldom does is done here.

use super::*;
use crate::{Root, transcript::NoTools};
use std::{
    collections::HashMap,
    fs,
    future::poll_fn,
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    pin::Pin,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Instant,
};
use zbus::export::futures_core::Stream as _;
use zbus::{
    Connection, Message, MessageStream, OwnedObjectPath, Variant, connection::Builder, message::Type,
};

const LIMIT: Duration = Duration::from_secs(60);
const UNIT_PATH: &str = "/org/freedesktop/systemd1/unit/";
const JOB: &str = "/org/freedesktop/systemd1/job/7";

/// Name, state, result, and how many looks see a job.
const UNITS: [(&str, &str, &str, u32); 8] = [
    ("done.service", "active", "success", 3),
    ("reexec.service", "active", "success", 1),
    ("failed.service", "failed", "exit-code", 1),
    ("never.service", "activating", "success", u32::MAX),
    ("unmet.mount", "inactive", "success", 0),
    ("srv-busy.mount", "active", "exit-code", 0),
    ("half.mount", "active", "", 0),
    ("run.scope", "active", "", 1),
];

/// A PID 1 that acts by the name of the unit.
#[derive(Default)]
struct Systemd {
    /// How often each unit was looked at.
    looks: HashMap<String, u32>,
    loads: u32,
}

/// An error's name, after `org.freedesktop.`, and its text.
type Refused = (&'static str, &'static str);

impl Systemd {
    async fn serve(mut self, connection: &Connection) {
        let mut calls = MessageStream::from(connection);
        loop {
            let call = poll_fn(|context| Pin::new(&mut calls).poll_next(context)).await;
            let Some(Ok(call)) = call else { return };
            if call.message_type() == Type::MethodCall {
                self.answer(connection, &call).await.unwrap();
            }
        }
    }

    async fn answer(&mut self, connection: &Connection, call: &Message) -> zbus::Result<()> {
        let (header, body) = (call.header(), call.body());
        let done = match header.member().map(|member| member.as_str()).unwrap() {
            "LoadUnit" => self.load(body.deserialize()?),
            "StartUnit" | "StopUnit" | "RestartUnit" => {
                let (name, mode): (&str, &str) = body.deserialize()?;
                assert_eq!(mode, "replace");
                queue(name)
            }
            "StartTransientUnit" => {
                type Properties<'a> = Vec<(&'a str, Variant<'a>)>;
                let (name, mode, properties, more): (
                    &str,
                    &str,
                    Properties<'_>,
                    Vec<(&str, Properties<'_>)>,
                ) = body.deserialize()?;
                let expected = [
                    ("PIDs", Variant::from(vec![0_u32])),
                    ("Description", Variant::from("a run")),
                    ("CollectMode", Variant::from("inactive-or-failed")),
                ];
                assert_eq!((mode, properties.as_slice(), more.len()), ("fail", &expected[..], 0));
                queue(name)
            }
            "ResetFailedUnit" => match queue(body.deserialize()?) {
                Ok(_) => return connection.reply(&header, &()).await,
                refused => refused,
            },
            "Get" => return connection.reply(&header, &Variant::from("stopping")).await,
            "GetAll" => {
                let name = header.path().unwrap().strip_prefix(UNIT_PATH).unwrap();
                let name = name.replace("_2e", ".").replace("_2d", "-");
                return connection.reply(&header, &self.properties(&name, body.deserialize()?)).await;
            }
            _ => Err(("DBus.Error.UnknownMethod", "no such method")),
        };
        match done {
            Ok(path) => connection.reply(&header, &OwnedObjectPath::try_from(path)?).await,
            Err((name, said)) => {
                connection.reply_error(&header, format!("org.freedesktop.{name}"), &said).await
            }
        }
    }

    /// Every second call for one unit meets a PID 1 that is executing itself anew.
    fn load(&mut self, name: &str) -> Result<String, Refused> {
        self.loads += 1;
        if name == "reexec.service" && self.loads % 2 == 1 {
            return Err(("DBus.Error.NoReply", "Message recipient disconnected"));
        }
        Ok(format!("{UNIT_PATH}{}", name.replace('.', "_2e").replace('-', "_2d")))
    }

    fn properties(&mut self, name: &str, interface: &str) -> HashMap<&'static str, Variant<'static>> {
        let (name, state, result, jobs) = UNITS.into_iter().find(|unit| unit.0 == name).unwrap();
        match interface.rsplit('.').next().unwrap() {
            "Unit" => {
                let looks = self.looks.entry(name.to_owned()).or_default();
                *looks += 1;
                let job = if *looks > jobs { "/" } else { JOB };
                let none = || Variant::from(Vec::<&str>::new());
                HashMap::from([
                    ("Id", name.into()),
                    ("LoadState", "loaded".into()),
                    ("ActiveState", state.into()),
                    ("SubState", "finer".into()),
                    ("UnitFileState", "static".into()),
                    ("DropInPaths", none()),
                    ("Wants", none()),
                    ("Requires", none()),
                    ("Job", (7_u32, OwnedObjectPath::try_from(job).unwrap()).into()),
                ])
            }
            "Service" => HashMap::from([("MainPID", 0_u32.into()), ("Result", result.into())]),
            "Mount" if name == "half.mount" => HashMap::new(),
            "Mount" => HashMap::from([("Result", result.into())]),
            other => panic!("{other}"),
        }
    }
}

fn queue(name: &str) -> Result<String, Refused> {
    match name.split('.').next().unwrap() {
        "absent" => Err(("systemd1.NoSuchUnit", "Unit not found.")),
        "masked" => Err(("systemd1.UnitMasked", "Unit is masked.")),
        "denied" => Err(("DBus.Error.AccessDenied", "SELinux policy denies access\n")),
        _ => Ok(JOB.into()),
    }
}

/// Bus, PID 1 and host, gone when dropped.
struct Machine {
    base: PathBuf,
    host: Host,
    daemon: Child,
    systemd: Option<(tokio::sync::oneshot::Sender<()>, JoinHandle<()>)>,
}

fn base_of(name: &str) -> (PathBuf, PathBuf) {
    let base = std::env::temp_dir().join(format!("etcd-lun-bus-{}-{name}", std::process::id()));
    let socket = base.join("run/dbus/system_bus_socket");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    (base, socket)
}

impl Machine {
    /// Returns nothing where there is no dbus-daemon.
    fn new(name: &str) -> Option<Self> {
        let (base, socket) = base_of(name);
        let config = format!(
            "<busconfig><listen>unix:path={}</listen><policy context='default'>\
             <allow send_destination='*' eavesdrop='true'/><allow eavesdrop='true'/><allow own='*'/></policy></busconfig>",
            socket.display()
        );
        fs::write(base.join("bus.conf"), config).unwrap();
        let config = format!("--config-file={}", base.join("bus.conf").display());
        let daemon = Command::new("dbus-daemon").args([&config, "--nofork"]).stderr(Stdio::null()).spawn();
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        let Ok(daemon) = daemon else {
            fs::remove_dir_all(&base).unwrap();
            return None;
        };
        let mut machine = Self { base, host, daemon, systemd: None };
        let begun = Instant::now();
        // The socket's name is there before the daemon listens.
        while UnixStream::connect(&socket).is_err() {
            assert!(begun.elapsed() < LIMIT, "dbus-daemon doesn't listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (ready, started) = mpsc::channel();
        let address = format!("unix:path={}", socket.display());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let connection = Builder::address(&*address).name(bus::SYSTEMD).build();
                let connection = tokio::time::timeout(LIMIT, connection).await.unwrap().unwrap();
                ready.send(()).unwrap();
                tokio::select! {
                    _ = stopped => {}
                    () = Systemd::default().serve(&connection) => {}
                }
            });
        });
        machine.systemd = Some((stop, thread));
        started.recv().unwrap();
        Some(machine)
    }

    fn stop_systemd(&mut self) {
        if let Some((stop, thread)) = self.systemd.take() {
            stop.send(()).ok();
            thread.join().ok();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop_systemd();
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        fs::remove_dir_all(&self.base).unwrap();
    }
}

fn said(done: Result<(), SystemdError>) -> String {
    done.map_or_else(|error| error.to_string(), |()| "well".into())
}

#[test]
fn jobs() {
    let Some(machine) = Machine::new("jobs") else { return };
    let host = &machine.host;
    let denied = "SELinux policy denies access; run as root, and see `ausearch -m user_avc,avc -ts recent`";
    for (done, expected) in [
        (start(host, "done.service", LIMIT), "well"),
        (start(host, "reexec.service", LIMIT), "well"),
        (
            start(host, "failed.service", LIMIT),
            "starting failed.service failed: it is `failed` now (`exit-code`); see `journalctl -u failed.service`",
        ),
        (
            start(host, "unmet.mount", LIMIT),
            "starting unmet.mount failed: it is `inactive` now (`success`); see `journalctl -u unmet.mount`",
        ),
        (
            start(host, "absent.service", LIMIT),
            "there is no unit absent.service: install it, then `systemctl daemon-reload`",
        ),
        (
            start(host, "masked.service", LIMIT),
            "starting masked.service: Unit is masked. (org.freedesktop.systemd1.UnitMasked)",
        ),
        (start(host, "denied.service", LIMIT), &format!("starting denied.service is not allowed: {denied}")),
        (queue_start(host, "never.service"), "well"),
        (stop(host, "unmet.mount", LIMIT), "well"),
        (stop(host, "failed.service", LIMIT), "well"),
        (
            stop(host, "done.service", LIMIT),
            "stopping done.service failed: it is `active` now (`success`); see `journalctl -u done.service`",
        ),
        (enter_scope(host, "run.scope", "a run"), "well"),
        (
            enter_scope(host, "denied.scope", "a run"),
            &format!("making denied.scope is not allowed: {denied}"),
        ),
        (reset_failed(host, "absent.service"), "well"),
        (reset_failed(host, "done.service"), "well"),
    ] {
        assert_eq!(said(done), expected);
    }
    assert!(is_stopping(host).unwrap());
    let unknown = said(reload(host));
    assert!(unknown.starts_with("reloading systemd: ") && unknown.contains("UnknownMethod"), "{unknown}");
}

#[test]
fn limits() {
    let Some(machine) = Machine::new("limits") else { return };
    let begun = Instant::now();
    let error = start(&machine.host, "never.service", Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error, SystemdError::TimedOut { doing: "starting", .. }), "{error}");
    let interrupt = machine.host.interrupt.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        interrupt.request();
    });
    let error = start(&machine.host, "never.service", LIMIT).unwrap_err();
    assert_eq!(error.to_string(), "interrupted while starting never.service");
    assert!(begun.elapsed() < LIMIT);
}

/// Over one connection, each answer is about its own unit, and an error of one leaves the others.
#[test]
fn properties() {
    let Some(machine) = Machine::new("properties") else { return };
    let read = units(&machine.host, &["srv-busy.mount", "half.mount", "never.service"]).unwrap();
    let [Ok(mount), Err(half), Ok(service)] = read.as_slice() else { panic!("{read:?}") };
    assert_eq!((mount.name.as_str(), mount.sub_state.as_str()), ("srv-busy.mount", "finer"));
    assert!(mount.is_active() && mount.exists() && !mount.job_pending && service.job_pending);
    assert_eq!((mount.result.as_deref(), mount.main_pid), (Some("exit-code"), None));
    // A unit that doesn't tell how it ended is not one that ended well.
    assert!(half.to_string().starts_with("asking for half.mount: "), "{half}");
    assert_eq!(unit(&machine.host, "never.service").unwrap(), *service);
    assert_eq!(units(&machine.host, &[]).unwrap().len(), 0);
}

#[test]
fn nobody_there() {
    let Some(mut machine) = Machine::new("nobody") else { return };
    machine.stop_systemd();
    let text = said(start(&machine.host, "x.service", LIMIT));
    assert!(text.starts_with("starting x.service: ") && text.contains("systemd1"), "{text}");
    fs::remove_file(machine.base.join("run/dbus/system_bus_socket")).unwrap();
    assert!(matches!(unit(&machine.host, "x.service"), Err(SystemdError::NoBus { .. })));
    assert!(matches!(units(&machine.host, &["x.service"]), Err(SystemdError::NoBus { .. })));
}

/// Returns the result of a start over a bus that says these bytes, and then nothing for as long as `silent`.
fn started(bytes: &[u8], silent: bool) -> String {
    let (base, socket) = base_of(&format!("peer-{}-{silent}", bytes.len()));
    let listener = UnixListener::bind(&socket).unwrap();
    let bytes = bytes.to_vec();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(&bytes).unwrap();
        if !silent {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        // Ends when the program hangs up.
        std::io::copy(&mut stream, &mut std::io::sink()).ok();
    });
    let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
    let limit = if silent { Duration::from_millis(300) } else { LIMIT };
    let text = said(start(&host, "x.service", limit));
    // It hung up, though nobody waits for anything on the host's runtime.
    peer.join().unwrap();
    fs::remove_dir_all(base).unwrap();
    text
}

#[test]
fn a_bus_that_is_none() {
    let let_in = b"OK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n".as_slice();
    let broke = "starting x.service: the connection to the bus broke: ";
    let garbage = "starting x.service: what came over the bus cannot be read: ";
    let silence = "starting x.service did not end within 0 s";
    for (bytes, silent, expected) in [
        (b"".as_slice(), true, silence),
        (let_in, true, silence),
        (let_in, false, broke),
        (b"REJECTED ANONYMOUS\r\n", false, "starting x.service: D-Bus handshake failed: EXTERNAL rejected"),
        (&[let_in, &b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(100)].concat(), false, garbage),
    ] {
        let text = started(bytes, silent);
        assert!(text.starts_with(expected), "{text}");
    }
}
