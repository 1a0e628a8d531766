//! Portals, discovery, CHAP and ACLs: what must work, and what must fail in time and say why.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::{Declined, declines, failed, refused};
use crate::net::{Cut, Path};
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{Account, Offer};

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = vec![
        Scenario::new("login/target-absent", |stage| {
            let wanted = Wanted { iqn: "iqn.2024-02.com.example:none".into(), ..short() };
            in_time(stage, &wanted, failed(&["iqn.2024-02.com.example:none"]))
        }),
        Scenario::new("login/target-absent-static", |stage| {
            let wanted =
                Wanted { iqn: "iqn.2024-02.com.example:none".into(), static_records: true, ..short() };
            in_time(stage, &wanted, failed(&["iqn.2024-02.com.example:none"]))
        }),
        Scenario::new("login/wrong-secret", |stage| {
            let chap = Some(Account::new("initiator1", "bed-Wrong-s3cret"));
            in_time(
                stage,
                &Wanted { chap, ..short() },
                failed(&["logging in to", "authentication failed", "check username and secret"]),
            )
        }),
        Scenario::new("login/wrong-discovery-secret", |stage| {
            stage.target.offer(Offer {
                discovery_chap: Some(scene::discovery()),
                ..stage.target.offered().clone()
            })?;
            let wrong = Some(Account::new("discoverer1", "bed-Wrong-s3cret"));
            in_time(
                stage,
                &Wanted { discovery_chap: wrong, ..short() },
                failed(&["asking 10.77.0.1:3260", "authentication failed", "check username and secret"]),
            )
        }),
        Scenario::new("login/wrong-mutual-secret", |stage| {
            stage.target.offer(Offer { mutual: Some(scene::mutual()), ..stage.target.offered().clone() })?;
            let wrong = Some(Account::new("target1", "bed-Wrong-s3cret"));
            in_time(stage, &Wanted { mutual: wrong, ..short() }, failed(&["CHAP"]))
        }),
        Scenario::new("login/not-in-the-acl", |stage| {
            let only_initiator = Some("iqn.1994-05.com.redhat:other".into());
            stage.target.offer(Offer { only_initiator, ..stage.target.offered().clone() })?;
            in_time(stage, &short(), failed(&[crate::target::IQN]))
        }),
        Scenario::new("login/portal-refused", |stage| {
            stage.bed.net.cut(Path::A, Cut::Reject)?;
            in_time(stage, &short(), failed(&["10.77.0.1"]))
        }),
        Scenario::new("login/portal-silent", |stage| {
            stage.bed.net.cut(Path::A, Cut::Drop)?;
            in_time(stage, &short(), failed(&["10.77.0.1"]))
        }),
        Scenario::new("login/link-down", |stage| {
            stage.bed.net.link(Path::A, false)?;
            in_time(stage, &short(), failed(&["10.77.0.1"]))
        }),
        Scenario::new("login/target-hangs", |stage| {
            stage.target.freeze()?;
            in_time(stage, &short(), failed(&["10.77.0.1"]))
        }),
        Scenario::new("login/portal-name-unknown", |stage| {
            let portals = vec!["no-such-target:3260".into()];
            in_time(stage, &Wanted { portals, ..short() }, failed(&["no-such-target"]))
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
        Scenario::new(&format!("login/{name}"), move |stage: &mut Stage| {
            let mut wanted = Wanted::default();
            set(stage, &mut wanted)?;
            File::options().write(true).open(stage.lun())?.write_all_at(b"somebody's", 0)?;
            declines(
                stage,
                &wanted,
                refused(&["LUN naa.", "holds bytes that no tool recognises at offset 0"]),
            )
        })
    }));
    scenarios
}

type Setting = fn(&mut Stage, &mut Wanted) -> Result<()>;

/// Ways in that must lead to a migrated node.
const WORKS: &[(&str, Setting)] = &[
    ("no-chap", |stage, wanted| {
        wanted.chap = None;
        stage.target.offer(Offer { chap: None, ..stage.target.offered().clone() })
    }),
    ("static-records", |_, wanted| {
        wanted.static_records = true;
        Ok(())
    }),
    ("two-portals", |stage, wanted| two_portals(stage, wanted, None)),
    ("two-portals-second-silent", |stage, wanted| two_portals(stage, wanted, Some((Path::B, Cut::Drop)))),
];

/// Ways in that must lead to the LUN. What a migration does from there on is the same for all of them, and is seen
/// elsewhere; here it finds somebody's data.
const LEADS_IN: &[(&str, Setting)] = &[
    ("mutual-chap", |stage, wanted| {
        wanted.mutual = Some(scene::mutual());
        stage.target.offer(Offer { mutual: Some(scene::mutual()), ..stage.target.offered().clone() })
    }),
    ("discovery-chap", |stage, wanted| {
        wanted.discovery_chap = Some(scene::discovery());
        stage
            .target
            .offer(Offer { discovery_chap: Some(scene::discovery()), ..stage.target.offered().clone() })
    }),
    ("acl", |stage, _| {
        let only_initiator = Some(scene::INITIATOR.into());
        stage.target.offer(Offer { only_initiator, ..stage.target.offered().clone() })
    }),
    ("portal-by-name", |_, wanted| {
        wanted.portals = vec!["target-a".into()];
        Ok(())
    }),
    ("portal-by-ipv6", |_, wanted| {
        wanted.portals = vec![Path::A.portal_v6()];
        Ok(())
    }),
    ("initiator-name-was-another", |stage, _| {
        stage.node.ok("echo InitiatorName=iqn.1993-08.org.debian:01:old >/etc/iscsi/initiatorname.iscsi && systemctl start iscsid").map(drop)
    }),
    ("iscsid-failed-for-want-of-a-name", |stage, _| {
        stage.node.run("iscsiadm -m discovery -t sendtargets -p 10.77.0.1").map(drop)
    }),
    ("two-portals-first-refused", |stage, wanted| two_portals(stage, wanted, Some((Path::A, Cut::Reject)))),
    ("two-portals-static-first-silent", |stage, wanted| {
        wanted.static_records = true;
        two_portals(stage, wanted, Some((Path::A, Cut::Drop)))
    }),
];

fn two_portals(stage: &mut Stage, wanted: &mut Wanted, cut: Option<(Path, Cut)>) -> Result<()> {
    wanted.portals = vec![Path::A.portal(), Path::B.portal()];
    // As on a Red Hat node set up by `mpathconf --enable`.
    stage.node.ok(
        "printf 'defaults {\\n find_multipaths yes\\n user_friendly_names yes\\n}\\n' >/etc/multipath.conf && systemctl start multipathd",
    )?;
    match cut {
        Some((path, how)) => stage.bed.net.cut(path, how),
        None => Ok(()),
    }
}

/// A config for a target that can't be reached: the agent gives up soon.
fn short() -> Wanted {
    Wanted { attach_timeout: "15s".into(), ..Wanted::default() }
}

/// The agent gives up within its own time limit, give or take a slow machine.
fn in_time(stage: &Stage, wanted: &Wanted, how: Declined) -> Result<()> {
    let begun = Instant::now();
    declines(stage, wanted, how)?;
    let took = begun.elapsed();
    if took > Duration::from_secs(60) {
        bail!("attach_timeout is {}, and it took {} s", wanted.attach_timeout, took.as_secs());
    }
    Ok(())
}
