//! Examples for man pages: one at least for each command. A test parses each line by the table of commands.

/// The words of the command that a page is about, a line to type, and what the line does.
pub const EXAMPLES: &[(&[&str], &str, &str)] = &[
    (&[], "etcd-lun config example >/etc/etcd-lun/config.toml", "Begin with a config"),
    (&[], "etcd-lun plan", "See what would be done on this node, and why"),
    (&[], "etcd-lun apply", "Move etcd's data to the LUN"),
    (&[], "etcd-lun health", "Check the result"),
    (&["apply"], "etcd-lun apply", "Bring the node to what the config asks for"),
    (&["apply"], "etcd-lun apply --dry-run", "See the steps first"),
    (&["rollback"], "etcd-lun rollback --dry-run", "See how the data would go back to the local disk"),
    (&["rollback"], "etcd-lun rollback", "Move the data back"),
    (&["claim"], "etcd-lun claim", "After a reinstallation that gave this node another machine id"),
    (&["plan"], "etcd-lun plan --json", "See the steps as JSON"),
    (&["status"], "etcd-lun status", "See sessions, LUN, mount and etcd on one page"),
    (
        &["luns"],
        "etcd-lun luns",
        "See which LUNs the target shows this node, and copy the WWID into the config",
    ),
    (&["health"], "etcd-lun health", "Check this node"),
    (&["health"], "etcd-lun health --list --json", "See all checks and their limits as JSON"),
    (&["health"], "etcd-lun health --prometheus /tmp/etcd-lun.prom", "Also write metrics"),
    (&["retired", "list"], "etcd-lun retired list", "See what a migration has left on the local disk"),
    (
        &["retired", "delete"],
        "etcd-lun retired delete 1 --dry-run",
        "See what would be deleted of generation 1",
    ),
    (&["bench"], "etcd-lun bench", "Measure the disk that etcd's data is on"),
    (&["bench"], "etcd-lun bench /mnt/lun --against /var/lib", "Compare two disks, in turns"),
    (&["selinux", "install"], "etcd-lun selinux install", "Install the policy module"),
    (&["selinux", "status"], "etcd-lun selinux status", "See whether the module is in force"),
    (&["selinux", "remove"], "etcd-lun selinux remove", "Remove the policy module"),
    (&["config", "check"], "etcd-lun config check", "Check the config of this node"),
    (
        &["config", "check"],
        "etcd-lun config check --config pool.toml",
        "Check a pool's config on a desk: prints all nodes",
    ),
    (&["config", "check"], "etcd-lun config check --config - <pool.toml", "The same, from standard input"),
    (&["config", "example"], "etcd-lun config example >config.toml", "Begin with a config"),
    (
        &["render", "units"],
        "etcd-lun render units --into /etc/systemd/system",
        "Write the units on a node without a MachineConfig",
    ),
    (
        &["render", "machineconfig"],
        "etcd-lun render machineconfig --config pool.toml >98-etcd-lun.yaml",
        "Make an object for the pool of role master",
    ),
    (
        &["render", "machineconfig"],
        "etcd-lun render machineconfig --program ./etcd-lun-aarch64 >98-etcd-lun.yaml",
        "For nodes of another architecture than this machine's",
    ),
    (&["render", "butane"], "etcd-lun render butane --role etcd >98-etcd-lun.bu", "Make a Butane config"),
    (&["render", "policy"], "etcd-lun render policy >etcd_lun.cil", "Read the policy module"),
    (
        &["render", "multipath"],
        "etcd-lun render multipath >/etc/multipath/conf.d/etcd-lun.conf",
        "Write multipathd's settings by hand",
    ),
    (
        &["render", "udev"],
        "etcd-lun render udev >/etc/udev/rules.d/90-etcd-lun.rules",
        "Write the udev rule by hand",
    ),
    (
        &["render", "target"],
        "etcd-lun render target --backstore-dir /srv/luns >target.sh",
        "Make a script for the target",
    ),
    (&["help"], "etcd-lun help render machineconfig", "Read the help of a command"),
    (&["version"], "etcd-lun version", "See which version this is"),
    (&["mark"], "etcd-lun mark", "etcd-lun-health.service runs this"),
    (&["let-go"], "etcd-lun let-go", "etcd-lun-shutdown.service runs this"),
];

#[cfg(test)]
mod tests {
    use super::EXAMPLES;
    use crate::commands::all;
    use etcd_lun::cli::grammar::COMMANDS;

    #[test]
    fn every_command_has_one_and_the_table_takes_each() {
        for command in COMMANDS {
            assert!(EXAMPLES.iter().any(|(words, ..)| *words == command.words), "{command:?}");
        }
        for (words, line, _) in EXAMPLES {
            let typed: Vec<_> = line.split([' ']).take_while(|word| !word.starts_with(['>', '<'])).collect();
            assert!(typed[1..].starts_with(words), "{line}");
            // `help` has the words of a command as one operand in the table.
            if typed[1] != "help" {
                all().try_get_matches_from(&typed).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }
}
