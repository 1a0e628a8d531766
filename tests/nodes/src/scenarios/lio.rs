//! A target that is not tgtd: LIO on a machine of its own, set up by the script that `render target` prints.

use anyhow::{Context, Result, bail};

use super::login::{NO_DISCOVERY, NO_LOGIN};
use super::{Declined, check, failed, faults, paths, refused, unhealthy};
use crate::host::Output;
use crate::net::{Machine, Path};
use crate::node::Node;
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{Account, IQN};
use crate::vm::Options;

/// The other nodes of the pool. The first one's LUN has the same number as this node's LUN, but it is another
/// LUN.
const OTHERS: &str = "
[[node]]
hostname = \"master-1\"
initiator = \"iqn.1994-05.com.redhat:master1\"
lun = 1

[[node]]
hostname = \"master-2\"
initiator = \"iqn.1994-05.com.redhat:master2\"
lun = 7
";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("target/lio", |stage| with_target(stage, |stage, target| play(stage, target))),
        Scenario::new("target/lio-cut-off", |stage| with_target(stage, cut_off)),
        Scenario::new("target/lio-ways-in", |stage| with_target(stage, ways_in)),
    ]
}

fn with_target(stage: &mut Stage, play: impl FnOnce(&mut Stage, &Node) -> Result<()>) -> Result<()> {
    let options = Options { cpus: 1, memory_mib: 768, machine: Machine::Lio, ..Options::default() };
    let target = Node::boot(&stage.bed, options)?;
    scene::install(&target, &stage.binary)?;
    scene::configure(&target, &wanted())?;
    let played = play(stage, &target);
    if played.is_err() {
        // Collects the target's side of the evidence.
        target.run("targetcli ls; journalctl -k -b --no-pager -o cat | tail -n 20")?;
    }
    played
}

/// The node moves to LIO and back: with one session and with two paths, by discovery and without, with CHAP and without.
fn ways_in(stage: &mut Stage, target: &Node) -> Result<()> {
    let both = || Path::STORAGE.map(|path| format!("{}:3260", path.address(Machine::Lio))).to_vec();
    let multipath = || "multipath = true\n".to_owned();
    let one = || Wanted { more: String::new(), ..wanted() };
    let two = || Wanted { portals: both(), target: multipath(), ..one() };
    let ways: [(Wanted, usize); 4] = [
        (Wanted { static_records: true, chap: None, discovery_chap: None, ..one() }, 1),
        (two(), 2),
        (Wanted { static_records: true, discovery_chap: None, ..two() }, 2),
        (Wanted { chap: None, discovery_chap: None, ..two() }, 2),
    ];
    for (wanted, sessions) in ways {
        let told = format!(
            "{sessions} sessions, static: {}, CHAP: {}",
            wanted.static_records,
            wanted.chap.is_some()
        );
        println!("        {told}");
        scene::configure(target, &wanted)?;
        if wanted.discovery_chap.is_none() {
            // The script leaves alone what is for all targets of the machine.
            target.ok("targetcli /iscsi set discovery_auth enable=0")?;
        }
        let own = wwid(&set_up(target)?, "master-0")?;
        // Under multipath each path must lead to the same LUN.
        let wanted = Wanted { wwid: Some(own), ..wanted };
        stage.configure(&wanted)?;
        if sessions > 1 {
            paths::prepare_multipathd(stage)?;
        }
        there_and_back(stage, sessions).context(told)?;
    }
    Ok(())
}

fn there_and_back(stage: &Stage, sessions: usize) -> Result<()> {
    stage.apply()?;
    stage.is_on_lun()?;
    let found = stage.node.ok("ls /sys/class/iscsi_session | wc -l; lsblk --noheadings --output TYPE $(findmnt --noheadings --output SOURCE /var/lib/etcd) | head -n 1")?;
    let kind = if sessions > 1 { "mpath" } else { "disk" };
    if found != format!("{sessions}\n{kind}") {
        bail!("etcd's data should be on a {kind} of {sessions} sessions: {found}");
    }
    super::health::is_well(stage)?;
    let back = stage.node.run_within("etcd-lun rollback", scene::LIMIT)?;
    if back.code != 0 {
        bail!("rollback: {back}");
    }
    stage.is_untouched()?;
    // A map holds its paths, so their sessions stay. The next way needs other ones.
    let portals = Path::STORAGE.map(|path| path.address(Machine::Lio)).join(" ");
    let left = "ls /sys/class/iscsi_session 2>/dev/null || true";
    if sessions > 1 {
        let log_out = format!("for p in {portals}; do iscsiadm -m node -T {IQN} -p $p -u; done");
        stage.node.ok(&format!("multipath -F; {log_out}"))?;
    }
    let left = stage.node.ok(left)?;
    if left.is_empty() { Ok(()) } else { bail!("no session should be left: {left}") }
}

