//! Plans every combination of facts once, for all tests of the laws: the decisions, and the laws that they break.

use super::{rollback::*, *};
use plan::rollback;
use std::{collections::BTreeMap, sync::OnceLock, thread};
use support::printed::Printed;

/// The decisions on many nodes.
#[derive(Debug)]
pub struct Census {
    pub plans: usize,
    pub refusals: usize,
    /// By law: how often it is broken, and the first case.
    broken: BTreeMap<u8, (usize, String)>,
    /// What `--json` prints of the nodes and the decisions.
    pub printed: Printed,
}

impl Default for Census {
    fn default() -> Self {
        Self { plans: 0, refusals: 0, broken: BTreeMap::new(), printed: Printed::of_each(997) }
    }
}

impl Census {
    /// Records that a plan breaks a law.
    pub fn breaks(&mut self, law: u8, what: &str, node: &Node, plan: &Plan) {
        self.note(law, || format!("{what}\nplan: {plan:#?}\nnode: {node:#?}"));
    }

    fn note(&mut self, law: u8, what: impl FnOnce() -> String) {
        self.broken.entry(law).or_insert_with(|| (0, what())).0 += 1;
    }

    /// True if any plan broke that law.
    pub fn is_broken(&self, law: u8) -> bool {
        self.broken.contains_key(&law)
    }

    /// Panics with the first plan that breaks the law.
    pub fn holds(&self, law: u8) {
        if let Some((count, first)) = self.broken.get(&law) {
            panic!("law {law} is broken {count} times, first here: {first}");
        }
    }
}

/// Every combination of facts, in every situation. The first test that needs it computes it, once.
pub fn all() -> &'static [Census] {
    static ALL: OnceLock<Vec<Census>> = OnceLock::new();
    ALL.get_or_init(|| {
        thread::scope(|scope| {
            let back = scope.spawn(way_back_census);
            let mut all: Vec<_> =
                situations().map(|(runtime, occasion)| to_the_lun(runtime, occasion)).collect();
            all.push(back.join().unwrap());
            all
        })
    })
}

fn to_the_lun(runtime: &str, occasion: Occasion) -> Census {
    let mut census = Census::default();
    let config = config_for(runtime);
    let count = every_node(|node| {
        let outcome = plan(&config, node, occasion);
        census.printed.see(node, &outcome);
        match outcome {
            Ok(plan) => {
                census.plans += 1;
                judge::laws(&mut census, node, &plan);
                judge::occasion_and_etcd(&mut census, node, &plan, &config.etcd.runtime, occasion);
            }
            Err(_) => census.refusals += 1,
        }
    });
    let Census { plans, refusals, .. } = census;
    say!("{runtime}, {occasion:?}: {count} combinations of facts, {plans} plans, {refusals} refusals");
    assert!(count > 100_000 && plans > 100 && refusals > 100);
    census
}

fn way_back_census() -> Census {
    let runtimes = ["systemd", "static-pod"].map(config_for);
    let mut census = Census::default();
    let count = every_way_back(|node| {
        for config in &runtimes {
            let outcome = rollback(config, node);
            census.printed.see(node, &outcome);
            match outcome {
                Ok(plan) => {
                    census.plans += 1;
                    way_back(&mut census, node, &plan);
                }
                Err(_) => census.refusals += 1,
            }
        }
        if node.rolled_back().is_some() {
            for occasion in [Occasion::ByHand, Occasion::Boot] {
                if let Ok(plan) = plan(&runtimes[1], node, occasion) {
                    census.plans += 1;
                    after_it(&mut census, node, &plan, occasion);
                }
            }
        }
    });
    let Census { plans, refusals, .. } = census;
    say!("rollback: {count} combinations of facts, {plans} plans, {refusals} refusals");
    assert!(count > 100_000 && plans > 1000 && refusals > 1000);
    census
}
