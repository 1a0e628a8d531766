//! The address of etcd's metrics.

use super::error::TermError;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

/// The address of etcd's metrics, without a path: plain HTTP on the loopback interface, or HTTPS anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsUrl {
    text: String,
    is_tls: bool,
}

pub(super) const URL_FORM: &str = "an address of etcd's metrics, such as \"http://127.0.0.1:2381\" or \"https://localhost:9978\"; plain http only on this machine";

impl MetricsUrl {
    /// Whether the address is `https`.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The URL of a path, which begins with a slash.
    pub fn with(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }
}

impl FromStr for MetricsUrl {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError::new(text, URL_FORM);
        let (scheme, place) = text.split_once("://").ok_or_else(wrong)?;
        let place = place.strip_suffix("/metrics").unwrap_or(place).trim_end_matches('/');
        let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
        port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_tls = match scheme {
            "http" => {
                let address = match inner {
                    "localhost" => Ipv4Addr::LOCALHOST.into(),
                    _ => inner.parse::<IpAddr>().map_err(|_| wrong())?,
                };
                // Anybody on the network could change plain text, and `health` would judge the node by it.
                if !address.is_loopback() {
                    return Err(wrong());
                }
                false
            }
            "https" => {
                let letter = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
                if inner.is_empty() || !inner.chars().all(letter) {
                    return Err(wrong());
                }
                true
            }
            _ => return Err(wrong()),
        };
        Ok(Self { text: format!("{scheme}://{place}"), is_tls })
    }
}

impl fmt::Display for MetricsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, is_tls) in [
            ("http://127.0.0.1:2381", false),
            ("http://localhost:2379/metrics", false),
            ("http://[::1]:2381/", false),
            ("https://localhost:9978/metrics", true),
            ("https://master-0.example:9979", true),
        ] {
            let url: MetricsUrl = text.parse().unwrap();
            assert_eq!(url.is_tls(), is_tls, "{text}");
            let expected = format!("{}/metrics", text.trim_end_matches("/metrics").trim_end_matches('/'));
            assert_eq!(url.with("/metrics"), expected);
        }
        for text in ["", "127.0.0.1:2381", "http://10.0.0.1:2381", "http://127.0.0.1", "http://127.0.0.1:0"] {
            assert!(text.parse::<MetricsUrl>().is_err(), "{text}");
        }
        for text in ["ftp://localhost:1", "https://a b:1", "https://user@host:1", "https://host:1/other?x"] {
            assert!(text.parse::<MetricsUrl>().is_err(), "{text}");
        }
    }
}
