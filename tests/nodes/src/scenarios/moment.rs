//! What happens at one exact moment of a run. strace delays one system call of the program, or reports a success of a call
//! that was never made (`strace(1)`, `inject`).

use anyhow::{Context, Result, bail};

use super::{check, failed};
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("moment/between-the-last-look-and-the-commit", last_moment)]
}

/// How long the exchange of the directories waits. etcd starts, acknowledges a write and ends meanwhile.
const DELAY: u32 = 60;

/// What the record says after the commit.
const COMMITTED: &str = r#"grep -q '"authority": *"lun"' /var/lib/etcd-lun/authority.json"#;

fn last_moment(stage: &mut Stage) -> Result<()> {
    // No extended attribute that is set is there afterwards. The last one of these calls before the commit makes the stamp.
    let output = stage.node.run(&traced("fsetxattr:retval=0", ""))?;
    check(&output, failed("storage-loses-writes", &[]).in_step("stamp"))?;
    stage.is_untouched()?;

    // The commit is made, and the local data is about to be moved out of the way. Somebody starts etcd, which acknowledges a
    // write and ends.
    stage.node.ok(&format!(
        "({}; echo $? >/run/code) >/run/said 2>&1 </dev/null &
         until {COMMITTED}; do [ ! -e /run/code ] || {{ cat /run/said; exit 1; }}; sleep 0.2; done
         systemctl start etcd.service
         until etcdctl put late yes; do sleep 0.2; done
         systemctl stop etcd.service
         test -e /var/lib/etcd/member/snap/db",
        // Of the calls only the exchange has this name as it stands.
        traced(&format!("renameat2:delay_enter={DELAY}000000"), "--trace-path=etcd")
    ))?;
    let said = stage.node.ok("until [ -e /run/code ]; do sleep 1; done; cat /run/said /run/code")?;
    // Who still has the data open is looked for before the data is compared.
    let is_back = failed("data-changed", &["/var/lib/etcd"]).in_step("retire");
    if !said.ends_with("\n1") {
        bail!("the run should have ended with 1: {said}");
    }
    is_back.is_in(&said).with_context(|| format!("the run should have put the data back: {said}"))?;

    // The commit never served, so it is taken back, and the node migrates with the newer data.
    stage.apply()?;
    stage.is_on_lun()?;
    stage.has_kept("late")
}

/// `etcd-lun apply`, with this injection into its system calls. The calls are in /run/calls. More options of strace choose the
/// calls, such as `--trace-path`.
fn traced(inject: &str, more: &str) -> String {
    let call = inject.split_once(':').map_or(inject, |(call, _)| call);
    format!(
        "strace --quiet=all --signal=none --follow-forks --output=/run/calls --trace={call} --inject={inject} {more} etcd-lun apply"
    )
}
