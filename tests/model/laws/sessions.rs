//! What the steps outside the protocol do to the facts of a node: sessions, records and paths, sizes, and a person's decisions.

use super::{
    machine::{World, seen},
    *,
};
use apply::{machine::Machine as _, protocol};
use plan::step::{AddPath, Grow, LogIn, RemovePath};

impl World {
    /// Does a step. The program itself does those of the protocol, and the test fails where one of them fails.
    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Node(step) => self.node_step(step),
            Step::Protocol(of_protocol) => {
                let done = protocol::step(self, of_protocol);
                assert!(done.is_ok(), "`{step}` failed: {:#}", done.unwrap_err());
            }
        }
        if self.is_staged() {
            self.settle(true);
        }
        if let Fact::Known(LunView::Seen(lun)) = &self.node.lun {
            self.behind = (**lun).clone();
        }
    }

    fn node_step(&mut self, step: &NodeStep) {
        let running = known(&mut self.node.etcd).running;
        match step {
            NodeStep::SetInitiatorName { name } => {
                self.node.initiator.name = Fact::Known(Some(name.to_string()))
            }
            NodeStep::Preflight(_) => {
                assert!(running, "trying what comes after a stop when there is no stop")
            }
            NodeStep::LogOut { sid } => {
                let sessions = known(&mut self.node.sessions);
                let free = sessions.iter().all(|session| session.sid != *sid || session.in_use.is_empty());
                assert!(free, "law 8: logging out a session that is in use");
                sessions.retain(|session| session.sid != *sid);
                if let Fact::Known(LunView::Seen(lun)) = &mut self.node.lun {
                    lun.paths.retain(|path| *path != format!("sd{sid}"));
                }
            }
            // A log-in beside sessions that are there: each portal shows the LUN as one more path of the map.
            NodeStep::LogIn(LogIn { portals, .. }) if matches!(self.node.mount, Fact::Known(Some(_))) => {
                for portal in portals {
                    let sid = known(&mut self.node.sessions).iter().map(|one| one.sid).max().unwrap_or(0) + 1;
                    known(&mut self.node.sessions).push(SeenSession {
                        configured: Some(portal.clone()),
                        in_use: Vec::new(),
                        ..shown(session(), |session| {
                            session.sid = sid;
                            session.portal = Some(portal.into());
                        })
                    });
                }
            }
            NodeStep::LogIn(_) => {
                known(&mut self.node.sessions).push(session());
                self.node.lun = Fact::Known(LunView::NotAttached);
            }
            NodeStep::SetTimeout { sid, replacement } => {
                let sessions = known(&mut self.node.sessions).iter_mut();
                for session in sessions.filter(|session| session.sid == *sid) {
                    assert!(session.is_logged_in(), "the kernel refuses it");
                    session.session.recovery_timeout = u32::try_from(replacement.0.as_secs()).ok();
                }
            }
            NodeStep::RemovePath(step) => self.remove_path(step),
            NodeStep::AddPath(step) => self.add_path(step),
            NodeStep::AttachLun(_) if matches!(self.node.mount, Fact::Known(Some(_))) => self.scan(),
            NodeStep::AttachLun(_) | NodeStep::AwaitDisk { .. } => {
                self.node.lun = Fact::Known(LunView::Seen(Box::new(self.behind.clone())))
            }
            NodeStep::Measure { .. } => assert!(self.is_staged()),
            NodeStep::ResizeMap { to, .. } => seen(&mut self.node).size = *to,
            NodeStep::Grow(Grow { from, to, .. }) => {
                assert!(self.authoritative_lun_is_mounted(), "growing what is not mounted");
                let size = seen(&mut self.node).size;
                let mount = known(&mut self.node.mount).as_mut().unwrap();
                let (free, now) = mount.free.unwrap();
                assert!(now == *from && *to <= size && from < to, "growing beyond the LUN");
                mount.free = Some((Bytes(free.0 + to.0 - from.0), *to));
            }
            NodeStep::AwaitMember(_) => {
                assert!(running, "waiting for an etcd that was not started");
                self.node.cluster = Some(Fact::Known(cluster(3)));
            }
        }
    }

    /// What multipathd does. Asserts what the guard reads again: the path is one of the map's only, and another path of it
    /// works, at a portal of the config.
    fn remove_path(&mut self, step: &RemovePath) {
        let RemovePath { map, path, sid } = step;
        let lun = seen(&mut self.node).clone();
        let sessions = known(&mut self.node.sessions);
        let is_path = |one: &SeenSession| one.in_use.iter().any(|disk| lun.paths.contains(disk));
        let works = |one: &SeenSession| {
            one.sid != *sid && one.is_logged_in() && one.configured.is_some() && is_path(one)
        };
        assert!(lun.multipath == Multipath::Mapped && lun.device == *map && lun.holders.is_empty());
        assert!(sessions.iter().any(works), "taking away a path without another that works");
        let leaves = sessions.iter_mut().find(|session| session.sid == *sid).unwrap();
        assert_eq!(leaves.in_use, std::slice::from_ref(path), "taking away a path that somebody else uses");
        leaves.in_use.clear();
        seen(&mut self.node).paths.retain(|one| one != path);
    }

    /// Each session without a disk has one then, which the map takes.
    fn scan(&mut self) {
        let sessions = known(&mut self.node.sessions).clone();
        let is_ours =
            |one: &&mut SeenSession| one.interface.as_deref() == Some("etcd-lun") && one.is_logged_in();
        let outside = seen(&mut self.node).outside_map(&sessions).len();
        let idle =
            known(&mut self.node.sessions).iter_mut().filter(is_ours).filter(|one| one.in_use.is_empty());
        let paths: Vec<_> = idle
            .skip(outside)
            .map(|one| {
                one.in_use.push(format!("scanned{}", one.sid));
                one.in_use[0].clone()
            })
            .collect();
        seen(&mut self.node).paths.extend(paths);
    }

    /// The path is the LUN's, and no session has it in use.
    fn add_path(&mut self, step: &AddPath) {
        let lun = seen(&mut self.node).clone();
        assert!(
            lun.multipath == Multipath::Mapped && lun.device == step.map && lun.paths.contains(&step.path)
        );
        let sessions = known(&mut self.node.sessions);
        assert!(sessions.iter().all(|one| !one.in_use.contains(&step.path)), "adding a path that is in use");
        let free =
            sessions.iter_mut().find(|one| one.in_use.is_empty()).expect("a session without a disk in use");
        free.in_use.push(step.path.clone());
    }

    /// What the cluster answers when it is asked by hand: nobody asks while etcd does not run, and an etcd that was
    /// started by something else serves.
    pub fn ask_cluster(&mut self) {
        let runs = self.node.etcd.known().is_some_and(|etcd| etcd.running);
        if !runs {
            self.node.cluster = None;
        } else if self.node.cluster.is_none() {
            self.node.cluster = Some(Fact::Known(cluster(3)));
        }
    }
}
