//! Each look of each step of the protocol, by itself: a step whose look finds what it must not find ends there, and does no
//! more than take back what it did.
//!
//! `tests/model` plays whole runs, where behind a look that is left out stands another one. Here nothing stands behind it. For each
//! case the step is done once as it should be. That run says which looks the step has, and after how many of its effects. Each
//! of them needs a row that changes what it finds; a row whose look the step does not have any more fails.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod cases;
mod odd;

use apply::{machine::Effect, protocol};
use cases::{Case, cases, refused};
use odd::Odd;
use std::collections::BTreeSet;

/// What a step does to take an effect back.
fn takes_back(effect: &Effect) -> bool {
    matches!(effect, Effect::PutBack { .. } | Effect::TakeBack { .. } | Effect::ForgetProof)
}

/// The run of a case in which all looks find what they should.
fn as_it_should_be(case: &Case) -> Odd {
    let mut machine = Odd::new(case.facts.clone());
    if let Err(error) = protocol::step(&mut machine, &case.step) {
        panic!("{}: {error:#}", case.name);
    }
    machine
}

/// The step has ended with an error, after so many of its effects and at most one that takes them back.
fn ends_after(
    case: &Case,
    what: &str,
    machine: &Odd,
    result: anyhow::Result<String>,
    after: usize,
) -> Result<String, String> {
    let name = case.name;
    let good = as_it_should_be(case).effects;
    // A step that pauses has no effects.
    let after = after.min(good.len());
    let error = match result {
        Ok(said) => return Err(format!("{name}, {what}: does not fail ({said})")),
        Err(error) => format!("{error:#}"),
    };
    let (done, rest) = machine.effects.split_at(after.min(machine.effects.len()));
    if done != &good[..after] {
        return Err(format!(
            "{name}, {what}: not {after} effects before the error, but {:?}",
            machine.effects
        ));
    }
    match (rest, case.takes_back_after == Some(after)) {
        ([], false) => Ok(error),
        ([effect], true) if takes_back(effect) => Ok(error),
        (rest, _) => Err(format!("{name}, {what}: after the error: {rest:?}")),
    }
}

fn none(missed: &[String]) {
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_look_that_finds_what_it_must_not_find_ends_the_step() {
    let mut missed = Vec::new();
    for case in cases() {
        for row in &case.rows {
            let mut machine = Odd::changing(case.facts.clone(), row.after, row.change);
            let result = protocol::step(&mut machine, &case.step);
            let what = format!("{:?} after {}, \"{}\"", row.look, row.after, row.says);
            match ends_after(&case, &what, &machine, result, row.after) {
                Ok(error) if error.contains(row.says) => {}
                Ok(error) => missed.push(format!("{}, {what}: says `{error}`", case.name)),
                Err(why) => missed.push(why),
            }
        }
    }
    none(&missed);
}

#[test]
fn each_look_of_each_step_has_a_row() {
    let mut missed = Vec::new();
    for case in cases() {
        let looks: BTreeSet<_> = as_it_should_be(&case).looks.take().into_iter().collect();
        let rows: BTreeSet<_> = case.rows.iter().map(|row| (row.after, row.look)).collect();
        let tells = case.tells.iter().copied().collect();
        let has: BTreeSet<_> = rows.union(&tells).copied().collect();
        if looks != has {
            missed.push(format!(
                "{}: looks without a row {:?}, rows without a look {:?}",
                case.name,
                looks.difference(&has).collect::<Vec<_>>(),
                has.difference(&looks).collect::<Vec<_>>()
            ));
        }
    }
    none(&missed);
}

#[test]
fn a_look_that_fails_ends_the_step() {
    let mut missed = Vec::new();
    for case in cases() {
        let looks = as_it_should_be(&case).looks.take();
        for (number, (after, look)) in looks.iter().enumerate().filter(|(_, (_, look))| !look.cannot_fail()) {
            let mut machine = Odd::failing_look(case.facts.clone(), number);
            let result = protocol::step(&mut machine, &case.step);
            let what = format!("{look:?} fails after {after}");
            missed.extend(ends_after(&case, &what, &machine, result, *after).err());
        }
    }
    none(&missed);
}

#[test]
fn an_effect_that_fails_ends_the_step() {
    let mut missed = Vec::new();
    for case in cases() {
        for number in 0..as_it_should_be(&case).effects.len() {
            let mut machine = Odd::failing_effect(case.facts.clone(), number);
            match protocol::step(&mut machine, &case.step) {
                Ok(_) if case.goes_on_without == Some(number) => {}
                Ok(said) => {
                    missed.push(format!("{}: effect {number} fails, and the step not ({said})", case.name))
                }
                Err(_) if machine.effects.len() == number && case.goes_on_without != Some(number) => {}
                Err(_) => {
                    missed.push(format!("{}: after effect {number} failed: {:?}", case.name, machine.effects))
                }
            }
        }
    }
    none(&missed);
}

/// What each case does, an effect each. `ETCD_LUN_REWRITE=1 cargo test --test guards` writes it.
#[test]
fn each_step_does_what_is_listed() {
    let name = |effect: &Effect| {
        let text = format!("{effect:?}");
        text.split([' ', '(']).next().unwrap().to_owned()
    };
    let lines = cases().into_iter().map(|case| {
        let effects: Vec<_> = as_it_should_be(&case).effects.iter().map(name).collect();
        let effects = if effects.is_empty() { "nothing".to_owned() } else { effects.join(", ") };
        format!("{}: {effects}\n", case.name)
    });
    let found: String = lines.collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/guards/effects.expected");
    if std::env::var_os("ETCD_LUN_REWRITE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), found);
}

#[test]
fn what_only_one_look_refuses_is_refused() {
    for (name, step, facts, after, says) in refused() {
        let mut machine = Odd::new(facts);
        let error = match protocol::step(&mut machine, &step) {
            Ok(said) => panic!("{name}: does not fail ({said})"),
            Err(error) => format!("{error:#}"),
        };
        assert!(error.contains(says), "{name}: {error}");
        assert_eq!(machine.effects.len(), after, "{name}: {:?}", machine.effects);
    }
}
