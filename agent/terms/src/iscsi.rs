//! iSCSI names of RFC 7143, and portals.

use super::error::TermError;
use std::{fmt, net::IpAddr, str::FromStr};

/// The default TCP port of a portal (RFC 7143, section 13; IANA).
pub const ISCSI_PORT: u16 = 3260;

/// The name of the open-iscsi interface that all our sessions have, and no others. It gives them an initiator name of
/// their own; without an interface a session has the node's name.
pub const INTERFACE: &str = "etcd-lun";

/// An iSCSI name of type `iqn.`, `eui.` or `naa.` (RFC 7143, section 4.2.7).
///
/// A target's name is kept byte for byte as the target announces it. RFC 3722 has names in lower case, and many targets don't
/// keep to it: they refuse a log-in with their name in lower case. An initiator's name is invented by the person who writes the
/// config, so it is held to the rule ([`Iqn::of_initiator`]).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Iqn(String);

/// Longest iSCSI name in bytes (RFC 7143, section 4.2.7.1).
pub const MAX_ISCSI_NAME: usize = 223;

pub(super) const IQN_FORM: &str =
    "an iSCSI name, such as \"iqn.2024-02.com.example:etcd\" (without spaces, at most 223 bytes)";
const EUI_FORM: &str = "an iSCSI name: `eui.` is followed by 16 hex digits";
const NAA_FORM: &str = "an iSCSI name: `naa.` is followed by 16 or 32 hex digits";
const DATE_FORM: &str = "an iSCSI name: the date after `iqn.` is the year and the month, from 01 to 12, in which the \
    owner had the domain, such as 2024-02";
const INITIATOR_FORM: &str = "an initiator name: write it in lower case, with letters, digits, \"-\", \".\" and \":\" only, such as \
    \"iqn.1994-05.com.redhat:master0\"";

impl Iqn {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An initiator's name, as RFC 3722 has it: of ASCII, it allows lower-case letters, digits, '-', '.' and ':'.
    pub fn of_initiator(text: &str) -> Result<Self, TermError> {
        let name: Self = text.parse()?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.:".contains(&b);
        let well_formed = text.strip_prefix("iqn.").is_none_or(is_iqn_rest);
        if text.bytes().all(plain) && well_formed {
            Ok(name)
        } else {
            Err(TermError::new(text, INITIATOR_FORM))
        }
    }
}

impl FromStr for Iqn {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        // The whole line of /etc/iscsi/initiatorname.iscsi.
        if let Some(name) = text.strip_prefix("InitiatorName=") {
            let wanted = format!("an iSCSI name; did you mean `{name}`?");
            return Err(TermError::new(text, wanted));
        }
        let (kind, rest) = text.split_at_checked(4).unwrap_or(("", text));
        let kind = kind.to_ascii_lowercase();
        let form = match kind.as_str() {
            "eui." => EUI_FORM,
            "naa." => NAA_FORM,
            _ => IQN_FORM,
        };
        // open-iscsi uses the name as the name of a directory and as an argument. Other scripts than ASCII are refused, because
        // RFC 3722 compares them in a normal form that nothing here makes.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.:_,+=@~#%!".contains(&b);
        let valid = match kind.as_str() {
            "iqn." if !rest.is_empty() => {
                if !has_possible_date(rest) {
                    return Err(TermError::new(text, DATE_FORM));
                }
                true
            }
            "eui." => rest.len() == 16 && is_hex(rest),
            "naa." => (rest.len() == 16 || rest.len() == 32) && is_hex(rest),
            _ => false,
        };
        if valid && text.len() <= MAX_ISCSI_NAME && text.bytes().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(TermError::new(text, form))
        }
    }
}

/// `yyyy-mm.reversed.domain[:anything]`
fn is_iqn_rest(rest: &str) -> bool {
    let Some((_, authority)) = rest.split_once('.') else { return false };
    let domain = authority.split(':').next().unwrap_or_default();
    !domain.is_empty() && !authority.ends_with(':')
}

