//! How etcd is asked about its cluster.

use super::{
    defaults,
    error::ConfigError,
    errors::Errors,
    parts::{Certificates, ClusterConfig, Runtime},
    tables::ClusterTable,
};
use terms::ClientUrl;

/// Validates the table `[cluster]`. Which defaults apply depends on what runs etcd.
pub(super) fn validate(
    written: &ClusterTable,
    runtime: Option<&Runtime>,
    errors: &mut Errors,
) -> Option<ClusterConfig> {
    let client_url = match (&written.client_url, runtime) {
        (Some(url), _) => Some(url.clone()),
        (None, Some(Runtime::StaticPod { .. })) => errors.take(default(defaults::CLIENT_URL_STATIC_POD)),
        (None, Some(Runtime::Systemd { .. })) => errors.take(default(defaults::CLIENT_URL_SYSTEMD)),
        (None, None) => None,
    };
    if written.http_port == Some(0) {
        errors.add(ConfigError::value("cluster.http_port", "0", "a port, such as 2381"));
    }
    let mut alone = |key, found| errors.add(ConfigError::value(key, found, "both or neither"));
    match (&written.cert, &written.key) {
        (Some(_), None) => alone("cluster.key", "`cluster.cert` is set alone"),
        (None, Some(_)) => alone("cluster.cert", "`cluster.key` is set alone"),
        (Some(_), Some(_)) | (None, None) => {}
    }
    if written.serve_timeout.0.is_zero() {
        errors.add(ConfigError::value("cluster.serve_timeout", "0ms", "a time, such as \"5min\""));
    }
    if written.endpoints.as_ref().is_some_and(Vec::is_empty) {
        errors.add(ConfigError::value("cluster.endpoints", "[]", "the client URLs of the members"));
    }
    Some(ClusterConfig {
        client_url: client_url?,
        http_port: written.http_port,
        endpoints: written.endpoints.clone().unwrap_or_default(),
        certificates: Certificates {
            authority: written.ca.clone(),
            certificate: written.cert.clone(),
            key: written.key.clone(),
        },
        without_quorum: written.without_quorum,
        serve_timeout: written.serve_timeout,
    })
}

fn default(url: &str) -> Result<ClientUrl, ConfigError> {
    url.parse().map_err(ConfigError::Term)
}
