//! Plays `docs/tour.md` on a node: each command that the page shows, and between them what the page only tells.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, bail};

use super::{At, PAGE, Shown, Tour};
use crate::bed::Bed;
use crate::etcd;
use crate::node::Node;
use crate::scene::{self, LUN_SIZE, Wanted};
use crate::stage::Stage;
use crate::target::{self, Lun, Offer, Target};
use crate::vm::Options;

const KEYS: usize = 10_000;

/// What happens before a command that begins so, without the page showing it. The first of these of a page's section.
const BEFORE: &[(&str, &str)] = &[
    // A boot at which etcd-lun does not run.
    ("systemctl start etcd.service", REBOOTED),
    ("echo \"write through\"", SERVED),
    ("etcd-lun retired list", "echo 'write back' >/sys/block/sda/queue/write_cache"),
];
const REBOOTED: &str = "findmnt /var/lib/etcd && exit 1; systemctl reset-failed etcd.service";
/// The check `units` wants the timer to run.
const SERVED: &str =
    "etcd-lun apply && etcd-lun render units --into /etc/systemd/system && systemctl daemon-reload &&
    systemctl start etcd-lun-health.timer etcd-lun-health.service; systemctl is-active etcd.service";

/// Plays the node's part, and writes what it prints into the page.
pub fn write(bed: &Rc<Bed>, agent: &Path) -> Result<()> {
    let tour = Tour::read(Path::new(PAGE))?;
    let file = bed.run.dir().join("lun1");
    target::blank(&file, LUN_SIZE)?;
    let _target =
        Target::start(bed, Offer { chap: Some(scene::chap()), ..Offer::open(vec![Lun::new(1, file)]) })?;
    let mut node = Node::boot(bed, Options::default())?;
    etcd::start(&node)?;
    etcd::put_keys(&node, KEYS)?;
    scene::install(&node, agent)?;
    scene::configure_with_units(&node, &Wanted::default())?;
    let text = tour.with(&play(&mut node, &tour)?)?;
    fs::write(PAGE, text).with_context(|| format!("writing {PAGE}"))
}

/// Plays the node's part. It must print what the page says.
pub fn check(stage: &mut Stage) -> Result<()> {
    let tour = Tour::read(Path::new(PAGE))?;
    stage.configure(&Wanted::default())?;
    play(&mut stage.node, &tour)?.iter().try_for_each(|(shown, output)| shown.is_printed_by(output))
}

/// Returns what each command of the node printed.
fn play<'a>(node: &mut Node, tour: &'a Tour) -> Result<Vec<(&'a Shown, String)>> {
    let mut before = BEFORE.iter().peekable();
    let mut played = Vec::new();
    for shown in tour.commands(At::Node) {
        if let Some((_, script)) = before.next_if(|(begins, _)| shown.command.starts_with(begins)) {
            if *script == REBOOTED {
                node.reboot()?;
            }
            node.ok(script).with_context(|| format!("before `{}`", shown.command))?;
        }
        // As at a terminal: both outputs in their order, and the commands of a line one after the other.
        let output = node.run_within(&format!("{{ {}\n}} 2>&1", shown.command), scene::LIMIT)?;
        played.push((shown, output.stdout));
    }
    match before.next() {
        None => Ok(played),
        Some((begins, _)) => bail!("docs/tour.md has no command {begins:?}"),
    }
}