/// Returns true if the name begins with a year and a month, as `yyyy-mm.`. The year of a target's name is its vendor's:
/// Dell's is 1984, a year before the first domains. A year before 1980 or after 2099 is a typing mistake.
fn has_possible_date(rest: &str) -> bool {
    let Some((date, _)) = rest.split_once('.') else { return false };
    let number = |text: &str, count: usize| -> Option<u16> {
        text.parse().ok().filter(|_| text.len() == count && text.bytes().all(|b| b.is_ascii_digit()))
    };
    date.split_once('-').is_some_and(|(year, month)| {
        number(year, 4).is_some_and(|year| (1980..2100).contains(&year))
            && number(month, 2).is_some_and(|month| (1..=12).contains(&month))
    })
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

const SEVERAL: &str =
    "one portal: write each in quotes of its own, such as [\"192.168.10.5\", \"192.168.11.5\"]";

/// Why nobody can log in at this address, if that is so.
fn unusable(address: IpAddr) -> Option<&'static str> {
    let address = address.to_canonical();
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if link_local {
        Some(LINK_LOCAL)
    } else if address.is_unspecified() {
        Some(
            "a portal of a target: this address means every address of a machine; write the one that the nodes reach",
        )
    } else if address.is_multicast() || matches!(address, IpAddr::V4(address) if address.is_broadcast()) {
        Some("a portal of a target: this address means several machines")
    } else {
        None
    }
}

/// open-iscsi has no place for the zone of an address, and the kernel refuses a link-local address without one ("Invalid
/// argument", open-iscsi#400).
const LINK_LOCAL: &str = "a portal that open-iscsi can use: a link-local address is valid on one link only, and open-iscsi can't \
    be told on which; give the target an address of the storage network";

impl Portal {
    /// True for an address of this machine itself. A target there is right for a test only.
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            PortalHost::Address(address) => address.to_canonical().is_loopback(),
            PortalHost::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }

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

    /// True if a text names its host. Addresses are compared as numbers, because an IPv6 address has many spellings.
    pub fn is_host(&self, text: &str) -> bool {
        match self.address() {
            Some(address) => {
                text.parse::<IpAddr>().is_ok_and(|other| other.to_canonical() == address.to_canonical())
            }
            None => text.eq_ignore_ascii_case(&self.host()),
        }
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
        let text = text.trim();
        let wrong = || TermError::new(text, PORTAL_FORM);
        let plain = text.rsplit_once("://").map_or(text, |(_, portal)| portal);
        let plain =
            plain.split_once(',').filter(|(_, tag)| tag.parse::<u16>().is_ok()).map_or(plain, |(it, _)| it);
        if plain != text && plain.parse::<Self>().is_ok() {
            return Err(TermError::new(text, format!("a portal: did you mean \"{plain}\"?")));
        }
        if text.contains([',', ' ', ';']) {
            return Err(TermError::new(text, SEVERAL));
        }
        if let Some(unclear) = unclear_port(text) {
            return Err(TermError::new(text, unclear));
        }
        let usable = |address: IpAddr, port| match unusable(address) {
            Some(why) => Err(TermError::new(text, why)),
            None => Ok(Self::at(address, port)),
        };
        // A zone: `fe80::1%eth1`.
        if text.trim_start_matches('[').to_ascii_lowercase().starts_with("fe80:") && text.contains('%') {
            return Err(TermError::new(text, LINK_LOCAL));
        }
        // An IPv6 address contains colons, so without brackets it can't have a port.
        if let Ok(address) = text.parse::<IpAddr>() {
            return usable(address, ISCSI_PORT);
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((_, "0")) => return Err(TermError::new(text, PORT_ZERO)),
            Some((host, port)) if !port.ends_with(']') => {
                let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
                let port = port.parse().ok().filter(|port| digits && *port != 0).ok_or_else(wrong)?;
                (host, port)
            }
            _ => (text, ISCSI_PORT),
        };
        if let Some(inner) = host.strip_prefix('[') {
            let address = inner.strip_suffix(']').and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
            return usable(IpAddr::V6(address), port);
        }
        if let Ok(address) = host.parse() {
            return usable(IpAddr::V4(address), port);
        }
        if !is_host_name(host) {
            return Err(wrong());
        }
        Ok(Self { host: PortalHost::Name(host.to_ascii_lowercase()), port })
    }
}

const PORT_ZERO: &str = "a portal: nothing listens at port 0; leave the port out for 3260";

