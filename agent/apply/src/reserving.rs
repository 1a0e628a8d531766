//! The LUN's persistent reservation on the node: this process asks the kernel for it, or for the confined service its
//! [`hands`](hands) do.

use super::{context::Run, guard};
use anyhow::{Context as _, ensure};
use hands::{Request, ask, is_confined};
use host::{
    Host,
    block::reservation::{self, ReservationError},
    identity,
};
use node::{Reservation, layout::RESERVATION};
use plan::{
    Refusal, ReservationRefusal,
    step::{Reserve, Reserving},
};
use std::io;
use terms::{AbsPath, ReservationKey, Wwid};

/// [`Effect::Reserve`](super::machine::Effect::Reserve) on the node.
pub fn perform(run: &Run<'_>, step: &Reserve) -> anyhow::Result<String> {
    let Reserve { wwid, how } = step;
    // A path that is registered can write. So nothing of this node may, until it is known whose the reservation is.
    ensure!(
        *how == Reserving::Keep || run.staging.is_none(),
        "LUN {wwid} is mounted for this program: its reservation stays as it is"
    );
    let lun = guard::lun(run, wwid)?;
    on_disk(run.host, &lun.device, wwid, *how)
}

/// [`Effect::KeepReservation`](super::machine::Effect::KeepReservation) on the node.
pub fn keep_in_use(run: &Run<'_>, data_dir: &AbsPath) -> anyhow::Result<String> {
    let lun = guard::data_is_on_lun(run, data_dir)?;
    let wwid = lun.wwid.known().context("the LUN has no WWID")?;
    on_disk(run.host, &lun.device, wwid, Reserving::Keep)
}

fn on_disk(host: &Host, disk: &str, wwid: &Wwid, how: Reserving) -> anyhow::Result<String> {
    let result = ask_for(host, disk, how)?;
    if let Reserving::GiveUp = how {
        result.map_err(|error| refusal(host, disk, wwid, error))?;
        host.root.remove(RESERVATION).context("forgetting the reservation")?;
        return Ok(format!("LUN {wwid} is not reserved for this node any more"));
    }
    let refused = result.err().map(|error| refusal(host, disk, wwid, error));
    let found = refused.as_ref().map(ToString::to_string);
    let state = Reservation { wwid: wwid.clone(), lost: found };
    host.root
        .write_durably(&RESERVATION.parse()?, &serde_json::to_string(&state)?, 0o600)
        .context("saying whose the reservation is")?;
    match refused {
        Some(refusal) => Err(refusal),
        None => Ok(format!("LUN {wwid} is reserved for this node, with the key {}", key_of(host)?)),
    }
}

/// The outer error says that nobody could be asked.
fn ask_for(host: &Host, disk: &str, how: Reserving) -> anyhow::Result<Result<(), ReservationError>> {
    if !is_confined(host)? {
        return here(host, disk, how);
    }
    let disk = disk.to_owned();
    let request = match how {
        Reserving::Take => Request::Reserve { disk: disk.clone() },
        Reserving::Keep => Request::KeepReservation { disk: disk.clone() },
        Reserving::TakeOver | Reserving::GiveUp => {
            anyhow::bail!("the service neither takes over a reservation nor gives it up: a person does")
        }
    };
    match ask(host, &request) {
        Ok(()) => Ok(Ok(())),
        Err(error) => match error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            Some(code) => Ok(Err(ReservationError::of_code(&disk, code))),
            None => Err(error),
        },
    }
}

/// The same by this process.
pub fn here(host: &Host, disk: &str, how: Reserving) -> anyhow::Result<Result<(), ReservationError>> {
    let key = key_of(host)?;
    Ok(match how {
        Reserving::Take => reservation::take(host, disk, key),
        Reserving::Keep => reservation::keep(host, disk, key),
        Reserving::TakeOver => reservation::take_over(host, disk, key),
        Reserving::GiveUp => reservation::give_up(host, disk, key),
    })
}

fn key_of(host: &Host) -> anyhow::Result<ReservationKey> {
    let id = identity::machine_id(host).context("reading the machine id, which is the reservation's key")?;
    ReservationKey::of_machine(&id).context("the machine id is no key of a reservation")
}

/// A conflict and a target without reservations are for a person to judge. Everything else is an error.
fn refusal(host: &Host, disk: &str, wwid: &Wwid, error: ReservationError) -> anyhow::Error {
    match error {
        ReservationError::Conflict { .. } => {
            let keys = match is_confined(host) {
                // Its domain does not run sg_persist.
                Ok(true) | Err(_) => None,
                Ok(false) => reservation::keys(host, disk),
            };
            let found = match keys.as_deref() {
                Some([]) | None => String::new(),
                Some(keys) => format!(" (registered: {})", keys.join(", ")),
            };
            Refusal::from(ReservationRefusal::Reserved { wwid: wwid.clone(), disk: disk.into(), found })
                .into()
        }
        ReservationError::Unsupported { said, .. } => {
            Refusal::from(ReservationRefusal::NotReservable { wwid: wwid.clone(), found: said }).into()
        }
        ReservationError::Io { .. } => error.into(),
    }
}
