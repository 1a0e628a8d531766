//! Law 11: by hand a member is stopped only while the others can do without it.

use super::*;
use crate::census::Census;
use node::{Cluster, MemberHealth};
use plan::rollback;

/// Clusters of one to five voters with each number of healthy others; with a learner; with this member as a learner; and what
/// is not known.
fn clusters() -> Vec<Option<Fact<Cluster>>> {
    let mut found = vec![None, Some(unknown())];
    for voters in 1..=5 {
        for healthy in 0..voters {
            let mut cluster = cluster(voters);
            for member in cluster.others.iter_mut().skip(healthy) {
                member.health = MemberHealth::NotHealthy("connection refused".into());
            }
            let mut with_learner = cluster.clone();
            let mut learner = with_learner.own.clone();
            learner.learner = true;
            with_learner.others.push(learner);
            let mut as_learner = cluster.clone();
            as_learner.own.learner = true;
            let mut without_leader = cluster.clone();
            without_leader.leader = None;
            found.extend(
                [cluster, with_learner, as_learner, without_leader].map(|one| Some(Fact::Known(one))),
            );
        }
    }
    found
}

/// Whether the cluster keeps a quorum without this member, counted from its members one by one. A cluster in which no other
/// has a vote has nothing to keep.
fn others_suffice(cluster: Option<&Fact<Cluster>>) -> bool {
    let Some(Fact::Known(cluster)) = cluster else { return false };
    let (mut voters, mut healthy) = (usize::from(!cluster.own.learner), 0);
    for member in cluster.others.iter().filter(|member| !member.learner) {
        voters += 1;
        healthy += usize::from(member.health == MemberHealth::Healthy);
    }
    cluster.own.learner || voters == 1 || 2 * healthy > voters
}

/// Whether stopping this etcd can take something away from the cluster.
fn counts(node: &Node) -> bool {
    node.etcd.known().is_some_and(|etcd| {
        etcd.running && (etcd.state == EtcdState::Unit("active".into()) || !etcd.lock_holders.is_empty())
    })
}

fn is_shut(node: &Node) -> bool {
    node.mount.known().is_some_and(|mount| mount.as_ref().is_some_and(|mount| mount.io_error))
}

fn judge(census: &mut Census, config: &Config, node: &Node, planned: &Result<Plan, Refusal>) {
    let suffice = others_suffice(node.cluster.as_ref());
    let lifted = config.cluster.without_quorum;
    match planned {
        Ok(plan) => {
            for step in &plan.steps {
                let Step::Protocol(ProtocolStep::StopEtcd(StopEtcd { needs_quorum, .. })) = step else {
                    continue;
                };
                if counts(node) && !is_shut(node) && !lifted && !suffice {
                    census.breaks(11, "a member is stopped that the others cannot do without", node, plan);
                }
                if *needs_quorum == (lifted || is_shut(node)) {
                    census.breaks(11, "the others are asked again right before the stop", node, plan);
                }
            }
        }
        Err(Refusal::Cluster(ClusterRefusal::NoQuorum { .. } | ClusterRefusal::ClusterUnknown { .. }))
            if suffice || lifted || !counts(node) =>
        {
            let none = Plan { steps: Vec::new(), horizon: None, cluster: None, warnings: Vec::new() };
            census.breaks(11, "only what the cluster needs is refused", node, &none);
        }
        Err(_) => {}
    }
}

fn configs() -> Vec<Config> {
    let all = ["systemd", "static-pod"].map(config_for);
    let mut lifted = all.clone();
    lifted.iter_mut().for_each(|config| config.cluster.without_quorum = true);
    all.into_iter().chain(lifted).collect()
}

