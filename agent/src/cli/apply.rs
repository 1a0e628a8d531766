//! `apply`

use super::{Exit, OutputFormat, config, env, progress::Progress, say, say_json};
use crate::{
    apply::{self, Failure, secrets},
    host::notify::Notify,
    plan::Occasion,
};
use std::path::Path;

/// Brings the node to what the config wants.
pub(super) fn run(file: Option<&Path>, occasion: Occasion, output: OutputFormat) -> Result<(), Exit> {
    let (host, identity, config) = config::load_to_change(file)?;
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
