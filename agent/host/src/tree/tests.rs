use super::*;
use crate::Interrupt;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime},
};
use terms::{ContentHasher, Hasher, block_hash};

/// Two directories that are removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("etcd-lun-tree-{}-{number}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        Self(base)
    }

    /// A tree like etcd's, with something for every field of a record. It is the same each time.
    fn tree(&self, name: &str) -> PathBuf {
        let root = self.0.join(name);
        fs::create_dir_all(root.join("member/snap")).unwrap();
        fs::create_dir_all(root.join("member/wal")).unwrap();
        fs::create_dir_all(root.join("empty")).unwrap();
        // Longer than the buffer, and not a multiple of its size.
        let content: Vec<u8> = (0..3 * CHUNK / 2 + 7).map(|at| (at % 251) as u8).collect();
        fs::write(root.join("member/snap/db"), content).unwrap();
        fs::write(root.join("member/wal/0.wal"), b"entries").unwrap();
        fs::write(root.join("member/wal.old"), b"").unwrap();
        fs::hard_link(root.join("member/wal/0.wal"), root.join("member/wal/1.wal")).unwrap();
        symlink("snap/db", root.join("member/db")).unwrap();
        for (path, mode) in
            [("member/snap/db", 0o600), ("member/wal/0.wal", 0o640), ("member/wal.old", 0o644)]
        {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        for path in ["member/snap/db", "member/wal/0.wal", "member/wal.old", "member/db"] {
            set_time(&root.join(path));
        }
        for path in ["member/snap", "member/wal", "member", "empty", ""] {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o700)).unwrap();
            set_time(&root.join(path));
        }
        root
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

const TIME: (i64, i64) = (1_700_000_000, 123_456_789);

fn set_time(path: &Path) {
    let time = rustix::fs::Timespec { tv_sec: TIME.0, tv_nsec: TIME.1 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags).unwrap();
}

const SEED: u64 = 0x5eed;

fn summary(root: &Path) -> Result<Summary, TreeError> {
    fingerprint(open(root).unwrap(), SEED, &Interrupt::never(), &mut |_| {})
}

fn compared(a: &Path, b: &Path) -> Result<Summary, TreeError> {
    compare::entries(open(a).unwrap(), open(b).unwrap(), SEED, &Interrupt::never(), |ours, theirs| {
        let [ours, theirs] = [(a, ours), (b, theirs)]
            .map(|(root, entry)| fs::read(root.join(std::str::from_utf8(&entry.path).unwrap())).unwrap());
        assert_eq!(ours.len(), theirs.len());
        let mut hasher = ContentHasher::new(SEED);
        hasher.update(&ours);
        Ok(hasher.finish())
    })
}

#[test]
fn equal_trees_have_one_fingerprint() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.tree("a"), scratch.tree("b"));
    let both = compared(&a, &b).unwrap();
    let mut seen = Vec::new();
    fingerprint(open(&a).unwrap(), SEED, &Interrupt::never(), &mut |done| seen.push(done)).unwrap();
    assert_eq!((both.files, both.directories), (3, 4));
    assert_eq!(both.bytes.0, (3 * CHUNK / 2 + 7 + 7) as u64);
    assert_eq!(seen.last(), Some(&both.bytes.0));
    assert!(seen.is_sorted());
    assert_eq!(summary(&a).unwrap(), both);
    assert_eq!(summary(&b).unwrap(), both);
    // Every byte of the content is.
    let path = b.join("member/snap/db");
    let mut content = fs::read(&path).unwrap();
    content[CHUNK + 5] ^= 1;
    fs::write(&path, &content).unwrap();
    set_time(&path);
    assert_ne!(summary(&b).unwrap().fingerprint, both.fingerprint);
    content[CHUNK + 5] ^= 1;
    fs::write(&path, &content).unwrap();
    set_time(&path);
    // The root's own time is not part of it.
    fs::write(b.join("probe"), "").unwrap();
    fs::remove_file(b.join("probe")).unwrap();
    assert_eq!(compared(&a, &b).unwrap(), both);
}

