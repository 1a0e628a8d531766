//! What this program uses of systemd's manager: org.freedesktop.systemd1(5), as of systemd 252. The proxies for properties and
//! for the bus itself are zbus's own.

use zbus::{ObjectPath, OwnedObjectPath, Result, Variant, proxy};

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
