//! `docs/tour.md`, by a run: the commands of its console blocks are played, and what they print is compared with the page, or
//! written into it.
//!
//! A line that begins with `# ` is a command on the node, and one that begins with `desk$ ` is a command on an administrator's
//! machine. The lines up to the next command or the end of the block are what it printed. A line that is only `…` stands for any
//! lines, so that the page need not show all of them.

mod play;

pub use play::{check, write};

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The page.
pub const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tour.md");

/// What stands for lines that the page does not show.
const LEFT_OUT: &str = "…";

/// How lines begin that say something else where the machine is slow: the check of the disks' load, and the list of what is found.
const OF_A_SLOW_MACHINE: [&str; 2] = ["iowait ", "unhealthy: "];

/// Where a command is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// On the node.
    Node,
    /// On an administrator's machine.
    Desk,
}

impl At {
    fn prompt(self) -> &'static str {
        match self {
            At::Node => "# ",
            At::Desk => "desk$ ",
        }
    }
}

/// A command of the page, and what it printed when the page was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Where it is typed.
    pub at: At,
    /// The command.
    pub command: String,
    /// What the page says that it printed.
    printed: Vec<String>,
    /// The lines of the page that `printed` has: from, up to.
    lines: (usize, usize),
}

/// The page.
#[derive(Debug)]
pub struct Tour {
    lines: Vec<String>,
    shown: Vec<Shown>,
}

impl Tour {
    /// Reads the page.
    pub fn read(page: &Path) -> Result<Self> {
        let text = fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut shown: Vec<Shown> = Vec::new();
        let mut is_console = false;
        for (number, line) in lines.iter().enumerate() {
            if line.starts_with("```") {
                is_console = line == "```console";
                continue;
            }
            let typed = || {
                [At::Node, At::Desk].into_iter().find_map(|at| Some((at, line.strip_prefix(at.prompt())?)))
            };
            match (is_console, typed()) {
                (false, _) => {}
                (true, Some((at, command))) => shown.push(Shown {
                    at,
                    command: command.into(),
                    printed: Vec::new(),
                    lines: (number + 1, number + 1),
                }),
                (true, None) => {
                    if let Some(last) = shown.last_mut() {
                        last.printed.push(line.clone());
                        last.lines.1 = number + 1;
                    }
                }
            }
        }
        Self { lines, shown }
    }

    /// The commands that are typed there, in the page's order.
    pub fn commands(&self, at: At) -> impl Iterator<Item = &Shown> {
        self.shown.iter().filter(move |shown| shown.at == at)
    }

    /// Puts what commands printed in the place of what the page says, and returns the page's text. Each must have been played.
    pub fn with(&self, played: &[(&Shown, String)]) -> Result<String> {
        let mut lines = self.lines.clone();
        // From the end, so that the numbers of the lines before stay right.
        for (shown, output) in played.iter().rev() {
            let new = shown.printed_by(output)?;
            lines.splice(shown.lines.0..shown.lines.1, new);
        }
        Ok(lines.join("\n") + "\n")
    }
}

impl Shown {
    /// Fails unless the command has printed what the page says: the same lines in the same order, but for numbers. It may print
    /// more, such as what it waits for.
    pub fn is_printed_by(&self, output: &str) -> Result<()> {
        let printed = self
            .printed
            .iter()
            .filter(|line| !OF_A_SLOW_MACHINE.iter().any(|begins| line.starts_with(begins)));
        let asked = Self { printed: printed.cloned().collect(), ..self.clone() };
        asked.matched(output).map(drop)
    }

    /// What the page is to say. Where it leaves out lines, it shows those that it has shown.
    fn printed_by(&self, output: &str) -> Result<Vec<String>> {
        if self.printed.iter().all(|line| line.trim() != LEFT_OUT) {
            return Ok(output.lines().map(|line| line.trim_end().to_owned()).collect());
        }
        self.matched(output)
    }

