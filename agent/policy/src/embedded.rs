//! Embeds the files of `selinux/` in the program without their comments, which would be half of the packed text.
//!
//! The headings of the sections stay, so that a reader of the rendered module finds each block in the sources.

/// The text of a file of `selinux/`, without comments and empty lines.
macro_rules! embedded {
    ($file:literal) => {{
        const WHOLE: &[u8] = include_bytes!(concat!("../../../selinux/", $file));
        const KEPT: [u8; $crate::embedded::length(WHOLE)] = $crate::embedded::kept(WHOLE);
        match str::from_utf8(&KEPT) {
            Ok(text) => text,
            Err(_) => panic!("not text"),
        }
    }};
}
pub(super) use embedded;

/// The length of what [`kept`] returns.
pub(super) const fn length(text: &[u8]) -> usize {
    copy(text, &mut [])
}

/// The lines that are neither empty nor a comment. A heading, which begins with `;; `, isn't a comment here.
pub(super) const fn kept<const LENGTH: usize>(text: &[u8]) -> [u8; LENGTH] {
    let mut kept = [0; LENGTH];
    copy(text, &mut kept);
    kept
}

/// Counts all bytes that are kept, and writes those that fit into `into`.
const fn copy(text: &[u8], into: &mut [u8]) -> usize {
    let (mut line, mut count) = (0, 0);
    while line < text.len() {
        let mut word = line;
        while word < text.len() && text[word] == b' ' {
            word += 1;
        }
        let mut end = word;
        while end < text.len() && text[end] != b'\n' {
            end += 1;
        }
        let is_heading = word + 2 < end && text[word + 1] == b';' && text[word + 2] == b' ';
        if word < end && (text[word] != b';' || is_heading) {
            let mut at = line;
            while at <= end {
                if count < into.len() {
                    into[count] = if at < end { text[at] } else { b'\n' };
                }
                (at, count) = (at + 1, count + 1);
            }
        }
        line = end + 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_nothing_else() {
        for (text, wanted) in [
            ("", ""),
            ("; a\n", ""),
            (";\n\n ; a\n;;\n", ""),
            ("(a \"b; c\")\n", "(a \"b; c\")\n"),
            ("\n;; name\n; reason\n(a\n    ; reason\n    (b))\n\n", ";; name\n(a\n    (b))\n"),
            ("(a)", "(a)\n"),
        ] {
            let mut kept = vec![0; length(text.as_bytes())];
            copy(text.as_bytes(), &mut kept);
            assert_eq!(str::from_utf8(&kept).unwrap(), wanted, "{text:?}");
        }
    }
}
