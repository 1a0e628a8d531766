//! Whether an object is small enough for a cluster, and what else to do if it is not.

use super::yaml::Yaml;
use serde_json::Value;
use std::fmt;

/// The limit in bytes for all MachineConfigs of a pool together: etcd's limit for one object, and the Machine Config
/// Operator's for the config that it renders for a pool (`MaxMachineConfigSize`).
pub const POOL_LIMIT: usize = 1_572_864;
/// The percentage of [`POOL_LIMIT`] above which the operator warns.
const WARNED: usize = 80;
/// What OpenShift's own MachineConfigs of a pool have on bare metal, in bytes: measured with the operator's own code and
/// templates. On other platforms it is 157,003 to 220,012, and nobody's own objects are in it.
const PLAIN_POOL: usize = 211_881;
/// The assisted installer's limit in bytes for one manifest (openshift/assisted-service).
const MANIFEST_LIMIT: usize = 1_000_000;
/// The bytes that the agent-based installer's image has for everything that is added to it, after gzip(1)
/// (openshift/installer, `pkg/asset/agent/image`; coreos-installer's embed area).
const AGENT_LIMIT: usize = 262_144;
/// The bytes that all annotations of an object may have, one of which is the copy that a plain `oc apply` keeps
/// (Kubernetes, `TotalAnnotationSizeLimitB`).
const ANNOTATION_LIMIT: usize = 262_144;

/// The size of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// The object in bytes, as the API server stores it.
    pub object: usize,
    /// The packed program in it in bytes; none if the program is not in it.
    pub packed: Option<usize>,
    /// The pool's rendered config in bytes with the object in it; none if it is not known.
    pub pool: Option<usize>,
}

impl Fit {
    /// Why the cluster could not store it; none if it can.
    pub fn refusal(&self) -> Option<String> {
        let (bytes, what) = match self.pool {
            Some(bytes) => (bytes, "the pool's rendered config with this object"),
            None => (self.object, "this object alone"),
        };
        (bytes > POOL_LIMIT).then(|| {
            let cure = match self.packed {
                Some(_) => "bring the program by --image, or with the RPM and --without-program",
                None => "make the pool's other MachineConfigs smaller; `etcd-lun` itself needs the least with --image",
            };
            format!("{what} would have {bytes} bytes, and the Machine Config Operator accepts {POOL_LIMIT}: {cure}")
        })
    }

    /// Warnings for the person who delivers the object, each with its cure.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |is, text: String| {
            if is {
                warnings.push(text);
            }
        };
        let rest = POOL_LIMIT.saturating_sub(self.object);
        warn(
            self.pool.is_none() && rest < PLAIN_POOL,
            format!(
                "{rest} bytes are left for the pool's other MachineConfigs, and on bare metal OpenShift's own have \
                 {PLAIN_POOL}: check yours with --beside"
            ),
        );
        warn(
            self.pool.is_some_and(|bytes| bytes * 100 > POOL_LIMIT * WARNED),
            format!(
                "the Machine Config Operator warns above {WARNED} % of {POOL_LIMIT} bytes: use --image before the pool gets \
                 more MachineConfigs"
            ),
        );
        warn(
            self.object > ANNOTATION_LIMIT,
            "too large for a plain `oc apply`, which keeps a copy of the object in an annotation: use `oc apply \
             --server-side`"
                .into(),
        );
        warn(
            self.object > MANIFEST_LIMIT,
            format!(
                "too large for the assisted installer, which accepts {MANIFEST_LIMIT} bytes in one manifest: create the \
                 object after the installation, or use --image"
            ),
        );
        // gzip cannot make packed bytes smaller, so the object has at least as many as these.
        warn(
            self.packed.is_some_and(|bytes| bytes > AGENT_LIMIT),
            format!(
                "too large for the image of the agent-based installer, which has room for {AGENT_LIMIT} compressed bytes: \
                 create the object after the installation, or use --image"
            ),
        );
        warnings
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |bytes: usize| {
            format!("{bytes} bytes, {} % of the {POOL_LIMIT} of a pool", bytes * 100 / POOL_LIMIT)
        };
        write!(f, "the object has {}", of(self.object))?;
        if let Some(packed) = self.packed {
            write!(f, "; the packed program in it has {packed}")?;
        }
        if let Some(pool) = self.pool {
            write!(f, "\nthe pool's rendered config with it has {}", of(pool))?;
        }
        Ok(())
    }
}

