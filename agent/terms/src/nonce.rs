//! A number that is used once.

use super::{
    error::TermError,
    fingerprint::{from_hex, hex},
};
use std::{fmt, str::FromStr};

/// 128 random bits that distinguish one use of the LUN from every other.
///
/// Two nodes that begin from the same record, such as a node and a clone of its disk, count to the same number. They draw the
/// same nonce once in 2^128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(pub [u8; 16]);

pub(super) const NONCE_FORM: &str = "a nonce: 32 hexadecimal digits in lower case";

impl FromStr for Nonce {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        from_hex(text).map(Self).ok_or_else(|| TermError::new(text, NONCE_FORM))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_32_digits() {
        let text = "00112233445566778899aabbccddeeff";
        let nonce: Nonce = text.parse().unwrap();
        assert_eq!((nonce.to_string().as_str(), nonce.0[1]), (text, 0x11));
        for other in ["", &text[1..], &text.to_uppercase(), "g0112233445566778899aabbccddeeff"] {
            assert!(other.parse::<Nonce>().is_err(), "{other}");
        }
    }
}