/// Fingerprints are stored, so this test has a second implementation of their format.
#[test]
fn form_of_the_records() {
    let scratch = Scratch::new();
    let root = scratch.0.join("r");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("f"), "data").unwrap();
    fs::hard_link(root.join("f"), root.join("g")).unwrap();
    symlink("f", root.join("l")).unwrap();
    fs::create_dir(root.join("d")).unwrap();
    for (path, mode) in [("", 0o755), ("d", 0o700), ("f", 0o640)] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    for path in ["d", "f", "l"] {
        set_time(&root.join(path));
    }
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mut bytes = b"tree fingerprint 4\n".to_vec();
    let mut add = |path: &[u8], kind: u8, mode: u32, time: bool, rest: &[&[u8]]| {
        bytes.extend((path.len() as u64).to_le_bytes());
        bytes.extend(path);
        bytes.push(kind);
        [mode, uid, gid].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        if time {
            bytes.extend(TIME.0.to_le_bytes());
            bytes.extend(u32::try_from(TIME.1).unwrap().to_le_bytes());
        }
        rest.iter().for_each(|part| bytes.extend(*part));
    };
    add(b"", b'd', 0o755, false, &[]);
    add(b"d", b'd', 0o700, true, &[]);
    let content = hash(&block_hash(b"data", SEED).to_be_bytes());
    add(b"f", b'f', 0o640, true, &[&4u64.to_le_bytes(), &0u64.to_le_bytes(), &content]);
    // A second name of the third entry.
    add(b"g", b'f', 0o640, true, &[&4u64.to_le_bytes(), &3u64.to_le_bytes()]);
    add(b"l", b'l', 0o777, true, &[&1u64.to_le_bytes(), b"f"]);
    let found = summary(&root).unwrap().fingerprint;
    assert_eq!((found.seed, found.hash), (SEED, hash(&bytes)));
    let other = fingerprint(open(&root).unwrap(), SEED + 1, &Interrupt::never(), &mut |_| {}).unwrap();
    assert_ne!(other.fingerprint.hash, found.hash);
}

fn hash(bytes: &[u8]) -> [u8; 16] {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

#[test]
fn first_difference_is_named() {
    type Change = fn(&Path);
    let cases: &[(Change, &str)] = &[
        (
            |copy| {
                let time = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_790);
                fs::File::open(copy.join("member/wal/0.wal")).unwrap().set_modified(time).unwrap();
            },
            "member/wal/0.wal: mtime 1700000000.123456789 on the source, 1700000000.123456790 on the copy",
        ),
        (
            |copy| {
                fs::set_permissions(copy.join("member/wal.old"), fs::Permissions::from_mode(0o600)).unwrap();
            },
            "member/wal.old: mode 0644 on the source, 0600 on the copy",
        ),
        (
            |copy| fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).unwrap(),
            "the top directory: mode 0700 on the source, 0755 on the copy",
        ),
        (
            |copy| {
                fs::write(copy.join("member/wal.old"), "x").unwrap();
                set_time(&copy.join("member/wal.old"));
            },
            "member/wal.old: size 0 on the source, 1 on the copy",
        ),
        (
            |copy| {
                fs::remove_file(copy.join("member/db")).unwrap();
                set_time(&copy.join("member"));
            },
            "member/db: missing on the copy",
        ),
        (
            |copy| {
                fs::write(copy.join("member/wal/0.tmp"), "").unwrap();
                set_time(&copy.join("member/wal"));
            },
            "member/wal/0.tmp: only on the copy",
        ),
        (
            |copy| {
                fs::write(copy.join("zzz"), "").unwrap();
            },
            "zzz: only on the copy",
        ),
        (
            |copy| {
                fs::remove_dir_all(copy.join("member")).unwrap();
            },
            "member: missing on the copy",
        ),
        (
            |copy| {
                fs::remove_file(copy.join("member/db")).unwrap();
                symlink("snap/other", copy.join("member/db")).unwrap();
                set_time(&copy.join("member/db"));
                set_time(&copy.join("member"));
            },
            "member/db: leads to snap/db on the source, to snap/other on the copy",
        ),
        (
            |copy| {
                fs::remove_file(copy.join("member/db")).unwrap();
                fs::create_dir(copy.join("member/db")).unwrap();
                set_time(&copy.join("member"));
            },
            "member/db: a symbolic link on the source, a directory on the copy",
        ),
        (
            |copy| {
                fs::remove_file(copy.join("member/wal/1.wal")).unwrap();
                fs::write(copy.join("member/wal/1.wal"), "entries").unwrap();
                let mode = fs::Permissions::from_mode(0o640);
                fs::set_permissions(copy.join("member/wal/1.wal"), mode).unwrap();
                set_time(&copy.join("member/wal/1.wal"));
                set_time(&copy.join("member/wal"));
            },
            "member/wal/1.wal: hard-linked to another name on the source, a file of its own on the copy",
        ),
    ];
    for (change, expected) in cases {
        let scratch = Scratch::new();
        let (a, b) = (scratch.tree("a"), scratch.tree("b"));
        let before = summary(&b).unwrap();
        change(&b);
        let error = compared(&a, &b).unwrap_err();
        assert!(matches!(error, TreeError::Different { .. }), "{error:?}");
        assert_eq!(&error.to_string(), expected);
        // The fingerprint must change with everything that the comparison finds.
        assert_ne!(summary(&b).unwrap().fingerprint, before.fingerprint, "{expected}");
    }
}

