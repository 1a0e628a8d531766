//! The service that runs `apply` at boot, and the units for the policy module, for a shutdown without a target, and for a
//! session that is lost.

use super::{
    Rendered, UnitError,
    template::{self, NOT_PLAIN, is_plain_path, is_unit_name, unfit},
};
use terms::{AbsPath, ENCRYPTED_NAME};

/// The name of the service that runs `apply` at boot.
pub const SERVICE: &str = "etcd-lun.service";

/// The name of the service that installs the policy module.
pub const SELINUX_SERVICE: &str = "etcd-lun-selinux.service";

/// The name of the service that stops waiting for an unreachable target at shutdown.
pub const SHUTDOWN_SERVICE: &str = "etcd-lun-shutdown.service";

/// The name of the service that gives multipathd a config to begin with.
pub const MULTIPATH_SERVICE: &str = "etcd-lun-multipath.service";

/// The units that start the cluster's part of a node: openshift/machine-config-operator
/// `templates/common/_base/units/kubelet-dependencies.target.yaml`, and the two units that require it. The two are listed beside
/// the target for releases of OpenShift that don't have the target yet.
pub const KUBELET: [&str; 3] = ["kubelet-dependencies.target", "crio.service", "kubelet.service"];

/// The unit that is there as long as the kernel has a path to the LUN. udev's rule names it.
pub const PATH_TARGET: &str = "etcd-lun-path@.target";

/// The name of the service that makes a lost session again.
pub const LOST_SERVICE: &str = "etcd-lun-lost.service";

/// The SELinux context of the services. Where the policy doesn't know it, systemd doesn't start them.
pub const SELINUX_CONTEXT: &str = "system_u:system_r:etcd_lun_t:s0";

/// The templates.
const TEMPLATE: &str = include_str!("../../../units/etcd-lun.service.in");
const SELINUX_TEMPLATE: &str = include_str!("../../../units/etcd-lun-selinux.service.in");
/// It has no values.
const MULTIPATH_UNIT: &str = include_str!("../../../units/etcd-lun-multipath.service.in");
const SHUTDOWN_TEMPLATE: &str = include_str!("../../../units/etcd-lun-shutdown.service.in");
/// It has no values.
const PATH_UNIT: &str = include_str!("../../../units/etcd-lun-path@.target.in");
const LOST_TEMPLATE: &str = include_str!("../../../units/etcd-lun-lost.service.in");

/// It has no values.
const ISCSID_UNIT: &str = include_str!("../../../units/etcd-lun-iscsid.service.in");

/// The name of the service that writes the config with which iscsid ends no session in use.
pub const ISCSID_SERVICE: &str = "etcd-lun-iscsid.service";

/// The values of the services that depend on the config.
#[derive(Debug, Clone, Copy)]
pub struct Service<'a> {
    /// The path of this program on the node.
    pub program: &'a AbsPath,
    /// Directories whose filesystems must be mounted.
    pub beneath: &'a [AbsPath],
    /// Units that start after the service.
    pub before: &'a [String],
    /// A unit that the service starts when it succeeds, because systemd doesn't try that unit again after a failure.
    pub late: Option<&'a str>,
    /// Credentials that the service needs.
    pub credentials: &'a [String],
    /// True if the LUN is at a target, on the network.
    pub on_network: bool,
}

/// Renders the unit that gives multipathd a config to begin with.
pub fn multipath_service() -> Rendered {
    Rendered { name: MULTIPATH_SERVICE.into(), text: template::bare(MULTIPATH_UNIT) }
}

/// Renders the unit that writes the config with which iscsid ends no session in use.
pub fn iscsid_service() -> Rendered {
    Rendered { name: ISCSID_SERVICE.into(), text: template::bare(ISCSID_UNIT) }
}

