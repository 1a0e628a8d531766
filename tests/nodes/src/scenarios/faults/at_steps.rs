//! A target that misbehaves during each step of a migration, one step after the other on one node. Each
//! attempt must end as designed, with etcd on the local disk as before. After the target is repaired, a plain
//! `apply` must continue.

use std::time::Instant;

use anyhow::Result;

use super::super::held;
use super::{check, in_use, unnamed};
use crate::bed::Bed;
use crate::net::{Cut, Machine, Path};
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::Target;

/// The id of the step that is to fail, and of the step at whose beginning the run is held.
type Step = (&'static str, &'static str);

const ATTACH: Step = ("attach-lun", "attach-lun");
const FORMAT: Step = ("format", "format");
const CATCH_UP: Step = ("catch-up", "catch-up");
const COPY: Step = ("copy", "copy");
/// Held at the proof, which asks the LUN for nothing: a run can write the stamp before it is stopped at the stamp's own line.
const STAMP: Step = ("stamp", "prove");
pub(super) const STEPS: &[Step] = &[ATTACH, FORMAT, CATCH_UP, COPY, STAMP];

/// A fault of the target that ends an attempt.
pub(super) struct Fault {
    pub begin: fn(&Bed, &Target) -> Result<()>,
    pub repair: fn(&Bed, &Target) -> Result<()>,
    /// What every message must carry, besides the step: the object, and what happened to it. The name of the error depends on
    /// the call that the fault meets first. What happened has no name of its own, and is found by its words, or the kernel's.
    says: &'static [&'static str],
    /// The steps that fail because of it.
    ends: &'static [Step],
    /// The time-outs, as a fragment of the config.
    timeouts: &'static str,
}

/// Pings detect a dead connection early.
const PINGS: &str = "[target]\nnoop_interval = \"1s\"\nnoop_timeout = \"2s\"\n";

/// Packets are dropped. While etcd runs on the LUN, the session gives the target up after 5 s instead of an
/// hour.
pub(super) const CUT_OFF: Fault = Fault {
    begin: |bed, _| bed.net.cut(Path::A, Cut::Drop),
    repair: |bed, _| bed.net.repair(),
    says: &["10.77.0.1:3260", "is not connected"],
    ends: STEPS,
    timeouts: "[target]\nnoop_interval = \"1s\"\nnoop_timeout = \"2s\"\nreplacement_timeout = \"5s\"\n",
};

/// The same for a LIO target, whose machine loses its link.
const LIO_CUT_OFF: Fault = Fault {
    begin: |bed, _| bed.net.link_of(Machine::Lio, Path::A, false),
    says: &["10.77.0.3:3260", "is not connected"],
    ..CUT_OFF
};

/// The target accepts packets and does not answer.
pub(super) const FROZEN: Fault = Fault {
    begin: |_, target| target.freeze(),
    repair: |_, target| target.thaw(),
    says: CUT_OFF.says,
    ends: STEPS,
    timeouts: PINGS,
};

/// The LUN becomes read-only. A LUN that is read-only when it is attached is refused; see `lun/not-the-one`.
pub(super) const READ_ONLY: Fault = Fault {
    begin: |_, target| target.set_read_only(true),
    repair: |_, target| target.set_read_only(false),
    says: &["LUN 1 (sda)", "read-only"],
    ends: &[FORMAT, CATCH_UP, COPY, STAMP],
    timeouts: PINGS,
};

/// The storage has no free space. `copy/storage-out-of-space` tests this during the copy. The steps after the
/// copy only overwrite blocks that are already allocated.
pub(super) const FULL: Fault = Fault {
    begin: |bed, _| Stage::thin_room(bed, None),
    repair: |bed, _| Stage::thin_room(bed, Some(ROOM)),
    says: &["error, dev sda, ", "LUN 1"],
    ends: &[FORMAT],
    timeouts: PINGS,
};
const ROOM: u64 = 900 << 20;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("faults/cut-off", |stage| cut_off(stage, &CUT_OFF, Wanted::default())),
        Scenario::new("faults/frozen", |stage| {
            at_each(stage, &FROZEN, Wanted::default(), &[FORMAT, CATCH_UP])?;
            goes_on(stage)?;
            in_use::waits(stage, &FROZEN)
        }),
        Scenario::new("faults/read-only", |stage| {
            at_each(stage, &READ_ONLY, Wanted::default(), &[FORMAT, STAMP])?;
            goes_on(stage)?;
            in_use::until_it_shuts_down(stage, &READ_ONLY)
        }),
        Scenario::new("faults/full", |stage| {
            stage.thin_lun(ROOM)?;
            let played = at_each(stage, &FULL, Wanted::default(), &[FORMAT])
                .and_then(|()| goes_on(stage))
                .and_then(|()| in_use::full(stage, &FULL));
            stage.end_thin_lun()?;
            played
        }),
        Scenario::new("faults/restarted", in_use::restarted),
        Scenario::new("faults/slow", in_use::slow),
    ]
}

/// What `faults/cut-off` plays, with a LIO target.
pub(in super::super) fn lio_cut_off(stage: &mut Stage, wanted: Wanted) -> Result<()> {
    cut_off(stage, &LIO_CUT_OFF, wanted)
}

fn cut_off(stage: &mut Stage, fault: &Fault, wanted: Wanted) -> Result<()> {
    at_each(stage, fault, wanted, &[ATTACH, COPY])?;
    goes_on(stage)?;
    in_use::until_it_shuts_down(stage, fault)
}

/// Makes an attempt at each of these steps, or at the steps that `$ETCD_LUN_BED_STEPS` names (`all` for all).
fn at_each(stage: &mut Stage, fault: &Fault, wanted: Wanted, steps: &[Step]) -> Result<()> {
    let named = std::env::var("ETCD_LUN_BED_STEPS").ok();
    let chosen = fault.ends.iter().filter(|step| match named.as_deref() {
        None => steps.contains(step),
        Some(named) => named == "all" || named.split(',').any(|name| name == step.0),
    });
    stage.configure(&Wanted { attach_timeout: "20s".into(), ..wanted })?;
    stage.node.put("/etc/etcd-lun/config.d/50-timeouts.toml", 0o644, fault.timeouts.as_bytes())?;
    for (step, held_at) in chosen {
        let begun = Instant::now();
        let bed = std::rc::Rc::clone(&stage.bed);
        let output = held::apply(stage, &[*held_at], |node, target| {
            node.ok(SHORT)?;
            (fault.begin)(&bed, target)
        })?;
        (fault.repair)(&bed, &stage.target)?;
        let said = output.stderr.lines().rfind(|line| line.contains(": ")).unwrap_or_default();
        println!(
            "        at {step}, {:.0} s: exit code {}, {said}",
            begun.elapsed().as_secs_f32(),
            output.code
        );
        check(&output, unnamed(fault.says).in_step(step))?;
        stage.is_untouched()?;
    }
    Ok(())
}

/// After the target is repaired, a plain `apply` completes the migration.
fn goes_on(stage: &mut Stage) -> Result<()> {
    let output = stage.apply()?;
    println!("        {}", output.stdout.trim_end());
    stage.is_on_lun()
}

/// Gives the target up after 5 s, as long as this session exists. A migration's session has 30 s.
const SHORT: &str = "echo 5 | tee /sys/class/iscsi_session/session*/recovery_tmo";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_exists() {
        let known = super::super::super::declined::step_ids();
        assert!(STEPS.iter().all(|(id, held_at)| known.contains(*id) && known.contains(*held_at)));
    }
}