#[test]
fn law_11_a_member_is_stopped_by_hand_only_while_the_others_do_without_it() {
    let (clusters, configs) = (clusters(), configs());
    let mut census = Census::default();
    let (mut asked, mut stops, mut refused) = (0, 0, 0);
    let mut look = |node: &Node, config: &Config, goal: Goal| {
        let planned = goal.plan(config, node);
        asked += 1;
        stops += usize::from(planned.as_ref().is_ok_and(|plan| at(plan, "stop-etcd").is_some()));
        let is_refusal = |refusal: &Refusal| {
            matches!(
                refusal,
                Refusal::Cluster(ClusterRefusal::NoQuorum { .. } | ClusterRefusal::ClusterUnknown { .. })
            )
        };
        refused += usize::from(planned.as_ref().is_err_and(is_refusal));
        judge(&mut census, config, node, &planned);
    };
    // Every combination of the other facts, each with one cluster after the other.
    let mut next = 0;
    let mut turn = |node: &Node, goal: Goal| {
        next += 1;
        let node = Node { cluster: clusters[next % clusters.len()].clone(), ..node.clone() };
        look(&node, &configs[next / clusters.len() % configs.len()], goal);
    };
    every_node(|node| turn(node, Goal::Lun(Occasion::ByHand)));
    let mut seen = 0;
    rollback::every_way_back(|node| {
        seen += 1;
        if seen % 5 == 0 {
            turn(node, Goal::Local);
        }
    });
    // Every cluster with every etcd, in the situations that stop one.
    let shut = {
        let mut node = migrated();
        known(&mut node.mount).as_mut().unwrap().io_error = true;
        node
    };
    let unmounted = Node { mount: Fact::Known(None), ..migrated() };
    for start in [node(), attached(Content::Blank), migrated(), unmounted, shut] {
        for etcd in etcds() {
            for cluster in &clusters {
                let node = Node { etcd: etcd.clone(), cluster: cluster.clone(), ..start.clone() };
                for config in &configs {
                    look(&node, config, Goal::Lun(Occasion::ByHand));
                    look(&node, config, Goal::Local);
                }
            }
        }
    }
    say!("{asked} plans by hand: {stops} stop etcd, {refused} are refused for the cluster's sake");
    assert!(asked > 100_000 && stops > 1000 && refused > 1000);
    census.holds(11);
}

#[test]
fn at_boot_nobody_is_asked() {
    let failing = Node { mount: Fact::Known(None), etcd: Fact::Known(etcd("activating")), ..migrated() };
    let staged = Node { cluster: None, ..failing };
    let mut world = World::new(staged);
    let ends = follow(&mut world, Goal::Lun(Occasion::Boot), "static-pod", None, 6, |_, step| {
        assert!(!matches!(
            step,
            Step::Node(NodeStep::AwaitMember(_))
                | Step::Protocol(ProtocolStep::StopEtcd(StopEtcd { needs_quorum: true, .. }))
        ));
    });
    assert!(ends.unwrap() > 2);
}

/// The checks above would also pass if they found nothing.
#[test]
fn a_stop_that_breaks_law_11_is_found() {
    let config = config();
    let node = attached(Content::Blank);
    let planned = Goal::Lun(Occasion::ByHand).plan(&config, &node);
    let broken = |node: &Node, planned: &Result<Plan, Refusal>| {
        let mut census = Census::default();
        judge(&mut census, &config, node, planned);
        census.is_broken(11)
    };
    assert!(!broken(&node, &planned));
    for cluster in [None, Some(unknown())] {
        assert!(broken(&Node { cluster, ..node.clone() }, &planned));
    }
    let mut unasked = planned.unwrap();
    for step in &mut unasked.steps {
        if let Step::Protocol(ProtocolStep::StopEtcd(StopEtcd { needs_quorum, .. })) = step {
            *needs_quorum = false;
        }
    }
    assert!(broken(&node, &Ok(unasked)));
    let refusal = Refusal::from(ClusterRefusal::ClusterUnknown { found: "nothing".into() });
    assert!(broken(&node, &Err(refusal)));
}

