//! Why a text is not a term.

use std::borrow::Cow;

/// Why a text is not a term: what was given, and what is valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {wanted}")]
pub struct TermError {
    /// The text as it was given.
    pub given: String,
    /// The accepted form, as a noun phrase with an example.
    pub wanted: Cow<'static, str>,
}

impl TermError {
    /// An error for this text, in place of what was wanted.
    pub fn new(given: &str, wanted: impl Into<Cow<'static, str>>) -> Self {
        Self { given: given.to_owned(), wanted: wanted.into() }
    }
}
