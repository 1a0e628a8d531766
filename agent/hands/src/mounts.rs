//! Mounting the LUN for this process: directly, or for the confined service a mount that its hands have made.

use super::{ask::mount, is_confined, request::Request};
use host::{
    Host, block,
    staging::{self, Access, Staging, StagingError},
};
use std::os::fd::OwnedFd;
use terms::AbsPath;

/// Mounts the XFS on a disk (kernel name) at a place that only this process sees: see [`Staging::mount`].
pub fn stage(host: &Host, disk: &str, place: &AbsPath, like: &[String]) -> Result<Staging, StagingError> {
    let node = block::node(disk).map_err(StagingError::Io)?;
    match is_confined(host).map_err(StagingError::Io)? {
        true => Staging::attach(host, node.as_path(), place, like, || {
            mount(host, &Request::Stage { disk: disk.into() })
        }),
        false => Staging::mount(host, node.as_path(), place, Access::ReadWrite, like),
    }
}

/// Opens the root of the XFS on a disk (kernel name) without writing anything to it: see [`staging::inspect`].
pub fn inspect(host: &Host, disk: &str, like: &[String]) -> Result<OwnedFd, StagingError> {
    let node = block::node(disk).map_err(StagingError::Io)?;
    match is_confined(host).map_err(StagingError::Io)? {
        true => {
            staging::inspect_by(host, node.as_path(), || mount(host, &Request::Inspect { disk: disk.into() }))
        }
        false => staging::inspect(host, node.as_path(), like),
    }
}
