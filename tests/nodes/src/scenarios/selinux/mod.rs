//! A node that enforces SELinux from its kernel command line on. The object is delivered as in `boot/*`.
//!
//! The node has Debian's policy, Red Hat's label on iscsiadm, and an audit log without omissions (see
//! `guest/finish.sh`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use super::boot::{self, NODES};
use super::{delivered, has};
use crate::delivery::{self, EtcdRunner, Root};
use crate::host;
use crate::node::Node;
use crate::registry::{Registry, introduce_on};
use crate::scene::Wanted;
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::vm::{Options, Selinux};

pub(super) mod audit;
mod closed;
mod grants;
mod misuse;
mod multipath;
mod portal;
mod static_pod;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("selinux/static-pod", static_pod::migrated_then_late),
        Scenario::new("selinux/enforcing", |stage| {
            enforcing(stage)?;
            misuse::is_denied(&stage.node)?;
            closed::without_the_label(&stage.node)
        }),
        Scenario::new("selinux/service", service),
        Scenario::new("selinux/fetched", fetched),
        multipath::scenario(),
    ]
}

/// The first boot fetches the program from an image, by podman. Then come days on which somebody else labels the LUN's disk, or
/// makes another device of it.
fn fetched(stage: &mut Stage) -> Result<()> {
    let registry = Registry::start(&stage.bed)?;
    let disk = by_image(stage, &registry)?;
    stage.offer_luns(boot::NODES.len())?;
    stage.change_node(node(stage, &disk, &boot::pool())?);
    stage.node.power_on()?;
    runs_confined(stage)?;
    if delivered::fetches(stage)? != 1 {
        bail!("the program should come from the image, once");
    }
    labels(&stage.node)?;
    soft_reboots(stage)?;
    multipathd_comes(stage)
}

/// Two boots only, because boots take longest. The first one installs the policy and migrates. The second one
/// finds everything in place.
fn enforcing(stage: &mut Stage) -> Result<()> {
    let disk = boot::delivered(stage, &boot::pool(), EtcdRunner::Unit)?;
    // One more than the config has.
    let foreign = boot::NODES.len() + 1;
    stage.offer_luns(foreign)?;
    stage.change_node(node(stage, &disk, &boot::pool())?);
    stage.node.power_on()?;
    runs_confined(stage)?;
    labels(&stage.node)?;
    another_lun_keeps_its_label(&stage.node, foreign)?;
    delivered::is_repaired(stage)?;
    let store = store(&stage.node)?;

    stage.node.reboot()?;
    runs_confined(stage)?;
    boot::nothing_to_do(stage)?;
    labels(&stage.node)?;
    if self::store(&stage.node)? != store {
        bail!("the second boot wrote to the policy store");
    }
    Ok(())
}

/// What the service does later than at a boot. The last tests damage the node, which is not used after them.
fn service(stage: &mut Stage) -> Result<()> {
    let disk = boot::delivered(stage, &boot::pool(), EtcdRunner::Unit)?;
    let disk = installed(stage, &disk, &boot::pool())?;
    stage.offer_luns(boot::NODES.len())?;
    stage.change_node(node(stage, &disk, &boot::pool())?);
    stage.node.power_on()?;
    runs_confined(stage)?;
    writes_metrics(&stage.node)?;
    super::lost::comes_back_confined(stage)?;
    super::lost::beneath_the_mount(stage, true, 7)?;
    audit::nothing_denied(&stage.node)?;
    comes_late(stage)?;
    rollback_ends(stage)?;
    closed::removed(stage)?;
    closed::without_the_module(&stage.node)?;
    closed::without_an_entry(&stage.node)
}

