//! What util-linux recognises on a device. `blkid -p` reads the device each time. Without `-p` blkid would answer from
//! its cache file.
//!
//! ```text
//! DEVNAME=/dev/sdb
//! LABEL=etcd-lun
//! UUID=0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b
//! BLOCK_SIZE=512
//! TYPE=xfs
//! USAGE=filesystem
//! ```

use crate::{ExecError, Host, Invocation, Output, Tool, exec::one_line};
use std::path::Path;

/// The result of `blkid -p`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlkidResult {
    Nothing,
    /// An XFS and nothing else.
    Xfs,
    /// A noun phrase.
    Other(String),
}

/// Asks about a device node.
pub(super) fn ask(host: &Host, node: &Path) -> Result<BlkidResult, ExecError> {
    let what = Invocation::new(Tool::Blkid, ["-p", "-o", "export", &node.to_string_lossy()]);
    parse_blkid(&host.run(&what)?, &what)
}

/// Exit codes, see `blkid(8)`: 0, something was found; 2, nothing was found, or the device can't be read (the caller
/// reads it too, which detects that); 8, more than one thing was found. `-o export` prints `KEY=value` lines.
fn parse_blkid(output: &Output, what: &Invocation) -> Result<BlkidResult, ExecError> {
    match output.code {
        0 => Ok(parse_export(&output.stdout)),
        2 => Ok(BlkidResult::Nothing),
        8 => Ok(BlkidResult::Other("more than one signature (`wipefs --no-act` lists them)".into())),
        _ => Err(output.failure(what)),
    }
}

fn parse_export(text: &str) -> BlkidResult {
    // The device's own name, and its entry in the partition table of the whole disk, are not content of the device.
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.starts_with("DEVNAME=") && !line.starts_with("PART_ENTRY_"));
    let lines: Vec<_> = lines.collect();
    let value = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let kind = value("TYPE").map(|kind| {
        let noun = if value("USAGE") == Some("filesystem") { "filesystem" } else { "signature" };
        let label = value("LABEL").map(|label| format!(", labelled {label}")).unwrap_or_default();
        format!("a {noun} of type {kind}{label}")
    });
    let table = value("PTTYPE").map(|table| format!("a partition table of type {table}"));
    match (kind, table) {
        (None, None) if lines.is_empty() => BlkidResult::Nothing,
        (None, None) => {
            BlkidResult::Other(format!("something that blkid reports as {}", one_line(&lines.join("\n"))))
        }
        (Some(_), None) if value("TYPE") == Some("xfs") => BlkidResult::Xfs,
        (kind, table) => {
            let all: Vec<_> = kind.into_iter().chain(table).collect();
            BlkidResult::Other(one_line(&all.join(" and ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blkid_output() {
        let something = |text: &str| BlkidResult::Other(text.into());
        for (text, said) in [
            ("", BlkidResult::Nothing),
            ("DEVNAME=/dev/sdb\n", BlkidResult::Nothing),
            ("DEVNAME=/dev/sdb1\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_NUMBER=1\n", BlkidResult::Nothing),
            (
                "DEVNAME=/dev/sdb\nLABEL=etcd-lun\nUUID=0b8d\nBLOCK_SIZE=512\nTYPE=xfs\nUSAGE=filesystem\n",
                BlkidResult::Xfs,
            ),
            (
                "DEVNAME=/dev/sdb\nLABEL=backup\nTYPE=ext4\nUSAGE=filesystem\n",
                something("a filesystem of type ext4, labelled backup"),
            ),
            (
                "UUID=x\nVERSION=LVM2\\ 001\nTYPE=LVM2_member\nUSAGE=raid\n",
                something("a signature of type LVM2_member"),
            ),
            ("PTUUID=1\nPTTYPE=gpt\n", something("a partition table of type gpt")),
            (
                "TYPE=xfs\nUSAGE=filesystem\nPTTYPE=dos\n",
                something("a filesystem of type xfs and a partition table of type dos"),
            ),
            ("UUID=abc\n", something("something that blkid reports as UUID=abc")),
            ("TYPE=ex\u{1b}[1mt4\n", something("a signature of type ex[1mt4")),
        ] {
            assert_eq!(parse_export(text), said, "{text:?}");
        }
    }

    #[test]
    fn blkid_codes() {
        let what = Invocation::new(Tool::Blkid, ["-p"]);
        let code = |code| parse_blkid(&Output { code, ..Output::default() }, &what);
        assert_eq!(code(2).unwrap(), BlkidResult::Nothing);
        assert!(matches!(code(8).unwrap(), BlkidResult::Other(_)));
        for wrong in [1, 4, 16, 127] {
            assert!(code(wrong).is_err(), "{wrong}");
        }
    }
}
