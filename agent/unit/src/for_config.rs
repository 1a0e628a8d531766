//! Which units a config needs, and with which values.

use super::{
    CATALOG_FILE, KUBELET, Rendered, Service, UnitError,
    hands::{hands_units, portals_units},
    health::health,
    iscsid_service, lost_units, multipath_service,
    program::program_units,
    selinux_service, service, shutdown_service,
};
use config::{Boot, Config, EtcdConfig, Gate, HealthConfig, LunConfig, Pool, Runtime, SecretSource, Target};
use terms::AbsPath;

/// The part of the config that the units depend on: the same for every node.
#[derive(Debug, Clone, Copy)]
pub struct UnitInput<'a> {
    /// The targets of the pool: with one the service needs credentials, and starts after the network. None with a device.
    pub targets: &'a [Target],
    /// etcd.
    pub etcd: &'a EtcdConfig,
    /// The LUN.
    pub lun: &'a LunConfig,
    /// Behaviour at boot.
    pub boot: &'a Boot,
    /// The health check that the timer starts.
    pub health: &'a HealthConfig,
}

impl<'a> From<&'a Config> for UnitInput<'a> {
    fn from(config: &'a Config) -> Self {
        Self {
            targets: config.storage.targets(),
            etcd: &config.etcd,
            lun: &config.lun,
            boot: &config.boot,
            health: &config.health,
        }
    }
}

impl<'a> From<&'a Pool> for UnitInput<'a> {
    fn from(pool: &'a Pool) -> Self {
        Self {
            targets: pool.storage.targets(),
            etcd: &pool.etcd,
            lun: &pool.lun,
            boot: &pool.boot,
            health: &pool.health,
        }
    }
}

/// Where the program lies on a node, unless a package has brought it. No MachineConfig owns this path: if the pool's object
/// brings the program in another way tomorrow, the program stays until the next one is in place, also for a shutdown.
/// `/usr/local/bin/etcd-lun` is a link to it, for people.
pub const PROGRAM: &str = "/var/lib/etcd-lun/bin/etcd-lun";

/// Where a package installs the program, on a machine or in an image.
pub const PACKAGED_PROGRAM: &str = "/usr/bin/etcd-lun";
/// Where a package installs the journal's catalog.
const PACKAGED_CATALOG: &str = "/usr/lib/systemd/catalog/etcd-lun.catalog";

/// The way in which the program was installed on a node. The paths of program and catalog depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstalledBy {
    /// By a MachineConfig: two units bring it.
    MachineConfig,
    /// By hand, at the same path.
    Hand,
    /// By a package, in `/usr`.
    Package,
}

impl InstalledBy {
    fn program(self) -> &'static str {
        match self {
            Self::MachineConfig | Self::Hand => PROGRAM,
            Self::Package => PACKAGED_PROGRAM,
        }
    }

    fn catalog(self) -> &'static str {
        match self {
            Self::MachineConfig | Self::Hand => CATALOG_FILE,
            Self::Package => PACKAGED_CATALOG,
        }
    }
}

fn services(input: UnitInput<'_>, by: InstalledBy) -> Result<Vec<Rendered>, UnitError> {
    let invalid = |why: &'static str| UnitError {
        unit: super::SERVICE.into(),
        key: "ExecStart=",
        value: by.program().into(),
        why,
    };
    let program: AbsPath = by.program().parse().map_err(|_| invalid("it is not an absolute path"))?;
    let mut beneath = vec![input.etcd.data_dir.parent()];
    let state: AbsPath = STATE_PARENT.parse().map_err(|_| invalid("it is not an absolute path"))?;
    if !beneath.contains(&state) {
        beneath.push(state);
    }
    let waits = input.boot.gate == Gate::Kubelet;
    let of = Service {
        program: &program,
        beneath: &beneath,
        before: &users(input),
        late: waits.then_some("kubelet.service"),
        credentials: &credentials(input.targets),
        on_network: !input.targets.is_empty(),
    };
    let mut services = Vec::from(health(&program, by.catalog(), &beneath, input.health, of.on_network)?);
    if input.targets.iter().any(|target| target.multipath) {
        services.push(multipath_service());
    }
    if input.targets.iter().any(|target| target.safe_logout) {
        services.push(iscsid_service());
    }
    services.extend(hands_units(
        &program,
        input.targets,
        &input.etcd.data_dir,
        &input.lun.staging_options(),
        &input.etcd.runtime,
    )?);
    if by == InstalledBy::MachineConfig {
        services.extend(program_units(&beneath, input.boot.attach_timeout));
    }
    services.push(selinux_service(&of));
    if of.on_network {
        services.extend(portals_units(&program, input.targets));
        services.push(shutdown_service(&of));
        services.extend(lost_units(&of));
    }
    services.push(service(&of)?);
    Ok(services)
}

