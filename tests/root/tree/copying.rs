//! The copy, its proof, and what neither of them may miss.

use super::*;

#[test]
fn the_proof_reads_the_device() {
    let Some(mut bench) = Bench::new("device") else { return };
    fill(&bench.path("source"));
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    bench.copy(Pass::Fill).unwrap();
    let fresh = bench.proof(&staging).unwrap();
    staging.sync().unwrap();

    // Changes one bit of the medium without the filesystem.
    let at = find(&bench.image(), MARKER);
    let image = OpenOptions::new().write(true).open(bench.image()).unwrap();
    image.write_all_at(&[MARKER[0] ^ 1], at).unwrap();
    image.sync_all().unwrap();
    // The page cache still has the old data. So a proof must not read from the page cache.
    assert_eq!(bench.proof(&staging).unwrap(), fresh);
    staging.unmount().unwrap();
    let staging = bench.stage(&device, Access::ReadOnly);
    assert!(File::create(bench.path("staging/x")).is_err());
    assert!(matches!(bench.proof(&staging), Err(TreeError::Different { .. })));
    staging.unmount().unwrap();

    image.write_all_at(&MARKER[..1], at).unwrap();
    image.sync_all().unwrap();
    let staging = bench.stage(&device, Access::ReadOnly);
    assert_eq!(bench.proof(&staging).unwrap(), fresh);
    staging.unmount().unwrap();
    let root = bench.inspect(&device).unwrap();
    assert_eq!(tree::fingerprint(root, 0, &Interrupt::never(), &mut |_| {}).unwrap(), fresh);
}

#[test]
fn a_second_pass_finds_every_change() {
    let Some(mut bench) = Bench::new("passes") else { return };
    let source = bench.path("source");
    fill(&source);
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let mut last = 0;
    rsync::copy(&bench.host, &source, &bench.path("staging"), Pass::Fill, LIMIT, &mut |done| last = done)
        .unwrap();
    let summary = bench.proof(&staging).unwrap();
    assert_eq!(last, summary.bytes.0);
    // Holes must stay holes. Otherwise the medium would be too small for the copy.
    let wal = || fs::metadata(bench.path("staging/member/wal/0.wal")).unwrap().blocks() * 512;
    assert!(wal() < MIB as u64, "{}", wal());

    for pass in [Pass::Update, Pass::Fill] {
        // Changed in the middle with the same size and time, because etcd writes its database in place.
        let db = source.join("member/snap/db");
        let before = fs::metadata(&db).unwrap();
        let file = OpenOptions::new().write(true).open(&db).unwrap();
        file.write_all_at(format!("{pass:?}").as_bytes(), 4 * MIB as u64).unwrap();
        drop(file);
        let time = Timespec { tv_sec: before.mtime(), tv_nsec: before.mtime_nsec() };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, &db, &times, AtFlags::empty()).unwrap();
        // Appended in preallocated space, where there was a hole before.
        let file = OpenOptions::new().write(true).open(source.join("member/wal/0.wal")).unwrap();
        file.write_all_at(format!("more {pass:?}").as_bytes(), 40_000_001).unwrap();
        drop(file);
        // A directory and an unchanged file whose times differ only in nanoseconds.
        set_time(&source.join("member/wal/other"), 1 + pass as i64);
        set_time(&source.join("member/wal"), 1 + pass as i64);
        // Removed, new, shorter, of another type, and not in the source.
        fs::write(source.join(format!("new {pass:?}")), "new").unwrap();
        fs::write(bench.path("staging/member/leftover"), "old").unwrap();
        fs::create_dir_all(bench.path("staging/lost/deep")).unwrap();
        fs::write(bench.path("staging/lost/deep/file"), "old").unwrap();
        fs::remove_file(source.join("member/db")).unwrap();
        fs::create_dir(source.join("member/db")).unwrap();
        assert!(bench.proof(&staging).is_err());
        bench.copy(pass).unwrap();
        bench.proof(&staging).unwrap();
        assert!(wal() < 2 * MIB as u64, "{pass:?} {}", wal());
        fs::remove_dir(source.join("member/db")).unwrap();
        symlink("snap", source.join("member/db")).unwrap();
        // The time is not in this second: rsync 3.1.3 then leaves a new link with its own nanoseconds.
        set_time(&source.join("member/db"), 8);
    }
    // Data becomes zeros, and a file becomes shorter.
    File::options().write(true).open(source.join("member/snap/db")).unwrap().set_len(4096).unwrap();
    File::options().write(true).open(source.join("member/snap/db")).unwrap().set_len(3 << 20).unwrap();
    for pass in [Pass::Update, Pass::Fill] {
        bench.copy(pass).unwrap();
        bench.proof(&staging).unwrap();
    }
    staging.unmount().unwrap();
}

