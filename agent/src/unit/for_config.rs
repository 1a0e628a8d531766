//! Which units a config asks for.

use super::{DataMount, Rendered, UnitError, data_mount};
use crate::{
    config::{Config, Runtime},
    terms::Span,
};
use std::time::Duration;

/// For mounting, log replay included, and for unmounting. A quarter of what a dead target's
/// replacement timeout would take at shutdown, and long enough for XFS to replay the largest log.
const MOUNT_LIMIT: Span = Span(Duration::from_secs(90));

/// The mount unit of the data directory.
pub fn data_mount_for(config: &Config) -> Result<Rendered, UnitError> {
    let Runtime::Systemd { unit } = &config.etcd.runtime;
    data_mount(&DataMount {
        label: &config.lun.label,
        place: &config.etcd.data_dir,
        options: &config.unit_options(),
        before: std::slice::from_ref(unit),
        limit: MOUNT_LIMIT,
    })
}

/// All units, in the order of their names.
pub fn for_config(config: &Config) -> Result<Vec<Rendered>, UnitError> {
    Ok(vec![data_mount_for(config)?])
}