/// User space restarts, and the kernel stays, with its session, and without the label of the LUN's disk: twice, and without the
/// target. Then somebody labels /dev anew, and the minute's check has the label set again.
fn soft_reboots(stage: &mut Stage) -> Result<()> {
    for has_target in [true, true, false] {
        let offer = stage.target.offered().clone();
        if !has_target {
            stage.target.stop();
        }
        stage.node.soft_reboot()?;
        if !has_target {
            stage
                .node
                .ok("! systemctl is-active etcd-lun.service && test -z \"$(findmnt /var/lib/etcd)\"")?;
            stage.target.offer(offer)?;
        }
        stage.wait_until("etcdctl endpoint health >/dev/null 2>&1")?;
        stage.is_on_lun()?;
        labels(&stage.node)?;
    }
    stage.node.ok("restorecon -RF /dev")?;
    stage.wait_until(
        "systemctl start etcd-lun-health.service; stat -Lc %C /dev/disk/by-label/etcd-lun | grep -q etcd_lun_device_t",
    )?;
    labels(&stage.node)?;
    audit::nothing_else_denied(&stage.node, "sd")
}

/// Somebody else's multipathd makes a map of the LUN's path, of which the config says nothing.
fn multipathd_comes(stage: &mut Stage) -> Result<()> {
    stage.node.ok(
        "printf 'defaults {\\n find_multipaths no\\n}\\n' >/etc/multipath.conf; mkdir -p /etc/multipath
         restorecon -R /etc/multipath /etc/multipath.conf; systemctl enable --quiet multipathd.service",
    )?;
    stage.node.reboot()?;
    boot::ran_before_etcd(&stage.node)?;
    stage.is_on_lun()?;
    let source = stage.node.ok("findmnt --noheadings --output SOURCE /var/lib/etcd")?;
    if !source.starts_with("/dev/mapper/") {
        bail!("etcd's data is on {source}, which is no map");
    }
    audit::nothing_else_denied(&stage.node, "dm-")
}

/// A disk with the object of an image. Debian's policy confines podman more than Red Hat's does, and denies it to have the
/// kernel load overlayfs, which CRI-O has loaded on a node of OpenShift.
fn by_image(stage: &Stage, registry: &Registry) -> Result<PathBuf> {
    let pushed = registry.push(&stage.binary)?;
    let (object, trust) = (boot::object_with(stage, &boot::pool(), &pushed)?, registry.trust()?);
    boot::with_data(stage, "by-image-enforcing", &object, EtcdRunner::Unit, move |root| {
        introduce_on(root, &trust)?;
        root.put("/etc/modules-load.d/overlay.conf", 0o644, b"overlay\n")?;
        root.label("/etc/modules-load.d")
    })
}

/// A copy of a disk with the policy module in its store. `selinux/enforcing` tests that the service installs
/// it. That takes an emulated node more than a minute.
fn installed(stage: &Stage, disk: &Path, wanted: &Wanted) -> Result<PathBuf> {
    let module = boot::module(stage, wanted)?;
    delivery::change(&stage.bed, "installed", disk, |root: &Root| install(root, "etcd_lun", &module))
}

/// Puts a module into the policy store of a disk.
fn install(root: &Root, name: &str, module: &str) -> Result<()> {
    let script = format!(
        "cat >/tmp/{name}.cil; semodule --noreload --priority 350 --install /tmp/{name}.cil; rm /tmp/{name}.cil"
    );
    root.run(&script, module.as_bytes())?;
    root.label("/etc/selinux /var/lib/selinux /etc/audit /etc/systemd")
}

fn node(stage: &Stage, disk: &Path, wanted: &Wanted) -> Result<Node> {
    let disk = grants::with_audit_module(stage, disk, wanted)?;
    let options = Options { hostname: Some(NODES[0]), selinux: Selinux::Enforcing, ..Options::default() };
    Node::off(&stage.bed, NODES[0], &disk, options)
}