#[test]
fn a_refusal_names_each_missing_member_and_the_cure() {
    let mut five = cluster(5);
    for (at, why) in [(0, "connection refused"), (2, "it sees no leader")] {
        five.others[at].health = MemberHealth::NotHealthy(why.into());
    }
    let node = Node { cluster: Some(Fact::Known(five)), ..node() };
    for refusal in [plan(&config(), &node, Occasion::ByHand).unwrap_err(), {
        let migrated = Node { cluster: node.cluster.clone(), ..migrated() };
        rollback(&config(), &migrated).unwrap_err()
    }] {
        let said = refusal.to_string();
        for part in [
            "of 5 voters 3 must serve, and without this one 2 do",
            "master-1: connection refused; master-3: it sees no leader",
            "then run this again",
        ] {
            assert!(said.contains(part), "{said}");
        }
        // The cluster serves, and the key would take it down.
        assert!(!said.contains("without_quorum"), "{said}");
    }
    let down = ClusterRefusal::NoQuorum { voters: 3, needed: 2, healthy: 0, missing: "b: late".into() };
    assert!(down.to_string().ends_with("set `cluster.without_quorum = true`"), "{down}");
    let two = Node { cluster: Some(Fact::Known(cluster(2))), ..super::node() };
    let said = plan(&config(), &two, Occasion::ByHand).unwrap_err().to_string();
    assert!(said.contains("of 2 voters 2 must serve, and without this one 1 do"), "{said}");
}

#[test]
fn a_plan_says_what_its_stop_means_for_the_cluster() {
    let said = |cluster: Cluster, lifted: bool| {
        let mut config = config();
        config.cluster.without_quorum = lifted;
        let node = Node { cluster: Some(Fact::Known(cluster)), ..attached(Content::Blank) };
        Goal::Lun(Occasion::ByHand).plan(&config, &node).unwrap().cluster.unwrap()
    };
    assert_eq!(
        said(cluster(3), false),
        "3 voters, 3 healthy, leader master-0; the others are a quorum without this one, which is away for about 17s (etcd's restart, and 1GiB read once)"
    );
    // 15 s, and 1 GiB at 500 MB/s.
    let alone = said(cluster(1), false);
    assert!(
        alone.contains("THE CLUSTER IS DOWN MEANWHILE, for about 17s (etcd's restart, and 1GiB read once)"),
        "{alone}"
    );
    let mut learner = cluster(3);
    learner.own.learner = true;
    assert!(said(learner, false).contains("takes no vote"));
    assert!(said(cluster(3), true).contains("`cluster.without_quorum` is set"));
    let boot = Node { etcd: Fact::Known(etcd("failed")), ..node() };
    assert_eq!(Goal::Lun(Occasion::Boot).plan(&config(), &boot).unwrap().cluster, None);
}

/// A run by hand succeeds only when the member serves.
#[test]
fn an_etcd_that_runs_and_does_not_serve_is_waited_for() {
    let config = config();
    let mut leaderless = cluster(3);
    leaderless.leader = None;
    for cluster in [unknown(), Fact::Known(leaderless)] {
        let node = Node { cluster: Some(cluster), ..migrated() };
        let ids = |goal: Goal, config: &Config| -> Vec<_> {
            goal.plan(config, &node).unwrap().steps.iter().map(Step::id).collect()
        };
        assert_eq!(ids(Goal::Lun(Occasion::ByHand), &config), ["await-member"]);
        assert!(ids(Goal::Lun(Occasion::Boot), &config).is_empty());
        let mut lifted = config.clone();
        lifted.cluster.without_quorum = true;
        assert!(ids(Goal::Lun(Occasion::ByHand), &lifted).is_empty());
    }
    let back = Node {
        record: Fact::Known(Some(rolled_back(DATA))),
        local: Fact::Known(dir(&["member"], false)),
        cluster: Some(unknown()),
        ..node()
    };
    let ids: Vec<_> = Goal::Local.plan(&config, &back).unwrap().steps.iter().map(Step::id).collect();
    assert_eq!(ids, ["await-member"]);
}
