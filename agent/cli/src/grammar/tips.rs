//! What a person probably meant who typed a wrong command line, where clap cannot know it.

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error},
};

/// What was probably meant; None if nobody knows.
pub(super) fn tip(error: &Error, grammar: &Command) -> Option<String> {
    let typed = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let word = typed(ContextKind::InvalidArg).or_else(|| typed(ContextKind::InvalidSubcommand))?;
    // Word processors and chat programs make one long dash of two hyphens.
    if let Some(option) = word.strip_prefix(['—', '–', '−', '‐', '‑']) {
        return Some(format!("the word begins with a long dash: type two hyphens, as in --{option}"));
    }
    if word.ends_with(".toml") {
        return Some(format!("name the config with an option: --config {word}"));
    }
    typed(ContextKind::InvalidSubcommand)?;
    let below = grammar.get_subcommands().find_map(|group| {
        let has = group.get_subcommands().any(|command| command.get_name() == word);
        has.then(|| format!("etcd-lun {} {word}", group.get_name()))
    })?;
    Some(format!("the command is `{below}`"))
}
