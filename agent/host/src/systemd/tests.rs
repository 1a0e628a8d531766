//! A bus of our own with a PID 1 of our own on it: what the real one seldom does is done here.

use super::*;
use crate::{Root, transcript::NoTools};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicI32, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Instant,
};
use zbus::{Connection, OwnedObjectPath, OwnedVariant, connection::Builder, interface};

const LIMIT: Duration = Duration::from_secs(60);
const UNIT_PATH: &str = "/org/freedesktop/systemd1/unit/";

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop")]
enum Refused {
    #[zbus(error)]
    ZBus(zbus::Error),
    #[zbus(name = "systemd1.NoSuchUnit")]
    NoSuchUnit(String),
    #[zbus(name = "systemd1.UnitMasked")]
    UnitMasked(String),
    #[zbus(name = "DBus.Error.AccessDenied")]
    AccessDenied(String),
    #[zbus(name = "DBus.Error.NoReply")]
    NoReply(String),
}

/// A manager that acts by the name of the unit.
struct Manager {
    loads: u32,
}

impl Manager {
    fn queue(name: &str) -> Result<OwnedObjectPath, Refused> {
        match name.split('.').next().unwrap() {
            "absent" => Err(Refused::NoSuchUnit(format!("Unit {name} not found."))),
            "masked" => Err(Refused::UnitMasked(format!("Unit {name} is masked."))),
            "denied" => Err(Refused::AccessDenied("SELinux policy denies access\n".into())),
            _ => Ok(OwnedObjectPath::try_from("/org/freedesktop/systemd1/job/7").unwrap()),
        }
    }
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Manager {
    /// Every second call meets a PID 1 that is executing itself anew.
    fn load_unit(&mut self, name: &str) -> Result<OwnedObjectPath, Refused> {
        self.loads += 1;
        if name == "reexec.service" && self.loads % 2 == 1 {
            return Err(Refused::NoReply("Message recipient disconnected".into()));
        }
        let object = name.replace('.', "_2e").replace('-', "_2d");
        Ok(OwnedObjectPath::try_from(format!("{UNIT_PATH}{object}")).unwrap())
    }

    fn start_unit(&self, name: &str, mode: &str) -> Result<OwnedObjectPath, Refused> {
        assert_eq!(mode, "replace");
        Self::queue(name)
    }

    fn stop_unit(&self, name: &str, mode: &str) -> Result<OwnedObjectPath, Refused> {
        assert_eq!(mode, "replace");
        Self::queue(name)
    }

    fn restart_unit(&self, name: &str, mode: &str) -> Result<OwnedObjectPath, Refused> {
        assert_eq!(mode, "replace");
        Self::queue(name)
    }

    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: Vec<(String, OwnedVariant)>,
        auxiliary: Vec<(String, Vec<(String, OwnedVariant)>)>,
    ) -> Result<OwnedObjectPath, Refused> {
        assert_eq!((mode, auxiliary.len(), properties.len()), ("fail", 0, 3));
        let value = |key: &str| properties.iter().find(|(name, _)| name == key).unwrap().1.clone();
        assert_eq!(Vec::<u32>::try_from(value("PIDs")).unwrap(), [0]);
        assert_eq!(String::try_from(value("CollectMode")).unwrap(), "inactive-or-failed");
        assert_eq!(String::try_from(value("Description")).unwrap(), "a run");
        Self::queue(name)
    }

    fn reset_failed_unit(&self, name: &str) -> Result<(), Refused> {
        Self::queue(name).map(drop)
    }

    #[zbus(property)]
    fn system_state(&self) -> &str {
        "stopping"
    }
}

/// Its name and state, and how many looks see a job.
struct FakeUnit {
    name: &'static str,
    state: &'static str,
    looks: AtomicI32,
}

