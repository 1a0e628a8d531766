//! What would fail after etcd's stop is found before it: etcd is never interrupted. Several causes on one boot, for each
//! direction.

use anyhow::{Result, bail};

use super::{Declined, check, each, main_pid, pod, refused, unnamed};
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("before-stop/migration", migration),
        Scenario::new("before-stop/rollback", rollback),
        Scenario::new("before-stop/static-pod", static_pod),
    ]
}

/// A cause, how it is made and removed, and how the program declines.
#[derive(Debug)]
struct Cause {
    make: &'static str,
    remove: &'static str,
    how: Declined<'static>,
}

/// A transient service, as a backup job is, runs a command in a mount namespace of its own.
macro_rules! job {
    ($command:literal) => {
        concat!(
            "systemd-run --quiet --collect --unit backup unshare --mount --propagation private sh -c '",
            $command,
            " && sleep 1000'; while ! pgrep -x sleep >/dev/null; do sleep 0.2; done"
        )
    };
}

/// Whether the job sees the LUN.
const HAS_IT: &str = "grep -q ' /var/lib/etcd ' /proc/$(pgrep -x sleep)/mountinfo";

const JOB_ENDS: &str = "systemctl stop backup";

/// The job has the data mounted at another place.
const MOUNTED: Declined = refused("data-in-use", &["/var/lib/etcd", "backup.service", "/mnt"]);

const ON_A_FILE: Cause = Cause {
    make: "setfattr -n user.note -v x /var/lib/etcd/member/snap/db",
    remove: "setfattr -x user.note /var/lib/etcd/member/snap/db",
    how: refused("copy-would-lose", &["/var/lib/etcd", "member/snap/db", "user.note"]),
};

const MASKED: Cause = Cause {
    // `systemctl mask` refuses, because the unit's file is where the link would be.
    make: "cd /etc/systemd/system && mv etcd.service /run/etcd.kept && ln -s /dev/null etcd.service && systemctl daemon-reload",
    remove: "cd /etc/systemd/system && rm etcd.service && mv /run/etcd.kept etcd.service && systemctl daemon-reload",
    how: refused("unit-not-loaded", &["etcd.service", "masked"]),
};

/// A LUN so slow, or an etcd that writes so much, that the last blocks would take too long. Here the limit is too short.
const TOO_LONG: Cause = Cause {
    make: "mkdir -p /etc/etcd-lun/config.d; printf '[lun]\\nmax_switch = \"1ms\"\\n' >/etc/etcd-lun/config.d/90-switch.toml",
    remove: "rm /etc/etcd-lun/config.d/90-switch.toml",
    how: refused("switch-too-long", &["1ms"]),
};

/// Something of an interrupted preflight is there. The run with the next cause removes it.
const LEFT: &str = "mkdir -p /var/lib/etcd-lun/preflight/fence /var/lib/.etcd-lun-preflight; chattr +i /var/lib/etcd-lun/preflight/fence";

fn migration(stage: &mut Stage) -> Result<()> {
    stage.configure(&Wanted::default())?;
    let causes = [
        Cause { make: job!("mount --bind /var/lib/etcd /mnt"), remove: JOB_ENDS, how: MOUNTED },
        ON_A_FILE,
        MASKED,
        Cause {
            make: "mkdir -p /var/lib/etcd-lun/retired; chattr +i /var/lib/etcd-lun/retired",
            remove: "chattr -i /var/lib/etcd-lun/retired",
            how: unnamed(&["/var/lib/etcd-lun/retired", "Operation not permitted"]).in_step("preflight"),
        },
        TOO_LONG,
    ];
    stage.node.ok(LEFT)?;
    tries(stage, "etcd-lun apply", causes)?;
    stage.is_untouched()?;
    stage.apply()?;
    stage.is_on_lun()
}

fn rollback(stage: &mut Stage) -> Result<()> {
    stage.migrate()?;
    let causes = [
        // It has a mount of the LUN of its own, and uses it.
        Cause {
            make: job!("exec 3</var/lib/etcd/member/snap/db"),
            remove: JOB_ENDS,
            how: refused("data-in-use", &["/var/lib/etcd", "backup.service", "member/snap/db"]),
        },
        ON_A_FILE,
        MASKED,
        Cause {
            make: "mkdir -p /var/lib/etcd-lun/returning/2; chattr +i /var/lib/etcd-lun/returning",
            remove: "chattr -i /var/lib/etcd-lun/returning",
            how: unnamed(&["/var/lib/etcd-lun/returning", "Operation not permitted"]),
        },
        TOO_LONG,
    ];
    stage.node.ok(LEFT)?;
    tries(stage, "etcd-lun rollback", causes)?;
    stage.is_on_lun()?;
    // A pod that sees the node's `/` without propagation has the LUN mounted and does not use it, and so does the next one.
    stage.node.ok(job!("true"))?;
    stage.node.ok(HAS_IT)?;
    let output = stage.agent("rollback")?;
    if output.code != 0 {
        bail!(
            "the rollback should succeed without the causes, beside an agent that has the LUN mounted: {output}"
        );
    }
    stage.node.ok(&format!("! {HAS_IT}; {JOB_ENDS}"))?;
    stage.is_untouched().map(drop)
}

fn static_pod(stage: &mut Stage) -> Result<()> {
    pod::hand_over(stage)?;
    leaves_a_static_pod_alone(stage)?;
    pod::manifest_is(stage, &format!("/{}", crate::image::ETCD_POD))
}

/// Causes that end a migration before it stops etcd's static pod.
fn leaves_a_static_pod_alone(stage: &Stage) -> Result<()> {
    let process = || stage.node.ok("pgrep -x etcd");
    let before = process()?;
    let causes = [
        Cause { make: job!("mount --bind /var/lib/etcd /mnt"), remove: JOB_ENDS, how: MOUNTED },
        Cause {
            make: "chattr +i /etc/kubernetes",
            remove: "chattr -i /etc/kubernetes",
            how: unnamed(&["/etc/kubernetes/etcd-lun-parked", "Operation not permitted"])
                .in_step("preflight"),
        },
    ];
    each(causes, |cause| plays(stage, "etcd-lun apply", &cause))?;
    if process()? != before {
        bail!("a run that stops before the stop interrupted etcd");
    }
    Ok(())
}

fn tries(stage: &Stage, command: &str, causes: [Cause; 5]) -> Result<()> {
    let before = main_pid(stage)?;
    each(causes, |cause| plays(stage, command, &cause))?;
    let after = main_pid(stage)?;
    if before != after {
        bail!("etcd was interrupted: process {before} before, {after} after");
    }
    stage.node.ok("test ! -e /var/lib/etcd-lun/preflight && test ! -e /var/lib/.etcd-lun-preflight").map(drop)
}

fn plays(stage: &Stage, command: &str, cause: &Cause) -> Result<()> {
    stage.node.ok(cause.make)?;
    let output = stage.node.run_within(command, crate::scene::LIMIT);
    stage.node.ok(cause.remove)?;
    check(&output?, cause.how)
}
