//! Observes the initiator name, open-iscsi's daemons, sessions, and who uses their disks.

use config::{Config, Iscsi, Target};
use hands::{Door, Units};
use host::{Host, iscsi, mountinfo::Everywhere};
use locate::users_of;
use node::{Fact, Initiator, SeenSession};
use std::io;
use terms::{Portal, Session};

/// The daemon of multipath.
pub(super) const MULTIPATHD: &str = "multipathd.service";

/// With a local disk open-iscsi is not asked, because it may not be installed.
const NO_TARGET: &str = "not looked at: the config names a device, and no target";

pub(super) fn initiator(host: &Host, config: &Config, units: &Units) -> Initiator {
    if config.backing.iscsi().is_none() {
        return Initiator {
            name: Fact::Unknown(NO_TARGET.into()),
            multipathd_active: Fact::Unknown(NO_TARGET.into()),
        };
    }
    Initiator {
        name: iscsi::initiator_name(host).into(),
        multipathd_active: units.of(MULTIPATHD).map(|unit| unit.is_active()).into(),
    }
}

pub(super) fn all_sessions(host: &Host, config: &Config, mounts: &Everywhere<'_>) -> Fact<Vec<SeenSession>> {
    let Some(Iscsi { target, .. }) = config.backing.iscsi() else { return Fact::Unknown(NO_TARGET.into()) };
    let read = || -> io::Result<Vec<SeenSession>> {
        iscsi::sessions(host)?.into_iter().map(|session| fact(host, target, session, mounts)).collect()
    };
    read().into()
}

/// The config's portals at which no session of ours is logged in, and which accept a connection. It ends at once; nothing is
/// said.
pub fn answering(door: &Door<'_>, config: &Config) -> Vec<Portal> {
    let Some(iscsi) = config.backing.iscsi() else { return Vec::new() };
    let sessions = iscsi::sessions_of(door.host, &iscsi.target.iqn).unwrap_or_default();
    let is_up = |portal: &Portal| {
        sessions.iter().any(|one| one.is_logged_in() && one.is_at_portal_of(&iscsi.target.iqn, portal))
    };
    let without = iscsi.target.portals.iter().filter(|portal| !is_up(portal));
    without.filter(|portal| door.accepts(portal)).cloned().collect()
}

/// True if a session of ours is not logged in, and its portal accepts a connection. For a moment that is so after each outage.
pub fn is_left_alone(door: &Door<'_>, config: &Config) -> bool {
    let Some(iscsi) = config.backing.iscsi() else { return false };
    let sessions = iscsi::sessions_of(door.host, &iscsi.target.iqn).unwrap_or_default();
    let mut down = sessions.iter().filter(|one| !one.is_logged_in());
    let is_at = |one: &Session, portal: &Portal| one.is_at_portal_of(&iscsi.target.iqn, portal);
    down.any(|one| iscsi.target.portals.iter().any(|portal| is_at(one, portal) && door.accepts(portal)))
}

/// Of other programs' sessions nobody asks who uses their disks, because they are never ended. A node may have hundreds of them.
fn fact(host: &Host, target: &Target, session: Session, mounts: &Everywhere<'_>) -> io::Result<SeenSession> {
    let in_use = if session.is_of(&target.iqn) { users_of(host, &session, mounts)? } else { Vec::new() };
    let configured =
        target.portals.iter().find(|portal| session.is_at_portal_of(&target.iqn, portal)).cloned();
    Ok(SeenSession { session, configured, in_use })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test makes a machine of files")]
mod tests {
    use super::*;
    use crate::lun::Look;
    use config::Source;
    use hands::{Direct, Requester};
    use host::{Root, files::Files, transcript::Transcript};
    use nix::time::{ClockId, clock_gettime};
    use node::LunView;
    use std::time::Duration;

    /// A session with these disks.
    fn session(crowd: &Files, sid: u32, target: &str, interface: &str, disks: std::ops::Range<u32>) {
        crowd.session(sid, target, interface);
        for (number, disk) in (1..).zip(disks) {
            let name = format!("sd{disk}");
            crowd.lun(sid, number, &format!("naa.600140500000{disk:020}"), &name);
            crowd.disk(&name, &format!("8:{disk}"), 1 << 21);
        }
    }

    const CONFIG: &str = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"10.0.0.1\"]\n\
        [etcd]\nruntime = \"systemd\"\n[[node]]\nhostname = \"a\"\n\
        initiator = \"iqn.1994-05.com.redhat:node\"\nlun = 1\n";

    /// 400 disks of other programs and 250 mount namespaces, of 68 mounts each. The health check does this each minute.
    #[test]
    fn disks_of_others_cost_next_to_nothing() {
        let crowd = Files::new("crowd");
        session(&crowd, 1, "iqn.2024-02.com.example:etcd", "etcd-lun", 0..1);
        for sid in 2..=101 {
            session(
                &crowd,
                sid,
                &format!("iqn.2024-02.com.example:csi{sid}"),
                "default",
                sid * 4..sid * 4 + 4,
            );
        }
        let container: String = (0..67)
            .map(|at| format!("{} 22 0:{at} / /run/containers/{at} rw,nosuid shared:{at} - overlay overlay rw,lowerdir=/a\n", at + 100))
            .collect();
        for pid in 1..=250 {
            // The last one is the only one that has our disk mounted.
            let device = if pid == 250 { "8:0" } else { "253:7" };
            crowd.process(pid, &format!("{container}90 22 {device} / /var/lib/etcd rw - xfs /dev/sd0 rw\n"));
        }
        let host = Host::fixture(Root::new(&crowd.0), Box::new(Transcript::default())).unwrap();
        let source = Source { path: "config.toml".into(), text: CONFIG.into() };
        let config = Config::load(&[source], "0123456789abcdef0123456789abcdef", "a").unwrap();

        let spent = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
        let before = spent();
        let hands = Box::new(Direct::by_hand(&config));
        let (door, mounts) = (Door::to(&host, Requester::Person, hands), Everywhere::new(&host));
        let sessions = all_sessions(&host, &config, &mounts);
        let look =
            Look { door: &door, config: &config, staged: None, mounts: &mounts, record: &Fact::Known(None) };
        let lun = look.lun();
        let took = spent() - before;

        let sessions = sessions.require().unwrap();
        assert_eq!((sessions.len(), sessions[0].in_use.clone()), (101, vec!["sd0".to_owned()]));
        let LunView::Seen(lun) = lun.require().unwrap() else { panic!("the LUN is attached") };
        assert_eq!(lun.users.require().unwrap()[0].pid, 250);
        println!("sessions and LUN among 400 foreign disks and 250 mount namespaces: {took:?}");
        // The release takes less than this build. One look at the namespaces for each disk took a minute.
        assert!(took < Duration::from_millis(300), "{took:?}");
    }
}
