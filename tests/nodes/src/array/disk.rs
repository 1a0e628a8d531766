//! What the array answers to the commands of a disk (SPC-5, SBC-4).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::Volume;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The data that was asked for. The initiator may take less.
    Data(Vec<u8>),
    /// So many bytes are to be written at this place.
    Write { at: u64, bytes: usize },
    /// Done, without data.
    Done,
    /// Sense key, ASC and ASCQ.
    Failed([u8; 3]),
}

/// ILLEGAL REQUEST: the command, a field of it, or the LUN is not known, or blocks are beyond the end.
const COMMAND: Answer = Answer::Failed([5, 0x20, 0]);
const FIELD: Answer = Answer::Failed([5, 0x24, 0]);
const RANGE: Answer = Answer::Failed([5, 0x21, 0]);
const NO_LUN: Answer = Answer::Failed([5, 0x25, 0]);
/// NOT READY: the target port is in standby.
const STANDBY: Answer = Answer::Failed([2, 4, 0x0b]);

/// Returns true if a command gets no unit attention (SPC-5, 5.14): INQUIRY and REPORT LUNS.
pub(super) fn is_asking(cdb: &[u8]) -> bool {
    matches!(cdb[0], 0x12 | 0xa0)
}

/// Answers a command for a LUN.
pub(super) fn answer(luns: &BTreeMap<u8, Volume>, lun: u8, cdb: &[u8]) -> io::Result<Answer> {
    let volume = luns.get(&lun);
    match (cdb[0], volume) {
        (0xa0, _) => return Ok(Answer::Data(report(luns))),
        (0x12, _) => return Ok(inquiry(volume, cdb)),
        _ => {}
    }
    let Some(volume) = volume else { return Ok(NO_LUN) };
    let (sector, bytes) = (u64::from(volume.sector), volume.file.metadata()?.len());
    let last = bytes / sector - 1;
    let medium = |last: Vec<u8>| if volume.standby { STANDBY } else { Answer::Data(last) };
    Ok(match cdb[0] {
        // TEST UNIT READY
        0x00 if volume.standby => STANDBY,
        0x00 | 0x1b | 0x35 | 0x91 => Answer::Done,
        // READ CAPACITY
        0x25 => medium(
            [&u32::try_from(last).unwrap_or(u32::MAX).to_be_bytes()[..], &volume.sector.to_be_bytes()]
                .concat(),
        ),
        0x9e if cdb[1] & 31 == 0x10 => {
            medium([&last.to_be_bytes()[..], &volume.sector.to_be_bytes(), &[0; 20]].concat())
        }
        // MODE SENSE: the caching page alone, with a write cache
        0x1a if matches!(cdb[2] & 63, 8 | 63) => {
            Answer::Data([&[23, 0, 0x10, 0, 8, 18, 4][..], &[0; 17]].concat())
        }
        0x1a => FIELD,
        // READ and WRITE, of 10 and of 16 bytes
        0x28 | 0x2a | 0x88 | 0x8a if volume.standby => STANDBY,
        // Protection information
        0x28 | 0x2a | 0x88 | 0x8a if cdb[1] >> 5 != 0 => FIELD,
        code @ (0x28 | 0x2a | 0x88 | 0x8a) => {
            let (at, count) = if code < 0x80 {
                (number(&cdb[2..6]), number(&cdb[7..9]))
            } else {
                (number(&cdb[2..10]), number(&cdb[10..14]))
            };
            if at.checked_add(count).is_none_or(|end| end > last + 1) {
                return Ok(RANGE);
            }
            let (at, bytes) = (at * sector, usize::try_from(count * sector).map_err(io::Error::other)?);
            if bytes == 0 {
                Answer::Done
            } else if code & 2 != 0 {
                Answer::Write { at, bytes }
            } else {
                Answer::Data(read(volume, at, bytes)?)
            }
        }
        _ => COMMAND,
    })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn read(volume: &Volume, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; bytes];
    File::open(&volume.file)?.read_exact_at(&mut data, at)?;
    Ok(data)
}

/// Writes what came for [`Answer::Write`].
pub(super) fn write(volume: &Volume, at: u64, data: &[u8]) -> io::Result<()> {
    File::options().write(true).open(&volume.file)?.write_all_at(data, at)
}

fn report(luns: &BTreeMap<u8, Volume>) -> Vec<u8> {
    let list: Vec<u8> = luns.keys().flat_map(|lun| [0, *lun, 0, 0, 0, 0, 0, 0]).collect();
    let bytes = u32::try_from(list.len()).unwrap_or_default().to_be_bytes();
    [&bytes[..], &[0; 4], &list].concat()
}

fn inquiry(volume: Option<&Volume>, cdb: &[u8]) -> Answer {
    // 0x7f: there is no such LUN.
    let Some(volume) = volume else { return Answer::Data([&[0x7f, 0, 6, 2, 31][..], &[0; 31]].concat()) };
    let page = |body: &[u8]| {
        Answer::Data([&[0, cdb[2], 0, u8::try_from(body.len()).unwrap_or_default()][..], body].concat())
    };
    match (cdb[1] & 1, cdb[2]) {
        (0, 0) => {
            Answer::Data([&[0, 0, 6, 2, 31, 0, 0, 2][..], b"BED     ", b"ARRAY           ", b"0001"].concat())
        }
        (_, 0) => page(&[0, 0x80, 0x83]),
        (_, 0x80) => page(&volume.naa.as_bytes()[16..]),
        (_, 0x83) => page(&designators(volume)),
        _ => FIELD,
    }
}

/// The names of a volume (SPC-5, 7.7.6): code set, type, length, and the name.
fn designators(volume: &Volume) -> Vec<u8> {
    let digits = volume.naa.as_bytes().chunks(2);
    let naa = digits.map(|two| u8::from_str_radix(&String::from_utf8_lossy(two), 16).unwrap_or_default());
    let mut names = vec![1, 3, 0, 16];
    names.extend(naa);
    if let Some(name) = &volume.name {
        // Blanks of NUL, to a multiple of four.
        let bytes = (name.len() / 4 + 1) * 4;
        names.extend([3, 8, 0, u8::try_from(bytes).unwrap_or_default()]);
        names.extend(name.bytes().chain(std::iter::repeat(0)).take(bytes));
    }
    names
}
