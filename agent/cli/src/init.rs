//! `config init`: a first config from the answers to a few questions.

use super::{
    exit::Exit,
    output::{print_document, print_err, print_err_part},
    values::absolute,
    written,
};
use anyhow::Context as _;
use clap::{Args, ValueHint};
use config::{MAIN_FILE, Pool, Source};
use host::Host;
use std::{
    collections::BTreeSet,
    io::{self, BufRead as _, IsTerminal as _},
    path::PathBuf,
};
use terms::{Iqn, LunNumber, Portal, Wwid};

/// `config init`
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Write to this file, with mode 0600; without it, print to standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = absolute())]
    output: Option<PathBuf>,
}

/// Asks, and writes the config. The questions are on standard error, the answers are lines of standard input.
pub(super) fn run(options: &Options) -> Result<(), Exit> {
    let host = Host::machine().context("setting up")?;
    // Before the questions: nobody wants to answer them for nothing.
    if let Some(file) = &options.output {
        written::path(&host, file)?;
        if host.root.mode(file).context("looking for the file of --output")?.is_some() {
            return Err(Exit::Usage(format!(
                "--output: {} is there already, and its content would be lost: name another file, or remove it",
                file.display()
            )));
        }
    }
    let stdin = io::stdin();
    let on_terminal = stdin.is_terminal();
    let text = config(&mut Questions { answers: &mut stdin.lock().lines(), on_terminal })?;
    // What was asked for is checked as every node would check it.
    let pool = Pool::load(&[Source { path: MAIN_FILE.into(), text: text.clone() }])?;
    pool.rows()?;
    for warning in pool.warnings() {
        print_err(&format!("warning: {warning}"));
    }
    match &options.output {
        Some(file) => written::write(&host, file, &text)?,
        None => print_document(&text)?,
    }
    if text.contains(NOT_YET) {
        print_err(
            "note: the first node moves first. The others have `migrate = false`: remove that line when the first node's etcd runs from its LUN",
        );
    }
    let file = options.output.as_ref().map_or("FILE".into(), |file| file.display().to_string());
    print_err(&format!(
        "next: `etcd-lun --config {file} config check`, then rollout.md, or one-node.md for one node by hand"
    ));
    Ok(())
}

/// Where the answers come from.
struct Questions<'a> {
    answers: &'a mut dyn Iterator<Item = io::Result<String>>,
    /// A person sees the questions, and may correct an answer.
    on_terminal: bool,
}

impl Questions<'_> {
    /// Asks until the answer can be read. An empty answer is the default.
    fn ask<T>(
        &mut self,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Exit> {
        loop {
            if self.on_terminal {
                let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
                print_err_part(&format!("{question}{shown}: "));
            }
            let Some(line) = self.answers.next().transpose().context("reading an answer")? else {
                return Err(Exit::Usage(format!(
                    "standard input ended before the answer to `{question}`: no config was written"
                )));
            };
            let line = line.trim();
            match read(if line.is_empty() { default } else { line }) {
                Ok(answer) => return Ok(answer),
                Err(why) if self.on_terminal => print_err(&why),
                Err(why) => return Err(Exit::Usage(format!("`{question}`: {why}"))),
            }
        }
    }
}

/// Returns the config that the answers make, with a comment where a person may want to change it.
fn config(questions: &mut Questions<'_>) -> Result<String, Exit> {
    let portals = questions.ask("The target's portals, such as 192.168.10.5, 192.168.11.5", "", portals)?;
    let target = questions.ask(
        "The target's name (the array shows it, and on a node `iscsiadm -m discovery -t sendtargets -p PORTAL`)",
        "",
        |text| text.parse::<Iqn>().map_err(|error| error.to_string()),
    )?;
    let user =
        questions.ask("The user name of CHAP; `none` without CHAP", "none", |text| Ok(text.to_owned()))?;
    let runtime =
        questions.ask("What runs etcd: static-pod (OpenShift) or systemd", "static-pod", |text| {
            let known = ["static-pod", "systemd"].contains(&text);
            if known { Ok(quoted(text)) } else { Err(format!("`{text}` is neither static-pod nor systemd")) }
        })?;
    let chap = match user.as_str() {
        "none" => String::new(),
        user => format!(
            "\n[target.chap]\nusername = {}\n\
             credential = \"chap\"                # each node needs it: rollout.md, \"Bring the secret to the nodes\"\n",
            quoted(user)
        ),
    };
    let mut text = format!(
        "# A config of etcd-lun, the same on all nodes: {MAIN_FILE}, mode 0600.\n\
         # `etcd-lun config check` checks it, and docs/config.md lists every key.\n\n\
         [target]\niqn = {}\nportals = [{}]\n{chap}\n\
         [etcd]\nruntime = {runtime}\n\n\
         [boot]\ngate = \"etcd\"                      # \"kubelet\": without its LUN, nothing of the cluster starts on a node\n",
        quoted(target.as_str()),
        portals.join(", ")
    );
    let names = "The host names of the nodes, such as master-0, master-1, master-2";
    for (at, name) in questions.ask(names, "", host_names)?.iter().enumerate() {
        let initiator = questions.ask(
            &format!("The initiator name of {name}, which the array must allow and no other computer may have, in no cluster"),
            &format!("iqn.1994-05.com.redhat:{}", name.to_ascii_lowercase()),
            |text| Iqn::of_initiator(text).map_err(|error| error.to_string()),
        )?;
        // The next node's number depends on the array: it may number the LUNs anew for each initiator, or not.
        let default = if at == 0 { "1" } else { "" };
        let question = format!("The LUN of {name}: its number at the array, or its WWID");
        let lun = questions.ask(&question, default, lun_line)?;
        text += &format!(
            "\n[[node]]\nhostname = {}\ninitiator = {}\n{lun}\n{}",
            quoted(name),
            quoted(initiator.as_str()),
            if at == 0 { "" } else { NOT_YET }
        );
    }
    Ok(text)
}

