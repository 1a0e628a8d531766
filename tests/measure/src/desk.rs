//! An administrator's machine in front of three nodes, to try a rollout as docs/rollout.md has it. What cannot run here is a
//! stand-in: the kubelet, `oc`, and the Machine Config Operator.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use nodes::bed::Bed;
use nodes::cluster::pool::{self, Pool};
use nodes::delivery::{EtcdRunner, ignition_of};
use nodes::desk::ssh_config;
use nodes::node::Node;
use nodes::registry::{self, Registry};
use nodes::scenarios::boot::NODES;
use nodes::scene;
use nodes::vm::Life;

/// What is at the desk: name, mode, text.
const FILES: [(&str, u32, &str); 4] = [
    ("bin/oc", 0o755, include_str!("../guest/desk/oc")),
    ("bin/oc-debug", 0o755, include_str!("../guest/desk/oc-debug")),
    ("bin/skopeo", 0o755, include_str!("../guest/desk/skopeo")),
    ("README", 0o644, include_str!("../guest/desk/README")),
];

/// Boots the nodes and serves the desk until a signal ends the run. A node that shuts down is turned on again.
pub fn serve(bed: &Rc<Bed>, agent: &Path) -> Result<()> {
    // One for each node, of the least size that a config asks for, and one to measure.
    let _target = pool::offer(bed, 1..=4, 20 << 30)?;
    let registry = Registry::start(bed)?;
    let mut pool = Pool::boot(bed, EtcdRunner::StaticPod, |node, seat| {
        registry.introduce(node)?;
        pool::link_certificate(node, seat)?;
        // Red Hat CoreOS makes one at a node's first boot.
        node.ok(
            "echo InitiatorName=$(iscsi-iname -p iqn.1994-05.com.redhat) >/etc/iscsi/initiatorname.iscsi",
        )?;
        for (path, script) in [
            (
                "/var/usrlocal/bin/machine-config-daemon",
                &include_bytes!("../../nodes/guest/machine-config-daemon")[..],
            ),
            ("/var/usrlocal/bin/cluster-backup.sh", &include_bytes!("../guest/desk/cluster-backup.sh")[..]),
            ("/var/usrlocal/bin/sudo", &include_bytes!("../guest/desk/sudo")[..]),
        ] {
            node.put(path, 0o755, script)?;
        }
        node.ok("install --mode 4755 /usr/sbin/chroot /var/usrlocal/bin/as-root").map(drop)
    })?;
    let enter = furnish(bed, agent, &registry, &pool)?;
    println!("bed: the desk is ready: {} COMMAND. End it with ^C.", enter.display());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        for (name, node) in NODES.iter().zip(&mut pool.nodes) {
            if let Some(how) = off(node)? {
                println!("bed: {name} is off ({how}), and is turned on");
                node.wait_off().ok();
                node.power_on_until(None)?;
            }
        }
    }
}

/// How the node ended; none if it runs.
fn off(node: &mut Node) -> Result<Option<String>> {
    Ok(match node.vm().life()? {
        Life::Running => None,
        Life::Off => Some("it shut down".into()),
        Life::Panicked(line) => {
            node.power_cut();
            Some(line)
        }
    })
}

/// Prints the Ignition config of a MachineConfig. The stand-in for `oc` uses this.
pub fn ignition(object: &Path) -> Result<()> {
    let text = fs::read_to_string(object).with_context(|| format!("cannot read {}", object.display()))?;
    println!("{}", ignition_of(&text)?);
    Ok(())
}

/// Writes the files of the desk. Returns the program that runs a command there.
fn furnish(bed: &Rc<Bed>, agent: &Path, registry: &Registry, pool: &Pool) -> Result<std::path::PathBuf> {
    let desk = bed.run.dir().join("desk");
    for dir in ["bin", "state", "array", "release", "work"] {
        fs::create_dir_all(desk.join(dir))?;
    }
    let write = |name: &str, mode: u32, text: &str| -> Result<()> {
        let file = desk.join(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    for (name, mode, text) in FILES {
        write(
            name,
            mode,
            &text.replace("@CLUSTER@", &format!("\n    [cluster]\n    {}", indented(&pool::questions()))),
        )?;
    }
    write("ssh.conf", 0o644, &ssh_config(bed, &pool.names()))?;
    for program in ["ssh", "scp"] {
        let text =
            format!("#!/bin/sh\nexec /usr/bin/{program} -F {} \"$@\"\n", desk.join("ssh.conf").display());
        write(&format!("bin/{program}"), 0o755, &text)?;
    }
    write("array/chap.secret", 0o600, &format!("{}\n", scene::chap().secret))?;
    let digest = registry::make_image(&desk.join("release/image"), agent)?;
    write("release/image.digest", 0o644, &format!("{digest}\n"))?;
    symlink(fs::canonicalize(agent)?, desk.join("bin/etcd-lun"))?;
    let lab = std::env::current_exe()?;
    let dir = desk.to_str().context("the run's directory is not UTF-8")?;
    if dir.contains('\'') {
        bail!("the run's directory has a quote in its name: {dir}");
    }
    let enter = format!(
        "#!/bin/bash\n# Runs a command at the desk, or a shell.\ncd '{dir}/work'\nexec ip netns exec {} env DESK='{dir}' LAB='{}' REGISTRY={} \
         REGISTRY_USER='{}' REGISTRY_TRUST='{}' PATH=\"{dir}/bin:$PATH\" \"${{@:-bash}}\"\n",
        bed.run.namespace(),
        lab.display(),
        Registry::address(),
        Registry::account(),
        registry.trusted().display(),
    );
    write("enter", 0o755, &enter)?;
    Ok(desk.join("enter"))
}

fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}
