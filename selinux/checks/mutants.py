"""Broken modules. The checks must detect each of them, by a line that names what is wrong."""

import re

from . import accepted, ways

# For each mutant: its name, the text that is added to the module, the beginning of the line that must fail, and a word in
# that line. All are added at once, because each makes a line of its own fail, or adds a word of its own to a line.
TOGETHER = [
    ("permissive", "(typepermissive etcd_lun_t)", "never: a permissive domain", ""),
    ("reads shadow", "(optional x01 (allow etcd_lun_t shadow_t (file (open read))))", "never: access to a file of type shadow_t", "read"),
    ("loads kernel modules", "(allow etcd_lun_t self (capability (sys_module)))", "never: another capability", "sys_module"),
    ("a shell", "(optional x02 (allow etcd_lun_t shell_exec_t etcd_lun_run_here))", "never: running another program", "shell_exec_t"),
    ("any program", "(optional x03 (allow etcd_lun_t bin_t etcd_lun_run_here))", "never: running bin_t", ""),
    (
        "out to mount(8)",
        "(optional x04 (typetransition etcd_lun_t mount_exec_t process mount_t)"
        " (allow etcd_lun_t mount_t (process (transition))))",
        "never: a transition to another domain",
        "mount_t",
    ),
    ("writes the LUN", "(allow etcd_lun_t etcd_lun_device_t (blk_file (write)))", "never: writing to a disk", "etcd_lun_device_t"),
    ("every disk", "(optional x05 (allow etcd_lun_t fixed_disk_device_t (blk_file (write))))", "never: access to another disk", "fixed_disk_device_t"),
    ("writes /etc", "(optional x06 (allow etcd_lun_t etc_t (file (write create))))", "never: changing a file of another type", "etc_t"),
    ("makes names in /var/lib", "(optional x07 (allow etcd_lun_t var_lib_t (dir (write add_name))))", "never: changing a dir of another type", "var_lib_t"),
    ("any unit", "(optional x08 (allow etcd_lun_t etc_t (service (start))))", "never: starting a unit", "etc_t"),
    ("hands with a secret", "(allow etcd_lun_hands_t etcd_lun_conf_t (file (open read)))", "never: hands that read a config", "etcd_lun_conf_t"),
    ("hands on the network", "(allow etcd_lun_hands_t self (tcp_socket (create)))", "never: hands on the network", "tcp_socket"),
    ("hands of any unit", "(optional x35 (allow etcd_lun_hands_t etc_t (service (start))))", "never: hands that start another unit", "etc_t"),
    ("hands with every disk", "(optional x39 (allow etcd_lun_hands_t fixed_disk_device_t (blk_file (open read))))", "never: hands that open another disk", "fixed_disk_device_t"),
    ("hands that write the record", "(allow etcd_lun_hands_t etcd_lun_var_lib_t (file (write)))", "never: hands that change a file", "etcd_lun_var_lib_t"),
    ("hands that read records", "(allow etcd_lun_hands_t etcd_lun_records_t (file (open read)))", "never: hands that read what", "etcd_lun_records_t"),
    ("hands for others", "(optional x36 (allow crond_t etcd_lun_hands_t (process (transition))))", "never: hands that anyone else", "crond_t"),
    ("stops units", "(optional x46 (allow etcd_lun_t etc_t (service (stop))))", "never: stopping", "etc_t"),
    ("transient units", "(optional x09 (allow etcd_lun_t init_t (system (start))))", "never: a question or a command to PID 1", "start"),
    ("the state of the system", "(optional x40 (allow etcd_lun_t init_t (system (status))))", "never: a question or a command to PID 1", "status"),
    ("messages to systemd", "(optional x41 (allow etcd_lun_t init_t (dbus (send_msg))))", "never: a message over the bus", "init_t"),
    ("messages to others", "(optional x42 (allow etcd_lun_t crond_t (dbus (send_msg))))", "never: a message over the bus", "crond_t"),
    ("the bus", "(optional x43 (allow etcd_lun_t system_dbusd_t (unix_stream_socket (connectto))))", "never: another domain's socket", "system_dbusd_t"),
    ("the bus's socket", "(optional x44 (allow etcd_lun_t system_dbusd_var_run_t (sock_file (write))))", "never: changing a sock_file of another type", "system_dbusd_"),
    ("the state of units", "(optional x47 (allow etcd_lun_t etc_t (service (status))))", "never: a right to a unit", "etc_t"),
    ("ends enforcement", "(optional x10 (allow etcd_lun_t security_t (security (setenforce))))", "never: changing SELinux", "setenforce"),
    ("a web port", "(optional x11 (allow etcd_lun_t http_port_t (tcp_socket (name_connect))))", "never: a connection over TCP", "http_port_t"),
    ("a portal", "(optional x53 (allow etcd_lun_t iscsi_port_t (tcp_socket (name_connect))))", "never: a connection over TCP", "iscsi_port_t"),
    ("portals with a secret", "(allow etcd_lun_portals_t etcd_lun_conf_t (file (open read)))", "never: files of ours for who asks portals", "etcd_lun_conf_t"),
    ("portals with the LUN", "(allow etcd_lun_portals_t etcd_lun_device_t (blk_file (open read)))", "never: a disk for who asks portals", "etcd_lun_device_t"),
    ("portals with sessions", "(optional x54 (allow etcd_lun_portals_t iscsid_t (unix_stream_socket (connectto))))", "never: a session of iscsid's", "iscsid_t"),
    ("portals on the bus", "(optional x55 (allow etcd_lun_portals_t system_dbusd_t (unix_stream_socket (connectto))))", "never: a session of iscsid's", "system_dbusd_t"),
    ("a debugger", "(optional x12 (allow etcd_lun_t init_t (process (ptrace))))", "never: ptrace of another domain", "init_t"),
    ("another entry point", "(optional x13 (allow etcd_lun_t bin_t (file (entrypoint))))", "never: another entry point", "bin_t"),
    ("relabels from another type", "(optional x14 (allow etcd_lun_t etc_t (file (relabelfrom))))", "never: relabelling a file", "etc_t"),
    ("relabels to another type", "(allow etcd_lun_t etcd_lun_exec_t (file (relabelto)))", "never: relabelling a file", "etcd_lun_exec_t"),
    ("relabels etcd's data", "(allow etcd_lun_t etcd_lun_data_t (file (relabelto relabelfrom)))", "never: relabelling a file", "etcd_lun_data_t"),
    ("mounts the LUN", "(allow etcd_lun_t etcd_lun_data_t (filesystem (mount)))", "never: mounting a filesystem", "etcd_lun_data_t"),
    ("unmounts another filesystem", "(optional x51 (allow etcd_lun_t fs_t (filesystem (unmount))))", "never: unmounting another filesystem", "fs_t"),
    ("hands that relabel", "(allow etcd_lun_hands_t etcd_lun_data_t (file (relabelto)))", "never: hands that relabel a file", "etcd_lun_data_t"),
    ("hands that mount with another label", "(optional x52 (allow etcd_lun_hands_t fs_t (filesystem (mount))))", "never: hands that mount with another label", "fs_t"),
    ("mounts on /etc", "(optional x15 (allow etcd_lun_t etc_t (dir (mounton))))", "never: mounting on another directory", "etc_t"),
    ("changes how mounts propagate", "(optional x32 (allow etcd_lun_t root_t (dir (mounton))))", "never: mounting on another directory", "root_t"),
    ("kills", "(optional x16 (allow etcd_lun_t init_t (process (sigkill))))", "never: a signal to another domain", "init_t"),
    ("a right for others", "(optional x17 (allow iscsid_t shadow_t (file (write))))", "never: a rule between other types", "shadow_t"),
    ("places files elsewhere", "(optional x22 (allow etcd_lun_t cron_spool_t (dir (search write add_name))))", "never: a foreign directory", "cron_spool_t"),
    ("others read what it writes", "(optional x23 (allow avahi_t etcd_lun_var_lib_t (file (read))))", "never: a file that it writes and another", "avahi_t"),
    ("writes in /sys", "(optional x31 (allow etcd_lun_t sysfs_t (file (write))))", "never: a file of the kernel", "sysfs_t"),
    ("writes sysctls", "(optional x24 (allow etcd_lun_t sysctl_kernel_t (file (write))))", "never: a file of the kernel", "sysctl_kernel_t"),
    ("another's socket", "(optional x25 (allow etcd_lun_t crond_t (unix_stream_socket (connectto))))", "never: another domain's socket", "crond_t"),
    ("another way in", "(optional x26 (allow crond_t etcd_lun_t (process (transition))))", "never: another way into the domain", "crond_t"),
    ("another way out", "(optional x30 (allow etcd_lun_t crond_t (process (dyntransition))))", "never: another way out of the domain", "crond_t"),
    ("resets a unit's failure", "(optional x27 (allow etcd_lun_t var_lib_t (service (reload))))", "never: a right to a unit", "var_lib_t"),
    ("writes iscsid.conf", "(allow etcd_lun_t etcd_lun_iscsid_conf_t (file (write)))", "never: a file that it writes and another", "etcd_lun_iscsid_conf_t"),
    ("another filesystem", "(optional x28 (allow etcd_lun_t tmpfs_t (filesystem (mount))))", "never: another filesystem", "tmpfs_t"),
    ("mounts disks", "(optional x38 (allow etcd_lun_t fs_t (filesystem (mount))))", "never: another filesystem", "fs_t"),
    ("opens the LUN to others", "(optional x29 (allow avahi_t etcd_lun_device_t (blk_file (open read))))", "never: a domain that can open the LUN", "avahi_t"),
    ("the LUN is a file", "(optional x33 (typeattributeset file_type (etcd_lun_device_t)))", "never: an attribute of the LUN", "file_type"),
    ("freezes filesystems", "(optional x34 (allowx etcd_lun_t etc_t (ioctl dir (0x5877))))", "never: another ioctl on a dir", "etc_t"),
    ("hands that reserve the LUN", "(allowx etcd_lun_hands_t etcd_lun_device_t (ioctl blk_file (0x70c9)))", "never: hands with another ioctl on a blk_file", "etcd_lun_device_t"),
    ("others made permissive", "(optional x18 (typepermissive iscsid_t))", "never: a rule between other types", "permissive iscsid_t"),
    ("another file context", '(filecon "/opt/etcd-lun" file (system_u object_r bin_t ((s0) (s0))))', "never: a file context with another type", "opt/etcd-lun"),
]

