//! The certificates with which this node asks its etcd.

use config::{Config, Runtime, defaults, parked};
use host::{Host, http::Certificates};
use terms::AbsPath;

/// Where OpenShift keeps the pairs of all members, below [`defaults::CERTIFICATES`]. Each is named after its *node*,
/// `etcd-peer-NODE.crt` (openshift/cluster-etcd-operator `bindata/etcd/pod.gotpl.yaml`). All have one issuer, so a member
/// accepts any of them.
const PAIRS: &str = "secrets/etcd-all-certs";
const PREFIX: &str = "etcd-peer-";

/// The config keys that name a certificate and its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys(pub &'static str, pub &'static str);

/// The certificates of the config. What it does not name is, on a node of OpenShift, where OpenShift has it, and otherwise left
/// out. For an address with TLS the error says that there is no pair, and which `keys` of the config can name one.
pub(super) fn certificates(
    host: &Host,
    config: &Config,
    given: &config::Certificates,
    on_openshift: bool,
    is_tls: bool,
    keys: Keys,
) -> Result<Certificates, String> {
    if !on_openshift {
        return Ok(Certificates {
            authority: given.authority.clone(),
            client: given.certificate.clone().zip(given.key.clone()),
        });
    }
    let authority = match &given.authority {
        Some(path) => path.clone(),
        None => below("configmaps/etcd-all-bundles/server-ca-bundle.crt")?,
    };
    let client = match (&given.certificate, &given.key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (certificate, key) => match pair(host, &config.etcd.runtime, keys) {
            Ok((found, its_key)) => {
                Some((certificate.clone().unwrap_or(found), key.clone().unwrap_or(its_key)))
            }
            // An etcd without TLS, which is not OpenShift's, asks for none.
            Err(_) if !is_tls => None,
            Err(why) => return Err(why),
        },
    };
    Ok(Certificates { authority: Some(authority), client })
}

/// The pair that etcd's manifest names, also one that is parked. Without such a pair, any that is there. The host name says
/// nothing: the node's name in the cluster may be another, such as an FQDN, one in lower case, or the kubelet's
/// `--hostname-override`.
fn pair(host: &Host, runtime: &Runtime, keys: Keys) -> Result<(AbsPath, AbsPath), String> {
    let dir = below(PAIRS)?;
    let names = host.root.list_opt(dir.as_path()).map_err(|error| error.to_string())?.unwrap_or_default();
    let has =
        |name: &String| names.contains(&format!("{name}.crt")) && names.contains(&format!("{name}.key"));
    let of_manifest = manifests(host, runtime).flat_map(|text| named(&text)).find(has);
    let any = || names.iter().filter_map(|name| name.strip_suffix(".crt")).map(String::from).find(has);
    let Some(name) = of_manifest.or_else(any) else {
        let Keys(certificate, key) = keys;
        return Err(format!(
            "{dir} has no certificate {PREFIX}NODE.crt with its key: name a pair by `{certificate}` and `{key}` in the config"
        ));
    };
    Ok((dir.join(&format!("{name}.crt")), dir.join(&format!("{name}.key"))))
}

/// etcd's manifest in its place, and one that is parked, as far as they can be read.
pub(super) fn manifests(host: &Host, runtime: &Runtime) -> impl Iterator<Item = String> {
    let places = match runtime {
        Runtime::StaticPod { manifest } => vec![manifest.clone(), parked(manifest)],
        Runtime::Systemd { .. } => Vec::new(),
    };
    places.into_iter().filter_map(|path| host.root.read_opt(path.as_path()).ok().flatten())
}

/// The pairs of peers whose certificates a manifest names, without the file's ending.
fn named(manifest: &str) -> Vec<String> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let names = manifest.split(PREFIX).skip(1).filter_map(|rest| {
        let end = rest.find(|c| !is_of_a_name(c)).unwrap_or(rest.len());
        rest[..end].strip_suffix(".crt")
    });
    names.map(|name| format!("{PREFIX}{name}")).collect()
}

