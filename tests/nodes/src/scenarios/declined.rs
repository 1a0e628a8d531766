//! How the agent must decline: by names, and by values that its message must carry.
//!
//! A refusal and an error begin with their name in brackets, and `health` lists the names of its checks. The names stay when
//! somebody improves the prose, so nothing here looks at prose. Object and finding are right if the message has the right
//! values: a WWID, a path, a number, a host name.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::host::{self, Output};
use crate::node::Node;

/// How the agent must decline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declined<'a> {
    /// The exit code.
    code: i32,
    /// The name in brackets. None: the name is not looked at.
    name: Option<&'a str>,
    /// Another name that is right as well.
    other: Option<&'a str>,
    /// The id of the step that must have failed.
    step: Option<&'a str>,
    /// What the message must carry.
    values: &'a [&'a str],
}

/// A refusal (exit code 3) with this name, whose message carries these values.
pub(super) const fn refused<'a>(name: &'a str, values: &'a [&'a str]) -> Declined<'a> {
    Declined { code: 3, name: Some(name), other: None, step: None, values }
}

/// An error (exit code 1) with this name, whose message carries these values.
pub(super) const fn failed<'a>(name: &'a str, values: &'a [&'a str]) -> Declined<'a> {
    Declined { code: 1, ..refused(name, values) }
}

/// An error (exit code 1) whose name is not looked at. What the kernel reports has no name of its own, and sometimes it depends on
/// the moment which of several errors is found first.
pub(super) const fn unnamed<'a>(values: &'a [&'a str]) -> Declined<'a> {
    Declined { code: 1, name: None, other: None, step: None, values }
}

impl<'a> Declined<'a> {
    /// The same, or with this name: it depends on the moment which of the two is found first.
    pub(super) const fn or_named(self, name: &'a str) -> Self {
        Self { other: Some(name), ..self }
    }

    /// The same, and this step must have failed.
    pub(super) const fn in_step(self, id: &'a str) -> Self {
        Self { step: Some(id), ..self }
    }

    /// How the line of the message begins.
    fn begins(&self) -> Vec<String> {
        let kind = if self.code == 3 { "refused" } else { "error" };
        match self.name {
            Some(name) => [Some(name), self.other]
                .into_iter()
                .flatten()
                .map(|name| format!("{kind} [{name}]: "))
                .collect(),
            None => vec![format!("{kind} [")],
        }
    }

    /// Looks for the message in what the agent, or its unit, has said.
    pub(super) fn is_in(&self, said: &str) -> Result<()> {
        let begins = self.begins();
        let Some(line) = said.lines().find(|line| begins.iter().any(|begin| line.starts_with(begin))) else {
            bail!("no line begins with {}", begins.join(" or "));
        };
        // The lines after it may belong to the message: a list of attempts, or a cause.
        let message = &said[said.find(line).unwrap_or(0)..];
        if let Some(step) = self.step
            && !line.contains(&format!("in step {step}: "))
        {
            bail!("another step than {step} has failed");
        }
        match self.values.iter().find(|value| !has(message, value)) {
            Some(value) => bail!("the message does not carry {value:?}"),
            None => Ok(()),
        }
    }
}

/// Waits until a unit has said this, within this time.
pub(super) fn is_said(node: &Node, unit: &str, limit: Duration, how: Declined) -> Result<()> {
    let said = || Ok(how.is_in(&node.said(unit)?).is_ok().then_some(()));
    let found = host::poll(limit, Duration::from_secs(1), said)?;
    found.with_context(|| format!("{unit} does not say {}", how.begins().join(" or ")))
}

/// Checks the exit code and the message.
pub(super) fn check(output: &Output, how: Declined) -> Result<()> {
    if output.code != how.code {
        bail!("expected exit code {}: {output}", how.code);
    }
    how.is_in(&output.stderr).map_err(|why| anyhow!("{why}: {output}"))
}

/// Checks that one of these is what happened: it depends on the moment which of them is found first.
pub(super) fn check_one_of(output: &Output, ways: &[Declined]) -> Result<()> {
    if ways.iter().any(|how| check(output, *how).is_ok()) {
        return Ok(());
    }
    bail!("none of the ways in which this may end: {output}")
}

/// Checks that `health` has found something (exit code 4), these checks among it.
pub(super) fn unhealthy(output: &Output, checks: &[&str]) -> Result<()> {
    let found = output.stderr.lines().find_map(|line| line.strip_prefix("unhealthy: ")).unwrap_or_default();
    let found: Vec<&str> = found.split(", ").collect();
    match checks.iter().find(|check| !found.contains(check)) {
        None if output.code == 4 => Ok(()),
        None => bail!("expected exit code 4: {output}"),
        Some(check) => bail!("the check {check} should have found something: {output}"),
    }
}

/// Checks that a text carries these values.
pub(super) fn carries(text: &str, values: &[&str]) -> Result<()> {
    match values.iter().find(|value| !has(text, value)) {
        Some(value) => bail!("{value:?} is not in: {text}"),
        None => Ok(()),
    }
}

/// Whether a line that the agent logs as a warning carries this value.
pub(super) fn warns(output: &Output, value: &str) -> bool {
    output.stderr.lines().any(|line| line.trim_start().starts_with("WARN ") && has(line, value))
}

/// Whether a text has a value by itself: `LUN 1` is not in `LUN 16684`.
pub(super) fn has(text: &str, value: &str) -> bool {
    let goes_on = |inside: Option<char>, outside: Option<char>| {
        inside.is_some_and(char::is_alphanumeric) && outside.is_some_and(char::is_alphanumeric)
    };
    text.match_indices(value).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + value.len()..].chars().next());
        !goes_on(value.chars().next(), before) && !goes_on(value.chars().next_back(), after)
    })
}

