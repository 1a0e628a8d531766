//! Counts lines of Rust.

use std::{fs, path::Path};

/// Every Rust source below a directory, with its path there.
pub fn rust(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// True for a file of unit tests, by its path in `agent/`.
pub fn is_unit_test(path: &str) -> bool {
    path.contains("/tests") || path.ends_with("tests.rs")
}

/// The lines of code of a file: without comments, blank lines, and items behind `#[cfg(test)]`, as rustfmt sets them.
pub fn code(text: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut lines =
        text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let first = lines.find(|line| !line.trim_start().starts_with("#["));
        if first.is_some_and(|line| !line.ends_with([';', '}', ','])) {
            lines.find(|line| *line == end);
        }
    }
    kept
}

#[test]
fn code_is_what_is_neither_comment_nor_test() {
    let text = "//! A.\n\nuse a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"x\"]\npub fn f() {\n    g();\n}\n\
                fn h() {\n    // Why.\n    #[cfg(test)]\n    if a {\n        b();\n    }\n    i()\n}\n";
    assert_eq!(code(text), ["use a;", "fn h() {", "    i()", "}"]);
}
