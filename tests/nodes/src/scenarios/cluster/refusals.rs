//! By hand, etcd-lun stops a member only while the others can do without it. Each case takes that away in
//! another way.

use anyhow::{Context, Result, bail};

use super::super::{Declined, check, declines_command, each, has, main_pid, refused};
use super::wanted;
use crate::cluster::certificates::{Certificates, Purpose, file};
use crate::cluster::{Cluster, judge};
use crate::delivery::EtcdRunner;
use crate::image::HOSTNAME;
use crate::stage::Stage;
use crate::verbs;

/// The directory in the node with the certificates of another signer.
const FOREIGN: &str = "/etc/etcd-lun/foreign";

type Change = fn(&mut Cluster, &Stage) -> Result<()>;

/// What is done to the other members, how it ends, and the refusal, with the number of voters and of the others that serve.
struct Case {
    name: &'static str,
    begin: Change,
    how: Declined<'static>,
    voters: Option<u64>,
    healthy: Option<u64>,
    repair: Change,
}

/// The members are named in the refusal, and why each of them does not count, if curl says it.
const CASES: &[Case] = &[
    Case {
        name: "another member is down",
        begin: |cluster, _| {
            cluster.others[1].kill();
            Ok(())
        },
        how: refused("no-quorum", &["master-2", "10.79.0.12:2379", "curl: (7)"]),
        voters: Some(3),
        healthy: Some(1),
        repair: |cluster, _| cluster.start_again(1),
    },
    Case {
        name: "another member is cut off",
        begin: |cluster, _| cluster.others[1].cut_off(true),
        how: refused("no-quorum", &["master-2", "10.79.0.12:2379"]),
        voters: Some(3),
        healthy: Some(1),
        repair: |cluster, _| cluster.others[1].cut_off(false),
    },
    Case {
        name: "another member is stopped",
        begin: |cluster, _| cluster.others[0].freeze(true),
        how: refused("no-quorum", &["master-1", "10.79.0.11:2379"]),
        voters: Some(3),
        healthy: Some(1),
        repair: |cluster, _| cluster.others[0].freeze(false),
    },
    Case {
        name: "both others are down, so there is no leader",
        begin: |cluster, _| {
            cluster.others.iter_mut().for_each(|member| member.kill());
            cluster.lost_leader()
        },
        how: refused("no-quorum", &["master-1", "10.79.0.11:2379", "master-2", "10.79.0.12:2379"]),
        voters: Some(3),
        healthy: Some(0),
        repair: |cluster, _| cluster.start_all_again(),
    },
    Case {
        name: "this node's certificate is another signer's",
        begin: |_, stage| stage.node.ok(&cluster_keys(FOREIGN)).map(drop),
        how: refused("cluster-unknown", &["10.79.0.2:2379", "cluster.cert", "cluster.key"]),
        voters: None,
        healthy: None,
        repair: |_, stage| stage.node.ok("rm /etc/etcd-lun/config.d/50-cluster.toml").map(drop),
    },
    Case {
        name: "another member is a learner",
        begin: |cluster, stage| cluster.replace_by_learner(&stage.bed, &stage.node, 1),
        how: refused("no-quorum", &["master-2"]),
        voters: Some(2),
        healthy: Some(1),
        repair: |cluster, stage| cluster.promote(&stage.node, 1),
    },
];

/// A fragment of the config with other certificates for this node.
fn cluster_keys(dir: &str) -> String {
    let path = |ending| format!("{dir}/{}", file(Purpose::Peer, HOSTNAME, ending));
    format!(
        "mkdir -p /etc/etcd-lun/config.d; printf '[cluster]\\ncert = \"%s\"\\nkey = \"%s\"\\n' {} {} >/etc/etcd-lun/config.d/50-cluster.toml",
        path("crt"),
        path("key")
    )
}

pub(super) fn refusals(stage: &mut Stage) -> Result<()> {
    stage.configure(&wanted())?;
    let mut cluster = Cluster::around(&stage.bed, &stage.node, EtcdRunner::Unit)?;
    let foreign = Certificates::make(
        &stage.bed.run.dir().join("foreign"),
        &[(HOSTNAME, &cluster.endpoints()[0].address.replace(":12379", ""))],
    )?;
    for ending in ["crt", "key"] {
        let path = file(Purpose::Peer, HOSTNAME, ending);
        stage.node.copy_in(&foreign.dir().join(&path), &format!("{FOREIGN}/{path}"), 0o600)?;
    }
    let client = cluster.client()?;
    each(CASES, |case| {
        (case.begin)(&mut cluster, stage)?;
        let declined = declines_command(stage, "etcd-lun apply --json", case.how);
        (case.repair)(&mut cluster, stage)?;
        cluster.all_serve()?;
        let told = verbs::parsed(&declined.context(case.name)?)?;
        let numbers = ["voters", "healthy"].map(|key| told["refused"][key].as_u64());
        if numbers != [case.voters, case.healthy] {
            bail!("{}: the refusal has the numbers {numbers:?}: {told}", case.name);
        }
        Ok(())
    })?;
    // The refusals were for the members' sake: with all of them, the same command succeeds.
    let plan = verbs::plan(&stage.node, "plan")?;
    if !plan["cluster"].as_str().is_some_and(|cluster| has(cluster, "3")) {
        bail!("`plan` should show the cluster: {plan}");
    }
    let (migration, ()) = cluster.during(&client, "the migration", || {
        stage.apply()?;
        stage.is_on_lun()
    })?;
    let etcd = main_pid(stage)?;
    cluster.others[1].kill();
    check(&stage.agent("rollback")?, refused("no-quorum", &["master-2", "10.79.0.12:2379"]))?;
    stage.is_on_lun()?;
    if main_pid(stage)? != etcd {
        bail!("a refused rollback interrupted etcd");
    }
    cluster.start_again(1)?;
    judge(client, &[migration]).map(drop)
}
