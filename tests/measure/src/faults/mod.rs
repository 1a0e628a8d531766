//! Measures how soon etcd acknowledges a write again after its storage was away, while a client writes all the time.

use std::time::{Duration, Instant};
use std::{collections::BTreeMap, path::Path, rc::Rc};

use anyhow::{Context, Result, ensure};
use nodes::scenarios::{health, lost, paths, paths::client::Client, pod};
use nodes::{bed::Bed, net, scene::Wanted, shared::Shared, stage::Stage, suite, verbs};

mod act;

/// What is played.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Options {
    /// How often the session or the disk is lost, in each of four ways.
    #[arg(long, default_value_t = 10)]
    log_outs: usize,
    /// How many random faults follow.
    #[arg(long, default_value_t = 200)]
    faults: usize,
    /// What they are made from. Without this each run has others.
    #[arg(long)]
    seed: Option<u64>,
    /// The longest of them, in seconds.
    #[arg(long, default_value_t = 15.0)]
    longest: f64,
    /// Begin with this one of them all, to play one again that went wrong.
    #[arg(long, default_value_t = 1)]
    first: usize,
    /// Run etcd on a multipath map over both portals.
    #[arg(long)]
    multipath: bool,
    /// Run etcd as a static pod under the kubelet's stand-in.
    #[arg(long)]
    static_pod: bool,
}

/// The program mounts a LUN anew only three times an hour.
const AN_HOUR_PASSES: &str = "rm -f /run/etcd-lun/mounted-anew.json";

/// What a fault must not change.
const LOOK: &str = "until systemctl show --property ActiveState etcd-lun-lost.service | grep -q inactive; do sleep 0.5; done
    echo $(ls /sys/class/iscsi_session), $(dmesg | grep -c 'XFS.*: Filesystem has been shut down') times shut down, \
        $(journalctl -b -q -o cat -t etcd-lun STEP=log-out | wc -l) lines of log-outs";

/// Plays what the options say, and prints the figures. An error names each limit that was broken.
pub fn play(bed: &Rc<Bed>, agent: &Path, options: Options) -> Result<()> {
    let (begun, seed) = (Instant::now(), options.seed.unwrap_or_else(|| fastrand::u32(..).into()));
    println!("bed: again with --seed {seed} {options:?}");
    let mut stage = ready(bed, agent, options)?;
    let client = Client::begin(&stage)?;
    let (mut waits, mut wrong) = (BTreeMap::<_, Vec<Duration>>::new(), Vec::new());
    let mut before = stage.node.ok(LOOK)?;
    let acts = act::losses(options.log_outs).chain(act::faults(seed, options.longest).take(options.faults));
    for (number, act) in (1..).zip(acts).skip(options.first.saturating_sub(1)) {
        let crash = waits.get(act::CRASH).filter(|_| act.is_loss && options.static_pod);
        let limit = crash.map_or(act.limit, |all| act.limit.max(all[0].mul_f64(1.1)));
        let what = format!("{number}, {} at {:?} for {:.1?}", act.what, act.paths, act.lasts);
        let mut play = || {
            let ended = act.play(&mut stage)?;
            // Until a loss, writes go on.
            let from = if act.is_loss { Instant::now() } else { ended };
            let waited =
                client.waited_from(from, limit * 5)?.context("etcd acknowledges no write")? + (from - ended);
            println!("bed: {what}: a write was acknowledged after {waited:.1?}");
            waits.entry(if act.is_loss { act.what } else { "faults" }).or_default().push(waited);
            let earlier = std::mem::replace(&mut before, stage.node.ok(LOOK)?);
            if act.is_loss && (options.static_pod || number % 3 == 0) {
                // The kubelet waits longer before each start of a container, until it is restarted itself.
                let passes = format!("{AN_HOUR_PASSES}; systemctl try-restart kubelet");
                println!("bed: as if an hour had passed: {passes}");
                stage.node.ok(&passes)?;
                client.waited_from(Instant::now(), limit * 5)?.context("etcd does not serve")?;
            }
            ensure!(waited <= limit, "a write was acknowledged only after {waited:.1?}");
            ensure!(act.is_loss || before == earlier, "before it {earlier}, after it {before}");
            Ok(())
        };
        if let Err(error) = play() {
            println!("bed: WRONG: {error:#}");
            wrong.push(format!("{what}: {error:#}"));
            stage.node.collect(&suite::failure_dir().join(number.to_string()))?;
            if client.waited_from(Instant::now(), limit)?.is_none() {
                break;
            }
        }
    }
    if let Err(error) = client.end().and_then(|()| at_the_end(&stage, options)) {
        wrong.push(format!("at the end: {error:#}"));
        stage.node.collect(&suite::failure_dir().join("end"))?;
    }
    for (what, mut all) in waits {
        all.sort_unstable();
        let [most, half] = [all[all.len() - 1], all[all.len() / 2]];
        println!(
            "{what}: {} played, writes went on after {most:.1?} at most, half after {half:.1?}",
            all.len()
        );
    }
    println!("Measured in {} s; the node ran under {}.", begun.elapsed().as_secs(), bed.accel());
    ensure!(
        wrong.is_empty(),
        "--seed {seed} went wrong (evidence: {}):\n{}",
        suite::failure_dir().display(),
        wrong.join("\n")
    );
    Ok(())
}

/// A node whose etcd is on a LUN, with all units and rules.
fn ready(bed: &Rc<Bed>, agent: &Path, options: Options) -> Result<Stage> {
    let mut stage = Stage::build(bed, agent, Shared::at(bed.run.dir().join("shared"))?)?;
    stage.offer_luns(1)?;
    let target = format!("multipath = {}\n", options.multipath);
    // multipathd has a section by WWID.
    let wwid = options.multipath.then(|| stage.wwid(1));
    let mut wanted = Wanted {
        target,
        wwid,
        portals: net::Path::STORAGE.map(net::Path::portal).into(),
        ..Wanted::default()
    };
    if options.static_pod {
        pod::hand_over(&stage)?;
        wanted = wanted.of_pod();
    }
    stage.configure(&wanted)?;
    stage.node.ok(lost::RULE)?;
    if options.multipath {
        paths::prepare_multipathd(&stage)?;
    }
    stage.apply()?;
    health::is_well(&stage)?;
    stage.node.ok("dmesg --clear").map(|_| stage)
}

/// Nothing is left of what has happened.
fn at_the_end(stage: &Stage, options: Options) -> Result<()> {
    // The target may still have those that were logged out while it was away.
    let sessions: usize = stage.node.ok("ls /sys/class/iscsi_session | wc -l")?.parse()?;
    let paths = 1 + usize::from(options.multipath);
    ensure!(sessions == paths, "there are {sessions} sessions instead of {paths}");
    // The kernel's log has the faults.
    stage.node.ok(&format!("dmesg --clear; {AN_HOUR_PASSES}"))?;
    health::is_well(stage)?;
    verbs::plans_nothing(&stage.node)?;
    if options.static_pod {
        pod::is_on_lun(stage, &format!("/{}", nodes::image::ETCD_POD))
    } else {
        stage.is_on_lun()
    }
}
