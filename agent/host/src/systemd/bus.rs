//! A connection to PID 1 over the system bus.

use super::{
    conversation::Conversation,
    error::{Broken, SystemdError},
    proxies::ManagerProxy,
    socket,
};
use crate::Host;
use std::collections::HashMap;
use tokio::net::UnixStream;
use zbus::{
    Connection, ObjectPath, OwnedVariant,
    connection::Builder,
    fdo::{DBusProxy, PropertiesProxy},
    names::{BusName, InterfaceName, OwnedUniqueName},
};

/// systemd's name on the bus.
pub(super) const SYSTEMD: &str = "org.freedesktop.systemd1";
/// Its one manager.
pub(super) const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
/// The interface of the manager: org.freedesktop.systemd1(5).
pub(super) const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// A connection, and the conversation that it serves.
#[derive(Debug)]
pub(super) struct Bus<'h> {
    pub(super) connection: Connection,
    /// systemd's manager.
    pub(super) manager: ManagerProxy<'static>,
    /// Dropped last: its runtime ends what the connection has left.
    pub(super) conversation: Conversation<'h>,
}

impl<'h> Bus<'h> {
    /// Connects.
    pub(super) fn connect(host: &Host, conversation: Conversation<'h>) -> Result<Self, SystemdError> {
        has_no_null(&conversation)?;
        let path = host.root.locate(socket::SOCKET);
        let stream = conversation.wait(async { Ok(UnixStream::connect(path).await) })?;
        let stream = stream.map_err(|source| SystemdError::NoBus { path: socket::SOCKET.into(), source })?;
        let (connection, manager) = conversation.wait(async {
            let connection = Builder::socket(socket::split(stream)).build().await?;
            let manager = ManagerProxy::new(&connection).await?;
            Ok((connection, manager))
        })?;
        Ok(Self { connection, manager, conversation })
    }

    /// The same connection, for a question about another unit.
    pub(super) fn about(&mut self, unit: &'h str) -> Result<&Self, SystemdError> {
        self.conversation.about(unit);
        has_no_null(&self.conversation)?;
        Ok(self)
    }

    /// All properties of one interface of an object, as of one moment.
    pub(super) fn properties(
        &self,
        path: &ObjectPath<'_>,
        interface: &str,
    ) -> Result<HashMap<String, OwnedVariant>, SystemdError> {
        self.conversation.wait(async {
            let object = self.object(path).await?;
            Ok(object.get_all(InterfaceName::try_from(interface)?).await?)
        })
    }

    /// The manager's property `SystemState`: `running`, `stopping` and others.
    pub(super) fn system_state(&self) -> Result<String, SystemdError> {
        self.conversation.wait(async {
            let path = ObjectPath::try_from(MANAGER_PATH)?;
            let manager = self.object(&path).await?;
            String::try_from(manager.get(InterfaceName::try_from(MANAGER)?, "SystemState").await?)
        })
    }

    /// The properties of an object of systemd's. `GetAll` gives those of one moment; a proxy with a property for each would
    /// ask for each apart, or keep a copy that PID 1's signals bring up to date.
    async fn object<'a>(&self, path: &'a ObjectPath<'a>) -> zbus::Result<PropertiesProxy<'a>> {
        PropertiesProxy::builder(&self.connection).destination(SYSTEMD).path(path).build().await
    }

    /// The connection that is PID 1's now, as the bus names it.
    pub(super) async fn owner_of_systemd(&self) -> zbus::Result<OwnedUniqueName> {
        let bus = DBusProxy::new(&self.connection).await?;
        Ok(bus.get_name_owner(BusName::try_from(SYSTEMD)?).await?)
    }
}

/// A text with a zero byte would end the connection.
fn has_no_null(conversation: &Conversation<'_>) -> Result<(), SystemdError> {
    match conversation.unit().contains('\0') {
        true => Err(conversation.confused(Broken::Null.to_string())),
        false => Ok(()),
    }
}
