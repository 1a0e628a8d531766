//! Portals, discovery, CHAP and ACLs. Some cases must work; the others must fail in time with a message that
//! gives the reason.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Declined, check, declines, each, failed, refused, scribble};
use crate::net::{Cut, Machine, Path};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{self, Account, IQN, Lun, Offer, Target};

/// The name of a target that nobody has.
const ABSENT: &str = "iqn.2024-02.com.example:none";

/// What iscsiadm itself says of a discovery and of a log-in that fail.
pub(super) const NO_DISCOVERY: &str = "Could not perform SendTargets discovery";
pub(super) const NO_LOGIN: &str = "Could not login to";

/// Nobody answers at the portal. iscsiadm finds that out, or has to be ended.
pub(super) const NO_ANSWER: Declined =
    failed("iscsiadm-failed", &["10.77.0.1:3260"]).or_named("no-session").in_step("log-in");

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = vec![
        Scenario::new("login/nobody-there", |stage| {
            stage.target.offer(Offer {
                only_initiator: Some("iqn.1994-05.com.redhat:other".into()),
                ..stage.target.offered().clone()
            })?;
            let absent = Wanted { iqn: ABSENT.into(), ..short() };
            let cases: [(Wanted, Declined); 4] = [
                (absent.clone(), failed("target-not-announced", &[ABSENT, "10.77.0.1:3260"])),
                (Wanted { static_records: true, ..absent }, failed("iscsiadm-failed", &[ABSENT])),
                (
                    Wanted { portals: vec!["no-such-target:3260".into()], ..short() },
                    failed("portal-without-address", &["no-such-target:3260"]),
                ),
                // The target does not let this initiator in: it does not show itself, or refuses the log-in.
                (short(), failed("target-not-announced", &[IQN]).or_named("iscsiadm-failed")),
            ];
            each(&cases, |(wanted, how)| in_time(stage, wanted, how.in_step("log-in")))
        }),
        Scenario::new("login/wrong-secrets", |stage| {
            stage.target.offer(Offer {
                discovery_chap: Some(scene::discovery()),
                mutual: Some(scene::mutual()),
                ..stage.target.offered().clone()
            })?;
            let right = || Wanted {
                discovery_chap: Some(scene::discovery()),
                mutual: Some(scene::mutual()),
                ..short()
            };
            let other = |user| Some(Account::new(user, "bed-Wrong-s3cret"));
            let no_md5 = Some("[\"SHA3-256\"]".into());
            let cases: [(Wanted, Declined); 4] = [
                // tgtd knows no newer algorithm than SHA1. It is asked for its targets first.
                (
                    Wanted { algs: no_md5, ..right() },
                    failed("iscsiadm-failed", &["10.77.0.1:3260", NO_DISCOVERY, "target.chap.algs"]),
                ),
                (
                    Wanted { chap: other("initiator1"), ..right() },
                    failed("iscsiadm-failed", &["10.77.0.1:3260", NO_LOGIN, "24"]),
                ),
                (
                    Wanted { discovery_chap: other("discoverer1"), ..right() },
                    failed("iscsiadm-failed", &["10.77.0.1:3260", NO_DISCOVERY, "24"]),
                ),
                (
                    Wanted { mutual: other("target1"), ..right() },
                    failed("iscsiadm-failed", &["10.77.0.1:3260", NO_LOGIN]),
                ),
            ];
            each(&cases, |(wanted, how)| in_time(stage, wanted, how.in_step("log-in")))
        }),
        Scenario::new("login/no-answer", |stage| {
            let begin: [fn(&Stage) -> Result<()>; 4] = [
                |stage| stage.bed.net.cut(Path::A, Cut::Reject),
                |stage| stage.bed.net.cut(Path::A, Cut::Drop),
                |stage| stage.bed.net.link(Path::A, false),
                |stage| stage.target.freeze(),
            ];
            each(begin, |begin| {
                begin(stage)?;
                in_time(stage, &short(), NO_ANSWER)?;
                stage.target.thaw()?;
                stage.bed.net.repair()
            })
        }),
        Scenario::new("login/target-comes-up-late", |stage| {
            stage.configure(&Wanted::default())?;
            stage.target.stop();
            let Stage { node, target, .. } = &mut *stage;
            let (output, ()) = node.run_while("etcd-lun apply", scene::LIMIT, || {
                std::thread::sleep(Duration::from_secs(15));
                target.restart()
            })?;
            if output.code != 0 {
                bail!("the target came up 15 s late, within attach_timeout: {output}");
            }
            stage.is_on_lun()
        }),
        Scenario::new("login/what-passes-by-itself", passes_by_itself),
        Scenario::new("login/lun-at-another-portal", lun_at_another_portal),
        Scenario::new("login/large-packets-are-lost", large_packets_are_lost),
    ];
    scenarios.extend(WORKS.iter().map(|(name, set)| {
        Scenario::new(&format!("login/{name}"), move |stage: &mut Stage| {
            let mut wanted = Wanted::default();
            set(stage, &mut wanted)?;
            stage.configure(&wanted)?;
            stage.apply()?;
            stage.is_on_lun()
        })
    }));
    scenarios.extend(LEADS_IN.iter().map(|(name, set)| {
        Scenario::new(&format!("login/{name}"), move |stage: &mut Stage| leads_in(stage, *set))
    }));
    scenarios.push(Scenario::new("login/ways-in", |stage| {
        each(ONE_AFTER_ANOTHER, |(name, set)| {
            leads_in(stage, *set).context(*name)?;
            stage.offer_luns(1)
        })
    }));
    scenarios
}

