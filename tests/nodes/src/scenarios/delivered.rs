//! How the program reaches a node: from an image in a registry, or inside the object.
//!
//! One node goes through all of it. The Machine Config Daemon is not available, so the bed writes what an object changes on
//! the running node, and restarts what the rendered NodeDisruptionPolicy names. A stand-in for `crio-wipe.service` empties
//! the storage of images at every boot, as the real one does after a power cut.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::boot::{self, NODES, Unit, pool, wait_for};
use super::has as has_value;
use crate::delivery::{EtcdRunner, ignition_of};
use crate::host;
use crate::registry::{Pushed, Registry, introduce_on};
use crate::scene::{self, PROGRAM};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::verbs;

const ORDER: &str = "/etc/etcd-lun/program";
const PACKED: &str = "/usr/local/lib/etcd-lun/program.lzma";
const SERVICE: &str = "etcd-lun-program.service";
const FETCH: &str = "etcd-lun-program-fetch.service";
/// What podman says if the registry is away.
const NO_REGISTRY: &str = "connection refused";
/// Longer than a fetch by an emulated node, and the 20 s before it.
const COMES: Duration = Duration::from_secs(180);

const CRIO_WIPE: &str = "[Unit]\nDescription=Stand-in for crio-wipe\nBefore=crio.service\nRequiresMountsFor=/var/lib/containers\n\
     [Service]\nType=oneshot\nExecStart=/bin/sh -c 'sleep 2; rm -rf /var/lib/containers/storage'\n\
     [Install]\nWantedBy=multi-user.target\n";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("delivery/other-objects", |stage| {
        let mut by = by_image(stage)?;
        old_object(stage, &mut by.registry, &by.one).context("with the old object")?;
        other_way(stage, &mut by.registry, &by.two).context("from the object to an image")?;
        removal(stage, &by.object).context("after the removal")
    })]
}

/// What brought the program to a node.
struct ByImage {
    registry: Registry,
    object: String,
    one: Pushed,
    two: Pushed,
}

/// The first delivery, a power cut, a damaged program, and a new one.
fn by_image(stage: &mut Stage) -> Result<ByImage> {
    let mut registry = Registry::start(&stage.bed)?;
    let one = registry.push(&stage.binary)?;
    let object = boot::object_with(stage, &pool(), &one)?;
    let trust = registry.trust()?;
    let disk = boot::with_data(stage, "by-image", &object, EtcdRunner::Unit, |root| {
        introduce_on(root, &trust)?;
        root.put("/etc/systemd/system/crio-wipe.service", 0o644, CRIO_WIPE.as_bytes())?;
        root.run("systemctl --quiet enable crio-wipe.service", &[])
    })?;
    stage.offer_luns(NODES.len())?;
    stage.change_node(boot::node(stage, NODES[0], &disk)?);
    first_delivery(stage, &mut registry, &one).context("at the first delivery")?;
    power_cut(stage, &mut registry).context("after a power cut")?;
    is_repaired(stage).context("with a damaged program")?;
    // A boot without it is over.
    registry.restart()?;
    let two = registry.push(&longer(stage, 1)?)?;
    another_program(stage, &one, &two).context("with another program in the image")?;
    new_program(stage, &object, &two).context("with a new program")?;
    Ok(ByImage { registry, object, one, two })
}