#[test]
fn a_full_disk_is_said_to_be_full() {
    let Some(mut bench) = Bench::new("full") else { return };
    fill(&bench.path("source"));
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let filler = File::create(bench.path("staging/filler")).unwrap();
    let free = staging::space(&filler).unwrap().free.0;
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&filler, flags, 0, free - (3 << 20)).unwrap();
    drop(filler);
    assert!(staging::space(staging.root().unwrap()).unwrap().free.0 <= 3 << 20);
    let to = bench.path("staging/below");
    for pass in [Pass::Fill, Pass::Update] {
        let error =
            rsync::copy(&bench.host, &bench.path("source"), &to, pass, LIMIT, &mut |_| {}).unwrap_err();
        assert!(
            matches!(error, RsyncError::Failed { .. }) && error.to_string().contains("no space left"),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains("member/snap") && text.contains("No space left on device"), "{text}");
    }
    staging.unmount().unwrap();
    let gone =
        rsync::copy(&bench.host, &bench.path("absent"), &bench.path("to"), Pass::Fill, LIMIT, &mut |_| {});
    assert!(chain(&gone.unwrap_err()).contains("absent"));
}

#[test]
fn what_a_copy_would_lose() {
    let Some(mut bench) = Bench::new("lose") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let root = bench.path("staging");
    fill(&root);
    let check = || tree::unsupported(staging.root().unwrap(), None, &Interrupt::never());
    check().unwrap();
    // The caller's own attribute is accepted, but only on the root directory.
    let own = c"trusted.stamp";
    let spared = || tree::unsupported(staging.root().unwrap(), Some(own), &Interrupt::never());
    inode::set_attribute(staging.root().unwrap(), own, b"x").unwrap();
    assert!(
        check()
            .unwrap_err()
            .to_string()
            .starts_with("the top directory has the extended attribute trusted.stamp")
    );
    spared().unwrap();
    inode::remove_attribute(staging.root().unwrap(), own).unwrap();
    inode::set_attribute(tree::open(&root.join("member")).unwrap(), own, b"x").unwrap();
    assert!(spared().is_err());
    inode::remove_attribute(tree::open(&root.join("member")).unwrap(), own).unwrap();
    check().unwrap();
    let db = root.join("member/snap/db");
    let path = db.to_str().unwrap();
    let wal = root.join("member/wal");
    let link = root.join("member/db");
    let null = root.join("null");
    let (wal, link, null) = (wal.to_str().unwrap(), link.to_str().unwrap(), null.to_str().unwrap());
    let cases: &[(&[&str], &[&str], &str)] = &[
        (
            &["setfacl", "-m", "u:7:r", path],
            &["setfacl", "-b", path],
            "member/snap/db has an access control list",
        ),
        (
            &["setfacl", "-d", "-m", "u:7:r", wal],
            &["setfacl", "-b", wal],
            "member/wal has an access control list",
        ),
        (
            &["setcap", "cap_net_admin+ep", path],
            &["setcap", "-r", path],
            "member/snap/db has file capabilities",
        ),
        (
            &["setfattr", "-h", "-n", "trusted.note", "-v", "x", link],
            &["setfattr", "-h", "-x", "trusted.note", link],
            "member/db has the extended attribute trusted.note",
        ),
        (
            &["setfattr", "-n", "trusted.note", "-v", "x", path],
            &["setfattr", "-x", "trusted.note", path],
            "member/snap/db has the extended attribute trusted.note",
        ),
        (&["chattr", "+i", path], &["chattr", "-i", path], "member/snap/db is immutable"),
        (&["chattr", "+a", wal], &["chattr", "-a", wal], "member/wal is append-only"),
        (
            &["xfs_io", "-c", "chattr +P", wal],
            &["xfs_io", "-c", "chattr -P", wal],
            "member/wal belongs to a quota project",
        ),
        (&["mknod", null, "c", "1", "3"], &["rm", null], "null is a device node"),
    ];
    for (make, undo, expected) in cases {
        run(make[0], &make[1..]);
        let error = check().unwrap_err();
        assert!(matches!(error, TreeError::Unsupported { .. }), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error}");
        run(undo[0], &undo[1..]);
        check().unwrap();
    }
    // The kernel or the policy sets this attribute.
    run("setfattr", &["-n", "security.selinux", "-v", "system_u:object_r:etc_t:s0", path]);
    check().unwrap();
    // Another filesystem is mounted below, and then another directory of the same filesystem. In the second
    // case no device number differs.
    fs::create_dir(root.join("below")).unwrap();
    mount(Some("none"), &root.join("below"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    assert!(matches!(check(), Err(TreeError::Mounted { .. })));
    umount2(&root.join("below"), MntFlags::empty()).unwrap();
    mount(Some(&root.join("member")), &root.join("below"), None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .unwrap();
    assert_eq!(check().unwrap_err().to_string(), "below is a mount point: unmount what is there");
    umount2(&root.join("below"), MntFlags::empty()).unwrap();
    check().unwrap();
    staging.unmount().unwrap();
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let Some(mut bench) = Bench::new("eio") else { return };
    fill(&bench.path("source"));
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    bench.copy(Pass::Fill).unwrap();
    staging.unmount().unwrap();
    // The medium ends in the middle of the file's data.
    let at = find(&bench.image(), MARKER);
    let staging = bench.stage(&device, Access::ReadOnly);
    OpenOptions::new().write(true).open(bench.image()).unwrap().set_len(at / 4096 * 4096).unwrap();
    let error = chain(&bench.proof(&staging).unwrap_err());
    assert_eq!(error, "reading member/snap/db: Input/output error (os error 5)");
}