/// Renders the service, the same bytes for the same values. Fails on values that systemd would split or expand.
pub fn service(of: &Service<'_>) -> Result<Rendered, UnitError> {
    let refuse =
        |key, value: &str, why| Err(UnitError { unit: SERVICE.into(), key, value: value.to_owned(), why });
    for (key, path) in std::iter::once(("ExecStart=", of.program))
        .chain(of.beneath.iter().map(|path| ("RequiresMountsFor=", path)))
    {
        if !is_plain_path(path) {
            return refuse(key, path.as_str(), NOT_PLAIN);
        }
    }
    for unit in of.before.iter().map(String::as_str).chain(of.late) {
        if !is_unit_name(unit) {
            return refuse("Before=", unit, "it is not the name of a unit");
        }
    }
    for name in of.credentials {
        if let Some(why) = unfit(name) {
            return refuse("LoadCredential=", name, why);
        }
        if name.contains([':', ' ']) {
            return refuse(
                "LoadCredential=",
                name,
                "it is not the name of a credential: it has a colon or a space",
            );
        }
    }
    let beneath: Vec<_> = of.beneath.iter().map(AbsPath::as_str).collect();
    let at_target = |units: &str| if of.on_network { units.to_owned() } else { String::new() };
    let mut modules = vec!["modprobe@xfs.service"];
    if of.on_network {
        modules.push("modprobe@iscsi_tcp.service");
    }
    let start = |unit| format!("-/usr/bin/systemctl --no-block start {unit}");
    let values = [
        ("@BENEATH@", beneath.join(" ")),
        ("@BEFORE@", of.before.join(" ")),
        ("@PROGRAM@", of.program.to_string()),
        ("@SELINUX_CONTEXT@", SELINUX_CONTEXT.to_owned()),
        ("@NETWORK@", at_target("network-online.target")),
        (
            "@AFTER_NETWORK@",
            at_target("network-online.target ovs-configuration.service wait-for-br-ex-up.service"),
        ),
        ("@ISCSID@", at_target("iscsid.socket")),
        ("@INITIATOR@", at_target("iscsi-init.service")),
        ("@AFTER_INITIATOR@", at_target("coreos-generate-iscsi-initiatorname.service iscsi-init.service")),
        ("@SHUTDOWN@", at_target(SHUTDOWN_SERVICE)),
        ("@MODULES@", modules.join(" ")),
        ("@LATE@", of.late.map(start).unwrap_or_default()),
        ("@CREDENTIALS@", credentials(of.credentials)),
    ];
    Ok(Rendered { name: SERVICE.into(), text: template::filled(TEMPLATE, &values) })
}

/// The value of `LoadCredential=`, and the other settings for these credentials, plain or encrypted. systemd passes over one that
/// the node does not have.
fn credentials(names: &[String]) -> String {
    let both: Vec<_> =
        names.iter().map(|name| format!("{name}\nLoadCredentialEncrypted={name}{ENCRYPTED_NAME}")).collect();
    both.join("\nLoadCredential=")
}

/// Renders the service that installs the policy module. Its values were validated by [`service`].
pub fn selinux_service(of: &Service<'_>) -> Rendered {
    let beneath: Vec<_> = of.beneath.iter().map(AbsPath::as_str).collect();
    let values = [("@BENEATH@", beneath.join(" ")), ("@PROGRAM@", of.program.to_string())];
    Rendered { name: SELINUX_SERVICE.into(), text: template::filled(SELINUX_TEMPLATE, &values) }
}

/// Renders the service that stops waiting for an unreachable target at shutdown. Its values were validated by [`service`].
pub fn shutdown_service(of: &Service<'_>) -> Rendered {
    let beneath: Vec<_> = of.beneath.iter().map(AbsPath::as_str).collect();
    let values = [
        ("@BENEATH@", beneath.join(" ")),
        ("@BEFORE@", of.before.join(" ")),
        ("@PROGRAM@", of.program.to_string()),
        ("@SELINUX_CONTEXT@", SELINUX_CONTEXT.to_owned()),
    ];
    Rendered { name: SHUTDOWN_SERVICE.into(), text: template::filled(SHUTDOWN_TEMPLATE, &values) }
}

