//! LUNs that are blank and still not the one.

use super::{declines, failed, refused};
use crate::scene::Wanted;
use crate::suite::Scenario;
use crate::target::{Lun, Offer};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("lun/too-small", |stage| {
            let wanted = Wanted { min_size: "8GiB".into(), ..Wanted::default() };
            declines(stage, &wanted, refused(&["has 1GiB", "8GiB wanted"]))
        }),
        Scenario::new("lun/read-only", |stage| {
            let lun = Lun { read_only: true, ..Lun::new(1, stage.lun()) };
            stage.target.offer(Offer { luns: vec![lun], ..stage.target.offered().clone() })?;
            declines(stage, &Wanted::default(), refused(&["read-only"]))
        }),
        Scenario::new("lun/wrong-wwid", |stage| {
            let wwid = Lun::new(7, stage.lun()).wwid();
            let found = Lun::new(1, stage.lun()).wwid();
            let wanted = Wanted { wwid: Some(wwid.clone()), ..Wanted::default() };
            declines(stage, &wanted, refused(&[&wwid, &found]))
        }),
        Scenario::new("lun/number-absent", |stage| {
            let wanted = Wanted { lun: 9, attach_timeout: "10s".into(), ..Wanted::default() };
            declines(stage, &wanted, failed(&["LUN 9"]))
        }),
        Scenario::new("lun/right-wwid", |stage| {
            let wwid = Some(Lun::new(1, stage.lun()).wwid());
            stage.configure(&Wanted { wwid, ..Wanted::default() })?;
            stage.apply()?;
            stage.is_on_lun()
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
