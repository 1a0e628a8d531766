//! The sockets on which the confined service asks for what it may not do itself, and the services that do it.

use super::{
    Rendered, UnitError,
    template::{self, NOT_PLAIN, is_plain, is_plain_path, is_unit_name},
};
use config::{Runtime, Target};
use std::net::IpAddr;
use terms::{AbsPath, Portal};

/// The directory of the socket, which only PID 1 writes to.
pub const HANDS_DIR: &str = "/run/etcd-lun-hands";
/// The socket.
pub const HANDS_PATH: &str = "/run/etcd-lun-hands/socket";
/// The unit of the socket.
pub const HANDS_SOCKET: &str = "etcd-lun-hands.socket";
/// The service. Each connection has an instance of its own.
pub const HANDS_SERVICE: &str = "etcd-lun-hands@.service";

/// The socket of the process that asks portals.
pub const PORTALS_PATH: &str = "/run/etcd-lun-hands/portals";
/// The unit of that socket.
const PORTALS_SOCKET: &str = "etcd-lun-portals.socket";
/// The service of that process.
const PORTALS_SERVICE: &str = "etcd-lun-portals@.service";

/// The SELinux context of the service. Where the policy doesn't know it, systemd doesn't start it.
const CONTEXT: &str = "system_u:system_r:etcd_lun_hands_t:s0";

/// The SELinux context of the process that asks portals.
const PORTALS_CONTEXT: &str = "system_u:system_r:etcd_lun_portals_t:s0";

/// Both have no values.
const SOCKET_UNIT: &str = include_str!("../../../units/etcd-lun-hands.socket.in");
const TEMPLATE: &str = include_str!("../../../units/etcd-lun-hands@.service.in");
const PORTALS_SOCKET_UNIT: &str = include_str!("../../../units/etcd-lun-portals.socket.in");
const PORTALS_TEMPLATE: &str = include_str!("../../../units/etcd-lun-portals@.service.in");

/// Renders both units. Fails on values that systemd would split or expand.
pub(super) fn hands_units(
    program: &AbsPath,
    targets: &[Target],
    data_dir: &AbsPath,
    mount_options: &[String],
    runtime: &Runtime,
) -> Result<[Rendered; 2], UnitError> {
    let refuse = |value: &str, why| {
        Err(UnitError { unit: HANDS_SERVICE.into(), key: "ExecStart=", value: value.to_owned(), why })
    };
    let etcd = match runtime {
        Runtime::StaticPod { manifest } if is_plain_path(manifest) => format!("--manifest {manifest}"),
        Runtime::StaticPod { manifest } => return refuse(manifest.as_str(), NOT_PLAIN),
        Runtime::Systemd { unit } if is_unit_name(unit) => format!("--unit {unit}"),
        Runtime::Systemd { unit } => return refuse(unit, "it is not the name of a unit"),
    };
    if data_dir.as_str() == "/" {
        return refuse("/", "the root is not a data directory");
    }
    if !is_plain_path(data_dir) {
        return refuse(data_dir.as_str(), NOT_PLAIN);
    }
    let mut errand = format!("--data-dir {data_dir} {etcd}");
    for name in targets.iter().flat_map(|target| target.iqn.all()) {
        errand += &format!(" --target {name}");
    }
    for option in mount_options {
        if !option.chars().all(is_plain) {
            return refuse(option, NOT_PLAIN);
        }
        errand += &format!(" --mount-option {option}");
    }
    let values =
        [("@PROGRAM@", program.to_string()), ("@SELINUX_CONTEXT@", CONTEXT.to_owned()), ("@ERRAND@", errand)];
    Ok([
        Rendered { name: HANDS_SOCKET.into(), text: template::bare(SOCKET_UNIT) },
        Rendered { name: HANDS_SERVICE.into(), text: template::filled(TEMPLATE, &values) },
    ])
}

/// The value of `IPAddressDeny=`, and the setting that makes exceptions from it (systemd.resource-control(5)).
fn only(addresses: &[IpAddr]) -> String {
    let allowed: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
    if allowed.is_empty() { "any".into() } else { format!("any\nIPAddressAllow={}", allowed.join(" ")) }
}

/// Renders the units that ask portals. The program was validated by [`hands_units`].
pub(super) fn portals_units(program: &AbsPath, targets: &[Target]) -> [Rendered; 2] {
    // A name may lead anywhere.
    let portals = targets.iter().flat_map(|target| &target.portals);
    let addresses: Option<Vec<_>> = portals.map(Portal::address).collect();
    let values = [
        ("@PROGRAM@", program.to_string()),
        ("@SELINUX_CONTEXT@", PORTALS_CONTEXT.to_owned()),
        ("@ADDRESSES@", addresses.as_deref().map(only).unwrap_or_default()),
    ];
    [
        Rendered { name: PORTALS_SOCKET.into(), text: template::bare(PORTALS_SOCKET_UNIT) },
        Rendered { name: PORTALS_SERVICE.into(), text: template::filled(PORTALS_TEMPLATE, &values) },
    ]
}
