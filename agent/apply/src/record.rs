//! Reading the record again, and writing it durably.

use anyhow::{Context as _, anyhow};
use host::Host;
use node::{
    authority::Record,
    layout::{RECORD, STATE},
};

/// The record as it is now; none if there is none.
pub fn read(host: &Host) -> anyhow::Result<Option<Record>> {
    observe::record(host).require().cloned().map_err(|why| anyhow!("the record can't be read: {why}"))
}

/// Writes the record durably.
pub fn write(host: &Host, record: &Record) -> anyhow::Result<()> {
    host.root.make_dir_durably(STATE, 0o700).context("making the state directory")?;
    host.root.write_durably(&RECORD.parse()?, &record.to_text()?, 0o600).context("writing the record")
}
