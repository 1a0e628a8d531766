//! `mark` and `let-go`: internal verbs, which only units run.

use super::{config, exit::Exit, output::print_out};
use apply::{
    let_go,
    mark::{self, Marked},
};
use hands::Door;
use std::path::Path;

/// Advances the LUN's use counter, if etcd's data is on it.
pub(super) fn run(file: Option<&Path>) -> Result<(), Exit> {
    let (host, identity, config) = config::TO_KEEP_UP.load(file)?;
    config::hold(&host)?;
    let marked = mark::mark(&Door::of(&host, &config)?, &config, &identity)?;
    print_out(&match marked {
        Marked::Counted(said) => said,
        Marked::Idle(why) => format!("The use counter stays as it is: {why}."),
        Marked::Busy(lock) => format!("The use counter stays as it is: {lock}"),
    });
    Ok(())
}

/// Limits how long a shutdown waits for an unreachable target.
pub(super) fn let_go(file: Option<&Path>) -> Result<(), Exit> {
    let (host, _, config) = config::TO_KEEP_UP.load(file)?;
    config::hold(&host)?;
    match let_go::let_go(&Door::of(&host, &config)?, &config)? {
        None => print_out("The system is not shutting down: nothing to do."),
        Some(done) => done.iter().for_each(|line| print_out(line)),
    }
    Ok(())
}
