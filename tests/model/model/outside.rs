//! Changes of the world that `apply` does not make: by etcd, the power, the target, the array, and other
//! machines.

use crate::run::Runtime;
use crate::world::{Barred, Disk, Etcd, Local, Stamp, Start, Tree, World, Writes};

/// Enough for an old, a newer and the newest copy.
const MOST_WRITES: Writes = 2;

impl World {
    /// etcd accepts a write. Returns `None` if etcd does not run, or has accepted the model's maximum.
    pub fn written(self) -> Option<Self> {
        if self.truth == MOST_WRITES {
            return None;
        }
        let truth = self.truth + 1;
        match (self.etcd, self.disk) {
            (Etcd::OnLocal, _) if self.elsewhere => Some(Self { truth, ..self }),
            (Etcd::OnLocal, _) => Some(Self { truth, ..self.with_local(truth) }),
            (Etcd::OnLun, Disk::Xfs { id, stamp, .. }) => {
                Some(Self { truth, disk: Disk::Xfs { id, tree: Tree::Whole(truth), stamp }, ..self })
            }
            _ => None,
        }
    }

    /// Another last write in the local data, which may have been moved under whoever has it open.
    fn with_local(self, writes: Writes) -> Self {
        match (self.local, self.aside) {
            (Local::Data(_), _) => Self { local: Local::Data(writes), ..self },
            (_, Some(_)) => Self { aside: Some(writes), ..self },
            (_, None) => Self { barred: Some(Barred { writes, returns_as: None }), ..self },
        }
    }

    /// A container of etcd's pod that has not ended writes to the directory that it sees. Returns `None` if there is none.
    pub fn written_by_sidecar(self) -> Option<Self> {
        if !self.sidecars || self.truth == MOST_WRITES {
            return None;
        }
        let truth = self.truth + 1;
        Some(match (self.mounted, self.disk) {
            (true, Disk::Xfs { id, stamp, .. }) => {
                Self { truth, disk: Disk::Xfs { id, tree: Tree::Whole(truth), stamp }, ..self }
            }
            (false, _) if matches!(self.local, Local::Data(_)) || self.aside.is_some() => {
                Self { truth, ..self.with_local(truth) }
            }
            // What it sees was moved away or unmounted: nothing will read there again.
            _ => Self { truth, ..self },
        })
    }

    /// Something starts etcd: systemd, the kubelet or a person. An error means that writes are lost.
    pub fn etcd_started(self) -> Result<Option<Self>, String> {
        if self.is_running() {
            return Ok(None);
        }
        // The kubelet starts a pod again after all its containers have ended.
        let alone = Self { sidecars: false, ..self };
        Ok(Some(match self.start()? {
            Start::Nowhere => Self { etcd: Etcd::Failed, ..alone },
            Start::Local if self.elsewhere => Self { etcd: Etcd::OnLocal, ..alone },
            Start::Local => {
                let meddled = self.meddled || self.record_says_lun();
                Self { etcd: Etcd::OnLocal, local: Local::Data(self.truth), meddled, ..alone }
            }
            // Without the target, etcd cannot read its data.
            Start::Lun if !self.reachable => Self { etcd: Etcd::Failed, ..alone },
            Start::Lun => Self { etcd: Etcd::OnLun, mounted: true, ..alone },
        }))
    }

    /// Something starts etcd, which accepts a write and ends. Returns `None` if it cannot.
    pub fn flickered(self) -> Result<Option<Self>, String> {
        let running = self.etcd_started()?.filter(World::is_running);
        let written = running.and_then(World::written);
        Ok(written.map(|after| Self { etcd: Etcd::Down, meddled: true, ..after }))
    }

    /// The power fails and comes back. The note that etcd-lun stopped a unit is in /run; a manifest stays parked.
    pub fn rebooted(self, runtime: Runtime) -> Self {
        let stopped_by_us = self.stopped_by_us && runtime == Runtime::StaticPod;
        let etcd = if stopped_by_us { Etcd::Down } else { Etcd::Queued };
        let down = Self { session: false, mounted: false, shut: false, sidecars: false, ..self };
        Self { etcd, stopped_by_us, ..down.settled() }
    }

    /// The target is lost. A mounted filesystem stays mounted, but etcd on it fails.
    pub fn lost_target(self) -> Self {
        let etcd = if self.etcd == Etcd::OnLun { Etcd::Failed } else { self.etcd };
        Self { reachable: false, session: self.session && self.mounted, etcd, ..self }
    }

    /// The filesystem shuts down, because the target was gone for longer than the kernel waits, or refused a
    /// write.
    pub fn shut_down(self) -> Option<Self> {
        let etcd = if self.etcd == Etcd::OnLun { Etcd::Failed } else { self.etcd };
        (self.mounted && !self.shut).then_some(Self { shut: true, etcd, ..self })
    }

    /// Another computer mounts the LUN that is mounted here, and uses it. The newest writes may be lost then.
    fn used_beneath(self) -> Option<Self> {
        let can = self.mounted && !self.shut && !self.beneath;
        can.then_some(Self { beneath: true, robbed: true, ..self })
    }

