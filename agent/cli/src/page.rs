//! Lines of a label and a text.

use node::Fact;
use std::fmt::Write as _;

/// Lines of a label and a text, with aligned texts.
#[derive(Debug, Default)]
pub(super) struct Page(pub(super) String);

const LABEL_WIDTH: usize = 16;

impl Page {
    pub(super) fn line(&mut self, label: &str, text: impl AsRef<str>) {
        for (at, part) in text.as_ref().lines().enumerate() {
            let label = if at == 0 { label } else { "" };
            let _ = writeln!(self.0, "{label:<LABEL_WIDTH$}{part}");
        }
    }

    pub(super) fn fact<T>(&mut self, label: &str, fact: &Fact<T>, show: impl FnOnce(&T) -> String) {
        match fact {
            Fact::Known(value) => self.line(label, show(value)),
            Fact::Unknown(why) => self.line(label, format!("unknown: {why}")),
        }
    }
}
