//! The name of a SCSI disk.

use super::{attribute, printable};
use crate::Host;
use std::{fmt::Write as _, io};
use terms::Wwid;

/// The name of the device in a directory of sysfs, as the kernel has chosen it; none if it has none.
///
/// Where a LUN has several names, the kernel chooses a SCSI name string before any other (`drivers/scsi/scsi_lib.c`,
/// `designator_prio`), while udev and multipath take the NAA name or the EUI-64. So in place of a name that is no [`Wwid`] this
/// returns what they take.
pub(super) fn of_scsi(host: &Host, dir: &str) -> io::Result<Option<String>> {
    let Some(chosen) = attribute(host, &format!("{dir}/wwid"))?.map(|bytes| printable(&bytes)) else {
        return Ok(None);
    };
    if chosen.parse::<Wwid>().is_ok() {
        return Ok(Some(chosen));
    }
    let page = attribute(host, &format!("{dir}/vpd_pg83"))?;
    Ok(page.and_then(|page| in_page(&page)).or(Some(chosen)))
}

/// The NAA name of a LUN, else its EUI-64, from VPD page 0x83 (SPC-5, 7.7.6): designators from byte 4 on, of each the
/// association and the type in byte 1, and the length in byte 3. None if it has neither, or if the page is cut short.
fn in_page(page: &[u8]) -> Option<String> {
    let (mut rest, mut names) = (page.get(4..)?, Vec::new());
    while let [_, kind, _, length, more @ ..] = rest {
        let (name, next) = more.split_at_checked(usize::from(*length))?;
        // Association 0 is the LUN; others are of its port and its array.
        if let (0, digit @ (2 | 3)) = (kind >> 4 & 3, kind & 0xf) {
            names.push((digit, name));
        }
        rest = next;
    }
    // Of two NAA names the longer one is of the vendor's own numbers, and no short one can be without it.
    let (kind, name) = names.into_iter().max_by_key(|(kind, name)| (*kind, name.len()))?;
    let mut text = if kind == 3 { "naa." } else { "eui." }.to_owned();
    name.iter().try_for_each(|byte| write!(text, "{byte:02x}")).ok()?;
    text.parse::<Wwid>().ok().map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: &[u8] = &[0x61, 0x94, 0, 4, 0, 0, 0, 1];
    const NAME: &[u8] = b"\x03\x08\0\x08iqn.2000";
    const EUI: &[u8] = &[1, 2, 0, 8, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];
    const NAA5: &[u8] = &[1, 3, 0, 8, 0x50, 1, 2, 3, 4, 5, 6, 7];
    const NAA6: &[u8] = &[1, 3, 0, 16, 0x60, 1, 0x40, 0x5e, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    #[test]
    fn the_name_that_udev_takes() {
        let naa6 = Some("naa.6001405e0405060708090a0b0c0d0e0f");
        let page = |parts: &[&[u8]]| [&[0, 0x83, 0, 0], parts.concat().as_slice()].concat();
        for (parts, name) in [
            (&[NAME, NAA6, PORT][..], naa6),
            (&[NAA5, NAA6, EUI, NAME], naa6),
            (&[NAME, EUI, NAA5], Some("naa.5001020304050607")),
            (&[NAME, EUI], Some("eui.0011223344556677")),
            (&[NAME, PORT], None),
            (&[NAME, &NAA6[..12]], None),
        ] {
            assert_eq!(in_page(&page(parts)).as_deref(), name, "{parts:x?}");
        }
        assert_eq!(in_page(&[0, 0x83]), None);
    }
}
