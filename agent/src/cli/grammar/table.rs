//! The table of commands and options. `packaging/pages` makes man pages, completions and `docs/commands.md` from it.

use std::fmt;

/// An option.
#[derive(Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Its short form, a letter after one dash; none for most options.
    pub short: Option<char>,
    /// The name of its value; none for a switch.
    pub value: Option<&'static str>,
    /// What it does, in a line or two.
    pub help: &'static str,
    /// The option that excludes it, if there is one.
    pub conflicts_with: Option<&'static str>,
}

/// A word after the words of a command.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    /// Its name.
    pub name: &'static str,
    /// Whether the command needs it.
    pub required: bool,
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.required { f.write_str(self.name) } else { write!(f, "[{}]", self.name) }
    }
}

/// A command.
#[derive(Debug)]
pub struct Command {
    /// One word, or two.
    pub words: &'static [&'static str],
    /// A word after its own words, such as a path; none for most commands.
    pub operand: Option<Operand>,
    /// What it does.
    pub about: &'static str,
    /// Its own options.
    pub flags: &'static [Flag],
    /// The last paragraph of its help.
    pub after_help: &'static str,
}

const fn switch(name: &'static str, help: &'static str) -> Flag {
    Flag { name, short: None, value: None, help, conflicts_with: None }
}

const fn short(name: &'static str, short: char, help: &'static str) -> Flag {
    Flag { short: Some(short), ..switch(name, help) }
}

const fn option(name: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag { value: Some(value), ..switch(name, help) }
}

const fn plain(words: &'static [&'static str], about: &'static str, flags: &'static [Flag]) -> Command {
    Command { words, operand: None, about, flags, after_help: "" }
}

const NO_FOLLOW: Flag = switch(
    "no-follow",
    "If another run is under way, say so and exit with 1; without this, follow it to its end",
);

const JSON: Flag = switch("json", "Print JSON");

/// Options of every command.
pub const GLOBAL: [Flag; 3] = [
    option(
        "config",
        "FILE",
        "Read this file instead of /etc/etcd-lun/config.toml and config.d/*.toml; - is standard input",
    ),
    short("help", 'h', "Print help"),
    short("version", 'V', "Print the version"),
];

const DELIVERY: &[Flag] = &[
    option("role", "ROLE", "The role that the MachineConfigPool selects [default: master]"),
    option("name", "NAME", "The name of the MachineConfig object [default: 98-ROLE-etcd-lun]"),
    option(
        "program",
        "FILE",
        "Deliver this build of etcd-lun instead of the running program; it may be for another architecture",
    ),
    Flag {
        name: "without-program",
        short: None,
        value: None,
        help: "Leave the program out, for nodes that have it from the package, in their image or installed",
        conflicts_with: Some("program"),
    },
    Flag {
        name: "secrets-from",
        short: None,
        value: Some("DIR"),
        help: "Read the files of secrets from this directory instead of the paths in the config",
        conflicts_with: Some("without-secrets"),
    },
    switch("without-secrets", "Leave the files of secrets out; you bring them to the nodes in another way"),
];

