//! Backing files of LUNs.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

/// Makes a sparse backing file of zeros and replaces any older file.
pub fn blank(file: &Path, bytes: u64) -> Result<()> {
    fs::remove_file(file).ok();
    let made = File::create(file).with_context(|| format!("cannot create {}", file.display()))?;
    made.set_len(bytes)?;
    Ok(())
}

/// Hashes the content of a backing file. Zeros do not count, whether they were written or are a hole. So a
/// large blank LUN costs no time.
pub fn fingerprint(file: &Path) -> Result<String> {
    let mut open = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0; 64 << 10];
    let mut at = 0i64;
    loop {
        at = match lseek(&open, at, Whence::SeekData) {
            Ok(data) => data - data % 4096,
            // The file has no data after this offset.
            Err(Errno::ENXIO) => break,
            Err(error) => return Err(error.into()),
        };
        open.seek(SeekFrom::Start(at.cast_unsigned()))?;
        let count = open.read(&mut block)?;
        for chunk in block[..count].chunks(4096) {
            if chunk.iter().any(|byte| *byte != 0) {
                hasher.update(&at.to_le_bytes()).update(chunk);
            }
            at += i64::try_from(chunk.len())?;
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_fingerprint_sees_content_and_place_but_not_how_zeros_are_stored() {
        let file = std::env::temp_dir().join(format!("bed-fingerprint-{}", std::process::id()));
        let write = |at: u64, bytes: &[u8]| {
            File::options().write(true).open(&file).unwrap().write_all_at(bytes, at).unwrap()
        };
        blank(&file, 8 << 20).unwrap();
        let empty = fingerprint(&file).unwrap();
        write(5 << 20, &[0; 70_000]);
        assert_eq!(fingerprint(&file).unwrap(), empty);
        write((5 << 20) + 69_999, b"x");
        let one = fingerprint(&file).unwrap();
        write((5 << 20) + 69_999, &[0]);
        assert_eq!(fingerprint(&file).unwrap(), empty);
        write((6 << 20) + 69_999, b"x");
        let other = fingerprint(&file).unwrap();
        assert!(one != empty && other != empty && one != other);
        fs::remove_file(&file).unwrap();
    }
}
