//! The reference of commands, as Markdown.

use std::fmt::Write as _;

use etcd_lun::cli::grammar::{ABOUT, COMMANDS, EXIT_CODES, Flag, GLOBAL};

use crate::wrap::wrapped;

/// The text of `docs/commands.md`.
pub fn text() -> String {
    let mut text = format!(
        "# Commands\n\n{ABOUT}. This page lists every command and option, for administrators. \
         It is generated from the program's own table of commands.\n\n"
    );
    text.push_str("| exit code | meaning |\n|---|---|\n");
    for (code, means) in EXIT_CODES.iter().enumerate() {
        let _ = writeln!(text, "| {code} | {means} |");
    }
    text.push_str(
        "\nWhat `--json` prints has a schema beside this page: for each command `COMMAND.schema.json`, such as \
         [status.schema.json](status.schema.json), and for failures [error.schema.json](error.schema.json). Keys are \
         added without a new version.\n",
    );
    text.push_str("\nOptions of every command:\n\n");
    flags(&mut text, &GLOBAL);
    for command in COMMANDS {
        let operand = command.operand.map(|operand| format!(" {operand}")).unwrap_or_default();
        let _ = writeln!(text, "\n## etcd-lun {}{operand}\n\n{}.\n", command.words.join(" "), command.about);
        flags(&mut text, command.flags);
        if !command.after_help.is_empty() {
            let gap = if command.flags.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", command.after_help);
        }
    }
    // Parts are separated by one blank line.
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    wrapped(text.trim_end())
}

fn flags(text: &mut String, flags: &[Flag]) {
    for flag in flags {
        let value = flag.value.map(|value| format!(" {value}")).unwrap_or_default();
        let short = flag.short.map(|short| format!("`-{short}`, ")).unwrap_or_default();
        let conflicts =
            flag.conflicts_with.map(|other| format!("; not with `--{other}`")).unwrap_or_default();
        let _ = writeln!(text, "- {short}`--{}{value}`: {}{conflicts}", flag.name, flag.help);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_docs_have_the_commands_that_there_are() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        if std::env::var_os("ETCD_LUN_REWRITE").is_some() {
            std::fs::write(page, super::text()).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(page).unwrap(),
            super::text(),
            "docs/commands.md differs from the program: regenerate it with ETCD_LUN_REWRITE=1 cargo test --package pages"
        );
    }
}
