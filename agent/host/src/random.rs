//! Random numbers from the kernel.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use terms::{FsUuid, Nonce};

/// 128 random bits.
pub fn nonce() -> io::Result<Nonce> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(Nonce(bytes))
}

/// Fills with random bytes (getrandom(2)). Early at boot it waits until the kernel has enough entropy. In the service's SELinux
/// domain this process may not open /dev/urandom.
pub(super) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += getrandom(&mut bytes[done..], GetRandomFlags::empty())?;
    }
    Ok(())
}

/// A random UUID (RFC 9562, version 4).
pub fn uuid() -> io::Result<FsUuid> {
    let Nonce([a, b, c, d, e, f, version, h, variant, j, k, l, m, n, o, p]) = nonce()?;
    let (version, variant) = (version & 0x0f | 0x40, variant & 0x3f | 0x80);
    Ok(FsUuid([a, b, c, d, e, f, version, h, variant, j, k, l, m, n, o, p]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_different() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
        assert_ne!(uuid().unwrap(), uuid().unwrap());
    }

    #[test]
    fn a_uuid_says_that_it_is_random() {
        let text = uuid().unwrap().to_string();
        assert_eq!((text.len(), text.get(14..15)), (36, Some("4")), "{text}");
        assert!(text.get(19..20).is_some_and(|variant| "89ab".contains(variant)), "{text}");
    }
}
