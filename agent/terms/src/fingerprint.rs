//! What a tree of files holds, in 16 bytes.

use super::error::TermError;
use std::{fmt, str::FromStr};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128_with_seed};

/// An XXH3 hash of 128 bits over the contents and metadata of a tree; `host::tree` says exactly what it covers.
///
/// The content of a file goes in as the hashes of its blocks, which the proof of a copy has anyway ([`block_hash`]). They have
/// a seed that is chosen at random for each run, so it is part of the fingerprint: to hold a tree against a fingerprint,
/// it is hashed with that fingerprint's seed.
///
/// XXH3 is not a cryptographic hash. It has to find accidents only, such as an etcd that has written to the local data since
/// it was copied: two different trees get the same fingerprint by chance once in 2^128. It does not stop someone who makes
/// two trees with the same fingerprint on purpose. To gain from that, they would have to know the seed and to choose every
/// byte of etcd's files and each file's time of change in nanoseconds, on the node's own disk, and who may do so needs no
/// such trick.
///
/// A fingerprint decides where one side is not there any more: when a later run finishes what was cut short after the commit
/// point, namely retiring the local data, or putting a rollback's copy in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// The seed of the blocks' hashes.
    pub seed: u64,
    /// The hash of the tree.
    pub hash: [u8; 16],
}

/// Names the hash, so that no fingerprint is ever compared with one of another kind.
const PREFIX: &str = "xxh3:";
const FINGERPRINT_FORM: &str =
    "a fingerprint: `xxh3:`, 16 hexadecimal digits in lower case, `:` and 32 such digits";

impl FromStr for Fingerprint {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let parse = || {
            let (seed, hash) = text.strip_prefix(PREFIX)?.split_once(':')?;
            Some(Self { seed: u64::from_be_bytes(from_hex(seed)?), hash: from_hex(hash)? })
        };
        parse().ok_or_else(|| TermError::new(text, FINGERPRINT_FORM))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        hex(&self.seed.to_be_bytes(), f)?;
        f.write_str(":")?;
        hex(&self.hash, f)
    }
}

/// A fingerprint as a record keeps it.
///
/// Such a fingerprint of an earlier version is kept as it was written, and never compared: it is neither equal to one of
/// ours nor different from it. Who decides by it has to say what to do then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordedFingerprint {
    /// Of the kind that this program makes.
    Ours(Fingerprint),
    /// Of a kind that this program cannot make.
    Older(OlderFingerprint),
}

/// A fingerprint of an earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OlderFingerprint {
    /// 256 bits of BLAKE3 or BLAKE2b.
    Blake([u8; 32]),
    /// XXH3 over whole files.
    Xxh3([u8; 16]),
}

const RECORDED_FORM: &str = "a fingerprint: `xxh3:`, 16 hexadecimal digits in lower case, `:` and 32 such digits, or one of an older version";

impl FromStr for RecordedFingerprint {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let ours = || text.parse().ok().map(Self::Ours);
        let older = || from_hex(text).map(OlderFingerprint::Blake);
        let whole = || text.strip_prefix(PREFIX).and_then(from_hex).map(OlderFingerprint::Xxh3);
        ours()
            .or_else(|| older().or_else(whole).map(Self::Older))
            .ok_or_else(|| TermError::new(text, RECORDED_FORM))
    }
}

impl fmt::Display for RecordedFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(fingerprint) => fingerprint.fmt(f),
            Self::Older(OlderFingerprint::Blake(bytes)) => hex(bytes, f),
            Self::Older(OlderFingerprint::Xxh3(bytes)) => {
                f.write_str(PREFIX)?;
                hex(bytes, f)
            }
        }
    }
}

pub(super) fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Exactly as many bytes as are wanted, in lower case.
pub(super) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
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

