//! The units that move the manifest of a static pod aside and back, for a service whose SELinux domain may not.

use super::{
    Rendered, UnitError,
    template::{self, is_plain_path},
};
use crate::terms::AbsPath;

/// The unit that moves the manifest aside.
pub const PARK_SERVICE: &str = "etcd-lun-park.service";
/// The unit that puts it back.
pub const PUT_BACK_SERVICE: &str = "etcd-lun-put-back.service";
/// Both.
pub const MANIFEST_UNITS: [&str; 2] = [PARK_SERVICE, PUT_BACK_SERVICE];

const PARK_TEMPLATE: &str = include_str!("../../../units/etcd-lun-park.service.in");
const PUT_BACK_TEMPLATE: &str = include_str!("../../../units/etcd-lun-put-back.service.in");

/// Renders both units. `parked` is where the manifest lies while etcd is stopped. Fails on a path that systemd would split or
/// expand.
pub(super) fn manifest_units(manifest: &AbsPath, parked: &AbsPath) -> Result<[Rendered; 2], UnitError> {
    if !is_plain_path(manifest) {
        return Err(UnitError {
            unit: PARK_SERVICE.into(),
            key: "ExecStart=",
            value: manifest.to_string(),
            why: template::NOT_PLAIN,
        });
    }
    let values = [
        ("@MANIFEST@", manifest.to_string()),
        ("@MANIFEST_DIR@", manifest.parent().to_string()),
        ("@PARKED@", parked.to_string()),
        ("@PARKED_DIR@", parked.parent().to_string()),
    ];
    let rendered = |name: &str, text| Rendered { name: name.into(), text: template::filled(text, &values) };
    Ok([rendered(PARK_SERVICE, PARK_TEMPLATE), rendered(PUT_BACK_SERVICE, PUT_BACK_TEMPLATE)])
}
