//! The loop of `apply` and `rollback`: observe, plan, run the steps, until the plan is empty. It decides one thing: to read the LUN again
//! before it believes a refusal that depends on what the kernel keeps.

use super::{
    alone,
    away::Clock,
    cause,
    context::Run,
    dispatch,
    outcome::{Done, Failure},
    steps::preflight,
    watcher::{StepNumber, Watcher},
};
use anyhow::Context as _;
use config::Config;
use hands::Door;
use host::{filelock::Lock, kmsg, namespace};
use node::{Identity, Node};
use observe::{Asked, Viewpoint, secrets::Secrets};
use plan::{Attempt, Goal, Occasion, Plan, Refusal, Step, Undo};
use std::time::Instant;
use terms::named;

/// How many plans one run may need. A migration takes one each for the local side, the login, the stamp and the rest,
/// and one to see that nothing is left. A rollback adds one for the mount and one for the sessions, and a filesystem that shuts
/// down meanwhile adds three: `tests/model` has found runs of nine. More would mean that a step doesn't do what its plan
/// expects.
pub const MAX_ROUNDS: usize = 12;

/// Brings the node to what the config wants, or etcd's data back from the LUN, or takes the LUN back.
///
/// The caller has taken the lock before the first observation: without it another run could change the facts.
///
/// If an attempt fails before the commit point, this puts etcd back before it returns. If that fails too, the error
/// says so.
pub fn apply(
    door: &Door<'_>,
    config: &Config,
    secrets: &Secrets,
    identity: &Identity,
    goal: Goal,
    _lock: &Lock,
    watcher: &mut dyn Watcher,
) -> Result<Done, Failure> {
    let host = door.host;
    if namespace::is_in_namespace_of_pid1(host).context("comparing mount namespaces")? {
        // Nobody else may see the staging mount, and it must end with this process.
        namespace::private_mounts().context("making mounts private")?;
    } else if !namespace::receives_mounts_of_pid1(host).context("comparing mounts")? {
        return Err(Refusal::OtherNamespace.into());
    }
    alone::wait_for_leftovers(host, watcher)?;
    // At boot nothing is tried before a stop, and the service's SELinux domain has no right to touch what it left.
    if goal != Goal::Lun(Occasion::Boot) {
        preflight::clear(host, config)?;
    }
    let mut run = Run::new(door, config, secrets, identity, watcher);
    let result = whole(&mut run, goal);
    // A rollback plans this itself. After `claim` another run mounts the LUN.
    if goal == Goal::Lun(Occasion::Boot) || (result.is_err() && goal != Goal::Local) {
        let_go(&mut run);
    }
    result
}

/// Logs out what the run has left without a use, as [`plan::let_go`] decides. What stays is a finding, and no failure of the run.
fn let_go(run: &mut Run<'_>) {
    let node = observe::unused_sessions(run.door, run.config, run.identity.clone());
    if let Err(failure) =
        carry_out(run, &plan::let_go(run.config, &node), &mut Vec::new(), &mut Clock::default())
    {
        tracing::warn!("the session to the target stays, and nobody uses it: {:#}", failure.into_error());
    }
}

/// Brings the node to the goal, or puts back what can be.
fn whole(run: &mut Run<'_>, goal: Goal) -> Result<Done, Failure> {
    let mut begun = Vec::new();
    let mut attempt = Attempt::default();
    let result = rounds(run, goal, &mut begun, &mut attempt);
    let Err(failure) = result else { return result };
    let refusal = match &failure {
        Failure::Refused(refusal) => Some(&**refusal),
        Failure::Error(_) => None,
    };
    match put_back(run, goal, Attempt { begun: &begun, refusal, ..attempt }) {
        Ok(None) => Err(failure),
        Ok(Some(done)) => {
            tracing::info!("{:#}", failure.into_error());
            Ok(done)
        }
        Err(second) => {
            let second = named!(EtcdNotPutBack, "{second:#}; after this");
            Err(Failure::Error(failure.into_error().context(second)))
        }
    }
}

/// Observes, plans and carries out until nothing is left to do. Adds each step to `begun` when it begins.
fn rounds(
    run: &mut Run<'_>,
    goal: Goal,
    begun: &mut Vec<Step>,
    attempt: &mut Attempt<'_>,
) -> Result<Done, Failure> {
    let mut looked_again = false;
    // The kernel keeps the size that a LUN had at login. Only by hand can a filesystem grow.
    if goal == Goal::Lun(Occasion::ByHand) {
        run.rescan_lun().context("reading the LUN's size again")?;
    }
    let mut clock = Clock::default();
    for _ in 0..MAX_ROUNDS {
        let node = observed(run, goal);
        *attempt = attempt.saw(&node);
        let plan = match goal.plan(run.config, &node) {
            // The kernel caches what it read at login, and someone may have corrected the target since then.
            Err(refusal) if refusal.depends_on_login() && !looked_again => {
                looked_again = true;
                run.look_again().context("reading the LUN again")?;
                continue;
            }
            planned => planned?,
        };
        run.watcher.planned(&plan);
        if plan.is_empty() {
            // A boot never stops an etcd that serves, so this run did not take it away.
            let away = clock.read(run.written).filter(|_| goal != Goal::Lun(Occasion::Boot));
            if let Some(away) = away {
                away.log();
            }
            return Ok(Done { away, ..done(run.config, &node, begun) });
        }
        carry_out(run, &plan, begun, &mut clock)?;
    }
    Err(without_end().into())
}

