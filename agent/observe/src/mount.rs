//! Observes what PID 1 has mounted on the data directory.

use super::lun::read_stamp;
use host::{Host, inode, mountinfo, staging, tree, xfs};
use node::{DataMount, Fact, MountedAnew, authority::Stamp};
use std::io;
use terms::{AbsPath, Span};

/// The mount on the data directory, as PID 1 sees it.
pub(super) fn data(host: &Host, data_dir: &AbsPath) -> Fact<Option<DataMount>> {
    let mounts = match mountinfo::of_pid1(host) {
        Ok(mounts) => mounts,
        Err(error) => return Fact::Unknown(error.to_string()),
    };
    let here: Vec<_> = mounts.iter().filter(|mount| mount.mount_point == data_dir.as_str()).collect();
    let Some(top) = here.last() else { return Fact::Known(None) };
    let root = tree::open(&host.root.locate(data_dir.as_path()));
    let space = root.as_ref().ok().and_then(|root| staging::space(root).ok());
    Fact::Known(Some(DataMount {
        devno: format!("{}:{}", top.device.0, top.device.1),
        source: top.source.clone(),
        fs_type: top.fs_type.clone(),
        options: merged(&top.options, &top.super_options),
        layers: here.len(),
        free: space.map(|space| (space.free, space.size)),
        database: host.root.size(node::database(data_dir).as_path()).ok(),
        io_error: xfs::is_shut_down(&host.root.locate(data_dir.as_path())),
        root_age: root.as_ref().ok().and_then(|root| inode::age(root).ok()).map(Span),
    }))
}

/// How often the service has mounted the LUN anew since the boot.
pub fn mounted_anew(host: &Host) -> io::Result<MountedAnew> {
    let text = host.root.read_ours(MountedAnew::PATH)?;
    Ok(text.map(|text| serde_json::from_str(&text)).transpose()?.unwrap_or_default())
}

fn merged(options: &[String], of_filesystem: &[String]) -> Vec<String> {
    let mut merged = options.to_vec();
    merged.extend(of_filesystem.iter().filter(|option| !options.contains(option)).cloned());
    merged
}

/// The stamp, read through the mount on the data directory.
pub(super) fn stamp(host: &Host, data_dir: &AbsPath, mount: &Fact<Option<DataMount>>) -> Fact<Option<Stamp>> {
    match mount {
        Fact::Known(Some(_)) => {
            let read = || -> io::Result<Option<Stamp>> {
                read_stamp(tree::open(&host.root.locate(data_dir.as_path()))?)
            };
            read().into()
        }
        Fact::Known(None) => Fact::Known(None),
        Fact::Unknown(why) => Fact::Unknown(why.clone()),
    }
}