/// The registry is away. etcd runs from the local disk, and one message says what is missing. When the registry is back, the
/// node fetches the program by itself.
fn first_delivery(stage: &mut Stage, registry: &mut Registry, one: &Pushed) -> Result<()> {
    registry.stop();
    stage.node.power_on()?;
    stage.is_untouched()?;
    let said = stage.node.said(SERVICE)?;
    let of_ours = |line: &&str| line.starts_with("etcd-lun-program: ");
    let told: Vec<&str> = said.lines().filter(of_ours).collect();
    // Which image, and why, in the words of podman.
    let is_clear = |line: &str| has_value(line, &one.image) && line.contains(NO_REGISTRY);
    if told.is_empty() || !told.iter().all(|line| is_clear(line)) {
        bail!("{SERVICE} does not say what it could not fetch, and why: {said}");
    }
    println!("        {}", told[0]);
    // podman says it in its own words, too.
    let twice = stage.node.said(FETCH)?.lines().any(|line| of_ours(&line));
    if told.len() > said.matches("Failed to start").count() || twice {
        bail!("the message should be in the journal once for each try: {said}");
    }
    registry.restart()?;
    wait_for(&stage.node, SERVICE, "active", COMES)?;
    has(stage, one)?;
    println!("        with the fetch, {SERVICE} took {:.1} s", took(stage, SERVICE)?.as_secs_f32());
    stage.node.ok("test /usr/local/bin/etcd-lun -ef /var/lib/etcd-lun/bin/etcd-lun && [ $(stat --format %a /var/lib/etcd-lun) = 700 ]")?;
    // An attempt in the background does not stop an etcd that serves: the next boot migrates, or a person.
    wait_for(&stage.node, "etcd-lun.service", "failed", COMES)?;
    stage.node.ok("systemctl reset-failed etcd-lun.service")?;
    stage.apply()?;
    // For a boot, and for a person.
    stage.node.ok("cmp /var/lib/etcd-lun/config.json /var/lib/etcd-lun/bin/config.json")?;
    stage.is_on_lun()
}

/// Neither image nor registry: a later boot needs one checksum only, and does not wait for the network.
fn power_cut(stage: &mut Stage, registry: &mut Registry) -> Result<()> {
    stage.node.ok(
        "podman image exists $(sed -n s/^image=//p /etc/etcd-lun/program) && etcdctl put /before/the/cut yes",
    )?;
    registry.stop();
    stage.node.power_cut();
    stage.node.power_on()?;
    stage.is_on_lun()?;
    stage.has_kept("/before/the/cut")?;
    stage.node.ok("! podman image exists $(sed -n s/^image=//p /etc/etcd-lun/program)")?;
    if Unit::of(&stage.node, SERVICE)?.get("After").contains("network") || fetches(stage)? != 0 {
        bail!("an ordinary boot waited for the network, or fetched the image");
    }
    println!("        an ordinary boot: {SERVICE} took {:.2} s", took(stage, SERVICE)?.as_secs_f32());
    Ok(())
}

