//! Failures in the middle of the copy: the attempt fails, and etcd runs on the local disk as before.

use anyhow::Result;

use super::{check, declines, failed, refused, unnamed};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("copy/more-data-than-room", |stage| {
            more_data(stage, 1100)?;
            // etcd-lun must see this before it writes anything, and not only after a failed copy.
            declines(stage, &Wanted::default(), refused("no-room", &[&stage.wwid(1), "1GiB"]))
        }),
        Scenario::new("copy/storage-out-of-space", |stage| {
            more_data(stage, 160)?;
            stage.thin_lun(120 << 20)?;
            stage.configure(&Wanted::default())?;
            let output = stage.agent("apply")?;
            // rsync finds it, or the sync after it. The kernel's error names the disk.
            let full = unnamed(&["sda", "LUN 1"]).in_step("pre-copy");
            let checked = check(&output, full).and_then(|()| stage.is_untouched().map(drop));
            stage.end_thin_lun()?;
            checked
        }),
        Scenario::new("copy/interrupted-by-a-person-then-killed", |stage| {
            more_data(stage, 80)?;
            stage.configure(&Wanted::default())?;
            ended(stage, "INT")?;
            stage.is_untouched()?;
            ended(stage, "KILL")?;
            stage.apply()?;
            stage.is_on_lun()
        }),
        Scenario::new("copy/unreadable-file", |stage| {
            stage.node.ok(VAR_LIB_WITH_A_BAD_SECTOR)?;
            stage.configure(&Wanted::default())?;
            check(&stage.agent("apply")?, failed("rsync-failed", &["member/snap/unreadable"]))?;
            stage.is_untouched().map(drop)
        }),
    ]
}

/// Makes etcd's directory larger, with a file that etcd ignores.
fn more_data(stage: &Stage, mebibytes: u32) -> Result<()> {
    let file = "/var/lib/etcd/member/snap/0000000000000001-0000000000000001.snap.broken";
    let script = format!(
        "set -e; head -c {mebibytes}M </dev/urandom >{file}; chown etcd: {file}; chmod 600 {file}; sync {file}"
    );
    stage.node.ok(&script).map(drop)
}

/// Sends the agent a signal while its rsync runs. rsync is stopped meanwhile, because it may be quick. If the agent was killed,
/// rsync stays so, until PID 1 or the next run ends it. rsync has a process group of its own, so that Ctrl-C on a terminal
/// reaches the agent alone.
fn ended(stage: &Stage, signal: &str) -> Result<()> {
    let strike = format!(
        "until pkill -STOP -x rsync; do sleep 0.02; done; sleep 1
         test $(ps -o pgid= -p $(pgrep -x -o rsync)) != $(ps -o pgid= -p $(pgrep -x etcd-lun)) || exit
         pkill -{signal} -x etcd-lun; sleep 1; [ {signal} = KILL ] || pkill -CONT -x rsync; true"
    );
    stage.node.run_while("etcd-lun apply", scene::LIMIT, || stage.node.ok(&strike).map(drop))?;
    Ok(())
}

/// Puts `/var/lib` on a disk with one bad sector. The sector is part of one file in etcd's directory.
const VAR_LIB_WITH_A_BAD_SECTOR: &str = r#"set -e
systemctl stop etcd
head -c 8192 </dev/urandom >/var/lib/etcd/member/snap/unreadable
chown etcd: /var/lib/etcd/member/snap/unreadable
truncate -s 600M /root/disk
disk=$(losetup -f --show /root/disk)
sectors=$(blockdev --getsz $disk)
echo "0 $sectors linear $disk 0" | dmsetup create bad
mkfs.ext4 -q /dev/mapper/bad
mkdir /mnt/new
mount /dev/mapper/bad /mnt/new
cp -a /var/lib/etcd /var/lib/etcd-lun /var/lib/systemd /mnt/new/
umount /mnt/new
mount /dev/mapper/bad /var/lib
first=$(filefrag -v -b512 /var/lib/etcd/member/snap/unreadable | awk '$1 == "0:" { sub(/\.\./, "", $4); print $4 }')
dmsetup suspend bad
dmsetup load bad <<X
0 $first linear $disk 0
$first 8 error
$((first + 8)) $((sectors - first - 8)) linear $disk $((first + 8))
X
dmsetup resume bad
echo 3 >/proc/sys/vm/drop_caches
! cat /var/lib/etcd/member/snap/unreadable >/dev/null
systemctl start etcd"#;