/// Checks that SELinux enforces, the service ran in its domain, etcd is on the LUN, `health` also runs in the
/// domain and is ok, and nothing was denied.
fn runs_confined(stage: &Stage) -> Result<()> {
    let node = &stage.node;
    if node.ok("getenforce")? != "Enforcing" {
        bail!("the node does not enforce SELinux");
    }
    let took = boot::ran_before_etcd(node)?;
    stage.is_on_lun()?;
    node.ok("etcdctl put /this/node master-0")?;
    ran_in_its_domain(node)?;
    // The transition sets the domain, because this unit has no SELinuxContext=. In a unit of this name,
    // `health` reports every other domain.
    let health = node.run_within(
        "systemd-run --quiet --wait --unit=etcd-lun-bed /var/lib/etcd-lun/bin/etcd-lun health; echo $?
         journalctl --sync; journalctl -b --no-pager -o cat -u etcd-lun-bed",
        crate::scene::LIMIT,
    )?;
    // The check `iowait` is ignored: it says nothing on an emulated node.
    let well = health.stdout.starts_with("0\n")
        || (health.stdout.starts_with("4\n")
            && health.stdout.lines().any(|line| line == "unhealthy: iowait"));
    if !well {
        bail!("`health` as a unit found a fault: {health}");
    }
    // The verdict is ignored: an emulated disk may be too slow.
    let bench = node.run_within(
        "systemd-run --quiet --wait --unit=etcd-lun-bench /var/lib/etcd-lun/bin/etcd-lun bench --writes 100 --json; echo $?
         journalctl --sync; journalctl -b --no-pager -o cat -u etcd-lun-bench",
        crate::scene::LIMIT,
    )?;
    let measured = ["0\n", "4\n"].iter().any(|code| bench.stdout.starts_with(code));
    if !measured || !bench.stdout.contains("\"verdict\"") {
        bail!("`bench` as a unit did not measure: {bench}");
    }
    audit::nothing_denied(node)?;
    println!(
        "        etcd-lun.service took {:.1} s in its domain; SELinux denied nothing",
        took.as_secs_f32()
    );
    Ok(())
}

/// Checks what domain the service ran in, since this boot.
fn ran_in_its_domain(node: &Node) -> Result<()> {
    // PID 1's own process writes lines for the unit too, when it reads the credentials.
    let script = "journalctl --sync; journalctl -b --no-pager -o json _SYSTEMD_UNIT=etcd-lun.service _COMM=etcd-lun _TRANSPORT=journal | jq --raw-output ._SELINUX_CONTEXT | sort -u";
    // journalctl ignores a journal that journald is just making larger, and calls it truncated.
    let contexts = host::poll(Duration::from_secs(60), Duration::from_secs(2), || {
        let found = node.ok(script)?;
        Ok((!found.is_empty()).then_some(found))
    })?
    .unwrap_or_default();
    if contexts.trim_end_matches('\0') != "system_u:system_r:etcd_lun_t:s0" {
        bail!("etcd-lun.service should run in etcd_lun_t, but ran as {contexts:?}");
    }
    Ok(())
}

