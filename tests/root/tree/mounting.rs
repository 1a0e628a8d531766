//! Staging mounts, inspections that write nothing, and directories below a mount.

use super::*;

#[test]
fn a_refused_mount_says_why() {
    let Some(mut bench) = Bench::new("refused") else { return };
    let device = bench.xfs();
    let copy = bench.path("copy");
    fs::copy(bench.image(), &copy).unwrap();
    let twin = bench.attach(&copy);
    let staging = bench.stage(&device, Access::ReadWrite);
    let mount_error =
        |device: &Path, name: &str| bench.try_to_stage(device, name, Access::ReadWrite).unwrap_err();
    let error = mount_error(&device, "staging");
    assert!(matches!(error, StagingError::Occupied(_)), "{error:?}");
    symlink(bench.path("staging"), bench.path("link")).unwrap();
    let error = mount_error(&device, "link");
    assert!(matches!(error, StagingError::NotDirectory(_)), "{error:?}");

    let error = chain(&mount_error(&twin, "twin"));
    assert!(error.contains("duplicate UUID") && error.starts_with("mounting /dev/loop"), "{error}");
    assert!(error.ends_with("Invalid argument (os error 22)"), "{error}");
    let error = chain(&bench.inspect(&twin).unwrap_err());
    assert!(error.contains("duplicate UUID"), "{error}");
    // The same filesystem is mounted read-write.
    assert!(chain(&bench.inspect(&device).unwrap_err()).contains("(os error 16)"));

    OpenOptions::new().write(true).open(&copy).unwrap().write_all_at(b"damaged!", 96).unwrap();
    let error = chain(&mount_error(&twin, "twin"));
    assert!(error.contains("xfs_repair -n") && error.contains("CRC error"), "{error}");
    eprintln!("{error}");
    let error = chain(&mount_error(Path::new("/dev/null"), "twin"));
    assert!(error.contains("Block device required"), "{error}");
    let error = chain(&mount_error(Path::new("/dev/absent"), "twin"));
    assert!(error.contains("/dev/absent") && error.contains("No such file"), "{error}");
    staging.unmount().unwrap();
}

#[test]
fn inspecting_writes_nothing() {
    let Some(mut bench) = Bench::new("inspect") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    fill(&bench.path("staging"));
    staging.sync().unwrap();
    // This data is only in the log when the power fails.
    fs::write(bench.path("staging/late"), "late").unwrap();
    inode::set_attribute(staging.root().unwrap(), c"trusted.stamp", b"late").unwrap();
    let unclean = bench.path("unclean");
    fs::copy(bench.image(), &unclean).unwrap();
    staging.unmount().unwrap();

    let device = bench.attach(&unclean);
    let before = hash(&unclean);
    let root = bench.inspect(&device).unwrap();
    let seen = inode::attribute(&root, c"trusted.stamp").unwrap();
    let space = staging::space(&root).unwrap();
    assert!(space.size.0 > 200 << 20 && space.free < space.size && space.free_inodes > 0, "{space:?}");
    assert!(openat(&root, c"x", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).is_err());
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(device.to_str().unwrap()));
    drop(root);
    assert_eq!(hash(&unclean), before, "inspecting wrote to the device");
    // The attribute was synced but is only in the log, so it is not visible.
    assert_eq!(seen, None);

    let staging = bench.stage(&device, Access::ReadOnly);
    assert_eq!(inode::attribute(staging.root().unwrap(), c"trusted.stamp").unwrap().unwrap(), b"late");
    staging.unmount().unwrap();
    let replayed = hash(&unclean);
    assert_ne!(replayed, before, "a read-only mount replays the log");
    drop(bench.inspect(&device).unwrap());
    assert_eq!(hash(&unclean), replayed, "inspecting wrote to the device");
}

#[test]
fn unmounting_is_not_done_while_held() {
    let Some(mut bench) = Bench::new("held") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let held = staging.root().unwrap();
    let error = staging.unmount().unwrap_err();
    assert!(error.to_string().contains("busy"), "{error}");
    drop(held);
    // The unmount failed, but dropping the mount detached it.
    assert!(bench.try_to_stage(&device, "staging", Access::ReadWrite).is_ok());

    // A copy of the mount namespace has a mount of its own, which `umount` does not see.
    let staging = bench.stage(&device, Access::ReadWrite);
    let mut other = Command::new("unshare").args(["-m", "sleep", "60"]).spawn().unwrap();
    let comm = format!("/proc/{}/comm", other.id());
    while fs::read_to_string(&comm).unwrap().trim() != "sleep" {
        std::thread::sleep(Duration::from_millis(10));
    }
    let result = staging.unmount();
    other.kill().unwrap();
    other.wait().unwrap();
    let error = result.unwrap_err().to_string();
    assert!(error.contains("mounted elsewhere"), "{error}");
}

