//! The key by which a target knows this node.

use std::{fmt, num::NonZeroU64};

/// The key of a persistent reservation: the first 16 digits of the machine id. So a person who reads it at the array can tell which
/// node has it (`head -c 16 /etc/machine-id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationKey(NonZeroU64);

impl ReservationKey {
    /// The key of the computer with this machine id. If those digits are zero, which a target takes for no key, the last 16. None if
    /// this is no machine id.
    pub fn of_machine(id: &str) -> Option<Self> {
        let (first, last) = id.split_at_checked(16)?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let (first, last) = (number(first)?, number(last)?);
        NonZeroU64::new(first).or(NonZeroU64::new(last)).map(Self)
    }

    /// As a number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for ReservationKey {
    /// As sg_persist takes and prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_what_the_machine_id_begins_with() {
        let of = |id: &str| ReservationKey::of_machine(id).map(|key| key.to_string());
        assert_eq!(of("0123456789abcdef00112233445566ff").as_deref(), Some("0x123456789abcdef"));
        assert_eq!(of("0000000000000000000000000000002a").as_deref(), Some("0x2a"));
        for id in ["", "0123", "uninitialized", "00000000000000000000000000000000"] {
            assert_eq!(of(id), None, "{id}");
        }
    }
}
