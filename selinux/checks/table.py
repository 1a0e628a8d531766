"""The checks: what the domain must be able to do, and what it must never be able to do."""

import re

from . import accepted, module, ways
from .needs import DOMAIN, HANDS, NEEDS, PORTALS

WRITE = set("write append create unlink rename link setattr add_name remove_name rmdir reparent".split())
FILES = ["file", "dir", "lnk_file", "chr_file", "blk_file", "sock_file", "fifo_file"]

CAPABILITIES = set("sys_admin sys_ptrace linux_immutable chown fowner fsetid dac_read_search dac_override".split())
FREEING = set(
    "unconfined_domain_type files_unconfined_type devices_unconfined_type can_load_policy can_setenforce can_setbool"
    " can_setsecparam can_read_shadow_passwords can_write_shadow_passwords can_relabelto_shadow_passwords"
    " can_load_kernmodule fixed_disk_raw_read fixed_disk_raw_write dbusd_unconfined can_change_object_identity".split()
)
# Directories that the domain mounts over: its own mount point, open-iscsi's records and their lock.
MOUNTED_ON = {"etcd_lun_var_run_t", "iscsi_var_lib_t", "etcd_lun_iscsi_conf_t", "var_lock_t"}
EXECUTED = {"iscsid_exec_t", "rsync_exec_t", "fsadm_exec_t", "etcd_lun_exec_t"}
NOT_EXECUTED = "shell_exec_t bin_t setfiles_exec_t mount_exec_t semanage_exec_t load_policy_exec_t".split()
# Beside the manifests are keys of the node.
MANIFESTS = ["kubernetes_file_t", "kubernetes_config_t"]
CHANGED = {
    "file": {"security_t"},
    "sock_file": {"syslogd_var_run_t", "devlog_t", "etcd_lun_hands_run_t"},
}
# The requests of ioctl(2) that are left of those that any rule grants: of terminals, and of disks.
IOCTLS = {
    "file": range(0x5400, 0x5500),
    "dir": range(0x5400, 0x5500),
    "chr_file": range(0x5400, 0x5500),
    "blk_file": {*range(0x1200, 0x1300), 0x215, 0x5331, 0x5395},
}
SECRET = (
    "shadow_t selinux_config_t file_context_t policy_config_t semanage_store_t"
    " container_var_lib_t sshd_key_t user_home_t admin_home_t"
).split()
# Files in which a value is a command that another program runs: `iscsid.startup`.
COMMANDS = ["/etc/iscsi/iscsid.conf"]
PORTS = {"iscsi_port_t", "winshadow_port_t", "unreserved_port_t", "ephemeral_port_t"}


def verdicts(policy, base, text, every=False):
    """Yields for each check whether it holds, and its line with the first few findings, or with every one. `base` is the
    policy without the module."""
    for line, found in judged(policy, base, text):
        words = sorted(" ".join(str(word) for word in one if word) if isinstance(one, tuple) else one for one in found)
        shown = words if every else words[:5]
        yield not found, f"{line}{': ' if shown else ''}{', '.join(shown)}{' …' if len(shown) < len(words) else ''}"


def judged(policy, base, text):
    """Yields each check with what violates it."""
    own = {policy.real(name) or name for name in module.own(text)}
    yield from needs(policy)
    yield from of_process(policy)
    yield from of_files(policy, base, own)
    yield from of_system(policy)
    yield from of_hands(policy, own)
    yield from of_portals(policy, own)
    yield from ways.judged(policy, text)
    here, before = policy.without(own), base.without(own)
    # If a portal has another port than 3260, iscsid connects to it.
    connects = {("allow", "iscsid_t", port, "tcp_socket", "name_connect") for port in PORTS}
    yield "never: a rule between other types", here - before - connects
    yield "never: a rule of the system's policy removed", before - here
    labels = module.labels(text)
    yield "never: a file context with another type", {path for path, type_ in labels if type_ not in module.own(text)}
    written = policy.targets(DOMAIN, "file", {"write", "append", "rename", "unlink"})
    commands = {(path, module.label(text, path)) for path in COMMANDS}
    yield "never: writing a file that names a command", {one for one in commands if policy.real(one[1]) in written}


def needs(policy):
    for why, source, target, class_, wanted in NEEDS:
        # If the policy lacks a name, nothing on that system needs the rule. The line `dropped blocks` shows it.
        if policy.real(source) and policy.real(target):
            missing = set(wanted.split()) - policy.may(source, target, class_)
            yield f"need: {why} ({source}, {target} {class_})", missing


def beyond(policy, found, *allowed):
    """What was found and is not allowed. Names of types may be aliases."""
    real = {policy.real(name) or name for names in allowed for name in names}
    return {policy.real(name) or name for name in found} - real


