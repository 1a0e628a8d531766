//! The size of the LUN, against the config and against the quota of etcd's database.

use super::*;

const GIB: u64 = 1 << 30;

/// The plan by hand of a node with a blank LUN of this size.
fn moved(size: u64, quota: Fact<Bytes>, least: u64) -> Result<Plan, Refusal> {
    let mut config = config();
    config.lun.min_size = Bytes(least);
    let mut node = Node { quota, local: Fact::Known(LocalDir::Absent), ..attached(Content::Blank) };
    let LunView::Seen(lun) = known(&mut node.lun) else { panic!() };
    (lun.size, lun.path_size) = (Bytes(size), Bytes(size));
    Goal::Lun(Occasion::ByHand).plan(&config, &node)
}

#[test]
fn a_lun_that_cannot_hold_the_quota_is_refused_before_the_move() {
    let quota = || Fact::Known(Bytes(8 * GIB));
    for (size, quota, least, said) in [
        (20 * GIB - 1, quota(), 20 * GIB, "and the config wants 20GiB: "),
        (20 * GIB - 1, quota(), 20 * GIB, "or lower `lun.min_size`"),
        (8 * GIB + (256 << 20) - 1, quota(), GIB, "and etcd's quota of 8GiB, its log and XFS need 8.2GiB: "),
        (8 * GIB + (256 << 20) - 1, quota(), GIB, "or lower etcd's `--quota-backend-bytes`"),
        (GIB - 1, unknown(), GIB, "and the config wants 1GiB: "),
    ] {
        let refused = moved(size, quota, least).unwrap_err();
        assert!(
            matches!(refused, Refusal::TooSmall { .. }) && refused.to_string().contains(said),
            "{refused}"
        );
    }
    for (size, quota, least) in
        [(20 * GIB, quota(), 20 * GIB), (8 * GIB + (256 << 20), quota(), GIB), (GIB, unknown(), GIB)]
    {
        assert!(!moved(size, quota, least).unwrap().is_empty());
    }
}

/// Without the LUN etcd stays down, so one that has the data is mounted whatever its size.
#[test]
fn a_lun_with_the_data_is_mounted_whatever_the_config_wants() {
    let mut config = config();
    config.lun.min_size = Bytes(40 * GIB);
    let down = Fact::Known(etcd("inactive"));
    let node =
        Node { mount: Fact::Known(None), etcd: down, quota: Fact::Known(Bytes(32 * GIB)), ..migrated() };
    for occasion in [Occasion::Boot, Occasion::ByHand] {
        assert!(!plan(&config, &node, occasion).unwrap().is_empty());
    }
}

#[test]
fn a_lun_without_room_for_two_databases_is_a_warning() {
    let warnings = |size, quota| moved(size, quota, GIB).unwrap().warnings;
    let quota = || Fact::Known(Bytes(8 * GIB));
    let said = warnings(17 * GIB - 1, quota()).join("");
    assert!(said.contains("etcd's quota of 8GiB needs 17GiB: a defragmentation"), "{said}");
    assert_eq!(warnings(17 * GIB, quota()), Vec::<String>::new());
    assert_eq!(warnings(2 * GIB, unknown()), Vec::<String>::new());
    // A node that has moved, or that goes back to its local disk, is not asked to decide.
    let small = Node { quota: Fact::Known(Bytes(32 * GIB)), ..migrated() };
    for goal in [Goal::Lun(Occasion::ByHand), Goal::Local] {
        assert_eq!(goal.plan(&config(), &small).unwrap().warnings, Vec::<String>::new());
    }
}

/// etcd does not start on a full filesystem, so it grows first, by hand. With room, or at a boot, etcd is started at once.
#[test]
fn a_full_filesystem_grows_before_etcd_is_started_on_it() {
    let first = |free: u64, occasion| {
        let mount = node::DataMount { free: Some((Bytes(free), Bytes(20 * GIB))), ..data_mount("8:16") };
        let (mount, etcd) = (Fact::Known(Some(mount)), Fact::Known(etcd("failed")));
        let mut node = Node { mount, etcd, ..migrated() };
        let LunView::Seen(lun) = known(&mut node.lun) else { panic!() };
        (lun.size, lun.path_size) = (Bytes(40 * GIB), Bytes(40 * GIB));
        plan(&config(), &node, occasion).unwrap().steps[0].id()
    };
    assert_eq!(first((256 << 20) - 1, Occasion::ByHand), "grow");
    assert_eq!(first(256 << 20, Occasion::ByHand), "start-etcd");
    assert_eq!(first(0, Occasion::Boot), "start-etcd");
}
