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
use host::{Host, iscsi};
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
    }
    if let Some(file) = &options.output
        && host.root.mode(file).context("looking for the file of --output")?.is_some()
    {
        return Err(Exit::Usage(format!(
            "--output: {} is there already, and its content would be lost: name another file, or remove it",
            file.display()
        )));
    }
    let stdin = io::stdin();
    let asks_again = stdin.is_terminal();
    let mut lines = stdin.lock().lines();
    let mut answer = |question: &str, default: &str| -> Result<Option<String>, Exit> {
        let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        if asks_again {
            print_err_part(&format!("{question}{shown}: "));
        }
        let Some(line) = lines.next().transpose().context("reading an answer")? else { return Ok(None) };
        let line = line.trim();
        Ok(Some(if line.is_empty() { default } else { line }.to_owned()))
    };
    let mut shown = |portals: &[Portal], initiator: &Iqn| match asks_again {
        true => shown_targets(portals, initiator),
        // A script knows what it answers, and nobody expects that it talks to the array.
        false => Vec::new(),
    };
    let text = config(&mut shown, &mut |question, default, check| {
        loop {
            let Some(line) = answer(question, default)? else {
                return Err(Exit::Usage(format!(
                    "standard input ended before the answer to `{question}`: no config was written"
                )));
            };
            match check(&line) {
                Ok(()) => return Ok(line),
                Err(why) if asks_again => print_err(&why),
                Err(why) => return Err(Exit::Usage(format!("`{question}`: {why}"))),
            }
        }
    })?;
    // What was asked for is checked as every node would check it.
    let source = Source { path: MAIN_FILE.into(), text: text.clone() };
    let pool = Pool::load(&[source])?;
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