/// Every command, in the order of the help.
pub const COMMANDS: &[Command] = &[
    plain(
        &["apply"],
        "Bring the node to the state that the config asks for; idempotent",
        &[
            switch("dry-run", "Print the steps and change nothing; the same as `plan`"),
            switch(
                "boot",
                "Run as the service does at boot: do not stop an etcd that runs, and do not wait for etcd",
            ),
            NO_FOLLOW,
            JSON,
        ],
    ),
    Command {
        words: &["rollback"],
        operand: None,
        about: "Move etcd's data from the LUN back to the local disk, to stay there; by hand only",
        flags: &[
            switch("dry-run", "Print the steps, or the reason of a refusal, and change nothing"),
            NO_FOLLOW,
            JSON,
        ],
        after_help: "Run it before you remove the MachineConfig or the target. Afterwards the service does not move \
                     the data at boot. `etcd-lun apply` by hand moves it to the LUN again.",
    },
    Command {
        words: &["claim"],
        operand: None,
        about: "Take back this node's own LUN after its machine id has changed; by hand only",
        flags: &[
            switch("dry-run", "Print the steps, or the reason of a refusal, and change nothing"),
            NO_FOLLOW,
            JSON,
        ],
        after_help: "It refuses unless WWID, filesystem, generation, use counter and node name are those of this node's \
                     record. Make sure that no machine has the old id any more, such as the original of a cloned disk.",
    },
    plain(
        &["plan"],
        "Print the steps that `apply` would take, or the reason of a refusal; changes nothing",
        &[JSON],
    ),
    plain(
        &["status"],
        "Show sessions, LUN, filesystem, mount, authoritative copy and etcd on one page",
        &[JSON],
    ),
    Command {
        words: &["luns"],
        operand: None,
        about: "Print the LUNs that each portal of the target shows this node, with number, WWID, size and content; by hand only",
        flags: &[JSON],
        after_help: "It logs in at each portal, asks, and logs out. It writes to no LUN. While a LUN is in use it asks for \
                     nothing and prints what the kernel knows.",
    },
    plain(
        &["health"],
        "Check this node's etcd storage; exit with 4 unless every check is ok",
        &[
            switch("list", "Print all checks, what each one protects, and the source of its limit"),
            option("prometheus", "FILE", "Also write metrics for node-exporter; FILE must end with .prom"),
            switch(
                "record",
                "Run as the timer does: print nothing, keep the outcomes, log changes in the journal",
            ),
            JSON,
        ],
    ),
    plain(
        &["retired", "list"],
        "List retired data, the local data of earlier migrations, with size and age",
        &[JSON],
    ),
    Command {
        words: &["retired", "delete"],
        operand: Some(Operand { name: "GENERATION", required: true }),
        about: "Delete the retired data of this generation, if etcd has run on the LUN for long enough",
        flags: &[switch(
            "dry-run",
            "Print what would be deleted, or the reason of a refusal, and change nothing",
        )],
        after_help: "Refuses until `lun.keep_retired` (7d) is over, and while etcd does not run on the LUN.",
    },
    Command {
        words: &["bench"],
        operand: Some(Operand { name: "PATH", required: false }),
        about: "Measure a disk with etcd's write pattern; exit with 4 if it is too slow for etcd",
        flags: &[
            option("against", "PATH", "Also measure this directory, in turns with the first one"),
            option("size", "BYTES", "The size of a write: 8000, 2300, or 8000,2300 for both [default: 8000]"),
            option("writes", "COUNT", "The number of writes of each size, from 100 to 8000 [default: 8000]"),
            JSON,
        ],
        after_help: "PATH is a directory on the disk. Without PATH: the disk that holds etcd's data now, from the \
                     config. A run writes up to 64 MB into a file without a name, which disappears when the run ends \
                     in any way. It ends after the last write, or after a minute for each directory and size. An etcd \
                     on the same disk is slower meanwhile: do not measure two members at the same time.",
    },
    plain(
        &["selinux", "install"],
        "Install the SELinux policy module and label the files; does nothing if that is done",
        &[],
    ),
    plain(
        &["selinux", "status"],
        "Show whether SELinux enforces, which module is in force, and which files have other labels",
        &[JSON],
    ),
    plain(&["selinux", "remove"], "Remove the policy module, and relabel the files without it", &[]),
    plain(
        &["config", "check"],
        "Print the merged config without secrets, the files that were read, and the node entry for this host; on a machine that is no node, all entries",
        &[
            option(
                "node",
                "NAME",
                "Check the entry of the node with this host name or machine id instead, without reading secrets",
            ),
            JSON,
        ],
    ),
    plain(&["config", "example"], "Print a config to begin with", &[]),
    plain(
        &["render", "units"],
        "Write the systemd units into a directory",
        &[
            option("into", "DIR", "The directory, such as /etc/systemd/system"),
            switch(
                "packaged",
                "Use the package's path /usr/bin/etcd-lun instead of /usr/local/bin/etcd-lun; not needed if that is the \
                 running program",
            ),
        ],
    ),
    Command {
        words: &["render", "machineconfig"],
        operand: None,
        about: "Print a MachineConfig that brings program, config, secrets and units to the nodes of a pool",
        flags: DELIVERY,
        after_help: "Create it with `oc create -f`, change it with `oc replace -f`, or use `oc apply --server-side`. \
                     A plain `oc apply` keeps a copy of the object in an annotation, and the object is too large for \
                     that.",
    },
    plain(
        &["render", "butane"],
        "Print the same as a Butane config; `butane --files-dir` reads the program from a file",
        DELIVERY,
    ),
    plain(
        &["render", "policy"],
        "Print the SELinux policy module as CIL, for packages, for layered images, and for review",
        &[],
    ),
    plain(
        &["render", "udev"],
        "Print the udev rule that labels the LUN for SELinux, for /etc/udev/rules.d/90-etcd-lun.rules",
        &[],
    ),
    plain(
        &["render", "multipath"],
        "Print multipathd's settings for the LUNs, for /etc/multipath/conf.d/etcd-lun.conf",
        &[],
    ),
    plain(
        &["render", "target"],
        "Print a script that sets up the target for this config",
        &[
            option(
                "kind",
                "KIND",
                "lio: with targetcli, on a Linux machine; targetd: with curl and jq, at an appliance that runs targetd \
                 [default: lio]",
            ),
            option("pool", "NAME", "With targetd: the appliance's pool that the LUNs are made in"),
            Flag {
                name: "backstore-dir",
                short: None,
                value: Some("DIR"),
                help: "Keep the LUNs in files in this directory of the target's machine [default: \
                       /var/lib/etcd-lun-target]",
                conflicts_with: Some("backstore-block"),
            },
            switch(
                "backstore-block",
                "Keep the LUNs on block devices; you name them when you run the script",
            ),
        ],
    ),
    Command {
        words: &["help"],
        operand: Some(Operand { name: "COMMAND", required: false }),
        about: "Print help, or the help of a command",
        flags: &[],
        after_help: "",
    },
    plain(&["version"], "Print the version", &[]),
    Command {
        words: &["mark"],
        operand: None,
        about: "Advance the LUN's use counter, which detects restored snapshots (internal)",
        flags: &[],
        after_help: "etcd-lun-health.service runs it. A snapshot that the array took earlier has a lower use counter \
                     from then on, and `apply` refuses to mount it. If etcd's data is not on the LUN, or while \
                     `apply` runs, this does nothing and exits with 0.",
    },
    plain(
        &["let-go"],
        "Stop waiting for an unreachable target at shutdown (internal; run by etcd-lun-shutdown.service)",
        &[],
    ),
];
