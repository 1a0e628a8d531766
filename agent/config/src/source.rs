//! The files of the config, and places in them.

use std::fmt;

/// The main file. Further fragments are in [`FRAGMENTS`].
pub const MAIN_FILE: &str = "/etc/etcd-lun/config.toml";
/// The directory of further fragments.
pub const FRAGMENTS: &str = "/etc/etcd-lun/config.d";

/// One file's text.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file's path, for messages.
    pub path: String,
    /// The file's content.
    pub text: String,
}

/// The line and column of a byte, both counted from 1; a column is a character.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (1 + before.matches('\n').count(), 1 + line.chars().count())
}

/// A line of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The file.
    pub path: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The line with a caret below, each after a line break; empty if it may hold a secret, or if no error shows it.
    pub excerpt: String,
}

/// A table of a list: its file and its number there, both counted from 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nth {
    pub file: usize,
    pub at: usize,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.path, self.line)
    }
}

/// Where in the config somebody has to correct an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spot {
    /// Somewhere: no line has the key, or its table.
    Whole,
    /// On this line.
    Line(Box<Line>),
    /// In an entry.
    Entry {
        /// How messages name the entry, with its line.
        title: String,
        /// Where the entry begins. In a box, because it would make every error larger.
        line: Box<Line>,
    },
}

impl Spot {
    /// The line, if it is known.
    pub(super) fn line(&self) -> Option<&Line> {
        match self {
            Self::Whole => None,
            Self::Line(line) | Self::Entry { line, .. } => Some(line),
        }
    }

    /// The text of the line, as the last part of a message.
    pub(super) fn excerpt(&self) -> &str {
        self.line().map_or("", |line| &line.excerpt)
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("the config"),
            Self::Line(line) => line.fmt(f),
            Self::Entry { title, .. } => write!(f, "the entry {title}"),
        }
    }
}
