//! LUNs that are blank but not the right one.

use anyhow::Context;

use super::{Declined, declines, each, failed, refused};
use crate::scene::{LUN_SIZE, Wanted};
use crate::suite::Scenario;
use crate::target::{Lun, Offer, blank};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("lun/not-the-one", |stage| {
            let lun = |number| Lun::new(number, stage.lun_file(number));
            let luns = vec![lun(1), Lun { read_only: true, ..lun(2) }];
            let (wwid, found) = (lun(7).wwid(), lun(1).wwid());
            let both: [&str; 2] = [&wwid, &found];
            blank(&stage.lun_file(2), LUN_SIZE)?;
            stage.target.offer(Offer { luns, ..stage.target.offered().clone() })?;
            let ours = Wanted::default;
            let cases: [(&str, Wanted, Declined); 4] = [
                (
                    "too small",
                    Wanted { min_size: "8GiB".into(), ..ours() },
                    refused(&["has 1GiB", "the config wants 8GiB"]),
                ),
                ("read-only", Wanted { lun: 2, ..ours() }, refused(&["read-only"])),
                ("another WWID", Wanted { wwid: Some(wwid.clone()), ..ours() }, refused(&both)),
                (
                    "no such LUN",
                    Wanted { lun: 9, attach_timeout: "10s".into(), ..ours() },
                    failed(&["LUN 9"]),
                ),
            ];
            each(&cases, |(name, wanted, how)| declines(stage, wanted, *how).context(*name))
        }),
        Scenario::new("lun/mounted-elsewhere", |stage| {
            stage.configure(&Wanted::default())?;
            stage.migrate()?;
            stage.node.ok("systemctl stop etcd && systemctl stop var-lib-etcd.mount && mkdir -p /mnt/x && mount /dev/disk/by-label/etcd-lun /mnt/x")?;
            super::check(&stage.agent("apply")?, refused(&["/mnt/x"]))?;
            stage.node.ok("umount /mnt/x")?;
            stage.apply()?;
            stage.is_on_lun()
        }),
    ]
}