    /// The lines of the output in the places of the page's.
    fn matched(&self, output: &str) -> Result<Vec<String>> {
        let mut left = output.lines().map(str::trim_end);
        self.printed
            .iter()
            .map(|line| {
                if line.trim() == LEFT_OUT {
                    return Ok(line.clone());
                }
                let wanted = without_numbers(line);
                match left.find(|found| without_numbers(found) == wanted) {
                    Some(found) => Ok(found.to_owned()),
                    None => bail!(
                        "docs/tour.md says that `{}` prints {line:?}, and it printed:\n{output}",
                        self.command
                    ),
                }
            })
            .collect()
    }
}

/// A line with each number, identifier and blank space as one letter: they differ from run to run. So does the stamp's age.
fn without_numbers(line: &str) -> String {
    let line = line.trim_end_matches("; XFS writes it to its place within about 30 s");
    let mut plain = String::new();
    let mut word = String::new();
    let end = |word: &mut String, plain: &mut String| {
        let is_number = word.contains(|c: char| c.is_ascii_digit());
        if is_number {
            plain.push('N')
        } else {
            plain.push_str(word)
        }
        word.clear();
    };
    for letter in line.chars() {
        match letter {
            _ if letter.is_alphanumeric() || ".-".contains(letter) => word.push(letter),
            ' ' => {
                end(&mut word, &mut plain);
                if !plain.ends_with(' ') {
                    plain.push(' ');
                }
            }
            _ => {
                end(&mut word, &mut plain);
                plain.push(letter);
            }
        }
    }
    end(&mut word, &mut plain);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A tour

```toml
# no command
```

```console
# etcd-lun apply
[1/2] format LUN naa.6000bed1, UUID 56061f56-9509
      done (2.8 s)
# etcd-lun apply
Nothing to do.
```

```console
desk$ etcd-lun pool apply
master-0: etcd-lun apply
      …
Done: 1 node.
```
";

    #[test]
    fn commands_and_their_output() {
        let tour = Tour::parse(PAGE);
        let typed = |at| tour.commands(at).map(|shown| shown.command.as_str()).collect::<Vec<_>>();
        assert_eq!(typed(At::Node), ["etcd-lun apply", "etcd-lun apply"]);
        assert_eq!(typed(At::Desk), ["etcd-lun pool apply"]);
        let first = tour.commands(At::Node).next().unwrap();
        let printed =
            "[1/3] format LUN naa.60014056, UUID 0a1b2c3d-ffff\n      waits: for udev\n      done (12.8 s)\n";
        first.is_printed_by(printed).unwrap();
        for other in
            ["", "[1/3] make LUN naa.60014056, UUID 0a1b2c3d-ffff\n      done (12.8 s)\n", "done (2.8 s)\n"]
        {
            assert!(first.is_printed_by(other).is_err(), "{other}");
        }
    }

    #[test]
    fn the_page_with_what_was_printed() {
        let tour = Tour::parse(PAGE);
        let new = "[1/2] format LUN naa.7, UUID 8\nmore\n      done (9 s)\n";
        let desk = "master-2: etcd-lun apply\n[1/9] a\n[2/9] b\nDone: 3 node.\n";
        let shown: Vec<_> = tour.shown.iter().collect();
        let played =
            [(shown[0], new.to_owned()), (shown[1], "Nothing to do.\n".into()), (shown[2], desk.into())];
        let text = tour.with(&played).unwrap();
        assert!(text.contains("\n# etcd-lun apply\n[1/2] format LUN naa.7, UUID 8\nmore\n      done (9 s)\n# etcd-lun apply\nNothing"));
        assert!(text.ends_with("\nmaster-2: etcd-lun apply\n      …\nDone: 3 node.\n```\n"), "{text}");
        let stale = [(shown[2], "Done: 3 nodes.\n".to_owned())];
        assert!(tour.with(&stale).unwrap_err().to_string().contains("pool apply"));
    }
}
