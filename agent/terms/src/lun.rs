//! Which LUN of a target: its number as the array gives it, and its address as the kernel prints it.

use super::wwid::Wwid;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Unexpected, Visitor},
};
use std::fmt;

/// The LUN's number as the array's administration shows it.
///
/// It is not what the kernel shows. The kernel prints the 8 bytes with which the array addresses the LUN as one number, without
/// decoding them ([`LunAddress`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct LunNumber(pub u32);

impl LunNumber {
    /// The largest number of the extended flat addressing with three bytes (SAM-5, section 4.7.7.5.4). No array is known that
    /// has more LUNs.
    pub const MAX: u32 = 0xff_ffff;

    /// The largest number that every addressing method writes in the same way into its last byte, and that the kernel shows as
    /// the array does (peripheral device addressing, SAM-5, section 4.7.7.2).
    pub const ONE_BYTE: u32 = 255;
}

impl<'de> Deserialize<'de> for LunNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u32(NumberVisitor)
    }
}

impl schemars::JsonSchema for LunNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LunNumber".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 0, "maximum": Self::MAX })
    }
}

/// serde's own error for a number names a type of Rust, "u32". People need the range, and that quotes are wrong.
struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = LunNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}, such as 1, without quotes", LunNumber::MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<LunNumber, E> {
        let found = Unexpected::Unsigned(number);
        number_from(number).ok_or_else(|| E::invalid_value(found, &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<LunNumber, E> {
        let found = Unexpected::Signed(number);
        number_from(number).ok_or_else(|| E::invalid_value(found, &self))
    }
}

fn number_from(number: impl TryInto<u32>) -> Option<LunNumber> {
    number.try_into().ok().filter(|number| *number <= LunNumber::MAX).map(LunNumber)
}

impl fmt::Display for LunNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The address of a LUN at its target, as one number: what the kernel prints as the last part of `H:C:T:L`.
///
/// SCSI has 8 bytes for it, whose first bits say how the rest is to be read (SAM-5, section 4.7). The kernel takes them as four
/// words of 16 bits, the first word lowest, and decodes nothing (`scsilun_to_int`, drivers/scsi/scsi_common.c). So what an array
/// calls LUN 300 is 300 here if the array uses peripheral addressing with the high bits in the first byte, as LIO does, and
/// 16684 (0x4000 + 300) if it uses flat addressing. An address is only ever read: this program makes none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LunAddress(pub u64);

impl LunAddress {
    /// The number as the array shows it; none for a well-known LUN, and for forms that hold more than one number.
    pub fn number(self) -> Option<LunNumber> {
        let bytes = self.bytes();
        let [first, second, third, fourth, ..] = bytes;
        let used = match first {
            0x00..=0x7f => 2, // peripheral device and flat space addressing: 14 bits
            0xd2 => 4,        // extended flat space addressing: three bytes
            0xe2 => 6,        // long extended flat space addressing: five bytes
            _ => return None,
        };
        if bytes.iter().skip(used).any(|byte| *byte != 0) {
            return None; // a LUN of a second level
        }
        let [_, _, _, _, fifth, sixth, ..] = bytes;
        number_from(match used {
            2 => u64::from_be_bytes([0, 0, 0, 0, 0, 0, first & 0x3f, second]),
            4 => u64::from_be_bytes([0, 0, 0, 0, 0, second, third, fourth]),
            _ => u64::from_be_bytes([0, 0, 0, second, third, fourth, fifth, sixth]),
        })
    }

    /// The addressing method of the array, in SCSI's words.
    pub fn method(self) -> &'static str {
        let [first, second, ..] = self.bytes();
        match (first, second) {
            (0x00, _) => "peripheral",
            (0x01..=0x3f, _) => "peripheral, with a bus number",
            (0x40..=0x7f, _) => "flat",
            (0xd2 | 0xe2, _) => "extended",
            (0xc1, _) => "a well-known LUN",
            _ => "a form of its own",
        }
    }

    /// The bytes as they are on the wire.
    fn bytes(self) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h] = self.0.to_le_bytes();
        [b, a, d, c, f, e, h, g]
    }
}

impl fmt::Display for LunAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The LUN of the target that the config means. The WWID identifies it; the number is what a person calls it, and is
/// enough where the config has no WWID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WantedLun {
    /// Its number at the array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<LunNumber>,
    /// Its WWID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwid: Option<Wwid>,
}

/// More than one LUN fits, by their places in what was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ambiguous(pub Vec<usize>);

impl WantedLun {
    /// The place of the one LUN that is meant, of all that a session shows; none if it is not among them.
    ///
    /// With a WWID the LUN of that WWID is meant, whatever its number is: an array may have given it another one. If there is
    /// none, it is the LUN with the number, which is refused later for its WWID, with both WWIDs in the message. If an array
    /// shows the LUN of that WWID twice, the number decides.
    pub fn choose(&self, shown: &[(LunAddress, Option<Wwid>)]) -> Result<Option<usize>, Ambiguous> {
        let places =
            |fits: &dyn Fn(usize) -> bool| (0..shown.len()).filter(|at| fits(*at)).collect::<Vec<_>>();
        let is_numbered =
            |at: usize| self.number.is_some() && shown.get(at).and_then(|one| one.0.number()) == self.number;
        let is_named = |at: usize| {
            self.wwid.is_some() && shown.get(at).and_then(|one| one.1.as_ref()) == self.wwid.as_ref()
        };
        let named = places(&is_named);
        let both = places(&|at| is_named(at) && is_numbered(at));
        let found = match (named.len(), both.is_empty()) {
            (0, _) => places(&is_numbered),
            (1, _) | (_, true) => named,
            (_, false) => both,
        };
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            _ => Err(Ambiguous(found)),
        }
    }
}

