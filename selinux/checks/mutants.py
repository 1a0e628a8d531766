"""Broken modules, each of which the checks must find out: by a line that names what is wrong."""

import re

# A name; what is added to the module; how the line begins that must fail, and a word in it. All are added at once: each
# has a line, or a word in one, of its own.
TOGETHER = [
    ("permissive", "(typepermissive etcd_lun_t)", "never: permissive", ""),
    ("reads shadow", "(optional x01 (allow etcd_lun_t shadow_t (file (open read))))", "never: a file of type shadow_t", "read"),
    ("loads kernel modules", "(allow etcd_lun_t self (capability (sys_module)))", "never: another capability", "sys_module"),
    ("a shell", "(optional x02 (allow etcd_lun_t shell_exec_t etcd_lun_run_here))", "never: another program", "shell_exec_t"),
    ("any program", "(optional x03 (allow etcd_lun_t bin_t etcd_lun_run_here))", "never: running bin_t", ""),
    (
        "out to mount(8)",
        "(optional x04 (typetransition etcd_lun_t mount_exec_t process mount_t)"
        " (allow etcd_lun_t mount_t (process (transition))))",
        "never: a way into another domain",
        "mount_t",
    ),
    ("every disk", "(optional x05 (allow etcd_lun_t fixed_disk_device_t (blk_file (write))))", "never: a raw disk", "fixed_disk_device_t"),
    ("writes /etc", "(optional x06 (allow etcd_lun_t etc_t (file (write create))))", "never: changing a file of others", "etc_t"),
    ("makes files in /var/lib", "(optional x07 (allow etcd_lun_t var_lib_t (file (create))))", "never: changing a file of type var_lib_t", ""),
    ("any unit", "(optional x08 (allow etcd_lun_t etc_t (service (start))))", "never: starting another unit", "etc_t"),
    ("stops units", "(allow etcd_lun_t etcd_lun_unit_file_t (service (stop)))", "never: stopping", "etcd_lun_unit_file_t"),
    ("transient units", "(optional x09 (allow etcd_lun_t init_t (system (start))))", "never: orders to PID 1", "start"),
    ("ends enforcement", "(optional x10 (allow etcd_lun_t security_t (security (setenforce))))", "never: a say in SELinux", "setenforce"),
    ("a web port", "(optional x11 (allow etcd_lun_t http_port_t (tcp_socket (name_connect))))", "never: another port", "http_port_t"),
    ("a debugger", "(optional x12 (allow etcd_lun_t init_t (process (ptrace))))", "never: ptrace of others", "init_t"),
    ("another way in", "(optional x13 (allow etcd_lun_t bin_t (file (entrypoint))))", "never: another way in", "bin_t"),
    ("takes a label", "(optional x14 (allow etcd_lun_t etc_t (file (relabelfrom))))", "never: taking a label", "etc_t"),
    ("gives a label", "(allow etcd_lun_t etcd_lun_exec_t (file (relabelto)))", "never: giving a label", "etcd_lun_exec_t"),
    ("mounts on /etc", "(optional x15 (allow etcd_lun_t etc_t (dir (mounton))))", "never: mounting elsewhere", "etc_t"),
    ("kills", "(optional x16 (allow etcd_lun_t init_t (process (sigkill))))", "never: signals to others", "init_t"),
    ("a right for others", "(optional x17 (allow iscsid_t shadow_t (file (write))))", "never: anything between others", "shadow_t"),
    ("others made permissive", "(optional x18 (typepermissive iscsid_t))", "never: anything between others", "permissive iscsid_t"),
    ("a label of others", '(filecon "/opt/etcd-lun" file (system_u object_r bin_t ((s0) (s0))))', "never: a label of others", "opt/etcd-lun"),
]

# These free of so many rules that every line would fail: a link of their own. What is taken away goes with them.
APART = [
    ("unconfined", "(optional x19 (typeattributeset unconfined_domain_type (etcd_lun_t)))", "never: an attribute", "unconfined_domain_type"),
    ("free of file rules", "(optional x20 (typeattributeset files_unconfined_type (etcd_lun_t)))", "never: an attribute", "files_unconfined_type"),
    ("others unconfined", "(optional x21 (typeattributeset files_unconfined_type (iscsid_t)))", "never: anything between others", "files_unconfined_type iscsid_t"),
]
TAKEN = [
    ("no way in", r"\(allow etcd_lun_t etcd_lun_exec_t \(file \(entrypoint [^)]*\)\)\)", "need: the program is the way in"),
    ("no file", r"\(typeattributeset file_type \(etcd_lun_files[^)]*\)\)", "need: the data's type lives on disks"),
    ("no device", r"\(typeattributeset device_node[^)]*\)\)", "need: udev labels and probes the LUN"),
]

# These don't link at all, or would not on another policy.
UNLINKABLE = {
    "a name that no policy has": "(allow etcd_lun_t no_such_type_t (fd (use)))",
    "a right that no policy has": "(allow etcd_lun_t self (file (no_such_right)))",
}
OUTSIDE = "(allow etcd_lun_t iscsid_t (fd (use)))"


def together(text):
    """The module with every mutant that gets along with others."""
    return "\n".join([text, *(more for _, more, _, _ in TOGETHER)])


def apart(text):
    """The module with the others, and with what is taken away."""
    for name, pattern, _ in TAKEN:
        text, times = re.subn(pattern, "", text)
        if times != 1:
            raise ValueError(f"the mutant `{name}` changes {times} places of the module")
    return "\n".join([text, *(more for _, more, _, _ in APART)])


def caught(expected, failed):
    """For each mutant, whether one of the lines that failed is the one that must."""
    for name, _, begins, word in expected:
        said = next((line for line in failed if line.startswith(begins) and re.search(rf"\b{re.escape(word)}", line)), None)
        yield said is not None, f"the mutant `{name}` is caught"
