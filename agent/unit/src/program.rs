//! The units and the script that bring the program to a node, before all other units of ours.

use super::{Rendered, template};
use terms::{AbsPath, Span};

/// The name of the service that puts the program in place.
pub const PROGRAM_SERVICE: &str = "etcd-lun-program.service";
/// The name of the service that fetches the image. Only the other one starts it.
pub const FETCH_SERVICE: &str = "etcd-lun-program-fetch.service";

/// The file that names the program by its SHA-256, for each architecture, and the image that has it.
pub const PROGRAM_ORDER: &str = "/etc/etcd-lun/program";
/// The script that both services run.
pub const PROGRAM_SCRIPT: &str = "/usr/local/lib/etcd-lun/program.sh";
/// The packed program, where the object brings the program itself.
pub const PROGRAM_PACKED: &str = "/usr/local/lib/etcd-lun/program.lzma";

const TEMPLATE: &str = include_str!("../../../units/etcd-lun-program.service.in");
const FETCH_TEMPLATE: &str = include_str!("../../../units/etcd-lun-program-fetch.service.in");
const SCRIPT: &str = include_str!("../../../units/etcd-lun-program.sh");

/// The script's text.
pub fn program_script() -> String {
    template::bare(SCRIPT)
}

/// Renders both services. `beneath` was validated when the main service was rendered. Where no program is in place, it is fetched
/// for as long as `patience` before the boot goes on without.
pub(super) fn program_units(beneath: &[AbsPath], patience: Span) -> [Rendered; 2] {
    let beneath: Vec<_> = beneath.iter().map(AbsPath::as_str).collect();
    let values = [
        ("@BENEATH@", beneath.join(" ")),
        ("@SCRIPT@", PROGRAM_SCRIPT.to_owned()),
        ("@PATIENCE@", patience.0.as_secs().to_string()),
    ];
    [(FETCH_SERVICE, FETCH_TEMPLATE), (PROGRAM_SERVICE, TEMPLATE)]
        .map(|(name, text)| Rendered { name: name.into(), text: template::filled(text, &values) })
}
