//! iSCSI names of RFC 7143, and portals.

use super::error::TermError;
use std::{fmt, net::IpAddr, str::FromStr};

/// The default TCP port of a portal (RFC 7143, section 13; IANA).
pub const ISCSI_PORT: u16 = 3260;

/// The name of the open-iscsi interface that all our sessions have, and no others. It gives them an initiator name of
/// their own; without an interface a session has the node's name.
pub const INTERFACE: &str = "etcd-lun";

/// An iSCSI name of type `iqn.`, `eui.` or `naa.` (RFC 7143, section 4.2.7).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Iqn(String);

/// Longest iSCSI name in bytes (RFC 7143, section 4.2.7.1).
const MAX_NAME: usize = 223;

pub(super) const IQN_FORM: &str =
    "an iSCSI name, such as \"iqn.2024-02.com.example:etcd\" (lower case, at most 223 bytes)";
const EUI_FORM: &str = "an iSCSI name: `eui.` is followed by 16 hex digits in lower case";
const NAA_FORM: &str = "an iSCSI name: `naa.` is followed by 16 or 32 hex digits in lower case";
const DATE_FORM: &str = "an iSCSI name: the date after `iqn.` is the year and the month, from 01 to 12, in which the \
    owner had the domain, such as 2024-02";

impl Iqn {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Iqn {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let form = match text.get(..4) {
            Some("eui.") => EUI_FORM,
            Some("naa.") => NAA_FORM,
            _ => IQN_FORM,
        };
        let wrong = || TermError::new(text, form);
        // Of ASCII, RFC 3722 (stringprep) allows letters, digits, '-', '.' and ':'. It also allows other scripts, but
        // open-iscsi uses the name as the name of a directory, so they are refused here.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c);
        if text.len() > MAX_NAME || !text.chars().all(plain) {
            return Err(wrong());
        }
        let valid = if let Some(rest) = text.strip_prefix("iqn.") {
            if is_iqn_rest(rest) && !has_possible_date(rest) {
                return Err(TermError::new(text, DATE_FORM));
            }
            is_iqn_rest(rest)
        } else if let Some(hex) = text.strip_prefix("eui.") {
            hex.len() == 16 && is_hex(hex)
        } else if let Some(hex) = text.strip_prefix("naa.") {
            (hex.len() == 16 || hex.len() == 32) && is_hex(hex)
        } else {
            false
        };
        if valid { Ok(Self(text.to_owned())) } else { Err(wrong()) }
    }
}

/// `yyyy-mm.reversed.domain[:anything]`
fn is_iqn_rest(rest: &str) -> bool {
    let Some((date, authority)) = rest.split_once('.') else { return false };
    let Some((year, month)) = date.split_once('-') else { return false };
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let domain = authority.split(':').next().unwrap_or_default();
    digits(year, 4) && digits(month, 2) && !domain.is_empty() && !authority.ends_with(':')
}

/// Whether the owner can have had the domain then: the first domains were registered in 1985. What is later than 2099 is a
/// typing mistake.
fn has_possible_date(rest: &str) -> bool {
    let number =
        |range: std::ops::Range<usize>| rest.get(range).and_then(|digits| digits.parse::<u16>().ok());
    number(0..4).is_some_and(|year| (1985..2100).contains(&year))
        && number(5..7).is_some_and(|month| (1..=12).contains(&month))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

impl fmt::Display for Iqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A target's portal: IPv4 address, IPv6 address or host name, and TCP port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Portal {
    host: PortalHost,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PortalHost {
    Address(IpAddr),
    Name(String),
}

pub(super) const PORTAL_FORM: &str = "a portal, such as \"192.168.10.5\", \"192.168.10.5:3260\", \"[2001:db8::5]:3260\" or \"san1.example:3260\"";

impl Portal {
    /// A portal at an address.
    pub fn at(address: IpAddr, port: u16) -> Self {
        Self { host: PortalHost::Address(address), port }
    }

    /// The host part in the form of open-iscsi's records: an address without brackets, or a name.
    pub fn host(&self) -> String {
        match &self.host {
            PortalHost::Address(address) => address.to_string(),
            PortalHost::Name(name) => name.clone(),
        }
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address; none if the portal is given by name.
    pub fn address(&self) -> Option<IpAddr> {
        match self.host {
            PortalHost::Address(address) => Some(address),
            PortalHost::Name(_) => None,
        }
    }
}

impl FromStr for Portal {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError::new(text, PORTAL_FORM);
        if let Some(unclear) = unclear_port(text) {
            return Err(TermError::new(text, unclear));
        }
        // An IPv6 address contains colons, so without brackets it can't have a port.
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::at(address, ISCSI_PORT));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
                let port = port.parse().ok().filter(|port| digits && *port != 0).ok_or_else(wrong)?;
                (host, port)
            }
            _ => (text, ISCSI_PORT),
        };
        if let Some(inner) = host.strip_prefix('[') {
            let address = inner.strip_suffix(']').and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
            return Ok(Self::at(IpAddr::V6(address), port));
        }
        if let Ok(address) = host.parse() {
            return Ok(Self::at(IpAddr::V4(address), port));
        }
        if !is_host_name(host) {
            return Err(wrong());
        }
        Ok(Self { host: PortalHost::Name(host.to_ascii_lowercase()), port })
    }
}

