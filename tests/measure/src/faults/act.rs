//! What is done to etcd's storage.

use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use nodes::net::{Cut, Path};
use nodes::{scenarios::lost, stage::Stage};

/// What ends the session or the disk of the mounted LUN: acts of others; for how many seconds the LUN is away then, and within how
/// many a write must be acknowledged. Nothing tells a node that a LUN is mapped again which nobody uses any more, so the minute's
/// look finds it.
const LOSSES: [(&str, u64, u64); 4] =
    [("log-out", 0, 60), ("log-out, target away", 5, 60), ("unmapped", 15, 120), ("disk deleted", 0, 60)];

/// What ends by itself, and must end neither session nor filesystem.
const FAULTS: &str = "silent/refused/lossy/link down/eth1 down in the node/target killed/target frozen/target slow/\
    target ends sessions/iscsid killed/iscsid restarted/iscsid frozen";

/// Which networks have it. Without a map the session is in the first.
const PLACES: [&[Path]; 4] = [&[Path::A], &[Path::B], &Path::STORAGE, &Path::STORAGE];

/// One act.
#[derive(Debug, Clone, PartialEq)]
pub struct Act {
    pub is_loss: bool,
    pub what: &'static str,
    pub paths: &'static [Path],
    pub lasts: Duration,
    /// Within this time after its end a write must be acknowledged.
    pub limit: Duration,
}

/// A crash of etcd, to compare with. In OpenShift's pod it starts when the kernel has forgotten its last connection: 60 s after
/// its end (cluster-etcd-operator `bindata/etcd/pod.gotpl.yaml`; kernel `include/net/tcp.h`, `TCP_TIMEWAIT_LEN`).
pub const CRASH: &str = "etcd killed";

/// A crash, and then each loss, so many times in a row.
pub fn losses(times: usize) -> impl Iterator<Item = Act> {
    let act = |(what, seconds, limit)| Act {
        is_loss: true,
        what,
        paths: &Path::STORAGE,
        lasts: Duration::from_secs(seconds),
        limit: Duration::from_secs(limit),
    };
    let losses = LOSSES.into_iter().flat_map(move |loss| std::iter::repeat_n(act(loss), times));
    std::iter::once(act((CRASH, 0, 120))).chain(losses)
}

/// The faults of a seed, none longer than so many seconds. Most are short.
pub fn faults(seed: u64, longest: f64) -> impl Iterator<Item = Act> {
    let (mut chance, all) = (Rng::with_seed(seed), Vec::from_iter(FAULTS.split('/')));
    std::iter::repeat_with(move || {
        let (what, paths) = (all[chance.usize(..all.len())], PLACES[chance.usize(..PLACES.len())]);
        let lasts = Duration::from_secs_f64(0.5 + (longest - 0.5).max(0.0) * chance.f64().powi(2));
        Act { is_loss: false, what, paths, lasts, limit: Duration::from_secs(30) }
    })
}

impl Act {
    /// Plays it. Returns the moment from which on etcd's LUN can be had.
    pub fn play(&self, stage: &mut Stage) -> Result<Instant> {
        let (bed, begun, mut slow) = (Rc::clone(&stage.bed), Instant::now(), None);
        let lun = stage.target.offered().luns.first().context("no LUN is offered")?.clone();
        let cut = |how| self.paths.iter().try_for_each(|path| bed.net.cut(*path, how));
        // Each command in the node may take a second.
        let node = |script: &str| stage.node.ok(script).map(drop);
        match self.what {
            "log-out" => node(&lost::log_out())?,
            "log-out, target away" => cut(Cut::Reject).and_then(|()| node(&lost::log_out()))?,
            "unmapped" => stage.target.unmap(lun.number)?,
            CRASH => node("pkill -KILL -o -x etcd")?,
            "disk deleted" => node("echo 1 | tee /sys/class/iscsi_session/*/device/target*/*:1/delete")?,
            "silent" => cut(Cut::Drop)?,
            "refused" => cut(Cut::Reject)?,
            "lossy" => cut(Cut::Half)?,
            "link down" => self.paths.iter().try_for_each(|path| bed.net.link(*path, false))?,
            "eth1 down in the node" => node("ip link set eth1 down")?,
            "target killed" => stage.target.stop(),
            "target frozen" => stage.target.freeze()?,
            "target slow" => slow = Some(stage.target.slow_down()?),
            "iscsid killed" => cut(Cut::Reject).and_then(|()| node("pkill -KILL -x iscsid"))?,
            "iscsid restarted" => {
                cut(Cut::Drop).and_then(|()| node("systemctl restart --no-block iscsid"))?
            }
            "iscsid frozen" => cut(Cut::Reject).and_then(|()| node("pkill -STOP -x iscsid"))?,
            _ => {}
        }
        let over = Instant::now() + self.lasts;
        while let Some(left) = over.checked_duration_since(Instant::now()) {
            if self.what == "target ends sessions" {
                stage.target.end_sessions()?;
            }
            sleep(left.min(Duration::from_secs(1)));
        }
        drop(slow);
        let ended = if self.lasts.is_zero() { begun } else { Instant::now() };
        bed.net.repair()?;
        match self.what {
            "unmapped" => stage.target.map(lun)?,
            "eth1 down in the node" => node("ip link set eth1 up")?,
            "target killed" => return stage.target.restart().map(|()| Instant::now()),
            "target frozen" => stage.target.thaw()?,
            "iscsid frozen" => node("pkill -CONT -x iscsid")?,
            _ => {}
        }
        Ok(ended)
    }
}

#[test]
fn a_seed_has_its_faults_of_every_kind() {
    let of = |seed| Vec::from_iter(faults(seed, 15.0).take(200));
    assert!(of(7) == of(7) && of(7) != of(8));
    assert!(of(7).iter().all(|act| (0.5..=15.0).contains(&act.lasts.as_secs_f64())));
    assert!(FAULTS.split('/').all(|what| of(7).iter().any(|act| act.what == what)));
    assert_eq!(Vec::from_iter(losses(3).map(|act| act.what))[3..5], ["log-out", "log-out, target away"]);
}