/// The text to write instead of an IPv6 address without brackets whose end looks like a port: `fd00::5:3260` is an
/// address too, and hardly anybody means it. The last group of a real address rarely is a decimal number of three
/// digits or more.
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
    fn addresses_that_cannot_work_are_refused_with_the_reason() {
        for (text, said) in [
            ("fe80::1", "link-local"),
            ("[fe80::1]:3260", "link-local"),
            ("fe80::1%eth1", "link-local"),
            ("[fe80::1%2]:3260", "link-local"),
            ("169.254.1.1", "link-local"),
            ("[::ffff:169.254.1.1]", "link-local"),
            ("0.0.0.0", "every address"),
            ("::", "every address"),
            ("[::]:3260", "every address"),
            ("224.0.0.1", "several machines"),
            ("ff02::1", "several machines"),
            ("255.255.255.255:3260", "several machines"),
            ("192.168.10.5:0", "port 0"),
            ("[2001:db8::5]:0", "port 0"),
            ("san1.example:0", "port 0"),
        ] {
            let error = text.parse::<Portal>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        for (text, is_loopback) in
            [("127.0.0.1", true), ("[::1]:3260", true), ("localhost", true), ("192.168.10.5", false)]
        {
            assert_eq!(text.parse::<Portal>().unwrap().is_loopback(), is_loopback, "{text}");
        }
    }

    #[test]
    fn names_of_the_wrong_form_say_what_is_wrong() {
        for (text, said) in [
            ("iqn.2024-13.com.example", "the month, from 01 to 12"),
            ("iqn.2024-00.com.example", "the month, from 01 to 12"),
            ("iqn.1024-02.com.example", "the year and the month"),
            ("iqn.2924-02.com.example", "the year and the month"),
            ("iqn.24-02.com.example", "the year and the month"),
            ("eui.02004567A425678", "16 hex digits"),
            ("naa.5200456", "16 or 32 hex digits"),
        ] {
            let error = text.parse::<Iqn>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    /// Names of targets of QNAP, Synology, Dell and LIO, and those that RFC 7143 prints.
    #[test]
    fn a_target_has_its_own_name() {
        for text in [
            "iqn.2024-02.com.example:etcd",
            "iqn.2004-04.com.qnap:TS-809:iscsi.test.C5884B",
            "iqn.2000-01.com.synology:NAS.Target-1.d8d4b2",
            "iqn.2011-03.example.org:vol_1",
            "iqn.1984-05.com.dell:powervault.md3200i.6782bcb00053",
            "iqn.2024-02.com.example:",
            "IQN.2024-02.com.example:etcd",
            "eui.02004567A425678D",
            "eui.02004567a425678d",
            "naa.52004567BA64678D",
            "naa.62004567BA64678D0123456789ABCDEF",
        ] {
            assert_eq!(text.parse::<Iqn>().unwrap().as_str(), text, "byte for byte");
        }
        let long = format!("iqn.2024-02.com.example:{}", "x".repeat(224 - 24));
        for text in [
            "",
            "iqn.",
            "iqn.2024-02",
            "iqn.2024-02.com.example:a b",
            "iqn.2024-02.com.x/../y",
            "iqn.2024-02.com.example:ä",
            "iqn.2024-02.com.example:a\u{7}",
            "eui.12",
            "2024-02.com.example:x",
            &long,
        ] {
            assert!(text.parse::<Iqn>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_initiator_keeps_to_the_rule() {
        for text in
            ["iqn.1994-05.com.redhat:master0", "iqn.1994-05.com.redhat:01.a-b", "eui.02004567a425678d"]
        {
            assert_eq!(Iqn::of_initiator(text).unwrap().as_str(), text);
        }
        for text in [
            "iqn.1994-05.com.redhat:Master0",
            "iqn.1994-05.com.redhat:master_0",
            "iqn.1994-05.com.redhat:",
            "iqn.1994-05.",
            "eui.02004567A425678D",
        ] {
            let error = Iqn::of_initiator(text).unwrap_err().to_string();
            assert!(error.contains("an initiator name: write it in lower case"), "{error}");
        }
        assert!(Iqn::of_initiator("iqn.1994-13.com.redhat:a").unwrap_err().to_string().contains("the month"));
    }
}
