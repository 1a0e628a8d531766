//! The LUN's persistent reservation: `lun.reserve`.

use crate::{
    guard,
    machine::{Effect, Machine},
};
use plan::step::{Reserve, Reserving};
use terms::AbsPath;

/// Changes the reservation, or sees that it is this node's. It is given up only after a rollback.
pub fn reserve(machine: &mut dyn Machine, step: &Reserve) -> anyhow::Result<String> {
    if step.how == Reserving::GiveUp {
        guard::rolled_back(machine)?;
    }
    machine.perform(&Effect::Reserve { reserve: step.clone() })
}

/// Sees that the reservation is this node's while etcd uses the LUN.
pub fn keep_in_use(machine: &mut dyn Machine, data_dir: &AbsPath) -> anyhow::Result<String> {
    machine.data_is_on_lun(data_dir)?;
    machine.perform(&Effect::KeepReservation { data_dir: data_dir.clone() })
}
