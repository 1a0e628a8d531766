//! `pool fetch`: the program of the next object, on every node before the object.

use super::reach::{ANSWER_LIMIT, Reach, names};
use crate::{config, exit::Exit, output::print_err, output::print_out};
use clap::{Args, ValueHint};
use host::exec::one_line;
use node::layout::COPIES;
use std::{fmt::Write as _, path::Path};
use terms::fail;
use unit::{PROGRAM, PROGRAM_SCRIPT};

/// `pool fetch`
#[derive(Debug, Args)]
pub(crate) struct FetchOptions {
    /// The object that is applied next, as `render machineconfig --image` has written it
    #[arg(value_name = "OBJECT", value_hint = ValueHint::FilePath)]
    object: String,
    #[command(flatten)]
    reach: Reach,
}

/// The script in a unit of its own, so that PID 1 starts podman, with the cluster's proxy. `--collect` leaves no failed unit.
const RUN: &str = "systemd-run --quiet --collect --wait --pipe -p EnvironmentFile=-/etc/mco/proxy.env bash";

const NOT_BEFOREHAND: &str = "this node can fetch nothing beforehand: copy the program there (guide.md, \"Without a registry\"), or have its boot with the object fetch it";

/// `pool fetch`. What counts is what each node's own sha256sum says of its files, before and afterwards.
pub(crate) fn fetch(file: Option<&Path>, FetchOptions { object, reach }: &FetchOptions) -> Result<(), Exit> {
    let (host, pool, _) = config::load_pool(file)?;
    let nodes = names(&pool, &reach.node)?;
    let text = host.root.read(object).map_err(|error| Exit::Usage(error.to_string()))?;
    let (image, sums) = delivery::ordered(&text).ok_or_else(|| {
        Exit::Usage(format!("{object} names no image: give one object of `render machineconfig --image`"))
    })?;
    let copies: Vec<_> = sums.iter().map(|sum| format!("{COPIES}/{sum}")).collect();
    let look = format!("sha256sum --tag {PROGRAM_SCRIPT} {PROGRAM} {}", copies.join(" "));
    let has = |said: &str| sums.iter().zip(&copies).any(|(sum, copy)| sum_of(said, copy) == Some(sum));
    // What a node has said, wherever `oc debug` or ssh print it.
    let ask = |nodes: &[String], what: &str, limit| {
        let answers = reach.via.ask_all(&host, nodes, &what.split(' ').collect::<Vec<_>>(), limit);
        answers.into_iter().map(|answer| match answer {
            Ok(output) => format!("{}\n{}", output.stdout, output.stderr),
            Err(error) => format!("{:#}", anyhow::Error::from(error)),
        })
    };
    print_err(&format!("Fetching {image} where it is not there yet."));
    // The node, the program that runs there now, and whether it has the new one, or why not. Each node with an object has the script.
    let mut rows: Vec<(String, Option<String>, Result<&str, String>)> = Vec::new();
    for (said, node) in ask(&nodes, &look, ANSWER_LIMIT).zip(nodes) {
        let now = sum_of(&said, PROGRAM_SCRIPT).map(|_| sum_of(&said, PROGRAM).unwrap_or("none").to_owned());
        let has = if now.is_some() && has(&said) { Ok("was there") } else { Err(why_not(&said)) };
        rows.push((node, now, has));
    }
    // One sum after the other: only in a pool of several architectures the first one may be that of another node.
    for sum in &sums {
        let mut lacking: Vec<_> = rows.iter_mut().filter(|row| row.1.is_some() && row.2.is_err()).collect();
        let nodes: Vec<_> = lacking.iter().map(|(node, ..)| node.clone()).collect();
        // The script pulls for five minutes at most, and twice if the first image is damaged.
        let told = ask(&nodes, &format!("{RUN} {PROGRAM_SCRIPT} ahead {image} {sum}"), 5 * ANSWER_LIMIT);
        for ((row, told), seen) in lacking.iter_mut().zip(told).zip(ask(&nodes, &look, ANSWER_LIMIT)) {
            row.2 = if has(&seen) { Ok("fetched") } else { Err(why_not(&told)) };
        }
    }
    let width = rows.iter().map(|(node, ..)| node.len()).max().unwrap_or_default();
    let (mut table, mut reasons) = (format!("{:<width$}  NOW           PROGRAM", "NODE"), Vec::new());
    for (node, now, has) in &rows {
        let now = now.as_ref().map_or("no answer", |now| now.get(..12).unwrap_or(now));
        let _ = write!(table, "\n{node:<width$}  {now:<12}  {}", has.as_deref().unwrap_or("COULD NOT"));
        reasons.extend(has.as_ref().err().map(|why| format!("\n\n{node}: {why}")));
    }
    print_out(&format!("{table}{}", reasons.concat()));
    if !reasons.is_empty() {
        let (lack, all) = (reasons.len(), rows.len());
        fail!(
            PoolCannotBegin,
            "{lack} of {all} nodes lack the program of {object} (see above): run this again"
        );
    }
    Ok(())
}

/// What a line of `sha256sum --tag` says of a file. It is a whole line, or nothing: `oc debug` mixes both outputs.
fn sum_of<'a>(said: &'a str, path: &str) -> Option<&'a str> {
    let begins = format!("SHA256 ({path}) = ");
    said.lines().find_map(|line| line.trim_end().strip_prefix(&begins)).filter(|sum| sum.len() == 64)
}

/// What the script has said last, or whatever was said; and what to do where the script is absent or of a release before.
fn why_not(said: &str) -> String {
    let last = said.lines().filter_map(|line| line.trim().strip_prefix("etcd-lun-program: ")).next_back();
    match last {
        Some(last) if !last.starts_with("usage: ") => last.to_owned(),
        None if !said.contains(PROGRAM_SCRIPT) => one_line(said),
        _ => format!("{}: {NOT_BEFOREHAND}", one_line(said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_a_script() {
        let refused = "Warning: x\netcd-lun-program: first\n  etcd-lun-program: cannot fetch\nerror: non-zero exit code\n";
        assert_eq!(why_not(refused), "cannot fetch");
        assert_eq!(why_not("ssh: no route\n to host"), "ssh: no route; to host");
        for before in [
            "etcd-lun-program: usage: program.sh place [SECONDS] | fetch\n".to_owned(),
            format!("bash: {PROGRAM_SCRIPT}: No such file or directory"),
        ] {
            assert!(why_not(&before).ends_with(NOT_BEFOREHAND), "{before}");
        }
    }

    #[test]
    fn a_sum_is_a_whole_line() {
        let sum = "1".repeat(64);
        assert_eq!(sum_of(&format!("x\nSHA256 (/a) = {sum}\r\ny"), "/a"), Some(&*sum));
        for other in
            [format!("x SHA256 (/a) = {sum}"), format!("SHA256 (/b) = {sum}"), "SHA256 (/a) = ".into()]
        {
            assert_eq!(sum_of(&other, "/a"), None);
        }
    }
}