/// First the portal's name can't be resolved, then the target isn't announced, then it has no such LUN. One run by hand
/// waits for all three, and says what it waits for.
fn passes_by_itself(stage: &mut Stage) -> Result<()> {
    let offered = stage.target.offered().clone();
    let luns = vec![Lun::new(2, stage.lun_file(2))];
    target::blank(&stage.lun_file(2), scene::LUN_SIZE)?;
    stage.target.offer(Offer { iqn: "iqn.2024-02.com.example:starting".into(), ..offered.clone() })?;
    let portals = vec!["target-late".into()];
    stage.configure(&Wanted { portals, attach_timeout: "2min".into(), ..Wanted::default() })?;
    let Stage { node, target, .. } = &mut *stage;
    let (output, ()) = node.run_while("etcd-lun apply", scene::LIMIT, || {
        let said = |what: &str| {
            node.ok(&format!(
                "for i in $(seq 200); do grep -q 'WARN .*{what}' /run/bed-meanwhile.err && exit; sleep 0.3; done; exit 1"
            ))
        };
        // open-iscsi's words: it has one exit code for this and for a portal without targets.
        said("cannot resolve host name target-late")?;
        std::thread::sleep(Duration::from_secs(10));
        node.ok("echo 10.77.0.1 target-late >>/etc/hosts")?;
        said("iqn.2024-02.com.example:starting")?;
        target.offer(Offer { luns: luns.clone(), ..offered.clone() })?;
        said(&luns[0].wwid())?;
        target.map(offered.luns[0].clone())
    })?;
    if output.code != 0 {
        bail!("everything came within attach_timeout: {output}");
    }
    stage.is_on_lun()
}

/// The first portal lets the node in, and the LUN is not there: as at the controller that an array has not mapped a volume to.
/// Then it is there, and cannot be read, as over a standby controller. So it is at the migration, and at a boot.
fn lun_at_another_portal(stage: &mut Stage) -> Result<()> {
    let portals = vec![Path::A.portal(), Path::B.portal()];
    let wanted = Wanted { portals, attach_timeout: "1min".into(), ..Wanted::default() };
    stage.target.only_at(&[Path::B.portal()])?;
    let other = Lun { volume: 7, ..Lun::new(7, stage.lun_file(7)) };
    target::blank(&other.file, scene::LUN_SIZE)?;
    let empty = Offer { luns: vec![other], ..stage.target.offered().clone() };
    let mut first = Target::start_at(&stage.bed, "tgt-a", &[Path::A.portal()], empty.clone())?;
    let is_at_b = |stage: &Stage| -> Result<()> {
        let at = stage.node.ok("cat /sys/class/iscsi_connection/connection*/persistent_address")?;
        if at.trim() != Path::B.target() {
            bail!("the sessions are at {at:?}, and the LUN is at {}", Path::B.target());
        }
        stage.is_on_lun()
    };
    stage.configure(&wanted)?;
    stage.apply()?;
    is_at_b(stage)?;
    // At a boot the first portal shows the LUN, and a read of it fails.
    let luns = stage.target.offered().luns.clone();
    first.offer(Offer { luns, ..stage.target.offered().clone() })?;
    first.set_standby(1, true)?;
    stage.node.reboot()?;
    // The kernel itself waits up to 100 s for such a disk (sd_spinup_disk() in drivers/scsi/sd.c).
    stage.apply()?;
    is_at_b(stage)?;
    // Nowhere: the message names each portal.
    stage.node.ok("systemctl stop etcd var-lib-etcd.mount && iscsiadm -m node --logout")?;
    first.offer(empty)?;
    stage.target.offer(Offer { luns: Vec::new(), ..stage.target.offered().clone() })?;
    stage.configure(&Wanted { attach_timeout: "10s".into(), ..wanted })?;
    let nowhere = failed("lun-not-shown", &["LUN 1", "10.77.0.1:3260", "10.78.0.1:3260"]);
    check(&stage.agent("apply")?, nowhere.in_step("attach-lun"))
}

