//! A value that must never be shown.

use std::fmt;

/// A CHAP secret. `Debug` and `Display` print `***`; it is not `Serialize`.
///
/// The text leaves only through [`Secret::reveal`], so a search for that name finds
/// every place that could show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text of a secret.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, for the one file that open-iscsi reads it from.
    pub fn reveal(&self) -> &str {
        &self.0
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
    }
}
