//! How etcd is asked about its cluster.

use super::{
    defaults,
    error::ConfigError,
    parts::{Certificates, ClusterConfig, Runtime},
    tables::ClusterTable,
};

/// Validates the table `[cluster]`. Which defaults apply depends on what runs etcd.
pub(super) fn validate(written: ClusterTable, runtime: &Runtime) -> Result<ClusterConfig, ConfigError> {
    let client_url = match (written.client_url, runtime) {
        (Some(url), _) => url,
        (None, Runtime::StaticPod { .. }) => {
            defaults::CLIENT_URL_STATIC_POD.parse().map_err(ConfigError::Term)?
        }
        (None, Runtime::Systemd { .. }) => defaults::CLIENT_URL_SYSTEMD.parse().map_err(ConfigError::Term)?,
    };
    if written.http_port == Some(0) {
        return Err(ConfigError::value("cluster.http_port", "0", "a port, such as 2381"));
    }
    let alone = |key, found| Err(ConfigError::value(key, found, "both or neither"));
    match (&written.cert, &written.key) {
        (Some(_), None) => return alone("cluster.key", "`cluster.cert` is set alone"),
        (None, Some(_)) => return alone("cluster.cert", "`cluster.key` is set alone"),
        (Some(_), Some(_)) | (None, None) => {}
    }
    if written.serve_timeout.0.is_zero() {
        return Err(ConfigError::value("cluster.serve_timeout", "0ms", "a time, such as \"5min\""));
    }
    if written.endpoints.as_ref().is_some_and(Vec::is_empty) {
        return Err(ConfigError::value("cluster.endpoints", "[]", "the client URLs of the members"));
    }
    Ok(ClusterConfig {
        client_url,
        http_port: written.http_port,
        endpoints: written.endpoints.unwrap_or_default(),
        certificates: Certificates { authority: written.ca, certificate: written.cert, key: written.key },
        without_quorum: written.without_quorum,
        serve_timeout: written.serve_timeout,
    })
}
