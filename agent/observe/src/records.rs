//! Observes which node records of ours are in the node's database: none but those that an earlier release left. And who else
//! on this node uses the target.

use config::Config;
use host::{Host, iscsi};
use node::{Fact, OtherUse};
use std::io;
use terms::{Iqn, Portal, Session};

/// The portals of the target that have such a record, also those that the config does not name.
pub(super) fn records(host: &Host, config: &Config) -> Fact<Vec<Portal>> {
    match config.backing.iscsi() {
        Some(iscsi) => iscsi::recorded(host, &iscsi.target.iqn).into(),
        None => Fact::Unknown("not looked at: the config names a device, and no target".into()),
    }
}

/// Sessions and node records of this target that are not ours. `sessions` are all of the node.
pub fn others_at_target(host: &Host, target: &Iqn, sessions: &[Session]) -> io::Result<Vec<OtherUse>> {
    let others = sessions.iter().filter(|one| one.target == target.as_str() && !one.is_of(target));
    let sessions = others.map(|one| OtherUse::Session { sid: one.sid, interface: one.interface.clone() });
    let records = iscsi::recorded_by_others(host, target)?.into_iter();
    Ok(sessions.chain(records.map(|portal| OtherUse::Record { portal })).collect())
}
