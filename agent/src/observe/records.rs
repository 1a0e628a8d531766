//! Observes which node records of ours are in the node's database. There are none but those that an earlier release left.

use crate::{
    config::Config,
    host::{Host, iscsi},
    node::Fact,
    terms::Portal,
};

/// The portals of the target that have such a record, also those that the config does not name.
pub(super) fn records(host: &Host, config: &Config) -> Fact<Vec<Portal>> {
    match config.backing.iscsi() {
        Some(iscsi) => iscsi::recorded(host, &iscsi.target.iqn).into(),
        None => Fact::Unknown("not looked at: the config names a device, and no target".into()),
    }
}
