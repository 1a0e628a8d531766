//! What a tree of files holds, in 32 bytes.

use super::TermError;
use std::{fmt, str::FromStr};

/// A BLAKE3 hash over the contents and metadata of a tree; `host::tree` says of what exactly.
/// Two trees with the same fingerprint hold the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

const FINGERPRINT_FORM: &str = "a fingerprint: 64 hexadecimal digits in lower case";

impl FromStr for Fingerprint {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError::new(text, FINGERPRINT_FORM);
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 64 || !text.bytes().all(digit) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let pair = text.get(2 * at..2 * at + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form() {
        let text = "00ff".to_owned() + &"a5".repeat(30);
        let fingerprint: Fingerprint = text.parse().unwrap();
        assert_eq!(fingerprint.0[..3], [0, 0xff, 0xa5]);
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(serde_json::to_string(&fingerprint).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Fingerprint>(&format!("\"{text}\"")).unwrap(), fingerprint);
    }

    #[test]
    fn refused() {
        for text in
            ["", "00", &"0".repeat(63), &"0".repeat(65), &"A".repeat(64), &"+1".repeat(32), &"é".repeat(32)]
        {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
