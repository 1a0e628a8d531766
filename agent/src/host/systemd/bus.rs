//! One conversation with PID 1 over the system bus.

use super::{SystemdError, proxies::ManagerProxy, socket};
use crate::host::{Host, exec::one_line};
use std::{collections::HashMap, future::Future, io};
use tokio::net::UnixStream;
use zbus::{
    Connection, DBusError as _, ObjectPath, OwnedVariant,
    connection::Builder,
    fdo::{DBusProxy, PropertiesProxy},
    names::{BusName, InterfaceName, OwnedUniqueName, WellKnownName},
    proxy::CacheProperties,
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

/// Why a conversation failed otherwise than by an answer that is an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The connection ended.
    #[error("the connection to the bus broke: {0}; try again, and see `systemctl status dbus.socket`")]
    Lost(zbus::Error),
    /// The bus does not accept this process.
    #[error("{0}; run as root, and see `systemctl status dbus.socket`")]
    NotLetIn(zbus::Error),
    /// An answer of another type, or one that is not D-Bus.
    #[error("what came over the bus cannot be read: {0}; please report it, with `systemctl --version`")]
    Unreadable(zbus::Error),
    /// Signals came faster than they were taken.
    #[error("more signals came than can be kept; try again")]
    Flooded,
    /// A name that no message can carry; zbus would send it, and the bus would hang up.
    #[error("an argument holds a null character")]
    Null,
}

/// Holds a conversation on a runtime of its own, in this thread.
///
/// zbus reads its socket in a task, and a task that nobody waits for lives until the runtime runs again. With this
/// runtime every task ends and the socket is closed, also after a time limit.
pub(super) fn converse<T>(work: impl Future<Output = Result<T, SystemdError>>) -> Result<T, SystemdError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|source| SystemdError::NoBus { path: SOCKET.into(), source })?.block_on(work)
}

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
        if unit.contains('\0') {
            return Err(SystemdError::Other { doing: one_line(&doing), said: Broken::Null.to_string() });
        }
        let no_bus = |source: io::Error| SystemdError::NoBus { path: SOCKET.into(), source };
        let stream = UnixStream::connect(host.root.locate(SOCKET)).await.map_err(no_bus)?;
        match Builder::socket(socket::split(stream)).build().await {
            Ok(connection) => Ok(Self { connection, doing, unit: unit.to_owned() }),
            Err(error) => Err(explain(error, &doing, unit)),
        }
    }

    /// systemd's manager.
    pub(super) async fn manager(&self) -> Result<ManagerProxy<'static>, SystemdError> {
        let manager = ManagerProxy::builder(&self.connection).cache_properties(CacheProperties::No);
        manager.build().await.map_err(|error| self.explain(error))
    }

    /// All properties of one interface of an object, as of one moment.
    pub(super) async fn properties(
        &self,
        path: &ObjectPath<'_>,
        interface: &'static str,
    ) -> Result<HashMap<String, OwnedVariant>, SystemdError> {
        let asked = async {
            let object = PropertiesProxy::builder(&self.connection).destination(SYSTEMD).path(path);
            let object = object.cache_properties(CacheProperties::No).build().await?;
            Ok(object.get_all(InterfaceName::try_from(interface)?).await?)
        };
        asked.await.map_err(|error: zbus::Error| self.explain(error))
    }

    /// The connection that is PID 1's now, as the bus names it.
    pub(super) async fn owner_of_systemd(&self) -> zbus::Result<OwnedUniqueName> {
        let bus = DBusProxy::builder(&self.connection).cache_properties(CacheProperties::No).build().await?;
        Ok(bus.get_name_owner(BusName::from(WellKnownName::try_from(SYSTEMD)?)).await?)
    }

    /// What an error of this conversation means.
    pub(super) fn explain(&self, error: zbus::Error) -> SystemdError {
        explain(error, &self.doing, &self.unit)
    }

    /// An answer that makes no sense.
    pub(super) fn confused(&self, said: String) -> SystemdError {
        SystemdError::Other { doing: self.doing.clone(), said }
    }
}

fn explain(error: zbus::Error, doing: &str, unit: &str) -> SystemdError {
    let doing = doing.to_owned();
    let (name, said) = match &error {
        zbus::Error::MethodError(name, said, _) => (name.as_str().to_owned(), said.as_deref()),
        zbus::Error::FDO(error) => (error.name().as_str().to_owned(), error.description()),
        _ => return SystemdError::Other { doing, said: one_line(&broken(error).to_string()) },
    };
    let said = one_line(said.unwrap_or_default());
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

fn broken(error: zbus::Error) -> Broken {
    match error {
        zbus::Error::InputOutput(_) => Broken::Lost(error),
        zbus::Error::Handshake(_) => Broken::NotLetIn(error),
        _ => Broken::Unreadable(error),
    }
}
