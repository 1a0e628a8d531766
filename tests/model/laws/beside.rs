//! Other programs' sessions, also to the same target, and sessions of ours with a name that the config had before.

use super::*;
use plan::rollback;

/// A CSI driver's session to the same target. Its LUN is in use.
fn of_others() -> SeenSession {
    let session = shown(session(), |session| {
        session.sid = 7;
        session.initiator = Some("iqn.1994-05.com.redhat:node".into());
        session.interface = Some("default".into());
    });
    SeenSession { in_use: vec!["sdx".into()], ..session }
}

fn ids(node: &Node) -> Vec<&'static str> {
    let plan = plan(&config(), node, Occasion::ByHand).unwrap();
    plan.steps.iter().map(Step::id).collect()
}

#[test]
fn sessions_of_others_are_neither_used_nor_ended() {
    let mut node = node();
    node.initiator.name = Fact::Known(Some("iqn.1994-05.com.redhat:node".into()));
    for (in_use, state) in
        [(vec!["sdx".to_owned()], "LOGGED_IN"), (Vec::new(), "LOGGED_IN"), (Vec::new(), "FAILED")]
    {
        let seen = shown(of_others(), |session| session.state = state.into());
        node.sessions = Fact::Known(vec![SeenSession { in_use, ..seen }]);
        assert_eq!(ids(&node), ["log-in", "attach-lun"]);
    }
    // A rollback ends the session of ours that nobody uses, and no other one.
    let mut node = attached(Content::Blank);
    node.record = Fact::Known(Some(rolled_back(DATA)));
    node.local = Fact::Known(dir(&["member"], false));
    known(&mut node.sessions).push(SeenSession { in_use: Vec::new(), ..of_others() });
    let end = rollback(&config(), &node).unwrap();
    let ended: Vec<_> =
        end.steps.iter().filter(|step| matches!(step, Step::Node(NodeStep::LogOut { .. }))).collect();
    assert_eq!(ended, [&Step::Node(NodeStep::LogOut { sid: 1 })]);
}

#[test]
fn a_session_without_our_interface_is_not_ours_whatever_its_name_is() {
    // A machine that boots from another LUN of the same target, with the name that the config has.
    let mut node = node();
    node.initiator.name = Fact::Known(Some("iqn.1994-05.com.redhat:node".into()));
    let seen = shown(session(), |session| {
        session.interface = Some("default".into());
        session.sid = 9;
    });
    let root = SeenSession { in_use: vec!["sda".into()], ..seen };
    node.sessions = Fact::Known(vec![root]);
    assert_eq!(ids(&node), ["log-in", "attach-lun"]);
}

#[test]
fn a_former_name_ends_only_a_free_session_of_ours() {
    let former = Some("iqn.2000-01.com.example:former".to_owned());
    let mut node = attached(Content::Blank);
    known(&mut node.sessions)[0].session.initiator.clone_from(&former);
    assert_eq!(ids(&node), ["log-out", "log-in", "attach-lun"]);
    known(&mut node.sessions)[0].in_use = vec!["sdb".into()];
    let refusal = plan(&config(), &node, Occasion::ByHand).unwrap_err();
    assert!(
        refusal.to_string().contains("set `node.initiator` to iqn.2000-01.com.example:former"),
        "{refusal}"
    );
    // While etcd runs on the LUN, nothing changes.
    let mut node = migrated();
    known(&mut node.sessions)[0].session.initiator = former;
    assert_eq!(ids(&node), [""; 0]);
    assert!(matches!(node.mount, Fact::Known(Some(DataMount { .. }))));
}

#[test]
fn only_a_node_without_a_name_gets_one() {
    let mut node = node();
    let names: Vec<_> = [None, Some("iqn.1994-05.com.redhat:node".to_owned())]
        .into_iter()
        .map(|name| {
            node.initiator.name = Fact::Known(name);
            let plan = plan(&config(), &node, Occasion::ByHand).unwrap();
            plan.steps.into_iter().find_map(|step| match step {
                Step::Node(NodeStep::SetInitiatorName { name }) => Some(name.to_string()),
                _ => None,
            })
        })
        .collect();
    assert!(
        names[0].as_ref().is_some_and(|name| name.starts_with("iqn.2016-04.com.open-iscsi:")),
        "{names:?}"
    );
    assert_ne!(names[0].as_deref(), Some(INITIATOR));
    assert_eq!(names[1], None);
}

/// After a run that has not mounted the LUN only its own sessions end, and only where nobody uses them.
#[test]
fn a_run_without_the_lun_lets_go_of_its_own_sessions() {
    let ends = |node: &Node| -> Vec<u32> {
        let plan = plan::let_go(&config(), node);
        let sids = plan.steps.iter().map(|step| match step {
            Step::Node(NodeStep::LogOut { sid }) => *sid,
            other => panic!("{other:?}"),
        });
        sids.collect()
    };
    let mut node = attached(Content::Foreign { found: "ext4".into() });
    known(&mut node.sessions).push(of_others());
    known(&mut node.sessions).push(SeenSession { in_use: Vec::new(), ..of_others() });
    // One that falls, because the target gives it to another machine of that name.
    known(&mut node.sessions).push(shown(session(), |session| {
        session.sid = 3;
        session.state = "FAILED".into();
    }));
    assert_eq!(ends(&node), [1, 3]);
    known(&mut node.sessions)[0].in_use = vec!["sdb".into()];
    assert_eq!(ends(&node), [3]);
    for mount in [migrated().mount, unknown()] {
        assert_eq!(ends(&Node { mount, ..node.clone() }), [0; 0]);
    }
    assert_eq!(ends(&Node { sessions: unknown(), ..node }), [0; 0]);
}