fn below(path: &str) -> Result<AbsPath, String> {
    format!("{}/{path}", defaults::CERTIFICATES).parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test makes the node's files")]
mod tests {
    use super::*;
    use host::{Root, transcript::NoTools};
    use std::fs;

    const KEYS: Keys = Keys("cluster.cert", "cluster.key");

    /// A node with these pairs, and with this pair in its manifest, which is in its place or parked.
    fn chosen(test: &str, pairs: &[&str], manifest: Option<(&str, &str)>) -> Result<String, String> {
        let base = std::env::temp_dir().join(format!("etcd-lun-certificates-{test}-{}", std::process::id()));
        let dir = base.join(&defaults::CERTIFICATES[1..]).join(PAIRS);
        fs::create_dir_all(&dir).unwrap();
        for name in pairs {
            fs::write(dir.join(format!("etcd-peer-{name}.crt")), "").unwrap();
            fs::write(dir.join(format!("etcd-peer-{name}.key")), "").unwrap();
        }
        // A certificate without its key is no pair.
        fs::write(dir.join("etcd-peer-a-first.crt"), "").unwrap();
        if let Some((place, name)) = manifest {
            let file = base.join("etc/kubernetes").join(place).join("etcd-pod.yaml");
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            let text = format!(
                "    - name: \"ETCDCTL_CERT\"\n      value: \"/certs/etcd-peer-{name}.crt\"\n\
                 \x20     value: \"/certs/etcd-peer-{name}.key\"\n      --cert=/certs/etcd-peer-${{NODE}}.crt \\\n"
            );
            fs::write(file, text).unwrap();
        }
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        let manifest = "/etc/kubernetes/manifests/etcd-pod.yaml".parse().unwrap();
        let found = pair(&host, &Runtime::StaticPod { manifest }, KEYS);
        fs::remove_dir_all(&base).unwrap();
        found.map(|(certificate, key)| {
            assert_eq!(certificate.name().replace(".crt", ".key"), key.name());
            certificate.name().to_owned()
        })
    }

    /// A static pod of another etcd talks plain HTTP, and has none of OpenShift's files.
    #[test]
    fn without_tls_no_pair_is_needed() {
        let base = std::env::temp_dir().join(format!("etcd-lun-certificates-plain-{}", std::process::id()));
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        let text = "[device]\npath = \"/dev/disk/by-id/x\"\n[etcd]\nruntime = \"static-pod\"\n";
        let source = config::Source { path: "config.toml".into(), text: text.into() };
        let config = Config::load(&[source], "0123456789abcdef0123456789abcdef", "master-0").unwrap();
        let asked = |is_tls| certificates(&host, &config, &config.cluster.certificates, true, is_tls, KEYS);
        assert_eq!(asked(false).unwrap().client, None);
        assert!(asked(true).unwrap_err().contains("`cluster.cert`"));
    }

    /// The name of the node in the cluster is not its host name. No case here depends on this machine's name.
    #[test]
    fn the_pair_is_the_one_that_the_manifest_names() {
        let pairs = ["master-0.example.com", "master-1.example.com", "master-2.example.com"];
        for place in ["manifests", "etcd-lun-parked"] {
            let found = chosen(place, &pairs, Some((place, "master-1.example.com")));
            assert_eq!(found.as_deref(), Ok("etcd-peer-master-1.example.com.crt"), "{place}");
        }
    }

    #[test]
    fn without_a_pair_of_the_manifest_any_pair_does() {
        let pairs = ["master-0", "master-1"];
        assert_eq!(
            chosen("other", &pairs, Some(("manifests", "gone"))).as_deref(),
            Ok("etcd-peer-master-0.crt")
        );
        assert_eq!(chosen("none", &pairs, None).as_deref(), Ok("etcd-peer-master-0.crt"));
        let missing = chosen("missing", &[], None).unwrap_err();
        assert!(missing.contains("secrets/etcd-all-certs has no certificate"), "{missing}");
        assert!(missing.contains("`cluster.cert` and `cluster.key`"), "{missing}");
    }
}