fn done(config: &Config, node: &Node, begun: &[Step]) -> Done {
    let taken: Vec<_> = begun.iter().map(Step::id).collect();
    let (rolled_back, held) = (node.rolled_back(), plan::is_held(config, node));
    Done { steps: taken.len(), taken, rolled_back, held, away: None }
}

fn without_end() -> anyhow::Error {
    named!(
        NeverConverged,
        "{MAX_ROUNDS} plans were carried out and there is still something to do; see `etcd-lun plan`"
    )
    .into()
}

/// Observes the facts that plans to this goal need beside the node and the target.
pub fn asked(goal: Goal) -> Asked {
    let by_hand = goal.asks_cluster();
    Asked { portals: by_hand, cluster: by_hand, patient: true, elsewhere: goal.asks_others() }
}

/// The node, for a plan to this goal.
fn observed(run: &Run<'_>, goal: Goal) -> Node {
    let node = observe::node(
        run.door,
        run.config,
        run.identity.clone(),
        Viewpoint::Apply { staged: run.staging.as_ref() },
        asked(goal),
    );
    // In the format of `status --json`.
    if tracing::enabled!(tracing::Level::DEBUG) {
        tracing::debug!("observed {}", serde_json::to_value(&node).unwrap_or_default());
    }
    node
}

/// Does the steps of a plan, in their order, until one fails.
fn carry_out(
    run: &mut Run<'_>,
    plan: &Plan,
    begun: &mut Vec<Step>,
    clock: &mut Clock,
) -> Result<(), Failure> {
    let before = begun.len();
    for (at, step) in plan.steps.iter().enumerate() {
        if run.host.interrupt.is_requested() {
            return Err(Failure::Error(named!(Interrupted, "interrupted before the step `{step}`").into()));
        }
        let number =
            StepNumber { at: before + at + 1, of: before + plan.steps.len(), more: plan.horizon.is_some() };
        run.watcher.started(number, step);
        begun.push(step.clone());
        let (start, log) = (Instant::now(), kmsg::Mark::now(run.host));
        let outcome = dispatch::step(run, step).map_err(|error| cause::beside(run, error, log));
        let outcome = outcome.with_context(|| format!("in step {}", step.id()));
        let shown = outcome.as_ref().map(|done| done.as_str()).map_err(|error| format!("{error:#}"));
        run.watcher.ended(step, shown.as_ref().map(|done| *done).map_err(String::as_str), start.elapsed());
        // A step may refuse because of something that no plan could know.
        outcome.map_err(|error| match error.downcast::<Refusal>() {
            Ok(refusal) => Failure::from(refusal),
            Err(error) => Failure::Error(error),
        })?;
        clock.ended(step, start);
    }
    Ok(())
}

/// Puts back what a failed run has changed, as [`plan::undo`] decides. Returns the end of a run that needed nothing of what failed.
fn put_back(run: &mut Run<'_>, goal: Goal, attempt: Attempt<'_>) -> anyhow::Result<Option<Done>> {
    run.host.interrupt.ignore(); // putting etcd back must not be interrupted
    let result =
        undo(run, goal, attempt).map_err(|failure| failure.into_error().context("putting etcd back"));
    // After etcd was put back: with a dead target the unmount can take as long as open-iscsi's replacement timeout.
    run.drop_staging();
    result
}

fn undo(run: &mut Run<'_>, goal: Goal, attempt: Attempt<'_>) -> Result<Option<Done>, Failure> {
    let mut was_put_back = None;
    for _ in 0..MAX_ROUNDS {
        let node = match goal {
            Goal::Local => observed(run, goal),
            Goal::Lun(_) | Goal::Claim | Goal::ClaimLocal => {
                observe::local_side(run.door, run.config, run.identity.clone())
            }
        };
        match plan::undo(run.config, &node, goal, attempt) {
            // The run has changed nothing, and its own failure says more.
            Err(_) if attempt.begun.is_empty() && was_put_back.is_none() => return Ok(None),
            Err(refusal) => return Err(refusal.into()),
            Ok(Undo::Nothing) => {
                if let Some(then) = was_put_back {
                    run.watcher.noted(then);
                }
                return Ok(None);
            }
            Ok(Undo::Leave(why)) => {
                run.watcher.noted(why);
                return Ok(None);
            }
            Ok(Undo::Accept(why)) => {
                run.watcher.noted(why);
                return Ok(Some(done(run.config, &node, attempt.begun)));
            }
            Ok(Undo::PutBack(plan, then)) => {
                run.watcher.planned(&plan);
                carry_out(run, &plan, &mut Vec::new(), &mut Clock::default())?;
                was_put_back = Some(then);
            }
        }
    }
    Err(without_end().into())
}
