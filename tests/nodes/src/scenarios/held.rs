//! Stops a run exactly where it prints that a step begins, while something happens to it, to its node or to its target.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use node::authority::Record;
use plan::{NodeStep, ProtocolStep, Step, Way, step};
use terms::{AbsPath, Bytes, FsUuid, LunNumber, Nonce, Span, WantedLun, Wwid};

use crate::host::Output;
use crate::node::Node;
use crate::scene::{self, INITIATOR};
use crate::stage::Stage;
use crate::target::{IQN, Target};

/// The copy that counts: etcd is stopped, and what it wrote last is copied and proven next. The first copy, while etcd still
/// runs, is the step `pre-copy`.
const LAST_COPY: &str = "copy";

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

/// Runs a verb. When it prints that the first step of `at` begins, it is stopped. It continues after `meanwhile`. The same happens
/// for each further step, by its id. A run prints the line before the step's first action, so `meanwhile` also runs before that,
/// and before the step has child processes.
pub(super) fn run(
    stage: &mut Stage,
    verb: &str,
    at: &[&str],
    mut meanwhile: impl FnMut(&Node, &mut Target) -> Result<()>,
) -> Result<Output> {
    let Stage { node, target, .. } = stage;
    let node = &*node;
    let (output, reached) = node.run_while(&held(node, verb, at)?, scene::LIMIT, || {
        for (number, id) in at.iter().enumerate() {
            if !is_held(node, scene::LIMIT)? {
                return Ok(number);
            }
            let reached =
                meanwhile(node, target).with_context(|| format!("making the fault at the step {id}"));
            node.ok(RELEASE)?;
            reached?;
        }
        Ok(at.len())
    })?;
    match at.get(reached) {
        Some(id) => bail!("`{verb}` never printed that the step {id} begins: {output}"),
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

/// The command that runs a verb and holds it when these steps begin.
fn held(node: &Node, verb: &str, at: &[&str]) -> Result<String> {
    let lines: Vec<String> =
        at.iter().map(|id| Ok(format!("'{}'", line(id, verb)?))).collect::<Result<_>>()?;
    node.ok("rm -f /run/held")?;
    node.put("/run/held.sh", 0o700, HOLD.as_bytes())?;
    Ok(format!("chrt --fifo 50 sh /run/held.sh {verb} {}", lines.join(" ")))
}

/// Shell patterns for the line with which a step begins, with `|` between. The text is the program's own. What the bed does not
/// know is a `*`.
fn line(id: &str, verb: &str) -> Result<String> {
    let patterns: Vec<String> = steps(id, verb)?
        .iter()
        .map(|(step, unknown)| {
            let mut text = quoted(&step.to_string());
            for part in unknown {
                text = text.replace(&quoted(part), "*");
            }
            format!(r"\[*\]\ {text}")
        })
        .collect();
    Ok(patterns.join("|"))
}

/// A text in which no character has a meaning for the shell. Nothing can quote a `'` between two of them.
fn quoted(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\'' => "?".into(),
            letter if letter.is_alphanumeric() => letter.into(),
            letter => format!("\\{letter}"),
        })
        .collect()
}

