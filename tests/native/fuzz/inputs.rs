//! The inputs. For each: the parser, some correct texts, and what must hold for every text.

use crate::Input;
use config::{Config, Source};
use host::{
    ExecError, Host, Invocation, Output, Root, Runner, Tool,
    block::{self, Content},
    filelock, iscsi, mountinfo, udev,
    xfs::Superblock,
};
use node::authority::{Record, Stamp};
use std::{
    cell::RefCell,
    fmt, fs,
    os::unix::fs::FileExt,
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};
use terms::Portal;

fn texts(corpus: &[&str]) -> Vec<Vec<u8>> {
    corpus.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Parsers of text get only UTF-8. Other bytes are refused before them.
fn utf8(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok()
}

/// A directory that stands in for a machine. It is removed at the end.
struct Machine {
    base: PathBuf,
    host: Host,
}

impl Machine {
    fn new(runner: impl Runner + 'static) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // In memory if possible, because the files are written thousands of times.
        let memory = PathBuf::from("/dev/shm");
        let dir = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let base = dir.join(format!("etcd-lun-fuzz-{}-{number}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        Self { host: Host::fixture(Root::new(&base), Box::new(runner)).unwrap(), base }
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let full = self.base.join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, bytes).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).unwrap();
    }
}

/// A stand-in for every tool. It prints what the test tells it to print.
#[derive(Clone, Default)]
struct Says(Arc<Mutex<Output>>);

impl fmt::Debug for Says {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Says")
    }
}

impl Says {
    fn next(&self, code: i32, stdout: &[u8]) {
        let stdout = String::from_utf8_lossy(stdout).into_owned();
        *self.0.lock().unwrap() = Output { code, stdout, ..Output::default() };
    }
}

impl Runner for Says {
    fn run(&self, _: &Invocation, _: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn has(&self, _: Tool) -> bool {
        true
    }
}

pub(super) fn config() -> Input {
    let whole = r#"[target]
iqn = "iqn.2024-02.com.example:etcd"
portals = ["192.168.10.5:3260", "[fd80::1]:860", "san-1"]
discovery = "static"
replacement_timeout = "2h"
noop_interval = "5s"
[target.chap]
username = "initiator1"
password = "Secret-of-fuzz-77"
[etcd]
data_dir = "/var/lib/etcd"
runtime = "systemd"
unit = "etcd.service"
[lun]
min_size = "8GiB"
mount_options = ["prjquota"]
label = "etcd-lun"
[boot]
gate = "kubelet"
attach_timeout = "5min"
[[node]]
hostname = "master-0"
initiator = "iqn.1994-05.com.redhat:master0"
lun = 1
wwid = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4"
"#;
    let short = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"10.0.0.1\"]\n[etcd]\nruntime = \"static-pod\"\n[[node]]\nmachine_id = \"0123456789abcdef0123456789abcdef\"\ninitiator = \"iqn.1994-05.com.redhat:a\"\nlun = 0\n";
    Input {
        name: "config",
        corpus: texts(&[whole, short]),
        holds: Box::new(|text| {
            let Some(text) = utf8(text) else { return false };
            let source = Source { path: "config.toml".into(), text: text.to_owned() };
            match Config::load(&[source], "0123456789abcdef0123456789abcdef", "master-0") {
                Ok(config) => {
                    // A config that is accepted can be rendered into units, and its secrets stay hidden.
                    let _ = unit::for_config(&config);
                    assert!(!(format!("{config:?}").contains(SECRET) && is_secret_in(text)));
                    true
                }
                Err(error) => {
                    let is_shown = error.to_string().contains(SECRET);
                    assert!(!(is_shown && is_secret_in(text)), "{error}");
                    false
                }
            }
        }),
    }
}

/// The secret of the config.
const SECRET: &str = "Secret-of-fuzz-77";

/// Returns true if the secret stands where a secret belongs. A mutation can make it the value of another key, which an error quotes.
fn is_secret_in(text: &str) -> bool {
    text.match_indices(SECRET).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let table = before.lines().rfind(|line| line.trim_start().starts_with('['));
        let line = before.lines().last().unwrap_or_default();
        line.contains("password")
            || table.is_some_and(|table| table.contains("chap")) && !line.contains("username")
    })
}

const RECORDS: [&str; 4] = [
    include_str!("../formats/record-1-lun.json"),
    include_str!("../formats/record-4-lun-announcing.json"),
    include_str!("../formats/record-4-local-rolled-back.json"),
    "{\"version\":1,\"authority\":\"local\",\"generation\":7,\"uuid\":\"0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b\",\"wwid\":\"naa.60014051d8e4a3bd5a94f3f9a1a2b3c4\",\"data_dir\":\"/var/lib/etcd\",\"activations\":0}",
];

