//! Renders a MachineConfig (`machineconfiguration.openshift.io/v1`), which contains an Ignition config.

use super::{Delivery, File, ObjectName, Role, Unit, encode, fit, yaml::Yaml};
use unit::DROP_IN;

/// The Ignition version that Butane writes for OpenShift 4.8 to 4.13. Newer releases accept it too.
const IGNITION: &str = "3.2.0";
/// The label by which a MachineConfigPool selects its MachineConfigs.
pub(super) const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";

/// A rendered MachineConfig.
#[derive(Debug)]
pub struct MachineConfig(Yaml);

impl MachineConfig {
    /// Renders a MachineConfig with these annotations, the same for the same values.
    pub fn new(delivery: &Delivery, role: &Role, name: &ObjectName, annotations: &[Annotation]) -> Self {
        let files = delivery.files.iter().map(file).collect();
        let units = delivery.units.iter().map(unit).collect();
        let config = Yaml::Map(vec![
            ("ignition", Yaml::Map(vec![("version", Yaml::text(IGNITION))])),
            ("storage", Yaml::Map(vec![("files", Yaml::List(files))])),
            ("systemd", Yaml::Map(vec![("units", Yaml::List(units))])),
        ]);
        Self(Yaml::Map(vec![
            ("apiVersion", Yaml::text("machineconfiguration.openshift.io/v1")),
            ("kind", Yaml::text("MachineConfig")),
            ("metadata", metadata(role, name, annotations)),
            ("spec", Yaml::Map(vec![("config", config)])),
        ]))
    }

    /// The object in YAML.
    pub fn text(&self) -> String {
        self.0.document()
    }

    /// The size in bytes, as the API server stores the object.
    pub fn size(&self) -> usize {
        fit::stored(&self.0)
    }
}

/// The name of an annotation of an object, and its value.
pub type Annotation = (&'static str, &'static str);

/// Has Argo CD apply the object on the server's side, so that the object is not stored once more in an annotation, and keep it
/// when it leaves the repository (Argo CD, "Sync Options").
pub const ARGO_CD: Annotation = ("argocd.argoproj.io/sync-options", "ServerSideApply=true,Prune=false");

pub(super) fn metadata(role: &Role, name: &ObjectName, annotations: &[Annotation]) -> Yaml {
    let annotations = (!annotations.is_empty()).then(|| {
        let each = annotations.iter().map(|(name, value)| (*name, Yaml::text(*value)));
        ("annotations", Yaml::Map(each.collect()))
    });
    let others = [
        ("labels", Yaml::Map(vec![(ROLE_LABEL, Yaml::text(role.as_str()))])),
        ("name", Yaml::text(name.as_str())),
    ];
    Yaml::Map(annotations.into_iter().chain(others).collect())
}

/// After installation only data URLs work. The operator's controller accepts other sources, and then no node can apply the
/// config (openshift/machine-config-operator `DecodeIgnitionFileContents`). Nothing is compressed, so that a person can read
/// each file with `base64 -d`.
fn file(of: &File) -> Yaml {
    Yaml::Map(vec![
        ("path", Yaml::text(of.path.as_str())),
        ("mode", Yaml::Plain(of.mode.to_string())),
        ("overwrite", Yaml::Plain("true".into())),
        ("contents", Yaml::Map(vec![("source", Yaml::Text(encode::data_url(&of.content)))])),
    ])
}

/// Leaves out `enabled` for a unit without an [Install] section, and for another's unit, which only gets a drop-in: the operator
/// joins the parts of a unit, and `enabled` of this object would win.
pub(super) fn unit(of: &Unit) -> Yaml {
    let enabled = of.enabled.then(|| ("enabled", Yaml::Plain("true".into())));
    let name = ("name", Yaml::text(&of.name));
    let contents = (!of.text.is_empty()).then(|| ("contents", Yaml::text(&of.text)));
    let drop_in = of.drop_in.as_ref().map(|text| {
        let one = Yaml::Map(vec![("name", Yaml::text(DROP_IN)), ("contents", Yaml::text(text))]);
        ("dropins", Yaml::List(vec![one]))
    });
    Yaml::Map([name].into_iter().chain(enabled).chain(contents).chain(drop_in).collect())
}
