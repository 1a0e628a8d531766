//! One conversation with PID 1 over the system bus.

use super::SystemdError;
use crate::host::{Host, exec::one_line};
use serde::Serialize;
use std::collections::HashMap;
use tokio::net::UnixStream;
use zbus::{
    Connection, DBusError, Message, ObjectPath, OwnedVariant, connection::Builder, wire::DynamicType,
};

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
    pub(super) connection: Connection,
    doing: String,
    unit: String,
}

impl Bus {
    /// Connects. `doing` is a gerund: what the conversation is about to do with `unit`.
    pub(super) async fn connect(host: &Host, doing: &'static str, unit: &str) -> Result<Self, SystemdError> {
        let doing = format!("{doing} {unit}");
        let no_bus = |source| SystemdError::NoBus { path: SOCKET.into(), source };
        let stream = UnixStream::connect(host.root.locate(SOCKET)).await.map_err(no_bus)?;
        let stream = stream.into_std().map_err(no_bus)?;
        match Builder::unix_stream(stream).build().await {
            Ok(connection) => Ok(Self { connection, doing, unit: unit.to_owned() }),
            Err(error) => Err(explain(&error, &doing, unit)),
        }
    }

    /// Calls a method of the manager.
    pub(super) async fn call<B>(&self, method: &'static str, body: &B) -> Result<Message, SystemdError>
    where
        B: Serialize + DynamicType + Sync,
    {
        let call = self.connection.call_method(Some(SYSTEMD), MANAGER_PATH, Some(MANAGER), method, body);
        call.await.map_err(|error| self.explain(&error))
    }

    /// All properties of one interface of an object.
    pub(super) async fn properties(
        &self,
        path: &ObjectPath<'_>,
        interface: &str,
    ) -> Result<HashMap<String, OwnedVariant>, SystemdError> {
        let properties = Some("org.freedesktop.DBus.Properties");
        let call = self.connection.call_method(Some(SYSTEMD), path, properties, "GetAll", &interface);
        let reply = call.await.map_err(|error| self.explain(&error))?;
        reply.body().deserialize().map_err(|error| self.explain(&error))
    }

    /// The connection that is PID 1's now, as the bus names it.
    pub(super) async fn owner_of_systemd(&self) -> Result<String, SystemdError> {
        let (bus, path) = ("org.freedesktop.DBus", "/org/freedesktop/DBus");
        let call = self.connection.call_method(Some(bus), path, Some(bus), "GetNameOwner", &SYSTEMD);
        let reply = call.await.map_err(|error| self.explain(&error))?;
        reply.body().deserialize().map_err(|error| self.explain(&error))
    }

    /// What an error of this conversation means.
    pub(super) fn explain(&self, error: &zbus::Error) -> SystemdError {
        explain(error, &self.doing, &self.unit)
    }

    /// An answer that makes no sense.
    pub(super) fn confused(&self, said: String) -> SystemdError {
        SystemdError::Other { doing: self.doing.clone(), said }
    }
}

fn explain(error: &zbus::Error, doing: &str, unit: &str) -> SystemdError {
    let doing = doing.to_owned();
    let (name, said) = match error {
        zbus::Error::MethodError(name, said, _) => (name.to_string(), said.clone()),
        zbus::Error::FDO(error) => (error.name().to_string(), error.description().map(str::to_owned)),
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
