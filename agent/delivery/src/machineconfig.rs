//! Renders a MachineConfig (`machineconfiguration.openshift.io/v1`), which contains an Ignition config.

use super::{Delivery, DeliveryError, File, Fit, ObjectName, Part, Role, Unit, encode, fit, yaml::Yaml};
use unit::DROP_IN;

/// The Ignition version that Butane writes for OpenShift 4.8 to 4.13. Newer releases accept it too.
const IGNITION: &str = "3.2.0";
/// The label by which a MachineConfigPool selects its MachineConfigs.
pub(super) const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";

/// A rendered MachineConfig.
#[derive(Debug)]
pub struct MachineConfig {
    object: Yaml,
    packed: Option<usize>,
}

impl MachineConfig {
    /// Renders a MachineConfig with these annotations, the same for the same values.
    pub fn new(
        delivery: &Delivery,
        role: &Role,
        name: &ObjectName,
        annotations: &[Annotation],
    ) -> Result<Self, DeliveryError> {
        let files = delivery.files.iter().map(file).collect::<Result<_, _>>()?;
        let units = delivery.units.iter().map(unit).collect();
        let config = Yaml::Map(vec![
            ("ignition", Yaml::Map(vec![("version", Yaml::text(IGNITION))])),
            ("storage", Yaml::Map(vec![("files", Yaml::List(files))])),
            ("systemd", Yaml::Map(vec![("units", Yaml::List(units))])),
        ]);
        let object = Yaml::Map(vec![
            ("apiVersion", Yaml::text("machineconfiguration.openshift.io/v1")),
            ("kind", Yaml::text("MachineConfig")),
            ("metadata", metadata(role, name, annotations)),
            ("spec", Yaml::Map(vec![("config", config)])),
        ]);
        let packed =
            delivery.files.iter().find(|file| file.part == Part::Packed).map(|file| file.content.len());
        Ok(Self { object, packed })
    }

    /// The object in YAML.
    pub fn text(&self) -> String {
        self.object.document()
    }

    /// Its size, alone, and if a rendered config of the pool is given, beside everything in that. None if the text is no such
    /// config.
    pub fn fit(&self, rendered: Option<&str>) -> Option<Fit> {
        let pool = match rendered {
            Some(rendered) => Some(fit::beside(rendered, &self.object)?),
            None => None,
        };
        Some(Fit { object: fit::stored(&self.object), packed: self.packed, pool })
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

/// After installation only data URLs work, and no compression but gzip. The operator's controller accepts other sources, and
/// then no node can apply the config (openshift/machine-config-operator `DecodeIgnitionFileContents`). Config and secrets are
/// not compressed, so that a person can read them with `base64 -d`.
fn file(of: &File) -> Result<Yaml, DeliveryError> {
    let contents = match of.part {
        Part::Order | Part::Packed | Part::Config | Part::Secret => {
            vec![("source", Yaml::Text(encode::data_url(&of.content)))]
        }
        Part::Script | Part::UdevRule | Part::Multipath | Part::Catalog => vec![
            ("compression", Yaml::text("gzip")),
            ("source", Yaml::Text(encode::data_url(&encode::gzip(&of.content)?))),
        ],
    };
    Ok(Yaml::Map(vec![
        ("path", Yaml::text(of.path.as_str())),
        ("mode", Yaml::Plain(of.mode.to_string())),
        ("overwrite", Yaml::Plain("true".into())),
        ("contents", Yaml::Map(contents)),
    ]))
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
