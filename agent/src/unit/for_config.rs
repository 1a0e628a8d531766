//! Which units a config asks for.

use super::{
    CATALOG_FILE, DataMount, Rendered, Service, UnitError, data_mount, health::health, selinux_service,
    service, shutdown_service,
};
use crate::{
    config::{Boot, Config, EtcdWish, Gate, HealthWish, LunWish, Pool, Runtime, SecretSource, Target},
    terms::{AbsPath, Span},
};
use std::time::Duration;

/// For mounting, log replay included, and for unmounting. Six times what a dead target takes at shutdown
/// (etcd-lun-shutdown.service), and long enough for XFS to replay the largest log.
const MOUNT_LIMIT: Span = Span(Duration::from_secs(90));

/// What the units follow from: the same for every node.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// The target, for the credentials that it takes and the network before it; none with a device.
    pub target: Option<&'a Target>,
    /// etcd.
    pub etcd: &'a EtcdWish,
    /// The LUN.
    pub lun: &'a LunWish,
    /// Behaviour at boot.
    pub boot: &'a Boot,
    /// The health check that the timer runs.
    pub health: &'a HealthWish,
}

impl<'a> From<&'a Config> for Wish<'a> {
    fn from(config: &'a Config) -> Self {
        Self {
            target: config.backing.iscsi().map(|iscsi| &iscsi.target),
            etcd: &config.etcd,
            lun: &config.lun,
            boot: &config.boot,
            health: &config.health,
        }
    }
}

impl<'a> From<&'a Pool> for Wish<'a> {
    fn from(pool: &'a Pool) -> Self {
        Self {
            target: pool.storage.target(),
            etcd: &pool.etcd,
            lun: &pool.lun,
            boot: &pool.boot,
            health: &pool.health,
        }
    }
}

/// The mount unit of the data directory.
pub fn data_mount_for<'a>(wish: impl Into<Wish<'a>>) -> Result<Rendered, UnitError> {
    let wish = wish.into();
    data_mount(&DataMount {
        label: &wish.lun.label,
        place: &wish.etcd.data_dir,
        options: &wish.lun.unit_options(wish.target.is_some()),
        before: &users(wish),
        limit: MOUNT_LIMIT,
    })
}

/// Where a MachineConfig puts the program: the one directory for programs on Red Hat CoreOS that can be
/// written.
pub const PROGRAM: &str = "/usr/local/bin/etcd-lun";

/// Where a package puts the program, on a machine or in an image.
pub const PACKAGED_PROGRAM: &str = "/usr/bin/etcd-lun";
/// And what explains messages in the journal.
const PACKAGED_CATALOG: &str = "/usr/lib/systemd/catalog/etcd-lun.catalog";

/// Who brings the program to a node, and with that where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bringer {
    /// A MachineConfig, or a person: what is in `/usr/local`.
    Delivery,
    /// A package: what is in `/usr`.
    Package,
}

impl Bringer {
    fn program(self) -> &'static str {
        match self {
            Self::Delivery => PROGRAM,
            Self::Package => PACKAGED_PROGRAM,
        }
    }

    fn catalog(self) -> &'static str {
        match self {
            Self::Delivery => CATALOG_FILE,
            Self::Package => PACKAGED_CATALOG,
        }
    }
}

/// The service that runs `apply` at boot, the one before it, the one that a shutdown without a target runs, and health with
/// its timer.
fn services(wish: Wish<'_>, by: Bringer) -> Result<Vec<Rendered>, UnitError> {
    let invalid = |why: &'static str| UnitError {
        unit: super::SERVICE.into(),
        key: "ExecStart=",
        value: by.program().into(),
        why,
    };
    let program: AbsPath = by.program().parse().map_err(|_| invalid("it is no absolute path"))?;
    let mut beneath = vec![wish.etcd.data_dir.parent()];
    let state: AbsPath = STATE_PARENT.parse().map_err(|_| invalid("it is no absolute path"))?;
    if !beneath.contains(&state) {
        beneath.push(state);
    }
    let waits = wish.boot.gate == Gate::Kubelet;
    let required_by: Vec<_> = KUBELET.iter().filter(|_| waits).map(ToString::to_string).collect();
    let of = Service {
        program: &program,
        beneath: &beneath,
        before: &users(wish),
        required_by: &required_by,
        late: waits.then_some("kubelet.service"),
        credentials: &wish.target.map(credentials).unwrap_or_default(),
        on_network: wish.target.is_some(),
    };
    let mut services =
        Vec::from(health(&program, by.catalog(), &beneath, &wish.health.textfile, wish.health.interval)?);
    services.push(selinux_service(&of));
    if of.on_network {
        services.push(shutdown_service(&of));
    }
    services.push(service(&of)?);
    Ok(services)
}

