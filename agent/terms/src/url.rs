//! The address of etcd for its clients.

use super::error::TermError;
use std::{fmt, str::FromStr};

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
}
