//! What a tree of files holds, in 16 bytes.

use super::error::TermError;
use std::{fmt, str::FromStr};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128_with_seed};

/// An XXH3 hash of 128 bits over the contents and metadata of a tree; `host::tree` says exactly what it covers.
///
/// XXH3 is not a cryptographic hash. It has to find accidents only, such as an etcd that has written to the local data since
/// it was copied: two different trees get the same fingerprint by chance once in 2^128. It does not stop someone who makes
/// two trees with the same fingerprint on purpose. To gain from that, they would have to choose every byte of etcd's files
/// and each file's time of change in nanoseconds, on the node's own disk, and who may do so needs no such trick.
///
/// The proof of a copy does not depend on it: it compares the hashes of each block of both sides, made with a seed that is
/// chosen at random for each run ([`block_hash`]), and all metadata. Only the fingerprint decides where one side is not
/// there any more: when a later run finishes what was cut short after the commit point, namely retiring the local data, or
/// putting a rollback's copy in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// Names the hash, so that no fingerprint is ever compared with one of another kind.
const PREFIX: &str = "xxh3:";
const FINGERPRINT_FORM: &str = "a fingerprint: `xxh3:` and 32 hexadecimal digits in lower case";

impl FromStr for Fingerprint {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let digits = text.strip_prefix(PREFIX).and_then(from_hex);
        digits.map(Self).ok_or_else(|| TermError::new(text, FINGERPRINT_FORM))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        hex(&self.0, f)
    }
}

impl Fingerprint {
    /// The first half of the hash, as 16 hexadecimal digits: for a name that no person types.
    pub fn short(&self) -> String {
        let text = self.to_string();
        text.chars().skip(PREFIX.len()).take(16).collect()
    }
}

/// What a record keeps as fingerprint.
///
/// Earlier versions hashed with BLAKE3 or BLAKE2b. Such a fingerprint is kept as it was written, and never compared: it is
/// neither equal to one of ours nor different from it. Who decides by it has to say what to do then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordedFingerprint {
    /// Of the kind that this program makes.
    Ours(Fingerprint),
    /// 256 bits of a hash that this program cannot make.
    Older([u8; 32]),
}

const RECORDED_FORM: &str =
    "a fingerprint: `xxh3:` and 32 hexadecimal digits in lower case, or 64 digits of an older version";

impl FromStr for RecordedFingerprint {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let ours = text.parse().ok().map(Self::Ours);
        ours.or_else(|| from_hex(text).map(Self::Older)).ok_or_else(|| TermError::new(text, RECORDED_FORM))
    }
}

impl fmt::Display for RecordedFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(fingerprint) => fingerprint.fmt(f),
            Self::Older(bytes) => hex(bytes, f),
        }
    }
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Exactly as many bytes as are wanted, in lower case.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if text.len() != 2 * N || !text.bytes().all(digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// What a fingerprint is made with: XXH3 of 128 bits with its default secret, the same as of `xxhsum -H2`.
#[derive(Default)]
pub struct Hasher {
    state: Xxh3Default,
    count: u64,
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").field("count", &self.count).finish_non_exhaustive()
    }
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

    /// The hash of all that came, in the order of bytes in which xxHash writes it.
    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.state.digest128().to_be_bytes())
    }
}

/// An XXH3 hash of 128 bits of one block, with a seed. Only for hashes that are compared within one run: the seed is
/// chosen at random, so that nobody can prepare two blocks with the same hash.
pub fn block_hash(block: &[u8], seed: u64) -> u128 {
    xxh3_128_with_seed(block, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of xxHash's own `xxhsum -H2` for the same bytes. The lengths reach every path of the algorithm.
    #[test]
    fn of_known_bytes() {
        for (bytes, hash) in [
            (&b""[..], "xxh3:99aa06d3014798d86001c324468d497f"),
            (&b"abc"[..], "xxh3:06b05ab6733a618578af5f94892f3950"),
            (&[b'x'; 16][..], "xxh3:ceb3fbd8af7001ac76ba55acf0be061e"),
            (&[b'x'; 128][..], "xxh3:fd990d088a9365ae7813452547ab9912"),
            (&[b'x'; 240][..], "xxh3:bfede978870834bedf2b586ca80bb7aa"),
            (&[b'x'; 256][..], "xxh3:9b018b25a2dd0594d1d05738849baec9"),
            (&[b'x'; 257][..], "xxh3:dadc14ca338a8c9f9d7697cc4f0af996"),
            (&[b'x'; 1000][..], "xxh3:50a1af5a5f2dcf01c0a4877b962cba82"),
            (&[b'x'; 5000][..], "xxh3:c40b706e6ba9af508d8567cbc9ee3d90"),
        ] {
            assert_eq!(Hasher::of(bytes).to_string(), hash);
            for size in [1, 7, 64, 256, 1000] {
                let mut hasher = Hasher::default();
                bytes.chunks(size).for_each(|piece| hasher.update(piece));
                assert_eq!(hasher.count(), bytes.len() as u64);
                assert_eq!(hasher.finish().to_string(), hash, "in pieces of {size}");
            }
        }
    }

    #[test]
    fn one_form() {
        let text = "xxh3:00ff".to_owned() + &"a5".repeat(14);
        let fingerprint: Fingerprint = text.parse().unwrap();
        assert_eq!(fingerprint.0[..3], [0, 0xff, 0xa5]);
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(fingerprint.short(), "00ffa5a5a5a5a5a5");
        assert_eq!(serde_json::to_string(&fingerprint).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Fingerprint>(&format!("\"{text}\"")).unwrap(), fingerprint);
        assert_eq!(text.parse(), Ok(RecordedFingerprint::Ours(fingerprint)));
        assert_eq!(RecordedFingerprint::Ours(fingerprint).to_string(), text);
    }

    #[test]
    fn of_an_older_version() {
        let text = "00ff".to_owned() + &"a5".repeat(30);
        assert!(text.parse::<Fingerprint>().is_err());
        let older: RecordedFingerprint = text.parse().unwrap();
        assert!(matches!(older, RecordedFingerprint::Older([0, 0xff, 0xa5, ..])));
        assert_eq!(older.to_string(), text);
    }

    #[test]
    fn refused() {
        for text in [
            "",
            "00",
            "xxh3:",
            &"0".repeat(32),
            &("xxh3:".to_owned() + &"0".repeat(31)),
            &("xxh3:".to_owned() + &"0".repeat(64)),
            &("XXH3:".to_owned() + &"0".repeat(32)),
            &("xxh3:".to_owned() + &"A".repeat(32)),
            &("xxh3:".to_owned() + &"+1".repeat(16)),
            &("xxh3:".to_owned() + &"é".repeat(16)),
            &"0".repeat(63),
            &"0".repeat(65),
            &"A".repeat(64),
            &"+1".repeat(32),
            &"é".repeat(32),
        ] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
            assert!(text.parse::<RecordedFingerprint>().is_err(), "{text}");
        }
    }
}
