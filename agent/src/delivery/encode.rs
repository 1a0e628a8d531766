//! Encodes contents for Ignition: data URLs, and gzip.

use std::num::NonZeroU64;
use zopfli::{BlockType, DeflateEncoder, Options, Write as _};

/// A data URL (RFC 2397).
pub(super) fn data_url(bytes: &[u8]) -> String {
    format!("data:;base64,{}", base64(bytes))
}

/// How many times zopfli searches for a shorter form of each block. More rounds gain less than 0.01 %.
const ROUNDS: NonZeroU64 = NonZeroU64::MIN.saturating_add(4);

/// Into how many blocks zopfli may divide each million bytes, each with codes of its own. With its default of 15 the
/// object is 8,700 bytes larger. More than 60 gain less than 0.01 %, and take longer.
const BLOCKS: u16 = 60;

/// Compresses into the format of RFC 1952. The header has no name and no time, so equal contents give equal bytes.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    // Magic number, deflate, no flags, no time, slowest compression, unknown system.
    let packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];
    let options = Options { iteration_count: ROUNDS, maximum_block_splits: BLOCKS, ..Options::default() };
    let mut encoder = DeflateEncoder::new(options, BlockType::Dynamic, packed);
    let Ok(mut packed) = encoder.write_all(bytes).and_then(|()| encoder.finish()) else {
        unreachable!("a write to a vector can't fail");
    };
    packed.extend(crc32(bytes).to_le_bytes());
    // The format has the length modulo 2^32.
    packed.extend((bytes.len() as u64).to_le_bytes().get(..4).unwrap_or_default());
    packed
}

/// The checksum of RFC 1952, section 8. It has no table, because it runs once over a few megabytes.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1)))
    })
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 of RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            // A group of n bytes gives n + 1 digits; `=` fills the rest.
            let digit = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at as usize <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn base64_as_the_standard_has_it() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
        assert_eq!(data_url(b"f"), "data:;base64,Zg==");
    }

    /// The check value of CRC-32, and an empty file as gzip(1) compresses it. `tests/render` has gzip(1) unpack larger files.
    #[test]
    fn gzip_as_the_standard_has_it() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let empty = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(gzip(b""), empty);
        let packed = gzip(&[7; 100_000]);
        assert!(packed.len() < 1000 && packed.ends_with(&100_000u32.to_le_bytes()));
        assert_eq!(packed, gzip(&[7; 100_000]));
    }
}