/// Whether a text is an answer, or what is wrong with it.
type Check<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Asks a question with this default, until the answer passes the check.
type Ask<'a> = &'a mut dyn FnMut(&str, &str, Check<'_>) -> Result<String, Exit>;

/// The names of the targets that these portals show an initiator of this name.
type Shown<'a> = &'a mut dyn FnMut(&[Portal], &Iqn) -> Vec<String>;

/// How many targets are printed. An array may show hundreds.
const LISTED: usize = 12;

/// Asks the portals one after the other, until one has shown a target. It may not be reached from here, or want CHAP, and another
/// one of the array may show more: in the end a person types the name.
fn shown_targets(portals: &[Portal], initiator: &Iqn) -> Vec<String> {
    for portal in portals {
        print_err(&format!("asking {portal} for its targets, as {initiator}"));
        let found = match iscsi::send_targets(portal, initiator) {
            Ok(found) => found,
            Err(error) => {
                print_err(&format!("  {error}"));
                continue;
            }
        };
        if let Some(first) = found.skipped.first() {
            print_err(&format!(
                "  of its answer {} lines cannot be read, such as {first}",
                found.skipped.len()
            ));
        }
        for one in found.targets.iter().take(LISTED) {
            let at = one.portal.as_ref().map(|portal| format!(" at {portal}")).unwrap_or_default();
            print_err(&format!("  it shows {}{at}", one.target));
        }
        if found.targets.len() > LISTED {
            print_err(&format!("  and {} more", found.targets.len() - LISTED));
        }
        let names: BTreeSet<String> = found.targets.into_iter().map(|one| one.target).collect();
        if !names.is_empty() {
            return names.into_iter().collect();
        }
        if found.skipped.is_empty() {
            print_err("  it shows no target: see that the array allows this initiator name");
        }
    }
    print_err("no portal has named a target to this machine: type its name");
    Vec::new()
}

/// The config that the answers make, with a comment where a person may want to change it.
fn config(shown: Shown<'_>, ask: Ask<'_>) -> Result<String, Exit> {
    let portals = ask("The target's portals, such as 192.168.10.5, 192.168.11.5", "", &|text| {
        each(text, |one| one.parse::<Portal>().map(drop).map_err(|error| error.to_string()))
    })?;
    let names = ask("The host names of the nodes, such as master-0, master-1, master-2", "", &|text| {
        each(text, |one| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
            if one.bytes().all(plain) { Ok(()) } else { Err(format!("`{one}` is not a host name")) }
        })?;
        let mut seen = BTreeSet::new();
        match parts(text).find(|one| !seen.insert(one.to_ascii_lowercase())) {
            Some(twice) => Err(format!("`{twice}` is there twice: each node has one entry")),
            None => Ok(()),
        }
    })?;
    let mut nodes: Vec<(&str, Iqn)> = Vec::new();
    for name in parts(&names) {
        let short = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
        let default = format!("iqn.1994-05.com.redhat:{short}");
        let question = format!("The initiator name of {name}, which the array must allow");
        let initiator = ask(&question, &default, &|text| {
            Iqn::of_initiator(text).map(drop).map_err(|error| error.to_string())
        })?;
        nodes.push((name, Iqn::of_initiator(&initiator).map_err(|error| Exit::Usage(error.to_string()))?));
    }
    // Many arrays show a target only to the initiators that it allows.
    let there: Vec<Portal> = parts(&portals).filter_map(|one| one.parse().ok()).collect();
    let targets = nodes.first().map(|(_, initiator)| shown(&there, initiator)).unwrap_or_default();
    let only = if let [only] = targets.as_slice() { only.as_str() } else { "" };
    let iqn = ask(
        "The target's name (the array shows it, and on a node `iscsiadm -m discovery -t sendtargets -p PORTAL`)",
        only,
        &|text| text.parse::<Iqn>().map(drop).map_err(|error| error.to_string()),
    )?;
    let portals: Vec<_> = parts(&portals).map(quoted).collect();
    let user = ask("The user name of CHAP; `none` without CHAP", "none", &|_| Ok(()))?;
    let runtime = ask("What runs etcd: static-pod (OpenShift) or systemd", "static-pod", &|text| {
        let known = ["static-pod", "systemd"].contains(&text);
        if known { Ok(()) } else { Err(format!("`{text}` is neither static-pod nor systemd")) }
    })?;
    let mut text = format!(
        "# A config of etcd-lun, the same on all nodes: {MAIN_FILE}, mode 0600.\n\
         # `etcd-lun config check` checks it, and docs/config.md lists every key.\n\n\
         [target]\niqn = {}\nportals = [{}]\n",
        quoted(&iqn),
        portals.join(", ")
    );
    if user != "none" {
        text += &format!(
            "\n[target.chap]\nusername = {}\n\
             credential = \"chap\"                # each node needs it: rollout.md, \"Bring the secret to the nodes\"\n",
            quoted(&user)
        );
    }
    text += &format!("\n[etcd]\nruntime = {}\n", quoted(&runtime));
    text += "\n[boot]\ngate = \"etcd\"                      # \"kubelet\": without its LUN, nothing of the cluster starts on a node\n";
    for (at, (name, initiator)) in nodes.into_iter().enumerate() {
        // The next node's number depends on the array: it may number the LUNs anew for each initiator, or not.
        let default = if at == 0 { "1" } else { "" };
        let question = format!("The LUN of {name}: its number at the array, or its WWID");
        let lun = ask(&question, default, &|text| lun(text).map(drop))?;
        text += &format!(
            "\n[[node]]\nhostname = {}\ninitiator = {}\n{}\n{}",
            quoted(name),
            quoted(initiator.as_str()),
            lun_line(&lun),
            if at == 0 { "" } else { NOT_YET }
        );
    }
    Ok(text)
}

/// All nodes but the first wait: it is the canary.
const NOT_YET: &str = "migrate = false                    # not yet: remove this line when the first node's etcd serves from its LUN\n";

/// The key that an answer about a LUN means.
fn lun(text: &str) -> Result<&'static str, String> {
    match text.parse::<u32>() {
        Ok(..=LunNumber::ONE_BYTE) => return Ok("lun"),
        Ok(number) => {
            return Err(format!(
                "arrays encode number {number} in different ways: give the LUN's WWID, which the array and `etcd-lun luns` on the node show"
            ));
        }
        Err(_) => {}
    }
    text.parse::<Wwid>().map(|_| "wwid").map_err(|error| error.to_string())
}

