//! `mark` and `let-go`: what only units run.

use super::{Exit, config, env, progress::Progress, say};
use crate::{
    apply::{
        let_go,
        mark::{self, Marked},
    },
    host::notify::Notify,
};
use std::path::Path;

/// Counts a use of the LUN once more, where there is one.
pub(super) fn run(file: Option<&Path>) -> Result<(), Exit> {
    let (host, identity, config) = config::load_to_change(file)?;
    let mut progress = Progress::new(Notify::new(env::var("NOTIFY_SOCKET").as_deref()));
    let marked = mark::mark(&host, &config, &identity, &mut progress)?;
    say(&match marked {
        Marked::Counted(said) => said,
        Marked::Idle(why) => format!("Nothing to count: {why}."),
        Marked::Busy(lock) => format!("Not now: {lock}"),
    });
    Ok(())
}

/// Bounds a shutdown without the target.
pub(super) fn let_go(file: Option<&Path>) -> Result<(), Exit> {
    let (host, _, config) = config::load_to_change(file)?;
    match let_go::let_go(&host, &config)? {
        None => say("The system is not shutting down: nothing is done."),
        Some(done) => done.iter().for_each(|line| say(line)),
    }
    Ok(())
}
