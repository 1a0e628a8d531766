//! LUNs that are blank but not the right one.

use anyhow::{Context, Result, bail};

use super::{Declined, check, declines, each, failed, refused};
use crate::scene::{LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{Lun, Offer, blank, fingerprint};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("lun/not-the-one", |stage| {
            let lun = |number| Lun::new(number, stage.lun_file(number));
            let luns = vec![lun(1), Lun { read_only: true, ..lun(2) }];
            let (wwid, found, second) = (stage.wwid(7), stage.wwid(1), stage.wwid(2));
            let both: [&str; 2] = [&wwid, &found];
            let small = [found.as_str(), "1GiB", "8GiB"];
            let (read_only, shown) = ([second.as_str()], ["LUN 9", "10.77.0.1:3260", "LUN 1", &found]);
            blank(&stage.lun_file(2), LUN_SIZE)?;
            stage.target.offer(Offer { luns, ..stage.target.offered().clone() })?;
            let ours = Wanted::default;
            let cases: [(&str, Wanted, Declined); 4] = [
                ("too small", Wanted { min_size: "8GiB".into(), ..ours() }, refused("too-small", &small)),
                ("read-only", Wanted { lun: 2, ..ours() }, refused("read-only", &read_only)),
                ("another WWID", Wanted { wwid: Some(wwid.clone()), ..ours() }, refused("wrong-lun", &both)),
                (
                    "no such LUN",
                    Wanted { lun: 9, attach_timeout: "10s".into(), ..ours() },
                    failed("lun-not-shown", &shown),
                ),
            ];
            each(&cases, |(name, wanted, how)| declines(stage, wanted, *how).context(*name))
        }),
        Scenario::new("lun/mounted-elsewhere", |stage| {
            stage.configure(&Wanted::default())?;
            stage.migrate()?;
            stage.node.ok("systemctl stop etcd && systemctl stop var-lib-etcd.mount && mkdir -p /mnt/x && mount /dev/disk/by-label/etcd-lun /mnt/x")?;
            check(&stage.agent("apply")?, refused("in-use", &[&stage.wwid(1), "/mnt/x"]))?;
            stage.node.ok("umount /mnt/x")?;
            stage.apply()?;
            stage.is_on_lun()
        }),
        Scenario::new("lun/number-of-the-array", number_of_the_array),
    ]
}

/// tgtd addresses LUN 300 as arrays do from 256 on, in flat addressing, which Linux shows as 16684. Asked for the kernel's 300
/// it answers for LUN 44. Both are blank. LUN 300 has sectors of 4096 bytes, as newer arrays offer them.
fn number_of_the_array(stage: &mut Stage) -> Result<()> {
    let lun = |number| Lun::new(number, stage.lun_file(number));
    let luns = vec![lun(44), Lun { sector: 4096, ..lun(300) }];
    for lun in &luns {
        blank(&lun.file, LUN_SIZE)?;
    }
    let (other, right) = (luns[0].clone(), luns[1].clone());
    stage.target.offer(Offer { luns, ..stage.target.offered().clone() })?;
    let short = |lun| Wanted { lun, attach_timeout: "10s".into(), ..Wanted::default() };
    let wwids = [other.wwid(), right.wwid()];
    let list = ["LUN 16684", "10.77.0.1:3260", "LUN 44", &wwids[0], "LUN 300", &wwids[1]];
    declines(stage, &short(16_684), failed("lun-not-shown", &list))?;
    // The WWID alone names it, and a number that is another LUN's does not mislead.
    let before = fingerprint(&other.file)?;
    stage.configure(&Wanted { wwid: Some(right.wwid()), ..short(44) })?;
    stage.apply()?;
    stage.is_on_lun()?;
    stage.agent("rollback")?;
    stage.node.ok("test ! -e /var/lib/etcd/lost && ! mountpoint -q /var/lib/etcd")?;
    stage.target.stop();
    blank(&right.file, LUN_SIZE)?;
    stage.target.restart()?;
    // All but the program.
    stage
        .node
        .ok("find /var/lib/etcd-lun -mindepth 1 -maxdepth 1 ! -name bin ! -name program -exec rm -rf {} +")?;
    // The number alone.
    stage.configure(&short(300))?;
    stage.apply()?;
    stage.is_on_lun()?;
    let wwid =
        stage.node.ok("cat /sys/class/block/$(basename $(findmnt -no SOURCE /var/lib/etcd))/device/wwid")?;
    if wwid.trim() != right.wwid() || fingerprint(&other.file)? != before {
        bail!("etcd is on {wwid}, and LUN 300 is {}", right.wwid());
    }
    let sectors = stage.node.ok("blockdev --getss --getpbsz $(findmnt -no SOURCE /var/lib/etcd) && xfs_info /var/lib/etcd | grep -o -m 1 sectsz=4096")?;
    if sectors.split_whitespace().collect::<Vec<_>>() != ["4096", "4096", "sectsz=4096"] {
        bail!("the LUN has sectors of 4096 bytes, and the node has {sectors}");
    }
    // What else the target shows is not left attached.
    one_disk_is_attached(stage)
}

fn one_disk_is_attached(stage: &Stage) -> Result<()> {
    let disks = stage.node.ok("ls /sys/class/iscsi_session/session*/device/target*/*/block | grep -c ^sd")?;
    if disks.trim() != "1" {
        bail!("{disks} disks of the target are attached");
    }
    Ok(())
}
