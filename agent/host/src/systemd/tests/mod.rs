//! A bus of our own with a PID 1 of our own on it: what the real one seldom does is done here.

mod peer;

use super::*;
use crate::{Root, transcript::NoTools};
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Instant,
};
use zbus::{
    Connection, ObjectPath, OwnedObjectPath, OwnedVariant, connection::Builder, interface, message::Header,
};

const MANAGER_PATH: &str = bus::MANAGER_PATH;
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop")]
enum Refused {
    #[zbus(error)]
    ZBus(zbus::Error),
    #[zbus(name = "systemd1.NoSuchUnit")]
    NoSuchUnit(String),
    #[zbus(name = "systemd1.UnitExists")]
    UnitExists(String),
    #[zbus(name = "systemd1.UnitMasked")]
    UnitMasked(String),
    #[zbus(name = "DBus.Error.AccessDenied")]
    AccessDenied(String),
}

/// A manager that acts by the name of the unit.
struct Manager {
    subscribed: bool,
    jobs: u32,
    liar: Connection,
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Manager {
    fn subscribe(&mut self) {
        self.subscribed = true;
    }

    fn load_unit(&self, name: &str) -> OwnedObjectPath {
        let object = name.replace('.', "_2e").replace('-', "_2d");
        OwnedObjectPath::try_from(format!("/org/freedesktop/systemd1/unit/{object}")).unwrap()
    }

    /// Fails unless the caller asks for its own process, and by a name that no unit has.
    async fn start_transient_unit(
        &mut self,
        name: &str,
        mode: &str,
        properties: Vec<(String, OwnedVariant)>,
        auxiliary: Vec<(String, Vec<(String, OwnedVariant)>)>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<OwnedObjectPath, Refused> {
        assert_eq!((mode, auxiliary.len()), ("fail", 0));
        let text = |key: &str| {
            let (_, value) = properties.iter().find(|(name, _)| name == key).unwrap();
            String::try_from(value.clone()).unwrap()
        };
        assert_eq!(text("CollectMode"), "inactive-or-failed");
        let (_, pids) = properties.iter().find(|(name, _)| name == "PIDs").unwrap();
        assert_eq!(Vec::<u32>::try_from(pids.clone()).unwrap(), [0]);
        let result = match name {
            "taken.scope" => return Err(Refused::UnitExists(format!("Unit {name} was already loaded."))),
            "denied.scope" => return Err(Refused::AccessDenied("SELinux policy denies access".into())),
            _ => text("Description"),
        };
        let job = OwnedObjectPath::try_from(format!("{MANAGER_PATH}/job/1")).unwrap();
        let removed = (1_u32, job.clone(), name.to_owned(), result);
        let to = None::<&str>;
        connection.emit_signal(to, MANAGER_PATH, bus::MANAGER, "JobRemoved", &removed).await.unwrap();
        Ok(job)
    }

    async fn start_unit(
        &mut self,
        name: &str,
        mode: &str,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<OwnedObjectPath, Refused> {
        assert_eq!(mode, "replace");
        self.jobs += 1;
        let id = self.jobs;
        let job = OwnedObjectPath::try_from(format!("{MANAGER_PATH}/job/{id}")).unwrap();
        let removed =
            |path: &OwnedObjectPath, result: &str| (id, path.clone(), name.to_owned(), result.to_owned());
        let emit = async |signal| {
            let to = None::<&str>;
            connection.emit_signal(to, MANAGER_PATH, bus::MANAGER, "JobRemoved", &signal).await.unwrap();
        };
        match name.strip_suffix(".service").unwrap() {
            "absent" => return Err(Refused::NoSuchUnit(format!("Unit {name} not found."))),
            "masked" => return Err(Refused::UnitMasked(format!("Unit {name} is masked."))),
            "denied" => return Err(Refused::AccessDenied("SELinux policy denies access".into())),
            "never" => {}
            "later" => {
                let (connection, signal) = (connection.clone(), removed(&job, "done"));
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    let to = None::<&str>;
                    connection
                        .emit_signal(to, MANAGER_PATH, bus::MANAGER, "JobRemoved", &signal)
                        .await
                        .unwrap();
                });
            }
            "flooded" => {
                let other = OwnedObjectPath::try_from(format!("{MANAGER_PATH}/job/999")).unwrap();
                for _ in 0..500 {
                    emit(removed(&other, "failed")).await;
                }
                emit(removed(&job, "done")).await;
            }
            "lied-about" => {
                let to = header.sender().cloned();
                let lie = removed(&job, "done");
                self.liar.emit_signal(to, MANAGER_PATH, bus::MANAGER, "JobRemoved", &lie).await.unwrap();
                emit(removed(&job, "failed")).await;
            }
            // At once, before the caller knows the path of its job.
            result if self.subscribed => emit(removed(&job, result)).await,
            _ => {}
        }
        Ok(job)
    }
}

struct FakeUnit(&'static str);

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl FakeUnit {
    #[zbus(property)]
    fn id(&self) -> &str {
        self.0
    }
    #[zbus(property)]
    fn load_state(&self) -> &str {
        "loaded"
    }
    #[zbus(property)]
    fn active_state(&self) -> &str {
        "active"
    }
    #[zbus(property)]
    fn sub_state(&self) -> &str {
        "mounted"
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
        (7, OwnedObjectPath::try_from("/org/freedesktop/systemd1/job/7").unwrap())
    }
}

struct FakeMount;

#[interface(name = "org.freedesktop.systemd1.Mount")]
impl FakeMount {
    #[zbus(property, name = "Where")]
    fn place(&self) -> &str {
        "/srv/x"
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
        "success"
    }
}

/// Bus, PID 1 and host, gone when dropped.
struct Machine {
    base: PathBuf,
    host: Host,
    daemon: Child,
    systemd: Option<(tokio::sync::oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Machine {
    /// Nothing where there is no dbus-daemon.
    fn new(name: &str) -> Option<Self> {
        let base = std::env::temp_dir().join(format!("etcd-lun-bus-{}-{name}", std::process::id()));
        let socket = base.join("run/dbus/system_bus_socket");
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
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
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
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

    fn start(&self, name: &str, limit: Duration) -> String {
        match start(&self.host, name, limit) {
            Ok(()) => "well".into(),
            Err(error) => error.to_string(),
        }
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
    let liar = Builder::address(address).build().await?;
    let object = |name| ObjectPath::try_from(format!("{MANAGER_PATH}/unit/{name}"));
    Builder::address(address)
        .serve_at(MANAGER_PATH, Manager { subscribed: false, jobs: 0, liar })
        .serve_at(object("srv_2dx_2emount")?, FakeUnit("srv-x.mount"))
        .serve_at(object("srv_2dx_2emount")?, FakeMount)
        .serve_at(object("half_2emount")?, FakeUnit("half.mount"))
        .name(bus::SYSTEMD)
        .build()
        .await
}

#[test]
fn jobs() {
    let Some(machine) = Machine::new("jobs") else { return };
    for (unit, said) in [
        ("done", "well"),
        ("later", "well"),
        ("flooded", "well"),
        ("failed", "starting failed.service: the job ended as `failed`; see `journalctl -u failed.service`"),
        (
            "dependency",
            "starting dependency.service: the job ended as `dependency`; see `journalctl -u dependency.service`",
        ),
        (
            "lied-about",
            "starting lied-about.service: the job ended as `failed`; see `journalctl -u lied-about.service`",
        ),
        ("absent", "there is no unit absent.service: install it, then `systemctl daemon-reload`"),
        (
            "masked",
            "starting masked.service: Unit masked.service is masked. (org.freedesktop.systemd1.UnitMasked)",
        ),
        (
            "denied",
            "starting denied.service is not allowed: SELinux policy denies access; run as root, and see \
             `ausearch -m user_avc,avc -ts recent`",
        ),
    ] {
        assert_eq!(machine.start(&format!("{unit}.service"), LIMIT), said);
    }
    assert!(matches!(
        stop(&machine.host, "x.service", LIMIT),
        Err(SystemdError::Other { said, .. }) if said.contains("UnknownMethod")
    ));
}

#[test]
fn a_scope() {
    let Some(machine) = Machine::new("scope") else { return };
    let enter = |name: &str, result: &str| match enter_scope(&machine.host, name, result) {
        Ok(()) => "well".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(enter("x.scope", "done"), "well");
    let said = "making x.scope: the job ended as `failed`; see `journalctl -u x.scope`";
    assert_eq!(enter("x.scope", "failed"), said);
    let said =
        "making taken.scope: Unit taken.scope was already loaded. (org.freedesktop.systemd1.UnitExists)";
    assert_eq!(enter("taken.scope", "done"), said);
    let said = "making denied.scope is not allowed: SELinux policy denies access; run as root, and see \
                `ausearch -m user_avc,avc -ts recent`";
    assert_eq!(enter("denied.scope", "done"), said);
}

#[test]
fn limits() {
    let Some(machine) = Machine::new("limits") else { return };
    let begun = Instant::now();
    let limit = Duration::from_millis(300);
    let error = start(&machine.host, "never.service", limit).unwrap_err();
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

#[test]
fn properties() {
    let Some(machine) = Machine::new("properties") else { return };
    let unit = unit(&machine.host, "srv-x.mount").unwrap();
    assert_eq!((unit.name.as_str(), unit.sub_state.as_str()), ("srv-x.mount", "mounted"));
    assert!(unit.is_active() && unit.exists() && unit.job_pending && !unit.is_stopped());
    let mount =
        MountProperties { what: "/dev/sda".into(), place: "/srv/x".into(), options: "rw,prjquota".into() };
    assert_eq!((unit.mount, unit.result.as_deref(), unit.main_pid), (Some(mount), Some("success"), None));
    // A mount unit that doesn't tell what it mounts is not one that mounts nothing.
    let error = super::unit(&machine.host, "half.mount").unwrap_err();
    assert!(
        matches!(&error, SystemdError::Other { doing, .. } if doing == "asking for half.mount"),
        "{error}"
    );
}

/// Over one connection, each answer is about its own unit, and an error of one leaves the others.
#[test]
fn several_units() {
    let Some(machine) = Machine::new("several") else { return };
    let said = units(&machine.host, &["srv-x.mount", "half.mount", "a\0b.service", "srv-x.mount"]).unwrap();
    let names: Vec<_> = said.iter().map(|said| said.as_ref().map(|unit| unit.name.as_str()).ok()).collect();
    assert_eq!(names, [Some("srv-x.mount"), None, None, Some("srv-x.mount")]);
    let why = |at: usize| said[at].as_ref().unwrap_err().to_string();
    assert!(why(1).contains("half.mount") && why(2).contains("null character"), "{}, {}", why(1), why(2));
    assert_eq!(units(&machine.host, &[]).unwrap().len(), 0);
}

#[test]
fn nobody_there() {
    let Some(mut machine) = Machine::new("nobody") else { return };
    machine.stop_systemd();
    let said = machine.start("x.service", LIMIT);
    assert!(said.starts_with("starting x.service: ") && said.contains("systemd1"), "{said}");
    let socket = machine.base.join("run/dbus/system_bus_socket");
    fs::remove_file(&socket).unwrap();
    assert!(matches!(unit(&machine.host, "x.service"), Err(SystemdError::NoBus { .. })));
    // A bus that accepts and then says nothing.
    let _silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let limit = Duration::from_millis(300);
    let error = start(&machine.host, "x.service", limit).unwrap_err();
    assert!(matches!(error, SystemdError::TimedOut { .. }), "{error}");
}
