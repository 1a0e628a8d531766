//! Sessions that come and go with the config's portals while etcd runs: over every combination of what sessions, map and
//! records can be, and for every plan what it may do.

use super::*;
use plan::step::{AddPath, AttachLun, RemovePath};

const KEPT: &str = "10.77.0.1";
const NEW: &str = "10.78.0.1";
const FORMER: &str = "10.79.0.1";

fn two_portals() -> Config {
    let mut config = config();
    let mut iscsi = config.backing.iscsi().unwrap().clone();
    iscsi.target.portals = [KEPT, NEW].map(|portal| portal.parse().unwrap()).into();
    config.backing = config::Backing::Iscsi(Box::new(iscsi));
    config
}

/// Sessions at one portal: none, and one in each state that matters. `sdz` is a disk of somebody else.
fn at_portal(sid: u32, portal: &str) -> Vec<Option<SeenSession>> {
    let path = format!("sd{sid}");
    let portal: Portal = portal.parse().unwrap();
    let base = || SeenSession {
        configured: (portal.host() != FORMER).then(|| portal.clone()),
        in_use: vec![path.clone()],
        ..shown(session(), |session| {
            session.sid = sid;
            session.portal = Some((&portal).into());
            session.recovery_timeout = Some(3600);
        })
    };
    let in_state = |state: &str| shown(base(), |session| session.state = state.into());
    vec![
        None,
        Some(base()),
        Some(in_state("FAILED")),
        Some(in_state("FREE")),
        Some(SeenSession { in_use: Vec::new(), ..base() }),
        Some(SeenSession { in_use: vec![path.clone(), "sdz".into()], ..base() }),
        Some(SeenSession { in_use: vec!["sdz".into()], ..base() }),
        Some(SeenSession { configured: None, ..shown(in_state("FREE"), |session| session.portal = None) }),
        Some(shown(base(), |session| {
            session.interface = Some("default".into());
            session.initiator = Some("iqn.2001-01.com.other:a".into());
        })),
    ]
}

