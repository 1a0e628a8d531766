//! The figures that only `health` asks for: each one, when it is wrong, is found by its own check.

use super::*;

type Spoil = fn(&mut HealthFacts);

fn unit<'a>(health_facts: &'a mut HealthFacts, name: &str) -> &'a mut node::UnitState {
    known(&mut health_facts.units).iter_mut().find(|unit| unit.name == name).unwrap()
}

fn starter<'a>(health_facts: &'a mut HealthFacts, name: &str) -> &'a mut node::Starter {
    known(&mut health_facts.starters).iter_mut().find(|unit| unit.name == name).unwrap()
}

/// With the gate of the kubelet each of its units must require ours. A unit that the node lacks need not.
#[test]
fn the_gate_of_the_kubelet_is_what_pid_1_has() {
    let text = format!(
        "[target]\niqn = \"{TARGET}\"\nportals = [\"10.77.0.1\"]\n[etcd]\nruntime = \"static-pod\"\n[boot]\ngate = \"kubelet\"\n\
         [[node]]\nhostname = \"master-0\"\ninitiator = \"{INITIATOR}\"\nlun = 1\n"
    );
    let source = config::Source { path: "config.toml".into(), text };
    let config = config::Config::load(&[source], MACHINE, "master-0").unwrap();
    let said = |facts: &HealthFacts| {
        let report = health::assess(&config, &migrated(), facts);
        report.rows.into_iter().find(|row| row.check == "units").unwrap().outcome
    };
    let mut facts = health_facts();
    let Outcome::Found(found) = said(&facts) else { panic!() };
    assert!(
        found.starts_with("crio.service does not require etcd-lun.service, though `boot.gate` is"),
        "{found}"
    );
    for name in ["crio.service", "kubelet.service"] {
        let unit = starter(&mut facts, name);
        (unit.requires, unit.drop_in) = (vec!["etcd-lun.service".into()], true);
    }
    let Outcome::Ok(fine) = said(&facts) else { panic!() };
    assert!(fine.ends_with("etcd-lun.service"), "{fine}");
    unit(&mut facts, "etcd-lun.service").file = "enabled".into();
    let Outcome::Ok(noted) = said(&facts) else { panic!() };
    assert!(noted.ends_with("`systemctl disable etcd-lun.service` removes them"), "{noted}");
    starter(&mut facts, "kubelet.service").drop_in = false;
    let Outcome::Found(found) = said(&facts) else { panic!() };
    assert!(found.starts_with("the drop-in kubelet.service.d/50-etcd-lun.conf is missing"), "{found}");
}