fn lun_line(text: &str) -> String {
    match lun(text) {
        Ok("lun") => format!(
            "lun = {text}                            # better its wwid: `etcd-lun luns` on the node prints it"
        ),
        _ => format!("wwid = {}", quoted(text)),
    }
}

/// The parts of an answer with several values.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).map(str::trim).filter(|part| !part.is_empty())
}

/// Checks each part; there must be one.
fn each(text: &str, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    if parts(text).next().is_none() {
        return Err("one value is needed, or several with commas between them".into());
    }
    parts(text).try_for_each(check)
}

/// A text as a value of TOML, which takes the strings of JSON (toml.io, "String").
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answers: &[&str]) -> Result<String, String> {
        answered_with(&[], answers)
    }

    const TARGET: &str = "iqn.2024-02.com.example:etcd";

    fn pool_of_first(text: &str) -> config::Config {
        let source = Source { path: MAIN_FILE.into(), text: text.to_owned() };
        Pool::load(&[source]).unwrap().for_node("", "master-0").unwrap()
    }

    /// With these targets shown.
    fn answered_with(shown: &[&str], answers: &[&str]) -> Result<String, String> {
        let mut rest = answers.iter();
        let mut shown = |portals: &[Portal], initiator: &Iqn| {
            assert!(!portals.is_empty() && initiator.as_str().starts_with("iqn."));
            shown.iter().map(|&name| name.to_owned()).collect()
        };
        config(&mut shown, &mut |question, default, check| {
            let line = rest.next().map_or(default, |line| if line.is_empty() { default } else { line });
            check(line).map_err(|why| Exit::Usage(format!("{question}: {why}")))?;
            Ok(line.to_owned())
        })
        .map_err(|exit| format!("{exit:?}"))
    }

    #[test]
    fn the_answers_make_a_config_that_every_node_takes() {
        let wwid = "naa.60014050000000000000000000000002";
        let text = answered(&[
            "192.168.10.5, [2001:db8::5]:3261",
            "master-0 Master-1.example.com",
            "",
            "",
            TARGET,
            "it's \"one\"",
            "",
            "7",
            wwid,
        ])
        .unwrap();
        let pool = Pool::load(&[Source { path: MAIN_FILE.into(), text: text.clone() }]).unwrap();
        assert_eq!(pool.rows().unwrap().len(), 2);
        let config = pool.for_node("", "master-1.example.com").unwrap();
        let shown = serde_json::to_string(&config).unwrap();
        assert!(shown.contains("iqn.1994-05.com.redhat:master-1") && shown.contains(wwid), "{shown}");
        assert!(!config.node.migrate && pool_of_first(&text).node.migrate, "{text}");
        for line in ["lun = 7  ", "credential = \"chap\"", "\"[2001:db8::5]:3261\"]"] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn a_wrong_answer_is_said_at_its_question() {
        for (answers, says) in [
            (&[""][..], "one value is needed"),
            (&["192.168.10.5:0"], "portal"),
            (&["192.168.10.5", "a/b"], "is not a host name"),
            (&["192.168.10.5", "a, b, A"], "`A` is there twice"),
            (&["192.168.10.5", "a", "IQN.x"], "iSCSI name"),
            (&["192.168.10.5", "a", "", "etcd"], "iSCSI name"),
            (&["192.168.10.5", "a", "", TARGET, "", "pod"], "neither static-pod nor systemd"),
            (&["192.168.10.5", "a", "", TARGET, "", "", "one"], "`one`"),
            (&["192.168.10.5", "a", "", TARGET, "", "", "300"], "give the LUN's WWID"),
        ] {
            let said = answered(answers).unwrap_err();
            assert!(said.contains(says), "{answers:?}: {said}");
        }
    }

    #[test]
    fn a_target_that_is_the_only_one_need_not_be_typed() {
        let answers = ["192.168.10.5", "a", "", "", "", "", "1"];
        let text = answered_with(&[TARGET], &answers).unwrap();
        assert!(text.contains(&format!("iqn = \"{TARGET}\"")), "{text}");
        for none_or_several in [&[][..], &[TARGET, "iqn.2024-02.com.example:other"]] {
            let said = answered_with(none_or_several, &answers).unwrap_err();
            assert!(said.contains("The target's name"), "{said}");
        }
    }
}
