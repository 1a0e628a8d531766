//! Whether a program can run on a node that has nothing for it: no libraries of its own, nothing to install.

/// Why a file can't be delivered as the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDeliverable {
    /// It is no ELF file at all.
    #[error("is no program (no ELF executable)")]
    NoProgram,
    /// It is for other machines.
    #[error("is a program for another type of machine, not {}", std::env::consts::ARCH)]
    OtherMachine,
    /// It needs libraries, and those of the node are others than those of where it was built.
    #[error("is linked dynamically, so it would need this machine's libraries on the node")]
    Dynamic,
}

/// What an ELF header says of its machine (`EM_*`, elf(5) and the ABI's registry), for the four types of machine that
/// OpenShift runs on.
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;
#[cfg(target_arch = "powerpc64")]
const MACHINE: u16 = 21;
#[cfg(target_arch = "s390x")]
const MACHINE: u16 = 22;

/// `ELFDATA2LSB`, `ELFDATA2MSB`.
const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
const ELFCLASS64: u8 = 2;
/// `ET_EXEC`, and `ET_DYN` for one that can be loaded anywhere.
const EXECUTABLE: [u16; 2] = [2, 3];
/// The program header that names a dynamic loader.
const PT_INTERP: u32 = 3;

/// Checks that a file is a static program for machines like this one (elf(5)).
pub fn check(file: &[u8]) -> Result<(), NotDeliverable> {
    let header = Header::read(file).ok_or(NotDeliverable::NoProgram)?;
    if header.machine != MACHINE {
        return Err(NotDeliverable::OtherMachine);
    }
    if header.segments.contains(&PT_INTERP) {
        return Err(NotDeliverable::Dynamic);
    }
    Ok(())
}

struct Header {
    machine: u16,
    /// The types of all program headers.
    segments: Vec<u32>,
}

impl Header {
    fn read(file: &[u8]) -> Option<Self> {
        let half = |at: usize| Some(u16::from_ne_bytes(file.get(at..at + 2)?.try_into().ok()?));
        if !file.starts_with(b"\x7fELF") {
            return None;
        }
        if (file.get(4), file.get(5)) != (Some(&ELFCLASS64), Some(&BYTE_ORDER)) {
            // Of another width or byte order, so the fields behind can't be read as ours.
            return Some(Self { machine: 0, segments: Vec::new() });
        }
        if !EXECUTABLE.contains(&half(16)?) {
            return None;
        }
        let first = usize::try_from(u64::from_ne_bytes(file.get(32..40)?.try_into().ok()?)).ok()?;
        let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
        let segments = (0..count)
            .map(|at| {
                let start = first.checked_add(at * size)?;
                Some(u32::from_ne_bytes(file.get(start..start.checked_add(4)?)?.try_into().ok()?))
            })
            .collect::<Option<Vec<_>>>()?;
        // Nothing to load: an object of a compiler, not a program.
        if segments.is_empty() { None } else { Some(Self { machine: half(18)?, segments }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with one program header of a type.
    fn elf(machine: u16, kind: u16, segment: u32) -> Vec<u8> {
        let mut file = vec![0; 120];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', ELFCLASS64, BYTE_ORDER]);
        for (at, value) in [(16, kind), (18, machine), (54, 56), (56, 1)] {
            file[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        file[32..40].copy_from_slice(&64u64.to_ne_bytes());
        file[64..68].copy_from_slice(&segment.to_ne_bytes());
        file
    }

    #[test]
    fn told_apart() {
        const PT_LOAD: u32 = 1;
        let other_width = {
            let mut file = elf(MACHINE, 2, PT_LOAD);
            file[4] = 1;
            file
        };
        for (file, expected) in [
            (elf(MACHINE, 2, PT_LOAD), Ok(())),
            (elf(MACHINE, 3, PT_LOAD), Ok(())),
            (elf(MACHINE, 3, PT_INTERP), Err(NotDeliverable::Dynamic)),
            (elf(MACHINE + 1, 2, PT_LOAD), Err(NotDeliverable::OtherMachine)),
            (other_width, Err(NotDeliverable::OtherMachine)),
            (elf(MACHINE, 1, PT_LOAD), Err(NotDeliverable::NoProgram)),
            (b"#!/bin/sh\n".to_vec(), Err(NotDeliverable::NoProgram)),
            (Vec::new(), Err(NotDeliverable::NoProgram)),
        ] {
            assert_eq!(check(&file), expected);
        }
        let whole = elf(MACHINE, 2, PT_LOAD);
        for length in 0..68 {
            assert!(check(&whole[..length]).is_err(), "cut at {length}");
        }
    }

    /// A test is a dynamic program wherever tests are built for glibc, and whatever runs this is one or the other.
    #[test]
    #[allow(clippy::disallowed_methods)] // real programs
    fn of_real_programs() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let expected =
            if cfg!(target_feature = "crt-static") { Ok(()) } else { Err(NotDeliverable::Dynamic) };
        assert_eq!(check(&own), expected);
    }
}