impl fmt::Display for WantedLun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.number, &self.wwid) {
            (Some(number), _) => write!(f, "LUN {number}"),
            (None, Some(wwid)) => write!(f, "LUN {wwid}"),
            (None, None) => f.write_str("the LUN"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(bytes: [u8; 8]) -> LunAddress {
        // As the kernel does it (`scsilun_to_int`).
        let words = bytes.chunks(2).enumerate();
        LunAddress(
            words.map(|(at, two)| u64::from(two[0]) << (8 + 16 * at) | u64::from(two[1]) << (16 * at)).sum(),
        )
    }

    #[test]
    fn numbers_as_the_array_says_them() {
        for (bytes, kernel, number, method) in [
            ([0x00, 0x01, 0, 0, 0, 0, 0, 0], 1, Some(1), "peripheral"),
            ([0x00, 0xff, 0, 0, 0, 0, 0, 0], 255, Some(255), "peripheral"),
            ([0x01, 0x2c, 0, 0, 0, 0, 0, 0], 300, Some(300), "peripheral, with a bus number"),
            ([0x41, 0x2c, 0, 0, 0, 0, 0, 0], 16_684, Some(300), "flat"),
            ([0x40, 0x00, 0, 0, 0, 0, 0, 0], 16_384, Some(0), "flat"),
            ([0x7f, 0xff, 0, 0, 0, 0, 0, 0], 32_767, Some(16_383), "flat"),
            ([0xd2, 0x00, 0x01, 0x2c, 0, 0, 0, 0], 0x012c_d200, Some(300), "extended"),
            ([0xd2, 0xff, 0xff, 0xff, 0, 0, 0, 0], 0xffff_d2ff, Some(LunNumber::MAX), "extended"),
            ([0xe2, 0, 0, 0, 0x01, 0x2c, 0, 0], 0x012c_0000_e200, Some(300), "extended"),
            // More than the config takes, a LUN behind a LUN, REPORT LUNS' own LUN, bus, target and LUN in one.
            ([0xe2, 1, 0, 0, 0, 0, 0, 0], 0xe201, None, "extended"),
            ([0x00, 0x01, 0x00, 0x02, 0, 0, 0, 0], 0x2_0001, None, "peripheral"),
            ([0xc1, 0x01, 0, 0, 0, 0, 0, 0], 49_409, None, "a well-known LUN"),
            ([0x81, 0x21, 0, 0, 0, 0, 0, 0], 0x8121, None, "a form of its own"),
        ] {
            let found = address(bytes);
            assert_eq!(found, LunAddress(kernel), "{bytes:x?}");
            assert_eq!((found.number(), found.method()), (number.map(LunNumber), method), "{bytes:x?}");
        }
    }

    #[test]
    fn exactly_one_is_meant() {
        let (a, b) = ("naa.6000000000000001", "naa.6000000000000002");
        let wwid = |text: &str| -> Option<Wwid> { (!text.is_empty()).then(|| text.parse().unwrap()) };
        let chosen = |number: Option<u32>, wanted: &str, shown: &[(u64, &str)]| {
            let shown: Vec<_> = shown.iter().map(|(lun, name)| (LunAddress(*lun), wwid(name))).collect();
            WantedLun { number: number.map(LunNumber), wwid: wwid(wanted) }.choose(&shown)
        };
        // tgt with LUNs 44 and 300: a scan for 300 would have led to 44.
        let tgt = [(0, ""), (44, a), (16_684, b)];
        assert_eq!(chosen(Some(300), "", &tgt), Ok(Some(2)));
        assert_eq!(chosen(Some(44), "", &tgt), Ok(Some(1)));
        assert_eq!(chosen(Some(16_684), "", &tgt), Ok(None), "the kernel's number is not the array's");
        assert_eq!(chosen(Some(300), "", &[(300, a), (16_684, b)]), Err(Ambiguous(vec![0, 1])));
        // The WWID identifies.
        assert_eq!(chosen(None, b, &tgt), Ok(Some(2)));
        assert_eq!(chosen(Some(44), b, &tgt), Ok(Some(2)), "renumbered at the array");
        assert_eq!(chosen(Some(44), "naa.6000000000000003", &tgt), Ok(Some(1)), "refused for its WWID");
        assert_eq!(chosen(None, "naa.6000000000000003", &tgt), Ok(None));
        assert_eq!(chosen(None, a, &[(1, a), (5, a)]), Err(Ambiguous(vec![0, 1])));
        assert_eq!(chosen(Some(5), a, &[(1, a), (5, a)]), Ok(Some(1)), "shown twice: the number decides");
        assert_eq!(chosen(Some(7), a, &[(1, a), (5, a), (7, b)]), Err(Ambiguous(vec![0, 1])));
        assert_eq!(chosen(None, "", &[(1, "")]), Ok(None), "no name is no wildcard");
    }
}