/// Someone makes the directory for metrics, without our label. A run that has begun already must not try to write there, and
/// the timer's service must write into it.
fn writes_metrics(node: &Node) -> Result<()> {
    // No run of the timer may label the directory meanwhile, and `systemctl start` would wait for a run that began before.
    let early = node.ok("systemctl stop etcd-lun-health.timer
         while [ \"$(systemctl show --property ActiveState --value etcd-lun-health.service)\" = activating ]; do sleep 1; done
         mkdir -p /var/node_exporter/textfile
         systemd-run --quiet --wait --collect --unit=etcd-lun-bed-early /var/lib/etcd-lun/bin/etcd-lun health --record || [ $? = 4 ]
         ls /var/node_exporter/textfile; journalctl --sync; journalctl -b -o cat -u etcd-lun-bed-early | grep /var/node_exporter/textfile")?;
    // No file, and one line, which has the cure.
    if early.lines().count() != 1 || !has(&early, "restorecon -R /var/node_exporter/textfile") {
        bail!("a run before the directory has its label should write no metrics: {early}");
    }
    node.ok(
        "systemctl start etcd-lun-health.timer
         while [ \"$(systemctl show --property ActiveState --value etcd-lun-health.service)\" = activating ]; do sleep 1; done
         systemctl start etcd-lun-health.service || { journalctl --sync; journalctl -b -o cat -u etcd-lun-health; false; }
         grep -q '^etcd_lun_check{' /var/node_exporter/textfile/etcd-lun.prom",
    )?;
    audit::nothing_denied(node)
}

/// etcd has failed because of the fence, and the LUN is back. The service must start etcd from its domain. Meanwhile somebody has
/// written other labels to the LUN, which do not count.
fn comes_late(stage: &Stage) -> Result<()> {
    stage.node.ok("systemctl stop etcd.service; umount /var/lib/etcd
         mount /dev/disk/by-label/etcd-lun /mnt && chcon --recursive --type bin_t /mnt && umount /mnt
         iscsiadm --mode node --logout
         ! systemctl start etcd.service; systemctl restart etcd-lun.service
         etcdctl --command-timeout 60s endpoint health")?;
    stage.is_on_lun()?;
    labels(&stage.node)?;
    audit::nothing_denied(&stage.node)
}

/// The service finishes a rollback that was cut short after its commit point, from its domain. Then `apply`
/// by hand migrates again.
fn rollback_ends(stage: &Stage) -> Result<()> {
    super::rollback::stuck_after_the_commit(stage)?;
    stage.node.ok("systemctl restart etcd-lun.service")?;
    stage.node.ok("etcdctl --command-timeout 60s endpoint health")?;
    stage.is_untouched()?;
    audit::nothing_denied(&stage.node)?;
    stage.apply()?;
    stage.is_on_lun()
}

/// Checks the label of every file that has one by the module.
fn labels(node: &Node) -> Result<()> {
    let wanted = [
        ("/var/lib/etcd-lun/bin/etcd-lun", "etcd_lun_exec_t"),
        ("/var/lib/etcd-lun/bin", "etcd_lun_exec_t"),
        ("/var/lib/etcd-lun/program", "etcd_lun_exec_t"),
        ("/etc/etcd-lun/config.toml", "etcd_lun_conf_t"),
        ("/etc/iscsi/initiatorname.iscsi", "etcd_lun_iscsi_conf_t"),
        ("/run/etcd-lun-hands", "etcd_lun_hands_run_t"),
        ("/var/lib/etcd-lun/authority.json", "etcd_lun_var_lib_t"),
        ("/var/lib/etcd-lun/retired/1/member/snap/db", "etcd_lun_data_t"),
        ("/var/lib/etcd", "etcd_lun_data_t"),
        ("/var/lib/etcd/member/snap/db", "etcd_lun_data_t"),
        ("/run/etcd-lun/lock", "etcd_lun_var_run_t"),
        ("/dev/disk/by-label/etcd-lun", "etcd_lun_device_t"),
    ];
    let paths: Vec<&str> = wanted.iter().map(|(path, _)| *path).collect();
    let found = node.ok(&format!("stat --dereference --format %C {}", paths.join(" ")))?;
    for ((path, type_), label) in wanted.iter().zip(found.lines()) {
        if label.split(':').nth(2) != Some(type_) {
            bail!("{path} is {label}, not {type_}");
        }
    }
    // The directory below the mount must have the label too.
    let below = node.ok("unshare --mount sh -c 'umount /var/lib/etcd && stat --format %C /var/lib/etcd'")?;
    if !below.contains("etcd_lun_data_t") {
        bail!("the directory below the mount is {below}");
    }
    Ok(())
}

/// Somebody attaches another LUN of the same target.
fn another_lun_keeps_its_label(node: &Node, number: usize) -> Result<()> {
    let label = node.ok(&format!(
        "echo 0 0 {number} >/sys/class/scsi_host/$(ls /sys/class/iscsi_host | head -n 1)/scan
         until disk=$(readlink -e /dev/disk/by-path/*-lun-{number}); do sleep 0.2; done; udevadm settle; stat --format %C $disk
         echo 1 >/sys/block/$(basename $disk)/device/delete; udevadm settle"
    ))?;
    if !label.contains("fixed_disk_device_t") {
        bail!("another LUN of the target has the label {label}");
    }
    Ok(())
}

/// The policy store and the policy that is made from it: every file's content and time of change.
fn store(node: &Node) -> Result<String> {
    // A Red Hat policy has a thousand files, so one process hashes many of them.
    node.ok("{ find /etc/selinux /var/lib/selinux -type f -printf '%p %T@\\n'; find /etc/selinux /var/lib/selinux -type f -exec sha256sum {} +; } | sort | sha256sum")
}