/// The ids of all steps, from the schema of `plan --json`.
#[cfg(test)]
pub(super) fn step_ids() -> std::collections::BTreeSet<String> {
    let schemas = cli::documents::schemas();
    let plan = schemas.iter().find(|(name, _)| *name == "plan").map(|(_, schema)| schema);
    let kinds = ["ProtocolStep", "NodeStep"];
    let steps = kinds.iter().filter_map(|kind| plan.as_ref()?["$defs"][kind]["oneOf"].as_array()).flatten();
    steps.filter_map(|step| step["properties"]["step"]["const"].as_str()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cli::entries;
    use health::CHECKS;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;
    use terms::ErrorName;

    fn output(code: i32, stderr: &str) -> Output {
        Output { code, stderr: stderr.into(), ..Output::default() }
    }

    #[test]
    fn a_value_is_a_whole_one() {
        for (text, value, is_there) in [
            ("shows LUN 1 at 10.0.0.1:3260", "LUN 1", true),
            ("shows LUN 16684 at 10.0.0.1:3260", "LUN 1", false),
            ("at 10.0.0.1:3260", "10.0.0.1", true),
            ("at 110.0.0.1:3260", "10.0.0.1", false),
            ("/var/lib/etcd has 95.3MiB", "95", true),
            ("use 12 and then 2", "2", true),
            ("use 12", "2", false),
            ("(`lun.max_switch`)", "lun.max_switch", true),
            ("LUN 12, LUN 1", "LUN 1", true),
        ] {
            assert_eq!(has(text, value), is_there, "{value:?} in {text:?}");
        }
    }

    #[test]
    fn only_the_right_name_step_and_value_will_do() {
        let one = output(
            1,
            "[1/9] copy\nerror [data-changed]: in step commit: nothing is committed: 7 of 8\nmore 9\n",
        );
        check(&one, failed("data-changed", &["7", "9"]).in_step("commit")).unwrap();
        check(&one, failed("another-run", &[]).or_named("data-changed")).unwrap();
        check(&one, unnamed(&["8"])).unwrap();
        check_one_of(&one, &[failed("another-run", &[]), unnamed(&["7"])]).unwrap();
        for declined in [
            failed("data-lies-elsewhere", &[]),
            failed("data-changed", &[]).in_step("copy"),
            failed("data-changed", &["1"]),
            refused("data-changed", &[]),
        ] {
            assert!(check(&one, declined).is_err(), "{declined:?}");
        }
        assert!(check_one_of(&one, &[failed("another-run", &[])]).is_err());
        check(&output(1, "error [internal]: in step copy: x\n"), unnamed(&[]).in_step("copy")).unwrap();
        check(&output(3, "refused [lun-newer]: x\n"), refused("lun-newer", &["x"])).unwrap();
    }

    #[test]
    fn checks_and_warnings() {
        let ill = output(4, "unhealthy: mount-options, etcd\n");
        unhealthy(&ill, &["etcd"]).unwrap();
        assert!(unhealthy(&ill, &["mount"]).is_err());
        assert!(unhealthy(&output(0, ""), &[]).is_err());
        assert!(warns(&output(0, "[1/2] x 7\n WARN it is 7\n"), "7"));
        assert!(!warns(&output(0, "[1/2] x 7\n WARN it is 8\n"), "7"));
    }

    /// The text of each source file of the scenarios, but for its tests.
    fn sources() -> Vec<(String, String)> {
        fn walk(dir: &Path, found: &mut Vec<(String, String)>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                    found.push((path.display().to_string(), code));
                }
            }
        }
        let mut found = Vec::new();
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scenarios"), &mut found);
        found
    }

    /// What stands behind each call of a function, up to the end of the source.
    fn calls<'a>(code: &'a str, function: &'a str) -> impl Iterator<Item = &'a str> {
        code.match_indices(function).filter_map(move |(at, _)| {
            let before = code[..at].chars().next_back();
            let is_other = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
            let arguments = code[at + function.len()..].strip_prefix('(')?;
            (!is_other && !code[..at].ends_with("fn ")).then_some(arguments)
        })
    }

    /// The text in double quotes with which the code begins.
    fn literal(code: &str) -> Option<&str> {
        code.trim_start().strip_prefix('"')?.split_once('"').map(|(text, _)| text)
    }

    /// The names of all calls of a function, whose first argument must be a literal, so that none is missed here.
    fn names(function: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (path, code) in sources().iter().filter(|(path, _)| !path.ends_with("/declined.rs")) {
            for call in calls(code, function) {
                let name = literal(call).unwrap_or_else(|| {
                    panic!(
                        "{path}: the name is no literal: {function}({}",
                        call.lines().next().unwrap_or_default()
                    )
                });
                found.insert(name.to_owned());
            }
        }
        found
    }

    /// A name that nobody has any more would show only when the scenario is played.
    #[test]
    fn each_name_in_a_scenario_exists() {
        let of_page = |page: &str| -> BTreeSet<String> {
            entries().iter().filter(|entry| entry.page == page).map(|entry| entry.name.to_owned()).collect()
        };
        let refusals = of_page("docs/troubleshooting.md");
        let errors = ErrorName::ALL.iter().map(|name| name.as_str().to_owned()).collect();
        let (refused, failed) = (names("refused"), names("failed"));
        assert!(refused.len() > 30 && failed.len() > 10, "{refused:?} {failed:?}");
        let none = BTreeSet::new();
        assert_eq!(refused.difference(&refusals).cloned().collect::<BTreeSet<_>>(), none);
        for function in ["failed", "or_named"] {
            assert_eq!(
                names(function).difference(&errors).cloned().collect::<BTreeSet<_>>(),
                none,
                "{function}"
            );
        }
    }

    /// The literals among the arguments of a call, also those of a list; not those of a call among them.
    fn literals(call: &str) -> BTreeSet<String> {
        let (mut depth, mut found) = (1, BTreeSet::new());
        // Every second part is within double quotes.
        for (number, part) in call.split('"').enumerate() {
            if number % 2 == 1 {
                found.extend((depth == 1).then(|| part.to_owned()));
                continue;
            }
            for letter in part.chars() {
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                if depth == 0 {
                    return found;
                }
            }
        }
        found
    }

    /// The same for steps and for the checks of `health`.
    #[test]
    fn each_step_and_check_in_a_scenario_exists() {
        let checks: BTreeSet<String> = CHECKS.iter().map(|check| check.name.to_owned()).collect();
        for (functions, known) in [
            (&["in_step", "has_step", "takes", "plans"][..], step_ids()),
            (&["unhealthy", "finding"], checks),
        ] {
            let mut found = BTreeSet::new();
            for (path, code) in sources() {
                for call in functions.iter().flat_map(|function| calls(&code, function)) {
                    let names = literals(call);
                    assert!(names.is_subset(&known), "{path}: {names:?}");
                    found.extend(names);
                }
            }
            assert!(found.len() > 5 && known.len() > 20, "{found:?} of {known:?}");
        }
    }
}
