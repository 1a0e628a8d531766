//! Random changes to a text. The same seed makes the same changes.

/// A small generator of random numbers: splitmix64, by Sebastiano Vigna.
pub struct Mutator(u64);

/// Pieces of text that often cause errors in parsers.
const TOKENS: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\n\n",
    b" ",
    b"\t",
    b"=",
    b":",
    b",",
    b";",
    b"-",
    b"->",
    b"\"",
    b"'",
    b"\\",
    b"\\040",
    b"\\0",
    b"\\777",
    b"[",
    b"]",
    b"{",
    b"}",
    b"0",
    b"-1",
    b"255",
    b"256",
    b"65536",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e999",
    b"nan",
    b"null",
    b"true",
    b"<empty>",
    b"<none>:0",
    b"(null)",
    b"# BEGIN RECORD",
    b"# END RECORD",
    b"TYPE=xfs",
    b"PTTYPE=dos",
    b"XFSB",
    b"\xff",
    b"\xc3",
    b"\xe2\x80\xae",
    "é".as_bytes(),
    "٣".as_bytes(),
    "\u{feff}".as_bytes(),
    b"999999999999999999999h",
];

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A random piece of a text: where it begins and where it ends.
    fn piece(&mut self, text: &[u8]) -> (usize, usize) {
        let from = self.below(text.len() + 1);
        let length = self.below((text.len() - from + 1).min(64));
        (from, from + length)
    }

    /// Returns one of the texts, changed in one to eight places.
    pub fn changed(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let at = self.below(corpus.len());
        let mut text = corpus[at].clone();
        for _ in 0..=self.below(8) {
            let (from, to) = self.piece(&text);
            let new: Vec<u8> = match self.below(7) {
                0 => Vec::new(),
                1 => vec![self.next() as u8],
                2 | 3 => TOKENS[self.below(TOKENS.len())].to_vec(),
                4 => text[from..to].repeat(1 + self.below(4)),
                5 => {
                    let other = &corpus[self.below(corpus.len())];
                    let (from, to) = self.piece(other);
                    other[from..to].to_vec()
                }
                _ => text[from..to].iter().map(|byte| byte ^ (1 << self.below(8))).collect(),
            };
            // The new bytes replace the piece or are inserted before it.
            let to = if self.below(2) == 0 { to } else { from };
            text.splice(from..to, new);
        }
        if self.below(16) == 0 {
            text.truncate(self.below(text.len() + 1));
        }
        text
    }
}
