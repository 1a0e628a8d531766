//! Certificates as an OpenShift cluster gives them to its etcd members: one signer, and for each member a
//! certificate for clients, one for peers and one for its metrics.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::host;

/// Where a node has the certificates of etcd.
pub const ON_NODE: &str = "/etc/kubernetes/static-pod-resources/etcd-certs";
/// The signer's certificate, below that directory.
pub const BUNDLE: &str = "configmaps/etcd-all-bundles/server-ca-bundle.crt";

/// The certificate of those that may ask for metrics. The bed has one signer for all.
const METRICS_BUNDLE: &str = "configmaps/etcd-all-bundles/metrics-ca-bundle.crt";

const LIMIT: Duration = Duration::from_secs(60);

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The member answers clients with it.
    Serving,
    /// The member talks to its peers with it. A program on the node also uses it as a client's certificate.
    Peer,
    /// The proxy of its metrics answers with it.
    Metrics,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Serving, Self::Peer, Self::Metrics];

    fn name(self) -> &'static str {
        match self {
            Purpose::Serving => "serving",
            Purpose::Peer => "peer",
            Purpose::Metrics => "serving-metrics",
        }
    }
}

/// The path of a member's certificate (`crt`) or key (`key`), below the directory of certificates.
pub fn file(purpose: Purpose, member: &str, ending: &str) -> String {
    format!("secrets/etcd-all-certs/etcd-{}-{member}.{ending}", purpose.name())
}

/// A signer and its certificates, in a directory with the layout of a node.
#[derive(Debug)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// Makes a signer, and the certificates of members with these names and addresses.
    pub fn make(dir: &Path, members: &[(&str, &str)]) -> Result<Self> {
        fs::create_dir_all(dir.join("configmaps/etcd-all-bundles"))?;
        fs::create_dir_all(dir.join("secrets/etcd-all-certs"))?;
        let made = Self { dir: dir.into() };
        made.sign_itself()?;
        fs::copy(dir.join(BUNDLE), dir.join(METRICS_BUNDLE))?;
        for (member, address) in members {
            for purpose in Purpose::ALL {
                made.issue(purpose, member, address)?;
            }
        }
        Ok(made)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The files that a member needs, below the directory.
    pub fn files_of(member: &str) -> Vec<String> {
        let own =
            Purpose::ALL.iter().flat_map(|purpose| ["crt", "key"].map(|end| file(*purpose, member, end)));
        [BUNDLE, METRICS_BUNDLE].map(String::from).into_iter().chain(own).collect()
    }

    fn sign_itself(&self) -> Result<()> {
        let (key, bundle) = (self.dir.join("signer.key"), self.dir.join(BUNDLE));
        let extensions = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,digitalSignature\nsubjectKeyIdentifier=hash\n";
        self.request(&key, "/OU=openshift/CN=openshift-etcd_etcd-signer")?;
        self.sign(&bundle, extensions, |command| {
            command.arg("-signkey").arg(&key);
        })
    }

    fn issue(&self, purpose: Purpose, member: &str, address: &str) -> Result<()> {
        let name = purpose.name();
        let key = self.dir.join(file(purpose, member, "key"));
        let extensions = format!(
            "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature,keyEncipherment\n\
             extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=DNS:localhost,DNS:{member},IP:127.0.0.1,IP:::1,IP:{address}\n"
        );
        // The proxy of the metrics asks etcd with the peer's certificate, and Debian's takes none with a common name (etcd
        // `server/etcdmain/grpc_proxy.go`).
        let common = if purpose == Purpose::Peer { "" } else { &format!("/CN=system:etcd-{name}:{member}") };
        self.request(&key, &format!("/O=system:etcd-{name}s{common}"))?;
        self.sign(&self.dir.join(file(purpose, member, "crt")), &extensions, |command| {
            command.arg("-CA").arg(self.dir.join(BUNDLE));
            command.arg("-CAkey").arg(self.dir.join("signer.key")).arg("-CAcreateserial");
        })
    }

    fn request(&self, key: &Path, subject: &str) -> Result<()> {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout"]).arg(key);
        host::ok(openssl.arg("-out").arg(self.dir.join("request")), LIMIT).map(drop)
    }

    fn sign(&self, to: &Path, extensions: &str, by: impl FnOnce(&mut Command)) -> Result<()> {
        let file = self.dir.join("extensions");
        fs::write(&file, extensions)?;
        let mut openssl = Command::new("openssl");
        openssl.args(["x509", "-req", "-days", "3650", "-sha256", "-in"]).arg(self.dir.join("request"));
        by(&mut openssl);
        host::ok(openssl.arg("-extfile").arg(file).arg("-out").arg(to), LIMIT).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_valid_for_its_signer_and_its_address_only() {
        let root = std::env::temp_dir().join(format!("bed-certificates-{}", std::process::id()));
        let [ours, others] = ["ours", "others"]
            .map(|name| Certificates::make(&root.join(name), &[("master-0", "192.0.2.1")]).unwrap());
        let verify = |bundle: &Path, address: &str| {
            let mut openssl = Command::new("openssl");
            openssl.args([
                "verify",
                "-x509_strict",
                "-purpose",
                "sslserver",
                "-verify_ip",
                address,
                "-CAfile",
            ]);
            openssl.arg(bundle).arg(ours.dir().join(file(Purpose::Peer, "master-0", "crt")));
            host::run(&mut openssl, LIMIT).unwrap()
        };
        let good = verify(&ours.dir().join(BUNDLE), "192.0.2.1");
        assert_eq!(good.code, 0, "{good}");
        assert_ne!(verify(&ours.dir().join(BUNDLE), "192.0.2.2").code, 0);
        assert_ne!(verify(&others.dir().join(BUNDLE), "192.0.2.1").code, 0);
        for path in Certificates::files_of("master-0") {
            assert!(ours.dir().join(&path).is_file(), "{path}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
