//! By hand, etcd-lun stops a member only while the others can do without it. Each case takes that away in
//! another way.

use anyhow::{Result, bail};

use super::super::{check, declines_command, each, main_pid, refused};
use super::wanted;
use crate::cluster::certificates::{Certificates, Purpose, file};
use crate::cluster::{Cluster, judge};
use crate::delivery::EtcdRunner;
use crate::image::HOSTNAME;
use crate::stage::Stage;

/// The directory in the node with the certificates of another signer.
const FOREIGN: &str = "/etc/etcd-lun/foreign";

type Change = fn(&mut Cluster, &Stage) -> Result<()>;

/// What is done to the other members, what the refusal says, and how it ends.
struct Case {
    name: &'static str,
    begin: Change,
    says: &'static [&'static str],
    repair: Change,
}

/// The members are named in the refusal, and why each of them does not count.
const CASES: &[Case] = &[
    Case {
        name: "another member is down",
        begin: |cluster, _| {
            cluster.others[1].kill();
            Ok(())
        },
        says: &["master-2: connection refused", "10.79.0.12:2379", "without_quorum"],
        repair: |cluster, _| cluster.start_again(1),
    },
    Case {
        name: "another member is cut off",
        begin: |cluster, _| cluster.others[1].cut_off(true),
        says: &["master-2: ", "10.79.0.12:2379"],
        repair: |cluster, _| cluster.others[1].cut_off(false),
    },
    Case {
        name: "another member is stopped",
        begin: |cluster, _| cluster.others[0].freeze(true),
        says: &["master-1: it did not answer in time", "10.79.0.11:2379"],
        repair: |cluster, _| cluster.others[0].freeze(false),
    },
    Case {
        name: "both others are down, so there is no leader",
        begin: |cluster, _| {
            cluster.others.iter_mut().for_each(|member| member.kill());
            cluster.lost_leader()
        },
        says: &["master-1: connection refused", "master-2: connection refused"],
        repair: |cluster, _| cluster.start_all_again(),
    },
    Case {
        name: "this node's certificate is another signer's",
        begin: |_, stage| stage.node.ok(&cluster_keys(FOREIGN)).map(drop),
        says: &["cannot be asked", "10.79.0.2:2379", "`cluster.cert` and `cluster.key`"],
        repair: |_, stage| stage.node.ok("rm /etc/etcd-lun/config.d/50-cluster.toml").map(drop),
    },
    Case {
        name: "another member is a learner",
        begin: |cluster, stage| cluster.replace_by_learner(&stage.bed, &stage.node, 1),
        says: &["of 2 voters 2 must serve", "without this one 1 do"],
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
        let declined = declines_command(stage, "etcd-lun apply", refused(case.says));
        (case.repair)(&mut cluster, stage)?;
        cluster.all_serve()?;
        declined.map_err(|error| error.context(case.name))
    })?;
    // The refusals were for the members' sake: with all of them, the same command succeeds.
    let plan = stage.agent("plan")?;
    if plan.code != 0 || !plan.stdout.contains("3 voters, 3 healthy") {
        bail!("`plan` should show a healthy cluster: {plan}");
    }
    let (migration, ()) = cluster.during(&client, "the migration", || {
        stage.apply()?;
        stage.is_on_lun()
    })?;
    let etcd = main_pid(stage)?;
    cluster.others[1].kill();
    check(&stage.agent("rollback")?, refused(&["master-2: connection refused"]))?;
    stage.is_on_lun()?;
    if main_pid(stage)? != etcd {
        bail!("a refused rollback interrupted etcd");
    }
    cluster.start_again(1)?;
    judge(client, &[migration]).map(drop)
}
