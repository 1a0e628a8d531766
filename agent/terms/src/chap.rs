//! CHAP credentials.

use super::secret::Secret;
use serde::{Deserialize, Serialize};

/// An algorithm of CHAP (RFC 7143, section 12.1.3; IANA, PPP Authentication Algorithms), in open-iscsi's spelling
/// (`chap_algs`, usr/idbm.c).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, schemars::JsonSchema,
)]
pub enum ChapAlg {
    /// MD5, which no FIPS mode has.
    #[serde(rename = "MD5")]
    Md5,
    /// SHA-1.
    #[serde(rename = "SHA1")]
    Sha1,
    /// SHA-256.
    #[serde(rename = "SHA256")]
    Sha256,
    /// SHA3-256.
    #[serde(rename = "SHA3-256")]
    Sha3,
}

impl ChapAlg {
    /// The name as open-iscsi spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha3 => "SHA3-256",
        }
    }

    /// A list of algorithms as open-iscsi spells it.
    pub fn list(algs: &[Self]) -> String {
        algs.iter().map(|alg| alg.name()).collect::<Vec<_>>().join(",")
    }
}

/// CHAP credentials: one-way, or mutual if the target must authenticate too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    username: String,
    password: Secret,
    mutual: Option<(String, Secret)>,
    algs: Vec<ChapAlg>,
}

/// Longest name or secret in bytes. open-iscsi keeps them in 256 bytes with the final zero
/// (`AUTH_STR_MAX_LEN`, usr/auth.h) and reads longer values past the end of its buffer
/// (`idbm_recinfo_config`, usr/idbm.c).
const MAX_BYTES: usize = 255;

impl Chap {
    /// Makes credentials from the user name and secret of the initiator, and for mutual CHAP those of the target.
    ///
    /// Refuses a value that open-iscsi can't store on one line of its records. Also refuses equal secrets for both
    /// directions: open-iscsi regards them as a reflected answer and refuses the login
    /// (`AUTH_DBG_STATUS_PASSWD_IDENTICAL`, usr/auth.c).
    pub fn new(
        username: String,
        password: Secret,
        mutual: Option<(String, Secret)>,
    ) -> Result<Self, ChapError> {
        storable("user name", &username)?;
        storable("secret", password.reveal())?;
        if let Some((username, password_in)) = &mutual {
            storable("user name of the target", username)?;
            storable("secret of the target", password_in.reveal())?;
            if *password_in == password {
                let fault = "equals the initiator's: set another one, here and at the target";
                return Err(ChapError { part: "secret of the target", fault });
            }
        }
        Ok(Self { username, password, mutual, algs: Vec::new() })
    }

    /// Returns the credentials with these algorithms, in order of preference. Without any, open-iscsi's default counts.
    #[must_use]
    pub fn with_algs(mut self, algs: &[ChapAlg]) -> Self {
        self.algs = algs.to_vec();
        self
    }

    /// The algorithms that may be used, in order of preference; empty for open-iscsi's default.
    pub fn algs(&self) -> &[ChapAlg] {
        &self.algs
    }

    /// The user name that the initiator authenticates with.
    pub fn username(&self) -> &str {
        &self.username
    }

    /// The initiator's secret.
    pub fn password(&self) -> &Secret {
        &self.password
    }

    /// The user name and secret that the target must authenticate with.
    pub fn mutual(&self) -> Option<(&str, &Secret)> {
        self.mutual.as_ref().map(|(username, password)| (username.as_str(), password))
    }
}

/// Why credentials can't be used. The message never contains them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the CHAP {part} {fault}")]
pub struct ChapError {
    /// The name of the value, one of four.
    pub part: &'static str,
    /// The fault of that value.
    pub fault: &'static str,
}

fn storable(part: &'static str, text: &str) -> Result<(), ChapError> {
    let fault = if text.is_empty() {
        "is empty: set the one that the target knows"
    } else if text.len() > MAX_BYTES {
        "is longer than 255 bytes: set a shorter one, here and at the target"
    } else if text.chars().any(char::is_control) {
        "holds a control character or a line break: write it on one line, without that"
    } else if text.starts_with('\u{feff}') {
        "begins with a byte order mark: leave that out"
    } else if text.trim() != text {
        "begins or ends with white space: leave that out"
    } else {
        return Ok(());
    };
    Err(ChapError { part, fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chap(username: &str, password: &str, mutual: Option<(&str, &str)>) -> Result<Chap, ChapError> {
        let secret = |text: &str| Secret::new(text.into());
        let mutual = mutual.map(|(username, password)| (username.to_owned(), secret(password)));
        Chap::new(username.into(), secret(password), mutual)
    }

    #[test]
    fn accepted() {
        let longest = "x".repeat(255);
        for (username, password) in [("initiator1", "secretsecret1"), ("a b", "p w=#'\" ü"), ("n", &longest)]
        {
            let chap = chap(username, password, Some(("target", "othersecret12"))).unwrap();
            assert_eq!((chap.username(), chap.password().reveal()), (username, password));
            assert_eq!(chap.mutual().unwrap().1.reveal(), "othersecret12");
        }
    }

    #[test]
    fn refused_without_showing() {
        let long = format!("hunter2{}", "x".repeat(249));
        for password in [
            "",
            "hunter2\n",
            "hunter2\0x",
            "hunter2\u{85}x",
            " hunter2",
            "hunter2\t",
            "\u{feff}hunter2",
            &long,
        ] {
            for result in [
                chap("initiator1", password, None),
                chap("initiator1", "secretsecret1", Some(("target", password))),
            ] {
                let error = result.unwrap_err();
                assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
            }
            assert!(chap(password, "secretsecret1", None).is_err(), "{password}");
        }
        assert_eq!(
            chap("initiator1", "hunter2", Some(("target", "hunter2"))).unwrap_err().to_string(),
            "the CHAP secret of the target equals the initiator's: set another one, here and at the target"
        );
        assert!(!format!("{:?}", chap("initiator1", "hunter2", Some(("t", "hunter3")))).contains("hunter"));
    }
}
