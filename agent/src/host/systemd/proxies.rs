//! What this program uses of systemd's D-Bus interface: org.freedesktop.systemd1(5), as of systemd 252.
//!
//! No proxy here declares a property. `GetAll` returns all properties of a unit in one answer, so they belong to one
//! moment. A declared property would also link zbus's cache of properties into the program, and nothing here reads a cache.

use std::collections::HashMap;
use zbus::{ObjectPath, OwnedObjectPath, OwnedVariant, Result, Variant, names::OwnedUniqueName, proxy};

/// Names and values of a unit's properties: `a(sv)`.
pub(super) type Properties<'a> = Vec<(&'a str, Variant<'a>)>;

#[proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
pub(super) trait Manager {
    /// Has PID 1 send signals to this connection.
    fn subscribe(&self) -> Result<()>;
    /// Loads a unit, if it is not loaded; its object.
    fn load_unit(&self, name: &str) -> Result<OwnedObjectPath>;
    /// Queues a job; its object.
    fn start_unit(&self, name: &str, mode: &str) -> Result<OwnedObjectPath>;
    /// Queues a job; its object.
    fn stop_unit(&self, name: &str, mode: &str) -> Result<OwnedObjectPath>;
    /// Queues a job; its object.
    fn restart_unit(&self, name: &str, mode: &str) -> Result<OwnedObjectPath>;
    /// Makes a unit without a file and queues its start; its job. `auxiliary` are further units.
    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &Properties<'_>,
        auxiliary: &[(&str, Properties<'_>)],
    ) -> Result<OwnedObjectPath>;
    /// Forgets that a unit failed.
    fn reset_failed_unit(&self, name: &str) -> Result<()>;
    /// Reads the unit files anew.
    fn reload(&self) -> Result<()>;
    /// A job has ended.
    #[zbus(signal)]
    fn job_removed(&self, id: u32, job: ObjectPath<'_>, unit: &str, result: &str) -> Result<()>;
}

/// The properties of systemd's objects; of its manager where no path is given.
#[proxy(
    interface = "org.freedesktop.DBus.Properties",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
pub(super) trait ObjectProperties {
    /// One property.
    fn get(&self, interface: &str, property: &str) -> Result<OwnedVariant>;
    /// All properties of an interface, as of one moment.
    fn get_all(&self, interface: &str) -> Result<HashMap<String, OwnedVariant>>;
}

/// The bus itself.
#[proxy(
    interface = "org.freedesktop.DBus",
    default_service = "org.freedesktop.DBus",
    default_path = "/org/freedesktop/DBus"
)]
pub(super) trait Bus {
    /// The connection that has a name now.
    fn get_name_owner(&self, name: &str) -> Result<OwnedUniqueName>;
}