# These exempt a domain from so many rules that every line would fail. So they are linked apart from the others, together
# with the mutants that remove something.
APART = [
    ("unconfined", "(optional x19 (typeattributeset unconfined_domain_type (etcd_lun_t)))", "never: an attribute", "unconfined_domain_type"),
    ("exempt from file rules", "(optional x20 (typeattributeset files_unconfined_type (etcd_lun_t)))", "never: an attribute", "files_unconfined_type"),
    ("others unconfined", "(optional x21 (typeattributeset files_unconfined_type (iscsid_t)))", "never: a rule between other types", "files_unconfined_type iscsid_t"),
]
TAKEN = [
    ("no entry point", r"\(allow etcd_lun_t etcd_lun_exec_t \(file \(entrypoint [^)]*\)\)\)", "need: the program is the domain's entry point"),
    ("no file", r"\(typeattributeset file_type \(etcd_lun_files[^)]*\)\)", "need: files on a disk may have the data's type"),
    ("no label of iscsid.conf", r'\(filecon "/etc/iscs\[i\]/iscsid[^\n]*', "never: writing a file that names a command"),
    ("no limit of ioctls", r"\(allowx etcd_lun_t etcd_lun_anything \(ioctl chr_file [^\n]*", "never: another ioctl on a chr_file"),
    ("no device", r"\(typeattributeset device_node[^)]*\)\)", "need: udev labels and probes the LUN"),
]