def other_ioctls(policy, source, class_):
    """The types on whose files of a class the source may make other requests than those that are left."""
    found = policy.ioctl(source, class_).items()
    return {type_ for type_, numbers in found if numbers is None or numbers - set(IOCTLS[class_])}


def of_process(policy):
    """Checks of the domain itself."""
    may, on = policy.may, lambda class_, *permissions: policy.targets(DOMAIN, class_, set(permissions))
    yield "never: a permissive domain", {DOMAIN} & policy.permissive
    yield "never: an attribute that exempts from rules", policy.all_of(DOMAIN) & FREEING
    yield "never: another capability", may(DOMAIN, DOMAIN, "capability") - CAPABILITIES
    yield "never: another capability of class capability2", may(DOMAIN, DOMAIN, "capability2") - {"syslog"}
    yield "never: a capability in a user namespace", may(DOMAIN, DOMAIN, "cap_userns")
    # In Red Hat's policy every domain may start a helper for its crashes.
    yield "never: a transition to another domain", beyond(
        policy, on("process", "transition", "dyntransition"), {DOMAIN, "abrt_helper_t"}
    )
    own_choice = set("setexec setcurrent setfscreate setsockcreate setkeycreate execmem execstack execheap".split())
    yield "never: setting its own label, or executing writable memory", may(DOMAIN, DOMAIN, "process") & own_choice
    yield "never: ptrace of another domain", on("process", "ptrace")
    yield "never: a signal to another domain", on("process", "signal", "sigkill", "sigstop") - {DOMAIN}
    yield "never: another entry point", on("file", "entrypoint") - {"etcd_lun_exec_t"}


def of_files(policy, base, own):
    """Checks of what the domain may run, change, label and mount on."""
    may, on = policy.may, lambda class_, *permissions: policy.targets(DOMAIN, class_, set(permissions))

    def ordinary(class_, *permissions):
        """What the system's policy gives to every domain. The module's own permissions are those beyond it."""
        found = set()
        for (source, target, of), perms in base.rules.items():
            if source == "domain" and of == class_ and perms & set(permissions):
                found |= base.attributes.get(target, {target})
        return found

    run = on("file", "execute_no_trans") - ordinary("file", "execute_no_trans")
    yield "never: running another program in the domain", beyond(policy, run, EXECUTED)
    for type_ in filter(policy.real, NOT_EXECUTED):
        yield f"never: running {type_}", may(DOMAIN, type_, "file") & {"execute_no_trans"}
    for class_ in FILES:
        changed = on(class_, *WRITE) - own - ordinary(class_, *WRITE)
        yield f"never: changing a {class_} of another type", beyond(policy, changed, CHANGED.get(class_, set()))
    yield "never: changing a file directly in /var", {
        class_ for class_ in FILES if may(DOMAIN, "var_t", class_) & WRITE
    }
    for type_ in filter(policy.real, SECRET):
        yield f"never: access to a file of type {type_}", may(DOMAIN, type_, "file") - {"getattr", "map"}
    for type_ in filter(policy.real, MANIFESTS):
        yield f"never: access to a file of type {type_}", may(DOMAIN, type_, "file") - {"getattr", "map"}
    yield "never: writing to a disk", on("blk_file", "write", "append")
    yield "never: access to another disk", on("blk_file", "open", "read", "write", "ioctl") - {"etcd_lun_device_t"}
    for class_ in IOCTLS:
        yield f"never: another ioctl on a {class_}", other_ioctls(policy, DOMAIN, class_)
    # `file_type`, for example, would open it to domains that have a right to every file and to no disk.
    disk = policy.real("fixed_disk_device_t")
    yield "never: an attribute of the LUN that other disks do not have", policy.all_of("etcd_lun_device_t") - policy.all_of(disk) - own
    yield "never: relabelling a file", {type_ for class_ in FILES for type_ in on(class_, "relabelto", "relabelfrom")}
    yield "never: mounting a filesystem", on("filesystem", "mount", "remount", "relabelfrom", "relabelto")
    yield "never: unmounting another filesystem than the LUN's", on("filesystem", "unmount") - {"etcd_lun_data_t"}
    yield "never: mounting on another directory", on("dir", "mounton") - MOUNTED_ON


