//! Observes who else on this node uses the target.

use host::{Host, iscsi};
use node::OtherUse;
use std::io;
use terms::{Iqn, Session};

/// Sessions of this target that are not ours, and its node records, of which none is. `sessions` are all of the node.
pub fn others_at_target(host: &Host, target: &Iqn, sessions: &[Session]) -> io::Result<Vec<OtherUse>> {
    let others = sessions.iter().filter(|one| one.target == target.as_str() && !one.is_of(target));
    let sessions = others.map(|one| OtherUse::Session { sid: one.sid, interface: one.interface.clone() });
    let records = iscsi::recorded(host, target)?.into_iter();
    Ok(sessions.chain(records.map(|portal| OtherUse::Record { portal })).collect())
}
