//! `apply` and `rollback`

use super::{
    config, env,
    exit::Exit,
    output::{OutputFormat, print_json, print_out},
    progress::Progress,
    show,
};
use crate::{
    apply::{self, secrets},
    config::Config,
    host::{Host, notify::Notify},
    node::{Fact, Selinux},
    observe,
    plan::{Goal, Occasion},
    policy,
};
use std::path::Path;

/// Brings the node to what the config asks for, or etcd's data back to the local disk.
pub(super) fn run(file: Option<&Path>, goal: Goal, output: OutputFormat) -> Result<(), Exit> {
    let (host, identity, config) = config::load_with_host_name(file, goal == Goal::Lun(Occasion::Boot))?;
    log_domain(&host, &config);
    let secrets = secrets::load(&host, &config, config::credentials().as_deref())?;
    let notifier = Notify::new(env::var("NOTIFY_SOCKET").as_deref());
    let mut progress = Progress::new(notifier);
    let done = apply::apply(&host, &config, &secrets, &identity, goal, &mut progress)?;
    if output.json {
        return print_json(kind(goal), &done);
    }
    if goal == Goal::Claim {
        print_out("This node owns the LUN: run `etcd-lun apply`, or reboot.");
    } else if done.steps == 0 {
        print_out(&show::nothing_to_do(done.rolled_back));
    } else {
        let place = if done.rolled_back.is_some() { "local disk" } else { "LUN" };
        print_out(&format!("Done: {} steps, etcd's data is on the {place}.", done.steps));
    }
    Ok(())
}

/// The verb, as it stands in JSON.
fn kind(goal: Goal) -> &'static str {
    match goal {
        Goal::Lun(_) => "apply",
        Goal::Local => "rollback",
        Goal::Claim => "claim",
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
