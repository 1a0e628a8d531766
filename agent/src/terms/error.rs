//! Why a text is not a term.

/// Why a text is not a term: what was given, and what is valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {wanted}")]
pub struct TermError {
    /// The text as it was given.
    pub given: String,
    /// The accepted form, as a noun phrase with an example.
    pub wanted: &'static str,
}

impl TermError {
    pub(crate) fn new(given: &str, wanted: &'static str) -> Self {
        Self { given: given.to_owned(), wanted }
    }
}
