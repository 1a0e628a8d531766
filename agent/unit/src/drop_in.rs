//! Drop-ins of units that are not ours: by them a boot starts our units, whoever uses the data is ordered after the mount, and the
//! kubelet waits for the LUN. Nothing of ours has the name of the mount itself: on a node that is not moved, it may be another's.
//!
//! They are files, because nobody updates the links that an `[Install]` section makes: such a link stays when the unit changes,
//! is not made where only the unit is rewritten, and is absent after a power cut in `systemctl enable`
//! (openshift/machine-config-operator, OCPBUGS-33694 and OCPBUGS-58023).

use super::{
    HEALTH_TIMER, ISCSID_SERVICE, KUBELET, MULTIPATH_SERVICE, SERVICE, UnitInput, for_config::users,
    mount_unit_name, template,
};
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
const ORDER_TEMPLATE: &str = include_str!("../../../units/etcd-lun-order.conf.in");
const MULTIPATHD_TEMPLATE: &str = include_str!("../../../units/etcd-lun-multipathd.conf.in");
const ISCSID_TEMPLATE: &str = include_str!("../../../units/etcd-lun-iscsid.conf.in");

/// The dependency of another unit on ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    /// It only starts after the mount of the LUN, and stops before the unmount.
    Order,
    /// It starts ours, and itself in any case.
    Wants,
    /// It starts ours, and itself only if that succeeds.
    Requires,
}

/// A drop-in, ready to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIn {
    /// The unit that it belongs to, such as `kubelet.service`.
    pub unit: String,
    /// The unit's name with this suffix.
    pub dependency: Dependency,
    /// The units of ours that the unit then depends on.
    pub on: &'static [&'static str],
    /// The whole text.
    pub text: String,
}

impl DropIn {
    fn wants(unit: &str, on: &'static [&'static str], template: &str) -> Self {
        let text = template::filled(template, &[("@UNITS@", on.join(" "))]);
        Self { unit: unit.to_owned(), dependency: Dependency::Wants, on, text }
    }

    /// Of a unit that uses the data.
    fn order(unit: String, gate: Gate, mount: &str) -> Self {
        let (dependency, on): (_, &[_]) = match gate {
            Gate::Kubelet if KUBELET.contains(&&*unit) => (Dependency::Requires, &[SERVICE]),
            Gate::Kubelet | Gate::Etcd => (Dependency::Order, &[]),
        };
        let values = [("@MOUNT@", mount.to_owned()), ("@UNITS@", on.join(" "))];
        Self { unit, dependency, on, text: template::filled(ORDER_TEMPLATE, &values) }
    }

    /// The path below a directory of units.
    pub fn path(&self) -> String {
        path(&self.unit)
    }
}

fn path(unit: &str) -> String {
    format!("{unit}.d/{DROP_IN}")
}

/// Renders the drop-ins that a config asks for, in the order of their units' names.
pub fn drop_ins<'a>(input: impl Into<UnitInput<'a>>) -> Vec<DropIn> {
    let input = input.into();
    let mount = mount_unit_name(&input.etcd.data_dir);
    let mut all = vec![DropIn::wants(BOOT, &[SERVICE, HEALTH_TIMER], BOOT_TEMPLATE)];
    all.extend(users(input).into_iter().map(|unit| DropIn::order(unit, input.boot.gate, &mount)));
    if input.targets.iter().any(|target| target.multipath) {
        all.push(DropIn::wants(MULTIPATHD, &[MULTIPATH_SERVICE], MULTIPATHD_TEMPLATE));
    }
    if input.targets.iter().any(|target| target.safe_logout) {
        all.push(DropIn::wants(ISCSID, &[ISCSID_SERVICE], ISCSID_TEMPLATE));
    }
    all.sort_by(|one, other| one.unit.cmp(&other.unit));
    all
}

/// True for the mount unit of an earlier release. Without the link that it names, it mounts nothing.
pub fn is_earlier_mount(text: &str) -> bool {
    text.lines().any(|line| line == "What=/run/etcd-lun-hands/verified")
}

/// Files that may lie below a directory of units, and have no place there with this config: drop-ins of another config,
/// and the links that earlier releases had, which PID 1 would still follow.
pub fn obsolete<'a>(input: impl Into<UnitInput<'a>>) -> Vec<String> {
    let wanted: Vec<_> = drop_ins(input).iter().map(DropIn::path).collect();
    let drop_ins = [ISCSID, MULTIPATHD].map(path).into_iter().filter(|path| !wanted.contains(path));
    let required = KUBELET.map(|unit| format!("{unit}.requires/{SERVICE}"));
    let links = [
        format!("{BOOT}.wants/{SERVICE}"),
        format!("timers.target.wants/{HEALTH_TIMER}"),
        format!("{MULTIPATHD}.wants/{MULTIPATH_SERVICE}"),
    ];
    drop_ins.chain(required).chain(links).collect()
}
