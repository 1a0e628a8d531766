//! Renders a MachineConfig (`machineconfiguration.openshift.io/v1`), which contains an Ignition config.

use super::{Delivery, File, ObjectName, Part, Role, Sizes, Unit, encode, yaml::Yaml};

/// The Ignition version that Butane writes for OpenShift 4.8 to 4.13. Newer releases accept it too.
const IGNITION: &str = "3.2.0";
/// The label by which a MachineConfigPool selects its MachineConfigs.
pub(super) const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";

/// A rendered MachineConfig.
#[derive(Debug)]
pub struct MachineConfig {
    /// The object in YAML, the same bytes for the same values.
    pub text: String,
    /// The size of the YAML text. The API server stores JSON, which is smaller.
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

/// After installation only data URLs work, and no compression but gzip (openshift/machine-config-operator
/// `DecodeIgnitionFileContents`). Only the program is compressed, so that a person can read the config with `base64 -d`.
fn file(of: &File, sizes: &mut Sizes) -> Yaml {
    let (source, compression) = match of.part {
        Part::Program => {
            sizes.unpacked += of.content.len();
            (encode::data_url(&encode::gzip(&of.content)), Some(("compression", Yaml::text("gzip"))))
        }
        Part::Config | Part::Secret | Part::UdevRule | Part::Multipath | Part::Catalog => {
            (encode::data_url(&of.content), None)
        }
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

/// Leaves out `enabled` for a unit without an [Install] section: the operator would preset that unit.
pub(super) fn unit(of: &Unit) -> Yaml {
    let enabled = of.enabled.then(|| ("enabled", Yaml::Plain("true".into())));
    let name = ("name", Yaml::text(&of.name));
    let contents = (!of.text.is_empty()).then(|| ("contents", Yaml::text(&of.text)));
    Yaml::Map([name].into_iter().chain(enabled).chain(contents).collect())
}
