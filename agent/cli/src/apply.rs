//! `apply`, `rollback` and `claim`

use super::{
    config,
    document::Document,
    env,
    exit::Exit,
    failure::failure,
    follow, logging,
    output::{self, OutputFormat, print_err, print_out},
    progress::Progress,
    show, view,
};
use ::config::Config;
use anyhow::Context as _;
use apply::{
    Done,
    alone::{self, Turn},
    run_file::RunResult,
    scope,
};
use clap::Args;
use hands::{Door, Request};
use host::{Host, filelock::Lock};
use node::{
    Fact, Identity, Selinux,
    layout::{CONFIG_AT_BOOT, CONFIG_BY_HAND},
};
use observe::secrets::{self, Secrets};
use plan::{Goal, Occasion, Refusal, Trouble};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use terms::fail;

/// What `apply` is asked for.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Run as the service does at boot: do not stop an etcd that runs, and do not wait for etcd
    #[arg(long)]
    pub boot: bool,
    /// Do nothing unless the LUN that is mounted for etcd is gone, shut down or another volume (internal; run by etcd-lun-lost.service)
    #[arg(long, requires = "boot")]
    pub if_lost: bool,
    #[command(flatten)]
    pub by_hand: ByHand,
}

/// What `claim` is asked for.
#[derive(Debug, Args)]
pub(super) struct ClaimOptions {
    /// Return to the local data that was barred, and give up what only the LUN holds
    #[arg(long)]
    pub local: bool,
    /// Take the LUN that this node has used under this host name. Its record is lost, so only you know that it was renamed
    #[arg(long, value_name = "NAME", conflicts_with = "local")]
    pub former_name: Option<String>,
    #[command(flatten)]
    pub by_hand: ByHand,
}

/// What every run by hand is asked for.
#[derive(Debug, Args)]
pub(super) struct ByHand {
    /// Print the steps, or the reason of a refusal, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// If another run is under way, say so and exit with 1; without this, follow it to its end
    #[arg(long)]
    pub no_follow: bool,
    #[command(flatten)]
    pub output: OutputFormat,
}

/// Brings the node to what the config asks for, or etcd's data back to the local disk. If another run does something
/// already, follows that one.
///
/// At a boot what is not known may be known later, and a program that is not the one of the object may not like the object. systemd
/// tries again after an error, and fetches the program before that; after a refusal it does not.
pub(super) fn run(file: Option<&Path>, goal: Goal, options: &ByHand) -> Result<(), Exit> {
    run_once(file, goal, None, options).map_err(|exit| {
        let is_unknown =
            matches!(&exit, Exit::Refused(refusal) if matches!(**refusal, Refusal::Unknown { .. }));
        if goal != Goal::Lun(Occasion::Boot) || !matches!(exit, Exit::Config(_) | Exit::Refused(_)) {
            exit
        } else if Host::machine().is_ok_and(|host| config::awaits_program(&host)) {
            Exit::Awaits(exit.into(), "This program is not the one of the node's object: it is fetched")
        } else if is_unknown {
            Exit::Awaits(exit.into(), "It may be known later")
        } else {
            exit
        }
    })
}

/// Makes the node the owner of its LUN, or of the local data that was barred.
pub(super) fn claim(file: Option<&Path>, options: &ClaimOptions) -> Result<(), Exit> {
    let goal = if options.local { Goal::ClaimLocal } else { Goal::Claim };
    run_once(file, goal, options.former_name.clone(), &options.by_hand)
}

fn run_once(
    file: Option<&Path>,
    goal: Goal,
    former_name: Option<String>,
    options: &ByHand,
) -> Result<(), Exit> {
    let output = options.output;
    if options.dry_run {
        return view::plan(file, goal, former_name, output);
    }
    let by_hand = goal != Goal::Lun(Occasion::Boot);
    let opening = match goal {
        Goal::Lun(Occasion::Boot) => config::AT_BOOT,
        Goal::Local => config::TO_APPLY.or_kept(),
        Goal::Lun(_) | Goal::Claim | Goal::ClaimLocal => config::TO_APPLY,
    };
    let (host, identity, config) = opening.load(file)?;
    let identity = Identity { former_name, ..identity };
    // Secrets are read before signals are held back, because a read can hang.
    let secrets = match secrets::load(&host, &config, config::credentials().as_deref()) {
        // Where there is a session it needs none, and without one the log-in fails.
        Err(error) if goal == Goal::Local => {
            tracing::warn!("{error}: going on without it");
            Secrets::default()
        }
        secrets => secrets?,
    };
    config::hold(&host)?;
    let door = Door::of(&host, &config)?;
    let (lock, run_file) = loop {
        match alone::turn(&door, verb(goal)).context("making sure that this is the only apply")? {
            Turn::Ours(lock, run_file) => break (lock, run_file),
            Turn::Taken(other) if by_hand => follow::run(&host, verb(goal), *other, !options.no_follow)?,
            Turn::Taken(other) => {
                fail!(
                    AnotherRun,
                    "`etcd-lun {}` runs already (process {}): the service tries again after its end",
                    other.verb,
                    other.pid
                );
            }
        }
    };
    let mut progress = Progress::new().followed_in(run_file);
    let outcome = prepare(&host, goal)
        .and_then(|()| carry_out(&door, &config, &secrets, &identity, goal, &lock, &mut progress));
    let result = result_of(goal, outcome.as_ref());
    if outcome.is_ok() {
        // Where SELinux is on, the unit before the service keeps the other copy: the service has no access to it.
        let has_access = by_hand || host::selinux::is_on(&host).is_ok_and(|on| !on);
        let places = [CONFIG_AT_BOOT, CONFIG_BY_HAND];
        config::keep(&host, file, if has_access { &places } else { &places[..1] });
        logging::note_end(&result.text);
        print_out(&if output.json { format!("{:#}", result.json) } else { result.text.clone() });
    }
    if let Some(file) = progress.into_file() {
        file.end(result);
    }
    outcome.map(drop)
}

