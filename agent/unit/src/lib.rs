//! Renders the systemd units, and compares an installed unit with the rendered one. Pure.
//!
//! The templates are in `units/`, with a reason above each line. A value is escaped for systemd before it is inserted, or
//! refused. Other modules install and start the units.

mod drop_in;
mod escape;
mod for_config;
mod hands;
mod health;
mod mount;
mod program;
mod service;
mod template;

pub use drop_in::{DROP_IN, Dependency, DropIn, MULTIPATHD, drop_ins, obsolete};
pub use escape::{device_unit_name, escape_path, mount_unit_name};
pub use for_config::{
    InstalledBy, PACKAGED_PROGRAM, PROGRAM, UnitInput, data_mount_for, for_config, for_config_installed_by,
    state_of,
};
pub use hands::{HANDS_DIR, HANDS_PATH, HANDS_SERVICE, HANDS_SOCKET};
pub use health::{CATALOG, CATALOG_FILE, HEALTH_SERVICE, HEALTH_TIMER, LOST};
pub use mount::{DataMount, VERIFIED, data_mount};
pub use program::{PROGRAM_ORDER, PROGRAM_PACKED, PROGRAM_SCRIPT, PROGRAM_SERVICE, program_script};
pub use service::{
    ISCSID_SERVICE, KUBELET, LOST_SERVICE, MULTIPATH_SERVICE, PATH_TARGET, SELINUX_CONTEXT, SELINUX_SERVICE,
    SERVICE, Service, iscsid_service, lost_units, multipath_service, selinux_service, service,
    shutdown_service,
};
pub use template::UnitError;

use std::fmt;

/// A unit, ready to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The file name, such as `var-lib-etcd.mount`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// The first line in which an installed unit differs from the rendered one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The line, counted from 1.
    pub line: usize,
    /// The line of the installed unit; none if the unit ends before it.
    pub installed: Option<String>,
    /// The line of the rendered unit; none if that ends before it.
    pub rendered: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |line: &Option<String>| match line {
            Some(line) => format!("`{}`", line.escape_debug()),
            None => "the end".into(),
        };
        write!(f, "line {} is {}, expected {}", self.line, shown(&self.installed), shown(&self.rendered))
    }
}

/// Compares an installed unit with the rendered one, line by line.
///
/// Only white space at the ends of lines and empty lines at the end of the text may differ: systemd ignores them
/// (`config_parse` in its `src/shared/conf-parser.c` strips them).
pub fn unit_text_matches(installed: &str, rendered: &str) -> Result<(), Difference> {
    let (installed, rendered) = (lines(installed), lines(rendered));
    let length = installed.len().max(rendered.len());
    match (0..length).find(|&at| installed.get(at) != rendered.get(at)) {
        None => Ok(()),
        Some(at) => {
            let line = |lines: &[&str]| lines.get(at).map(|&line| line.to_owned());
            Err(Difference { line: at + 1, installed: line(&installed), rendered: line(&rendered) })
        }
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.trim_end_matches(SPACE).split('\n').map(|line| line.trim_end_matches(SPACE)).collect()
}

/// systemd's white space (`WHITESPACE` in its `src/fundamental/string-util-fundamental.h`).
const SPACE: &[char] = &[' ', '\t', '\n', '\r'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching() {
        let rendered = "[Unit]\nA=1\n\nB=2\n";
        for same in [rendered, "[Unit]\nA=1\n\nB=2", "[Unit]  \r\nA=1\t\n \nB=2\n\n \n"] {
            assert_eq!(unit_text_matches(same, rendered), Ok(()), "{same:?}");
        }
        for (other, said) in [
            ("", "line 1 is ``, expected `[Unit]`"),
            ("[Unit]\nA=1\n", "line 3 is the end, expected ``"),
            ("[Unit]\nA=1\n\nB=2\nC=3", "line 5 is `C=3`, expected the end"),
            ("[Unit]\nA=1\\\n\nB=2\n", r"line 2 is `A=1\\`, expected `A=1`"),
            ("[Unit]\n A=1\n\nB=2\n", "line 2 is ` A=1`, expected `A=1`"),
            ("[Unit]\nA=1\u{a0}\n\nB=2\n", r"line 2 is `A=1\u{a0}`, expected `A=1`"),
            ("[Unit]\nA=1\u{1b}[2K\n\nB=2\n", r"line 2 is `A=1\u{1b}[2K`, expected `A=1`"),
        ] {
            assert_eq!(unit_text_matches(other, rendered).unwrap_err().to_string(), said);
        }
    }
}
