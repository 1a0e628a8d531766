//! The certificates with which this node asks its etcd.

use crate::{
    config::{self, defaults},
    host::http::Certificates,
    terms::AbsPath,
};

/// The certificates of the config. What it does not name is, on a node of OpenShift, where OpenShift has it, and otherwise left
/// out. The error says that the host name gives no path.
pub(super) fn certificates(
    given: &config::Certificates,
    on_openshift: bool,
    hostname: &str,
) -> Result<Certificates, String> {
    let or = |given: &Option<AbsPath>, name: String| match given {
        Some(path) => Ok(Some(path.clone())),
        None if on_openshift => {
            let path = format!("{}/{name}", defaults::METRICS_CERTIFICATES);
            path.parse().map(Some).map_err(|error| format!("{error}"))
        }
        None => Ok(None),
    };
    let certificate = or(&given.certificate, format!("secrets/etcd-all-certs/etcd-peer-{hostname}.crt"))?;
    let key = or(&given.key, format!("secrets/etcd-all-certs/etcd-peer-{hostname}.key"))?;
    Ok(Certificates {
        authority: or(&given.authority, "configmaps/etcd-all-bundles/server-ca-bundle.crt".into())?,
        client: certificate.zip(key),
    })
}
