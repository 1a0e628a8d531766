//! Checks that a program can run on a node as it is: a static ELF executable for the node's architecture.

/// Why a file can't be delivered as the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDeliverable {
    /// The file isn't an ELF executable.
    #[error("is not a program (not an ELF executable)")]
    NoProgram,
    /// The program is for another architecture.
    #[error("is a program for another architecture, not {}", std::env::consts::ARCH)]
    OtherMachine,
    /// The program needs shared libraries, and the node's libraries differ from those of the build machine.
    #[error("is linked dynamically: it needs libraries of the build machine, which the node doesn't have")]
    Dynamic,
}

/// The architecture in an ELF header (`EM_*`, elf(5) and the ABI's registry), for the four architectures that OpenShift
/// runs on.
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
/// `ET_EXEC`, and `ET_DYN` for a program that can be loaded at any address.
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
            // Another width or byte order: the fields that follow have other positions.
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
        // A file without program headers is a compiler's object file, not a program.
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
    fn headers() {
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

    /// A test built for glibc is a dynamic program, and one built for musl is a static program.
    #[test]
    #[allow(clippy::disallowed_methods)] // real programs
    fn of_real_programs() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let expected =
            if cfg!(target_feature = "crt-static") { Ok(()) } else { Err(NotDeliverable::Dynamic) };
        assert_eq!(check(&own), expected);
    }
}