pub(super) fn record() -> Input {
    Input {
        name: "record",
        corpus: texts(&RECORDS),
        holds: Box::new(|text| {
            let Some(Ok(record)) = utf8(text).map(Record::parse) else { return false };
            assert_eq!(Record::parse(&record.to_text().unwrap()).unwrap(), record);
            true
        }),
    }
}

pub(super) fn stamp() -> Input {
    Input {
        name: "stamp",
        corpus: texts(&[
            include_str!("../formats/stamp-1.json"),
            include_str!("../formats/stamp-2-released.json"),
        ]),
        holds: Box::new(|text| {
            let Some(Ok(stamp)) = utf8(text).map(Stamp::parse) else { return false };
            assert_eq!(Stamp::parse(&stamp.to_text().unwrap()).unwrap(), stamp);
            true
        }),
    }
}

/// The parser must not lose a mount: etcd-lun writes to a disk that it does not see mounted.
pub(super) fn mountinfo() -> Input {
    let machine = Machine::new(Says::default());
    Input {
        name: "mountinfo",
        corpus: texts(&[
            "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n23 22 0:21 / /proc rw - proc proc rw\n64 22 8:16 / /var/lib/etcd rw,relatime shared:9 master:2 - xfs /dev/sdb rw,prjquota\n",
            "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
        ]),
        holds: Box::new(move |text| {
            machine.write("proc/1/mountinfo", text);
            let Ok(mounts) = mountinfo::of_pid1(&machine.host) else { return false };
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
            assert_eq!(mounts.len(), lines);
            true
        }),
    }
}

pub(super) fn locks() -> Input {
    let machine = Machine::new(Says::default());
    machine.write("db", b"");
    Input {
        name: "locks",
        corpus: texts(&[
            "1: POSIX  ADVISORY  WRITE 3568 fe:00:47531 0 EOF\n2: FLOCK  ADVISORY  WRITE 517 00:16:1139 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 702 00:16:1139 0 EOF\n3: OFDLCK ADVISORY  READ -1 fe:00:47531 128 128\n",
        ]),
        holds: Box::new(move |text| {
            machine.write("proc/locks", text);
            filelock::holders(&machine.host, "/db").is_ok()
        }),
    }
}

pub(super) fn udev() -> Input {
    let machine = Machine::new(Says::default());
    Input {
        name: "udev",
        corpus: texts(&[
            "S:disk/by-label/etcd-lun\nS:disk/by-id/wwn-0x6001405\nI:18344723\nE:ID_FS_LABEL=etcd-lun\nE:ID_FS_TYPE=xfs\nG:systemd\nV:1\n",
            "I:7\nE:DM_MULTIPATH_DEVICE_PATH=1\n",
        ]),
        holds: Box::new(move |text| {
            machine.write("run/udev/data/b8:16", text);
            udev::record(&machine.host, 8, 16).is_ok_and(|record| record.is_some())
        }),
    }
}

/// A LUN is blank only if blkid finds nothing and every byte is zero. One of the two is not enough.
pub(super) fn blkid() -> Input {
    const SIZE: u64 = 8 << 20;
    let says = Says::default();
    let machine = Machine::new(says.clone());
    machine.write("dev/img", b"");
    let image = fs::File::options().read(true).write(true).open(machine.base.join("dev/img")).unwrap();
    image.set_len(SIZE).unwrap();
    let turn = Rc::new(RefCell::new(0u64));
    Input {
        name: "blkid",
        corpus: texts(&[
            "DEVNAME=/dev/img\nLABEL=etcd-lun\nUUID=0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b\nBLOCK_SIZE=512\nTYPE=xfs\nUSAGE=filesystem\n",
            "DEVNAME=/dev/img\nPTUUID=1b2c\nPTTYPE=dos\n",
            "DEVNAME=/dev/img\nTYPE=mpath_member\nUSAGE=raid\n",
        ]),
        holds: Box::new(move |text| {
            let mut turn = turn.borrow_mut();
            *turn += 1;
            let code = [0, 0, 2, 8, 1][(*turn % 5) as usize];
            // Writes one byte somewhere in the first or the last MiB, or none.
            let at = match *turn % 3 {
                0 => None,
                1 => Some(*turn * 7919 % (1 << 20)),
                _ => Some(SIZE - 1 - *turn * 7919 % (1 << 20)),
            };
            let put = |byte| at.into_iter().for_each(|at| image.write_all_at(&[byte], at).unwrap());
            put(0x5a);
            says.next(code, text);
            let found = block::probe(&machine.host, "img", None);
            put(0);
            if matches!(found, Ok(Content::Blank)) {
                assert_eq!(at, None, "a byte at {at:?} was not seen");
                let said = String::from_utf8_lossy(text);
                let names = |line: &str| line.starts_with("DEVNAME=") || line.starts_with("PART_ENTRY_");
                let silent = said.lines().map(str::trim).all(|line| line.is_empty() || names(line));
                assert!(code == 2 || (code == 0 && silent), "blkid ended with {code} and said {said:?}");
            }
            true
        }),
    }
}

