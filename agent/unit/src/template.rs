//! Inserts values into the templates of units.

use terms::AbsPath;

/// A value that can't be written in a unit file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rendering {unit}: {key} can't be `{}`: {why}", .value.escape_debug())]
pub struct UnitError {
    /// The unit.
    pub unit: String,
    /// The setting, with its `=`.
    pub key: &'static str,
    /// The value.
    pub value: String,
    /// Why the setting can't have the value.
    pub why: &'static str,
}

/// The longest name of a unit in bytes, the same as of a file.
pub(super) const NAME_MAX: usize = 255;

/// Inserts the values into the template. Empty lines separate its parts: a setting with the reason above it. A part whose
/// setting has no value is left out.
pub(super) fn filled(template: &str, values: &[(&str, String)]) -> String {
    let filled: Vec<_> = template.split("\n\n").map(|part| fill(part, values)).collect();
    let kept: Vec<_> =
        filled.iter().map(String::as_str).filter(|part| !part.trim_end().ends_with('=')).collect();
    bare(&kept.join("\n\n"))
}

/// The text as nodes get it: of the comments only the line that says who writes the file. The reasons of the settings are for whoever
/// changes the template, and another reason must not drain and reboot the nodes of a pool.
pub(super) fn bare(text: &str) -> String {
    let comments = text.lines().filter(|line| line.starts_with('#'));
    let head = comments.filter(|line| line.starts_with("#!") || line.contains("`etcd-lun render`"));
    let rest = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.is_empty());
    let is_section = |line: &str| line.starts_with('[') && line.ends_with(']');
    let rest = rest.map(|line| format!("{}{line}\n", if is_section(line) { "\n" } else { "" }));
    head.map(|line| format!("{line}\n")).chain(rest).collect()
}

/// Replaces each name by its value, in one pass: a value that contains a name isn't replaced again.
fn fill(part: &str, values: &[(&str, String)]) -> String {
    let mut text = String::new();
    let mut rest = part;
    while let Some((at, (name, value))) =
        values.iter().filter_map(|entry| rest.find(entry.0).map(|at| (at, entry))).min_by_key(|(at, _)| *at)
    {
        text.push_str(rest.get(..at).unwrap_or_default());
        // In unit files `%` starts a specifier (systemd.unit(5)).
        text.push_str(&value.replace('%', "%%"));
        rest = rest.get(at + name.len()..).unwrap_or_default();
    }
    text + rest
}

/// Why a value can't be the end of a line of a unit file; none if it can.
pub(super) fn unfit(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        Some("it is empty")
    } else if value.chars().any(char::is_control) {
        Some("it holds a control character")
    } else if value.starts_with(' ') || value.ends_with(' ') {
        Some("it begins or ends with a space")
    } else if value.ends_with('\\') {
        Some("it ends with a backslash, which joins lines")
    } else {
        None
    }
}

/// Why a path can't be an argument in a unit file.
pub(super) const NOT_PLAIN: &str =
    "systemd would split or expand it; use letters, digits, `/`, `-`, `_`, `.`";

/// True if a path can be an argument in a unit file as it is.
pub(super) fn is_plain_path(path: &AbsPath) -> bool {
    path.as_str().chars().all(is_plain)
}

/// True for a character that systemd takes as it is in an argument.
pub(super) fn is_plain(letter: char) -> bool {
    letter.is_ascii_graphic() && !"\"'\\$%;".contains(letter)
}

/// True if a text has the form of a unit's name: systemd.unit(5), "Description".
pub(super) fn is_unit_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || br":-_.\@".contains(&b);
    let kinds = [
        "service",
        "socket",
        "device",
        "mount",
        "automount",
        "swap",
        "target",
        "path",
        "timer",
        "slice",
        "scope",
    ];
    text.len() <= NAME_MAX
        && text.bytes().all(plain)
        && text.rsplit_once('.').is_some_and(|(prefix, kind)| !prefix.is_empty() && kinds.contains(&kind))
}