#[allow(clippy::type_complexity)]
pub(super) fn broken_vitals() -> Vec<(&'static str, Spoil, &'static str)> {
    vec![
        (
            "paths",
            |health_facts| known(&mut health_facts.paths)[0].state = "transport-offline".into(),
            "sdb is transport-off",
        ),
        (
            "route",
            |health_facts| known(&mut health_facts.routes)[0].interface = Some("br-ex".into()),
            "over br-ex",
        ),
        (
            "shared-target",
            |health_facts| {
                let session = OtherUse::Session { sid: 9, interface: Some("default".into()) };
                let record = OtherUse::Record { portal: "10.77.0.1".parse().unwrap() };
                health_facts.others = Fact::Known(vec![session, record]);
            },
            "session 9 (interface default), the node record of 10.77.0.1:3260 of another program",
        ),
        (
            "write-cache",
            |health_facts| known(&mut health_facts.paths)[0].cache.kernel = Some("write through".into()),
            "is set not to flush them",
        ),
        (
            "write-cache",
            |health_facts| {
                let mut cache = known(&mut health_facts.paths)[0].cache.clone();
                cache.kernel = Some("write through".into());
                health_facts.map_cache = Fact::Known(Some(cache));
            },
            "does not pass flushes on",
        ),
        (
            "session-timeout",
            |health_facts| health_facts.hung_task_panic = Fact::Known(Some(3599)),
            "the kernel panics when a task waits for 3599 s (kernel.hung_task_panic), so an outage",
        ),
        (
            "local-space",
            |health_facts| health_facts.local_space = Fact::Known((Bytes(99), Bytes(2000))),
            "99B of 2.0KiB left",
        ),
        (
            "kernel-log",
            |health_facts| {
                health_facts.kernel_errors = Fact::Known(
                    ["LUN assignments on this target have changed.", "thin provisioning soft threshold"]
                        .map(Into::into)
                        .to_vec(),
                );
            },
            "`LUN assignments on this target have changed.`: see at the target that",
        ),
        (
            "kernel-log",
            |health_facts| {
                known(&mut health_facts.kernel_errors).push("a thin provisioning soft threshold.".into());
            },
            "threshold.`: the array's pool is nearly full",
        ),
        (
            "kernel-log",
            |health_facts| known(&mut health_facts.kernel_errors).push("XFS (sdb): log I/O error -5".into()),
            "1 since it was mounted, the last: `XFS (sdb)",
        ),
        (
            "kernel-log",
            |health_facts| {
                let lost = "connection1:0: detected conn error (1020)".to_owned();
                known(&mut health_facts.kernel_errors).extend(vec![lost; 4]);
            },
            "and at the target whether another machine has this initiator name",
        ),
        (
            "units",
            |health_facts| unit(health_facts, "etcd-lun.service").load = "masked".into(),
            "systemctl unmask",
        ),
        (
            "units",
            |health_facts| unit(health_facts, "etcd-lun.service").load = "not-found".into(),
            "render units",
        ),
        (
            "units",
            |health_facts| unit(health_facts, "etcd-lun.service").load = "bad-setting".into(),
            "cannot be loaded",
        ),
        (
            "units",
            |health_facts| starter(health_facts, "multi-user.target").wants.clear(),
            "multi-user.target does not start etcd-lun.service and etcd-lun-health.timer, so the next boot does not: render the object again and apply it",
        ),
        (
            "units",
            |health_facts| starter(health_facts, "multi-user.target").drop_in = false,
            "the drop-in multi-user.target.d/50-etcd-lun.conf is missing",
        ),
        (
            "units",
            |health_facts| starter(health_facts, "crio.service").requires = vec!["etcd-lun.service".into()],
            "crio.service requires etcd-lun.service, though `boot.gate` is \"etcd\": render the object again",
        ),
        (
            "units",
            |health_facts| {
                let kubelet = starter(health_facts, "kubelet.service");
                (kubelet.requires, kubelet.drop_in) = (vec!["etcd-lun.service".into()], true);
            },
            "kubelet.service requires etcd-lun.service, though `boot.gate` is \"etcd\": render the object again",
        ),
        (
            "units",
            |health_facts| unit(health_facts, "etcd-lun.service").active = "failed".into(),
            "ended as `success`",
        ),
        (
            "units",
            |health_facts| unit(health_facts, "etcd-lun-health.service").result = Some("timeout".into()),
            "ended as `timeout`",
        ),
        (
            "units",
            |health_facts| unit(health_facts, "etcd-lun-health.timer").active = "inactive".into(),
            "systemctl start",
        ),
        (
            "iowait",
            |health_facts| known(&mut health_facts.pressure).iowait = 4.1,
            "4.1 % of processor time; in the last",
        ),
    ]
}

/// A run for a lost session that has failed is a finding as long as the session is missing.
#[test]
fn what_is_over_is_no_finding() {
    let mut facts = health_facts();
    let lost = node::UnitState {
        name: unit::LOST_SERVICE.into(),
        result: Some("exit-code".into()),
        ..unit(&mut facts, "etcd-lun-health.service").clone()
    };
    known(&mut facts.units).push(lost);
    let found = |node: &Node| {
        let report = health::assess(&config(), node, &facts);
        let row = report.rows.iter().find(|row| row.check == "units").unwrap();
        matches!(&row.outcome, Outcome::Found(detail) if detail.contains("ended as `exit-code`"))
    };
    assert!(!found(&migrated()));
    assert!(found(&Node { lun: Fact::Known(LunView::NotAttached), ..migrated() }));
}

#[test]
fn every_figure_that_is_wrong_is_found_and_nothing_else() {
    for (check, spoil, said) in broken_vitals() {
        let mut health_facts = health_facts();
        spoil(&mut health_facts);
        let report = health::assess(&config(), &migrated(), &health_facts);
        for row in &report.rows {
            match &row.outcome {
                Outcome::Found(detail) if row.check == check => {
                    assert!(detail.contains(said), "{check}: {detail}")
                }
                Outcome::Ok(_) if row.check != check => {}
                other => panic!("with {check} broken, {}: {other:?}", row.check),
            }
        }
    }
}

/// The filesystem goes on, so nothing else is wrong.
#[test]
fn a_write_that_failed_is_found_at_the_mount() {
    let mut facts = health_facts();
    known(&mut facts.kernel_errors).push("sdb: writeback error on inode 131, offset 0".into());
    let report = health::assess(&config(), &migrated(), &facts);
    let row = report.rows.iter().find(|row| row.check == "mount").unwrap();
    assert!(row.outcome.detail().starts_with("a write has failed (`sdb: "), "{}", row.outcome.detail());
}