/// The same as `faults/cut-off`.
fn cut_off(stage: &mut Stage, target: &Node) -> Result<()> {
    set_up(target)?;
    faults::lio_cut_off(stage, wanted())
}

fn wanted() -> Wanted {
    Wanted {
        portals: vec![portal()],
        discovery_chap: Some(scene::discovery()),
        attach_timeout: "15s".into(),
        more: OTHERS.into(),
        ..Wanted::default()
    }
}

fn portal() -> String {
    format!("{}:3260", Path::A.address(Machine::Lio))
}

fn play(stage: &Stage, target: &Node) -> Result<()> {
    let first = set_up(target)?;
    let again = set_up(target)?;
    let [own, other] = ["master-0", "master-1"].map(|node| wwid(&again, node));
    let (own, other) = (own?, other?);
    if own == other || own != wwid(&first, "master-0")? {
        bail!("each LUN must have its own WWID, which must not change: {first}\n{again}");
    }
    keeps_secrets(target, &[first, again])?;

    stage.configure(&wanted())?;
    is_kept_out(stage)?;
    sees_another_nodes_only(stage, &own, &other)?;
    stage.is_untouched()?;

    let others = log_in_beside(stage, &other)?;
    let target = "digests = \"crc32c\"\n".into();
    scene::configure(&stage.node, &Wanted { wwid: Some(own), target, ..wanted() })?;
    watch_algs(stage)?;
    stage.apply()?;
    stage.is_on_lun()?;
    has_digests(stage)?;
    // The setting that is no longer in the config has open-iscsi's default again.
    used_algs(stage, "MD5")?;
    let now = session_beside(stage, &other)?;
    if now != others {
        bail!("the other session to the target changed: {others} before, {now} now");
    }
    // The other session is to the same target: a log-out of its program would end ours.
    unhealthy(&stage.agent("health")?, &["shared-target"])?;
    stage.node.ok("echo iscsid.safe_logout = Yes >>/etc/iscsi/iscsid.conf; systemctl restart iscsid")?;
    let log_out = stage.node.run(&format!("iscsiadm -m node -T {IQN} -p {} -u", portal()))?;
    if log_out.code == 0 {
        bail!("iscsid should refuse to end a session whose disk is mounted: {log_out}");
    }
    stage.is_on_lun()?;
    super::health::is_well(stage)
}

