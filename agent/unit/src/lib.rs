//! Renders the systemd units. Pure.
//!
//! The templates are in `units/`, with a reason above each line. A value is escaped for systemd before it is inserted, or
//! refused. Other modules install and start the units.

mod drop_in;
mod escape;
mod for_config;
mod hands;
mod health;
mod program;
mod service;
mod template;

pub use drop_in::{DROP_IN, Dependency, DropIn, MULTIPATHD, drop_ins, is_earlier_mount, obsolete};
pub use escape::{device_unit_name, escape_path, mount_unit_name};
pub use for_config::{
    InstalledBy, PACKAGED_PROGRAM, PROGRAM, UnitInput, for_config, for_config_installed_by, state_of,
};
/// How the units of the config are made again. A file that an object has brought must stay as it is: the Machine Config Daemon takes
/// a node with another content for degraded.
pub const RENDER_AGAIN: &str = "render the object again and apply it, or, where no object brings the units, run `etcd-lun render units --into /etc/systemd/system` and `systemctl daemon-reload`";

pub use hands::{HANDS_DIR, HANDS_PATH, HANDS_SERVICE, HANDS_SOCKET, PORTALS_PATH};
pub use health::{CATALOG, CATALOG_FILE, HEALTH_SERVICE, HEALTH_TIMER, LOST};
pub use program::{
    FETCH_SERVICE, PROGRAM_ORDER, PROGRAM_PACKED, PROGRAM_SCRIPT, PROGRAM_SERVICE, program_script,
};
pub use service::{
    ISCSID_SERVICE, KUBELET, LOST_SERVICE, MULTIPATH_SERVICE, PATH_TARGET, SELINUX_CONTEXT, SELINUX_SERVICE,
    SERVICE, SHUTDOWN_SERVICE, Service, iscsid_service, lost_units, multipath_service, selinux_service,
    service, shutdown_service,
};
pub use template::UnitError;

/// A unit, ready to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The file name, such as `etcd-lun.service`.
    pub name: String,
    /// The whole text.
    pub text: String,
}
