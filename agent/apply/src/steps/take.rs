//! Takes one LUN of the list in the config: from here on this run knows no other.

use super::look;
use crate::context::Run;
use anyhow::{Context as _, ensure};
use locate::Shown;
use plan::step::TakeLun;
use terms::WantedLun;

/// Goes on with the config as if the node's entry named this LUN alone, and tells the kernel to forget the others of the list. Nothing
/// is written to any of them: each later step proves for itself what the LUN holds.
pub fn take(run: &mut Run<'_>, step: &TakeLun) -> anyhow::Result<String> {
    let wwid = &step.wwid;
    ensure!(run.config.listed().contains(wwid), "the entry of this node does not name LUN {wwid}");
    let narrowed = run.narrowed.context("this run takes no LUN of a list")?;
    run.config = narrowed.get_or_init(|| run.config.with_lun(wwid));
    ensure!(run.config.node.wwid.as_ref() == Some(wwid), "this run has taken another LUN than {wwid}");
    for session in locate::sessions_to_target(run.host, run.config)? {
        let shown = Shown::on(run.host, &session)?;
        let ours: Vec<_> =
            shown.all(&WantedLun::named(wwid.clone()))?.iter().map(|lun| lun.address).collect();
        look::forget_others(run.door, &session, &shown, &ours)?;
    }
    Ok(format!("this node uses {wwid}"))
}