/// The steps with this id, each with the parts of its text that differ from run to run. Two steps: containers of the pod may
/// still run.
fn steps(id: &str, verb: &str) -> Result<Vec<(Step, Vec<String>)>> {
    // A number that is in no other text.
    const UNKNOWN: u64 = 471_147;
    let (size, limit, uuid) = (Bytes(UNKNOWN), Span(Duration::from_secs(UNKNOWN)), FsUuid([7; 16]));
    let (at, wwid): (AbsPath, Wwid) = ("/var/lib/etcd".parse()?, "naa.0123456789abcdef".parse()?);
    let way = if verb == "rollback" { Way::ToLocal { generation: UNKNOWN } } else { Way::ToLun };
    let unknown =
        [format!(" ({size})"), limit.to_string(), UNKNOWN.to_string(), uuid.to_string(), wwid.to_string()];
    let record = || Record::begin(UNKNOWN, uuid, wwid.clone(), at.clone(), Nonce([7; 16]));
    let copy =
        |provisional| step::Copy { from: at.clone(), way, size: Some(size), onto_empty: false, provisional };
    let steps = match id {
        "attach-lun" => vec![Step::Node(NodeStep::AttachLun(step::AttachLun {
            target: IQN.parse()?,
            initiator: INITIATOR.parse()?,
            lun: WantedLun { number: Some(LunNumber(1)), wwid: None },
            everywhere: false,
            elsewhere: None,
            limit,
        }))],
        "format" => {
            let label = "etcd-lun".parse()?;
            vec![Step::Protocol(ProtocolStep::Format(step::Format { wwid: wwid.clone(), uuid, label }))]
        }
        "catch-up" => {
            vec![Step::Protocol(ProtocolStep::CatchUp(step::CatchUp { from: at.clone(), way, limit }))]
        }
        "copy" => {
            [false, true].map(|provisional| Step::Protocol(ProtocolStep::Copy(copy(provisional)))).into()
        }
        "prove" => [false, true]
            .map(|provisional| {
                Step::Protocol(ProtocolStep::Prove { from: at.clone(), way, provisional, afresh: false })
            })
            .into(),
        "unmount-data" => vec![Step::Protocol(ProtocolStep::UnmountData {
            unit: "var-lib-etcd.mount".into(),
            at: at.clone(),
        })],
        "commit-local" => vec![Step::Protocol(ProtocolStep::CommitLocal { record: record() })],
        _ => bail!("no run is held at the step {id}"),
    };
    Ok(steps.into_iter().map(|step| (step, unknown.to_vec())).collect())
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
set -f
IFS='|'
begins() {
    for pattern in $1; do
        case $line in $pattern) return 0 ;; esac
    done
    return 1
}
while IFS= read -r line; do
    if begins "$1"; then
        kill -STOP -$pid
        shift
        [ $# -gt 0 ] || set -- 'no more'
        touch /run/held
        while [ -e /run/held ]; do sleep 0.05; done
        kill -CONT -$pid 2>/dev/null
    fi
    printf '%s\n' "$line" >&2
done </run/lines
wait $pid
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Whether a shell takes this line for the beginning of the step.
    fn begins(id: &str, verb: &str, text: &str) -> bool {
        let function = HOLD.split("set -f\n").nth(1).unwrap().split("while IFS=").next().unwrap();
        let script = format!("set -f\n{function}\nline=$2\nbegins \"$1\"");
        let line = line(id, verb).unwrap();
        Command::new("sh").args(["-c", &script, "sh", &line, text]).status().unwrap().success()
    }

    #[test]
    fn a_run_is_held_at_the_step_that_is_meant() {
        let (at, size): (AbsPath, _) = ("/var/lib/etcd".parse().unwrap(), Some(Bytes(5 << 20)));
        for (verb, way) in [("apply", Way::ToLun), ("rollback", Way::ToLocal { generation: 2 })] {
            for (id, size, provisional) in
                [("copy", size, false), ("copy", None, true), ("pre-copy", size, true)]
            {
                let copy = step::Copy { from: at.clone(), way, size, onto_empty: true, provisional };
                let step = if id == "copy" {
                    Step::Protocol(ProtocolStep::Copy(copy))
                } else {
                    Step::Protocol(ProtocolStep::PreCopy(copy))
                };
                assert_eq!(begins("copy", verb, &format!("[9/14+] {step}")), id == "copy", "{step}");
                assert!(!begins("copy", verb, &format!("      {step}")), "{step}");
            }
        }
        let unmount = Step::Protocol(ProtocolStep::UnmountData { unit: "var-lib-etcd.mount".into(), at });
        assert!(begins("unmount-data", "rollback", &format!("[1/2] {unmount}")));
        let wwid: Wwid = "naa.60000000000000000bed000000000001".parse().unwrap();
        let format = step::Format { wwid, uuid: FsUuid([1; 16]), label: "etcd-lun".parse().unwrap() };
        assert!(begins(
            "format",
            "apply",
            &format!("[7/9] {}", Step::Protocol(ProtocolStep::Format(format)))
        ));
        assert!(line("no-step", "apply").is_err());
    }

    /// The texts are of the steps that the ids name.
    #[test]
    fn each_id_is_that_of_its_steps() {
        for id in ["attach-lun", "format", "catch-up", "copy", "prove", "unmount-data", "commit-local"] {
            assert!(steps(id, "rollback").unwrap().iter().all(|(step, _)| step.id() == id), "{id}");
        }
    }
}
