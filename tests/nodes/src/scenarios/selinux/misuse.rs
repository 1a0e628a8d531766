//! Actions in the agent's domain that the agent never performs. Each must be denied, and each denial must be
//! audited.

use anyhow::{Result, bail};

use super::audit::denials;
use crate::net::Path;
use crate::node::Node;

/// Name; Perl code whose value is true if it worked; and the denial's permission, class and type. Debian's and Red Hat's
/// policies end some types differently, so the type may be its beginning.
const ACTS: &[(&str, &str, [&str; 3])] = &[
    ("read /etc/shadow", "open(my $f, '<', '/etc/shadow')", ["read", "file", "shadow_t"]),
    ("write to /etc", "open(my $f, '>', '/etc/bed-misuse')", ["write", "dir", "etc_t"]),
    ("make a name in /var/lib", "mkdir('/var/lib/extensions')", ["write", "dir", "var_lib_t"]),
    (
        "write a unit",
        "open(my $f, '>', '/etc/systemd/system/bed.service')",
        ["write", "dir", "systemd_unit_"],
    ),
    (
        "change the program",
        "open(my $f, '>>', '/var/lib/etcd-lun/bin/etcd-lun')",
        ["search", "dir", "etcd_lun_exec_t"],
    ),
    (
        "move a file among the kubelet's",
        "open(my $f, '>', '/etc/iscsi/bed-misuse') and rename('/etc/iscsi/bed-misuse', '/etc/kubernetes/manifests/evil.yaml')",
        ["search", "dir", "kubernetes_"],
    ),
    (
        "write iscsid's config",
        "open(my $f, '>>', '/etc/iscsi/iscsid.conf')",
        ["append", "file", "etcd_lun_iscsid_conf_t"],
    ),
    (
        "replace iscsid's config",
        "open(my $f, '>', '/etc/iscsi/bed-misuse') and rename('/etc/iscsi/bed-misuse', '/etc/iscsi/iscsid.conf')",
        ["unlink", "file", "etcd_lun_iscsid_conf_t"],
    ),
    (
        "write to the kernel's files",
        "open(my $f, '>', '/sys/block/vda/queue/read_ahead_kb')",
        ["write", "file", "sysfs_t"],
    ),
    (
        "change where firmware is loaded from",
        "open(my $f, '>', '/sys/module/firmware_class/parameters/path')",
        ["write", "file", "sysfs_t"],
    ),
    // Whoever may ask systemd anything could try to start a unit, or set a property of one: a new line in it would be a line of a
    // drop-in, such as another ExecStart=.
    (
        "connect to the system bus",
        "connects('/run/dbus/system_bus_socket')",
        ["search", "dir", "system_dbusd_"],
    ),
    ("connect to systemd itself", "connects('/run/systemd/private')", ["write", "sock_file", "init_"]),
    ("enter PID 1's mounts", "enters('/proc/1/ns/mnt')", ["read", "file", "nsfs_t"]),
    ("change how mounts propagate", "mount_on('/')", ["mounton", "dir", "root_t"]),
    ("mount another kind of filesystem", "mount_on('/run/etcd-lun')", ["mount", "filesystem", "tmpfs_t"]),
    (
        "mount the LUN itself",
        "mount_lun('DISK', '/run/etcd-lun', 'context=system_u:object_r:etcd_lun_data_t:s0')",
        ["mount", "filesystem", "etcd_lun_data_t"],
    ),
    ("read another process's memory", "open(my $f, '<', '/proc/1/mem')", ["ptrace", "process", "init_t"]),
    (
        "move a directory into /run",
        "mkdir('/run/etcd-lun/bed') && rename('/run/etcd-lun/bed', '/run/extensions')",
        ["write", "dir", "var_run_t"],
    ),
    // An unconfined program of a person's could follow it.
    (
        "make a link",
        "symlink('/etc/shadow', '/run/etcd-lun/bed-misuse')",
        ["create", "lnk_file", "etcd_lun_var_run_t"],
    ),
    (
        "change open-iscsi's records",
        "open(my $f, '>', '/var/lib/iscsi/bed-misuse')",
        ["write", "dir", "iscsi_var_lib_t"],
    ),
    // With a connection it would be an initiator of its own.
    ("connect to a portal", "connect_to(3260)", ["create", "tcp_socket", "etcd_lun_t"]),
    ("connect to udev", "connects('/run/udev/control')", ["write", "sock_file", "udev_"]),
    ("read the system's disk", "open(my $f, '<', '/dev/vda')", ["read", "blk_file", "fixed_disk_device_t"]),
    (
        "write to the system's disk",
        "open(my $f, '+<', '/dev/vda')",
        ["read write", "blk_file", "fixed_disk_device_t"],
    ),
    ("write to the LUN as a disk", "open(my $f, '+<', 'DISK')", ["write", "blk_file", "etcd_lun_device_t"]),
    (
        "put something beside the socket",
        "symlink('/dev/vda', '/run/etcd-lun-hands/other')",
        ["write", "dir", "etcd_lun_hands_run_t"],
    ),
    ("load a kernel module", "init_module()", ["sys_module", "capability", "etcd_lun_t"]),
    ("connect to a web port", "connect_to(80)", ["create", "tcp_socket", "etcd_lun_t"]),
    // Of these the kernel asks no other right than that to an ioctl. A filesystem that has no such request says ENOTTY (25).
    (
        "set an attribute by a file's handle",
        "asks_kernel('/etc', 0x10000, 0x4048587b)",
        ["ioctl", "dir", "etc_t"],
    ),
    ("freeze a filesystem", "asks_kernel('/etc', 0x10000, 0xc0045877)", ["ioctl", "dir", "etc_t"]),
    ("shut a filesystem down", "asks_kernel('/etc', 0x10000, 0x8004587d)", ["ioctl", "dir", "etc_t"]),
    ("send a SCSI command", "asks_kernel('DISK', 0, 0x2285)", ["ioctl", "blk_file", "etcd_lun_device_t"]),
    (
        "tell systemd what its process is",
        "tells('/run/systemd/notify', qq(MAINPID=1))",
        ["write", "sock_file", "systemd_runtime_notify_t"],
    ),
    ("run a shell", "runs('/usr/bin/bash')", ["execute", "file", "shell_exec_t"]),
    ("run another program", "runs('/usr/bin/true')", ["execute", "file", "bin_t"]),
    ("end enforcement", "turn_off('/sys/fs/selinux/enforce')", ["setenforce", "security", "security_t"]),
    ("mount over /etc", "mount_on('/etc')", ["mounton", "dir", "etc_t"]),
    // The process belongs to another user. So the kernel denies the capability before it checks the right to
    // signal the domain.
    ("end etcd", "kill('TERM', pid_of('etcd')) == 1", ["kill", "capability", "etcd_lun_t"]),
];

