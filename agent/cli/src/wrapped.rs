//! Fits a text in Markdown to a terminal.

use std::mem::take;

/// The text in lines of at most `width` columns. A table becomes paragraphs, one for each row. Blocks of code and what stands in
/// backticks stay whole, so that a command can be copied.
pub(super) fn wrapped(markdown: &str, width: usize) -> String {
    let (mut text, mut block, mut code) = (String::new(), String::new(), false);
    for line in markdown.lines().chain([""]) {
        let bare = line.trim_start();
        let fence = bare.starts_with("```");
        let begins = code || fence || bare.is_empty() || bare.starts_with(['|', '#']) || marker(bare) > 0;
        if !begins && !block.is_empty() && !block.starts_with('#') {
            block = format!("{block} {}", bare.trim_start_matches("> "));
            continue;
        }
        text += &filled(&take(&mut block), width);
        code ^= fence;
        if code || fence || bare.is_empty() && !text.ends_with("\n\n") {
            text = text + line + "\n";
        } else if !bare.starts_with('|') {
            line.clone_into(&mut block);
        } else if bare.contains(char::is_alphanumeric) {
            let cells = bare.trim_matches(['|', ' ']).replacen(" | ", ": ", 1);
            text = text + &filled(&cells, width) + "\n";
        }
    }
    text
}

/// How long the mark is with which an item of a list begins; 0 for what is no item.
fn marker(line: &str) -> usize {
    let mark = line.split(' ').next().unwrap_or_default();
    let is_number = mark.strip_suffix('.').is_some_and(|number| number.parse::<u8>().is_ok());
    if mark == "-" || is_number { mark.len() + 1 } else { 0 }
}

/// One paragraph. The further lines of an item of a list begin below its first word.
fn filled(paragraph: &str, width: usize) -> String {
    let bare = paragraph.trim_start();
    let indent = paragraph.len() - bare.len();
    let (mut text, mut line, mut word) = (String::new(), " ".repeat(indent), String::new());
    for part in bare.split_inclusive(' ') {
        word += part;
        if word.matches('`').count() % 2 == 1 {
            continue;
        }
        if line.chars().count() + word.trim_end().chars().count() > width && !line.trim().is_empty() {
            text = text + line.trim_end() + "\n";
            line = " ".repeat(indent + marker(bare));
        }
        line += &take(&mut word);
    }
    line += &word;
    if bare.is_empty() { text } else { text + line.trim_end() + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_paragraphs_and_commands_stay_whole() {
        let markdown = "# A heading\nOne two three four\nfive six.\n\n1. Run `a b c d e f g`\n   now.\n   - again\n\n\
                        ```\n| a very long line of code\n```\n| x | y | z |\n|---|---|---|\n| 1; a | 2 `x y z` two | |\n\n> quoted\n> words";
        let text = "# A heading\nOne two three\nfour five six.\n\n1. Run\n   `a b c d e f g`\n   now.\n   - again\n\n\
                    ```\n| a very long line of code\n```\nx: y | z\n\n1; a: 2 `x y z`\ntwo\n\n> quoted words\n\n";
        assert_eq!(wrapped(markdown, 16), text);
    }
}
