//! Which of a mount's options belong where: to the kernel of this node, to the filesystem in memory, to a mount that only looks.

use crate::{Host, selinux};
use std::{io, iter};
use terms::{CONTEXT, MountClass};

/// Those of a mount's options that have an effect on this node: `context=` only where SELinux is on. Elsewhere mount(8) leaves
/// it out (util-linux `libmount/src/hook_selinux.c`), and XFS would refuse it.
pub fn options_here<'a>(host: &Host, options: &'a [String]) -> io::Result<Vec<&'a str>> {
    let labelled = selinux::is_on(host)?;
    let here = options.iter().map(String::as_str).filter(|option| labelled || !option.starts_with(CONTEXT));
    Ok(here.collect())
}

/// Those of a mount's options that belong to the filesystem in memory, for `mount(2)`. None if one of them is not
/// known to belong either there or to a single mount: a second mount of a filesystem that is in memory ignores the
/// former without a word (kernel `fs/super.c`, `get_tree_bdev`). Only another `context=` is refused
/// (`security/selinux/hooks.c`, `selinux_set_mnt_opts`).
pub fn superblock_options(host: &Host, options: &[String]) -> io::Result<Option<String>> {
    Ok(of_superblock(&options_here(host, options)?))
}

/// XFS's options for a mount that may be the only one of its filesystem: those of the filesystem in memory. If one option may belong
/// there or not, the label alone, without which the labels on the LUN would count.
pub fn staging_options(host: &Host, like: &[String]) -> io::Result<String> {
    let here = options_here(host, like)?;
    Ok(of_superblock(&here).unwrap_or_else(|| label(&here).collect()))
}

fn label<'a>(options: &[&'a str]) -> impl Iterator<Item = &'a str> {
    options.iter().copied().filter(|option| option.starts_with(CONTEXT))
}

fn of_superblock(options: &[&str]) -> Option<String> {
    let mut own = Vec::new();
    for option in options {
        match MountClass::of(option) {
            Some(MountClass::Superblock) => own.push(*option),
            Some(MountClass::Mount) => {}
            Some(MountClass::SuperblockFlag | MountClass::Refused(_)) | None => return None,
        }
    }
    Some(own.join(","))
}

/// XFS's options for a mount that writes nothing to the device.
pub fn inspecting_options(host: &Host, like: &[String]) -> io::Result<String> {
    Ok(iter::once("norecovery").chain(label(&options_here(host, like)?)).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, transcript::NoTools};
    use std::fs;

    #[test]
    fn options_of_the_filesystem_in_memory() {
        for (options, own) in [
            (&["_netdev", "prjquota"][..], Some("prjquota")),
            (
                &["noatime", "x-systemd.device-timeout=5", "logbsize=256k", "prjquota"],
                Some("logbsize=256k,prjquota"),
            ),
            (&[], Some("")),
            // Of the filesystem in memory, but mount(2) has no data for it.
            (&["prjquota", "lazytime"], None),
            (&["prjquota", "data=journal"], None),
            (&["prjquota", "nodev", "context=u:object_r:x:s0"], Some("prjquota,context=u:object_r:x:s0")),
        ] {
            assert_eq!(of_superblock(options).as_deref(), own, "{options:?}");
        }
    }

    /// A kernel without SELinux knows no `context=`.
    #[test]
    fn the_label_is_an_option_where_selinux_is_on() {
        let base = std::env::temp_dir().join(format!("etcd-lun-context-{}", std::process::id()));
        fs::create_dir_all(base.join("proc/self/attr")).unwrap();
        let host = Host::fixture(Root::new(&base), Box::new(NoTools)).unwrap();
        let like = ["prjquota", "nodev", "context=u:object_r:x:s0"].map(str::to_owned);
        for (own, mounted, inspected) in [
            (None, "prjquota", "norecovery"),
            (Some("kernel"), "prjquota", "norecovery"),
            (
                Some("system_u:system_r:init_t:s0\0"),
                "prjquota,context=u:object_r:x:s0",
                "norecovery,context=u:object_r:x:s0",
            ),
        ] {
            if let Some(own) = own {
                fs::write(base.join("proc/self/attr/current"), own).unwrap();
            }
            assert_eq!(superblock_options(&host, &like).unwrap().as_deref(), Some(mounted), "{own:?}");
            let unknown = [&like[..], &["lazytime".to_owned()]].concat();
            let label = mounted.strip_prefix("prjquota").unwrap().trim_start_matches(',');
            assert_eq!(staging_options(&host, &unknown).unwrap(), label, "{own:?}");
            assert_eq!(inspecting_options(&host, &like).unwrap(), inspected, "{own:?}");
        }
        fs::remove_dir_all(base).unwrap();
    }
}
