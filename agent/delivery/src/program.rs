//! Checks that a program can run on a node as it is: a static ELF executable for an architecture that nodes have.

/// Why a file can't be delivered as the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDeliverable {
    /// The file isn't an ELF executable.
    #[error("is not a program (not an ELF executable)")]
    NoProgram,
    /// The program is for a machine that no node is.
    #[error("is a program for another architecture than x86_64, aarch64, ppc64le and s390x")]
    OtherMachine,
    /// The program needs shared libraries, and the node's libraries differ from those of the build machine.
    #[error("is linked dynamically: it needs libraries of the build machine, which the node doesn't have")]
    Dynamic,
}

/// The architectures that OpenShift runs on, as `uname -m` names them: the machine in an ELF header, and the byte order
/// (`EM_*`, `ELFDATA2LSB` and `ELFDATA2MSB`, elf(5) and the ABI's registry).
const MACHINES: [(u16, u8, &str); 4] =
    [(62, LITTLE, "x86_64"), (183, LITTLE, "aarch64"), (21, LITTLE, "ppc64le"), (22, BIG, "s390x")];
const LITTLE: u8 = 1;
const BIG: u8 = 2;
const ELFCLASS64: u8 = 2;
/// `ET_EXEC`, and `ET_DYN` for a program that can be loaded at any address.
const EXECUTABLE: [u16; 2] = [2, 3];
/// The program header that names a dynamic loader.
const PT_INTERP: u32 = 3;

/// Checks that a file is a static program for a machine that a node can be (elf(5)). Its architecture.
pub fn check(file: &[u8]) -> Result<&'static str, NotDeliverable> {
    let header = Header::read(file)?;
    if header.segments.contains(&PT_INTERP) {
        return Err(NotDeliverable::Dynamic);
    }
    Ok(header.machine)
}

struct Header {
    machine: &'static str,
    /// The types of all program headers.
    segments: Vec<u32>,
}

impl Header {
    fn read(file: &[u8]) -> Result<Self, NotDeliverable> {
        if !file.starts_with(b"\x7fELF") || file.len() < 64 {
            return Err(NotDeliverable::NoProgram);
        }
        let order = file[5];
        // Of another width the fields that follow have other positions.
        if file[4] != ELFCLASS64 {
            return Err(NotDeliverable::OtherMachine);
        }
        let fields = Fields { file, is_little: order == LITTLE };
        let found = fields.half(18);
        let machine = MACHINES.iter().find(|known| Some(known.0) == found && known.1 == order);
        let (_, _, machine) = *machine.ok_or(NotDeliverable::OtherMachine)?;
        let segments = fields.segments().ok_or(NotDeliverable::NoProgram)?;
        Ok(Self { machine, segments })
    }
}

/// Reads numbers in the file's own byte order, which may be another than that of this machine.
struct Fields<'a> {
    file: &'a [u8],
    is_little: bool,
}

impl Fields<'_> {
    fn half(&self, at: usize) -> Option<u16> {
        let bytes = self.file.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.file.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    /// The types of the program headers of an executable. A file without them is a compiler's object file.
    fn segments(&self) -> Option<Vec<u32>> {
        if !EXECUTABLE.contains(&self.half(16)?) {
            return None;
        }
        let [low, high] = [self.word(32)?, self.word(36)?];
        let (low, high) = if self.is_little { (low, high) } else { (high, low) };
        let first = usize::try_from(u64::from(high) << 32 | u64::from(low)).ok()?;
        let (size, count) = (usize::from(self.half(54)?), usize::from(self.half(56)?));
        let kinds = (0..count).map(|at| self.word(first.checked_add(at * size)?));
        kinds.collect::<Option<Vec<_>>>().filter(|kinds| !kinds.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with one program header of a type.
    fn elf(machine: u16, order: u8, kind: u16, segment: u32) -> Vec<u8> {
        let mut file = vec![0; 120];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', ELFCLASS64, order]);
        let is_little = order == LITTLE;
        for (at, value) in [(16, kind), (18, machine), (54, 56), (56, 1)] {
            file[at..at + 2].copy_from_slice(&if is_little {
                value.to_le_bytes()
            } else {
                value.to_be_bytes()
            });
        }
        let first = if is_little { 64u64.to_le_bytes() } else { 64u64.to_be_bytes() };
        file[32..40].copy_from_slice(&first);
        file[64..68].copy_from_slice(&if is_little { segment.to_le_bytes() } else { segment.to_be_bytes() });
        file
    }

    const PT_LOAD: u32 = 1;

    #[test]
    fn headers() {
        let other_width = {
            let mut file = elf(62, LITTLE, 2, PT_LOAD);
            file[4] = 1;
            file
        };
        for (file, expected) in [
            (elf(62, LITTLE, 2, PT_LOAD), Ok("x86_64")),
            (elf(62, LITTLE, 3, PT_LOAD), Ok("x86_64")),
            (elf(183, LITTLE, 2, PT_LOAD), Ok("aarch64")),
            (elf(21, LITTLE, 3, PT_LOAD), Ok("ppc64le")),
            (elf(22, BIG, 2, PT_LOAD), Ok("s390x")),
            (elf(62, LITTLE, 3, PT_INTERP), Err(NotDeliverable::Dynamic)),
            (elf(22, BIG, 3, PT_INTERP), Err(NotDeliverable::Dynamic)),
            (elf(243, LITTLE, 2, PT_LOAD), Err(NotDeliverable::OtherMachine)),
            (elf(21, BIG, 2, PT_LOAD), Err(NotDeliverable::OtherMachine)),
            (other_width, Err(NotDeliverable::OtherMachine)),
            (elf(62, LITTLE, 1, PT_LOAD), Err(NotDeliverable::NoProgram)),
            (b"#!/bin/sh\n".to_vec(), Err(NotDeliverable::NoProgram)),
            (Vec::new(), Err(NotDeliverable::NoProgram)),
        ] {
            assert_eq!(check(&file), expected);
        }
        for whole in [elf(62, LITTLE, 2, PT_LOAD), elf(22, BIG, 2, PT_LOAD)] {
            for length in 0..68 {
                assert!(check(&whole[..length]).is_err(), "cut at {length}");
            }
        }
    }

    /// A test built for glibc is a dynamic program, and one built for musl is a static program.
    #[test]
    #[allow(clippy::disallowed_methods)] // real programs
    fn of_real_programs() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let expected = if cfg!(target_feature = "crt-static") {
            Ok(std::env::consts::ARCH)
        } else {
            Err(NotDeliverable::Dynamic)
        };
        assert_eq!(check(&own), expected);
    }
}