/// The size of the object as the API server stores it.
pub(super) fn stored(object: &Yaml) -> usize {
    length(&object.json())
}

/// The size of the pool's rendered config with our object in it. Files and units that both have count once: the rendered
/// config may have an earlier form of ours.
///
/// None if the text is not a rendered config, as `oc get machineconfig NAME --output json` prints it.
pub(super) fn beside(rendered: &str, object: &Yaml) -> Option<usize> {
    let mut pool: Value = serde_json::from_str(rendered).ok()?;
    let object = object.json();
    if pool.get("kind")? != "MachineConfig" {
        return None;
    }
    for (list, key) in [("/storage/files", "path"), ("/systemd/units", "name")] {
        let ours = object.pointer(&format!("/spec/config{list}")).and_then(Value::as_array)?;
        let (parent, last) = list.rsplit_once('/')?;
        let config = pool.pointer_mut("/spec/config")?.as_object_mut()?;
        let parent =
            config.entry(parent.trim_start_matches('/')).or_insert_with(|| Value::Object(Default::default()));
        let theirs =
            parent.as_object_mut()?.entry(last).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?;
        theirs.retain(|one| !ours.iter().any(|own| own.get(key) == one.get(key)));
        theirs.extend(ours.iter().cloned());
    }
    Some(length(&pool))
}

/// The length in bytes of JSON as Go's `encoding/json` writes it: `<`, `>`, `&` and two line separators have six bytes each.
fn length(value: &Value) -> usize {
    let text = value.to_string();
    let more = text.chars().map(|c| match c {
        '<' | '>' | '&' => 5,
        '\u{2028}' | '\u{2029}' => 3,
        _ => 0,
    });
    text.len() + more.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let of = |object, packed, pool| Fit { object, packed, pool };
        let begins = |fit: Fit| fit.warnings().iter().map(|text| text[..13].to_owned()).collect::<Vec<_>>();
        let apply = "too large for";
        for (fit, warnings) in [
            (of(25_000, None, None), vec![]),
            (of(ANNOTATION_LIMIT, None, None), vec![]),
            (of(ANNOTATION_LIMIT + 1, None, None), vec![apply]),
            (of(30_000, Some(AGENT_LIMIT), None), vec![]),
            (of(30_000, Some(AGENT_LIMIT + 1), None), vec![apply]),
            (of(MANIFEST_LIMIT, None, None), vec![apply]),
            (of(MANIFEST_LIMIT + 1, None, None), vec![apply, apply]),
            (of(POOL_LIMIT - PLAIN_POOL, None, None), vec![apply, apply]),
            (of(POOL_LIMIT - PLAIN_POOL + 1, None, None), vec!["211880 bytes ", apply, apply]),
            (of(25_000, None, Some(1_258_291)), vec![]),
            (of(25_000, None, Some(1_258_292)), vec!["the Machine C"]),
        ] {
            assert_eq!(begins(fit), warnings, "{fit:?}");
        }
        assert_eq!(of(POOL_LIMIT, None, None).refusal(), None);
        assert!(
            of(POOL_LIMIT + 1, Some(1), None)
                .refusal()
                .unwrap()
                .starts_with("this object alone would have 1572865")
        );
        assert_eq!(of(1, None, Some(POOL_LIMIT)).refusal(), None);
        assert!(
            of(1, None, Some(POOL_LIMIT + 1)).refusal().unwrap().contains("rendered config with this object")
        );
    }

    /// As Go writes it: `json.Marshal` of `"a<b>&\u2028\n"` has 30 bytes.
    #[test]
    fn lengths_are_those_of_go() {
        assert_eq!(length(&Value::from("a<b>&\u{2028}\n")), 2 + 2 + 4 * 6 + 2);
        assert_eq!(length(&serde_json::json!({"a": [1, true]})), 14);
    }
}
