//! Encodes contents for Ignition: data URLs.

/// A data URL (RFC 2397).
pub(super) fn data_url(bytes: &[u8]) -> String {
    format!("data:;base64,{}", base64(bytes))
}

/// The contents of all data URLs in a document, as [`data_url`] writes them.
pub(super) fn contents(document: &str) -> impl Iterator<Item = Vec<u8>> {
    document.split("data:;base64,").skip(1).map(|text| {
        let value = |digit| ALPHABET.iter().position(|known| *known == digit);
        let values: Vec<_> = text.bytes().map_while(value).collect();
        let bit = |at: usize| values.get(at / 6).map_or(0, |value| (value >> (5 - at % 6) & 1) as u8);
        let byte = |at: usize| (8 * at..8 * at + 8).fold(0, |bits, at| bits << 1 | bit(at));
        (0..values.len() * 6 / 8).map(byte).collect()
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
            assert_eq!(contents(&data_url(plain.as_bytes())).next().unwrap(), plain.as_bytes());
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
        assert_eq!(data_url(b"f"), "data:;base64,Zg==");
        let document = format!("a: \"{}\"\nb: {}\n", data_url(b"one"), data_url(&[0xfb, 0xff, 0xbf]));
        assert_eq!(contents(&document).collect::<Vec<_>>(), [&b"one"[..], &[0xfb, 0xff, 0xbf]]);
    }
}
