//! Every command and option there is. Man pages, completions and `docs/commands.md` are made from it (`packaging/pages`).

use std::fmt;

/// An option.
#[derive(Debug)]
pub struct Flag {
    /// Its name, without the dashes.
    pub name: &'static str,
    /// What its value is called; none for a switch.
    pub value: Option<&'static str>,
    /// What it does, in a line or two.
    pub help: &'static str,
    /// The only flag that it can't be given together with.
    pub against: Option<&'static str>,
}

/// A word after a command's own.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    /// What it is called.
    pub name: &'static str,
    /// Whether nothing can be done without it.
    pub required: bool,
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.required { f.write_str(self.name) } else { write!(f, "[{}]", self.name) }
    }
}

/// A verb, or a verb and what it is about.
#[derive(Debug)]
pub struct Command {
    /// One word, or two.
    pub words: &'static [&'static str],
    /// What a word after its own may be, such as a path; none for most.
    pub operand: Option<Operand>,
    /// What it does.
    pub about: &'static str,
    /// Its own options.
    pub flags: &'static [Flag],
    /// What its help ends with.
    pub after: &'static str,
}

const fn switch(name: &'static str, help: &'static str) -> Flag {
    Flag { name, value: None, help, against: None }
}

const fn option(name: &'static str, value: &'static str, help: &'static str) -> Flag {
    Flag { name, value: Some(value), help, against: None }
}

const fn plain(words: &'static [&'static str], about: &'static str, flags: &'static [Flag]) -> Command {
    Command { words, operand: None, about, flags, after: "" }
}

const JSON: Flag = switch("json", "Print JSON");

/// Options of every command.
pub const GLOBAL: [Flag; 2] = [
    option("config", "FILE", "Read this file instead of /etc/etcd-lun/config.toml and config.d/*.toml"),
    switch("help", "Print help"),
];

const DELIVERY: &[Flag] = &[
    option("role", "ROLE", "The role that the MachineConfigPool selects by [default: master]"),
    option("name", "NAME", "The object's name [default: 98-ROLE-etcd-lun]"),
    option("binary", "PATH", "Deliver this build instead of the program that runs"),
    Flag {
        name: "without-program",
        value: None,
        help: "Leave the program out, for nodes that have it from the package: in their image, or installed",
        against: Some("binary"),
    },
    Flag {
        name: "secrets-from",
        value: Some("DIR"),
        help: "Read the files of secrets from here, by their last names, not from where the config says",
        against: Some("without-secrets"),
    },
    switch("without-secrets", "Leave the files of secrets out: they come to the nodes in another way"),
];

