//! Line breaks for Markdown that is made from texts of any length.

/// How many characters a line of a document may have.
const WIDTH: usize = 120;

/// Breaks longer lines between words. Rows of tables and words in backticks stay whole.
pub fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with('|') {
            lines.push(line.to_owned());
        } else {
            lines.extend(broken(line));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The lines that one becomes. Those after the first of a list's item are indented like its text.
fn broken(line: &str) -> Vec<String> {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let mut lines = vec![String::new()];
    for word in words(line) {
        let Some(last) = lines.last_mut() else { break };
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= WIDTH {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines
}

/// What stands between spaces, but for spaces in backticks.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    line.split(move |letter| {
        in_code ^= letter == '`';
        letter == ' ' && !in_code
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let code = "`a command with spaces`";
        let item = format!("- {}{code} {}", "word ".repeat(20), "more ".repeat(40).trim());
        let row = format!("| {} |", "cell ".repeat(40));
        let text = wrapped(&format!("{item}\n\n{row}\nshort\n"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..3].join("\n").replace("\n ", ""), item);
        assert!(lines[..3].iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(lines.iter().any(|line| line.contains(code)), "{text}");
        assert_eq!(&lines[3..], ["", &row, "short"]);
    }
}
