//! An entry for machines that are created anew: a pattern of host names, and an initiator name made from the host name.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt;
use terms::{Iqn, TermError, TextVisitor};

/// The placeholder for the host name in an initiator name.
const HOST_NAME: &str = "{hostname}";

/// Before the node's network has a name for it, a node has this one (systemd-hostnamed.service(8)).
const NO_NAME_YET: &str = "localhost";

/// A node's initiator name as an entry has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum InitiatorName {
    /// The name itself.
    Whole(Iqn),
    /// The parts before and after the host name, in an entry with a pattern.
    OfHost {
        /// Before it.
        before: String,
        /// After it.
        after: String,
    },
}

impl InitiatorName {
    /// A text of a config: see [`Iqn::of_initiator`].
    pub(super) fn parse(text: &str) -> Result<Self, TermError> {
        let Some((before, after)) = text.split_once(HOST_NAME) else {
            return Iqn::of_initiator(text).map(Self::Whole);
        };
        let name = Self::OfHost { before: before.into(), after: after.into() };
        name.of("a").map_err(|_| TermError::new(text, OF_HOST_FORM))?;
        Ok(name)
    }

    /// The initiator name of a host. An iSCSI name is in lower case (RFC 3722). It has the host name without its domain,
    /// because the domain may come from DHCP, and the name must be the same at every boot.
    pub(super) fn of(&self, hostname: &str) -> Result<Iqn, TermError> {
        match self {
            Self::Whole(name) => Ok(name.clone()),
            Self::OfHost { before, after } => {
                Iqn::of_initiator(&format!("{before}{}{after}", short(hostname)))
            }
        }
    }

    /// The short host name that leads to this initiator name, if one does.
    pub(super) fn host_of(&self, name: &Iqn) -> Option<String> {
        let Self::OfHost { before, after } = self else { return None };
        let host = name.as_str().strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
        (!host.is_empty()).then(|| host.to_owned())
    }
}

const OF_HOST_FORM: &str = "an initiator name with `{hostname}` in it once: write the rest in lower case, with letters, digits, \"-\", \".\" and \
    \":\" only, such as \"iqn.2024-02.com.example:{hostname}\"";

impl fmt::Display for InitiatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(name) => name.fmt(f),
            Self::OfHost { before, after } => write!(f, "{before}{HOST_NAME}{after}"),
        }
    }
}

impl<'de> Deserialize<'de> for InitiatorName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = "an iSCSI name in quotes, such as \"iqn.1994-05.com.redhat:master0\"";
        Self::parse(&from.deserialize_str(TextVisitor { form })?).map_err(D::Error::custom)
    }
}

impl Serialize for InitiatorName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Returns true if a host name of an entry is a pattern.
pub(super) fn is_pattern(name: &str) -> bool {
    name.contains('*')
}

/// Returns true if a text can be a host name of an entry.
pub(super) fn is_name_or_pattern(text: &str) -> bool {
    is_host_name(&text.replace('*', "a"))
}

/// Returns true if a text can be a node's host name.
pub fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.strip_suffix('.').unwrap_or(name).split('.').all(label)
}

/// Returns true if the name of an entry, or its pattern, means this host. A short name means a host with any domain,
/// and the other way round. Two different fully qualified names never match. A `*` is any text without a dot, also
/// none.
pub(super) fn matches(wanted: &str, hostname: &str) -> bool {
    let is_nameless = hostname.is_empty() || is_pattern(wanted) && short(hostname) == NO_NAME_YET;
    !is_nameless && names_meet(wanted, hostname)
}

/// Returns true if one host can have both names. Each may be a pattern.
pub(super) fn names_meet(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    if !(one.contains('.') && other.contains('.')) {
        return short_names_meet(&one, &other);
    }
    let (ones, others): (Vec<_>, Vec<_>) = (one.split('.').collect(), other.split('.').collect());
    let mut labels = ones.iter().zip(&others);
    ones.len() == others.len() && labels.all(|(one, other)| meet(one.as_bytes(), other.as_bytes()))
}

