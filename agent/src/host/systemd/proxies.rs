//! What this program uses of systemd's D-Bus interface: org.freedesktop.systemd1(5), as of systemd 252.
//!
//! A unit's properties are not here. `GetAll` tells them in one answer, so they belong to one moment; each property of a
//! proxy would be a call of its own.

use zbus::{ObjectPath, OwnedObjectPath, Result, proxy};

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
    /// Forgets that a unit failed.
    fn reset_failed_unit(&self, name: &str) -> Result<()>;
    /// Reads the unit files anew.
    fn reload(&self) -> Result<()>;
    /// `running`, `stopping` and others.
    #[zbus(property(emits_changed_signal = "false"))]
    fn system_state(&self) -> Result<String>;
    /// A job has ended.
    #[zbus(signal)]
    fn job_removed(&self, id: u32, job: ObjectPath<'_>, unit: &str, result: &str) -> Result<()>;
}