#[test]
fn order_is_by_components() {
    // `a.c` sorts before `a/b` as text, but the walk goes into `a` first.
    let scratch = Scratch::new();
    for side in ["a", "b"] {
        let root = scratch.0.join(side);
        fs::create_dir_all(root.join("x")).unwrap();
        fs::write(root.join("x.c"), "").unwrap();
        set_time(&root.join("x.c"));
    }
    fs::write(scratch.0.join("a/x/b"), "").unwrap();
    set_time(&scratch.0.join("a/x"));
    set_time(&scratch.0.join("b/x"));
    let error = compared(&scratch.0.join("a"), &scratch.0.join("b")).unwrap_err();
    assert_eq!(error.to_string(), "x/b: missing on the copy");
}

#[test]
fn links_are_not_followed() {
    let scratch = Scratch::new();
    let root = scratch.tree("a");
    symlink(&root, scratch.0.join("link")).unwrap();
    assert!(open(&scratch.0.join("link")).is_err());
    symlink("/", root.join("out")).unwrap();
    assert_eq!(summary(&root).unwrap().files, 3);
}

#[test]
fn what_is_written_meanwhile_is_refused() {
    let scratch = Scratch::new();
    let root = scratch.tree("a");
    let grow = |path: &str| {
        let path = root.join(path);
        move |done: u64| {
            if done > 0 {
                fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(done + (9 << 20)).unwrap();
            }
        }
    };
    let error = fingerprint(open(&root).unwrap(), SEED, &Interrupt::never(), &mut grow("member/snap/db"))
        .unwrap_err();
    assert!(matches!(error, TreeError::Changing { .. }), "{error:?}");
    assert_eq!(error.to_string(), "member/snap/db is being written: stop what writes it, then try again");
    // And names that appear while a directory is read.
    let c = scratch.tree("e");
    let error = fingerprint(open(&c).unwrap(), SEED, &Interrupt::never(), &mut |_| {
        fs::write(c.join("member/snap/new"), "").unwrap();
    })
    .unwrap_err();
    assert_eq!(error.to_string(), "member/snap is being written: stop what writes it, then try again");
}

#[test]
fn hostile_names_stay_on_one_line() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    for side in ["a", "b"] {
        fs::create_dir(scratch.0.join(side)).unwrap();
    }
    let name = std::ffi::OsStr::from_bytes(b"a\n\x1b[2J\xff");
    fs::write(scratch.0.join("a").join(name), "").unwrap();
    let error = compared(&scratch.0.join("a"), &scratch.0.join("b")).unwrap_err();
    assert_eq!(error.to_string(), "a\\n\\u{1b}[2J\u{fffd}: missing on the copy");
}

