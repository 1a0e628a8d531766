//! What a person did who wrote a text that is not TOML: the errors of `toml` in people's words, with the cure.
//!
//! No message shows a value, because it may be a secret.

use toml::de::Error;

/// Quotes that word processors and chat programs put in the place of straight ones.
const TYPOGRAPHIC: &str = "“”„‟‘’‚‛«»″′";

/// The error of `toml` for this text. For a duplicate key it doesn't give the name; that is quoted from the text unless it is in
/// quotes itself, for then it could be anything.
pub(super) fn said(text: &str, error: &Error) -> String {
    let said = one_line(error.message());
    let span = error.span().unwrap_or_default();
    let letter = text.get(span.start..).and_then(|rest| rest.chars().next());
    if text.trim_start().starts_with('{') {
        return "the file is JSON, and a config is TOML: `etcd-lun config example` prints one".into();
    }
    if let Some(quote) = typographic_quote(text, error) {
        return format!("found the typographic quote {quote}: write straight quotes, as in \"text\"");
    }
    if let Some(odd) = letter.filter(|letter| !letter.is_ascii() && !letter.is_alphanumeric()) {
        return format!(
            "found the character U+{:04X}, which is no plain space, hyphen or sign: type this line again",
            u32::from(odd)
        );
    }
    let key = text.get(span.clone()).unwrap_or_default();
    if said == "duplicate key" && key == "node" {
        return "`node` is in the file in two forms: write [[node]] on a line of its own for each node, and below it the keys without `node.`, such as `lun = 1`"
            .into();
    }
    if said == "duplicate key" && is_bare(key) {
        return format!("duplicate key `{key}`: keep one of the two");
    }
    let (before, line) = around(text, span.start);
    if before.trim_end().ends_with(':') || line.get(before.len()..).is_some_and(|rest| rest.starts_with(':'))
    {
        return "found `:` after a key: write `key = value`, because a config is TOML and not YAML; `etcd-lun config example` prints one"
            .into();
    }
    match (said.as_str(), value(before, line)) {
        (_, Some(cure)) => format!("this value is not TOML: {cure}"),
        ("key with no value, expected `=`", _) => {
            "a key without a value: write `key = value`, and a remark after #".into()
        }
        ("missing comma between array elements, expected `,`", _) => {
            "the list before this place does not end: write ] after its last item, or a comma before the next one".into()
        }
        ("invalid basic string, expected `\"`", _) => {
            "the text in quotes does not end on its line: write \" at its end".into()
        }
        _ => said,
    }
}

/// The line of a place in a text, and what stands before the place in it.
fn around(text: &str, at: usize) -> (&str, &str) {
    let start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let line = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
    (text.get(start..at).unwrap_or_default(), line)
}

/// What to write in the place of a value without quotes in which `toml` has found the error.
fn value(before: &str, line: &str) -> Option<&'static str> {
    let (_, value) = line.split_once('=').filter(|(key, _)| key.len() < before.len())?;
    let value = value.trim();
    if value.starts_with(['"', '\'', '{']) || value.starts_with('[') && !before.contains('[') {
        return None;
    }
    let word = value.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    Some(match word.to_ascii_lowercase().as_str() {
        _ if value.is_empty() || value.starts_with('#') => "write a value after `=`",
        _ if value.starts_with(['=', '>', '<']) => "write one `=` between key and value",
        "yes" | "no" | "on" | "off" | "true" | "false" => {
            "write true or false, in lower case and without quotes"
        }
        _ if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) && word == value => {
            "write the number without a zero in front"
        }
        _ => {
            "write a text in straight quotes, as in iqn = \"iqn.2024-02.com.example:etcd\", and a remark after #"
        }
    })
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// The typographic quote at the place of an error, or in the line of a text that does not end. No more of the line is shown:
/// it may hold a secret.
fn typographic_quote(text: &str, error: &Error) -> Option<char> {
    let at = error.span()?.start;
    let is_quote = |letter: &char| TYPOGRAPHIC.contains(*letter);
    let here = text.get(at..)?.chars().next().filter(is_quote);
    let open = error.message().contains("basic string");
    let line = text.get(..at)?.rsplit('\n').next().unwrap_or_default();
    here.or_else(|| line.chars().find(is_quote).filter(|_| open))
}

/// A message without its line breaks.
pub(super) fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
