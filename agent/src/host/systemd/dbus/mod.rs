//! D-Bus, as far as a program needs it that calls methods with texts, and takes answers and signals.
//!
//! What is cited is the D-Bus Specification, version 0.43
//! (<https://dbus.freedesktop.org/doc/dbus-specification.html>). What comes in is anybody's: everything on the bus may
//! send us a message. So nothing here panics, nothing is allocated for a length before so many bytes have come, and
//! what isn't as the specification has it is an error.

mod call;
mod connection;
mod message;
mod read;
mod signature;

pub use call::Call;
pub use connection::{Connection, Signal};
pub use message::{Kind, Message, Properties};
pub use read::{Reader, Variant};

use std::io;

/// The longest message that is read: what dbus-daemon takes on a system bus (`max_message_size` in its
/// `bus/config-parser.c`), which is less than the specification's 128 MiB ("Message Format"). PID 1's longest answer, all
/// properties of a unit, has some ten kilobytes.
pub const LENGTH_MAX: usize = 32 << 20;

/// What in a message isn't as the specification has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a garbled message: {0}")]
pub struct Garbled(pub(super) &'static str);

/// Why a call was not answered as it should be.
#[derive(Debug, thiserror::Error)]
pub enum DbusError {
    /// The connection broke.
    #[error("the connection to the bus broke: {0}")]
    Io(#[from] io::Error),
    /// The bus does not take us.
    #[error("D-Bus handshake failed: the bus said `{0}`")]
    NotLetIn(String),
    /// What came is no D-Bus.
    #[error(transparent)]
    Garbled(#[from] Garbled),
    /// The answer is an error.
    #[error("{name}")]
    Refused {
        /// Its name, such as `org.freedesktop.DBus.Error.AccessDenied`.
        name: String,
        /// Its text, for people.
        said: Option<String>,
    },
    /// An argument that no message can carry.
    #[error("an argument holds a null character")]
    Null,
    /// Signals came faster than they were taken.
    #[error("more signals came than can be kept")]
    Flooded,
}

#[cfg(test)]
mod tests;
