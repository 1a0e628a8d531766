//! The size of a MachineConfig, and the limits for it.

use super::Part;
use std::fmt;

/// The limit in bytes for all MachineConfigs of a pool together: etcd's limit for one object, and the Machine Config Operator's
/// for the config that it renders for a pool (`MaxMachineConfigSize`).
pub const POOL_LIMIT: usize = 1_572_864;
/// The assisted installer's limit in bytes for one manifest (openshift/assisted-service).
pub const MANIFEST_LIMIT: usize = 1_000_000;
/// The percentage of [`POOL_LIMIT`] above which the operator warns.
const WARNED: usize = 80;

/// The size of a MachineConfig and of its parts, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The whole object.
    pub whole: usize,
    /// The program, compressed and encoded.
    pub program: usize,
    /// The program on the node.
    pub unpacked: usize,
    /// The config's files, encoded.
    pub config: usize,
    /// Secrets, encoded.
    pub secrets: usize,
    /// The units, the udev rule, the settings of multipathd and the catalog.
    pub units: usize,
}

impl Sizes {
    pub(super) fn count(&mut self, part: Part, encoded: usize) {
        *match part {
            Part::Program => &mut self.program,
            Part::Config => &mut self.config,
            Part::Secret => &mut self.secrets,
            Part::UdevRule | Part::Multipath | Part::Catalog => &mut self.units,
        } += encoded;
    }

    /// True if a pool can have the object at all.
    pub fn fits(&self) -> bool {
        self.whole <= POOL_LIMIT
    }

    /// Warnings for the person who delivers the object.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.whole > MANIFEST_LIMIT {
            warnings.push(format!(
                "too large for the assisted installer, which accepts {MANIFEST_LIMIT} bytes in one manifest"
            ));
        }
        if self.whole * 100 > POOL_LIMIT * WARNED {
            warnings.push(format!(
                "the Machine Config Operator warns above {WARNED} %, and the pool's other MachineConfigs count too"
            ));
        }
        warnings
    }
}

/// One line for each part.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, program, unpacked, config, secrets, units } = *self;
        let percent = whole * 100 / POOL_LIMIT;
        writeln!(
            f,
            "{whole:>9} bytes, {percent} % of the {POOL_LIMIT} that all MachineConfigs of a pool may have"
        )?;
        writeln!(f, "{program:>9} program ({unpacked} on the node)")?;
        for (bytes, what) in [(units, "units and udev rule"), (config, "config"), (secrets, "secrets")] {
            writeln!(f, "{bytes:>9} {what}")?;
        }
        write!(f, "{:>9} around them", whole.saturating_sub(program + units + config + secrets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let of = |whole| Sizes { whole, ..Sizes::default() };
        for (whole, warnings, fits) in [
            (MANIFEST_LIMIT, 0, true),
            (MANIFEST_LIMIT + 1, 1, true),
            (1_258_291, 1, true),
            (1_258_292, 2, true),
            (POOL_LIMIT, 2, true),
            (POOL_LIMIT + 1, 2, false),
        ] {
            assert_eq!((of(whole).warnings().len(), of(whole).fits()), (warnings, fits), "{whole}");
        }
    }

    #[test]
    fn a_line_for_each_part() {
        let sizes = Sizes {
            whole: 700_000,
            program: 650_000,
            unpacked: 1_000_000,
            config: 900,
            secrets: 30,
            units: 9_000,
        };
        let expected = "   \
   700000 bytes, 44 % of the 1572864 that all MachineConfigs of a pool may have
   650000 program (1000000 on the node)
     9000 units and udev rule
      900 config
       30 secrets
    40070 around them";
        assert_eq!(sizes.to_string(), expected);
    }
}