/// Does what a boot does if the kernel has lost the LUN that is mounted for etcd, such as by a log-out of another program, or its
/// filesystem has shut down: that is mounted anew, after the looks of a boot. If the target has mapped another volume there, takes
/// that volume's disk away.
/// Does nothing at a shutdown, and while another run is under way, which may have logged out itself.
pub(super) fn run_if_lost(file: Option<&Path>) -> Result<(), Exit> {
    let goal = Goal::Lun(Occasion::Boot);
    let (host, identity, config) = config::TO_KEEP_UP.load(file)?;
    let door = Door::of(&host, &config)?;
    match trouble(&door, &config, &identity)? {
        None => return Ok(()),
        Some(Trouble::Lost) => {}
        Some(Trouble::NoIscsid) => {
            tracing::warn!("iscsid does not serve the session of etcd's LUN: starting it");
            return Ok(door.perform(&Request::StartIscsid)?);
        }
        Some(Trouble::IdleIscsid) if !apply::anew::may_restart_iscsid(&host)? => return Ok(()),
        Some(Trouble::IdleIscsid) => {
            tracing::warn!(
                "the portal answers, and iscsid has not made the session of etcd's LUN again for {IDLE_LIMIT:?}: restarting iscsid"
            );
            return Ok(door.perform(&Request::StartIscsid)?);
        }
        // Without the lock: the run that has it may take long, and each write meanwhile damages the other volume.
        Some(Trouble::OtherVolume(disk, refusal)) => {
            door.perform(&Request::RemoveOther { disk }).with_context(|| refusal.to_string())?;
            return Err(Exit::Refused(Box::new(refusal)));
        }
    }
    let secrets = secrets::load(&host, &config, config::credentials().as_deref())?;
    config::hold(&host)?;
    let Turn::Ours(lock, file) =
        alone::turn(&door, verb(goal)).context("making sure that this is the only apply")?
    else {
        tracing::info!("etcd's LUN is gone, and another run is under way: nothing to do");
        return Ok(());
    };
    tracing::warn!(
        "etcd's LUN was lost at {}, or its filesystem has shut down: making the session again, and mounting the LUN anew if etcd needs that",
        config.etcd.data_dir
    );
    let mut progress = Progress::new().followed_in(file);
    let outcome = carry_out(&door, &config, &secrets, &identity, goal, &lock, &mut progress);
    if let Some(file) = progress.into_file() {
        file.end(result_of(goal, outcome.as_ref()));
    }
    outcome.map(|_| tracing::warn!("etcd's LUN is there again, and etcd can use it"))
}

/// What is wrong with the iscsid of a LUN that is mounted.
pub(super) fn with_iscsid(runs: bool, leaves_alone: impl FnOnce() -> bool) -> Option<Trouble> {
    if runs { leaves_alone().then_some(Trouble::IdleIscsid) } else { Some(Trouble::NoIscsid) }
}

