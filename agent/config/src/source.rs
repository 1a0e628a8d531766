//! The files of the config.

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