/// Nodes whose etcd runs on the LUN, whatever its sessions are.
fn every_mounted(mut visit: impl FnMut(&Node)) {
    for kept in at_portal(1, KEPT) {
        for new in at_portal(2, NEW) {
            for old in at_portal(3, FORMER) {
                let sessions: Vec<_> = [&kept, &new, &old].into_iter().flatten().cloned().collect();
                let is_ours = |one: &&SeenSession| one.interface.as_deref() == Some("etcd-lun");
                let paths = sessions.iter().filter(is_ours).flat_map(|one| &one.in_use);
                let paths: Vec<_> = paths.filter(|disk| *disk != "sdz").cloned().collect();
                // Disks of the LUN that nobody has taken into the map.
                let outside = sessions.iter().filter(|one| is_ours(one) && one.in_use.is_empty());
                let outside: Vec<_> = outside.map(|one| format!("sd{}", one.sid)).collect();
                for multipath in [Multipath::Unclaimed, Multipath::Claimed, Multipath::Mapped] {
                    for multipathd in [Fact::Known(true), Fact::Known(false), unknown()] {
                        for holders in [vec![], vec!["dm-9".to_owned()]] {
                            let mut node = migrated();
                            node.sessions = Fact::Known(sessions.clone());
                            node.initiator.multipathd_active = multipathd.clone();
                            node.answering = vec![NEW.parse().unwrap()];
                            let lun = machine::seen(&mut node);
                            lun.multipath = multipath;
                            lun.holders = holders.clone();
                            lun.paths = paths.clone();
                            visit(&node);
                            if !outside.is_empty() && multipath == Multipath::Mapped {
                                machine::seen(&mut node).paths.extend(outside.iter().cloned());
                                visit(&node);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Checks one plan of a node whose etcd runs on the LUN. An error says what is wrong.
fn judge(node: &Node, plan: &Plan, occasion: Occasion) -> Result<(), &'static str> {
    let mut node = node.clone();
    let lun = machine::seen(&mut node).clone();
    let mapped = lun.multipath == Multipath::Mapped && node.initiator.multipathd_active == Fact::Known(true);
    let sessions = known(&mut node.sessions);
    let is_path = |one: &SeenSession| one.in_use.iter().any(|disk| lun.paths.contains(disk));
    let ours = |one: &SeenSession| one.interface.as_deref() == Some("etcd-lun");
    let mut free: Vec<_> = sessions.iter().filter(|one| one.in_use.is_empty()).map(|one| one.sid).collect();
    for step in &plan.steps {
        if occasion == Occasion::Boot && !matches!(step, Step::Node(NodeStep::SetTimeout { .. })) {
            return Err("at boot nothing of a LUN in use changes");
        }
        match step {
            Step::Node(NodeStep::SetTimeout { .. }) if !mapped => {}
            Step::Node(NodeStep::LogIn(step)) if mapped => {
                let beside =
                    |portal| sessions.iter().any(|one| ours(one) && one.configured.as_ref() == Some(portal));
                if step.portals.iter().any(beside)
                    || step.portals.iter().any(|portal| !node.answering.contains(portal))
                {
                    return Err("a log-in only at portals that answer and have no session");
                }
            }
            Step::Node(NodeStep::AttachLun(AttachLun { everywhere: true, .. })) if mapped => {}
            Step::Node(NodeStep::AddPath(AddPath { map, path, .. })) if mapped => {
                let used = sessions.iter().any(|one| one.in_use.contains(path));
                if used || !lun.paths.contains(path) || *map != lun.device {
                    return Err("only a free path of the LUN is taken into its map");
                }
            }
            Step::Node(NodeStep::RemovePath(RemovePath { map, path, sid })) if mapped => {
                let works = |one: &&SeenSession| {
                    one.sid != *sid && one.is_logged_in() && one.configured.is_some() && is_path(one)
                };
                let leaves = sessions.iter().find(|one| one.sid == *sid).ok_or("no such session")?;
                let alone =
                    leaves.in_use == [path.clone()] && lun.paths.contains(path) && lun.holders.is_empty();
                if !sessions.iter().any(|one| works(&one)) || *map != lun.device {
                    return Err("law 8: a path is taken away only while another one works");
                }
                if !alone || leaves.configured.is_some() || !ours(leaves) || leaves.portal.is_none() {
                    return Err(
                        "law 8: only a path of ours is taken away, at a portal that the config does not name",
                    );
                }
                free.push(*sid);
            }
            Step::Node(NodeStep::LogOut { sid }) if mapped => {
                let leaves = sessions.iter().find(|one| one.sid == *sid).ok_or("no such session")?;
                if !free.contains(sid) || !ours(leaves) || leaves.configured.is_some() {
                    return Err("law 8: a session in use, of others or of the config is not logged out");
                }
            }
            _ => return Err("nothing else is done, and nothing of this without a map and multipathd"),
        }
    }
    Ok(())
}

#[test]
fn sessions_follow_the_portals_of_the_config_only_where_another_path_works() {
    let config = two_portals();
    let (mut count, mut acts) = (0, std::collections::BTreeMap::<&str, usize>::new());
    every_mounted(|node| {
        for occasion in [Occasion::ByHand, Occasion::Boot] {
            count += 1;
            let Ok(plan) = plan(&config, node, occasion) else { continue };
            plan.steps.iter().for_each(|step| *acts.entry(step.id()).or_default() += 1);
            if let Err(why) = judge(node, &plan, occasion) {
                panic!("{why}: {occasion:?}, {plan:#?}\n{node:#?}");
            }
            // And it ends: each step does what its plan expects.
            let mut world = World::new(node.clone());
            for round in 0.. {
                let Ok(next) = plan::plan(&config, &world.node, occasion) else { break };
                if next.is_empty() {
                    break;
                }
                assert!(round < 5, "plans without end: {next:#?}\n{node:#?}");
                next.steps.iter().for_each(|step| world.step(step));
            }
        }
    });
    say!("{count} nodes with sessions of all kinds: {acts:?}");
    for id in ["log-in", "attach-lun", "remove-path", "add-path", "log-out"] {
        assert!(acts.contains_key(id), "{id} is never planned: {acts:?}");
    }
}

/// The check above would also pass if it found nothing.
#[test]
fn a_plan_that_takes_away_the_last_path_is_found() {
    let mut node = migrated();
    let both = [at_portal(1, KEPT)[1].clone(), at_portal(3, FORMER)[1].clone()];
    node.sessions = Fact::Known(both.into_iter().flatten().collect());
    node.initiator.multipathd_active = Fact::Known(true);
    let lun = machine::seen(&mut node);
    (lun.multipath, lun.paths) = (Multipath::Mapped, vec!["sd1".into(), "sd3".into()]);
    let config = config();
    let right = plan(&config, &node, Occasion::ByHand).unwrap();
    let ids: Vec<_> = right.steps.iter().map(Step::id).collect();
    assert_eq!(ids, ["remove-path", "log-out"]);
    assert_eq!(judge(&node, &right, Occasion::ByHand), Ok(()));
    assert!(judge(&node, &right, Occasion::Boot).is_err());
    let mut gains = node.clone();
    known(&mut gains.sessions).truncate(1);
    gains.answering = vec![NEW.parse().unwrap()];
    let more = Goal::Lun(Occasion::ByHand).plan(&two_portals(), &gains).unwrap();
    assert_eq!((more.steps.len(), &more.cluster), (2, &None), "etcd is not stopped for a log-in");
    let mut early = right.clone();
    early.steps.remove(0);
    assert!(judge(&node, &early, Occasion::ByHand).is_err(), "its path is still in the map");
    let mut lost = node.clone();
    known(&mut lost.sessions)[0].session.state = "FAILED".into();
    assert!(judge(&lost, &right, Occasion::ByHand).is_err(), "the other path does not work");
    assert!(plan(&config, &lost, Occasion::ByHand).unwrap().is_empty());
    let mut unmapped = node.clone();
    unmapped.initiator.multipathd_active = Fact::Known(false);
    assert!(judge(&unmapped, &right, Occasion::ByHand).is_err());
    let mut holding = node;
    machine::seen(&mut holding).holders = vec!["dm-9".into()];
    assert!(plan(&config, &holding, Occasion::ByHand).unwrap().is_empty());
}

/// The warning comes with the first log-in, before anything else is done. A key that names another algorithm is enough.
#[test]
fn a_log_in_by_md5_alone_is_warned_of_in_fips_mode() {
    let warnings = |table: &str, fips: Fact<bool>, node: Node| {
        let text = format!(
            "[target]\niqn = \"{TARGET}\"\nportals = [\"10.77.0.1\"]\n{table}\n[etcd]\nruntime = \"systemd\"\n\
             [[node]]\nhostname = \"master-0\"\ninitiator = \"{INITIATOR}\"\nlun = 1\n"
        );
        let source = config::Source { path: "config.toml".into(), text };
        let config = Config::load(&[source], MACHINE, "master-0").unwrap();
        Goal::Lun(Occasion::ByHand).plan(&config, &Node { fips, ..node }).unwrap().warnings
    };
    let chap = |algs: &str| format!("[target.chap]\nusername = \"a\"\npassword_file = \"/x\"\n{algs}");
    let on = || Fact::Known(true);
    for algs in ["", "algs = [\"MD5\"]"] {
        let said = warnings(&chap(algs), on(), node());
        assert!(said.len() == 1 && said[0].contains("set `target.chap.algs = "), "{said:?}");
    }
    for (table, fips, node) in [
        (String::new(), on(), node()),
        (chap("algs = [\"SHA256\", \"MD5\"]"), on(), node()),
        (chap(""), Fact::Known(false), node()),
        (chap(""), unknown(), node()),
        (chap(""), on(), attached(Content::Blank)),
    ] {
        assert_eq!(warnings(&table, fips, node), Vec::<String>::new(), "{table}");
    }
}
