"""Finds the ways out of the domain: what code that runs in it could make others do.

A rule for itself looks harmless. An intruder combines rules: makes a file where one right allows it, and moves it to where
another right allows that. So this asks for combinations, and takes into account what the system's policy gives to every
domain. Each way that is found must be in `accepted`, with the reason why it stays.
"""

from . import accepted, module
from .needs import DOMAIN, HANDS

# Classes of what a directory can hold.
HELD = ["file", "lnk_file", "sock_file", "fifo_file", "dir"]
# Attributes of domains that the policy gives every right of a kind. That they can read our files says nothing.
UNCONFINED = ["unconfined_domain_type", "files_unconfined_type", "unconfined_domain"]
# What the permissions of the class `service` allow, by the methods of systemd's D-Bus interface (systemd v257,
# src/core/dbus-unit.c and dbus-mount.c; `job_type_to_access_method` in dbus-job.c).
SERVICE = {
    "start": "start, restart, set properties of, remount",
    "stop": "stop, kill, cancel jobs of",
    "reload": "reload, reset failures of",
    "enable": "enable",
    "disable": "disable, mask",
    "status": "ask for the state of",
}


LINES = {
    "placement": "never: a foreign directory in which it can place files",
    "content": "never: a file that it writes and another domain reads or runs",
    "kernel": "never: a file of the kernel that it can write",
    "socket": "never: another domain's socket",
    "bus": "never: a message over the bus",
    "in": "never: another way into the domain",
    "out": "never: another way out of the domain",
    "unit": "never: a right to a unit",
    "mount": "never: another filesystem or place to mount",
    "device": "never: a domain that can open the LUN but no other disk",
    "process": "never: another way to read processes",
}


def judged(policy, text, known=None):
    """Yields for each kind of way the line of its check, and the ways that nobody accepted. `known` takes the place of the
    list of accepted ways."""
    known = accepted.reasons(policy) if known is None else known
    beyond = {kind: set() for kind in LINES}
    for kind, target, by in found(policy, text):
        if (kind, policy.real(target) or target) not in known:
            beyond[kind].add(f"{target} ({', '.join(by[:3])}{' …' if len(by) > 3 else ''})")
    for kind, line in LINES.items():
        yield line, beyond[kind]


def found(policy, text):
    """Yields each way: its kind, the type that it leads to, and the types that can be used for it."""
    own = {policy.real(name) or name for name in module.own(text)}
    for kind, ways in [
        ("placement", placements(policy, own)),
        ("content", contents(policy, own)),
        ("kernel", kernel(policy)),
        ("socket", sockets(policy)),
        ("bus", buses(policy)),
        ("in", entries(policy)),
        ("out", exits(policy)),
        ("unit", units(policy)),
        ("mount", mounts(policy)),
        ("device", devices(policy)),
        ("process", processes(policy)),
    ]:
        for target, by in sorted(ways.items()):
            yield kind, target, sorted(by)


def on(policy, class_, *permissions):
    """The types on which the domain has one of these permissions."""
    return policy.targets(DOMAIN, class_, set(permissions))


def add(ways, target, by):
    ways.setdefault(target, set()).add(by)


def placements(policy, own):
    """Foreign directories in which the domain can put something, and what: `class type`.

    A file comes into a directory by its creation, by rename(2) or by link(2). A rename needs a right to the file and one
    right to each directory. Nothing in a policy ties these together, so each file that can be renamed can go into each
    directory that accepts names.
    """
    places, ways = on(policy, "dir", "add_name") - own, {}
    made = {}
    for source, target, class_, _, type_ in policy.transitions:
        if source == DOMAIN:
            add(made, (target, class_), type_)
    for class_ in HELD:
        moved, created = on(policy, class_, "rename", "link"), on(policy, class_, "create")
        if class_ == "dir":
            # A directory that gets another parent needs this right too (selinux_inode_rename in the kernel's hooks.c).
            moved &= on(policy, class_, "reparent")
        for place in places:
            for type_ in moved | ((made.get((place, class_), set()) | {place}) & created):
                add(ways, place, f"{class_} {type_}")
    return ways