/// A damaged program, and then none at all, are replaced from the node's own copy.
pub(super) fn is_repaired(stage: &Stage) -> Result<()> {
    let fetched = fetches(stage)?;
    for damage in ["dd if=/dev/urandom of=P bs=4096 count=4 seek=10 conv=notrunc status=none", "rm P"] {
        stage.node.ok(&format!(
            "sum=$(sha256sum <{PROGRAM}); label=$(stat --format %C {PROGRAM})
             {}; systemctl restart {SERVICE}
             [ \"$(sha256sum <{PROGRAM})\" = \"$sum\" ] && [ \"$(stat --format %C {PROGRAM})\" = \"$label\" ]",
            damage.replace('P', PROGRAM)
        ))?;
    }
    if fetches(stage)? != fetched {
        bail!("the image was fetched although the node has a copy");
    }
    Ok(())
}

/// The order asks for a program that the image does not hold.
fn another_program(stage: &Stage, one: &Pushed, two: &Pushed) -> Result<()> {
    let mixed = Pushed { sum: "0".repeat(64), ..two.clone() };
    ask_for(stage, Some(&two.image), &mixed.sum)?;
    // The image is pulled twice, which takes an emulated node minutes.
    if stage.node.run_within(&format!("systemctl restart {SERVICE}"), scene::LIMIT)?.code == 0 {
        bail!("an image that holds another program was accepted");
    }
    let said = stage.node.said(SERVICE)?;
    let names_all =
        |line: &str| [&two.image, &two.sum, &mixed.sum].iter().all(|value| has_value(line, value));
    if !said.lines().any(names_all) {
        bail!("{SERVICE} does not say that the image holds another program: {said}");
    }
    has(stage, one)?;
    stage.is_on_lun()
}

/// Both objects differ in one file, and a change of this file restarts units instead of the node.
fn new_program(stage: &Stage, object: &str, two: &Pushed) -> Result<()> {
    let (before, after) = (ignition_of(object)?, ignition_of(&boot::object_with(stage, &pool(), two)?)?);
    let files = |config: &Value| config["storage"]["files"].as_array().cloned().unwrap_or_default();
    let changed: Vec<_> = files(&after).into_iter().filter(|file| !files(&before).contains(file)).collect();
    if changed.len() != 1 || changed[0]["path"] != ORDER || before["systemd"] != after["systemd"] {
        bail!("a new program should change {ORDER} only, but changes {changed:?}");
    }
    let policy = host::ok(Command::new(&stage.binary).args(["render", "nodedisruptionpolicy"]), COMES)?;
    let policy: Value = serde_norway::from_str(&policy)?;
    let file = &policy["spec"]["nodeDisruptionPolicy"]["files"][0];
    if file["path"] != ORDER {
        bail!("the policy is about {}", file["path"]);
    }
    let pid = super::main_pid(stage)?;
    ask_for(stage, Some(&two.image), &two.sum)?;
    for action in file["actions"].as_array().into_iter().flatten() {
        let name = action["restart"]["serviceName"].as_str().context("an action without a service")?;
        stage.node.ok(&format!("systemctl restart {name}"))?;
    }
    has(stage, two)?;
    verbs::plans_nothing(&stage.node)?;
    if super::main_pid(stage)? != pid {
        bail!("etcd was restarted");
    }
    Ok(())
}

/// The node has kept the program of the old object.
fn old_object(stage: &Stage, registry: &mut Registry, one: &Pushed) -> Result<()> {
    registry.stop();
    let fetched = fetches(stage)?;
    ask_for(stage, Some(&one.image), &one.sum)?;
    stage.node.ok(&format!("podman rmi --all --force >/dev/null; systemctl restart {SERVICE}"))?;
    has(stage, one)?;
    if fetches(stage)? != fetched {
        bail!("the image was fetched although the node has a copy");
    }
    // Another object's program cannot be fetched, and the one that is there does not know a key of that object.
    let (repository, _) = one.image.split_once('@').context("an image without its digest")?;
    let newer = format!("{repository}@sha256:{}", "0".repeat(64));
    ask_for(stage, Some(&newer), &"0".repeat(64))?;
    // The same while that is tried again.
    stage.node.ok(&format!(
        "mkdir -p /etc/etcd-lun/config.d && printf '[target]\\nof_a_later_release = 1\\n' >/etc/etcd-lun/config.d/99-later.toml
             ! systemctl restart {SERVICE} || exit 1
             again=/run/systemd/system/{SERVICE}.d; mkdir $again && printf '[Service]\\nExecStartPre=sleep 40\\n' >$again/slow.conf
             systemctl daemon-reload; systemctl start --no-block {SERVICE}; [ $(systemctl is-active {SERVICE}) = activating ] || exit 1
             etcd-lun health >/dev/null || [ $? = 4 ] || exit 1
             rm -r $again && systemctl daemon-reload
             systemctl restart etcd-lun.service &&
             journalctl -b -u etcd-lun.service | grep 'takes the copy of the last one in /var/lib/etcd-lun/config.json' &&
             rm /etc/etcd-lun/config.d/99-later.toml"
    ))?;
    ask_for(stage, Some(&one.image), &one.sum)?;
    stage.node.ok(&format!("systemctl restart {SERVICE} etcd-lun.service"))?;
    has(stage, one)
}

/// The object brings the program itself, and later an image brings another one. Between both the node keeps a program, for
/// the unit that ends a shutdown. xz of the host packs it here: an object with a program for tests would be too large.
fn other_way(stage: &Stage, registry: &mut Registry, two: &Pushed) -> Result<()> {
    let program = longer(stage, 2)?;
    let sum = crate::registry::sum(&program)?;
    let mut pack = Command::new("xz");
    host::ok(pack.args(["--keep", "--force", "--format=lzma", "-6"]).arg(&program), COMES)?;
    let packed = program.with_extension("2.lzma");
    stage.node.copy_in(&packed, PACKED, 0o644)?;
    ask_for(stage, None, &sum)?;
    stage.node.ok(&format!("systemctl restart {SERVICE}"))?;
    let inside = Pushed { image: String::new(), program, sum };
    has(stage, &inside)?;
    registry.restart()?;
    stage.node.ok(&format!("rm {PACKED}"))?;
    ask_for(stage, Some(&two.image), &two.sum)?;
    has(stage, &inside)?;
    stage.node.ok(&format!("systemctl restart {SERVICE}"))?;
    has(stage, two)
}

/// After a rollback the object goes. Its files and units are gone, and people still have the program.
fn removal(stage: &mut Stage, object: &str) -> Result<()> {
    let output = stage.agent("rollback")?;
    if output.code != 0 {
        bail!("the rollback failed: {output}");
    }
    let config = ignition_of(object)?;
    let names = |list: &str, key: &str| -> Vec<&str> {
        let list = config.pointer(list).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|one| one[key].as_str()).collect()
    };
    // Of the others' units, such as etcd's, it has drop-ins only.
    let mut units = names("/systemd/units", "name");
    units.retain(|name| name.contains("etcd-lun"));
    stage.node.ok(&format!(
        "systemctl disable {units}; rm {}; cd /etc/systemd/system && rm {units} *.d/50-etcd-lun.conf; systemctl daemon-reload",
        names("/storage/files", "path").join(" "),
        units = units.join(" "),
    ))?;
    stage.node.reboot()?;
    stage.wait_until("etcdctl endpoint health >/dev/null 2>&1")?;
    stage.is_untouched()?;
    stage.node.ok(&format!(
        "etcd-lun --version && test -x {PROGRAM}
         ! systemctl list-unit-files --no-legend 'etcd-lun*' | grep .
         rm -r /var/lib/etcd-lun/bin /var/lib/etcd-lun/program /usr/local/bin/etcd-lun"
    ))?;
    Ok(())
}

