//! A LUN's permanent name.

use super::{error::TermError, file::FsUuid};
use std::{borrow::Cow, fmt, str::FromStr};

/// The LUN's world wide identifier, in the kernel's form: `naa.…`, `eui.…` or `t10.…`
/// (`/sys/block/*/device/wwid`, from VPD page 0x83; kernel `drivers/scsi/scsi_lib.c`, `scsi_vpd_lun_id`). The kernel pads
/// `t10.` names, so each run of white space becomes one space.
///
/// NVMe has `eui.…`, `uuid.…` or `nvme.VENDOR-SERIAL-MODEL-NAMESPACE` (`/sys/block/*/wwid`; kernel
/// `drivers/nvme/host/sysfs.c`, `wwid_show`). A virtio disk has only a serial number, which the hypervisor chooses: here it
/// is written `virtio.…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wwid(String);

pub(super) const WWID_FORM: &str = "a WWID, such as \"naa.60014051…\", \"eui.…\", \"t10.…\", \"nvme.…\", \"uuid.…\", \"virtio.…\", or udev's and multipath's \"360014051…\"";

fn has_hex_digits_only(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What somebody may have meant, for the error: a name that several kinds of arrays print so is not taken.
fn likely(text: &str) -> Option<String> {
    let hex = text.strip_prefix("naa.").unwrap_or(text).replace(['-', ':'], "").to_ascii_lowercase();
    let digits = hex.replace('o', "0");
    if !has_hex_digits_only(&digits) {
        return None;
    }
    let meant = match digits.len() {
        32 if digits.starts_with('6') => format!("naa.{digits}"),
        // Pure's serial number of a volume (OpenStack Cinder, `volume/drivers/pure.py`).
        24 => format!("naa.624a9370{digits}"),
        _ => return None,
    };
    let letter = if digits == hex { "" } else { ", with a letter O in it" };
    Some(format!("a WWID{letter}: did you mean \"{meant}\"? See `etcd-lun luns` on the node"))
}

/// The error for a name that has other than hexadecimal digits after its kind, or too many or too few of them.
fn wrong_digits(text: &str, hex: &str, wanted: &str, kind: &str) -> TermError {
    if !has_hex_digits_only(hex) {
        return TermError::new(text, likely(text).map_or(WWID_FORM.into(), Cow::from));
    }
    let count = hex.len();
    let wanted = format!("a WWID, which has {wanted} hexadecimal digits after `{kind}`, not {count}");
    TermError::new(text, wanted)
}

impl Wwid {
    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form that multipath-tools uses in the UUID of a map: the designator's type as a digit, then the number. None for a
    /// `t10.` name, which multipath-tools writes in another form.
    pub fn multipath(&self) -> Option<String> {
        let number = |kind| self.0.strip_prefix(kind);
        number("naa.").map(|hex| format!("3{hex}")).or_else(|| number("eui.").map(|hex| format!("2{hex}")))
    }
}

impl FromStr for Wwid {
    type Err = TermError;

    /// Also accepts the form of udev's `ID_SERIAL` and of multipath (a type digit, then hex), and `wwn-0x…`. So a name that
    /// an administrator copies from `multipath -ll` or `/dev/disk/by-id` works, and 32 digits that an array prints with
    /// colons or without: a name that begins with 6 is an NAA (SPC-5, 7.7.6.6).
    fn from_str(text: &str) -> Result<Self, TermError> {
        let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let folded = folded.strip_prefix("/dev/disk/by-id/").unwrap_or(&folded);
        let wrong = || TermError::new(text, likely(folded).map_or(WWID_FORM.into(), Cow::from));
        let lower = folded.to_ascii_lowercase();
        let is_hex = |hex: &str| (hex.len() == 16 || hex.len() == 32) && has_hex_digits_only(hex);
        let bare = lower.strip_prefix("naa.").unwrap_or(&lower).replace(':', "");
        if bare.len() == 32 && bare.starts_with('6') && is_hex(&bare) {
            return Ok(Self(format!("naa.{bare}")));
        }
        if let Some(hex) = lower.strip_prefix("naa.") {
            return if is_hex(hex) {
                Ok(Self(lower))
            } else {
                Err(wrong_digits(text, hex, "16 or 32", "naa."))
            };
        }
        if let Some(hex) = lower.strip_prefix("eui.") {
            let known = is_hex(hex) || (hex.len() == 24 && has_hex_digits_only(hex));
            return if known {
                Ok(Self(lower))
            } else {
                Err(wrong_digits(text, hex, "16, 24 or 32", "eui."))
            };
        }
        if let Some(name) = folded.strip_prefix("t10.").or_else(|| folded.strip_prefix("virtio.")) {
            let printable = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
            return if printable { Ok(Self(folded.to_owned())) } else { Err(wrong()) };
        }
        if let Some(uuid) = lower.strip_prefix("uuid.") {
            return if uuid.parse::<FsUuid>().is_ok() { Ok(Self(lower)) } else { Err(wrong()) };
        }
        if let Some(name) = lower.strip_prefix("nvme.") {
            let parts: Vec<_> = name.split('-').collect();
            // Without a serial number every disk of that model would have this name.
            let whole = matches!(parts.as_slice(), [vendor, serial, model, space]
                if vendor.len() == 4 && !serial.is_empty() && space.len() == 8 && [vendor, serial, model, space].iter().all(|part| has_hex_digits_only(part)));
            return if whole { Ok(Self(lower)) } else { Err(wrong()) };
        }
        if let Some(hex) = lower.strip_prefix("wwn-0x").or_else(|| lower.strip_prefix("0x")) {
            return if is_hex(hex) { Ok(Self(format!("naa.{hex}"))) } else { Err(wrong()) };
        }
        // scsi_id(8): the first digit is the designator's type, 3 for NAA, 2 for EUI-64.
        let name = lower.strip_prefix("scsi-").unwrap_or(&lower);
        match name.split_at_checked(1) {
            Some(("3", hex)) if is_hex(hex) => Ok(Self(format!("naa.{hex}"))),
            Some(("2", hex)) if is_hex(hex) => Ok(Self(format!("eui.{hex}"))),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Wwid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_for_every_form() {
        let naa = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4";
        for text in [
            naa,
            "NAA.60014051D8E4A3BD5A94F3F9A1A2B3C4",
            "360014051d8e4a3bd5a94f3f9a1a2b3c4",
            "scsi-360014051d8e4a3bd5a94f3f9a1a2b3c4",
            "wwn-0x60014051d8e4a3bd5a94f3f9a1a2b3c4",
            "0x60014051d8e4a3bd5a94f3f9a1a2b3c4",
            "60014051D8E4A3BD5A94F3F9A1A2B3C4",
            "60:01:40:51:d8:e4:a3:bd:5a:94:f3:f9:a1:a2:b3:c4",
            "naa.60:01:40:51:d8:e4:a3:bd:5a:94:f3:f9:a1:a2:b3:c4",
            "/dev/disk/by-id/wwn-0x60014051d8e4a3bd5a94f3f9a1a2b3c4",
        ] {
            assert_eq!(text.parse::<Wwid>().unwrap().as_str(), naa, "{text}");
        }
        for text in [
            "eui.0025388b710116a1",
            "uuid.0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b",
            "nvme.1d0f-766f6c30313233343536373839616263-416d617a6f6e20456c617374696320426c6f636b2053746f7265-00000001",
            "virtio.etcd0",
        ] {
            assert_eq!(format!("{text}\n").parse::<Wwid>().unwrap().as_str(), text);
        }
        assert_eq!("t10.IET     00010001  \n".parse::<Wwid>().unwrap().as_str(), "t10.IET 00010001");
    }

    #[test]
    fn refused() {
        for text in [
            "",
            "naa.",
            "naa.xyz",
            "naa.6001",
            "t10.",
            "sda",
            "/dev/sda",
            "t10.a\u{7}b",
            "virtio.",
            "virtio.a\u{7}b",
            "uuid.1",
            "nvme.1b36--51454d55-00000001",
            "nvme.1b36-31-51454d55",
            "nvme.1b36-zz-51454d55-00000001",
        ] {
            assert!(text.parse::<Wwid>().is_err(), "{text}");
        }
        for (text, meant) in [
            ("A9C5B8F3D2E14A0B00011010", ": did you mean \"naa.624a9370a9c5b8f3d2e14a0b00011010\"?"),
            (
                "60014051-d8e4-a3bd-5a94-f3f9a1a2b3c4",
                ": did you mean \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"?",
            ),
            ("naa.6OO14051d8e4a3bd5a94f3f9a1a2b3c4", ", with a letter O in it: did you mean \"naa.60014051"),
        ] {
            let said = text.parse::<Wwid>().unwrap_err().to_string();
            assert!(said.contains(meant), "{said}");
        }
        let naa = "naa.6001405".parse::<Wwid>().unwrap_err().to_string();
        assert_eq!(
            naa,
            "`naa.6001405` is not a WWID, which has 16 or 32 hexadecimal digits after `naa.`, not 7"
        );
    }
}