def contents(policy, own):
    """Types whose files the domain can write, and the domains that have a reason of their own to read or run them.

    Red Hat's policy gives every domain rights that are too few to write a file or to run one, and these do not count:
    `append` without `open`, for a file that another process opened and handed over; `create` without `write`, which makes
    an empty file; and `entrypoint` without `execute`. A domain that can also read the module's config, which nobody but us
    reads, reads every file: it does not count. Neither do the hands: a check of their own says what they may read.
    """
    ways, uses = {}, {"read", "execute", "execute_no_trans"}
    exempt = {one for name in UNCONFINED for one in policy.attributes.get(name, set())}
    everywhere = policy.sources("etcd_lun_conf_t", "file", uses)
    written = on(policy, "file", "write", "append") & on(policy, "file", "open") | on(policy, "file", "rename")
    for type_ in written - in_kernel(policy):
        # The file /proc/PID/attr of its own process has the domain's type.
        if type_ != DOMAIN:
            for reader in policy.sources(type_, "file", uses) - everywhere - exempt - {DOMAIN, HANDS}:
                add(ways, type_, reader)
    return ways


def in_kernel(policy):
    """Types of files behind which is the kernel and no disk."""
    attributes = ["sysctl_type", "proc_type", "filesystem_type"]
    real = {policy.real(name) for name in ["sysfs_t", "security_t", "proc_t", "debugfs_t", "cgroup_t"]} - {None}
    return real | {one for name in attributes for one in policy.attributes.get(name, set())}


def kernel(policy):
    """Files of the kernel that the domain can write."""
    return {type_: {"write"} for type_ in on(policy, "file", "write", "append") & in_kernel(policy)}


def sockets(policy):
    """Domains to whose sockets the domain can connect or send, also by what every domain may do."""
    ways = {}
    for class_, permission in [("unix_stream_socket", "connectto"), ("unix_dgram_socket", "sendto")]:
        for type_ in on(policy, class_, permission) - {DOMAIN}:
            add(ways, type_, permission)
    return ways


def buses(policy):
    """Programs on the bus to which the domain can send messages, if it can connect to the bus."""
    return {type_: {"dbus"} for type_ in on(policy, "dbus", "send_msg", "acquire_svc")}


def entries(policy):
    """Domains from which a process can enter the domain, and programs that are its entry point."""
    ways = {type_: {"transition"} for type_ in policy.sources(DOMAIN, "process", {"transition", "dyntransition"}) - {DOMAIN}}
    for type_ in on(policy, "file", "entrypoint"):
        add(ways, type_, "entry point")
    return ways


def exits(policy):
    """Domains to which the domain can change, by execution or by its own choice."""
    return {type_: {"transition"} for type_ in on(policy, "process", "transition", "dyntransition") - {DOMAIN}}


def units(policy):
    """Units about which the domain can ask systemd anything, and what systemd does for it."""
    ways = {}
    for permission, meaning in SERVICE.items():
        for type_ in on(policy, "service", permission):
            add(ways, type_, meaning)
    return ways


def mounts(policy):
    """Filesystems that the domain can mount, and places where it can mount."""
    ways = {type_: {"filesystem"} for type_ in on(policy, "filesystem", "mount", "remount")}
    for class_ in ["dir", "file"]:
        for type_ in on(policy, class_, "mounton"):
            add(ways, type_, f"on a {class_}")
    return ways


def devices(policy):
    """Domains that can open the LUN as a disk but have no right to other disks."""
    disk = policy.real("fixed_disk_device_t")
    opened = {"open", "read", "write"}
    allowed = policy.sources(disk, "blk_file", {"read", "write"}) if disk else set()
    lun = policy.sources("etcd_lun_device_t", "blk_file", opened) - allowed - {DOMAIN, HANDS}
    return {type_: {"etcd_lun_device_t"} for type_ in lun}


def processes(policy):
    """Other domains whose /proc/PID files the domain can read, as one way for all of them."""
    every = policy.attributes.get("domain", set())
    read = (on(policy, "file", "read") & every) - {DOMAIN}
    return {"domain": {"/proc/PID"}} if read else {}