pub(super) fn superblock() -> Input {
    let mut sector = vec![0u8; 512];
    let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"XFSB");
    put(4, &4096u32.to_be_bytes());
    put(8, &262_144u64.to_be_bytes());
    put(32, &[7; 16]);
    put(84, &65_536u32.to_be_bytes());
    put(88, &4u32.to_be_bytes());
    put(100, &0xb4a5u16.to_be_bytes());
    put(102, &512u16.to_be_bytes());
    put(104, &512u16.to_be_bytes());
    put(106, &8u16.to_be_bytes());
    put(108, b"etcd-lun");
    put(120, &[12, 9, 9, 3, 16]);
    Input {
        name: "superblock",
        corpus: vec![sector],
        holds: Box::new(|sector| {
            let found = Superblock::parse(sector);
            assert!(found.is_none() || sector.starts_with(b"XFSB"));
            found.is_some()
        }),
    }
}

pub(super) fn iscsi_record() -> Input {
    let says = Says::default();
    let machine = Machine::new(says.clone());
    let (target, portal) = ("iqn.2024-02.com.example:etcd".parse().unwrap(), "10.77.0.1".parse().unwrap());
    Input {
        name: "iscsiadm, a record",
        corpus: texts(&[
            "# BEGIN RECORD 2.1.9\nnode.name = iqn.2024-02.com.example:etcd\nnode.tpgt = 1\nnode.startup = manual\niface.hwaddress = <empty>\nnode.session.auth.password = ********\n# END RECORD\n",
            "# BEGIN RECORD 2.1.9\nnode.tpgt = 1\n# END RECORD\n# BEGIN RECORD 2.1.9\nnode.tpgt = 2\n# END RECORD\n",
        ]),
        holds: Box::new(move |text| {
            says.next(0, text);
            iscsi::record(&machine.host, &target, &portal).is_ok_and(|record| record.is_some())
        }),
    }
}

pub(super) fn discovery() -> Input {
    Input {
        name: "iscsiadm, a discovery",
        corpus: texts(&[
            "10.77.0.1:3260,1 iqn.2024-02.com.example:etcd\n[fd80::1]:860,-1 iqn.2024-02.com.example:b\n",
            "[san-1]:3260,4294967295 eui.02004567a425678d\n",
        ]),
        holds: Box::new(|text| {
            let Some(found) = utf8(text).map(iscsi::parse_discovered) else { return false };
            for one in &found.targets {
                // The printed portal parses to the same portal.
                assert!(
                    one.portal.as_ref().is_none_or(|at| at.to_string().parse::<Portal>().as_ref() == Ok(at))
                );
                assert!(!one.target.contains(char::is_whitespace), "{one:?}");
            }
            assert!(found.skipped.iter().all(|line| !line.contains(char::is_control)), "{found:?}");
            !found.targets.is_empty()
        }),
    }
}

/// The attributes of a session. The text has one line for each.
pub(super) fn sessions() -> Input {
    const ATTRIBUTES: [&str; 7] =
        ["targetname", "state", "initiatorname", "ifacename", "target_id", "tpgt", "recovery_tmo"];
    let machine = Machine::new(Says::default());
    let dir = "sys/class/iscsi_session/session3";
    fs::create_dir_all(machine.base.join("sys/devices/platform/host2/session3")).unwrap();
    machine.write(&format!("{dir}/state"), b"");
    std::os::unix::fs::symlink(
        machine.base.join("sys/devices/platform/host2/session3"),
        machine.base.join(dir).join("device"),
    )
    .unwrap();
    Input {
        name: "sessions",
        corpus: texts(&[
            "iqn.2024-02.com.example:etcd\nLOGGED_IN\niqn.1994-05.com.redhat:a\netcd-lun\n0\n1\n3600",
        ]),
        holds: Box::new(move |text| {
            let mut parts = text.splitn(ATTRIBUTES.len(), |byte| *byte == b'\n');
            for attribute in ATTRIBUTES {
                machine.write(&format!("{dir}/{attribute}"), parts.next().unwrap_or_default());
            }
            match iscsi::sessions(&machine.host) {
                Ok(sessions) => {
                    // A session is connected only if the kernel reports exactly this word.
                    let says = text.split(|byte| *byte == b'\n').any(|line| line == b"LOGGED_IN");
                    assert!(sessions.iter().all(|session| !session.is_logged_in() || says));
                    !sessions.is_empty()
                }
                Err(_) => false,
            }
        }),
    }
}
