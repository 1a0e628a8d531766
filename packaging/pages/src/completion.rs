//! Corrects and completes what clap_complete writes.

use anyhow::{Context as _, Result};
use clap_complete::Shell;
use etcd_lun::cli::grammar::first_words;

/// How clap_complete's bash script begins the name of a command's state where it sets it, and where it looks for it. The second is
/// wrong: below the first level nothing would complete (clap-rs/clap#6421).
const SET: &str = "etcd__lun__subcmd__";
const SOUGHT: &str = "etcd__subcmd__lun__subcmd__";

/// The script of a shell, which works at every level.
pub fn fixed(shell: Shell, text: Vec<u8>) -> Result<String> {
    let text = String::from_utf8(text).context("a script is not UTF-8")?;
    Ok(match shell {
        Shell::Bash => text.replace(SOUGHT, SET),
        // clap_complete offers fish no values of an operand.
        Shell::Fish => {
            let words = first_words().collect::<Vec<_>>().join(" ");
            format!(
                "{text}complete -c etcd-lun -n \"__fish_etcd_lun_using_subcommand help\" -f -a \"{words}\"\n"
            )
        }
        _ => text,
    })
}