/// XXH3 of 128 bits with its default secret, the same as of `xxhsum -H2`.
#[derive(Default)]
pub struct Hasher {
    state: Xxh3Default,
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

impl Hasher {
    /// Goes on with what comes next.
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    /// The hash of all that came, in the order of bytes in which xxHash writes it.
    pub fn finish(self) -> [u8; 16] {
        self.state.digest128().to_be_bytes()
    }
}

/// 16 hexadecimal digits that stand for a text, for a name that no person types.
pub fn checksum(text: &str) -> String {
    let mut hasher = Hasher::default();
    hasher.update(text.as_bytes());
    hasher.finish().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The length of a block, of which each has a hash of its own. etcd's database changes in pages of 4 KiB that are scattered. With
/// smaller blocks less is written to a copy; with larger ones fewer hashes are kept, which take 2 MiB for a database of 8
/// GiB.
pub const BLOCK: usize = 64 << 10;

/// An XXH3 hash of 128 bits of one block. The seed is chosen at random for each run, so that nobody can prepare two blocks
/// with the same hash.
pub fn block_hash(block: &[u8], seed: u64) -> u128 {
    xxh3_128_with_seed(block, seed)
}

/// The hash of a file's content: that of its blocks' hashes, one after the other.
#[derive(Debug)]
pub struct ContentHasher {
    seed: u64,
    hasher: Hasher,
    count: u64,
}

impl ContentHasher {
    /// For a file of which nothing has come yet.
    pub fn new(seed: u64) -> Self {
        Self { seed, hasher: Hasher::default(), count: 0 }
    }

    /// Goes on with what comes next: whole blocks, and at the file's end a shorter one.
    pub fn update(&mut self, piece: &[u8]) {
        for block in piece.chunks(BLOCK) {
            self.block(block_hash(block, self.seed));
        }
        self.count += piece.len() as u64;
    }

    /// Goes on with the next block, by its hash.
    pub fn block(&mut self, hash: u128) {
        self.hasher.update(&hash.to_be_bytes());
    }

    /// The number of bytes that [`Self::update`] has taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The hash of all that came.
    pub fn finish(self) -> [u8; 16] {
        self.hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of xxHash's own `xxhsum -H2` for the same bytes. The lengths reach every path of the algorithm.
    #[test]
    fn of_known_bytes() {
        for (bytes, hash) in [
            (&b""[..], "99aa06d3014798d86001c324468d497f"),
            (&b"abc"[..], "06b05ab6733a618578af5f94892f3950"),
            (&[b'x'; 16][..], "ceb3fbd8af7001ac76ba55acf0be061e"),
            (&[b'x'; 128][..], "fd990d088a9365ae7813452547ab9912"),
            (&[b'x'; 240][..], "bfede978870834bedf2b586ca80bb7aa"),
            (&[b'x'; 256][..], "9b018b25a2dd0594d1d05738849baec9"),
            (&[b'x'; 257][..], "dadc14ca338a8c9f9d7697cc4f0af996"),
            (&[b'x'; 1000][..], "50a1af5a5f2dcf01c0a4877b962cba82"),
            (&[b'x'; 5000][..], "c40b706e6ba9af508d8567cbc9ee3d90"),
        ] {
            for size in [1, 7, 64, 256, 1000, 5000] {
                let mut hasher = Hasher::default();
                bytes.chunks(size).for_each(|piece| hasher.update(piece));
                let found: String = hasher.finish().iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(found, hash, "in pieces of {size}");
            }
        }
    }

    #[test]
    fn of_a_file() {
        let content: Vec<u8> = (0..BLOCK * 2 + 5).map(|at| (at / 7) as u8).collect();
        let mut whole = Hasher::default();
        for block in content.chunks(BLOCK) {
            whole.update(&xxh3_128_with_seed(block, 3).to_be_bytes());
        }
        let expected = whole.finish();
        for pieces in [1, 2, 3] {
            let mut hasher = ContentHasher::new(3);
            content.chunks(pieces * BLOCK).for_each(|piece| hasher.update(piece));
            assert_eq!((hasher.count(), hasher.finish()), (content.len() as u64, expected));
        }
        let mut other = ContentHasher::new(4);
        other.update(&content);
        assert_ne!(other.finish(), expected);
        assert_eq!(checksum("abc"), "06b05ab6733a6185");
    }

    #[test]
    fn one_form() {
        let text = "xxh3:00000000000001fe:00ff".to_owned() + &"a5".repeat(14);
        let fingerprint: Fingerprint = text.parse().unwrap();
        assert_eq!((fingerprint.seed, &fingerprint.hash[..3]), (0x1fe, &[0, 0xff, 0xa5][..]));
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(serde_json::to_string(&fingerprint).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Fingerprint>(&format!("\"{text}\"")).unwrap(), fingerprint);
        assert_eq!(text.parse(), Ok(RecordedFingerprint::Ours(fingerprint)));
        assert_eq!(RecordedFingerprint::Ours(fingerprint).to_string(), text);
    }

    #[test]
    fn of_an_older_version() {
        for text in ["00ff".to_owned() + &"a5".repeat(30), "xxh3:00ff".to_owned() + &"a5".repeat(14)] {
            assert!(text.parse::<Fingerprint>().is_err());
            let older: RecordedFingerprint = text.parse().unwrap();
            assert!(matches!(older, RecordedFingerprint::Older(_)));
            assert_eq!(older.to_string(), text);
        }
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
            &("xxh3:".to_owned() + &"0".repeat(15) + ":" + &"0".repeat(32)),
            &("xxh3:".to_owned() + &"0".repeat(16) + ":" + &"0".repeat(31)),
            &("xxh3:".to_owned() + &"0".repeat(16) + &"0".repeat(32)),
            &("xxh3:".to_owned() + &"A".repeat(16) + ":" + &"0".repeat(32)),
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
