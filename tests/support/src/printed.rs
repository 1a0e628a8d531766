//! The JSON of many states, checked against the schemas.
//!
//! A test that visits every combination of facts, or every state of the model, hands them all over, with what the planner
//! says of each. They are millions, and most differ only in numbers. So only each Nth state is checked, and of the plans
//! with the same steps, and of the refusals of the same kind, only the first [`OF_EACH`]. That takes a few seconds.

use crate::{
    say,
    schema::{self, schema_of},
};
use cli::{
    Exit,
    documents::{PLAN, STATUS, failure},
};
use node::Node;
use plan::{Plan, Refusal, Step};
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt::{self, Write as _},
};

/// How many plans or refusals are checked of those that look the same.
const OF_EACH: usize = 5;

/// What was checked.
#[derive(Debug)]
pub struct Printed {
    status: Value,
    plan: Value,
    error: Value,
    /// Each state with this number is checked.
    every: usize,
    /// All states, those left out too.
    states: usize,
    /// How often there was a plan with these steps.
    plans: HashMap<Vec<&'static str>, usize>,
    /// How often there was a refusal of this kind.
    refusals: HashMap<String, usize>,
    /// How many documents were checked.
    checked: usize,
    /// The first one that is not as its schema says.
    wrong: Option<String>,
}

impl Printed {
    /// Checks one of `every` states. It is a prime number, so that loops within loops do not always meet it at the same place.
    pub fn of_each(every: usize) -> Self {
        let [status, plan, error] = ["status", "plan", "error"].map(schema_of);
        Self {
            status,
            plan,
            error,
            every,
            states: 0,
            plans: HashMap::new(),
            refusals: HashMap::new(),
            checked: 0,
            wrong: None,
        }
    }

    /// A state, and what the planner says of it.
    pub fn see(&mut self, node: &Node, outcome: &Result<Plan, Refusal>) {
        self.states += 1;
        if self.states.is_multiple_of(self.every) {
            let found = schema::check_printed(&self.status, &STATUS.of(node));
            self.note(found, || format!("{node:#?}"));
        }
        let times = match outcome {
            Ok(plan) => self.plans.entry(plan.steps.iter().map(Step::id).collect()).or_default(),
            Err(refusal) => self.refusals.entry(kind(refusal)).or_default(),
        };
        *times += 1;
        if *times > OF_EACH {
            return;
        }
        let found = match outcome {
            Ok(plan) => schema::check_printed(&self.plan, &PLAN.of(plan)),
            Err(refusal) => {
                schema::check_printed(&self.error, &failure(&Exit::from(refusal.clone())).unwrap())
            }
        };
        self.note(found, || format!("{outcome:#?}"));
    }

    fn note(&mut self, found: Result<(), String>, of: impl FnOnce() -> String) {
        self.checked += 1;
        if let Err(why) = found {
            self.wrong.get_or_insert_with(|| format!("{why}\n{}", of()));
        }
    }

    /// Panics with the first document that is not as its schema says, and prints how many were checked.
    pub fn is_as_said(&self) {
        if let Some(wrong) = &self.wrong {
            panic!("{wrong}");
        }
        let Self { states, plans, refusals, checked, .. } = self;
        let (plans, refusals) = (plans.len(), refusals.len());
        say!(
            "{states} states, {plans} different plans, {refusals} kinds of refusals: {checked} JSON documents are as said"
        );
        assert!(*checked > 1000 && plans > 10 && refusals > 5);
    }
}

/// The kind of a refusal: its name in the source, without what it carries. A search has millions, and their names in JSON would
/// take too long.
fn kind(refusal: &Refusal) -> String {
    struct Start(String);
    impl fmt::Write for Start {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            // What follows is what it carries.
            if text.contains('{') {
                return Err(fmt::Error);
            }
            self.0.push_str(text);
            Ok(())
        }
    }
    let mut start = Start(String::new());
    let _ = write!(start, "{refusal:?}");
    start.0
}
