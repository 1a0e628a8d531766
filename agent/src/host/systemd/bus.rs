//! One conversation with PID 1 over the system bus.

use super::{
    SystemdError,
    dbus::{Call, Connection, DbusError, Message, Signal},
};
use crate::host::{Host, exec::one_line};
use tokio::net::UnixStream;

/// Where the bus listens. Not `$DBUS_SYSTEM_BUS_ADDRESS`: whom root asks to start units must not
/// depend on who calls.
const SOCKET: &str = "/run/dbus/system_bus_socket";
/// systemd's name on the bus.
pub(super) const SYSTEMD: &str = "org.freedesktop.systemd1";
/// Its one manager.
pub(super) const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
/// The interface of the manager: org.freedesktop.systemd1(5).
pub(super) const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// A connection, and what it is used for: the beginning of each error.
#[derive(Debug)]
pub(super) struct Bus {
    connection: Connection,
    doing: String,
    unit: String,
}

impl Bus {
    /// Connects. `doing` is a gerund: what the conversation is about to do with `unit`.
    pub(super) async fn connect(host: &Host, doing: &'static str, unit: &str) -> Result<Self, SystemdError> {
        let doing = format!("{doing} {unit}");
        let no_bus = |source| SystemdError::NoBus { path: SOCKET.into(), source };
        let stream = UnixStream::connect(host.root.locate(SOCKET)).await.map_err(no_bus)?;
        match Connection::open(stream).await {
            Ok(connection) => Ok(Self { connection, doing, unit: unit.to_owned() }),
            Err(error) => Err(explain(error, &doing, unit)),
        }
    }

    async fn ask(
        &mut self,
        path: &str,
        interface: &str,
        method: &str,
        arguments: &[&str],
    ) -> Result<Message, SystemdError> {
        let call = Call { destination: SYSTEMD, path, interface, method, arguments };
        self.connection.call(&call).await.map_err(|error| self.explain(error))
    }

    /// Calls a method of the manager.
    pub(super) async fn call(&mut self, method: &str, arguments: &[&str]) -> Result<Message, SystemdError> {
        self.ask(MANAGER_PATH, MANAGER, method, arguments).await
    }

    /// All properties of one interface of an object, to be read as `a{sv}`.
    pub(super) async fn properties(&mut self, path: &str, interface: &str) -> Result<Message, SystemdError> {
        self.ask(path, "org.freedesktop.DBus.Properties", "GetAll", &[interface]).await
    }

    /// The connection that is PID 1's now, as the bus names it.
    pub(super) async fn owner_of_systemd(&mut self) -> Result<String, SystemdError> {
        let reply = self.connection.ask_bus("GetNameOwner", &[SYSTEMD]).await;
        let reply = reply.map_err(|error| self.explain(error))?;
        let owner = reply.body("s").and_then(|mut body| body.text().map(str::to_owned));
        owner.map_err(|error| self.explain(error.into()))
    }

    /// From here on the ends of jobs are told.
    pub(super) async fn listen_to_jobs(&mut self) -> Result<(), SystemdError> {
        let removed =
            Signal { sender: SYSTEMD, path: MANAGER_PATH, interface: MANAGER, member: "JobRemoved" };
        self.connection.listen(removed).await.map_err(|error| self.explain(error))
    }

    /// The next signal of [`Self::listen_to_jobs`], or of somebody who makes believe.
    pub(super) async fn signal(&mut self) -> Result<Message, SystemdError> {
        self.connection.signal().await.map_err(|error| self.explain(error))
    }

    /// What an error of this conversation means.
    pub(super) fn explain(&self, error: DbusError) -> SystemdError {
        explain(error, &self.doing, &self.unit)
    }

    /// An answer that makes no sense.
    pub(super) fn confused(&self, said: String) -> SystemdError {
        SystemdError::Other { doing: self.doing.clone(), said }
    }
}

fn explain(error: DbusError, doing: &str, unit: &str) -> SystemdError {
    let doing = doing.to_owned();
    let (name, said) = match error {
        DbusError::Refused { name, said } => (name, said),
        other => return SystemdError::Other { doing, said: one_line(&other.to_string()) },
    };
    let said = one_line(&said.unwrap_or_default());
    match name.as_str() {
        "org.freedesktop.systemd1.NoSuchUnit" => SystemdError::NoSuchUnit { unit: unit.to_owned() },
        "org.freedesktop.DBus.Error.AccessDenied"
        | "org.freedesktop.DBus.Error.AuthFailed"
        | "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired" => {
            SystemdError::Denied { doing, said }
        }
        _ => SystemdError::Other { doing, said: format!("{said} ({name})") },
    }
}
