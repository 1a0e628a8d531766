//! What a program does in the domain that the agent would never do: each act is denied, and each denial audited.

use anyhow::{Result, bail};

use super::audit::denials;
use crate::net::Path;
use crate::node::Node;

/// What is tried, as Perl whose value is true when it worked; and what the denial says: permission, class, and type.
const ACTS: &[(&str, &str, [&str; 3])] = &[
    ("read /etc/shadow", "open(my $f, '<', '/etc/shadow')", ["read", "file", "shadow_t"]),
    ("write to /etc", "open(my $f, '>', '/etc/bed-misuse')", ["add_name", "dir", "etc_t"]),
    ("write to /var/lib", "open(my $f, '>', '/var/lib/bed-misuse')", ["create", "file", "var_lib_t"]),
    (
        "write a unit",
        "open(my $f, '>', '/etc/systemd/system/bed-misuse.service')",
        ["add_name", "dir", "systemd_unit_t"],
    ),
    (
        "change its own program",
        "open(my $f, '>>', '/usr/local/bin/etcd-lun')",
        ["append", "file", "etcd_lun_exec_t"],
    ),
    ("read the system's disk", "open(my $f, '<', '/dev/vda')", ["read", "blk_file", "fixed_disk_device_t"]),
    (
        "write to the system's disk",
        "open(my $f, '+<', '/dev/vda')",
        ["read write", "blk_file", "fixed_disk_device_t"],
    ),
    // init_module(2).
    ("load a kernel module", "syscall(175, '', 0, '') == 0", ["sys_module", "capability", "etcd_lun_t"]),
    ("connect to a web port", "connect_to(80)", ["name_connect", "tcp_socket", "http_port_t"]),
    ("run a shell", "exec_works('/bin/sh')", ["execute", "file", "shell_exec_t"]),
    ("run another program", "exec_works('/usr/bin/true')", ["execute_no_trans", "file", "bin_t"]),
    ("end enforcement", "write_to('/sys/fs/selinux/enforce', '0')", ["setenforce", "security", "security_t"]),
    // mount(2).
    ("mount over /etc", "syscall(165, 'none', '/etc', 'tmpfs', 0, '') == 0", ["mounton", "dir", "etc_t"]),
    ("end PID 1's children", "kill('TERM', service_of('etcd')) == 1", ["signal", "process", ""]),
];

/// Perl, in which the acts are written; it is no part of a node of anybody's, so it has no label of ours by itself.
const HELPERS: &str = r#"
sub write_to { my ($path, $text) = @_; open(my $f, '>', $path) and defined(syswrite($f, $text)) }
sub exec_works { my $pid = fork(); if (!$pid) { exec { $_[0] } $_[0], '--version'; exit(126) } waitpid($pid, 0); $? >> 8 != 126 }
sub connect_to { use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0) and connect($s, sockaddr_in($_[0], inet_aton('TARGET'))) }
sub service_of { for my $d (glob '/proc/[0-9]*') { open(my $f, '<', "$d/comm") or next; my $c = <$f>; return substr($d, 6) if $c eq "$_[0]\n" } 0 }
"#;

pub(super) fn is_denied(node: &Node) -> Result<()> {
    let mut script = HELPERS.replace("TARGET", &Path::A.target().to_string());
    for (what, act, _) in ACTS {
        script += &format!("print((({act}) ? 'WORKED' : 'denied'), ' {what}: ', $!, qq(\\n));\n");
    }
    node.put("/usr/local/bin/bed-misuse.pl", 0o755, script.as_bytes())?;
    // Perl gets the label that lets PID 1 start it in the domain: a stand-in for an agent that was taken over.
    node.ok("cp /usr/bin/perl /usr/local/bin/bed-misuse; chcon -t etcd_lun_exec_t /usr/local/bin/bed-misuse
         chcon -t etcd_lun_conf_t /usr/local/bin/bed-misuse.pl")?;
    let before = denials(node)?.len();
    let run = node.run(
        "systemd-run --quiet --wait --unit=bed-misuse --property=SELinuxContext=system_u:system_r:etcd_lun_t:s0 \
         /usr/local/bin/bed-misuse /usr/local/bin/bed-misuse.pl; journalctl -b --no-pager -o cat -u bed-misuse",
    )?;
    let denied = denials(node)?.split_off(before);
    for (what, _, [permission, class, type_]) in ACTS {
        if !run.stdout.lines().any(|line| line.starts_with(&format!("denied {what}: "))) {
            bail!("the domain can {what}: {run}");
        }
        let told = |line: &&String| {
            line.contains(&format!("denied  {{ {permission} }}"))
                && line.contains(&format!("tclass={class} "))
                && line.contains(&format!(":{type_}"))
        };
        if !denied.iter().any(|line| told(&line)) {
            bail!(
                "to {what} was denied, and not audited as {permission} {class} {type_}: {run}\n{}",
                denied.join("\n")
            );
        }
    }
    println!("        {} acts of misuse, each denied and audited", ACTS.len());
    node.ok("rm /usr/local/bin/bed-misuse /usr/local/bin/bed-misuse.pl").map(drop)
}