/// The directory that etcd-lun's own state directory lies in.
const STATE_PARENT: &str = "/var/lib";

/// What starts the cluster's part of a node: openshift/machine-config-operator
/// `templates/common/_base/units/kubelet-dependencies.target.yaml`, and both that require it.
const KUBELET: [&str; 3] = ["kubelet-dependencies.target", "crio.service", "kubelet.service"];

/// Units that must not start before the data is there, nor outlive its mount.
fn users(wish: Wish<'_>) -> Vec<String> {
    let own = match &wish.etcd.runtime {
        Runtime::Systemd { unit } => Some(unit.clone()),
        Runtime::StaticPod { .. } => None,
    };
    own.into_iter().chain(KUBELET.map(String::from)).collect()
}

fn credentials(target: &Target) -> Vec<String> {
    let mut names: Vec<_> = target
        .secrets()
        .filter_map(|source| match source {
            SecretSource::Credential(name) => Some(name.clone()),
            SecretSource::Inline(_) | SecretSource::File(_) => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// All units, in the order of their names, for a program that was delivered.
pub fn for_config<'a>(wish: impl Into<Wish<'a>>) -> Result<Vec<Rendered>, UnitError> {
    for_config_brought(wish, Bringer::Delivery)
}

/// All units, in the order of their names, for a program where its bringer puts it.
pub fn for_config_brought<'a>(wish: impl Into<Wish<'a>>, by: Bringer) -> Result<Vec<Rendered>, UnitError> {
    let wish = wish.into();
    let mut units = services(wish, by)?;
    units.push(data_mount_for(wish)?);
    Ok(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    /// The examples are what `etcd-lun render units` writes for OpenShift, with either gate.
    #[test]
    fn examples() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\n[etcd]\nruntime = \"static-pod\"\n[boot]\ngate = ";
        let mount = include_str!("../../../units/example/var-lib-etcd.mount");
        let selinux = include_str!("../../../units/example/etcd-lun-selinux.service");
        let shutdown = include_str!("../../../units/example/etcd-lun-shutdown.service");
        let health = include_str!("../../../units/example/etcd-lun-health.service");
        let timer = include_str!("../../../units/example/etcd-lun-health.timer");
        for (gate, service) in [
            ("etcd", include_str!("../../../units/example/etcd-lun.service")),
            ("kubelet", include_str!("../../../units/example/kubelet/etcd-lun.service")),
        ] {
            let source = Source { path: "config.toml".into(), text: format!("{text}\"{gate}\"") };
            let units = for_config(&Pool::load(&[source]).unwrap()).unwrap();
            let expected = [
                ("etcd-lun-health.service", health),
                ("etcd-lun-health.timer", timer),
                ("etcd-lun-selinux.service", selinux),
                ("etcd-lun-shutdown.service", shutdown),
                ("etcd-lun.service", service),
                ("var-lib-etcd.mount", mount),
            ];
            for (unit, (name, example)) in units.iter().zip(expected) {
                assert_eq!(unit.name, name);
                assert!(unit.text == example, "{}", unit.text);
            }
            assert_eq!(units.len(), expected.len());
        }
    }
    /// What a package brings lies in `/usr` alone; nothing else in a unit follows from that.
    #[test]
    fn of_a_package() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\n[etcd]\nruntime = \"static-pod\"";
        let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
        let packaged = for_config_brought(&pool, Bringer::Package).unwrap();
        for (delivered, packaged) in for_config(&pool).unwrap().iter().zip(&packaged) {
            assert_eq!(packaged.name, delivered.name);
            assert!(!packaged.text.contains("/usr/local"), "{}", packaged.text);
            let text =
                delivered.text.replace(PROGRAM, PACKAGED_PROGRAM).replace(CATALOG_FILE, PACKAGED_CATALOG);
            assert_eq!(packaged.text, text);
        }
    }
}