#[test]
fn beneath_a_mount() {
    let Some(mut bench) = Bench::new("beneath") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let base = bench.path("staging");
    fs::create_dir_all(base.join("data/member")).unwrap();
    fs::create_dir_all(base.join("retired")).unwrap();
    fs::set_permissions(base.join("data"), fs::Permissions::from_mode(0o700)).unwrap();
    chown(base.join("data"), Some(7), Some(8)).unwrap();
    mount(Some("none"), &base.join("data"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();

    let hidden = inode::beneath(&bench.host, &bench.abs("staging/data")).unwrap().unwrap();
    assert!(!inode::is_empty(&hidden).unwrap());
    assert!(inode::is_empty(tree::open(&base.join("data")).unwrap()).unwrap(), "the tmpfs is on top");
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), mounts);
    assert!(inode::beneath(&bench.host, &bench.abs("staging/absent")).unwrap().is_none());
    assert!(inode::beneath(&bench.host, &bench.abs("absent/absent")).unwrap().is_none());
    symlink("data", base.join("link")).unwrap();
    assert!(inode::beneath(&bench.host, &bench.abs("staging/link")).is_err());
    drop(hidden);

    // Two clones are two mounts. An exchange needs one mount that has both names.
    let staged = inode::beneath(&bench.host, &bench.abs("staging/retired")).unwrap().unwrap();
    let parent = inode::beneath(&bench.host, &bench.abs("staging/data")).unwrap().unwrap();
    assert_ne!(inode::mount_id(&staged).unwrap(), inode::mount_id(&parent).unwrap());
    let apart = inode::exchange(&staged, "x", &parent, "member");
    assert!(apart.unwrap_err().to_string().contains("not on one mount"));
    drop(staged);
    drop(parent);
    umount2(&base.join("data"), MntFlags::empty()).unwrap();
    let root = staging.root().unwrap();
    let data = tree::open(&base.join("data")).unwrap();
    inode::set_attribute(&data, c"security.selinux", b"system_u:object_r:container_var_lib_t:s0\0").unwrap();
    let fence = inode::make_empty_dir_like(&root, "fence", &data).unwrap();
    assert_eq!(
        inode::attribute(&fence, c"security.selinux").unwrap(),
        inode::attribute(&data, c"security.selinux").unwrap()
    );
    inode::exchange(&root, "fence", &root, "data").unwrap();
    let found = fs::metadata(base.join("data")).unwrap();
    assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o700, 7, 8));
    assert!(base.join("fence/member").exists());

    mount(Some("none"), &base.join("data"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    let hidden = inode::beneath(&bench.host, &bench.abs("staging/data")).unwrap().unwrap();
    assert_eq!(inode::is_immutable(&hidden).unwrap(), Some(false));
    inode::set_immutable(&hidden, true).unwrap();
    assert_eq!(inode::is_immutable(&hidden).unwrap(), Some(true));
    drop(hidden);
    umount2(&base.join("data"), MntFlags::empty()).unwrap();
    assert!(fs::write(base.join("data/member"), "x").unwrap_err().to_string().contains("not permitted"));
    assert!(fs::rename(base.join("data"), base.join("moved")).is_err());
    // The fence must be exchanged at its end, which an immutable directory does not allow.
    let exchange = |name| inode::exchange(&root, name, &root, "data").map_err(std::io::Error::other);
    assert!(exchange("fence").unwrap_err().to_string().contains("not permitted"));
    let fenced = tree::open(&base.join("data")).unwrap();
    assert!(inode::without_immutable(&fenced, || exchange("nothing")).is_err());
    assert_eq!(inode::is_immutable(&fenced).unwrap(), Some(true));
    inode::without_immutable(&fenced, || exchange("fence")).unwrap();
    assert!(base.join("data/member").exists() && fs::read_dir(base.join("fence")).unwrap().next().is_none());
    fs::write(base.join("fence/member"), "x").unwrap();
    fs::write(base.join("data/new"), "x").unwrap();

    assert_eq!(inode::attribute(&root, c"trusted.stamp").unwrap(), None);
    inode::set_attribute(&root, c"trusted.stamp", b"one").unwrap();
    inode::set_attribute(&root, c"trusted.stamp", b"two").unwrap();
    assert_eq!(inode::attribute(&root, c"trusted.stamp").unwrap().unwrap(), b"two");
    let long = rustix::fs::fsetxattr(&root, c"trusted.stamp", &[1; 5000], rustix::fs::XattrFlags::empty());
    long.unwrap();
    assert!(inode::attribute(&root, c"trusted.stamp").unwrap_err().to_string().contains("longer than 4096"));
    inode::remove_attribute(&root, c"trusted.stamp").unwrap();
    drop((root, data, fence, fenced));
    staging.unmount().unwrap();
}

#[test]
fn a_mount_has_the_options_of_etcds() {
    let Some(mut bench) = Bench::new("mount-options") else { return };
    let device = bench.xfs();
    let like = ["logbsize=64k".to_owned(), "noexec".into()];
    let options = staging::superblock_options(&bench.host, &like).unwrap().unwrap();
    let staging = Staging::attach(&bench.host, &device, &bench.abs("staging"), &like, || {
        staging::detached(fs::File::open(&device)?, Access::ReadWrite, &options)
    })
    .unwrap();
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.contains(bench.path("staging").to_str().unwrap())).unwrap();
    assert!(line.contains(" rw,nosuid,nodev,noexec") && line.contains(",logbsize=64k"), "{line}");
    fs::write(bench.path("staging/file"), "written").unwrap();
    // Whoever makes a mount without writing anything is refused meanwhile, and the reason comes along.
    assert!(chain(&bench.inspect(&device).unwrap_err()).contains("(os error 16)"));
    staging.unmount().unwrap();
    let root = bench.inspect(&device).unwrap();
    assert_eq!(host::dir::names(root).unwrap(), ["file"]);
    // Options that XFS does not know are refused, and not left out.
    let error =
        staging::detached(fs::File::open(&device).unwrap(), Access::ReadWrite, "lazytime2").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(22), "{error}");
}