/// What makes or changes a mount, tried in the sandbox of the service's unit. The kernel would begin with most of it before it asks
/// SELinux, and of some it would not ask.
const CALLS: &[(&str, &str)] = &[
    ("mount a filesystem", "mount_on('/run/etcd-lun')"),
    ("open a kind of filesystem", "opens('xfs')"),
    ("pick a mounted filesystem", "picks('/')"),
    ("change a mount", "changes('/run/etcd-lun')"),
    ("make a namespace", "syscall(272, 0x20000) == 0"),
];

/// What the hands of the service refuse. Each is a request, and a part of the answer.
const REFUSED: &[(&str, &str)] = &[
    (r#"{"scan":{"session":4711}}"#, "session 4711 is none of etcd-lun's"),
    (r#"{"set-timeout":{"session":4711,"seconds":1}}"#, "session 4711 is none of etcd-lun's"),
    (r#"{"forget":{"session":4711,"lun":1}}"#, "session 4711 is none of etcd-lun's"),
    (r#"{"remove":{"disk":"DISK"}}"#, "the system is not shutting down"),
    (r#"{"remove-other":{"disk":"DISK"}}"#, "or holds filesystem"),
    (r#"{"stop-queueing":{"map":"dm-0"}}"#, "the system is not shutting down"),
    (r#"{"rescan":{"disk":"../../class/block/vda"}}"#, "../../class/block/vda"),
    (r#"{"stage":{"disk":"vda"}}"#, "Permission denied"),
    (r#"{"settle":{"disk":"vda"}}"#, "Permission denied"),
    (r#"{"inspect":{"disk":"../vda"}}"#, "../vda"),
    (r#"{"stage":{"disk":"disk!by-label!etcd-lun"}}"#, "is not the kernel name of a disk"),
    (r#"{"announce":{"disk":".."}}"#, ".."),
    (r#"{"expose":{"disk":"vda"}}"#, "vda is not the LUN"),
    (
        r#"{"format":{"disk":"DISK","uuid":"0c0ffee0-0000-4000-8000-000000000000","label":"etcd-lun"}}"#,
        "the record says that the LUN's copy is authoritative",
    ),
    (
        r#"{"clear-unfinished":{"disk":"DISK","uuid":"0c0ffee0-0000-4000-8000-000000000000"}}"#,
        "the record says that the LUN's copy is authoritative",
    ),
    (r#""park""#, "is etcd.service and no static pod"),
    (r#""put-back""#, "is etcd.service and no static pod"),
    (r#"{"start-etcd":{"wait":false,"unit":"bed.service"}}"#, "the request has another form"),
    (r#"{"run":{"command":"/usr/bin/bash"}}"#, "the request has another form"),
    (r#"{"units":[{"known":"sshd.service"}]}"#, "none of the units that etcd-lun asks for"),
    ("", "the request has another form"),
];

/// Questions about units, which the hands answer: one, and as many as `health` asks about.
const ALLOWED: &[&str] = &[
    r#"{"units":["etcd"]}"#,
    r#"{"units":["etcd",{"known":"etcd-lun-hands.socket"},{"known":"etcd-lun-hands@state.service"},{"known":"etcd-lun-health.service"},{"known":"etcd-lun-health.timer"},{"known":"etcd-lun-lost.service"},{"known":"etcd-lun-path@state.target"},{"known":"etcd-lun-program-fetch.service"},{"known":"etcd-lun-program.service"},{"known":"etcd-lun-selinux.service"},{"known":"etcd-lun-shutdown.service"},{"known":"etcd-lun.service"},{"known":"kubelet-dependencies.target"},{"known":"crio.service"},{"known":"kubelet.service"},{"known":"multi-user.target"},{"known":"iscsid.service"},{"known":"multipathd.service"}]}"#,
];

/// Numbers of system calls on x86-64. The script uses no Perl module, because the domain need not be able to
/// read one.
const HELPERS: &str = r#"
$| = 1;
sub init_module { my $image = 'x' x 16; syscall(175, $image, 16, $image) == 0 }
sub mount_on { my ($what, $at, $kind, $data) = ('none', $_[0], 'tmpfs', ''); syscall(165, $what, $at, $kind, 0, $data) == 0 }
sub mount_lun { my ($what, $at, $data, $kind) = (@_, 'xfs'); syscall(165, $what, $at, $kind, 0, $data) == 0 }
sub opens { my ($kind) = @_; syscall(430, $kind, 0) >= 0 }
sub picks { my ($at) = @_; syscall(433, -100, $at, 0) >= 0 }
sub changes { my ($at, $how) = ($_[0], "\0" x 32); syscall(442, -100, $at, 0, $how, 32) == 0 }
sub turn_off { open(F, '+<', $_[0]) and defined(syswrite(F, '0')) }
sub runs { my $pid = fork(); if (!$pid) { exec { $_[0] } $_[0], '--version'; exit(126) } waitpid($pid, 0); $? >> 8 != 126 }
sub connect_to { socket(S, 2, 1, 0) and connect(S, pack('S n C4 x8', 2, $_[0], TARGET)) }
sub connects { socket(S, 1, 5, 0) and connect(S, pack('S a108', 1, $_[0])) }
sub tells { socket(S, 1, 2, 0) and defined(send(S, $_[1], 0, pack('S a108', 1, $_[0]))) }
sub asks_kernel { my $b = "\0" x 256; sysopen(F, $_[0], $_[1]) and (defined(ioctl(F, $_[2], $b)) or $! != 13) }
sub enters { open(NS, '<', $_[0]) and syscall(308, fileno(NS), 0) == 0 }
sub hands {
    socket(H, 1, 1, 0) and connect(H, pack('S a108', 1, '/run/etcd-lun-hands/socket')) or return "no connection: $!";
    syswrite(H, "$_[0]\n");
    shutdown(H, 1);
    my $said = '';
    while (sysread(H, my $got, 65536)) { $said .= $got }
    close(H);
    $said
}
# What systemd says of units, and how long the answer took.
sub states {
    my ($begin, $end) = ("\0" x 16, "\0" x 16);
    syscall(228, 1, $begin);
    my $said = hands($_[0]);
    syscall(228, 1, $end);
    my ($from, $to) = map { my ($s, $n) = unpack('q q', $_); $s * 1000 + $n / 1e6 } $begin, $end;
    sprintf('%d ms: %s', $to - $from, $said)
}
sub pid_of {
    my ($name) = @_;
    opendir(my $proc, '/proc');
    for my $pid (grep { /^[0-9]+$/ } readdir $proc) {
        open(my $comm, '<', "/proc/$pid/comm") or next;
        return $pid if <$comm> eq "$name\n";
    }
    0
}
"#;

pub(super) fn is_denied(node: &Node) -> Result<()> {
    let target = Path::A.target().to_string().replace('.', ", ");
    let disk = node.ok("readlink -f /dev/disk/by-label/etcd-lun")?;
    let mut script = HELPERS.replace("TARGET", &target);
    for (what, act, _) in ACTS {
        let act = act.replace("DISK", disk.trim());
        script += &format!("print((({act}) ? 'WORKED' : 'denied'), qq( {what}: $!\\n));\n");
    }
    let name = disk.trim().trim_start_matches("/dev/");
    for (number, (request, _)) in REFUSED.iter().enumerate() {
        script +=
            &format!("print('hands {number}: ', hands('{}'), qq(\\n));\n", request.replace("DISK", name));
    }
    for (number, request) in ALLOWED.iter().enumerate() {
        script += &format!("print('states {number}: ', states('{request}'), qq(\\n));\n");
    }
    node.put("/etc/etcd-lun/bed-misuse.pl", 0o644, script.as_bytes())?;
    // Perl gets the label with which PID 1 can start it in the domain. It stands in for an agent that an
    // attacker controls.
    node.ok("cp /usr/bin/perl /usr/local/bin/bed-misuse; chcon -t etcd_lun_exec_t /usr/local/bin/bed-misuse
         mkdir --parents /etc/kubernetes/manifests; restorecon -R /etc/kubernetes")?;
    let before = denials(node)?.len();
    let run = node.run(
        "systemd-run --quiet --wait --unit=bed-misuse --property=SELinuxContext=system_u:system_r:etcd_lun_t:s0 \
         /usr/local/bin/bed-misuse /etc/etcd-lun/bed-misuse.pl; journalctl --sync; journalctl -b --no-pager -o cat -u bed-misuse",
    )?;
    let denied = denials(node)?.split_off(before);
    for (what, _, [permission, class, type_]) in ACTS {
        // The journal leaves out the space behind the colon if no error of a system call follows.
        if !run.stdout.lines().any(|line| line.starts_with(&format!("denied {what}:"))) {
            bail!("the domain can {what}: {run}");
        }
        let told = |line: &String| {
            line.contains(&format!("denied  {{ {permission} }}"))
                && line.contains(&format!("tclass={class} "))
                && line.contains(&format!(":{type_}"))
        };
        if !denied.iter().any(told) {
            bail!(
                "the attempt to {what} was denied, but the denial was not audited as {permission} {class} {type_}: {run}"
            );
        }
    }
    for (number, (request, why)) in REFUSED.iter().enumerate() {
        let begins = format!("hands {number}: {{\"Err\":{{\"failed\":");
        if !run.stdout.lines().any(|line| line.starts_with(&begins) && line.contains(why)) {
            bail!("the hands have not refused {request} because `{why}`: {run}");
        }
    }
    for (number, request) in ALLOWED.iter().enumerate() {
        let begins = format!("states {number}: ");
        let said = run.stdout.lines().find_map(|line| line.strip_prefix(&begins));
        match said.and_then(|said| said.split_once(" ms: ")) {
            Some((took, said)) if said.contains(r#""active_state":"active""#) && !said.contains("Err") => {
                println!("        the hands have said in {took} ms what systemd knows of {request}");
            }
            _ => bail!("the hands should say what systemd knows of {request}: {run}"),
        }
    }
    println!(
        "        {} forbidden actions, each denied and audited; {} requests that the hands refuse",
        ACTS.len(),
        REFUSED.len()
    );
    let mut script = HELPERS.to_owned();
    for (what, call) in CALLS {
        script += &format!("print((({call}) ? 'WORKED' : 'denied'), qq( {what}: $!\\n));\n");
    }
    node.put("/etc/etcd-lun/bed-misuse.pl", 0o644, script.as_bytes())?;
    let run = node.run("sed 's|^ExecStart=.*|ExecStart=/usr/local/bin/bed-misuse /etc/etcd-lun/bed-misuse.pl|; /^Restart=/d; /^Before=/d' \
             /etc/systemd/system/etcd-lun.service >/run/systemd/system/bed-sandbox.service
         systemctl daemon-reload; systemctl start bed-sandbox; journalctl --sync; journalctl -b --no-pager -o cat -u bed-sandbox")?;
    for (what, _) in CALLS {
        // From the sandbox, and not from SELinux, whose word is `Permission denied`.
        if !run.stdout.lines().any(|line| line == format!("denied {what}: Operation not permitted")) {
            bail!("the service's unit lets it {what}: {run}");
        }
    }
    println!("        {} calls about mounts, which the unit's sandbox refuses", CALLS.len());
    node.ok("rm /run/systemd/system/bed-sandbox.service; systemctl daemon-reload")?;
    node.ok("rm /usr/local/bin/bed-misuse /etc/etcd-lun/bed-misuse.pl /etc/iscsi/bed-misuse").map(drop)
}