#[test]
fn what_a_copy_would_lose_is_refused() {
    let scratch = Scratch::new();
    let root = scratch.tree("a");
    let check = || unsupported(open(&root).unwrap(), None, &Interrupt::never());
    check().unwrap();
    nix::unistd::mkfifo(&root.join("empty/pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    let error = check().unwrap_err();
    assert!(matches!(error, TreeError::Unsupported { .. }), "{error:?}");
    assert_eq!(error.to_string(), "empty/pipe is a fifo, which can't be copied: remove it");
    assert!(summary(&root).is_err());
    fs::remove_file(root.join("empty/pipe")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("s")).unwrap();
    assert_eq!(check().unwrap_err().to_string(), "s is a socket, which can't be copied: remove it");
    fs::remove_file(root.join("s")).unwrap();
    // Not every filesystem on which tests run has extended attributes.
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(root.join("member"), c"user.note", b"x", flags).is_ok() {
        assert_eq!(
            check().unwrap_err().to_string(),
            "member has the extended attribute user.note, which the copy would lose: remove it with `setfattr -x`"
        );
    }
}

#[test]
fn unreadable_file_is_named() {
    if nix::unistd::geteuid().is_root() {
        eprintln!("not run: root can read everything");
        return;
    }
    let scratch = Scratch::new();
    let root = scratch.tree("a");
    fs::set_permissions(root.join("member/snap/db"), fs::Permissions::from_mode(0o000)).unwrap();
    for error in [
        unsupported(open(&root).unwrap(), None, &Interrupt::never()).unwrap_err(),
        summary(&root).unwrap_err(),
    ] {
        assert!(matches!(error, TreeError::Unreadable { .. }), "{error:?}");
        assert_eq!(error.to_string(), "reading member/snap/db");
    }
}

fn state_of(root: &Path) -> State {
    state(open(root).unwrap(), &Interrupt::never()).unwrap()
}

/// The fingerprint of a tree covers what a copy must have. The state must also show a change that was undone, and one that
/// left `mtime` as it was.
#[test]
fn every_write_changes_the_state() {
    type Change = fn(&Path);
    let restored: Change = |root| {
        let path = root.join("member/wal/0.wal");
        fs::write(&path, b"ENTRIES").unwrap();
        set_time(&path);
    };
    let changes: &[(Change, &str)] = &[
        (restored, "member/wal/0.wal was written"),
        (
            |root| {
                let path = root.join("member/wal.old");
                for mode in [0o600, 0o644] {
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                }
            },
            "member/wal.old was written",
        ),
        (
            |root| {
                let path = root.join("member/snap/db");
                fs::copy(&path, root.join("member/snap/new")).unwrap();
                fs::rename(root.join("member/snap/new"), path).unwrap();
                set_time(&root.join("member/snap"));
            },
            "member/snap was written",
        ),
        (
            |root| {
                fs::write(root.join("probe"), "").unwrap();
                fs::remove_file(root.join("probe")).unwrap();
                set_time(root);
            },
            "the top directory was written",
        ),
        (|root| fs::hard_link(root.join("member/snap/db"), root.join("link")).unwrap(), "the top directory"),
        (
            |root| {
                let file = fs::OpenOptions::new().write(true).open(root.join("member/snap/db")).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, b"x", 4096).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(TIME.0 as u64, TIME.1 as u32))
                    .unwrap();
            },
            "member/snap/db was written",
        ),
    ];
    for (change, expected) in changes {
        let scratch = Scratch::new();
        let root = scratch.tree("a");
        // Older than the kernel's clock is behind.
        std::thread::sleep(Duration::from_millis(30));
        let before = state_of(&root);
        assert_eq!(summary(&root).unwrap(), summary(&root).unwrap());
        assert_eq!(before.difference(&state_of(&root)), None, "reading is no change");
        change(&root);
        let found = before.difference(&state_of(&root)).unwrap();
        assert!(found.starts_with(expected), "{found}, not {expected}");
    }
}

#[test]
fn how_long_a_tree_is_quiet() {
    let scratch = Scratch::new();
    let root = scratch.tree("a");
    std::thread::sleep(Duration::from_millis(200));
    let (_, age) = state_of(&root).newest();
    assert!(age >= Duration::from_millis(190) && age < Duration::from_secs(60), "{age:?}");
    fs::write(root.join("member/wal.old"), "x").unwrap();
    let (file, age) = state_of(&root).newest();
    assert!(file == "member/wal.old" && age < Duration::from_millis(190), "{file}, {age:?}");
}