/// Node and target agree on jumbo frames, and a switch between them loses them. The log-in works, because its packets are small,
/// and no read does.
fn large_packets_are_lost(stage: &mut Stage) -> Result<()> {
    stage.bed.net.take_packets_of(9000, Machine::Node, Path::A)?;
    stage.node.ok("ip link set eth1 mtu 9000")?;
    stage.bed.net.lose_large_packets(Path::A)?;
    // Either udev or the program's own read finds first that the disk gives no data.
    let values = ["eth1", "9000", "ping -M do -s 8972 10.77.0.1"];
    let unusable = failed("lun-unreadable", &values).or_named("disk-not-processed");
    declines(stage, &Wanted { attach_timeout: "45s".into(), ..Wanted::default() }, unusable)?;
    // The cure: the node's packets fit.
    stage.node.ok("ip link set eth1 mtu 1500; iscsiadm -m session && iscsiadm -m node --logout || true")?;
    stage.bed.net.repair()?;
    stage.apply()?;
    stage.is_on_lun()
}

/// Checks that the agent reaches the LUN. After that a migration is the same for all cases, and other
/// scenarios test it. Here the LUN holds another owner's data, so the agent refuses it.
fn leads_in(stage: &mut Stage, set: Setting) -> Result<()> {
    let mut wanted = Wanted::default();
    set(stage, &mut wanted)?;
    scribble(&stage.lun(), 0, b"somebody's")?;
    // The second value is the offset of the first byte.
    declines(stage, &wanted, refused("foreign-content", &[&stage.wwid(1), "0"]))
}

type Setting = fn(&mut Stage, &mut Wanted) -> Result<()>;

/// Login cases after which the node must be migrated.
const WORKS: &[(&str, Setting)] =
    &[("two-portals-second-silent", |stage, wanted| two_portals(stage, wanted, Path::B, Cut::Drop))];

/// Login cases in which the agent must reach the LUN. Each has a reset node.
const LEADS_IN: &[(&str, Setting)] = &[
    ("initiator-name-was-another", |stage, _| {
        stage.node.ok("echo InitiatorName=iqn.1993-08.org.debian:01:old >/etc/iscsi/initiatorname.iscsi && systemctl start iscsid").map(drop)
    }),
    ("iscsid-failed-for-want-of-a-name", |stage, _| {
        stage.node.run("iscsiadm -m discovery -t sendtargets -p 10.77.0.1").map(drop)
    }),
    ("two-portals-first-refused", |stage, wanted| two_portals(stage, wanted, Path::A, Cut::Reject)),
    ("two-portals-static-first-silent", |stage, wanted| {
        wanted.static_records = true;
        two_portals(stage, wanted, Path::A, Cut::Drop)
    }),
];

/// Login cases that run one after the other on one node.
const ONE_AFTER_ANOTHER: &[(&str, Setting)] = &[
    ("mutual CHAP", |stage, wanted| {
        wanted.mutual = Some(scene::mutual());
        stage.target.offer(Offer { mutual: Some(scene::mutual()), ..stage.target.offered().clone() })
    }),
    ("no CHAP", |stage, wanted| {
        wanted.chap = None;
        stage.target.offer(Offer { chap: None, ..stage.target.offered().clone() })
    }),
    ("a secret with characters that files and shells have a use for", |stage, wanted| {
        let odd = Account::new("initiator1", "b#d \"s3=c'r $t");
        wanted.chap = Some(odd.clone());
        stage.target.offer(Offer { chap: Some(odd), ..stage.target.offered().clone() })
    }),
    ("CHAP for discovery", |stage, wanted| {
        wanted.discovery_chap = Some(scene::discovery());
        stage
            .target
            .offer(Offer { discovery_chap: Some(scene::discovery()), ..stage.target.offered().clone() })
    }),
    ("no discovery", |_, wanted| {
        wanted.static_records = true;
        Ok(())
    }),
    ("a target with a list of initiators", |stage, _| {
        let only_initiator = Some(scene::INITIATOR.into());
        stage.target.offer(Offer { only_initiator, ..stage.target.offered().clone() })
    }),
    ("a portal by its name", |_, wanted| {
        wanted.portals = vec!["target-a".into()];
        Ok(())
    }),
    ("a portal by its IPv6 address", |_, wanted| {
        wanted.portals = vec![Path::A.portal_v6()];
        Ok(())
    }),
];

fn two_portals(stage: &mut Stage, wanted: &mut Wanted, path: Path, how: Cut) -> Result<()> {
    wanted.portals = vec![Path::A.portal(), Path::B.portal()];
    // As on a Red Hat node after `mpathconf --enable`.
    stage.node.ok(
        "printf 'defaults {\\n find_multipaths yes\\n user_friendly_names yes\\n}\\n' >/etc/multipath.conf && systemctl start multipathd",
    )?;
    stage.bed.net.cut(path, how)
}

/// A config for a target that cannot be reached. The agent gives up early.
fn short() -> Wanted {
    Wanted { attach_timeout: "15s".into(), ..Wanted::default() }
}

/// Checks that the agent declines, and gives up within its time limit plus some time for a slow machine.
fn in_time(stage: &Stage, wanted: &Wanted, how: Declined) -> Result<()> {
    let begun = Instant::now();
    declines(stage, wanted, how)?;
    let took = begun.elapsed();
    if took > Duration::from_secs(60) {
        bail!("attach_timeout is {}, and it took {} s", wanted.attach_timeout, took.as_secs());
    }
    Ok(())
}
