//! Stops `apply` exactly where it prints that a step begins, while something happens to its target.

use anyhow::{Context, Result, bail};

use crate::host::Output;
use crate::node::Node;
use crate::scene;
use crate::stage::Stage;
use crate::target::Target;

/// Runs `apply`. At the first line that matches the first shell pattern of `at`, `apply` and its child
/// processes are stopped. They continue after `meanwhile`. The same happens for each further pattern. `apply`
/// prints the line before the step's first action, so `meanwhile` also runs before that.
pub(super) fn apply(
    stage: &mut Stage,
    at: &[&str],
    mut meanwhile: impl FnMut(&Node, &mut Target) -> Result<()>,
) -> Result<Output> {
    let Stage { node, target, .. } = stage;
    let node = &*node;
    node.put("/run/held.sh", 0o700, HOLD.as_bytes())?;
    let patterns: Vec<String> = at.iter().map(|pattern| format!("'{pattern}'")).collect();
    let (output, reached) = node.run_while(
        &format!("chrt --fifo 50 sh /run/held.sh {}", patterns.join(" ")),
        scene::LIMIT,
        || {
            for (number, pattern) in at.iter().enumerate() {
                // This command ends when `apply` is stopped, or when it has ended instead.
                if node.run_within(HELD, scene::LIMIT)?.code != 0 {
                    return Ok(number);
                }
                let reached =
                    meanwhile(node, target).with_context(|| format!("making the fault at `{pattern}`"));
                node.ok("rm /run/held")?;
                reached?;
            }
            Ok(at.len())
        },
    )?;
    match at.get(reached) {
        Some(pattern) => bail!("`apply` never printed a line that matches `{pattern}`: {output}"),
        None => Ok(output),
    }
}

const HELD: &str =
    "while [ ! -e /run/held ] && [ ! -e /run/bed-meanwhile.code ]; do sleep 0.05; done; test -e /run/held";

/// The shell has real-time priority and the node has one processor. A line that `apply` writes wakes the
/// shell at once. `apply` gets the processor back only when the shell waits for the next line or has stopped
/// `apply`. `kill` is the shell's builtin, because a program takes time to start.
const HOLD: &str = r#"rm -f /run/held /run/lines
mkfifo -m 600 /run/lines
chrt --other 0 setsid etcd-lun apply 2>/run/lines &
pid=$!
while IFS= read -r line; do
    case "$line" in
    $1)
        kill -STOP -$pid
        shift
        [ $# -gt 0 ] || set -- 'no more'
        touch /run/held
        while [ -e /run/held ]; do sleep 0.05; done
        kill -CONT -$pid
        ;;
    esac
    printf '%s\n' "$line" >&2
done </run/lines
wait $pid
"#;