def of_hands(policy, own):
    """Checks of the domain that does what the other one asks for. It may start units, so nothing keeps it from any command. But it
    must not be led astray: it reads a request and what the request is about, and nothing else that others write."""
    may, on = policy.may, lambda class_, *permissions: policy.targets(HANDS, class_, set(permissions))
    yield "never: hands with another capability", may(HANDS, HANDS, "capability") - {"sys_admin", "dac_read_search", "dac_override"}
    yield "never: hands that read a config or a secret", {"etcd_lun_conf_t"} & on("file", "open", "read")
    yield "never: hands on the network", {
        class_ for class_ in ["tcp_socket", "udp_socket", "rawip_socket", "packet_socket"] if may(HANDS, HANDS, class_) & {"create"}
    } | on("tcp_socket", "name_connect", "name_bind")
    yield "never: hands that start another unit", beyond(
        policy, on("service", "start", "reload"), {"etcd_lun_etcd_unit_t", "iscsi_unit_file_t"}
    )
    yield "never: hands that stop another unit, or enable one", on("service", "enable", "disable") | beyond(
        policy, on("service", "stop"), {"etcd_lun_etcd_unit_t"}
    )
    yield "never: hands with a command to PID 1 itself", may(HANDS, "init_t", "system") - {"status"}
    yield "never: hands that relabel a file", {type_ for class_ in FILES for type_ in on(class_, "relabelto", "relabelfrom")}
    yield "never: hands that mount with another label", on("filesystem", "mount", "remount", "relabelto") - {"etcd_lun_data_t", "etcd_lun_records_t"}
    yield "never: hands that open another disk", on("blk_file", "open", "read", "write", "append", "ioctl") - {"etcd_lun_device_t"}
    yield "never: hands with another ioctl on a blk_file", other_ioctls(policy, HANDS, "blk_file")
    yield "never: hands that change a file of ours", (on("file", *WRITE) & own) - {DOMAIN, HANDS}
    # The record says which LUN may be mounted. Behind every other file could be whatever the asking side has made up.
    written = policy.targets(DOMAIN, "file", {"write", "append"}) & policy.targets(DOMAIN, "file", {"open"})
    read = on("file", "read") & on("file", "open") & written
    yield "never: hands that read what the asking side writes", beyond(
        policy, read - ways.in_kernel(policy), {"etcd_lun_var_lib_t", DOMAIN}, accepted.types("content") - own
    )
    yield "never: hands that anyone else than PID 1 can start", beyond(
        policy, policy.sources(HANDS, "process", {"transition", "dyntransition"}), {"init_t", HANDS, "unconfined_t", "spc_t"}
    )
    yield "never: hands with another entry point", on("file", "entrypoint") - {"etcd_lun_exec_t"}


def of_portals(policy, own):
    """Checks of the domain that reaches portals. A target's answer may make it do anything."""
    may, on = policy.may, lambda class_, *permissions: policy.targets(PORTALS, class_, set(permissions))
    yield "never: another capability for who asks portals", may(PORTALS, PORTALS, "capability") - {"sys_admin", "dac_override"}
    yield "never: files of ours for who asks portals", (
        (on("file", "open", "read", *WRITE) & own) - {PORTALS, "etcd_lun_exec_t", "etcd_lun_iscsi_conf_t"}
    )
    yield "never: a disk for who asks portals", on("blk_file", "open", "read", "write", "ioctl")
    for class_ in ["file", "dir", "chr_file"]:
        yield f"never: another ioctl on a {class_} for who asks portals", other_ioctls(policy, PORTALS, class_)
    yield "never: another port for who asks portals", beyond(policy, on("tcp_socket", "name_connect"), PORTS)
    yield "never: a unit or a message over the bus for who asks portals", on("service", "start", "stop", "reload") | beyond(
        policy, on("dbus", "send_msg"), accepted.types("bus")
    )
    others = {policy.real(name) or name for name in ("iscsid_t", "system_dbusd_t", HANDS, DOMAIN)}
    yield "never: a session of iscsid's, the bus or the helper for who asks portals", on("unix_stream_socket", "connectto") & others
    yield "never: a mount for who asks portals", on("filesystem", "mount", "remount") | on("dir", "mounton")
    yield "never: who asks portals is started by another", beyond(
        policy, policy.sources(PORTALS, "process", {"transition", "dyntransition"}), {"init_t", PORTALS, "unconfined_t", "spc_t"}
    )


def of_system(policy):
    """Checks of the kernel, PID 1 and the network."""
    may, on = policy.may, lambda class_, *permissions: policy.targets(DOMAIN, class_, set(permissions))
    yield "never: changing SELinux's state", may(DOMAIN, "security_t", "security") - {"check_context", "compute_av"}
    # In Red Hat's policy a boolean, which is off, gives every domain `module_request`.
    yield "never: loading a kernel module", on("system", "module_load")
    yield "never: another request to the kernel", may(DOMAIN, "kernel_t", "system") - {"syslog_read", "module_request"}
    yield "never: a question or a command to PID 1 itself", may(DOMAIN, "init_t", "system")
    yield "never: starting a unit", on("service", "start", "reload")
    yield "never: stopping or enabling a unit", on("service", "stop", "enable", "disable")
    yield "never: a connection over TCP", on("tcp_socket", "name_connect")
    yield "never: listening on a port", on("tcp_socket", "name_bind") | on("udp_socket", "name_bind")
    yield "never: a socket of the Internet", {
        class_ for class_ in ["tcp_socket", "udp_socket", "rawip_socket", "packet_socket"] if may(DOMAIN, DOMAIN, class_) & {"create"}
    }
