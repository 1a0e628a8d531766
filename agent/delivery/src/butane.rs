//! Renders the same objects as a Butane config, for clusters whose MachineConfigs are made with Butane.

use super::{
    Delivery, File, ObjectName, Part, Role, encode,
    machineconfig::{metadata, unit},
    yaml::Yaml,
};

/// The newest specification that Butane translates to Ignition 3.2.0, so that Butane's output equals that of
/// `render machineconfig` (<https://coreos.github.io/butane/config-openshift-v4_12>).
const VERSION: &str = "4.12.0";

/// Renders a Butane config.
pub fn butane(delivery: &Delivery, role: &Role, name: &ObjectName) -> String {
    let files = delivery.files.iter().map(file).collect();
    Yaml::Map(vec![
        ("variant", Yaml::text("openshift")),
        ("version", Yaml::text(VERSION)),
        ("metadata", metadata(role, name, &[])),
        ("storage", Yaml::Map(vec![("files", Yaml::List(files))])),
        ("systemd", Yaml::Map(vec![("units", Yaml::List(delivery.units.iter().map(unit).collect()))])),
    ])
    .document()
}

fn file(of: &File) -> Yaml {
    let contents = match of.part {
        Part::Packed => ("source", Yaml::Text(encode::data_url(&of.content))),
        Part::Order
        | Part::Script
        | Part::Config
        | Part::Secret
        | Part::UdevRule
        | Part::Multipath
        | Part::Catalog => ("inline", Yaml::text(String::from_utf8_lossy(&of.content))),
    };
    Yaml::Map(vec![
        ("path", Yaml::text(of.path.as_str())),
        ("mode", Yaml::Plain(format!("0{:o}", of.mode))),
        ("overwrite", Yaml::Plain("true".into())),
        ("contents", Yaml::Map(vec![contents])),
    ])
}
