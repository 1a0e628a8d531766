//! Values of a config that cannot be.

use super::{
    CHECK, Config, Cure, Row,
    config::{but, text},
};

/// A config that is right, or worth a warning.
const fn accepted(
    kind: &'static str,
    changes: &'static [(&'static str, &'static str)],
    said: &'static [&'static str],
) -> Row {
    Row { kind, typed: CHECK, config: Config::But(changes), secret: None, code: 0, said, cure: Cure::Nothing }
}

pub const ROWS: &[Row] = &[
    but(
        "typographic quotes",
        &[("\"systemd\"", "“systemd”")],
        &["line 9", "found the typographic quote “: write straight quotes"],
        &[("“systemd”", "\"systemd\"")],
    ),
    but(
        "a space from a web page",
        &[("lun = 1", "lun =\u{a0}1")],
        &["line 13", "found the character U+00A0, which is no plain space"],
        &[("\u{a0}", " ")],
    ),
    but(
        "a text without quotes",
        &[("\"iqn.2024-02.com.example:etcd\"", "iqn.2024-02.com.example:etcd")],
        &["line 3", "this value is not TOML: write a text in straight quotes, as in iqn = "],
        &[("= iqn.2024-02.com.example:etcd", "= \"iqn.2024-02.com.example:etcd\"")],
    ),
    but(
        "an item without quotes",
        &[("\"192.168.10.5:3260\"", "192.168.10.5")],
        &["line 4", "write a text in straight quotes"],
        &[("192.168.10.5", "\"192.168.10.5\"")],
    ),
    but(
        "a variable of the shell",
        &[("\"systemd\"", "$RUNTIME")],
        &["line 9", "write a text in straight quotes"],
        &[("$RUNTIME", "\"systemd\"")],
    ),
    but(
        "no value",
        &[("lun = 1", "lun =")],
        &["line 13", "write a value after `=`"],
        &[("lun =", "lun = 1")],
    ),
    but(
        "two equals signs",
        &[("lun = 1", "lun == 1")],
        &["line 13", "write one `=` between key and value"],
        &[("==", "=")],
    ),
    but(
        "a remark after //",
        &[("lun = 1", "lun = 1 // the first")],
        &["line 13", "and a remark after #"],
        &[("//", "#")],
    ),
    but(
        "a number with a zero in front",
        &[("lun = 1", "lun = 01")],
        &["line 13", "write the number without a zero in front"],
        &[("01", "1")],
    ),
    but(
        "a number in quotes",
        &[("lun = 1", "lun = \"1\"")],
        &["line 13", "`node.lun`: found the text \"1\"", "such as 1, without quotes"],
        &[("\"1\"", "1")],
    ),
    but(
        "a negative number",
        &[("lun = 1", "lun = -1")],
        &["`node.lun`: found the number `-1`", "from 0 to 16777215"],
        &[("-1\n", "1\n")],
    ),
    but(
        "\"yes\" for true",
        &[("[target.chap]", "multipath = \"yes\"\n[target.chap]")],
        &["`target.multipath`: found the text \"yes\", expected true or false, without quotes"],
        &[("\"yes\"", "false")],
    ),
    but(
        "yes for true",
        &[("[target.chap]", "safe_logout = yes\n[target.chap]")],
        &["line 5", "write true or false, in lower case and without quotes"],
        &[("yes", "true")],
    ),
    but(
        "True for true",
        &[("[target.chap]", "safe_logout = True\n[target.chap]")],
        &["line 5", "write true or false, in lower case and without quotes"],
        &[("True", "true")],
    ),
    // Sizes and times.
    but(
        "Kubernetes' unit of sizes",
        &[("[etcd]", "[lun]\nmin_size = \"8Gi\"\n[etcd]")],
        &["line 9", "`lun.min_size`: `8Gi` is not a size", "did you mean `8GiB`?"],
        &[("8Gi", "8GiB")],
    ),
    but(
        "lsblk's unit of sizes",
        &[("[etcd]", "[lun]\nmin_size = \"8G\"\n[etcd]")],
        &["did you mean `8GiB`?"],
        &[("8G", "8GiB")],
    ),
    but(
        "a size without a unit",
        &[("[etcd]", "[lun]\nmin_size = 8\n[etcd]")],
        &["found the number `8`, expected a size with a unit, such as \"8GiB\""],
        &[("= 8", "= \"8GiB\"")],
    ),
    but(
        "a size below XFS's",
        &[("[etcd]", "[lun]\nmin_size = \"1MiB\"\n[etcd]")],
        &["`lun.min_size` in ", "line 9: 1MiB, expected at least 300MiB"],
        &[("1MiB", "300MiB")],
    ),
    but(
        "Go's minutes",
        &[("[etcd]", "[boot]\nattach_timeout = \"5m\"\n[etcd]")],
        &["`boot.attach_timeout`: `5m` is not a duration", "did you mean `5min`?"],
        &[("5m", "5min")],
    ),
    but(
        "Go's hours and minutes",
        &[("[etcd]", "[boot]\nattach_timeout = \"1h30m\"\n[etcd]")],
        &["did you mean `90min`?"],
        &[("1h30m", "90min")],
    ),
    but(
        "a time of zero",
        &[("[etcd]", "[boot]\nattach_timeout = \"0s\"\n[etcd]")],
        &["`boot.attach_timeout` in ", "line 9: 0s, expected a time, such as \"5min\""],
        &[("0s", "5min")],
    ),
    but(
        "a time without an end",
        &[("[etcd]", "[boot]\nattach_timeout = \"999999999999h\"\n[etcd]")],
        &["`999999999999h` is not a duration of ten years at most"],
        &[("999999999999h", "1h")],
    ),
    but(
        "a time without a unit",
        &[("[etcd]", "[boot]\nattach_timeout = \"300\"\n[etcd]")],
        &["`300` is not a duration with a unit, such as \"5min\""],
        &[("300", "300s")],
    ),
    // Portals.
    but(
        "a portal that is every address",
        &[("192.168.10.5:3260", "0.0.0.0")],
        &["`0.0.0.0` is not a portal of a target", "write the one that the nodes reach"],
        &[("0.0.0.0", "192.168.10.5")],
    ),
    accepted(
        "a portal that is the node itself",
        &[("192.168.10.5:3260", "127.0.0.1")],
        &["warning: `target.portals`: 127.0.0.1:3260 is the node itself"],
    ),
    but(
        "two portals in one text",
        &[("192.168.10.5:3260", "192.168.10.5, 192.168.11.5")],
        &["is not one portal: write each in quotes of its own"],
        &[("10.5, 192", "10.5\", \"192")],
    ),
    but(
        "portals without a list",
        &[("[\"192.168.10.5:3260\"]", "\"192.168.10.5\"")],
        &["expected a list, such as [\"192.168.10.5\"]"],
        &[("\"192.168.10.5\"", "[\"192.168.10.5\"]")],
    ),
    but(
        "a portal as a URL",
        &[("192.168.10.5:3260", "iscsi://192.168.10.5")],
        &["`iscsi://192.168.10.5` is not a portal, such as \"192.168.10.5\""],
        &[("iscsi://", "")],
    ),
    but(
        "a portal twice",
        &[("\"192.168.10.5:3260\"", "\"192.168.10.5:3260\", \"192.168.10.5\"")],
        &["`target.portals` in ", "listed twice"],
        &[(", \"192.168.10.5\"", "")],
    ),
    // Names.
    accepted(
        "a target's name with capitals",
        &[("iqn.2024-02.com.example:etcd", "iqn.2000-01.com.synology:DS923.Target-1")],
        &["somebody"],
    ),
    accepted(
        "a target's name in capitals",
        &[("iqn.2024-02.com.example:etcd", "EUI.02004567A425678D")],
        &["somebody"],
    ),
    but(
        "an initiator's name with capitals",
        &[("redhat:master0", "redhat:Master0")],
        &["`node.initiator`: ", "write it in lower case"],
        &[("redhat:Master0", "redhat:master0")],
    ),
    but(
        "the line of initiatorname.iscsi",
        &[("\"iqn.1994-05", "\"InitiatorName=iqn.1994-05")],
        &["did you mean `iqn.1994-05.com.redhat:master0`?"],
        &[("InitiatorName=", "")],
    ),
    but(
        "a target's name for the initiator's",
        &[("iqn.1994-05.com.redhat:master0", "iqn.2024-02.com.example:etcd")],
        &["`node.initiator` in ", "iqn.2024-02.com.example:etcd is the target's name"],
        &[("initiator = \"iqn.2024-02.com.example:etcd\"", "initiator = \"iqn.1994-05.com.redhat:m\"")],
    ),
    but(
        "a host as a URL",
        &[("\"somebody\"", "\"https://somebody\"")],
        &["`node.hostname`: `https://somebody` is not a host name"],
        &[("https://", "")],
    ),
    but(
        "a machine id as a UUID",
        &[("hostname = \"somebody\"", "machine_id = \"01234567-89ab-cdef-0123-456789abcdef\"")],
        &["`node.machine_id`: ", "32 hex digits, as in /etc/machine-id"],
        &[("01234567-89ab-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef")],
    ),
    but(
        "a WWID as a path",
        &[("lun = 1", "wwid = \"/dev/disk/by-id/wwn-0x60014050000000000000000000000002\"")],
        &["`node.wwid`: ", "is not a WWID, such as \"naa.60014051"],
        &[("/dev/disk/by-id/wwn-0x", "naa.")],
    ),
    but(
        "another runtime",
        &[("\"systemd\"", "\"docker\"")],
        &["`etcd.runtime`: unknown value `docker`, expected `systemd` or `static-pod`"],
        &[("docker", "static-pod")],
    ),
    but(
        "a control character in a value",
        &[("\"systemd\"", "\"\\u001b[31msystemd\"")],
        &["`etcd.runtime`: unknown value `\\u{1b}[31msystemd`"],
        &[("\\u001b[31m", "")],
    ),
    // Paths.
    but(
        "a relative path",
        &[("runtime =", "data_dir = \"etcd\"\nruntime =")],
        &["`etcd.data_dir`: `etcd` is not an absolute path", "such as \"/var/lib/etcd\""],
        &[("\"etcd\"", "\"/var/lib/etcd\"")],
    ),
    but(
        "the directory in the data directory",
        &[("runtime =", "data_dir = \"/var/lib/etcd/member\"\nruntime =")],
        &["/var/lib/etcd/member, expected the directory above it, which etcd has as --data-dir"],
        &[("/member", "")],
    ),
    but(
        "a data directory of the kernel",
        &[("runtime =", "data_dir = \"/dev/shm/etcd\"\nruntime =")],
        &["/dev/shm/etcd, expected a directory on a disk, such as \"/var/lib/etcd\""],
        &[("/dev/shm/etcd", "/var/lib/etcd")],
    ),
    text(
        "a map of multipath as a device",
        Config::Text("[device]\npath = \"/dev/mapper/mpatha\"\n[etcd]\nruntime = \"static-pod\"\n"),
        &[
            "line 2",
            "`device.path`: `/dev/mapper/mpatha` is not a link to a whole disk",
            "`ls -l /dev/disk/by-id` on the node lists the links, and that of a multipath map begins with dm-uuid-mpath-",
        ],
        Cure::Write(&[(
            "/dev/mapper/mpatha",
            "/dev/disk/by-id/dm-uuid-mpath-360014051d8e4a3bd5a94f3f9a1a2b3c4",
        )]),
    ),
    text(
        "the kernel's name of a disk",
        Config::Text("[device]\npath = \"/dev/sdb\"\n[etcd]\nruntime = \"static-pod\"\n"),
        &["line 2", "`/dev/sdb` is not a link to a whole disk", "change from boot to boot"],
        Cure::Write(&[("/dev/sdb", "/dev/disk/by-id/virtio-etcd0")]),
    ),
];
