//! A connection to PID 1 over the system bus.

use super::{
    error::{SystemdError, explain},
    unit::{Properties, Unit},
};
use crate::{Host, Interrupt};
use std::{
    future::{Future, pending},
    time::Duration,
};
use tokio::{net::UnixStream, task::yield_now, time::sleep};
use zbus::{
    Connection, ObjectPath, OwnedObjectPath, Variant,
    connection::Builder,
    fdo::PropertiesProxy,
    names::InterfaceName,
    proxy::{self, CacheProperties},
};

/// The socket of the system bus. `$DBUS_SYSTEM_BUS_ADDRESS` is not used: the caller must not decide which process gets
/// root's requests to start units.
const SOCKET: &str = "/run/dbus/system_bus_socket";
/// systemd's name on the bus.
pub(super) const SYSTEMD: &str = "org.freedesktop.systemd1";
/// How long a question may take. It is libdbus's own limit for the answer to a call.
pub(super) const ASK_LIMIT: Duration = Duration::from_secs(25);

/// The calls of systemd's manager that this program uses: org.freedesktop.systemd1(5), as of systemd 252.
#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
pub(super) trait Manager {
    /// Loads a unit, if it is not loaded; its object.
    fn load_unit(&self, name: &str) -> zbus::Result<OwnedObjectPath>;
    /// Queues a job; its object.
    fn start_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    /// Queues a job; its object.
    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    /// Queues a job; its object.
    fn restart_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    /// Makes a unit without a file and queues its start; its job. `auxiliary` are further units.
    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &[(&str, Variant<'_>)],
        auxiliary: &[(&str, Vec<(&str, Variant<'_>)>)],
    ) -> zbus::Result<OwnedObjectPath>;
    /// Forgets that a unit failed.
    fn reset_failed_unit(&self, name: &str) -> zbus::Result<()>;
    /// Reads the unit files anew.
    fn reload(&self) -> zbus::Result<()>;
    /// `running`, `stopping` and others.
    #[zbus(property)]
    fn system_state(&self) -> zbus::Result<String>;
}

/// A connection to PID 1.
#[derive(Debug)]
pub(super) struct Bus {
    connection: Connection,
    /// systemd's manager.
    pub(super) manager: ManagerProxy<'static>,
}

impl Bus {
    /// Loads a unit, and reads its properties.
    pub(super) async fn unit(&self, name: &str) -> zbus::Result<Unit> {
        let path = self.manager.load_unit(name).await?;
        Unit::read(name, async |interface| self.properties(&path, interface).await).await
    }

    /// Reads all properties of one interface of an object, as of one moment. A proxy with a property for each would ask for
    /// each apart, or keep a copy that PID 1's signals bring up to date.
    async fn properties(&self, path: &ObjectPath<'_>, interface: &str) -> zbus::Result<Properties> {
        let object =
            PropertiesProxy::builder(&self.connection).destination(SYSTEMD).path(path).build().await?;
        Ok(object.get_all(InterfaceName::try_from(interface)?).await?)
    }
}

/// One piece of work with one unit, its time limit and what ends it early. Errors name it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task<'a> {
    /// A gerund: what is about to be done with the unit.
    pub(super) doing: &'static str,
    pub(super) unit: &'a str,
    pub(super) limit: Duration,
    pub(super) interrupt: Option<&'a Interrupt>,
}

impl<'a> Task<'a> {
    /// A question: 25 s at most, not interrupted.
    pub(super) fn ask(doing: &'static str, unit: &'a str) -> Self {
        Self { doing, unit, limit: ASK_LIMIT, interrupt: None }
    }

    /// Connects and works. The limit is for both.
    pub(super) fn run<T>(
        self,
        host: &Host,
        work: impl AsyncFnOnce(&Bus) -> zbus::Result<T>,
    ) -> Result<T, SystemdError> {
        wait(
            host,
            self.within(async { work(&self.dial(host).await?).await.map_err(|error| self.explain(error)) }),
        )
    }

    /// Connects, within the limit.
    pub(super) async fn connect(self, host: &Host) -> Result<Bus, SystemdError> {
        self.within(self.dial(host)).await
    }

    /// Reads what PID 1 knows about the unit, within the limit.
    pub(super) async fn read(self, bus: &Bus) -> Result<Unit, SystemdError> {
        self.within(async { bus.unit(self.unit).await.map_err(|error| self.explain(error)) }).await
    }

    async fn dial(self, host: &Host) -> Result<Bus, SystemdError> {
        let stream = UnixStream::connect(host.root.locate(SOCKET)).await.and_then(UnixStream::into_std);
        let stream = stream.map_err(|source| SystemdError::NoBus { path: SOCKET.into(), source })?;
        let bus = async {
            let connection = Builder::unix_stream(stream).build().await?;
            // A cache is kept up to date by signals. Nothing here needs one.
            let manager =
                proxy::Builder::new(&connection).cache_properties(CacheProperties::No).build().await?;
            Ok(Bus { connection, manager })
        };
        bus.await.map_err(|error| self.explain(error))
    }

    /// Waits for work, for the limit or for the interrupt, whichever is first.
    async fn within<T>(self, work: impl Future<Output = Result<T, SystemdError>>) -> Result<T, SystemdError> {
        let Self { doing, unit, limit, interrupt } = self;
        let interrupted = async {
            match interrupt {
                Some(interrupt) => interrupt.requested().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased; // an interrupt that is already there leaves nothing queued
            () = interrupted => Err(SystemdError::Interrupted { doing, unit: unit.to_owned() }),
            () = sleep(limit) => Err(SystemdError::TimedOut { doing, unit: unit.to_owned(), limit }),
            done = work => done,
        }
    }

    fn explain(self, error: zbus::Error) -> SystemdError {
        explain(error, self.doing, self.unit)
    }
}

/// Waits for work with a connection, and then until the connection is closed. zbus reads its socket in a task, which ends, and
/// closes the socket, when the runtime runs again.
pub(super) fn wait<T>(host: &Host, work: impl Future<Output = T>) -> T {
    host.wait(async {
        let done = work.await;
        yield_now().await;
        done
    })
}
