//! A migration by hand onto the map. Then its paths fail, come back, are taken away and added, and the map gets another
//! name, while etcd runs.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::super::{carries, check, health, lets_go, lost, main_pid, refused};
use super::client::Client;
use super::{
    BOTH, active, add, as_promised, is_on_map, is_well, names_missing, plans_nothing, prepare,
    prepare_multipathd, promise, under_a_client, wanted, works,
};
use crate::net::{Cut, Path};
use crate::scene::{AT_BOOT, LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{IQN, Lun, Offer, Target, blank, fingerprint};
use crate::verbs;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("paths/by-hand", by_hand),
        Scenario::new("paths/static-without-chap", static_without_chap),
    ]
}

/// Both ways to the LUN that `by_hand` does not take, in a pool on two arrays, of which the node has the second. At one of them there is
/// another box of the same name for a while, whose volume has the same WWID: before the first write, at a later start, and beneath
/// the mount. Before that both have another volume.
fn static_without_chap(stage: &mut Stage) -> Result<()> {
    let volume = stage.lun_file("-of-the-first");
    blank(&volume, LUN_SIZE)?;
    let offer = Offer { iqn: FIRST.into(), ..Offer::open(vec![Lun::new(1, volume.clone())]) };
    let first = Target::start_at(&stage.bed, "tgt-a", &[first_portal()], offer)?;
    let before = fingerprint(&volume)?;
    on_the_second(stage)?;
    if first.sessions()? != 0 || fingerprint(&volume)? != before {
        bail!("a node of the second array has used the first");
    }
    Ok(())
}

/// The name of the pool's first array, which another node would have.
const FIRST: &str = "iqn.2024-02.com.example:first";

fn first_portal() -> String {
    format!("{}:3261", Path::A.target())
}

/// The config of such a pool.
fn of_two_arrays(stage: &Stage) -> Wanted {
    let first = format!("name = \"first\"\niqn = {FIRST:?}\nportals = [{:?}]\n", first_portal());
    let common = Wanted { static_records: true, chap: None, ..wanted(stage) };
    let other = "\n[[node]]\nhostname = \"master-9\"\ninitiator = \"iqn.1994-05.com.redhat:master9\"\nlun = 1\ntarget = \"first\"\n";
    Wanted { first_target: Some(first), more: other.into(), ..common }
}

fn on_the_second(stage: &mut Stage) -> Result<()> {
    stage.target.offer(Offer { chap: None, ..stage.target.offered().clone() })?;
    stage.configure(&of_two_arrays(stage))?;
    prepare_multipathd(stage)?;
    let other = stage.lun().with_extension("other");
    blank(&other, LUN_SIZE)?;
    File::options().write(true).open(&other)?.write_all_at(&[b'x'; 1 << 20], 1 << 16)?;
    beside_another_box(stage, &other, |stage| is_refused(stage, &[stage.lun(), other.clone()]))?;
    stage.apply()?;
    is_on_map(stage)?;
    stage.node.ok("etcdctl put beside/another-box yes && systemctl stop etcd var-lib-etcd.mount")?;
    beside_another_box(stage, &other, |stage| is_refused(stage, &[stage.lun(), other.clone()]))?;
    stage.apply()?;
    stage.has_kept("beside/another-box")?;
    works(stage, 2)?;
    stage.node.ok(&format!("{AT_BOOT}; systemctl enable multipathd"))?;
    stage.node.reboot()?;
    works(stage, 2)?;
    is_on_map(stage)?;
    is_well(stage)?;
    a_name_for_each_port(stage)?;
    stage.configure(&of_two_arrays(stage))?;
    stage.apply()?;
    works(stage, 2)?;
    // One box, and another volume with the same WWID behind both paths: multipathd sees no difference.
    stage.node.ok(lost::RULE)?;
    lost::beneath_the_mount(stage, true, 1).context("beneath the map")?;
    works(stage, 2)?;
    stage.bed.net.cut(Path::B, Cut::Drop)?;
    works(stage, 1)?;
    stage.target.only_at(&[Path::A.portal()])?;
    let second = another_box(stage, &other)?;
    stage.bed.net.repair()?;
    works(stage, 2)?;
    carries(&health::finding(stage, "stamp")?, &["two volumes have one WWID", "stop etcd now"])?;
    carries(&stage.agent("mark")?.both(), &["two volumes have one WWID"])?;
    drop(second);
    stage.target.only_at(&BOTH.map(Path::portal))?;
    works(stage, 2)?;
    is_on_map(stage)?;
    works(stage, 2)?;
    is_well(stage)
}

