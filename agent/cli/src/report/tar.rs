//! A tar archive of a few texts (POSIX.1-1988 ustar), made in memory. tar(1) would need files of them first, with what
//! only root may read, and would put other owners and times into the archive.

use std::io;

/// The size of a header, and of what a file is padded to.
const BLOCK: usize = 512;
/// The longest name. Longer ones need another form of the header.
const LONGEST_NAME: usize = 100;

/// Packs files by their names, with mode 0600, all of this time, in seconds since 1970.
pub(super) fn packed(files: &[(String, Vec<u8>)], at: u64) -> io::Result<Vec<u8>> {
    let mut to = Vec::new();
    for (name, bytes) in files {
        to.extend(header(name, bytes.len(), at)?);
        to.extend(bytes);
        to.resize(to.len().next_multiple_of(BLOCK), 0);
    }
    to.extend([0; 2 * BLOCK]);
    Ok(to)
}

fn header(name: &str, size: usize, at: u64) -> io::Result<[u8; BLOCK]> {
    if name.len() > LONGEST_NAME {
        return Err(io::Error::other(format!("the name {name} is too long for an archive")));
    }
    let mut header = [0; BLOCK];
    let mut put = |from: usize, bytes: &[u8]| {
        if let Some(field) = header.get_mut(from..from + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    };
    put(0, name.as_bytes());
    put(100, b"0000600\0");
    put(108, b"0000000\0"); // owner and group: root
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{at:011o}\0").as_bytes());
    put(148, b"        "); // the checksum counts itself as blanks
    put(156, b"0"); // a regular file
    put(257, b"ustar\x0000");
    put(265, b"root\0");
    put(297, b"root\0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    if let Some(field) = header.get_mut(148..156) {
        field.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    Ok(header)
}
