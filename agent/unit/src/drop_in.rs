//! Drop-ins of units that are not ours: by them a boot starts our units, and the kubelet waits for the LUN.
//!
//! They are files, because nobody updates the links that an `[Install]` section makes: such a link stays when the unit changes,
//! is not made where only the unit is rewritten, and is absent after a power cut in `systemctl enable`
//! (openshift/machine-config-operator, OCPBUGS-33694 and OCPBUGS-58023).

use super::{HEALTH_TIMER, ISCSID_SERVICE, KUBELET, MULTIPATH_SERVICE, SERVICE, UnitInput, template};
use config::Gate;

/// The file name of each of our drop-ins.
pub const DROP_IN: &str = "50-etcd-lun.conf";

/// The target that every ordinary boot reaches.
const BOOT: &str = "multi-user.target";
/// The daemon's unit. Red Hat's packages bring it enabled, but someone may have disabled it.
pub const MULTIPATHD: &str = "multipathd.service";

/// The daemon that keeps the sessions.
const ISCSID: &str = "iscsid.service";

const BOOT_TEMPLATE: &str = include_str!("../../../units/etcd-lun-boot.conf.in");
const GATE_TEMPLATE: &str = include_str!("../../../units/etcd-lun-gate.conf.in");
const MULTIPATHD_TEMPLATE: &str = include_str!("../../../units/etcd-lun-multipathd.conf.in");
const ISCSID_TEMPLATE: &str = include_str!("../../../units/etcd-lun-iscsid.conf.in");

/// The dependency of another unit on ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    /// It starts ours, and itself in any case.
    Wants,
    /// It starts ours, and itself only if that succeeds.
    Requires,
}

/// A drop-in, ready to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIn {
    /// The unit that it belongs to, such as `kubelet.service`.
    pub unit: &'static str,
    /// The unit's name with this suffix.
    pub dependency: Dependency,
    /// The units of ours that the unit then depends on.
    pub on: &'static [&'static str],
    /// The whole text.
    pub text: String,
}

impl DropIn {
    fn new(unit: &'static str, dependency: Dependency, on: &'static [&'static str], template: &str) -> Self {
        Self { unit, dependency, on, text: template::filled(template, &[("@UNITS@", on.join(" "))]) }
    }

    /// The path below a directory of units.
    pub fn path(&self) -> String {
        path(self.unit)
    }
}

fn path(unit: &str) -> String {
    format!("{unit}.d/{DROP_IN}")
}

/// Renders the drop-ins that a config asks for, in the order of their units' names.
pub fn drop_ins<'a>(input: impl Into<UnitInput<'a>>) -> Vec<DropIn> {
    let input = input.into();
    let mut all = vec![DropIn::new(BOOT, Dependency::Wants, &[SERVICE, HEALTH_TIMER], BOOT_TEMPLATE)];
    if input.boot.gate == Gate::Kubelet {
        all.extend(KUBELET.map(|unit| DropIn::new(unit, Dependency::Requires, &[SERVICE], GATE_TEMPLATE)));
    }
    if input.target.is_some_and(|target| target.multipath) {
        all.push(DropIn::new(MULTIPATHD, Dependency::Wants, &[MULTIPATH_SERVICE], MULTIPATHD_TEMPLATE));
    }
    if input.target.is_some_and(|target| target.safe_logout) {
        all.push(DropIn::new(ISCSID, Dependency::Wants, &[ISCSID_SERVICE], ISCSID_TEMPLATE));
    }
    all.sort_by_key(|drop_in| drop_in.unit);
    all
}

/// Files that may lie below a directory of units, and have no place there with this config: drop-ins of another config,
/// and the links that earlier releases had, which PID 1 would still follow.
pub fn obsolete<'a>(input: impl Into<UnitInput<'a>>) -> Vec<String> {
    let wanted: Vec<_> = drop_ins(input).iter().map(DropIn::path).collect();
    let drop_ins =
        KUBELET.into_iter().chain([ISCSID, MULTIPATHD]).map(path).filter(|path| !wanted.contains(path));
    let required = KUBELET.map(|unit| format!("{unit}.requires/{SERVICE}"));
    let links = [
        format!("{BOOT}.wants/{SERVICE}"),
        format!("timers.target.wants/{HEALTH_TIMER}"),
        format!("{MULTIPATHD}.wants/{MULTIPATH_SERVICE}"),
    ];
    drop_ins.chain(required).chain(links).collect()
}