/// The array makes each of its ports a target of its own, while etcd runs on the LUN. The config follows. Then a path fails, the node
/// begins without sessions, and a rollback ends them.
fn a_name_for_each_port(stage: &mut Stage) -> Result<()> {
    let iqn = format!("{IQN}.port-b");
    stage.target.only_at(&[Path::A.portal()])?;
    let offer = Offer { iqn: iqn.clone(), ..stage.target.offered().clone() };
    let second = Target::start_at(&stage.bed, "tgt-b", &[Path::B.portal()], offer)?;
    let port = format!("{{ address = {:?}, iqn = {iqn:?} }}", Path::B.portal());
    let portals = vec![Path::A.portal(), port];
    stage.configure(&Wanted { portals, static_records: false, ..of_two_arrays(stage) })?;
    let taken = verbs::taken(&stage.node, "apply")?;
    if !taken.has_step("log-in") || !taken.has_step("log-out") {
        bail!("`apply` should have exchanged the session at the second port: {taken:?}");
    }
    works(stage, 2)?;
    stage.bed.net.cut(Path::A, Cut::Drop)?;
    works(stage, 1)?;
    stage.node.ok("etcdctl --command-timeout 60s put port/b yes")?;
    stage.bed.net.repair()?;
    works(stage, 2)?;
    is_well(stage)?;
    stage
        .node
        .ok("systemctl stop etcd var-lib-etcd.mount && iscsiadm -m session -u; ! iscsiadm -m session")?;
    stage.apply()?;
    works(stage, 2)?;
    is_on_map(stage)?;
    stage.has_kept("port/b")?;
    stage.node.ok("etcd-lun rollback")?;
    lets_go(stage)?;
    drop(second);
    stage.target.only_at(&BOTH.map(Path::portal))
}

/// The other box, at the second portal.
fn another_box(stage: &Stage, volume: &path::Path) -> Result<Target> {
    let offer = Offer { luns: vec![Lun::new(1, volume.to_owned())], ..stage.target.offered().clone() };
    Target::start_at(&stage.bed, "tgt-b", &[Path::B.portal()], offer)
}

/// Plays something with the other box in place of the target at the second portal.
fn beside_another_box(
    stage: &mut Stage,
    volume: &path::Path,
    play: impl FnOnce(&Stage) -> Result<()>,
) -> Result<()> {
    stage.node.run("iscsiadm -m node --logout; iscsiadm -m session")?;
    stage.target.only_at(&[Path::A.portal()])?;
    let second = another_box(stage, volume)?;
    play(stage)?;
    stage.node.ok("iscsiadm -m node --logout; ! iscsiadm -m session")?;
    drop(second);
    stage.target.only_at(&BOTH.map(Path::portal))
}

/// `apply` refuses two volumes with one WWID, and writes to none of them.
fn is_refused(stage: &Stage, volumes: &[path::PathBuf]) -> Result<()> {
    let look = || volumes.iter().map(|volume| fingerprint(volume)).collect::<Result<Vec<_>>>();
    let before = look()?;
    check(&stage.agent("apply")?, refused("unknown", &["two volumes have one WWID"]))?;
    if look()? != before {
        bail!("a run that was refused has written to one of the volumes");
    }
    Ok(())
}

/// How long both paths are gone beyond the time until the kernel gives them up. multipathd then queues the writes.
const BOTH_GONE: Duration = Duration::from_secs(15);

fn by_hand(stage: &mut Stage) -> Result<()> {
    prepare(stage)?;
    stage.node.ok("systemctl start multipathd")?;
    under_a_client(stage, |stage, client| {
        let ((), waited) = client.during(|| stage.apply().map(drop))?;
        println!("        the migration: {waited}");
        is_on_map(stage)?;
        works(stage, 2)?;
        is_well(stage)?;
        let etcd = main_pid(stage)?;
        lose_the_active(stage, client, Cut::Drop)?;
        lose_the_active(stage, client, Cut::Reject)?;
        fail_sooner(stage)?;
        lose_the_active(stage, client, Cut::Drop)?;
        lose_both(stage, client)?;
        rename(stage, client)?;
        take_away_and_add(stage, client)?;
        is_on_map(stage)?;
        if main_pid(stage)? != etcd {
            bail!("etcd was restarted");
        }
        Ok(())
    })
}