/// A program with another checksum that does the same: bytes after the end of an ELF file are never loaded.
fn longer(stage: &Stage, bytes: usize) -> Result<PathBuf> {
    let path = stage.bed.run.dir().join(format!("program.{bytes}"));
    let mut program = fs::read(&stage.binary)?;
    program.resize(program.len() + bytes, 0);
    fs::write(&path, program)?;
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(path)
}

/// Writes what a node reads, as the Machine Config Daemon does.
fn ask_for(stage: &Stage, image: Option<&str>, sum: &str) -> Result<()> {
    let image = image.map(|image| format!("image={image}\n")).unwrap_or_default();
    stage.node.put(ORDER, 0o644, format!("{image}x86_64={sum}\n").as_bytes())
}

/// Checks that this program is in place, and that a copy is kept.
fn has(stage: &Stage, program: &Pushed) -> Result<()> {
    let found = stage.node.ok(&format!("sha256sum {PROGRAM} /var/lib/etcd-lun/program/{}", program.sum))?;
    if found.matches(&format!("{}  ", program.sum)).count() != 2 {
        bail!("{} should be in place, but found {found}", program.sum);
    }
    Ok(())
}

/// How often the image was fetched in this boot. systemd forgets a unit that has ended; the journal does not.
pub(super) fn fetches(stage: &Stage) -> Result<usize> {
    Ok(stage.node.said(FETCH)?.lines().filter(|line| line.starts_with("Starting ")).count())
}

fn took(stage: &Stage, name: &str) -> Result<Duration> {
    let unit = Unit::of(&stage.node, name)?;
    Ok(Duration::from_micros(unit.time("ExecMainExit")?.saturating_sub(unit.time("ExecMainStart")?)))
}
