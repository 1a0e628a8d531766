//! Stops a run exactly where it prints that a step begins, while something happens to it, to its node or to its target.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::host::Output;
use crate::node::Node;
use crate::scene;
use crate::stage::Stage;
use crate::target::Target;

/// A shell pattern for the line of the copy that counts: etcd is stopped, and what it wrote last is copied and proven
/// next. The line of the first copy, while etcd still runs, is never matched; see [`HOLD`].
const LAST_COPY: &str = r"*\]\ copy\ *\ to\ *";

/// Lets a held run go on, as a script in the node.
pub(super) const RELEASE: &str = "rm /run/held";

/// Runs `apply`: see [`run`].
pub(super) fn apply(
    stage: &mut Stage,
    at: &[&str],
    meanwhile: impl FnMut(&Node, &mut Target) -> Result<()>,
) -> Result<Output> {
    run(stage, "apply", at, meanwhile)
}

/// Runs a verb. At the first line that matches the first shell pattern of `at`, it is stopped. It continues after `meanwhile`.
/// The same happens for each further pattern. A run prints the line before the step's first action, so `meanwhile` also runs
/// before that, and before the step has child processes.
pub(super) fn run(
    stage: &mut Stage,
    verb: &str,
    at: &[&str],
    mut meanwhile: impl FnMut(&Node, &mut Target) -> Result<()>,
) -> Result<Output> {
    let Stage { node, target, .. } = stage;
    let node = &*node;
    let (output, reached) = node.run_while(&held(node, verb, at)?, scene::LIMIT, || {
        for (number, pattern) in at.iter().enumerate() {
            if !is_held(node, scene::LIMIT)? {
                return Ok(number);
            }
            let reached = meanwhile(node, target).with_context(|| format!("making the fault at `{pattern}`"));
            node.ok(RELEASE)?;
            reached?;
        }
        Ok(at.len())
    })?;
    match at.get(reached) {
        Some(pattern) => bail!("`{verb}` never printed a line that matches `{pattern}`: {output}"),
        None => Ok(output),
    }
}

/// Runs a verb that moves the data, stops it when etcd is stopped and before it copies what etcd wrote last, and then calls
/// `meanwhile`. The run goes on after that, or earlier by [`RELEASE`].
pub(super) fn at_the_last_copy<T>(
    stage: &Stage,
    verb: &str,
    limit: Duration,
    meanwhile: impl FnOnce() -> Result<T>,
) -> Result<(Output, T)> {
    let node = &stage.node;
    let (output, happened) = node.run_while(&held(node, verb, &[LAST_COPY])?, limit, || {
        if !is_held(node, limit)? {
            return Ok(None);
        }
        let happened = node
            .ok("! pgrep -x etcd")
            .context("the last copy begins while etcd runs")
            .and_then(|_| meanwhile())
            .with_context(|| format!("while `{verb}` is held at its last copy"));
        node.ok(&format!("[ ! -e /run/held ] || {RELEASE}"))?;
        happened.map(Some)
    })?;
    match happened {
        Some(happened) => Ok((output, happened)),
        None => bail!("`{verb}` ended before its last copy: {output}"),
    }
}

/// Runs a verb in the node's background, and returns when it is held at its last copy. It stays so: the caller ends the
/// node.
pub(super) fn stays_at_the_last_copy(node: &Node, verb: &str) -> Result<()> {
    let script = held(node, verb, &[LAST_COPY])?;
    node.ok(&format!("rm -f /run/bed-meanwhile.code; setsid {script} >/run/held.out 2>&1 </dev/null &"))?;
    if !is_held(node, scene::LIMIT)? {
        bail!("`{verb}` is not held at its last copy: {}", node.read("/run/held.out")?);
    }
    node.ok("! pgrep -x etcd").context("the last copy begins while etcd runs").map(drop)
}

/// The command that runs a verb and holds it at these patterns.
fn held(node: &Node, verb: &str, at: &[&str]) -> Result<String> {
    node.ok("rm -f /run/held")?;
    node.put("/run/held.sh", 0o700, HOLD.as_bytes())?;
    let patterns: Vec<String> = at.iter().map(|pattern| format!("'{pattern}'")).collect();
    Ok(format!("chrt --fifo 50 sh /run/held.sh {verb} {}", patterns.join(" ")))
}

/// Waits until the run is held. False: it has ended instead.
fn is_held(node: &Node, limit: Duration) -> Result<bool> {
    let script = format!(
        "for i in $(seq {}); do [ ! -e /run/held ] || exit 0; [ ! -e /run/bed-meanwhile.code ] || exit 1; sleep 0.05; done; exit 1",
        limit.as_secs() * 20
    );
    Ok(node.run_within(&script, limit * 2)?.code == 0)
}

/// The shell has real-time priority and the node has one processor. A line that the run writes wakes the shell at once. The
/// run gets the processor back only when the shell waits for the next line or has stopped the run. `kill` is the shell's
/// builtin, because a program takes time to start. A run that was killed meanwhile can't be continued, which is no error.
const HOLD: &str = r#"verb=$1
shift
rm -f /run/lines
mkfifo -m 600 /run/lines
chrt --other 0 setsid etcd-lun $verb 2>/run/lines &
pid=$!
while IFS= read -r line; do
    case "$line" in
    *'] copy '*'while etcd still runs'*) ;;
    $1)
        kill -STOP -$pid
        shift
        [ $# -gt 0 ] || set -- 'no more'
        touch /run/held
        while [ -e /run/held ]; do sleep 0.05; done
        kill -CONT -$pid 2>/dev/null
        ;;
    esac
    printf '%s\n' "$line" >&2
done </run/lines
wait $pid
"#;
