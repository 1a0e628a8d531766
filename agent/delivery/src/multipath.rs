//! Renders what multipathd does with the LUNs, as a file for its directory of drop-ins.
//!
//! An administrator's `/etc/multipath.conf` is never written: multipathd reads the drop-in after it, and the drop-in names
//! the config's WWIDs only. So what cannot be said for single LUNs is not in it.

use config::{Nodes, PATH_FAILS_AFTER};
use terms::Wwid;

/// The path of the file on a node: multipathd reads `*.conf` there after `/etc/multipath.conf` (multipath.conf(5)).
pub(super) const DROP_IN: &str = "/etc/multipath/conf.d/etcd-lun.conf";
/// How many seconds multipathd waits between two checks of a path that has failed (multipath.conf(5), `polling_interval`).
const POLLING: u64 = 5;

/// Renders the file, the same bytes for the same pool; none if the config asks for no map.
pub fn multipath(nodes: &Nodes) -> Option<String> {
    let Nodes::Iscsi(nodes) = nodes else { return None };
    let mapped = nodes.iter().filter(|node| node.target.multipath);
    let all_pings = mapped.clone().map(|node| node.target.timeouts.pings(true));
    let [interval, timeout] = all_pings.max_by_key(|[interval, timeout]| interval.0 + timeout.0)?;
    let (mut exceptions, mut maps) = (String::new(), String::new());
    for node in mapped {
        let Some(wwid) = node.entry.wwid.as_ref().and_then(Wwid::multipath) else { continue };
        let checks = node.target.timeouts.replacement.0.as_secs().div_ceil(POLLING);
        exceptions += &format!("\twwid \"^{wwid}$\"\n");
        maps += &format!("\tmultipath {{\n\t\twwid \"{wwid}\"\n\t\tno_path_retry {checks}\n\t}}\n");
    }
    Some(format!(
        "\
# What multipathd does with the LUNs of etcd, and with no other LUN: {DROP_IN}.
# Rendered by `etcd-lun render multipath`, and the same for every node: change the config, not this file.
#
# A path that falls silent has failed after at most the sum of {interval} (`target.noop_interval`), {timeout}
# (`target.noop_timeout`) and `fast_io_fail_tmo`, {PATH_FAILS_AFTER} by default. multipathd cannot set that one for single LUNs, so
# it is not here. `etcd-lun health` reports a longer one.
#
# etcd-lun finds a map by its WWID, so `user_friendly_names` may be on or off. Do not change it while etcd runs:
# multipathd would rename the map under the mounted filesystem.

# A blacklist of WWIDs does not count for these LUNs. One of devnode, device, property or protocol still does.
blacklist_exceptions {{
{exceptions}}}

# While no path works, writes wait for `no_path_retry` checks at intervals of {POLLING} s (`polling_interval`), which makes
# `target.replacement_timeout`. Then they fail, and XFS shuts down. By default they would fail at once. With `queue`
# they would wait for ever, and so would a shutdown of the node.
multipaths {{
{maps}}}
"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Pool, Source};

    const POOL: &str = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"10.0.0.1\", \"10.1.0.1\"]\nmultipath = true\n\
        replacement_timeout = \"62s\"\n[etcd]\nruntime = \"static-pod\"\n\
        [[node]]\nhostname = \"a\"\ninitiator = \"iqn.2024-02.x:a\"\nlun = 1\nwwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\"\n\
        [[node]]\nhostname = \"b\"\ninitiator = \"iqn.2024-02.x:b\"\nlun = 1\nwwid = \"naa.60014051d8e4a3bd5a94f3f9a1a2b3c5\"\n";

    fn rendered(text: &str) -> Option<String> {
        let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
        multipath(&pool.nodes().unwrap())
    }

    #[test]
    fn only_where_the_config_asks_for_it() {
        assert_eq!(rendered(&POOL.replace("multipath = true\n", "")), None);
        assert_eq!(
            rendered("[device]\npath = \"/dev/disk/by-id/virtio-etcd0\"\n[etcd]\nruntime = \"static-pod\"\n"),
            None
        );
    }

    /// Sections other than these would change what multipathd does with the LUNs of others.
    #[test]
    fn names_our_luns_only() {
        let text = rendered(POOL).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let [a, b] = ["4", "5"].map(|last| format!("360014051d8e4a3bd5a94f3f9a1a2b3c{last}"));
        let map = |wwid: &str| format!("\tmultipath {{\n\t\twwid \"{wwid}\"\n\t\tno_path_retry 13\n\t}}");
        let expected = format!(
            "blacklist_exceptions {{\n\twwid \"^{a}$\"\n\twwid \"^{b}$\"\n}}\nmultipaths {{\n{}\n{}\n}}",
            map(&a),
            map(&b)
        );
        assert_eq!(lines.join("\n"), expected);
    }
}
