//! The mount unit of the data directory.

use super::{
    Rendered, UnitError, mount_unit_name,
    template::{self, NAME_MAX, is_unit_name, unfit},
};
use terms::{AbsPath, Span};

/// The template.
const TEMPLATE: &str = include_str!("../../../units/data.mount.in");

/// The link to the device that a run of this boot has verified. The mount unit mounts what it leads to, and does nothing
/// without it. It is below `/run`, so no boot finds that of an earlier one.
pub const VERIFIED: &str = "/run/etcd-lun-hands/verified";

/// The values of the mount unit that depend on the config.
#[derive(Debug, Clone, Copy)]
pub struct DataMount<'a> {
    /// The directory that it is mounted on.
    pub place: &'a AbsPath,
    /// Mount options in order, with `_netdev` for a LUN on the network.
    pub options: &'a [String],
    /// The unit whose stop lets a shutdown end without the target; empty for a local disk.
    pub wants: &'a str,
    /// Units that start after the mount and stop before it; may be empty.
    pub before: &'a [String],
    /// The time limit for mounting, and for unmounting.
    pub limit: Span,
}

/// Renders the mount unit, the same bytes for the same values.
///
/// Fails on a value that systemd would read differently: it has no escape for a control character, for white space at an
/// end, or for a backslash at the end of a line (systemd.syntax(7)).
pub fn data_mount(of: &DataMount<'_>) -> Result<Rendered, UnitError> {
    let name = mount_unit_name(of.place);
    let refuse =
        |key, value: &str, why| Err(UnitError { unit: name.clone(), key, value: value.to_owned(), why });
    if name.len() > NAME_MAX {
        return refuse("Where=", of.place.as_str(), "the unit's name would be longer than 255 bytes");
    }
    if of.place.as_str() == "/" {
        return refuse("Where=", "/", "the root is not a data directory");
    }
    if let Some(why) = unfit(of.place.as_str()) {
        return refuse("Where=", of.place.as_str(), why);
    }
    for option in of.options {
        if let Some(why) = unfit(option) {
            return refuse("Options=", option, why);
        }
    }
    for unit in of.before {
        if !is_unit_name(unit) {
            return refuse("Before=", unit, "it is not the name of a unit");
        }
    }
    if of.limit.0.is_zero() {
        return refuse("TimeoutSec=", &of.limit.to_string(), "0 means no limit to systemd");
    }
    let values = [
        ("@VERIFIED@", VERIFIED.to_owned()),
        ("@WANTS@", of.wants.to_owned()),
        ("@BEFORE@", of.before.join(" ")),
        ("@WHERE@", of.place.as_str().to_owned()),
        ("@OPTIONS@", of.options.join(",")),
        ("@TIMEOUT@", of.limit.to_string()),
    ];
    Ok(Rendered { name, text: template::filled(TEMPLATE, &values) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::SHUTDOWN_SERVICE;
    use std::time::Duration;

    fn render(place: &str, options: &[&str], before: &[&str]) -> Result<Rendered, UnitError> {
        let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        data_mount(&DataMount {
            place: &place.parse().unwrap(),
            options: &own(options),
            wants: if options.contains(&"_netdev") { SHUTDOWN_SERVICE } else { "" },
            before: &own(before),
            limit: Span(Duration::from_secs(90)),
        })
    }

    #[test]
    fn golden() {
        let before = ["kubelet-dependencies.target", "crio.service", "kubelet.service"];
        let options = [
            "_netdev",
            "prjquota",
            "nodev",
            "nosuid",
            "noexec",
            "context=system_u:object_r:etcd_lun_data_t:s0",
        ];
        let rendered = render("/var/lib/etcd", &options, &before).unwrap();
        assert_eq!(rendered.name, "var-lib-etcd.mount");
        let golden = include_str!("../../../units/example/var-lib-etcd.mount");
        assert!(rendered.text == golden, "{}", rendered.text);
    }

    #[test]
    fn every_setting_has_its_reason_above_it() {
        let text = render("/srv/e", &["prjquota"], &["etcd.service"]).unwrap().text;
        let mut before = "";
        for line in text.lines() {
            if line.contains('=') && !line.starts_with('#') {
                assert!(before.starts_with('#'), "{line}");
            }
            before = line;
        }
        assert!(!text.contains('@'), "{text}");
        assert!(!text.contains("\n[Install]"));
    }

    /// systemd.mount(5): a `What=` below `/dev` or `/sys` makes the mount depend on a device unit, for which systemd waits 90 s.
    #[test]
    fn mounts_nothing_but_what_was_verified() {
        let text = render("/srv/e", &["prjquota"], &[]).unwrap().text;
        let set = |key: &str| text.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<_>>();
        assert_eq!(set("ConditionPathExists="), [VERIFIED]);
        assert_eq!(set("What="), [VERIFIED]);
        assert!(VERIFIED.starts_with("/run/"));
        assert_eq!(set("StartLimitIntervalSec="), ["0"]);
    }

    #[test]
    fn odd_values() {
        let text = render("/srv/50% @BEFORE@ \"x\"", &["prjquota", "logdev=/dev/a%b"], &[]).unwrap().text;
        assert!(text.contains("\nWhere=/srv/50%% @BEFORE@ \"x\"\n"), "{text}");
        assert!(text.contains("\nOptions=prjquota,logdev=/dev/a%%b\n"), "{text}");
        assert!(!text.contains("Before=") && !text.contains("Whoever"), "{text}");
        let none = render("/srv/x", &[], &["a.service"]).unwrap().text;
        assert!(!none.contains("Options=") && none.ends_with("TimeoutSec=90s\n"), "{none}");
    }

    #[test]
    fn refused() {
        let long = format!("/{}", "-".repeat(70));
        for (place, options, before, said) in [
            ("/", vec![], vec![], "rendering -.mount: Where= can't be `/`: the root is not a data directory"),
            (
                "/a/b ",
                vec![],
                vec![],
                r"rendering a-b\x20.mount: Where= can't be `/a/b `: it begins or ends with a space",
            ),
            (
                "/a\\",
                vec![],
                vec![],
                r"rendering a\x5c.mount: Where= can't be `/a\\`: it ends with a backslash, which joins lines",
            ),
            ("/a", vec![""], vec![], "rendering a.mount: Options= can't be ``: it is empty"),
            (
                "/a",
                vec!["ro\nExecStart=x"],
                vec![],
                r"rendering a.mount: Options= can't be `ro\nExecStart=x`: it holds a control character",
            ),
            (
                "/a",
                vec![],
                vec!["a b.service"],
                "rendering a.mount: Before= can't be `a b.service`: it is not the name of a unit",
            ),
            (
                "/a",
                vec![],
                vec!["etcd"],
                "rendering a.mount: Before= can't be `etcd`: it is not the name of a unit",
            ),
        ] {
            assert_eq!(render(place, &options, &before).unwrap_err().to_string(), said);
        }
        assert_eq!(
            render(&long, &[], &[]).unwrap_err().why,
            "the unit's name would be longer than 255 bytes"
        );
    }

    /// Asks systemd-analyze, where it is installed. It refuses a Where= that doesn't match the unit's name, so it checks both.
    #[test]
    #[allow(clippy::disallowed_methods)] // the oracle of a test
    fn systemd_accepts_it() {
        let dir = std::env::temp_dir().join(format!("etcd-lun-unit-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for place in ["/var/lib/etcd", "/srv/a b-c", "/srv/100% ü", "/.x/\"y'", r"/a\x20b/$c#;d"] {
            let rendered =
                render(place, &["_netdev", "prjquota"], &["kubelet.service", r"srv-a\x2db.mount"]).unwrap();
            let file = dir.join(&rendered.name);
            std::fs::write(&file, &rendered.text).unwrap();
            // man=no: the page of etcd-lun itself may not be installed where this test runs.
            let mut verify = std::process::Command::new("systemd-analyze");
            let verify = verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&file);
            let Ok(output) = verify.output() else { break };
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !said.contains(&rendered.name), "{place}: {said}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