/// Renders the units for a session that is lost while the LUN is mounted. Their values were validated by [`service`].
pub fn lost_units(of: &Service<'_>) -> [Rendered; 2] {
    let beneath: Vec<_> = of.beneath.iter().map(AbsPath::as_str).collect();
    let values = [
        ("@BENEATH@", beneath.join(" ")),
        ("@ISCSID@", "iscsid.socket".to_owned()),
        ("@PROGRAM@", of.program.to_string()),
        ("@SELINUX_CONTEXT@", SELINUX_CONTEXT.to_owned()),
        ("@CREDENTIALS@", credentials(of.credentials)),
    ];
    [
        Rendered { name: PATH_TARGET.into(), text: template::bare(PATH_UNIT) },
        Rendered { name: LOST_SERVICE.into(), text: template::filled(LOST_TEMPLATE, &values) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> AbsPath {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_empty_goes_with_its_reason() {
        let (program, beneath) = (path("/var/lib/etcd-lun/bin/etcd-lun"), [path("/var/lib")]);
        let before = ["kubelet.service".to_owned()];
        let plain = Service {
            program: &program,
            beneath: &beneath,
            before: &before,
            late: None,
            credentials: &[],
            on_network: true,
        };
        let text = service(&plain).unwrap().text;
        assert!(!text.replace("=@system-service", "").contains("=@"), "{text}");
        for absent in ["[Install]", "LoadCredential", "ExecStartPost", "IPAddressAllow", "gate = "] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        assert!(text.contains("\nExecStart=/var/lib/etcd-lun/bin/etcd-lun apply --boot\n"), "{text}");
        assert!(text.ends_with("\nRestrictRealtime=yes\n"), "{text}");
        let credentials = ["chap".to_owned(), "chap-in".to_owned()];
        let full = Service { late: Some("kubelet.service"), credentials: &credentials, ..plain };
        let text = service(&full).unwrap().text;
        for line in [
            "LoadCredential=chap\nLoadCredentialEncrypted=chap.cred\nLoadCredential=chap-in\nLoadCredentialEncrypted=chap-in.cred\n",
            "ExecStartPost=-/usr/bin/systemctl --no-block start kubelet.service\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    /// The service that makes a lost session again is confined as the one that makes it at a boot.
    #[test]
    fn a_lost_session_is_made_again_in_the_sandbox_of_a_boot() {
        let (program, beneath) = (path("/var/lib/etcd-lun/bin/etcd-lun"), [path("/var/lib")]);
        let credentials = ["chap".to_owned()];
        let of = Service {
            program: &program,
            beneath: &beneath,
            before: &[],
            late: None,
            credentials: &credentials,
            on_network: true,
        };
        let settings = |text: &str| -> Vec<String> {
            let service = text.split("\n[Service]\n").nth(1).unwrap().split("\n[Install]\n").next().unwrap();
            let lines = service.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            let mut lines: Vec<_> = lines
                .filter(|line| !line.starts_with("ExecStart=") && *line != "RemainAfterExit=yes")
                .map(String::from)
                .collect();
            lines.sort();
            lines
        };
        let [_, lost] = lost_units(&of);
        assert_eq!(settings(&lost.text), settings(&service(&of).unwrap().text));
    }

    #[test]
    fn refused() {
        let (program, beneath) = (path("/opt/my bin/etcd-lun"), [path("/var/lib")]);
        let wrong = Service {
            program: &program,
            beneath: &beneath,
            before: &[],
            late: None,
            credentials: &[],
            on_network: true,
        };
        let said = service(&wrong).unwrap_err().to_string();
        assert!(
            said.starts_with("rendering etcd-lun.service: ExecStart= can't be `/opt/my bin/etcd-lun`"),
            "{said}"
        );
    }
}
