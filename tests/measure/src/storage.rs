//! What `bench` says of a good and of a bad LUN, by the commands that docs/bench.md gives for an additional LUN.
//!
//! Both lie in this machine's memory, behind a target of the same kind. The bad one's target gets a tenth of its time only, as a
//! pool does that others keep busy. Initiator, network, target and XFS are real, and the node's processor is emulated: each figure
//! has some milliseconds of that.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use bed::bed::Bed;
use bed::etcd;
use bed::node::Node;
use bed::scene;
use bed::target::{self, IQN, Lun, Offer, Target};
use bed::vm::Options;

/// Where the file of a LUN lies in memory.
const MEMORY: &str = "/dev/shm";
/// The bed's target.
const PORTAL: &str = "10.77.0.1";
/// Room for the writes of `bench`.
const SIZE: u64 = 1 << 30;

/// The file of the LUN, which goes with this value.
struct Backing(PathBuf);

impl Drop for Backing {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// Measures both, and prints what a person would see.
pub fn play(bed: &Rc<Bed>, agent: &Path) -> Result<()> {
    let backing = Backing(Path::new(MEMORY).join(format!("etcd-lun-lab-{}", std::process::id())));
    target::blank(&backing.0, SIZE)?;
    let target = Target::start(bed, Offer::open(vec![Lun::new(1, backing.0.clone())]))?;
    let node = Node::boot(bed, Options::default())?;
    scene::install(&node, agent)?;
    etcd::start(&node)?;
    // Red Hat CoreOS makes one at its first boot, and the bed's image has none.
    node.put("/etc/iscsi/initiatorname.iscsi", 0o600, b"InitiatorName=iqn.1994-05.com.redhat:bench\n")?;
    node.ok(&format!(
        "iscsiadm -m discovery -t sendtargets -p {PORTAL} && iscsiadm -m node -T {IQN} -p {PORTAL} --login && udevadm settle"
    ))?;
    let disk =
        node.ok("lsblk --noheadings --nodeps --output PATH,TRAN | awk '$2 == \"iscsi\" { print $1 }'")?;
    if disk.lines().count() != 1 {
        bail!("the target shows one LUN, and the node has {disk:?}");
    }
    node.ok(&format!("mkfs.xfs -q {disk} && mount {disk} /mnt"))?;
    for good in [true, false] {
        let slow = if good { None } else { Some(target.slow_down()?) };
        let seen =
            node.run_within("etcd-lun bench /mnt --against /var/lib/etcd --writes 2000", scene::LIMIT)?;
        drop(slow);
        let word = if good { "good" } else { "bad" };
        println!("\n{word}: exit code {}\n{}{}", seen.code, seen.stderr, seen.stdout);
        let expected = if good { 0 } else { 4 };
        if seen.code != expected {
            bail!("a {word} LUN should end with exit code {expected}");
        }
    }
    node.ok("umount /mnt").context("leaving nothing behind").map(drop)
}
