//! The check of etcd-lun's own units, and of what starts and requires them.

use super::report::{CheckInput, Outcome, found, known, ok, outcome};
use node::{ActiveState, Fact, LunView, Starter, UnitState};
use unit::{Dependency, DropIn};

pub(super) fn units(input: CheckInput<'_>) -> Outcome {
    outcome(known(&input.health.units).and_then(|units| {
        // A run for a lost session that failed is over once the session is there again.
        let is_over = |unit: &UnitState| {
            unit.name == unit::LOST_SERVICE && matches!(input.node.lun, Fact::Known(LunView::Seen(_)))
        };
        if let Some(said) = units.iter().filter(|unit| !is_over(unit)).find_map(unit_problem) {
            return found(said);
        }
        let starters = known(&input.health.starters)?;
        if let Some(said) = start_problem(input, starters) {
            return found(said);
        }
        if let [_, ..] = input.node.missing_tools.as_slice() {
            return found(format!(
                "tools are missing, install them: {}",
                input.node.missing_tools.join(", ")
            ));
        }
        let names = units.iter().map(|unit| unit.name.as_str()).collect::<Vec<_>>().join(", ");
        match units.iter().filter(|unit| unit.file.starts_with("enabled")).map(|unit| &*unit.name).collect::<Vec<_>>() {
            linked if linked.is_empty() => ok(names),
            linked => ok(format!(
                "{names}; links of an earlier release are left, which do nothing: `systemctl disable {}` removes them",
                linked.join(" ")
            )),
        }
    }))
}

/// It writes our drop-ins, and removes those that have no place and the links of earlier releases.
const RENDER: &str = unit::RENDER_AGAIN;

/// Where PID 1 would start us, or hold the kubelet back, otherwise than the config says. Drop-ins do it, and links of an earlier
/// release may.
fn start_problem(input: CheckInput<'_>, starters: &[Starter]) -> Option<String> {
    let wanted = unit::drop_ins(input.config);
    // Some releases of OpenShift lack the target, and an etcd that is not OpenShift's has no kubelet.
    starters.iter().filter(|one| one.load != "not-found").find_map(|one| {
        let name = &one.name;
        let drop_in = wanted.iter().find(|drop_in| drop_in.unit == *name);
        let has = |on: &[&str], list: &[String]| on.iter().all(|unit| list.iter().any(|listed| listed == unit));
        match drop_in {
            Some(DropIn { dependency: Dependency::Wants, on, .. }) if !has(on, &one.wants) => Some(format!(
                "{name} does not start {}, so the next boot does not: {RENDER}",
                on.join(" and ")
            )),
            Some(DropIn { dependency: Dependency::Requires, on, .. }) if !has(on, &one.requires) => Some(format!(
                "{name} does not require {}, though `boot.gate` is \"kubelet\": without the LUN it would start all the same; {RENDER}",
                on.join(" and ")
            )),
            Some(DropIn { dependency: Dependency::Order, .. })
                if one.requires.iter().any(|unit| unit == unit::SERVICE) =>
            {
                Some(format!("{name} requires {}, though `boot.gate` is \"etcd\": {RENDER}", unit::SERVICE))
            }
            Some(drop_in) if !one.drop_in => {
                Some(format!("the drop-in {} is missing: {RENDER}", drop_in.path()))
            }
            _ => None,
        }
    })
}

/// Returns the fault of a unit.
fn unit_problem(unit: &UnitState) -> Option<String> {
    let name = &unit.name;
    match unit.load.as_str() {
        "loaded" => {}
        "masked" => return Some(format!("{name} is masked: run `systemctl unmask {name}`")),
        "not-found" => {
            return Some(format!("{name} is not installed: {RENDER}"));
        }
        other => return Some(format!("{name} cannot be loaded ({other}); see `systemctl status {name}`")),
    }
    // This also covers the unit that runs this check: it is `activating` meanwhile.
    let failed = unit.active == ActiveState::Failed
        || unit.result.as_deref().is_some_and(|result| result != "success");
    if failed {
        let result = unit.result.as_deref().unwrap_or("failed");
        let again = if name == unit::FETCH_SERVICE { unit::PROGRAM_SERVICE } else { name };
        return Some(format!(
            "the last run of {name} ended as `{result}`; see `journalctl -u {name}`, and when the cause is gone, run `systemctl restart {again}`, which leaves a running etcd alone"
        ));
    }
    if name.ends_with(".timer") && unit.active != ActiveState::Active {
        return Some(format!("{name} is {}: run `systemctl start {name}`", unit.active));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_puts_the_program_in_place_fetches_it() {
        for (name, cure) in [
            (unit::FETCH_SERVICE, "run `systemctl restart etcd-lun-program.service`"),
            (unit::SERVICE, "run `systemctl restart etcd-lun.service`"),
        ] {
            let failed = UnitState {
                name: name.into(),
                load: "loaded".into(),
                file: "static".into(),
                active: ActiveState::Failed,
                result: Some("exit-code".into()),
            };
            let said = unit_problem(&failed).unwrap();
            assert!(
                said.starts_with(&format!("the last run of {name} ended")) && said.contains(cure),
                "{said}"
            );
        }
    }
}
