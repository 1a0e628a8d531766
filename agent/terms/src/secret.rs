//! A value that must never be printed.

use std::fmt;

/// The end of an encrypted credential's name. A unit cannot load a plain and an encrypted credential of one name: systemd would
/// try to decrypt the plain one, and would not start the unit.
pub const ENCRYPTED_NAME: &str = ".cred";

/// A CHAP secret. `Debug` and `Display` print `***`; it is not `Serialize`.
///
/// The text leaves only through [`Secret::reveal`], so a search for that name finds every place that could print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Makes a secret from its text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the file from which open-iscsi reads it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns true if the text contains this secret.
    pub fn is_in(&self, text: &str) -> bool {
        !self.0.is_empty() && text.contains(&self.0)
    }

    /// Returns true if it has fewer than the 96 bits that RFC 7143 requires (section 12.1.3), even if each of its bytes
    /// is random. Beyond ASCII arrays read a secret in different ways, or take none.
    pub fn is_weak(&self) -> bool {
        self.0.len() < 12 || !self.0.is_ascii()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn never_shown() {
        let secret = Secret::new("hunter2hunter2".into());
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert!(!secret.is_weak() && Secret::new("hunter2hunt".into()).is_weak());
        assert!(Secret::new("hünter2hunter2".into()).is_weak());
    }
}
