//! Random numbers from the kernel.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use terms::Nonce;

/// 128 random bits (getrandom(2)). Early at boot it waits until the kernel has enough entropy.
pub fn nonce() -> io::Result<Nonce> {
    let mut bytes = [0; 16];
    // A read of up to 256 bytes is never cut short.
    let read = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if read == bytes.len() {
        Ok(Nonce(bytes))
    } else {
        Err(io::Error::other("the kernel gave fewer random bytes than were asked for"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_different() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
