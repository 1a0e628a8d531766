//! The kernel's log, `/dev/kmsg` (kernel `Documentation/ABI/testing/dev-kmsg`).

use super::{Host, root::at};
use rustix::fs::{OFlags, SeekFrom, seek};
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// From 0, the system is unusable, to 7, debugging: syslog(2).
    pub level: u8,
    /// Its first line. The following lines name the device.
    pub text: String,
}

/// The longest record that the kernel returns (`PRINTK_MESSAGE_MAX`).
const RECORD_MAX: usize = 8192;
/// More records than the largest possible buffer holds.
const RECORDS: usize = 1_000_000;

const LOG: &str = "/dev/kmsg";

/// All messages in the kernel's buffer, since the buffer was last cleared (`dmesg --clear`).
pub fn messages(host: &Host) -> io::Result<Vec<Message>> {
    // `SEEK_DATA`: the position after the last clearing.
    open(host, SeekFrom::Data(0)).and_then(read).map_err(|error| at(Path::new(LOG), &error))
}

/// A position in the log: later messages can be read from there.
#[derive(Debug)]
pub struct Mark(io::Result<File>);

impl Mark {
    /// The present end of the log. If the log can't be read, [`Self::messages`] returns the error.
    pub fn now(host: &Host) -> Self {
        Self(open(host, SeekFrom::End(0)).map_err(|error| at(Path::new(LOG), &error)))
    }

    /// The messages since then.
    pub fn messages(self) -> io::Result<Vec<Message>> {
        read(self.0?).map_err(|error| at(Path::new(LOG), &error))
    }
}

fn open(host: &Host, from: SeekFrom) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let log = OpenOptions::new().read(true).custom_flags(flags).open(host.root.locate(LOG))?;
    seek(&log, from)?;
    Ok(log)
}