/// What an administrator may set for all iSCSI paths of the node, so that etcd refuses no write of a silent path.
fn fail_sooner(stage: &Stage) -> Result<()> {
    stage.node.ok(
        "printf 'overrides {\\n protocol {\\n  type \"scsi:iscsi\"\\n  fast_io_fail_tmo 2\\n }\\n}\\n' >/etc/multipath/conf.d/sooner.conf
         multipathd reconfigure",
    )?;
    stage.wait_until("[ $(cat /sys/class/iscsi_session/session*/recovery_tmo | sort -u) = 2 ]")
}

/// The path that carries etcd's writes falls silent, or is refused, and comes back.
fn lose_the_active(stage: &Stage, client: &Client, how: Cut) -> Result<()> {
    let (path, promise) = (active(stage)?, promise(stage, how)?);
    let what = format!("the active path, over {}, is cut ({how:?})", path.target());
    let ((), waited) = client.during(|| {
        stage.bed.net.cut(path, how)?;
        works(stage, 1)
    })?;
    as_promised(&what, &waited, promise)?;
    names_missing(stage, path)?;
    plans_nothing(&stage.node)?;
    let ((), waited) = client.during(|| {
        stage.bed.net.repair()?;
        works(stage, 2)
    })?;
    as_promised("it is back", &waited, promise)
}

/// No path works for a while. The writes wait, and what a person runs ends.
fn lose_both(stage: &Stage, client: &Client) -> Result<()> {
    let promise = promise(stage, Cut::Drop)?;
    let ((gone, after), waited) = client.during(|| {
        let begun = Instant::now();
        BOTH.iter().try_for_each(|path| stage.bed.net.cut(*path, Cut::Drop))?;
        std::thread::sleep(promise + BOTH_GONE);
        works(stage, 0)?;
        for verb in ["status", "health"] {
            let output = stage.node.run(&format!("timeout --signal=KILL 60 etcd-lun {verb}"))?;
            if output.code == 137 {
                bail!("{verb} hangs without a path: {output}");
            }
        }
        stage.bed.net.repair()?;
        let gone = begun.elapsed();
        client.goes_on()?;
        let after = begun.elapsed() - gone;
        works(stage, 2)?;
        Ok((gone, after))
    })?;
    println!(
        "        both paths are gone for {:.0} s: {waited}; etcd answers {:.1} s after their return; promised that writes wait for an hour",
        gone.as_secs_f64(),
        after.as_secs_f64()
    );
    is_well(stage)
}

/// The map's name changes while etcd runs on it.
fn rename(stage: &Stage, client: &Client) -> Result<()> {
    let promise = promise(stage, Cut::Drop)?;
    for (friendly, name) in [("no", "3*"), ("yes", "mpath*")] {
        let ((), waited) = client.during(|| {
            stage.node.ok(&format!(
                "sed -i 's/user_friendly_names .*/user_friendly_names {friendly}/' /etc/multipath.conf; multipathd reconfigure"
            ))?;
            stage.wait_until(&format!("ls /dev/mapper/{name}"))
        })?;
        as_promised(&format!("user_friendly_names {friendly}"), &waited, promise)?;
        let taken = verbs::taken(&stage.node, "apply")?;
        if !taken.is_empty() {
            bail!("with user_friendly_names {friendly}, apply has done something: {taken:?}");
        }
    }
    is_well(stage)
}

/// One path's session ends, and is made again while etcd runs.
fn take_away_and_add(stage: &Stage, client: &Client) -> Result<()> {
    let promise = promise(stage, Cut::Drop)?;
    let path = active(stage)?;
    let spare = if path == Path::A { Path::B } else { Path::A };
    let ((), waited) = client.during(|| {
        stage.node.ok(&format!("iscsiadm -m node -p {} --logout", spare.portal()))?;
        works(stage, 1)
    })?;
    as_promised("the other path is logged out", &waited, promise)?;
    names_missing(stage, spare)?;
    let ((), waited) = client.during(|| {
        add(stage, spare)?;
        works(stage, 2)
    })?;
    as_promised("a path is added", &waited, promise)?;
    is_well(stage)
}
