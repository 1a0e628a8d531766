//! Checks that a program can run on a node as it is: a static ELF executable for an architecture of OpenShift's.

use std::fmt;

/// Why a file can't be delivered as the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDeliverable {
    /// The file isn't an ELF executable.
    #[error("is not a program (not an ELF executable)")]
    NoProgram,
    /// OpenShift doesn't run on the program's architecture.
    #[error("is a program for another architecture than x86_64, aarch64, ppc64le and s390x")]
    OtherMachine,
    /// The program needs shared libraries, and the node's libraries differ from those of the build machine.
    #[error("is linked dynamically: it needs libraries of the build machine, which the node doesn't have")]
    Dynamic,
}

/// An architecture that OpenShift runs on. A MachineConfig is for the nodes of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// AMD and Intel, 64 bits.
    X86_64,
    /// Arm, 64 bits.
    Aarch64,
    /// IBM Power, little-endian.
    Ppc64le,
    /// IBM Z.
    S390x,
}

/// As `uname --machine` prints it.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
        })
    }
}

impl Architecture {
    /// By byte order and `e_machine` (`EM_*`, elf(5) and the ABI's registry).
    fn of(order: Order, machine: u16) -> Option<Self> {
        match (order, machine) {
            (Order::Little, 62) => Some(Self::X86_64),
            (Order::Little, 183) => Some(Self::Aarch64),
            (Order::Little, 21) => Some(Self::Ppc64le),
            (Order::Big, 22) => Some(Self::S390x),
            _ => None,
        }
    }
}

const ELFCLASS64: u8 = 2;
/// `ET_EXEC`, and `ET_DYN` for a program that can be loaded at any address.
const EXECUTABLE: [u16; 2] = [2, 3];
/// The program header that names a dynamic loader.
const PT_INTERP: u32 = 3;

/// Checks that a file is a static program for nodes of OpenShift (elf(5)). Returns their architecture.
pub fn check(file: &[u8]) -> Result<Architecture, NotDeliverable> {
    if !file.starts_with(b"\x7fELF") {
        return Err(NotDeliverable::NoProgram);
    }
    let order = match (file.get(4), file.get(5)) {
        (Some(&ELFCLASS64), Some(1)) => Order::Little,
        (Some(&ELFCLASS64), Some(2)) => Order::Big,
        (None, _) | (_, None) => return Err(NotDeliverable::NoProgram),
        // Another width: the fields that follow have other positions.
        _ => return Err(NotDeliverable::OtherMachine),
    };
    let header = Header::read(file, order).ok_or(NotDeliverable::NoProgram)?;
    let architecture = Architecture::of(order, header.machine).ok_or(NotDeliverable::OtherMachine)?;
    if header.segments.contains(&PT_INTERP) {
        return Err(NotDeliverable::Dynamic);
    }
    Ok(architecture)
}

/// The byte order of a file: `ELFDATA2LSB`, `ELFDATA2MSB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// The number of `bytes` bytes at a place.
    fn number(self, file: &[u8], at: usize, bytes: usize) -> Option<u64> {
        let part = file.get(at..at.checked_add(bytes)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(match self {
            Self::Little => part.iter().rev().fold(0, add),
            Self::Big => part.iter().fold(0, add),
        })
    }
}

struct Header {
    machine: u16,
    /// The types of all program headers.
    segments: Vec<u32>,
}

impl Header {
    fn read(file: &[u8], order: Order) -> Option<Self> {
        let half = |at| u16::try_from(order.number(file, at, 2)?).ok();
        if !EXECUTABLE.contains(&half(16)?) {
            return None;
        }
        let first = usize::try_from(order.number(file, 32, 8)?).ok()?;
        let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
        let segments = (0..count)
            .map(|at| u32::try_from(order.number(file, first.checked_add(at * size)?, 4)?).ok())
            .collect::<Option<Vec<_>>>()?;
        // A file without program headers is a compiler's object file, not a program.
        if segments.is_empty() { None } else { Some(Self { machine: half(18)?, segments }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PT_LOAD: u32 = 1;

    /// A header with one program header of a type.
    fn elf(order: Order, machine: u16, kind: u16, segment: u32) -> Vec<u8> {
        let mut file = vec![0; 120];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', ELFCLASS64, 1]);
        let mut put = |at: usize, bytes: usize, value: u64| {
            let place = &mut file[at..at + bytes];
            place.copy_from_slice(&value.to_le_bytes()[..bytes]);
            if order == Order::Big {
                place.reverse();
            }
        };
        for (at, bytes, value) in [
            (16, 2, kind.into()),
            (18, 2, machine.into()),
            (32, 8, 64),
            (54, 2, 56),
            (56, 2, 1),
            (64, 4, segment.into()),
        ] {
            put(at, bytes, value);
        }
        file[5] = if order == Order::Big { 2 } else { 1 };
        file
    }

    #[test]
    fn headers() {
        let little = |machine, kind, segment| elf(Order::Little, machine, kind, segment);
        let other_width = {
            let mut file = little(62, 2, PT_LOAD);
            file[4] = 1;
            file
        };
        for (file, expected) in [
            (little(62, 2, PT_LOAD), Ok(Architecture::X86_64)),
            (little(183, 3, PT_LOAD), Ok(Architecture::Aarch64)),
            (little(21, 3, PT_LOAD), Ok(Architecture::Ppc64le)),
            (elf(Order::Big, 22, 3, PT_LOAD), Ok(Architecture::S390x)),
            (elf(Order::Big, 22, 3, PT_INTERP), Err(NotDeliverable::Dynamic)),
            (little(62, 3, PT_INTERP), Err(NotDeliverable::Dynamic)),
            // Power and Z with the other byte order, and RISC-V.
            (elf(Order::Big, 21, 3, PT_LOAD), Err(NotDeliverable::OtherMachine)),
            (little(22, 3, PT_LOAD), Err(NotDeliverable::OtherMachine)),
            (little(243, 3, PT_LOAD), Err(NotDeliverable::OtherMachine)),
            (other_width, Err(NotDeliverable::OtherMachine)),
            (little(62, 1, PT_LOAD), Err(NotDeliverable::NoProgram)),
            (b"#!/bin/sh\n".to_vec(), Err(NotDeliverable::NoProgram)),
            (Vec::new(), Err(NotDeliverable::NoProgram)),
        ] {
            assert_eq!(check(&file), expected);
        }
        let whole = little(62, 2, PT_LOAD);
        for length in 0..68 {
            assert!(check(&whole[..length]).is_err(), "cut at {length}");
        }
    }

    /// A test built for glibc is a dynamic program, and one built for musl is a static program.
    #[test]
    #[allow(clippy::disallowed_methods)] // real programs
    fn of_real_programs() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let found = check(&own);
        if cfg!(target_feature = "crt-static") {
            assert_eq!(found.unwrap().to_string(), std::env::consts::ARCH);
        } else {
            assert_eq!(found, Err(NotDeliverable::Dynamic));
        }
    }
}