    /// A second volume with the LUN's WWID comes, or goes. Where the map is in use the path to the LUN fails: the map is the other volume.
    fn second_volume(self) -> Option<Self> {
        if self.two_volumes && self.mounted {
            return Some(Self { disk: Disk::Blank, two_volumes: false, ..self });
        }
        // With the rest as it is after a run: more would make the search half as long again, and show the same.
        let is_plain =
            self.snapshot.is_none() && !self.session && !self.robbed && !self.meddled && !self.stopped_by_us;
        let can = self.two_volumes || self.record_says_lun() && !self.mounted && is_plain;
        can.then_some(Self { two_volumes: !self.two_volumes, ..self })
    }

    /// Everything that can happen next while etcd-lun does not run.
    pub fn outside(self, runtime: Runtime) -> Result<Vec<Self>, String> {
        let mut next = vec![self.rebooted(runtime)];
        next.extend(self.written());
        next.extend(self.written_by_sidecar());
        if self.sidecars {
            next.push(Self { sidecars: false, ..self });
        }
        next.extend(self.shut_down());
        next.extend(self.used_beneath());
        next.extend(self.second_volume());
        next.extend(self.etcd_started()?);
        if self.is_running() {
            next.push(Self { etcd: Etcd::Down, ..self });
        }
        next.push(if self.reachable { self.lost_target() } else { Self { reachable: true, ..self } });
        // Only a snapshot that looks like ours matters. Other content is covered by the changes below.
        if self.snapshot.is_none()
            && matches!(self.disk, Disk::Xfs { stamp: Some(stamp), .. } if stamp.ours && !stamp.released)
        {
            next.push(Self { snapshot: Some(self.disk), counted: false, ..self });
        }
        if !self.mounted && !self.robbed {
            next.extend(self.restored());
            if self.record.is_some() {
                // The LUN is blank; it holds other data; it is the LUN of this node's earlier installation;
                // it is our LUN after another node has used it.
                next.extend([Disk::Blank, Disk::Foreign].map(|disk| self.changed(disk)));
                next.extend(self.of_earlier_installation());
                next.extend(self.used_by_another());
            }
        }
        Ok(next)
    }

    /// The array restores the snapshot. If no use was counted since the snapshot was taken, both have the
    /// same use counter. The node cannot detect such a restore until the timer's next mark, so the model
    /// excludes it.
    fn restored(self) -> Option<Self> {
        let snapshot = self.snapshot.filter(|snapshot| *snapshot != self.disk)?;
        let unseen = self.record_says_lun() && !self.counted;
        (!unseen).then(|| self.changed(snapshot))
    }

    /// This node's LUN, after another node has used it. Returns `None` if this node has none.
    pub fn used_by_another(self) -> Option<Self> {
        self.used_by(self.record?.id, false)
    }

    /// This node's LUN, after a clone of this node has used it: it has counted a use that this node has not announced, and etcd has
    /// served there. Returns `None` if this node has none.
    pub fn used_by_a_clone(self) -> Option<Self> {
        let (Disk::Xfs { id, stamp: Some(stamp), .. }, Some(record)) = (self.disk, self.record) else {
            return None;
        };
        let last = record.announced.map_or(0, |next| next.0).max(record.activations).max(stamp.activations);
        let next = Stamp { activations: last + 1, nonce: OTHERS, released: false, ..stamp };
        let disk = Disk::Xfs { id, tree: Tree::Whole(self.truth + 1), stamp: Some(next) };
        let is_ours = stamp.ours && id == record.id && stamp.generation >= record.generation;
        is_ours.then(|| Self { disk, truth: self.truth + 1, ..self })
    }

    /// The LUN of an earlier installation of this node, which was never used, or was used: then a person decides.
    fn of_earlier_installation(self) -> Vec<Self> {
        let Some(used) = self.used_by(OTHERS, true) else { return Vec::new() };
        let mut unused = used;
        if let Disk::Xfs { stamp: Some(stamp), .. } = &mut unused.disk {
            stamp.activations = 0;
        }
        vec![unused, Self { robbed: true, ..used }]
    }

    /// The LUN holds this filesystem, which was used once more than this node knows.
    fn used_by(self, id: u8, ours: bool) -> Option<Self> {
        let record = self.record?;
        let activations = record.activations + 1;
        let (generation, nonce, released) = (record.generation, OTHERS, false);
        let stamp = Some(Stamp { generation, activations, nonce, released, ours });
        Some(self.changed(Disk::Xfs { id, tree: Tree::Whole(0), stamp }))
    }

    /// The whole content of the LUN changes at once.
    pub fn changed(self, disk: Disk) -> Self {
        Self { disk, robbed: self.robbed || self.record_says_lun(), ..self }
    }
}

/// The UUID of a filesystem that another machine made, and the nonce of its uses.
pub const OTHERS: u8 = 200;
/// The nonce of this node's uses.
pub const OWN: u8 = 1;