/// iscsid tries every few seconds, and a log-in may take 15 s (`node.conn[0].timeo.login_timeout`).
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Looks twice, because systemd starts no second run for the loss of another path during this one; and, while iscsid may still make
/// the session again, until that has taken too long. At a shutdown nothing is lost.
fn trouble(door: &Door<'_>, config: &Config, identity: &Identity) -> Result<Option<Trouble>, Exit> {
    const PAUSE: Duration = Duration::from_secs(2);
    let now = || {
        let node = observe::mounted_lun(door, config, identity.clone());
        let unfinished =
            observe::mounted_anew(door.host).context("reading what was mounted anew")?.unfinished;
        let leaves_alone = || observe::is_left_alone(door, config);
        let with_iscsid = || anyhow::Ok(with_iscsid(observe::iscsid_runs(door)?, leaves_alone));
        anyhow::Ok(plan::trouble(config, &node, unfinished, with_iscsid)?)
    };
    let (begun, mut looks) = (Instant::now(), 0);
    loop {
        looks += 1;
        match now()? {
            found @ Some(Trouble::OtherVolume(..)) => return Ok(found),
            _ if door.is_stopping()? => return Ok(None),
            found @ Some(Trouble::Lost | Trouble::NoIscsid) => return Ok(found),
            found @ Some(Trouble::IdleIscsid) if begun.elapsed() >= IDLE_LIMIT => return Ok(found),
            None if looks > 1 => return Ok(None),
            Some(Trouble::IdleIscsid) | None => {}
        }
        door.host.pause(PAUSE).context("waiting for another look")?;
    }
}

/// Makes a run by hand independent of its terminal. A service has neither a terminal nor a session that could end.
fn prepare(host: &Host, goal: Goal) -> Result<(), Exit> {
    if goal == Goal::Lun(Occasion::Boot) || env::under_systemd() {
        return Ok(());
    }
    host.interrupt.outlive_terminal();
    output::outlive_terminal().context("starting the thread that writes to the terminal")?;
    match scope::enter(host, verb(goal))? {
        None => print_err(&format!(
            "This run goes on if the terminal closes: `journalctl -t etcd-lun -f` or `etcd-lun {}` follows it.",
            verb(goal)
        )),
        Some(why) => print_err(&format!(
            "warning: this run has no systemd scope of its own ({why}): if its session is killed, it is killed too, and etcd may stay stopped; `etcd-lun {}` then goes on",
            verb(goal)
        )),
    }
    Ok(())
}

fn carry_out(
    door: &Door<'_>,
    config: &Config,
    secrets: &Secrets,
    identity: &Identity,
    goal: Goal,
    lock: &Lock,
    progress: &mut Progress<'_>,
) -> Result<Done, Exit> {
    log_domain(door.host, config);
    let done = apply::apply(door, config, secrets, identity, goal, lock, progress)?;
    apply::anew::finish(door.host)?;
    Ok(done)
}

/// What `apply` prints.
pub const APPLY: Document<Done> =
    Document::under("apply", "apply", "etcd-lun apply --json, when it succeeds");

/// What `rollback` prints.
pub const ROLLBACK: Document<Done> =
    Document::under("rollback", "rollback", "etcd-lun rollback --json, when it succeeds");

/// What `claim` prints.
pub const CLAIM: Document<Done> =
    Document::under("claim", "claim", "etcd-lun claim --json, when it succeeds");

/// How the run has ended, for those who follow it.
fn result_of(goal: Goal, outcome: Result<&Done, &Exit>) -> RunResult {
    match outcome {
        Ok(done) => {
            let document = match goal {
                Goal::Lun(_) => APPLY,
                Goal::Local => ROLLBACK,
                Goal::Claim | Goal::ClaimLocal => CLAIM,
            };
            let json = document.of(done);
            RunResult { code: 0, text: summary(goal, done), json }
        }
        Err(exit) => {
            let text = exit.line().unwrap_or_default();
            let json = failure(exit).unwrap_or_default();
            RunResult { code: exit.code(), text, json }
        }
    }
}

fn summary(goal: Goal, done: &Done) -> String {
    if goal == Goal::Claim {
        return "This node owns the LUN: run `etcd-lun apply`, or reboot.".into();
    }
    if done.steps == 0 {
        return show::nothing_to_do(done.rolled_back, done.held);
    }
    let place = if done.rolled_back.is_some() || done.held { "local disk" } else { "LUN" };
    let away = done.away.map(|away| format!(" {away}.")).unwrap_or_default();
    format!("Done: {} steps, etcd's data is on the {place}.{away}", done.steps)
}

/// The verb, as it stands on the command line.
fn verb(goal: Goal) -> &'static str {
    match goal {
        Goal::Lun(Occasion::ByHand) => "apply",
        Goal::Lun(Occasion::Boot) => "apply --boot",
        Goal::Local => "rollback",
        Goal::Claim => "claim",
        Goal::ClaimLocal => "claim --local",
    }
}

/// Logs the SELinux domain of this process. If the program has lost its label, or the unit its SELinuxContext=, it works
/// unconfined. Nobody would notice without this line.
fn log_domain(host: &Host, config: &Config) {
    if let Fact::Known(Selinux::On { context, unit, .. }) = observe::selinux(host, config) {
        match unit {
            Some(unit) if policy::type_of(&context) != Some(policy::DOMAIN) => {
                tracing::warn!("{unit} runs unconfined, as {context}: see `etcd-lun selinux status`");
            }
            _ => tracing::info!("running as {context}"),
        }
    }
}
