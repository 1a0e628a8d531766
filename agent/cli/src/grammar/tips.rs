//! What a person probably meant who typed a wrong command line, where clap cannot know it.

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

/// Where clap puts its own tips.
const USAGE: &str = "\n\nUsage: ";

/// The text of clap's error with a tip before the usage. The tip by which clap passes an unknown option as a value is left out: no
/// value here begins with two hyphens.
pub(super) fn with_tip(text: String, error: &Error, grammar: &Command) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        && let Some((_, usage)) = text.split_once(USAGE)
    {
        let group = usage.split(" [").next().unwrap_or_default();
        return format!("error: a command is missing after `{group}`{USAGE}{usage}");
    }
    let text = match text.split_once("\n\n  tip: to pass '-") {
        Some((before, rest)) => match rest.split_once("\n\n") {
            Some((_, after)) => format!("{before}\n\n{after}"),
            None => before.to_owned(),
        },
        None => text,
    };
    match (tip(error, grammar), text.split_once(USAGE)) {
        (Some(tip), Some((said, usage))) => format!("{said}\n\n  tip: {tip}{USAGE}{usage}"),
        _ => text,
    }
}

fn tip(error: &Error, grammar: &Command) -> Option<String> {
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
