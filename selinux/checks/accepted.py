"""The ways out of the domain that stay, with the reason. docs/design/ways.md has this list as a table."""

# (kind, types, what code in the domain could do, why it stays). The types are those of all policies that the module is for.
ACCEPTED = [
    (
        "placement",
        "tmpfs_t",
        "Put files of its own types into filesystems in memory, such as `/dev/shm`.",
        "Red Hat's policy allows it to every domain. A module cannot take it away.",
    ),
    (
        "content",
        "etcd_lun_iscsi_conf_t",
        "Change the node's initiator name, and on systems with open-iscsi's records in `/etc` those of others.",
        "It writes a name where the node has none. `iscsid.conf`, where `iscsid.startup` is a command,"
        " has a type that it only reads.",
    ),
    (
        "content",
        "rkhunter_var_lib_t rpm_script_tmp_t sosreport_tmp_t",
        "Append to files of rkhunter, and to temporary files of sosreport and of the scripts in rpm packages. The helper may"
        " read some of them, and opens none.",
        "Red Hat's policy allows it to every domain. A module cannot take it away.",
    ),
    (
        "kernel",
        "security_t",
        "Ask SELinux whether a context is valid.",
        "This is how the program finds out whether its module is in force. Each question is a right of its own.",
    ),
    (
        "socket",
        "iscsid_t",
        "Tell iscsid to log in to any target, and to log out of any session.",
        "iscsid logs in at the request of iscsiadm, which runs in the domain.",
    ),
    (
        "socket",
        "etcd_lun_hands_t",
        "Ask the helper for what it does: make the filesystem that the record announces on the blank LUN; mount the LUN for"
        " it, without device nodes, programs and labels; scan and forget LUNs of a session to the target, remove the disk of"
        " another volume from beneath the mount, change for how long it keeps writes waiting, have any disk read again, mount the"
        " LUN and unmount it, exchange the data directory for a directory of etcd-lun's, start etcd's unit, stop it where the LUN's filesystem has shut down, or move the manifest of etcd's pod and so stop and start etcd, start or restart iscsid, and say in which state a few units are.",
        "This is all that the service needs beyond its own rights. Each request has numbers and names of the kernel only, and"
        " is looked at again: see the helper below.",
    ),
    (
        "socket",
        "etcd_lun_portals_t",
        "Have a portal asked for its targets, under any initiator name, or whether it answers.",
        "Only iscsiadm discovers, and connects to the portal itself. The process that runs it has no file of etcd-lun's and"
        " no disk.",
    ),
    (
        "socket",
        "syslogd_t kernel_t devlog_t",
        "Write any text to the journal.",
        "Log messages. The journal notes which process in which domain wrote each line.",
    ),
    (
        "socket",
        "setrans_t systemd_resolved_t systemd_nsresourced_t spc_t unconfined_service_t",
        "Connect to the socket.",
        "The system's policy allows it to every domain. A module cannot take it away.",
    ),
    (
        "bus",
        "devicekit_power_t systemd_resolved_t vmtools_unconfined_t",
        "Nothing. Such a message goes over the bus, to which the domain cannot connect.",
        "Red Hat's policy allows it to every domain. A module cannot take it away.",
    ),
    ("in", "init_t", "Nothing.", "PID 1 starts the program in its domain."),
    (
        "in",
        "unconfined_t spc_t",
        "Nothing. An administrator or a privileged container, which is unconfined, can start the program in its domain.",
        "Red Hat's policy lets such processes enter every domain. A module cannot take it away.",
    ),
    ("in", "etcd_lun_exec_t", "Nothing.", "The program is the domain's only entry point."),
    (
        "out",
        "abrt_helper_t",
        "Start the helper that stores crashes.",
        "The system's policy allows it to every domain. A module cannot take it away.",
    ),
    (
        "mount",
        "etcd_lun_var_run_t",
        "Put a mount that it has on its own directory, where only its own processes see it.",
        "The LUN is mounted there for the copy. systemd gives the services a mount namespace of their own"
        " (`PrivateMounts=yes`), and the domain has no right to enter another one (setns(2)).",
    ),
    (
        "mount",
        "etcd_lun_iscsi_conf_t iscsi_var_lib_t var_lock_t",
        "Put such a mount on open-iscsi's directories, and on that of locks.",
        "Its records are there instead of the node's, for its own iscsiadm only.",
    ),
    (
        "process",
        "domain",
        "Read files in `/proc/PID` of every process, among them its environment.",
        "Open files and maps there are the only proof that no process uses the data. All files there have one type, and"
        " the kernel asks for the same right, `file read`, before it shows open files, maps or the environment. Without"
        " `sys_ptrace` it would not show the files of a process with other capabilities, such as etcd's. Memory is another"
        " right, which the domain does not have.",
    ),
]

KINDS = {
    "placement": "places files",
    "content": "writes what others read",
    "kernel": "writes to the kernel",
    "socket": "connects to",
    "bus": "sends messages to",
    "in": "ways in",
    "out": "ways out",
    "mount": "mounts",
    "process": "reads",
}


def reasons(policy):
    """The accepted ways: kind and type. Aliases are replaced by the names that this policy has."""
    return {(kind, policy.real(name) or name) for kind, names, _, _ in ACCEPTED for name in names.split()}


def types(kind):
    """The types of the accepted ways of one kind."""
    return {name for of, names, _, _ in ACCEPTED if of == kind for name in names.split()}


def page():
    """The list as a Markdown table."""
    lines = ["| way | types | what code in the domain could do | why it stays |", "|---|---|---|---|"]
    for kind, names, gain, why in ACCEPTED:
        types = ", ".join(f"`{name}`" for name in names.split())
        lines.append(f"| {KINDS[kind]} | {types} | {gain} | {why} |")
    return "\n".join(lines) + "\n"
