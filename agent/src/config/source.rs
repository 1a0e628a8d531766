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
