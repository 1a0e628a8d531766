//! Packs the program for `render --embed`, in the older format of xz(1) (`.lzma`), which every node unpacks. It has no checksum:
//! the node compares the program with its sha256 anyway.

use lzma_rust2::{LzmaOptions, LzmaWriter};
use std::io::{self, Write as _};

/// The dictionary in bytes: the whole program, as far as a node needs no more than 9 MiB of memory to unpack it.
const DICTIONARY: u32 = 8 << 20;
/// The strongest preset of xz(1).
const PRESET: u32 = 9;

/// Packs a program, the same bytes for the same program.
pub(super) fn lzma(program: &[u8]) -> io::Result<Vec<u8>> {
    let options = LzmaOptions { dict_size: DICTIONARY, ..LzmaOptions::with_preset(PRESET) };
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(program.len() as u64))?;
    writer.write_all(program)?;
    writer.finish()
}
