//! Addresses of etcd: of its metrics, and for its clients.

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
    /// Returns true if the address is `https`.
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

/// The address at which a member of etcd answers its clients, without a path: HTTP or HTTPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientUrl {
    is_tls: bool,
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    host: String,
    port: u16,
}

pub(super) const CLIENT_URL_FORM: &str =
    "an address of an etcd member, such as \"https://localhost:2379\" or \"http://127.0.0.1:2379\"";

impl ClientUrl {
    /// Returns true if the address is `https`.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The name or address, without brackets.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of this member at another port.
    pub fn at_port(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    /// The URL of a path, which begins with a slash.
    pub fn with(&self, path: &str) -> String {
        format!("{self}{path}")
    }
}

impl FromStr for ClientUrl {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError::new(text, CLIENT_URL_FORM);
        let (scheme, place) = text.split_once("://").ok_or_else(wrong)?;
        let (host, port) = place.trim_end_matches('/').rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(wrong()),
        };
        // The rest must be nothing that curl reads as a user, a path or a pattern.
        let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)),
        };
        if !is_host || host.len() > 253 {
            return Err(wrong());
        }
        Ok(Self { is_tls, host: host.to_owned(), port })
    }
}

impl fmt::Display for ClientUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_urls() {
        for (text, host, port) in [
            ("http://127.0.0.1:2379", "127.0.0.1", 2379),
            ("https://localhost:2379", "localhost", 2379),
            ("https://[fd00::5]:2381", "fd00::5", 2381),
            ("http://master-0.example:1", "master-0.example", 1),
        ] {
            let url: ClientUrl = format!("{text}/").parse().unwrap();
            assert_eq!((url.host(), url.port(), url.is_tls()), (host, port, text.starts_with("https")));
            assert_eq!(url.with("/v3/x"), format!("{text}/v3/x"));
            assert_eq!(url.at_port(9).port(), 9);
        }
        for text in [
            "",
            "localhost:2379",
            "unixs://10.0.0.1:0",
            "ftp://10.0.0.1:21",
            "http://10.0.0.1",
            "http://10.0.0.1:0",
            "http://10.0.0.1:70000",
            "http://user@host:1",
            "http://host:1/path:2",
            "http://[10.0.0.1]:1",
            "http://fd00::5:1",
            "http://a b:1",
            "http://{a,b}:1",
            "http://[1-9]:1",
            "http://-:1/?x:1",
        ] {
            assert!(text.parse::<ClientUrl>().is_err(), "{text}");
        }
    }

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
