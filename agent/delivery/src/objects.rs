//! Objects beside the MachineConfig: one has the nodes fetch the image early, one lets them take a new program without a
//! reboot.

use super::{ImageRef, ObjectName, Role, machineconfig::metadata, yaml::Yaml};

/// Renders a PinnedImageSet: the nodes of the pool fetch the image before a MachineConfig asks for it, and keep it. Version 1
/// is in OpenShift 4.20 and later.
pub fn pinned_image_set(image: &ImageRef, role: &Role, name: &ObjectName) -> String {
    let image = Yaml::Map(vec![("name", Yaml::text(image.as_str()))]);
    Yaml::Map(vec![
        ("apiVersion", Yaml::text("machineconfiguration.openshift.io/v1")),
        ("kind", Yaml::text("PinnedImageSet")),
        ("metadata", metadata(role, name, &[])),
        ("spec", Yaml::Map(vec![("pinnedImages", Yaml::List(vec![image]))])),
    ])
    .document()
}

/// Renders the NodeDisruptionPolicy for a change of the program: the nodes fetch and install it, and then the policy module
/// that is inside it, and do not reboot. OpenShift 4.17 and later has such policies.
///
/// All of them are in one object that every cluster has, named `cluster`.
pub fn disruption_policy() -> String {
    let restart = |name: &str| {
        Yaml::Map(vec![
            ("type", Yaml::text("Restart")),
            ("restart", Yaml::Map(vec![("serviceName", Yaml::text(name))])),
        ])
    };
    let file = Yaml::Map(vec![
        ("path", Yaml::text(unit::PROGRAM_ORDER)),
        ("actions", Yaml::List(vec![restart(unit::PROGRAM_SERVICE), restart(unit::SELINUX_SERVICE)])),
    ]);
    let policy = Yaml::Map(vec![("files", Yaml::List(vec![file]))]);
    Yaml::Map(vec![
        ("apiVersion", Yaml::text("operator.openshift.io/v1")),
        ("kind", Yaml::text("MachineConfiguration")),
        ("metadata", Yaml::Map(vec![("name", Yaml::text("cluster"))])),
        ("spec", Yaml::Map(vec![("nodeDisruptionPolicy", policy)])),
    ])
    .document()
}
