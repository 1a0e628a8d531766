//! YAML as this program writes it: block style, keys in the order given, the same bytes for the same value.

use serde_json::Value;
use std::fmt::Write as _;

/// A value.
#[derive(Debug)]
pub(super) enum Yaml {
    /// A string.
    Text(String),
    /// A number or a boolean, as it is.
    Plain(String),
    /// Items in order; at least one.
    List(Vec<Yaml>),
    /// Keys, which are plain scalars, and their values, in order; at least one.
    Map(Vec<(&'static str, Yaml)>),
}

impl Yaml {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The value as a document.
    pub(super) fn document(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out
    }

    /// The value as JSON, of which other programs make the same object.
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            // Whoever calls something plain has written a number or a boolean. Anything else would be a text.
            Self::Plain(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Map(entries) => {
                entries.iter().map(|(key, value)| ((*key).to_owned(), value.json())).collect()
            }
        }
    }

    /// Writes a value that starts on a line of its own.
    fn write(&self, out: &mut String, indent: usize) {
        match self {
            Self::Text(_) | Self::Plain(_) => self.write_after(out, indent),
            Self::Map(entries) => {
                for (key, value) in entries {
                    pad(out, indent);
                    out.push_str(key);
                    out.push(':');
                    value.write_after(out, indent);
                }
            }
            Self::List(items) => {
                for item in items {
                    let start = out.len();
                    item.write(out, indent + 2);
                    // The item's own first indentation makes room for its dash.
                    out.replace_range(start + indent..start + indent + 2, "- ");
                }
            }
        }
    }

    /// Writes a value behind its key.
    fn write_after(&self, out: &mut String, indent: usize) {
        match self {
            Self::Plain(text) => {
                let _ = writeln!(out, " {text}");
            }
            Self::Text(text) if is_readable_block(text) => {
                out.push_str(" |\n");
                for line in text.lines() {
                    if !line.is_empty() {
                        pad(out, indent + 2);
                    }
                    out.push_str(line);
                    out.push('\n');
                }
            }
            Self::Text(text) => {
                let _ = writeln!(out, " {}", quoted(text));
            }
            // The dashes of a list stand below its key, as in what `oc get --output yaml` prints: the object is shorter.
            Self::List(_) => {
                out.push('\n');
                self.write(out, indent);
            }
            Self::Map(_) => {
                out.push('\n');
                self.write(out, indent + 2);
            }
        }
    }
}

fn pad(out: &mut String, width: usize) {
    out.extend(std::iter::repeat_n(' ', width));
}

/// Returns true if a literal block (YAML 1.2, section 8.1.2) shows the text as it is, without indicators: lines of
/// printable ASCII that neither begin nor end with a space, one line break at the end.
fn is_readable_block(text: &str) -> bool {
    let plain = |line: &str| {
        line.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
            && !line.starts_with(' ')
            && !line.ends_with(' ')
    };
    text.ends_with('\n') && !text.ends_with("\n\n") && !text.starts_with('\n') && text.split('\n').all(plain)
}

/// Double-quoted (YAML 1.2, section 7.3.1), in ASCII: what is left to a reader's idea of Unicode, such as line breaks
/// at U+2028, is escaped.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            ' '..='~' => write!(out, "{c}"),
            _ if code <= 0xff => write!(out, "\\x{code:02x}"),
            _ if code <= 0xffff => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Yaml {
        Yaml::Map(vec![
            ("kind", Yaml::text("Sample")),
            (
                "inner",
                Yaml::Map(vec![(
                    "list",
                    Yaml::List(vec![
                        Yaml::Map(vec![
                            ("name", Yaml::text("a")),
                            ("text", Yaml::text("[x]\n# y: z\n\nb=\"c\"\n")),
                            ("enabled", Yaml::Plain("true".into())),
                        ]),
                        Yaml::Map(vec![(
                            "deep",
                            Yaml::Map(vec![(
                                "list",
                                Yaml::List(vec![Yaml::Map(vec![("n", Yaml::Plain("7".into()))])]),
                            )]),
                        )]),
                    ]),
                )]),
            ),
        ])
    }

    #[test]
    fn golden() {
        let expected = "\
kind: \"Sample\"
inner:
  list:
  - name: \"a\"
    text: |
      [x]
      # y: z

      b=\"c\"
    enabled: true
  - deep:
      list:
      - n: 7
";
        assert_eq!(sample().document(), expected);
        assert_eq!(serde_norway::from_str::<Value>(expected).unwrap(), sample().json());
    }

    /// Every text comes back as it was, whatever form it got.
    #[test]
    fn a_reader_gets_the_same_texts() {
        let odd = [
            "",
            "a",
            "no",
            "1",
            "~",
            "a: b",
            "# c",
            "'",
            "\"",
            "\\",
            "\n",
            "a\n",
            "a\n\n",
            "a\nb",
            " a\n",
            "a \n",
            "\ta\n",
            "a\n\n\nb\n",
            "a\r\nb\n",
            "ü\n",
            "\u{0}\u{7f}\u{85}\u{a0}\u{2028}\u{feff}\u{ffff}\u{1f600}",
            "%TAG\n",
            "---\n",
            "...\na\n",
            "- a\n",
            "{}\n",
            "a\n b\n",
            "\u{1b}[2K",
        ];
        let texts = odd.iter().map(|text| Yaml::Map(vec![("t", Yaml::text(*text))])).collect();
        let document = Yaml::Map(vec![("all", Yaml::List(texts))]).document();
        let read: serde_json::Value = serde_norway::from_str(&document).unwrap();
        for (text, read) in odd.iter().zip(read["all"].as_array().unwrap()) {
            assert_eq!(read["t"], *text, "{text:?} in\n{document}");
        }
        assert!(document.is_ascii());
    }
}