/// What to write instead of an IPv6 address without brackets whose end looks like a port: `fd00::5:3260` is an address too, and
/// hardly anybody means it. The last group of a real address rarely is a decimal number of three digits or more.
fn unclear_port(text: &str) -> Option<String> {
    let (address, port) = text.rsplit_once(':')?;
    let digits = (3..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
    if !digits || !matches!(address.parse(), Ok(IpAddr::V6(_))) {
        return None;
    }
    let whole = if text.parse::<IpAddr>().is_ok() {
        format!(", or `[{text}]` if {port} belongs to the address")
    } else {
        String::new()
    };
    Some(format!(
        "clear, because an IPv6 address needs brackets before a port: write `[{address}]:{port}`{whole}"
    ))
}

/// A host name of RFC 1123. A name of only digits and dots is refused: it is a mistyped address.
fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label) && text.bytes().any(|b| b.is_ascii_alphabetic())
}

impl fmt::Display for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            PortalHost::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            PortalHost::Address(IpAddr::V4(address)) => write!(f, "{address}:{}", self.port),
            PortalHost::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals() {
        for (text, shown, host) in [
            ("192.168.10.5", "192.168.10.5:3260", "192.168.10.5"),
            ("192.168.10.5:3261", "192.168.10.5:3261", "192.168.10.5"),
            ("[2001:db8::5]", "[2001:db8::5]:3260", "2001:db8::5"),
            ("[2001:db8::5]:860", "[2001:db8::5]:860", "2001:db8::5"),
            ("2001:db8::5", "[2001:db8::5]:3260", "2001:db8::5"),
            ("fd00::3260", "[fd00::3260]:3260", "fd00::3260"),
            ("fd00::5:a260", "[fd00::5:a260]:3260", "fd00::5:a260"),
            ("[fd00::5:3260]", "[fd00::5:3260]:3260", "fd00::5:3260"),
            ("fd00:0:0:0:0:0:5:3260", "[fd00::5:3260]:3260", "fd00::5:3260"),
            ("SAN1.example", "san1.example:3260", "san1.example"),
            ("san1:860", "san1:860", "san1"),
        ] {
            let portal: Portal = text.parse().unwrap();
            assert_eq!((portal.to_string().as_str(), portal.host().as_str()), (shown, host), "{text}");
        }
        for text in [
            "",
            ":3260",
            "1.2.3",
            "1.2.3.4:",
            "1.2.3.4:0",
            "1.2.3.4:99999",
            "[::1",
            "[::1]x",
            "a b",
            "-a",
            "a:+1",
            "[1.2.3.4]",
        ] {
            assert!(text.parse::<Portal>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_after_an_address_without_brackets_is_refused_with_what_to_write() {
        for (text, cure) in [
            ("fd00::5:3260", "write `[fd00::5]:3260`, or `[fd00::5:3260]` if 3260 belongs to the address"),
            ("fd00:1:2:3:4:5:6:7:3260", "write `[fd00:1:2:3:4:5:6:7]:3260`"),
            ("::1:860", "write `[::1]:860`, or `[::1:860]` if 860 belongs to the address"),
            ("fd00::5:32600", "write `[fd00::5]:32600`"),
        ] {
            let said = text.parse::<Portal>().unwrap_err().to_string();
            assert!(said.ends_with(cure), "{text}: {said}");
        }
    }

    #[test]
    fn names_of_the_wrong_form_say_what_is_wrong() {
        for (text, said) in [
            ("iqn.2024-13.com.example", "the month, from 01 to 12"),
            ("iqn.2024-00.com.example", "the month, from 01 to 12"),
            ("iqn.1024-02.com.example", "the year and the month"),
            ("iqn.2924-02.com.example", "the year and the month"),
            ("eui.02004567A425678D", "16 hex digits in lower case"),
            ("naa.5200456", "16 or 32 hex digits in lower case"),
        ] {
            let error = text.parse::<Iqn>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn names() {
        for text in ["iqn.2024-02.com.example:etcd", "iqn.1994-05.com.redhat:master0", "eui.02004567a425678d"]
        {
            assert_eq!(text.parse::<Iqn>().unwrap().as_str(), text);
        }
        for text in [
            "",
            "iqn.",
            "iqn.2024-02",
            "iqn.24-02.com.example",
            "iqn.2024-02.com.example:a b",
            "iqn.2024-02.com.x/../y",
            "IQN.2024-02.com.example",
            "iqn.2024-02.com.example:",
            "eui.12",
            "2024-02.com.example:x",
        ] {
            assert!(text.parse::<Iqn>().is_err(), "{text}");
        }
    }
}