/// All nodes but the first wait: it is the canary.
const NOT_YET: &str = "migrate = false                    # not yet: remove this line when the first node's etcd serves from its LUN\n";

/// Reads the portals, as values of TOML.
fn portals(text: &str) -> Result<Vec<String>, String> {
    let read =
        |part: &String| part.parse::<Portal>().map(|_| quoted(part)).map_err(|error| error.to_string());
    parts(text)?.iter().map(read).collect()
}

fn host_names(text: &str) -> Result<Vec<String>, String> {
    let names = parts(text)?;
    let mut seen = BTreeSet::new();
    for name in &names {
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) {
            return Err(format!("`{name}` is not a host name"));
        }
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(format!("`{name}` is there twice: each node has one entry"));
        }
    }
    Ok(names)
}

/// Reads a LUN, as the line of its key.
fn lun_line(text: &str) -> Result<String, String> {
    match text.parse::<u32>() {
        Ok(number @ ..=LunNumber::ONE_BYTE) => Ok(format!(
            "lun = {number}                            # better its wwid: `etcd-lun luns` on the node prints it"
        )),
        Ok(number) => Err(format!(
            "arrays encode number {number} in different ways: give the LUN's WWID, which the array and `etcd-lun luns` on the node show"
        )),
        Err(_) => match text.parse::<Wwid>() {
            Ok(_) => Ok(format!("wwid = {}", quoted(text))),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// The parts of an answer with several values; there must be one.
fn parts(text: &str) -> Result<Vec<String>, String> {
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    let parts: Vec<_> = parts.map(str::to_owned).collect();
    match parts.is_empty() {
        true => Err("one value is needed, or several with commas between them".into()),
        false => Ok(parts),
    }
}

/// A text as a value of TOML, which takes the strings of JSON (toml.io, "String").
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "iqn.2024-02.com.example:etcd";

    fn answered(answers: &[&str]) -> Result<String, String> {
        let mut lines = answers.iter().map(|line| Ok((*line).to_owned()));
        let mut questions = Questions { answers: &mut lines, on_terminal: false };
        config(&mut questions).map_err(|exit| format!("{exit:?}"))
    }

    #[test]
    fn the_answers_make_a_config_that_every_node_takes() {
        let wwid = "naa.60014050000000000000000000000002";
        let text = answered(&[
            "192.168.10.5, [2001:db8::5]:3261",
            TARGET,
            "it's \"one\"",
            "",
            "master-0 Master-1.example.com",
            "",
            "7",
            "",
            wwid,
        ])
        .unwrap();
        let pool = Pool::load(&[Source { path: MAIN_FILE.into(), text: text.clone() }]).unwrap();
        assert_eq!(pool.rows().unwrap().len(), 2);
        let first = pool.clone().for_node("", "master-0").unwrap();
        let config = pool.for_node("", "master-1.example.com").unwrap();
        let shown = serde_json::to_string(&config).unwrap();
        assert!(shown.contains("iqn.1994-05.com.redhat:master-1") && shown.contains(wwid), "{shown}");
        assert!(!config.node.migrate && first.node.migrate, "{text}");
        for line in ["lun = 7  ", "credential = \"chap\"", "\"[2001:db8::5]:3261\"]"] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn a_wrong_answer_is_said_at_its_question() {
        for (answers, says) in [
            (&[""][..], "one value is needed"),
            (&["192.168.10.5:0"], "portal"),
            (&["192.168.10.5", "etcd"], "iSCSI name"),
            (&["192.168.10.5", TARGET, "", "pod"], "neither static-pod nor systemd"),
            (&["192.168.10.5", TARGET, "", "", "a/b"], "is not a host name"),
            (&["192.168.10.5", TARGET, "", "", "a, b, A"], "`A` is there twice"),
            (&["192.168.10.5", TARGET, "", "", "a", "IQN.x"], "iSCSI name"),
            (&["192.168.10.5", TARGET, "", "", "a", "", "one"], "`one`"),
            (&["192.168.10.5", TARGET, "", "", "a", "", "300"], "give the LUN's WWID"),
            (&["192.168.10.5", TARGET], "standard input ended before the answer to `The user name"),
        ] {
            let said = answered(answers).unwrap_err();
            assert!(said.contains(says), "{answers:?}: {said}");
        }
    }
}
