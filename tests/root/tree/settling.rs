//! An attribute of the root directory, as the device has it.

use super::*;
use host::block::trusted_attribute_of_root as on_device;

const STAMP: &std::ffi::CStr = c"trusted.etcd-lun.stamp";

/// The attribute on the device, where it can be read at any time.
fn seen(device: &Path) -> Option<Vec<u8>> {
    on_device(device, "etcd-lun.stamp").unwrap()
}

/// Each form in which XFS keeps a few small attributes, beside each form of a directory.
#[test]
fn a_stamp_is_on_the_device_once_the_filesystem_has_settled() {
    let Some(mut bench) = Bench::new("settling") else { return };
    let shapes = [&[][..], &["-i", "size=1024"], &["-i", "size=2048"]];
    for (number, more) in shapes.iter().enumerate() {
        let device = bench.xfs_in(&bench.path(&format!("image-{number}")), more);
        let staging = bench.stage(&device, Access::ReadWrite);
        assert_eq!(seen(&device), None);
        for entries in 0..60 {
            fs::create_dir(bench.path(&format!("staging/{entries:03}-in-the-way"))).unwrap();
            for length in [1, 30, 120, 170, 250, 500, 800] {
                let value = vec![b'a' + u8::try_from(entries % 20).unwrap(); length];
                let before = seen(&device);
                inode::set_attribute(staging.root().unwrap(), STAMP, &value).unwrap();
                host::dir::sync_filesystem(staging.root().unwrap()).unwrap();
                // The log has it. Its place gets it up to 30 s later, or now.
                assert!([before.as_deref(), Some(&*value)].contains(&seen(&device).as_deref()));
                staging::settle(staging.root().unwrap()).unwrap();
                assert_eq!(
                    seen(&device).as_deref(),
                    Some(&*value),
                    "{entries} entries, {length} bytes, {more:?}"
                );
            }
        }
        // Another name, another namespace.
        assert_eq!(on_device(&device, "etcd-lun.stamps").unwrap(), None);
        inode::set_attribute(staging.root().unwrap(), c"user.other", b"user").unwrap();
        staging::settle(staging.root().unwrap()).unwrap();
        assert_eq!(on_device(&device, "other").unwrap(), None);
        inode::remove_attribute(staging.root().unwrap(), STAMP).unwrap();
        staging::settle(staging.root().unwrap()).unwrap();
        assert_eq!(seen(&device), None);
        // It can be written to as before.
        fs::create_dir(bench.path("staging/member")).unwrap();
        staging.unmount().unwrap();
    }
}

#[test]
fn a_filesystem_with_a_writer_does_not_settle() {
    let Some(mut bench) = Bench::new("unsettled") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let writer = File::create(bench.path("staging/open")).unwrap();
    let error = staging::settle(staging.root().unwrap()).unwrap_err();
    assert!(error.to_string().contains("busy"), "{error}");
    drop(writer);
    staging::settle(staging.root().unwrap()).unwrap();
    fs::write(bench.path("staging/open"), "written").unwrap();
    staging.unmount().unwrap();
}

/// What is in memory is not what is reported.
#[test]
fn what_the_device_has_lost_is_seen() {
    let Some(mut bench) = Bench::new("lost") else { return };
    let device = bench.xfs();
    let staging = bench.stage(&device, Access::ReadWrite);
    let stamp = |value: &[u8]| {
        inode::set_attribute(staging.root().unwrap(), STAMP, value).unwrap();
        staging::settle(staging.root().unwrap()).unwrap();
    };
    stamp(b"earlier");
    let before = fs::read(bench.image()).unwrap();
    stamp(b"later");
    assert_eq!(seen(&device).unwrap(), b"later");
    // The device goes back to what it had, as one does that has lost a write.
    File::options().write(true).open(bench.image()).unwrap().write_all_at(&before, 0).unwrap();
    assert_eq!(inode::attribute(staging.root().unwrap(), STAMP).unwrap().unwrap(), b"later");
    assert_eq!(seen(&device).unwrap(), b"earlier");
    // No filesystem of ours.
    File::options().write(true).open(bench.image()).unwrap().write_all_at(&[0; 4096], 0).unwrap();
    let error = on_device(&device, "etcd-lun.stamp").unwrap_err();
    assert!(error.to_string().contains("no superblock"), "{error}");
}
