//! What arrays do, and neither tgt nor LIO shows: see [`crate::array`].

use anyhow::{Context, Result, bail};

use super::health::{self, finding};
use super::{carries, declines_command, each, lost, unnamed};
use crate::array::{Array, Faults, Volume};
use crate::net::Path;
use crate::scene::{LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{blank, fingerprint};

/// The digits of our volume's NAA name, and of another one's.
const OURS: &str = "60000000000000000bed0000000000a1";
const OTHER: &str = "60000000000000000bed0000000000a2";
/// A second port of the array.
const SECOND: &str = "10.77.0.1:3261";

type Fault = fn(&mut Faults);

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("storage/array", play)]
}

fn play(stage: &mut Stage) -> Result<()> {
    stage.target.stop();
    let volume = |name: &str, naa: &str| -> Result<Volume> {
        let file = stage.lun_file(name);
        blank(&file, LUN_SIZE)?;
        // The kernel prefers the name string. udev, multipath and the config take the other.
        let string = Some(format!("iqn.2024-02.com.example.array:{name}"));
        Ok(Volume { file, sector: 512, naa: naa.into(), name: string, standby: false })
    };
    let (ours, other) = (volume("ours", OURS)?, volume("other", OTHER)?);
    let faults = Faults { luns: [(1, ours.clone())].into(), ..Faults::default() };
    let array = Array::start(&stage.bed, &Path::A.portal(), faults.clone())?;
    // As `multipath -ll` prints it.
    let wwid = Some(format!("3{OURS}"));
    stage.configure(&Wanted { chap: None, wwid, attach_timeout: "10s".into(), ..Wanted::default() })?;

    let refused: [(&str, Fault, &str); 3] = [
        // "Too many connections"
        ("no room for a session", |faults| faults.refusal = Some([2, 6]), "room for another session"),
        (
            "sectors of 520 bytes",
            |faults| faults.luns.values_mut().for_each(|lun| lun.sector = 520),
            "520 bytes",
        ),
        (
            "a standby controller",
            |faults| faults.luns.values_mut().for_each(|lun| lun.standby = true),
            "10.77.0.1:3260",
        ),
    ];
    each(&refused, |(what, fault, word)| {
        array.set(fault);
        let declined = declines_command(stage, "etcd-lun apply", unnamed(&[word]));
        array.set(|now| *now = faults.clone());
        println!("        {what}: {}", declined.with_context(|| (*what).to_owned())?.stderr.trim());
        Ok(())
    })?;

    // A log-in is sent to another port, and the session is there.
    let second = Array::start(&stage.bed, SECOND, faults.clone())?;
    array.set(|faults| faults.redirect = Some(SECOND.into()));
    stage.apply()?;
    stage.is_on_lun()?;
    let at = stage.node.ok("cat /sys/class/iscsi_connection/*/port")?;
    if at.trim() != "3261" {
        bail!("the session is at the port {at}");
    }
    drop(second);
    array.set(|faults| faults.redirect = None);
    stage.wait_until("etcdctl put /live/first yes && dmesg --clear")?;
    health::is_well(stage)?;

    for (code, said) in [
        ([0x38, 0x07], "thin provisioning soft threshold"),
        ([0x2a, 0x06], "Asymmetric access state changed"),
        ([0x3f, 0x03], "Inquiry data has changed"),
    ] {
        array.announce(code);
        stage.node.ok("etcdctl put /live/said yes")?;
        carries(&finding(stage, "kernel-log")?, &[said])?;
        stage.node.ok("dmesg --clear")?;
    }

    another_volume(stage, &array, (&ours, &other), true)?;
    another_volume(stage, &array, (&ours, &other), false)?;

    // Another machine has this node's initiator name, and each ends the other's session (RFC 7143, 6.3.5).
    stage.node.ok("dmesg --clear")?;
    for _ in 0..6 {
        stage.wait_until("grep -q LOGGED_IN /sys/class/iscsi_session/*/state")?;
        array.cut();
        stage.wait_until("! grep -q LOGGED_IN /sys/class/iscsi_session/*/state")?;
    }
    let why = finding(stage, "kernel-log")?;
    println!("        {why}");
    carries(&why, &["whether another machine has this initiator name"])?;
    stage.wait_until("etcdctl put /live/last yes")?;
    stage.is_on_lun()
}

/// Another volume lies behind our LUN from one command to the next. The array says so, or the next minute's look finds it; then
/// nothing is written to it any more, and etcd is down. It serves from the right one, with everything that was acknowledged before.
fn another_volume(
    stage: &Stage,
    array: &Array,
    (ours, other): (&Volume, &Volume),
    announced: bool,
) -> Result<()> {
    blank(&other.file, LUN_SIZE)?;
    stage.node.ok(&format!("{}; etcdctl put /live/before yes", lost::RULE))?;
    let since = stage.node.ok("date +%s")?;
    array.set(|faults| drop(faults.luns.insert(1, other.clone())));
    if announced {
        array.announce([0x3f, 0x0e]);
        stage.node.run("timeout 5 etcdctl put /live/late yes")?;
    } else {
        stage.node.ok("systemctl start etcd-lun-health.service")?;
    }
    let gone = format!(
        "journalctl -k --since=@{since} -o short-unix | awk '
             /LUN assignments/ && !a {{ a = $1 }} /Synchronizing SCSI cache/ && !b {{ b = $1 }} END {{ if (!b) exit 1; print b - (a ? a : {since}) }}'"
    );
    stage.wait_until(&format!("{gone} >/dev/null"))?;
    let before = fingerprint(&other.file)?;
    let took = stage.node.ok(&gone)?;
    println!("        another volume, announced: {announced}: its disk is gone after {took} s");
    // An emulated node is slow.
    if announced && took.parse::<f64>()? > 30.0 {
        bail!("{took} s are too long");
    }
    stage.node.ok("sleep 10; ! timeout 5 etcdctl put /live/late yes >/dev/null 2>&1")?;
    if fingerprint(&other.file)? != before {
        bail!("the other volume was written to after that");
    }
    array.set(|faults| drop(faults.luns.insert(1, ours.clone())));
    stage.apply()?;
    stage.is_on_lun()?;
    stage.has_kept("/live/before")
}
