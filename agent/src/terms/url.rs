//! Where a server on this node is asked.

use super::TermError;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

/// Where etcd shows its metrics: plain HTTP on the loopback interface, or HTTPS anywhere; without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsUrl {
    text: String,
    plain: Option<SocketAddr>,
}

pub(super) const URL_FORM: &str =
    "where etcd shows its metrics, such as \"http://127.0.0.1:2381\" or \"https://localhost:9978\"";

impl MetricsUrl {
    /// The address to ask by plain HTTP; nothing for HTTPS.
    pub fn plain(&self) -> Option<SocketAddr> {
        self.plain
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
        let port: u16 = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let plain = match scheme {
            "http" => {
                let address = match inner {
                    "localhost" => Ipv4Addr::LOCALHOST.into(),
                    _ => inner.parse::<IpAddr>().map_err(|_| wrong())?,
                };
                // What comes over a network in plain text is nothing to judge a node by.
                Some(SocketAddr::new(address, port))
                    .filter(|at| at.ip().is_loopback())
                    .ok_or_else(wrong)?
                    .into()
            }
            "https" => {
                let letter = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
                if inner.is_empty() || !inner.chars().all(letter) {
                    return Err(wrong());
                }
                None
            }
            _ => return Err(wrong()),
        };
        Ok(Self { text: format!("{scheme}://{place}"), plain })
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
        for (text, plain) in [
            ("http://127.0.0.1:2381", Some("127.0.0.1:2381")),
            ("http://localhost:2379/metrics", Some("127.0.0.1:2379")),
            ("http://[::1]:2381/", Some("[::1]:2381")),
            ("https://localhost:9978/metrics", None),
            ("https://master-0.example:9979", None),
        ] {
            let url: MetricsUrl = text.parse().unwrap();
            assert_eq!(url.plain().map(|at| at.to_string()).as_deref(), plain, "{text}");
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
