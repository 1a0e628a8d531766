//! The terms of the domain as types, such as a portal, a WWID or a size. A text is parsed once, where it comes in, and is
//! valid from then on.
//!
//! This module has values only, no actions. Every other module may use it.

mod chap;
mod disk;
mod error;
mod file;
mod fingerprint;
mod iscsi;
mod lun;
mod mount_option;
mod named;
mod nonce;
mod quantity;
mod secret;
mod session;
mod spelling;
mod target_name;
mod text;
mod url;
mod wwid;

pub use chap::{Chap, ChapAlg, ChapError};
pub use disk::DiskLink;
pub use error::TermError;
pub use file::{AbsPath, FsLabel, FsUuid};
pub use fingerprint::{
    BLOCK, ContentHasher, Fingerprint, Hasher, OlderFingerprint, RecordedFingerprint, block_hash, checksum,
};
pub use iscsi::{INTERFACE, ISCSI_PORT, Iqn, MAX_ISCSI_NAME, Portal};
pub use lun::{Ambiguous, LunAddress, LunNumber, WantedLun};
pub use mount_option::{CONTEXT, MountClass, NETDEV, not_in_effect, options_for_etcd, similar_mount_option};
pub use named::{ErrorName, Named, NamedError};
pub use nonce::Nonce;
pub use quantity::{Bytes, Span};
pub use secret::{ENCRYPTED_NAME, Secret};
pub use session::{Endpoint, Session};
pub use spelling::nearest;
pub use target_name::TargetName;
pub use text::TextVisitor;
pub use url::ClientUrl;
pub use wwid::Wwid;