/// Every command, in the order of the help.
pub const COMMANDS: &[Command] = &[
    plain(
        &["apply"],
        "Bring the node to what the config wants; idempotent",
        &[
            switch("dry-run", "Print what would be done and change nothing; the same as `plan`"),
            switch(
                "boot",
                "As the service does at boot: an etcd that runs isn't stopped, and nothing waits for etcd",
            ),
            JSON,
        ],
    ),
    Command {
        words: &["rollback"],
        operand: None,
        about: "Bring etcd's data back from the LUN to the local disk, to stay there; by hand only",
        flags: &[switch("dry-run", "Print what would be done, or why not, and change nothing"), JSON],
        after: "Run it before you take the MachineConfig or the target away. Afterwards the service at boot moves\n\
                nothing; `etcd-lun apply` by hand moves the data to the LUN again.",
    },
    plain(&["plan"], "Print what `apply` would do, and why it would not; changes nothing", &[JSON]),
    plain(&["status"], "Show sessions, LUN, filesystem, mount, authority and etcd on one page", &[JSON]),
    plain(
        &["health"],
        "Check this node's etcd storage; exits with 4 unless every check is ok",
        &[
            switch("list", "Print the checks there are, what each protects, and where its limit comes from"),
            option("prometheus", "FILE", "Write metrics too, for node-exporter: FILE ends with .prom"),
            switch(
                "record",
                "As the timer does: print nothing, keep what was found, say in the journal what has changed",
            ),
            JSON,
        ],
    ),
    plain(&["retired", "list"], "List local data of earlier migrations, with size and age", &[JSON]),
    Command {
        words: &["retired", "delete"],
        operand: Some(Operand { name: "GENERATION", required: true }),
        about: "Delete the local data that became this generation, when etcd has run on the LUN for long enough",
        flags: &[switch("dry-run", "Say what would be deleted, or why not, and change nothing")],
        after: "Refuses until `lun.keep_retired` (168h) is over and while etcd doesn't run on the LUN.",
    },
    Command {
        words: &["mark"],
        operand: None,
        about: "Count a use of the LUN while etcd runs on it; the timer does it, and nobody else has to",
        flags: &[],
        after: "A snapshot that the array took before has a lower count from then on, and isn't mounted. On a node\n\
                whose etcd isn't on its LUN, or while `apply` runs, this does nothing and exits with 0.",
    },
    plain(
        &["let-go"],
        "Wait for the target no longer, when the system shuts down; its unit does it, and at no other time",
        &[],
    ),
    Command {
        words: &["bench"],
        operand: Some(Operand { name: "PATH", required: false }),
        about: "Measure a directory's disk as etcd uses it; exits with 4 when it is too slow for etcd",
        flags: &[
            option("against", "PATH", "Measure this directory too, in turns with the first"),
            option("size", "BYTES", "The size of a write; 8000, 2300, or 8000,2300 [default: 8000]"),
            option("writes", "COUNT", "How many writes of each size, from 100 to 8000 [default: 8000]"),
            JSON,
        ],
        after: "Without PATH: the disk that etcd's data is on now, by the config. Up to 64 MB are written, into a\n\
                file without a name that nobody sees and that is gone when this ends, in whatever way. It ends\n\
                after the last write, or after a minute for each directory and size. An etcd on the same disk\n\
                is slower meanwhile: don't measure two members at a time.",
    },
    plain(
        &["selinux", "install"],
        "Put the SELinux policy module and its labels in place; does nothing where they are",
        &[],
    ),
    plain(
        &["selinux", "status"],
        "Show whether SELinux enforces, which module is in force, and what isn't labelled by it",
        &[JSON],
    ),
    plain(
        &["selinux", "remove"],
        "Take the policy module out, and label everything as the policy without it says",
        &[],
    ),
    plain(
        &["config", "check"],
        "Print the merged config, secrets hidden, and the node entry that this host takes",
        &[
            option(
                "node",
                "NAME",
                "The entry of the node with this host name or machine id instead, without its secrets: on a machine that is no node",
            ),
            JSON,
        ],
    ),
    plain(
        &["render", "units"],
        "Write the systemd units into a directory",
        &[
            option("into", "DIR", "The directory, such as /etc/systemd/system"),
            switch(
                "packaged",
                "For /usr/bin/etcd-lun, a package's program, rather than /usr/local/bin/etcd-lun; needless when it is \
                 that program which runs",
            ),
        ],
    ),
    Command {
        words: &["render", "machineconfig"],
        operand: None,
        about: "Print a MachineConfig that brings program, config, secrets and units to a pool's nodes",
        flags: DELIVERY,
        after: "Create it with `oc create -f`, change it with `oc replace -f`, or use `oc apply --server-side`:\n\
                a plain `oc apply` keeps a copy of the object in an annotation, which is too small for it.",
    },
    plain(
        &["render", "butane"],
        "Print the same as Butane; the program is a file that `butane --files-dir` finds",
        DELIVERY,
    ),
    plain(
        &["render", "policy"],
        "Print the SELinux policy module, as CIL: for packages, for layered images, and to be read",
        &[],
    ),
    plain(
        &["render", "udev"],
        "Print the udev rule that labels the LUN for SELinux, for /etc/udev/rules.d/90-etcd-lun.rules",
        &[],
    ),
    plain(
        &["render", "target"],
        "Print a script that makes the target for the config, on a Linux machine with targetcli",
        &[
            Flag {
                name: "backstore-dir",
                value: Some("DIR"),
                help: "Keep the LUNs in files of this directory of the target's machine [default: \
                       /var/lib/etcd-lun-target]",
                against: Some("backstore-block"),
            },
            switch(
                "backstore-block",
                "Keep the LUNs on block devices, which are named when the script is run",
            ),
        ],
    ),
];