# These do not link, or would not link on another policy.
UNLINKABLE = {
    "a name that no policy has": "(allow etcd_lun_t no_such_type_t (fd (use)))",
    "a right that no policy has": "(allow etcd_lun_t self (file (no_such_right)))",
}
SHARED = '\n(filecon "/etc/.*" any (system_u object_r etcd_lun_conf_t ((s0) (s0))))'
# These link, and would not if the policy lost a name.
OUTSIDE = {
    "a type outside optional": "(allow etcd_lun_t iscsid_t (fd (use)))",
    "an attribute outside optional": "(typeattributeset domain (etcd_lun_t))",
    "a permission outside optional": "(allow etcd_lun_t self (system (status)))",
}

# Ways that every policy has, one or two of each kind. The check must name each of them if the list of accepted ways lacks
# it. The socket of setrans_t is one that the system's policy opens to every domain, and the module has no rule for it.
UNLISTED = [
    ("content", "etcd_lun_iscsi_conf_t"),
    ("kernel", "security_t"),
    ("socket", "setrans_t"),
    ("socket", "iscsid_t"),
    ("in", "init_t"),
    ("in", "etcd_lun_exec_t"),
    ("mount", "etcd_lun_var_run_t"),
    ("process", "domain"),
]


def together(text):
    """The module with every mutant that can be added together with others."""
    return "\n".join([text, *(more for _, more, _, _ in TOGETHER)])


def apart(text):
    """The module with the mutants that need a link of their own, and without what others remove."""
    for name, pattern, _ in TAKEN:
        text, times = re.subn(pattern, "", text)
        if times != 1:
            raise ValueError(f"the mutant `{name}` must change one place of the module, and changes {times}")
    return "\n".join([text, *(more for _, more, _, _ in APART)])


def unlisted(policy, text):
    """Yields for each of these ways whether the check names it if the list of accepted ways lacks it."""
    for kind, name in UNLISTED:
        type_ = policy.real(name) or name
        known = accepted.reasons(policy) - {(kind, type_)}
        named = [one for _, found in ways.judged(policy, text, known) for one in found]
        yield named and all(one.startswith(f"{type_} ") for one in named), f"the mutant `not accepted: {kind} {name}` is detected"


def caught(expected, failed):
    """Yields for each mutant whether its expected line is among the failed lines."""
    for name, _, begins, word in expected:
        said = next((line for line in failed if line.startswith(begins) and re.search(rf"\b{re.escape(word)}", line)), None)
        yield said is not None, f"the mutant `{name}` is detected"