/// The parent of etcd-lun's own state directory.
const STATE_PARENT: &str = "/var/lib";

/// Units that use the data: they must start after the mount of the data directory, and stop before it is unmounted.
pub(super) fn users(input: UnitInput<'_>) -> Vec<String> {
    let own = match &input.etcd.runtime {
        Runtime::Systemd { unit } => Some(unit.clone()),
        Runtime::StaticPod { .. } => None,
    };
    own.into_iter().chain(KUBELET.map(String::from)).collect()
}

fn credentials(targets: &[Target]) -> Vec<String> {
    let mut names: Vec<_> = targets
        .iter()
        .flat_map(Target::secrets)
        .filter_map(|source| match source {
            SecretSource::Credential(name) => Some(name.clone()),
            SecretSource::Inline(_) | SecretSource::File(_) => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The unit that PID 1 can be asked for in place of this one: a template has no state, and so an instance of it that is never
/// started.
pub fn state_of(name: &str) -> String {
    name.replacen("@.", "@state.", 1)
}

/// Renders all units, in the order of their names, for a program that was installed by hand.
pub fn for_config<'a>(input: impl Into<UnitInput<'a>>) -> Result<Vec<Rendered>, UnitError> {
    for_config_installed_by(input, InstalledBy::Hand)
}

/// Renders all units, in the order of their names, with the paths of that way of installation.
pub fn for_config_installed_by<'a>(
    input: impl Into<UnitInput<'a>>,
    by: InstalledBy,
) -> Result<Vec<Rendered>, UnitError> {
    let input = input.into();
    let mut units = services(input, by)?;
    units.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DROP_IN, MULTIPATHD, drop_ins, obsolete};
    use config::Source;

    /// The examples are the units of a MachineConfig for OpenShift, with either gate.
    #[test]
    fn examples() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\n[etcd]\nruntime = \"static-pod\"\n[boot]\ngate = ";
        let selinux = include_str!("../../../units/example/etcd-lun-selinux.service");
        let shutdown = include_str!("../../../units/example/etcd-lun-shutdown.service");
        let lost = include_str!("../../../units/example/etcd-lun-lost.service");
        let path = include_str!("../../../units/example/etcd-lun-path@.target");
        let socket = include_str!("../../../units/example/etcd-lun-hands.socket");
        let hands = include_str!("../../../units/example/etcd-lun-hands@.service");
        let portals_socket = include_str!("../../../units/example/etcd-lun-portals.socket");
        let portals = include_str!("../../../units/example/etcd-lun-portals@.service");
        let health = include_str!("../../../units/example/etcd-lun-health.service");
        let timer = include_str!("../../../units/example/etcd-lun-health.timer");
        let program = include_str!("../../../units/example/etcd-lun-program.service");
        let fetch = include_str!("../../../units/example/etcd-lun-program-fetch.service");
        for (gate, service) in [
            ("etcd", include_str!("../../../units/example/etcd-lun.service")),
            ("kubelet", include_str!("../../../units/example/kubelet/etcd-lun.service")),
        ] {
            let source = Source { path: "config.toml".into(), text: format!("{text}\"{gate}\"") };
            let pool = Pool::load(&[source]).unwrap();
            let units = for_config_installed_by(&pool, InstalledBy::MachineConfig).unwrap();
            let expected = [
                ("etcd-lun-hands.socket", socket),
                ("etcd-lun-hands@.service", hands),
                ("etcd-lun-health.service", health),
                ("etcd-lun-health.timer", timer),
                ("etcd-lun-lost.service", lost),
                ("etcd-lun-path@.target", path),
                ("etcd-lun-portals.socket", portals_socket),
                ("etcd-lun-portals@.service", portals),
                ("etcd-lun-program-fetch.service", fetch),
                ("etcd-lun-program.service", program),
                ("etcd-lun-selinux.service", selinux),
                ("etcd-lun-shutdown.service", shutdown),
                ("etcd-lun.service", service),
            ];
            for (unit, (name, example)) in units.iter().zip(expected) {
                assert_eq!(unit.name, name);
                assert!(unit.text == example, "{}", unit.text);
            }
            assert_eq!(units.len(), expected.len());
            // By hand there is nobody to bring the program.
            let by_hand: Vec<_> =
                units.into_iter().filter(|unit| !unit.name.starts_with("etcd-lun-program")).collect();
            assert_eq!(for_config(&pool).unwrap(), by_hand);
        }
    }

    /// Nothing of ours depends on a link that someone has to make: PID 1 follows files only.
    #[test]
    fn drop_ins_are_files_and_no_unit_can_be_enabled() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\nmultipath = true\n[etcd]\nruntime = \"static-pod\"\n[boot]\ngate = ";
        let boot = include_str!("../../../units/example/multi-user.target.d/50-etcd-lun.conf");
        let order = include_str!("../../../units/example/kubelet.service.d/50-etcd-lun.conf");
        let gate = include_str!("../../../units/example/kubelet/kubelet.service.d/50-etcd-lun.conf");
        for (name, text_of_kubelet) in [("etcd", order), ("kubelet", gate)] {
            let kubelet = ["crio.service", "kubelet-dependencies.target", "kubelet.service"];
            let wanted: Vec<_> = kubelet
                .map(|unit| (unit, text_of_kubelet))
                .into_iter()
                .chain([("multi-user.target", boot)])
                .collect();
            let source = Source { path: "config.toml".into(), text: format!("{text}\"{name}\"") };
            let pool = Pool::load(&[source]).unwrap();
            for unit in for_config_installed_by(&pool, InstalledBy::MachineConfig).unwrap() {
                assert!(!unit.text.contains("[Install]"), "{}", unit.text);
            }
            let (multipathd, found): (Vec<_>, Vec<_>) =
                drop_ins(&pool).into_iter().partition(|one| one.unit == MULTIPATHD);
            let found: Vec<_> = found.iter().map(|one| (&*one.unit, one.text.as_str())).collect();
            assert_eq!(found, wanted);
            assert!(multipathd[0].text.ends_with("\nWants=etcd-lun-multipath.service\n"));
            // The files of another config are removed, and so are the links of earlier releases.
            let obsolete = obsolete(&pool);
            let drop_ins = obsolete.iter().filter(|path| path.ends_with(DROP_IN)).count();
            assert_eq!((drop_ins, obsolete.len() - drop_ins), (1, 6));
        }
    }

    /// The unit for multipathd does nothing where an administrator has a config of it, and comes with the key only.
    #[test]
    fn with_multipath() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\nmultipath = true\n[etcd]\nruntime = \"static-pod\"";
        let without = text.replace("multipath = true", "");
        let [with, without] = [text, &without].map(|text| {
            let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
            for_config(&pool).unwrap()
        });
        let (own, others): (Vec<_>, Vec<_>) =
            with.into_iter().partition(|unit| unit.name == "etcd-lun-multipath.service");
        assert!(own.iter().all(|unit| unit.text.contains("\nConditionPathExists=!/etc/multipath.conf\n")));
        assert_eq!((own.len(), others), (1, without));
    }

    /// The unit and the drop-in for iscsid come with the key only, and its script writes one line with the setting.
    #[test]
    #[allow(clippy::disallowed_methods)] // real tools
    fn with_safe_logout() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\nsafe_logout = true\n[etcd]\nruntime = \"static-pod\"";
        let without = text.replace("safe_logout = true", "");
        let [(with, drop_in), (without, none)] = [text, &without].map(|text| {
            let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
            (for_config(&pool).unwrap(), drop_ins(&pool))
        });
        let (own, others): (Vec<_>, Vec<_>) =
            with.into_iter().partition(|unit| unit.name == "etcd-lun-iscsid.service");
        assert_eq!((own.len(), others, drop_in.len(), none.len()), (1, without, 5, 4));
        assert!(drop_in.iter().any(|one| one.path() == "iscsid.service.d/50-etcd-lun.conf"));
        let dir = std::env::temp_dir().join(format!("etcd-lun-iscsid-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (of_node, ours) = (dir.join("iscsid.conf"), dir.join("ours"));
        let script = own[0].text.split("/bin/sh -c '").nth(1).unwrap().split('\'').next().unwrap();
        let script = script
            .replace("/etc/iscsi/iscsid.conf", of_node.to_str().unwrap())
            .replace("/run/etcd-lun-iscsid.conf", ours.to_str().unwrap());
        for conf in [
            "",
            "node.startup = manual\n# iscsid.safe_logout = Yes\niscsid.safe_logout = No\n",
            "iscsid.safe_logout = Yes\n",
        ] {
            std::fs::write(&of_node, conf).unwrap();
            // A second start writes the same.
            for _ in 0..2 {
                assert!(std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
                let written = std::fs::read_to_string(&ours).unwrap();
                let kept = if conf.starts_with("node") { "node.startup = manual\n" } else { "" };
                assert_eq!(written, format!("{kept}iscsid.safe_logout = Yes\n"));
            }
            assert_eq!(std::fs::read_to_string(&of_node).unwrap(), conf, "the node's own file stays");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// `health` compares the units of a node with those that its own config makes.
    #[test]
    fn a_node_of_several_targets_has_the_units_of_the_pool() {
        let target = |name: &str, more: &str| {
            format!(
                "[[target]]\nname = \"{name}\"\niqn = \"iqn.2024-02.com.example:{name}\"\nportals = [\"{name}.example\"]\n{more}\n\
                 [target.chap]\nusername = \"u\"\ncredential = \"{name}\"\n"
            )
        };
        let node = |name: &str, target: &str| {
            let initiator = format!("initiator = \"iqn.2024-02.x:{name}\"");
            format!(
                "[[node]]\nhostname = \"{name}\"\n{initiator}\nlun = 1\nwwid = \"naa.600140500000000{name}\"\ntarget = \"{target}\"\n"
            )
        };
        let (a, b) = (target("a", "multipath = true"), target("b", "safe_logout = true"));
        let nodes = node("0", "a") + &node("1", "b");
        let text = format!("{a}{b}[etcd]\nruntime = \"static-pod\"\n{nodes}");
        let pool = Pool::load(&[Source { path: "config.toml".into(), text }]).unwrap();
        let (units, drop_ins) = (for_config(&pool).unwrap(), drop_ins(&pool));
        assert_eq!(drop_ins.len(), 6);
        assert!(
            units.iter().any(|unit| unit.text.contains("\nLoadCredential=a\n")
                && unit.text.contains("\nLoadCredential=b\n"))
        );
        for name in ["0", "1"] {
            let config = pool.clone().for_node("", name).unwrap();
            assert_eq!(
                (for_config(&config).unwrap(), crate::drop_ins(&config)),
                (units.clone(), drop_ins.clone())
            );
        }
    }

    /// The units of a package differ in the paths below `/usr` and in nothing else.
    #[test]
    fn of_a_package() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\n[etcd]\nruntime = \"static-pod\"";
        let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
        let packaged = for_config_installed_by(&pool, InstalledBy::Package).unwrap();
        for (delivered, packaged) in for_config(&pool).unwrap().iter().zip(&packaged) {
            assert_eq!(packaged.name, delivered.name);
            assert!(!packaged.text.contains("/usr/local"), "{}", packaged.text);
            let text =
                delivered.text.replace(PROGRAM, PACKAGED_PROGRAM).replace(CATALOG_FILE, PACKAGED_CATALOG);
            assert_eq!(packaged.text, text);
        }
    }
}