/// Our session has checksums of headers and data, and the other one has none: LIO and this node's iscsid.conf ask for none.
fn has_digests(stage: &Stage) -> Result<()> {
    let found = stage.node.ok("for of in /sys/class/iscsi_session/*; do
             for on in $of/device/connection*/iscsi_connection/*; do
                 echo $(cat $of/ifacename $on/header_digest $on/data_digest)
             done
         done | sort")?;
    if found != "default 0 0\netcd-lun 1 1" {
        bail!("our session should have both checksums, and the other one none: {found}");
    }
    Ok(())
}

/// Reads our node record again and again: it is there only while a log-in runs, and only that run sees it.
fn watch_algs(stage: &Stage) -> Result<()> {
    let watch = "rm -f /run/algs; systemd-run --quiet --unit=algs sh -c \
        'while :; do grep -hs chap_algs /proc/[0-9]*/root/run/etcd-lun*/iscsi/nodes/*/*/etcd-lun >>/run/algs; sleep 0.05; done'";
    stage.node.ok(watch).map(drop)
}

/// The algorithms in the record of the last log-in.
fn used_algs(stage: &Stage, list: &str) -> Result<()> {
    let found = stage.node.ok("systemctl stop algs; tail -n 1 /run/algs")?;
    if found != format!("node.session.auth.chap_algs = {list}") {
        bail!("the record should have had the algorithms {list}: {found}");
    }
    Ok(())
}

/// Another program on the node logs in to the same target, with the node's own name. It sees another LUN under the
/// number of ours.
fn log_in_beside(stage: &Stage, other: &str) -> Result<String> {
    let account = scene::chap();
    stage.node.ok(&format!(
        "set -e; iscsiadm -m node --logout >/dev/null || true
         echo InitiatorName=iqn.1994-05.com.redhat:master1 >/etc/iscsi/initiatorname.iscsi; systemctl restart iscsid
         set -- -m node -T {IQN} -p {},1
         iscsiadm \"$@\" -o new
         iscsiadm \"$@\" -I default -o update -n node.session.auth.authmethod -v CHAP \
             -n node.session.auth.username -v {} -n node.session.auth.password -v {}
         iscsiadm \"$@\" -I default --login; udevadm settle",
        portal(),
        account.user,
        account.secret
    ))?;
    session_beside(stage, other)
}

fn session_beside(stage: &Stage, other: &str) -> Result<String> {
    let found = stage.node.ok("for of in /sys/class/iscsi_session/*; do
             grep -q default $of/ifacename || continue
             echo ${of##*/} $(cat $of/state $of/initiatorname $of/device/target*/*/wwid)
         done; sha256sum /var/lib/iscsi/nodes/*/*/default")?;
    if !found.contains(other) || !found.contains("LOGGED_IN iqn.1994-05.com.redhat:master1") {
        bail!("another program's session should show {other}: {found}");
    }
    Ok(found)
}

/// Prints the script and runs it, as the target's administrator does.
fn set_up(target: &Node) -> Result<Output> {
    let output = target.run_within("etcd-lun render target >target.sh && sh target.sh", scene::LIMIT)?;
    if output.code != 0 {
        bail!("the target's script failed: {output}");
    }
    Ok(output)
}

/// The WWID that the script printed for a node.
fn wwid(output: &Output, node: &str) -> Result<String> {
    let line = output.stdout.lines().find(|line| line.contains(node) && line.contains("naa."));
    line.and_then(|line| {
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').find(|word| word.starts_with("naa."))
    })
    .map(String::from)
    .with_context(|| format!("the script printed no WWID for {node}: {output}"))
}

/// The script prints no secret. It leaves secrets only in the files of targetcli's configuration, which only
/// root may read.
fn keeps_secrets(target: &Node, outputs: &[Output]) -> Result<()> {
    for secret in [scene::chap(), scene::discovery()].map(|account| account.secret) {
        if let Some(output) = outputs.iter().find(|output| output.both().contains(&secret)) {
            bail!("the script printed a secret: {output}");
        }
        let left = target.ok(&format!(
            "find /etc /root /run /tmp /var/lib /var/log -xdev -type f -size -1024k -exec grep -lsZ '{secret}' {{}} + |
             xargs -0r stat -c '%a %U %n' |
             grep -Ev '^600 root /etc/(etcd-lun|rtslib-fb-target)/' || true"
        ))?;
        if !left.is_empty() {
            bail!("the script left a secret in another file, or in one that others can read: {left}");
        }
    }
    Ok(())
}

/// An initiator with a wrong secret, or without an entry, gets no session. The error has iscsiadm's code, 24, and what iscsiadm
/// itself says that it could not do.
fn is_kept_out(stage: &Stage) -> Result<()> {
    let account = |user| Some(Account::new(user, "bed-Wrong-s3cret"));
    let at = portal();
    let (login, discovery) = ([at.as_str(), "24", NO_LOGIN], [at.as_str(), "24", NO_DISCOVERY]);
    let cases: [(Wanted, Declined); 3] = [
        (Wanted { chap: account("initiator1"), ..wanted() }, failed("iscsiadm-failed", &login)),
        (
            Wanted { discovery_chap: account("discoverer1"), ..wanted() },
            failed("iscsiadm-failed", &discovery),
        ),
        (
            // LIO shows the target to every initiator name and refuses the login.
            Wanted { initiator: "iqn.1994-05.com.redhat:master9".into(), ..wanted() },
            failed("iscsiadm-failed", &login),
        ),
    ];
    for (wanted, how) in cases {
        scene::configure(&stage.node, &wanted)?;
        check(&stage.agent("apply")?, how)?;
    }
    Ok(())
}

/// A node with another node's initiator name logs in and sees only that node's LUN. Its own WWID in the
/// config keeps the node from using that LUN.
fn sees_another_nodes_only(stage: &Stage, own: &str, other: &str) -> Result<()> {
    let initiator = "iqn.1994-05.com.redhat:master1".into();
    let algs = Some("[\"SHA3-256\", \"SHA256\"]".into());
    scene::configure(&stage.node, &Wanted { initiator, wwid: Some(own.into()), algs, ..wanted() })?;
    watch_algs(stage)?;
    check(&stage.agent("apply")?, refused("wrong-lun", &[own, other]))?;
    used_algs(stage, "SHA3-256,SHA256")?;
    // The agent attaches only the LUN that it wants. This script attaches every LUN that the target shows.
    let seen = stage.node.ok(
        "for host in /sys/class/iscsi_host/*; do echo '- - -' >/sys/class/scsi_host/${host##*/}/scan; done
         udevadm settle
         for disk in /sys/class/iscsi_session/*/device/target*/*/block; do cat ${disk%block}wwid; done",
    )?;
    if seen != other {
        bail!("as master-1 the node sees other LUNs than {other}: {seen}");
    }
    Ok(())
}
