//! What a tree of files holds, in 32 bytes.

use super::TermError;
use blake2::{Blake2b256, Digest as _};
use std::{fmt, str::FromStr};

/// A BLAKE2b hash of 256 bits over the contents and metadata of a tree; `host::tree` says of what exactly.
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

/// What a fingerprint is made with: BLAKE2b of 256 bits (RFC 7693), the same as of `b2sum --length 256`.
#[derive(Debug, Default)]
pub struct Hasher {
    state: Blake2b256,
    count: u64,
}

impl Hasher {
    /// The hash of a whole text.
    pub fn of(bytes: &[u8]) -> Fingerprint {
        let mut hasher = Self::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Goes on with what comes next.
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.count += bytes.len() as u64;
    }

    /// The number of bytes so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The hash of all that came.
    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.state.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What GNU coreutils' `b2sum --length 256` says of the same bytes.
    #[test]
    fn of_known_bytes() {
        for (bytes, hash) in [
            (&b""[..], "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"),
            (&b"abc"[..], "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"),
            (&[b'x'; 1000][..], "ab75119ede14ef06ebf31f745fb655ed006cccfe8054c635308a557f7c9beaba"),
        ] {
            assert_eq!(Hasher::of(bytes).to_string(), hash);
            let mut hasher = Hasher::default();
            bytes.chunks(7).for_each(|piece| hasher.update(piece));
            assert_eq!(hasher.count(), bytes.len() as u64);
            assert_eq!(hasher.finish().to_string(), hash);
        }
    }

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
