//! The program's own plans, each kept. Many states look the same to `observe`, and a search meets each of them in
//! thousands of runs.

use crate::{
    facts::{config, node},
    run::Runtime,
    world::{Guards, World},
};
use node::Fact;
use plan::{Attempt, Goal, MarkPlan, Occasion, ProtocolStep, Refusal, Step, Undo, mark, undo};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};
use support::printed::Printed;

/// The steps of a plan, or a refusal; and what the look before it has shown.
pub type Planned = (Result<Arc<[Step]>, Arc<Refusal>>, Attempt<'static>);

/// What a plan depends on: the world, whether the LUN is staged, and the verb.
type Key = (World, bool, u8);

/// Plans for one search.
pub struct Planner {
    pub guards: Guards,
    pub runtime: Runtime,
    plans: Mutex<FxHashMap<Key, Planned>>,
    /// What `--json` prints of the states that were planned for, and of the plans.
    pub printed: Mutex<Printed>,
}

impl Planner {
    pub fn new(guards: Guards, runtime: Runtime) -> Self {
        Self { guards, runtime, plans: Mutex::default(), printed: Printed::of_each(101).into() }
    }

    /// What `apply` or `rollback` would do.
    pub fn plan(&self, goal: Goal, world: &World, staged: bool) -> Planned {
        let verb = match goal {
            Goal::Lun(Occasion::ByHand) => 0,
            Goal::Lun(Occasion::Boot) => 1,
            Goal::Local => 2,
            Goal::Claim => 3,
            Goal::ClaimLocal => 5,
        };
        self.once((*world, staged, verb), || {
            let node = node(world, staged, self.guards);
            let plan = goal.plan(config(self.runtime), &node);
            self.printed.lock().unwrap().see(&node, &plan);
            let saw = Attempt::default().saw(&node);
            (plan.map(|plan| self.reordered(plan.steps).into()).map_err(Arc::new), saw)
        })
    }

    /// What `mark` would do: one step or none.
    pub fn mark(&self, world: &World) -> Planned {
        self.once((*world, false, 4), || {
            let planned = match mark(config(self.runtime), &node(world, false, self.guards)) {
                Ok(MarkPlan::Advance(step)) => Ok([Step::Protocol(ProtocolStep::Mark(*step))].into()),
                Ok(MarkPlan::Skip(_)) => Ok([].into()),
                Err(refusal) => Err(Arc::new(refusal)),
            };
            (planned, Attempt::default())
        })
    }

    /// What is put back after a failure. Of the steps that have begun, `attempt` has those on which that depends.
    pub fn undo(
        &self,
        goal: Goal,
        world: &World,
        staged: bool,
        attempt: Attempt<'_>,
    ) -> Result<Undo, Refusal> {
        let mut node = node(world, staged, self.guards);
        if !self.guards.put_back && goal != Goal::Local {
            node.record = Fact::Known(None);
        }
        undo(config(self.runtime), &node, goal, attempt)
    }

    fn once(&self, key: Key, plan: impl FnOnce() -> Planned) -> Planned {
        // What an array keeps is not observed.
        let key = (World { snapshot: None, counted: false, ..key.0 }, key.1, key.2);
        if let Some(planned) = self.plans.lock().unwrap().get(&key) {
            return planned.clone();
        }
        let planned = plan();
        self.plans.lock().unwrap().insert(key, planned.clone());
        planned
    }

    /// Changes the order of the steps if a mutant asks for that.
    fn reordered(&self, mut steps: Vec<Step>) -> Vec<Step> {
        let at = |steps: &[Step], id| steps.iter().position(|step| step.id() == id);
        if !self.guards.stamp_first
            && let (Some(stamp), Some(commit)) = (at(&steps, "stamp"), at(&steps, "commit"))
        {
            steps.swap(stamp, commit);
        }
        if !self.guards.unmount_first
            && let (Some(unmount), Some(commit)) = (at(&steps, "unmount-data"), at(&steps, "commit-local"))
        {
            steps.swap(unmount, commit);
        }
        steps
    }
}
