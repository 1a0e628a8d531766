//! The loop of `apply` and `rollback`: observe, plan, run the steps, until the plan is empty. It decides nothing.

use super::{
    alone,
    away::Clock,
    cause,
    context::Run,
    dispatch,
    outcome::{Done, Failure},
    steps::{etcd, preflight},
    sysfs,
    watcher::Watcher,
};
use crate::{
    config::Config,
    host::{Host, filelock::Lock, kmsg, namespace},
    node::{
        Fact, Identity,
        authority::{Authority, Record},
    },
    observe::{self, Viewpoint, secrets::Secrets},
    plan::{Goal, Occasion, Refusal},
};
use anyhow::{Context as _, anyhow, bail};
use std::time::{Duration, Instant};

/// How many plans one run may need. A migration takes one each for the local side, the login, the stamp and the rest,
/// and one to see that nothing is left. A rollback adds one for the mount and one for the sessions. More would mean
/// that a step doesn't do what its plan expects.
const MAX_ROUNDS: usize = 8;

/// The time limit for putting etcd back and unmounting the staged LUN. If the target doesn't answer, the unmount alone
/// may take two minutes.
const RETURN_LIMIT: Duration = Duration::from_secs(600);

/// Brings the node to what the config wants, or etcd's data back from the LUN, or takes the LUN back.
///
/// The caller has taken the lock before the first observation: without it another run could change the facts.
///
/// If an attempt fails before the commit point, this puts etcd back before it returns. If that fails too, the error
/// says so.
pub fn apply(
    host: &Host,
    config: &Config,
    secrets: &Secrets,
    identity: &Identity,
    goal: Goal,
    _lock: &Lock,
    watcher: &mut dyn Watcher,
) -> Result<Done, Failure> {
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
    let mut run = Run::new(host, config, secrets, identity);
    let result = rounds(&mut run, goal, watcher);
    let Err(failure) = result else { return result };
    Err(match put_back(&mut run, goal, &failure, watcher) {
        Ok(()) => failure,
        Err(second) => Failure::Error(failure.into_error().context(format!("{second:#}; after this"))),
    })
}

fn rounds(run: &mut Run<'_>, goal: Goal, watcher: &mut dyn Watcher) -> Result<Done, Failure> {
    let mut taken = Vec::new();
    let mut looked_again = false;
    // The kernel keeps the size that a LUN had at login. Only by hand can a filesystem grow.
    if goal == Goal::Lun(Occasion::ByHand) {
        sysfs::rescan_size(run.host, run.config).context("having the kernel read the LUN's size again")?;
    }
    let mut clock = Clock::default();
    for _ in 0..MAX_ROUNDS {
        let mut node = observe::node(
            run.host,
            run.config,
            run.identity.clone(),
            Viewpoint::Apply { staged: run.staging.as_ref() },
        );
        if goal.asks_cluster() {
            node.cluster = observe::cluster(run.host, run.config, &node);
            node.answering = observe::answering(run.host, run.config);
        }
        // In the format of `status --json`.
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!("observed {}", serde_json::to_value(&node).unwrap_or_default());
        }
        let plan = match goal.plan(run.config, &node) {
            // The kernel caches what it read at login, and someone may have corrected the target since then.
            Err(refusal) if refusal.depends_on_login() && !looked_again => {
                looked_again = true;
                sysfs::rescan_lun(run.host, run.config).context("having the kernel read the LUN again")?;
                continue;
            }
            planned => planned?,
        };
        watcher.planned(&plan);
        if plan.is_empty() {
            let away = clock.read(run.written);
            if let Some(away) = away {
                away.log();
            }
            return Ok(Done { steps: taken.len(), taken, rolled_back: node.rolled_back(), away });
        }
        for (at, step) in plan.steps.iter().enumerate() {
            if run.host.interrupt.is_requested() {
                return Err(Failure::Error(anyhow!("interrupted before the step `{step}`")));
            }
            watcher.started(at + 1, plan.steps.len(), step);
            let (start, log) = (Instant::now(), kmsg::Mark::now(run.host));
            let outcome = dispatch::step(run, step, watcher).map_err(|error| cause::beside(run, error, log));
            let outcome = outcome.with_context(|| format!("in step {}", step.id()));
            let shown = outcome.as_ref().map(|done| done.as_str()).map_err(|error| format!("{error:#}"));
            watcher.ended(step, shown.as_ref().map(|done| *done).map_err(String::as_str), start.elapsed());
            // A step may refuse because of something that no plan could know.
            outcome.map_err(|error| match error.downcast::<Refusal>() {
                Ok(refusal) => Failure::from(refusal),
                Err(error) => Failure::Error(error),
            })?;
            clock.ended(step, start);
            taken.push(step.id());
        }
    }
    Err(Failure::Error(anyhow!(
        "{MAX_ROUNDS} plans were carried out and there is still something to do; see `etcd-lun plan`"
    )))
}

