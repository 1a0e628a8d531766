//! `apply`

use super::{Exit, OutputFormat, config, env, progress::Progress, say, say_json};
use crate::{
    apply::{self, Failure, secrets},
    config::Config,
    host::{Host, notify::Notify},
    node::{Fact, Selinux},
    observe,
    plan::Occasion,
    policy,
};
use std::path::Path;

/// Brings the node to what the config wants.
pub(super) fn run(file: Option<&Path>, occasion: Occasion, output: OutputFormat) -> Result<(), Exit> {
    let (host, identity, config) = config::load_to_change(file)?;
    say_domain(&host, &config);
    let secrets = secrets::load(&host, &config, config::credentials().as_deref())?;
    let notifier = Notify::new(env::var("NOTIFY_SOCKET").as_deref());
    let mut progress = Progress::new(notifier);
    let done =
        apply::apply(&host, &config, &secrets, &identity, occasion, &mut progress).map_err(|failure| {
            match failure {
                Failure::Refused(refusal) => Exit::Refused(refusal),
                Failure::Error(error) => Exit::Error(error),
            }
        })?;
    if output.json {
        return say_json("apply", &done);
    }
    if done.steps == 0 {
        say("Nothing to do: the node is what the config asks for.");
    } else {
        say(&format!("Done: {} steps, etcd's data is on the LUN.", done.steps));
    }
    Ok(())
}

/// Says in the journal what this runs as. A program that lost its label, or a unit without its line, works as well
/// unconfined, and nobody would notice.
fn say_domain(host: &Host, config: &Config) {
    if let Fact::Known(Selinux::On { context, unit, .. }) = observe::selinux(host, config) {
        match unit {
            Some(unit) if policy::type_of(&context) != Some(policy::DOMAIN) => {
                tracing::warn!("{unit} runs unconfined, as {context}: see `etcd-lun selinux status`");
            }
            _ => tracing::info!("running as {context}"),
        }
    }
}
