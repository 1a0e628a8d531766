//! How the program reaches the nodes.

use super::{ImageRef, NotDeliverable, check_program, pack};
use std::{fmt, io};

/// How the program reaches the nodes.
#[derive(Debug)]
pub enum Way {
    /// Each node takes it once from an image.
    Image {
        /// The image.
        image: ImageRef,
        /// The program for each architecture of the pool, at least one.
        programs: Vec<Program>,
    },
    /// The object contains it.
    Embedded(Program),
    /// A package or the node's own image has brought it.
    Package,
}

/// A program for one architecture.
pub struct Program {
    machine: &'static str,
    content: Vec<u8>,
    sha256: String,
}

/// Leaves out the content.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({}, {} bytes)", self.machine, self.content.len())
    }
}

impl Program {
    /// Checks that a file with this SHA-256 is a program that nodes can run.
    pub fn new(content: Vec<u8>, sha256: String) -> Result<Self, NotDeliverable> {
        Ok(Self { machine: check_program(&content)?, content, sha256 })
    }

    /// The architecture, as `uname -m` names it.
    pub fn machine(&self) -> &'static str {
        self.machine
    }

    /// The packed program, for `xz --decompress`.
    pub(super) fn packed(&self) -> io::Result<Vec<u8>> {
        pack::lzma(&self.content)
    }
}

impl Way {
    /// The file that the nodes read (`units/etcd-lun-program.sh`): the image, and the SHA-256 of the program for each
    /// architecture. None for a package.
    pub(super) fn order(&self) -> Option<String> {
        let (image, programs) = match self {
            Self::Image { image, programs } => (Some(image), programs.as_slice()),
            Self::Embedded(program) => (None, std::slice::from_ref(program)),
            Self::Package => return None,
        };
        let image = image.map(|image| format!("image={image}\n")).unwrap_or_default();
        let sums = programs.iter().map(|of| format!("{}={}\n", of.machine, of.sha256));
        Some(format!("{HEAD}{image}{}", sums.collect::<String>()))
    }
}

/// Tells a reader on a node whose file this is.
const HEAD: &str = "# The program of etcd-lun for each architecture, by its sha256. etcd-lun-program.service reads this file.\n";

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { image, programs } => {
                let machines: Vec<_> = programs.iter().map(Program::machine).collect();
                write!(f, "with the program for {} from {image}", machines.join(" and "))
            }
            Self::Embedded(program) => write!(f, "with the program for {} inside", program.machine()),
            Self::Package => f.write_str("without the program"),
        }
    }
}
