//! Asks the other members of the cluster whether this node's member answers on another computer.

use super::{
    certificates::{Keys, certificates, manifests},
    cluster::{at_port, over_http, statuses},
};
use config::{Config, Runtime};
use host::{
    Host,
    etcd_api::{self, ApiError, ListedMember},
    http::Certificates,
    route,
};
use node::{Elsewhere, Fact};
use terms::ClientUrl;

/// The variable of etcd's manifest with the client URLs of all members, separated by commas
/// (openshift/cluster-etcd-operator `pkg/etcdenvvar/etcd_env.go`).
const ENDPOINTS: &str = "ALL_ETCD_ENDPOINTS";

/// Finds out if this node's member answers on another computer. It is not asked for here, where its etcd is stopped.
/// `hostname` is this node's: OpenShift names each member after its node.
pub fn elsewhere(host: &Host, config: &Config, hostname: &str) -> Fact<Elsewhere> {
    ask(host, config, hostname).map_or_else(Fact::Unknown, Fact::Known)
}

fn ask(host: &Host, config: &Config, hostname: &str) -> Result<Elsewhere, String> {
    let known = endpoints(host, config);
    if known.is_empty() {
        return Err(
            "no address of another member is known: name them by `cluster.endpoints` in the config".into()
        );
    }
    let others: Vec<ClientUrl> = known.into_iter().filter(is_other).collect();
    let Some(first) = others.first() else { return Ok(Elsewhere::Alone) };
    let is_pod = matches!(config.etcd.runtime, Runtime::StaticPod { .. });
    let keys = Keys("cluster.cert", "cluster.key");
    let with = certificates(host, config, &config.cluster.certificates, is_pod, first.is_tls(), keys)?;
    let mut failures = Vec::new();
    for url in &others {
        let (port, answer) = over_http(config, url, |url| etcd_api::members(host, url, false, &with));
        let asked = at_port(url, port);
        match answer {
            Ok(listed) => {
                let alive = alive(host, config, port, &listed, hostname, &with);
                return Ok(alive.unwrap_or_else(|| Elsewhere::Silent { asked: asked.to_string() }));
            }
            Err(error) => failures.push(format!("{asked}: {error}")),
        }
    }
    Err(format!("no other member answers: {}", failures.join("; ")))
}

/// Looks for this node's member in a list of all, and asks at its client URLs, or at this port of them. None if it does not
/// answer.
fn alive(
    host: &Host,
    config: &Config,
    port: Option<u16>,
    listed: &[ListedMember],
    hostname: &str,
    with: &Certificates,
) -> Option<Elsewhere> {
    for member in listed.iter().filter(|member| is_named(&member.name, hostname)) {
        let urls = member.urls.iter().filter_map(|text| text.parse::<ClientUrl>().ok()).filter(is_other);
        let answers = statuses(host, config, &urls.collect::<Vec<_>>(), port, with);
        let is_it = |answer: &Result<etcd_api::Status, ApiError>| {
            answer.as_ref().is_ok_and(|status| status.member == member.id)
        };
        if let Some((at, _)) = answers.iter().find(|(_, answer)| is_it(answer)) {
            return Some(Elsewhere::Alive { name: member.name.clone(), at: at.to_string() });
        }
    }
    None
}

/// Returns true if an address is none of this computer's. One that cannot be resolved is asked, and does not answer.
fn is_other(url: &ClientUrl) -> bool {
    !matches!(route::is_own(url.host()), Ok(true))
}

/// Host names are compared without their domains: the kernel's may have one, and the member's name may not.
fn is_named(member: &str, hostname: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
    !member.is_empty() && short(member) == short(hostname)
}

/// The client URLs of the config, or else those of the manifest, also of one that is parked.
fn endpoints(host: &Host, config: &Config) -> Vec<ClientUrl> {
    let given = &config.cluster.endpoints;
    if !given.is_empty() {
        return given.clone();
    }
    let mut named = manifests(host, &config.etcd.runtime).map(|text| of_manifest(&text));
    named.find(|urls| !urls.is_empty()).unwrap_or_default()
}

/// The URLs in the first value of the variable, in whichever form the YAML has it.
fn of_manifest(text: &str) -> Vec<ClientUrl> {
    let Some((_, rest)) = text.split_once(ENDPOINTS) else { return Vec::new() };
    let Some((_, value)) = rest.split_once("value") else { return Vec::new() };
    let value = value.trim_start_matches([':', '"', ' ', '\'']);
    let end = value.find(['"', '\'', '\n', '}', ' ']).unwrap_or(value.len());
    value[..end].split(',').filter_map(|url| url.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_a_manifest() {
        let urls = |text: &str| of_manifest(text).iter().map(ToString::to_string).collect::<Vec<_>>();
        let both = ["https://10.0.0.11:2379", "https://10.0.0.12:2379"];
        for text in [
            "    - name: \"ALL_ETCD_ENDPOINTS\"\n      value: \"https://10.0.0.11:2379,https://10.0.0.12:2379\"\n    - name: X\n",
            "- {name: ALL_ETCD_ENDPOINTS, value: \"https://10.0.0.11:2379,https://10.0.0.12:2379\"}\n",
            "{\"name\":\"ALL_ETCD_ENDPOINTS\",\"value\":\"https://10.0.0.11:2379,https://10.0.0.12:2379\"},",
            "- name: ALL_ETCD_ENDPOINTS\n  value: https://10.0.0.11:2379,https://10.0.0.12:2379\n",
        ] {
            assert_eq!(urls(text), both, "{text}");
        }
        assert!(urls("name: ALL_ETCD_ENDPOINTS").is_empty() && urls("").is_empty());
        assert!(urls("ALL_ETCD_ENDPOINTS value: \"nothing\"").is_empty());
    }

    #[test]
    fn names_of_members_and_nodes() {
        assert!(is_named("master-0", "master-0") && is_named("master-0", "Master-0.example.com"));
        assert!(!is_named("master-1", "master-0") && !is_named("", ""));
    }
}