/// Puts etcd back to where it ran, if the failed attempt has not reached its commit point.
fn put_back(
    run: &mut Run<'_>,
    goal: Goal,
    failure: &Failure,
    watcher: &mut dyn Watcher,
) -> anyhow::Result<()> {
    run.host.interrupt.ignore(); // putting etcd back must not be interrupted
    watcher.returning(RETURN_LIMIT);
    let result = match goal {
        Goal::Lun(occasion) => back_on_local(run, occasion, watcher),
        Goal::Local => back_on_lun(run, failure, watcher),
        Goal::Claim | Goal::ClaimLocal => Ok(()), // they stop nothing that served
    };
    // After etcd was put back: with a dead target the unmount can take as long as open-iscsi's replacement timeout.
    run.drop_staging();
    result
}

fn back_on_local(run: &Run<'_>, occasion: Occasion, watcher: &mut dyn Watcher) -> anyhow::Result<()> {
    if !etcd::was_stopped_by_us(run.host, run.config)? {
        return Ok(());
    }
    let record = known_record(run)?;
    if record.as_ref().is_some_and(|record| record.authority == Authority::Lun) {
        watcher.noted("etcd stays stopped: its data is on the LUN now; `etcd-lun apply` goes on from here");
        return Ok(());
    }
    if record.is_some_and(|record| record.rolled_back) {
        watcher.noted(ROLLBACK_GOES_ON);
        return Ok(());
    }
    let wait = occasion == Occasion::ByHand;
    let wish = &run.config.etcd;
    etcd::start(run.host, &wish.runtime, &wish.data_dir, wait)
        .context("putting etcd back on the local disk")?;
    watcher.noted(if wait {
        "etcd runs from the local disk again, as before"
    } else {
        "etcd starts from the local disk, as before"
    });
    Ok(())
}

const ROLLBACK_GOES_ON: &str =
    "etcd stays as it is: its data is on the local disk now; `etcd-lun rollback` goes on from here";

/// Before the commit point of a rollback the LUN's copy is still authoritative: the rounds of `apply` mount the LUN and
/// start etcd.
fn back_on_lun(run: &mut Run<'_>, failure: &Failure, watcher: &mut dyn Watcher) -> anyhow::Result<()> {
    // A refused run has changed nothing, unless an earlier run stopped etcd and was killed.
    if matches!(failure, Failure::Refused(_)) && !etcd::was_stopped_by_us(run.host, run.config)? {
        return Ok(());
    }
    if !known_record(run)?.is_some_and(|record| record.authority == Authority::Lun) {
        watcher.noted(ROLLBACK_GOES_ON);
        return Ok(());
    }
    rounds(run, Goal::Lun(Occasion::ByHand), watcher)
        .map_err(|failure| failure.into_error().context("putting etcd back on the LUN"))?;
    watcher.noted("etcd runs from the LUN again, as before");
    Ok(())
}

fn known_record(run: &Run<'_>) -> anyhow::Result<Option<Record>> {
    match observe::record(run.host) {
        Fact::Known(record) => Ok(record),
        Fact::Unknown(why) => {
            bail!("etcd stays stopped, because it cannot be determined which copy is authoritative ({why})")
        }
    }
}