const UNITS: [(&str, &str, &str, i32); 8] = [
    ("done.service", "active", "success", 3),
    ("reexec.service", "active", "success", 1),
    ("failed.service", "failed", "exit-code", 1),
    ("never.service", "activating", "success", i32::MAX),
    ("unmet.mount", "inactive", "success", 0),
    ("srv-busy.mount", "active", "exit-code", 0),
    ("half.mount", "active", "", 0),
    ("run.scope", "active", "", 1),
];

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl FakeUnit {
    #[zbus(property)]
    fn id(&self) -> &str {
        self.name
    }
    #[zbus(property)]
    fn load_state(&self) -> &str {
        "loaded"
    }
    #[zbus(property)]
    fn active_state(&self) -> &str {
        self.state
    }
    #[zbus(property)]
    fn sub_state(&self) -> &str {
        "finer"
    }
    #[zbus(property)]
    fn unit_file_state(&self) -> &str {
        "static"
    }
    #[zbus(property)]
    fn fragment_path(&self) -> &str {
        "/etc/systemd/system/x.mount"
    }
    #[zbus(property)]
    fn drop_in_paths(&self) -> Vec<String> {
        Vec::new()
    }
    #[zbus(property)]
    fn wants(&self) -> Vec<String> {
        Vec::new()
    }
    #[zbus(property)]
    fn requires(&self) -> Vec<String> {
        Vec::new()
    }
    #[zbus(property)]
    fn need_daemon_reload(&self) -> bool {
        false
    }
    #[zbus(property)]
    fn job(&self) -> (u32, OwnedObjectPath) {
        let looks = self.looks.fetch_sub(1, Ordering::Relaxed);
        let path = if looks <= 0 { "/" } else { "/org/freedesktop/systemd1/job/7" };
        (7, OwnedObjectPath::try_from(path).unwrap())
    }
}

struct FakeService(&'static str);

#[interface(name = "org.freedesktop.systemd1.Service")]
impl FakeService {
    #[zbus(property, name = "MainPID")]
    fn main_pid(&self) -> u32 {
        0
    }
    #[zbus(property)]
    fn result(&self) -> &str {
        self.0
    }
}

struct FakeMount(&'static str);

#[interface(name = "org.freedesktop.systemd1.Mount")]
impl FakeMount {
    #[zbus(property, name = "Where")]
    fn place(&self) -> &str {
        "/srv/busy"
    }
    #[zbus(property)]
    fn what(&self) -> &str {
        "/dev/sda"
    }
    #[zbus(property)]
    fn options(&self) -> &str {
        "rw,prjquota"
    }
    #[zbus(property)]
    fn result(&self) -> &str {
        self.0
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
                let _connection = tokio::time::timeout(LIMIT, fake(&address)).await.unwrap().unwrap();
                ready.send(()).unwrap();
                stopped.await.ok();
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

async fn fake(address: &str) -> zbus::Result<Connection> {
    let mut builder = Builder::address(address).serve_at("/org/freedesktop/systemd1", Manager { loads: 0 });
    for (name, state, result, looks) in UNITS {
        let path = format!("{UNIT_PATH}{}", name.replace('.', "_2e").replace('-', "_2d"));
        let unit = FakeUnit { name, state, looks: looks.into() };
        builder = builder.serve_at(path.clone(), unit).serve_at(path.clone(), FakeService(result));
        if name != "half.mount" {
            builder = builder.serve_at(path, FakeMount(result));
        }
    }
    builder.name(bus::SYSTEMD).build().await
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
            "starting masked.service: Unit masked.service is masked. (org.freedesktop.systemd1.UnitMasked)",
        ),
        (start(host, "denied.service", LIMIT), &format!("starting denied.service is not allowed: {denied}")),
        (queue_start(host, "never.service"), "well"),
        (stop(host, "unmet.mount", LIMIT), "well"),
        (stop(host, "failed.service", LIMIT), "well"),
        (
            stop(host, "done.service", LIMIT),
            "stopping done.service failed: it is `active` now (`success`); see `journalctl -u done.service`",
        ),
        (restart(host, "done.service", LIMIT), "well"),
        // Stopped, and nothing that it needs to start again is there.
        (restart(host, "unmet.mount", LIMIT), "well"),
        (
            restart(host, "srv-busy.mount", LIMIT),
            "restarting srv-busy.mount failed: it is `active` now (`exit-code`); see `journalctl -u srv-busy.mount`",
        ),
        (
            restart(host, "failed.service", LIMIT),
            "restarting failed.service failed: it is `failed` now (`exit-code`); see `journalctl -u failed.service`",
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
    let place =
        MountProperties { what: "/dev/sda".into(), place: "/srv/busy".into(), options: "rw,prjquota".into() };
    assert_eq!(
        (mount.mount.as_ref(), mount.result.as_deref(), mount.main_pid),
        (Some(&place), Some("exit-code"), None)
    );
    // A mount unit that doesn't tell what it mounts is not one that mounts nothing.
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