/// Returns true if two hosts with these names can have the same short name.
pub(super) fn short_names_meet(one: &str, other: &str) -> bool {
    meet(short(one).as_bytes(), short(other).as_bytes())
}

fn short(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_ascii_lowercase()
}

/// Returns true if some text fits both patterns.
fn meet(one: &[u8], other: &[u8]) -> bool {
    // For each end of `other`: whether some text fits it and the end of `one` that was looked at so far.
    let mut fits: Vec<bool> =
        (0..=other.len()).map(|at| other.iter().skip(at).all(|byte| *byte == b'*')).collect();
    for byte in one.iter().rev() {
        let shorter = fits.clone();
        for at in (0..=other.len()).rev() {
            fits[at] = match (byte, other.get(at)) {
                (b'*', None) => shorter[at],
                (b'*', Some(_)) | (_, Some(b'*')) => shorter[at] || fits[at + 1],
                (byte, Some(also)) => byte == also && shorter[at + 1],
                (_, None) => false,
            };
        }
    }
    fits.first() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_and_a_host() {
        for (pattern, host, fits) in [
            ("master-*", "master-0", true),
            ("Master-*", "MASTER-0.prod.example", true),
            ("master-*", "master-", true),
            ("master-*", "xmaster-0", false),
            ("prod-*-master-*-0", "prod-x7k2p-master-abcde-0", true),
            ("prod-*-master-*-0", "prod-x7k2p-master-abcde-1", false),
            ("*", "anything", true),
            ("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("*", "localhost", false),
            ("*", "localhost.localdomain", false),
            ("localhost", "localhost", true),
            ("*", "", false),
            // Labels are matched one by one.
            ("master-*.prod.example", "master-0.prod.example.", true),
            ("master-*.prod.example", "master-0.test.example", false),
            ("master-*.prod.example", "master-0", true),
            ("*.example", "a.b.example", false),
            ("master-0", "master-0.prod.example", true),
            ("master-0.a", "master-0.b", false),
        ] {
            assert_eq!(matches(pattern, host), fits, "{pattern}, {host}");
        }
    }

    #[test]
    fn two_patterns() {
        for (one, other, meets) in [
            ("master-*", "*-0", true),
            ("master-*", "worker-*", false),
            ("a*b", "*c", false),
            ("a*", "a", true),
            ("*.a.example", "*.b.example", false),
            ("*", "*.b.example", true),
            ("", "*", true),
        ] {
            assert_eq!((names_meet(one, other), names_meet(other, one)), (meets, meets), "{one}, {other}");
        }
        assert!(short_names_meet("*.a.example", "m*.b.example"));
    }

    #[test]
    fn an_initiator_name_of_a_host() {
        let name = InitiatorName::parse("iqn.2024-02.com.example:etcd.{hostname}.x").unwrap();
        assert_eq!(name.to_string(), "iqn.2024-02.com.example:etcd.{hostname}.x");
        let of = |host: &str| name.of(host).map(|name| name.as_str().to_owned());
        for host in ["Master-0", "master-0.prod.example", "MASTER-0."] {
            assert_eq!(of(host).unwrap(), "iqn.2024-02.com.example:etcd.master-0.x", "{host}");
        }
        assert_eq!(name.host_of(&name.of("m").unwrap()).as_deref(), Some("m"));
        assert_eq!(name.host_of(&"iqn.2024-02.com.example:etcd..x".parse().unwrap()), None);
        // RFC 3722 has no underscore, and Linux has.
        assert!(of("master_0").unwrap_err().to_string().contains("master_0"));
        for wrong in [
            "iqn.2024-02.com.example:{hostname}{hostname}",
            "iqn.2024-02.com.example:A{hostname}",
            "{hostname}",
            "iqn.2024-02.com.example:{node}",
            "iqn.2024-02.com.example:{hostname",
        ] {
            assert!(InitiatorName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
