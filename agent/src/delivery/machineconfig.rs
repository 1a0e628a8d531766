//! A MachineConfig: `machineconfiguration.openshift.io/v1` around an Ignition config.

use super::{Delivery, File, ObjectName, Part, Role, Sizes, Unit, encode, yaml::Yaml};

/// What Butane makes for OpenShift 4.8 to 4.13; newer ones take it as well.
const IGNITION: &str = "3.2.0";
/// The label that a MachineConfigPool selects by.
pub(super) const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";

/// An object, rendered.
#[derive(Debug)]
pub struct MachineConfig {
    /// As YAML, the same bytes for the same values.
    pub text: String,
    /// How large it is. Counted as printed: the API server keeps it as JSON, which is smaller.
    pub sizes: Sizes,
}

/// Renders a MachineConfig.
pub fn machineconfig(delivery: &Delivery, role: &Role, name: &ObjectName) -> MachineConfig {
    let mut sizes = Sizes::default();
    let files = delivery.files.iter().map(|of| file(of, &mut sizes)).collect();
    sizes.units += delivery.units.iter().map(|unit| unit.text.len()).sum::<usize>();
    let config = Yaml::Map(vec![
        ("ignition", Yaml::Map(vec![("version", Yaml::text(IGNITION))])),
        ("storage", Yaml::Map(vec![("files", Yaml::List(files))])),
        ("systemd", Yaml::Map(vec![("units", Yaml::List(delivery.units.iter().map(unit).collect()))])),
    ]);
    let text = Yaml::Map(vec![
        ("apiVersion", Yaml::text("machineconfiguration.openshift.io/v1")),
        ("kind", Yaml::text("MachineConfig")),
        ("metadata", metadata(role, name)),
        ("spec", Yaml::Map(vec![("config", config)])),
    ])
    .document();
    sizes.whole = text.len();
    MachineConfig { text, sizes }
}

pub(super) fn metadata(role: &Role, name: &ObjectName) -> Yaml {
    Yaml::Map(vec![
        ("labels", Yaml::Map(vec![(ROLE_LABEL, Yaml::text(role.as_str()))])),
        ("name", Yaml::text(name.as_str())),
    ])
}

/// Only data URLs, and of compressions only gzip, work after installation (openshift/machine-config-operator
/// `DecodeIgnitionFileContents`). The program alone is packed, so that the config can be read with `base64 -d`.
fn file(of: &File, sizes: &mut Sizes) -> Yaml {
    let (source, compression) = match of.part {
        Part::Program => {
            sizes.unpacked += of.content.len();
            (encode::data_url(&encode::gzip(&of.content)), Some(("compression", Yaml::text("gzip"))))
        }
        Part::Config | Part::Secret | Part::UdevRule | Part::Catalog => (encode::data_url(&of.content), None),
    };
    sizes.count(of.part, source.len());
    let contents = compression.into_iter().chain([("source", Yaml::Text(source))]).collect();
    Yaml::Map(vec![
        ("path", Yaml::text(of.path.as_str())),
        ("mode", Yaml::Plain(of.mode.to_string())),
        ("overwrite", Yaml::Plain("true".into())),
        ("contents", Yaml::Map(contents)),
    ])
}

/// Without `enabled` where there is nothing to enable: the operator would preset it.
pub(super) fn unit(of: &Unit) -> Yaml {
    let enabled = of.enabled.then(|| ("enabled", Yaml::Plain("true".into())));
    let name = ("name", Yaml::text(&of.name));
    Yaml::Map([name].into_iter().chain(enabled).chain([("contents", Yaml::text(&of.text))]).collect())
}
