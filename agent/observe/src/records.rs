//! Observes who else on this node uses the target.

use host::{Host, iscsi};
use node::OtherUse;
use std::io;
use terms::{Session, TargetName};

/// Sessions of this target that are not ours, and its node records, of which none is. `sessions` are all of the node.
pub fn others_at_target(host: &Host, target: &TargetName, sessions: &[Session]) -> io::Result<Vec<OtherUse>> {
    let others = sessions.iter().filter(|one| target.is(&one.target) && !one.is_of(target));
    let sessions = others.map(|one| OtherUse::Session { sid: one.sid, interface: one.interface.clone() });
    let mut others: Vec<_> = sessions.collect();
    for name in target.all() {
        others.extend(iscsi::recorded(host, name)?.into_iter().map(|portal| OtherUse::Record { portal }));
    }
    Ok(others)
}
