//! How the program reaches the nodes.

use super::{ImageRef, NotDeliverable, check_program, encode, pack};
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

/// The image that an object names, and the SHA-256 of its program for each architecture; none if no file of it names both, or
/// several files do.
pub fn ordered(object: &str) -> Option<(ImageRef, Vec<String>)> {
    let is_sum = |sum: &str| sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut orders = encode::contents(object).filter_map(|bytes| {
        let (mut image, mut sums) = (None, Vec::new());
        for line in std::str::from_utf8(&bytes).ok()?.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once('=')? {
                ("image", name) => image = Some(name.parse().ok()?),
                (_, sum) => sums.push(Some(sum.to_owned()).filter(|sum| is_sum(sum))?),
            }
        }
        image.filter(|_| !sums.is_empty()).map(|image| (image, sums))
    });
    orders.next().filter(|_| orders.next().is_none())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::data_url;

    #[test]
    fn which_program_an_object_asks_for() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let image = format!("quay.io/example/etcd-lun@sha256:{}", "3".repeat(64));
        let order = format!("{HEAD}image={image}\nx86_64={one}\naarch64={two}\n");
        let object = |orders: &[&str]| {
            let others = [&b"[target]\niqn = \"x\"\n"[..], b"#!/bin/bash\n", b"\xff", b""];
            let all = others.iter().copied().chain(orders.iter().map(|order| order.as_bytes()));
            all.map(|content| format!("- contents:\n    source: \"{}\"\n", data_url(content)))
                .collect::<String>()
        };
        let (name, sums) = ordered(&object(&[&order])).unwrap();
        assert_eq!((name.as_str(), sums), (&*image, vec![one.clone(), two]));
        let embedded = format!("x86_64={one}\n");
        for orders in [
            &[][..],
            &[&*order, &order],
            &[&embedded],
            &["image=quay.io/example/etcd-lun:v1\n"],
            &["image=x\nx86_64=1\n"],
        ] {
            assert_eq!(ordered(&object(orders)), None, "{orders:?}");
        }
    }
}