fn read(mut log: File) -> io::Result<Vec<Message>> {
    let mut messages = Vec::new();
    let mut buffer = [0; RECORD_MAX];
    for _ in 0..RECORDS {
        match log.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => messages.extend(parse(&String::from_utf8_lossy(&buffer[..count]))),
            // Records were overwritten meanwhile. The next read continues with the oldest one.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(messages)
}

/// `PRIORITY,SEQUENCE,TIME,FLAGS[,MORE];TEXT`; the priority's lower three bits are the level.
fn parse(record: &str) -> Option<Message> {
    let (head, text) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let level = u8::try_from(priority & 7).ok()?;
    Some(Message { level, text: text.lines().next()?.to_owned() })
}

/// ASC/ASCQ 3F/0E.
const ASSIGNMENTS: &str = "LUN assignments on this target have changed";

/// Parts of what the kernel writes when a target announces a change (kernel `drivers/scsi/scsi_error.c`, `scsi_report_sense`):
/// ASC/ASCQ 3F/0E, 3F/03, 38/07 and 2A/06. They have level 4 and name no disk:
///
/// ```text
/// sd 2:0:0:1: LUN assignments on this target have changed. The Linux SCSI layer does not automatically remap LUN assignments.
/// ```
const ANNOUNCEMENTS: [&str; 4] = [
    ASSIGNMENTS,
    "Inquiry data has changed",
    "thin provisioning soft threshold",
    "Asymmetric access state changed",
];

/// The errors of these disks (kernel names), of these sessions (numbers), and of the filesystem on the disks since it
/// was last mounted.
///
/// ```text
/// XFS (sdb): log I/O error -5                            (`Mounting V5 Filesystem` drops the lines before it)
/// I/O error, dev sdb, sector 2048 op 0x1:(WRITE) ...     also: critical target error, dev sdb, ...
/// Buffer I/O error on dev sdb, logical block 0, ...
/// sdb: writeback error on inode 131, offset 0, sector 64 (kernel `fs/iomap/buffered-io.c`)
///  connection1:0: detected conn error (1020)
///  session1: session recovery timed out after 120 secs
/// sd 2:0:0:1: [sdb] Synchronize Cache(10) failed: ...
/// ```
///
/// And what the target announces of the disks at these SCSI addresses.
pub fn errors_of(
    messages: &[Message],
    disks: &[String],
    addresses: &[String],
    sessions: &[u32],
) -> Vec<String> {
    let mut found = Vec::new();
    for Message { level, text } in messages {
        let text = text.trim();
        let is_error = *level <= ERROR;
        let of_xfs = disks.iter().find_map(|disk| text.strip_prefix(&format!("XFS ({disk}): ")));
        if of_xfs.is_some_and(|said| said.starts_with("Mounting ")) {
            found.clear();
        }
        let of_disk = disks.iter().any(|disk| {
            text.contains(&format!("error, dev {disk},"))
                || text.contains(&format!("Buffer I/O error on dev {disk},"))
                || text.starts_with(&format!("{disk}: writeback error on inode "))
                || (is_error && text.contains(&format!(" [{disk}] ")))
        });
        let of_session = sessions.iter().any(|sid| {
            (text.starts_with(&format!("connection{sid}:")) && text.contains("detected conn error"))
                || (text.starts_with(&format!("session{sid}: ")) && text.contains("recovery timed out"))
        });
        let announced =
            text.strip_prefix("sd ").and_then(|rest| rest.split_once(": ")).is_some_and(|(at, said)| {
                // The kernel names any LUN of the target when it says that the assignments have changed.
                let target = |address: &str| address.rsplit_once(':').map(|(target, _)| target.to_owned());
                let is_ours = addresses.iter().any(|ours| ours == at)
                    || said.starts_with(ASSIGNMENTS)
                        && addresses.iter().any(|ours| target(ours) == target(at));
                is_ours && ANNOUNCEMENTS.iter().any(|part| said.contains(part))
            });
        if (of_xfs.is_some() && is_error) || of_disk || of_session || announced {
            found.push(text.chars().filter(|letter| !letter.is_control()).collect());
        }
    }
    found
}

/// True if such an error says that another initiator has reserved the disk (kernel `block/blk-core.c`, `blk_errors`): by its name
/// since Linux 6.3, as a nexus before.
///
/// ```text
/// reservation conflict error, dev sdb, sector 0 op 0x1:(WRITE) ...
/// critical nexus error, dev sdb, sector 0 op 0x1:(WRITE) ...
/// ```
pub fn is_reservation_conflict(error: &str) -> bool {
    error.contains("reservation conflict error, dev ") || error.contains("critical nexus error, dev ")
}

/// True if the target has announced another size of one of these disks, and the kernel has not read it since (kernel
/// `drivers/scsi/scsi_error.c`, `scsi_report_sense`; `drivers/scsi/sd.c`, `sd_print_capacity`):
///
/// ```text
/// sd 2:0:0:1: [sdb] 41943040 512-byte logical blocks: (21.5 GB/20.0 GiB)
/// sd 2:0:0:1: Capacity data has changed
/// ```
pub fn announces_size(messages: &[Message], disks: &[String]) -> bool {
    let mut announced: BTreeMap<&str, bool> = BTreeMap::new();
    for text in messages.iter().map(|message| message.text.trim()) {
        let Some((address, said)) = text.strip_prefix("sd ").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        if said == "Capacity data has changed" {
            if let Some(announced) = announced.get_mut(address) {
                *announced = true;
            }
        } else if said.contains("logical blocks")
            && disks.iter().any(|disk| said.starts_with(&format!("[{disk}] ")))
        {
            announced.insert(address, false);
        }
    }
    announced.values().any(|announced| *announced)
}

/// syslog(2), `KERN_ERR`.
const ERROR: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_size_is_announced_until_the_kernel_reads_it() {
        let read = "sd 2:0:0:1: [sdb] 41943040 512-byte logical blocks: (21.5 GB/20.0 GiB)";
        let other = "sd 3:0:0:1: [sdc] 41943040 512-byte logical blocks: (21.5 GB/20.0 GiB)";
        let said = "sd 2:0:0:1: Capacity data has changed";
        for (lines, announced) in [
            (&[read][..], false),
            (&[read, said], true),
            (&[read, said, read], false),
            (&[read, other, said, other], true),
            (&[other, said], false),
            (&[said, read], false),
        ] {
            let messages: Vec<_> =
                lines.iter().map(|text| Message { level: 4, text: (*text).into() }).collect();
            assert_eq!(announces_size(&messages, &["sdb".into()]), announced, "{lines:?}");
        }
    }

    #[test]
    fn records() {
        let text =
            "30,339,5140900,-,caller=T1;XFS (sdb): Ending clean mount\n SUBSYSTEM=block\n DEVICE=b8:16\n";
        let expected = Message { level: 6, text: "XFS (sdb): Ending clean mount".into() };
        assert_eq!(parse(text), Some(expected));
        for text in ["", "6,1,2,-", "x,1,2,-;text", "6,1,2,-;"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn reservations() {
        for (text, is_one) in [
            (
                "reservation conflict error, dev sdb, sector 0 op 0x1:(WRITE) flags 0x8800 phys_seg 1 prio class 2",
                true,
            ),
            (
                "critical nexus error, dev sdb, sector 0 op 0x1:(WRITE) flags 0x8800 phys_seg 1 prio class 2",
                true,
            ),
            ("critical target error, dev sdb, sector 0 op 0x1:(WRITE)", false),
            ("I/O error, dev sdb, sector 2048 op 0x1:(WRITE) flags 0x9800 phys_seg 1 prio class 2", false),
        ] {
            let errors = errors_of(&[Message { level: 3, text: text.into() }], &["sdb".into()], &[], &[]);
            assert_eq!(errors.iter().any(|error| is_reservation_conflict(error)), is_one, "{text}");
        }
    }

    #[test]
    fn errors_since_the_mount() {
        let told = |lines: &[(u8, &str)]| -> Vec<Message> {
            lines.iter().map(|(level, text)| Message { level: *level, text: (*text).into() }).collect()
        };
        let errors = |lines: &[(u8, &str)]| {
            errors_of(&told(lines), &["sdb".into(), "dm-0".into()], &["2:0:0:1".into()], &[1])
        };
        let ours = [
            (1, "XFS (sdb): log I/O error -5"),
            (1, "XFS (dm-0): Filesystem has been shut down due to log error (0x2)."),
            (3, "I/O error, dev sdb, sector 2048 op 0x1:(WRITE) flags 0x9800 phys_seg 1 prio class 2"),
            (3, "critical target error, dev sdb, sector 0 op 0x1:(WRITE)"),
            (3, "Buffer I/O error on dev dm-0, logical block 0, lost async page write"),
            (3, "dm-0: writeback error on inode 1179778, offset 684032, sector 1306176"),
            (6, " connection1:0: detected conn error (1020)"),
            (6, " session1: session recovery timed out after 120 secs"),
            (3, "sd 2:0:0:1: [sdb] Synchronize Cache(10) failed: Result: hostbyte=DID_TRANSPORT_FAILFAST"),
            (
                4,
                "sd 2:0:0:1: LUN assignments on this target have changed. The Linux SCSI layer does not automatically remap LUN assignments.",
            ),
            (4, "sd 2:0:0:7: LUN assignments on this target have changed."),
            (4, "sd 2:0:0:1: Inquiry data has changed"),
            (
                4,
                "sd 2:0:0:1: Warning! Received an indication that the LUN reached a thin provisioning soft threshold.",
            ),
            (4, "sd 2:0:0:1: Asymmetric access state changed"),
        ];
        for line in ours {
            assert_eq!(errors(&[line]), [line.1.trim()]);
        }
        for line in [
            (5, "XFS (sdb): Mounting V5 Filesystem 9a4c"),
            (6, "XFS (sdb): Ending clean mount"),
            (1, "XFS (sdc): log I/O error -5"),
            (3, "I/O error, dev sdb1, sector 2048"),
            (3, "sda: writeback error on inode 131, offset 0, sector 64"),
            (6, " connection11:0: detected conn error (1020)"),
            (6, " session11: session recovery timed out after 120 secs"),
            (6, "sd 2:0:0:1: [sdb] Attached SCSI disk"),
            (4, "sd 3:0:0:1: LUN assignments on this target have changed."),
            (4, "sd 2:0:0:11: Inquiry data has changed"),
            (4, "sd 2:0:0:1: Power-on or device reset occurred"),
        ] {
            assert_eq!(errors(&[line]), [""; 0], "{line:?}");
        }
        assert_eq!(
            errors(&[ours[0], ours[2], (5, "XFS (sdb): Mounting V5 Filesystem 9a4c"), ours[5]]).len(),
            1
        );
    }

    /// On any machine: it ends, and every line that it finds has the form of a message.
    #[test]
    fn the_real_log() {
        match messages(&Host::machine().unwrap()) {
            Ok(messages) => assert!(messages.iter().all(|message| message.level < 8)),
            Err(error) => assert!(error.to_string().starts_with("/dev/kmsg"), "{error}"),
        }
    }
}
