//! Names of Kubernetes objects and of roles.

use std::{fmt, str::FromStr};
use terms::TermError;

/// The name of an object: a DNS subdomain of RFC 1123 (Kubernetes, "Object Names and IDs").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName(String);

const NAME_FORM: &str = "an object's name, such as \"98-master-etcd-lun\": lower-case letters, digits, \"-\" and \".\", a letter or digit at both ends";

impl ObjectName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The default name of the object for a role. The operator merges MachineConfigs in the order of their names: this one
    /// comes after OpenShift's own, and before those that the operator makes from other objects (`99-…`).
    pub fn for_role(role: &Role) -> Self {
        Self(format!("98-{role}-etcd-lun"))
    }
}

impl FromStr for ObjectName {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        if is_subdomain(text) { Ok(Self(text.to_owned())) } else { Err(TermError::new(text, NAME_FORM)) }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The role by which a MachineConfigPool selects its MachineConfigs. It is the value of a label, at most 63 bytes, and a part of
/// the object's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role(String);

const ROLE_FORM: &str = "the role of a MachineConfigPool, such as \"master\": lower-case letters, digits, \"-\" and \".\", at most 63";

impl Role {
    /// The role as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Role {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let fits = text.len() <= 63 && is_subdomain(text);
        if fits { Ok(Self(text.to_owned())) } else { Err(TermError::new(text, ROLE_FORM)) }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_subdomain(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        label.bytes().all(|b| plain(b) || b == b'-')
            && label.bytes().next().is_some_and(plain)
            && label.bytes().last().is_some_and(plain)
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_roles() {
        for text in ["98-master-etcd-lun", "a", "a.b-c.1"] {
            assert_eq!(text.parse::<ObjectName>().unwrap().as_str(), text);
            assert_eq!(text.parse::<Role>().unwrap().as_str(), text);
        }
        for text in ["", "Master", "a_b", "-a", "a-", ".a", "a..b", "a b", "a/b", "ü", "a\n", "a\"b"] {
            assert!(text.parse::<ObjectName>().is_err(), "{text}");
            assert!(text.parse::<Role>().is_err(), "{text}");
        }
        let (long, longer) = ("r".repeat(63), "r".repeat(64));
        assert_eq!(
            ObjectName::for_role(&long.parse().unwrap()).to_string(),
            format!("98-{long}-etcd-lun").parse::<ObjectName>().unwrap().to_string()
        );
        assert!(longer.parse::<Role>().is_err() && longer.parse::<ObjectName>().is_ok());
        assert!("n".repeat(254).parse::<ObjectName>().is_err());
    }
}
