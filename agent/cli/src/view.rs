//! `plan` and `status`: verbs that only read.

use super::{
    config,
    config::Opening,
    document::Document,
    exit::Exit,
    follow,
    output::{OutputFormat, print_json, print_out},
    show,
};
use ::config::Config;
use anyhow::Context as _;
use apply::run_file::{self, RunState};
use hands::Door;
use host::{Host, filelock::lock_holders};
use node::{Identity, Node, layout::LOCK};
use observe::{Asked, Viewpoint};
use plan::{Goal, Plan};
use std::path::Path;
use terms::fail;

/// What `status` prints.
pub const STATUS: Document<Node> = Document::under("node", "status", "etcd-lun status --json");

/// What `plan` prints.
pub const PLAN: Document<Plan> = Document::under(
    "plan",
    "plan",
    "etcd-lun plan --json, and --dry-run --json of apply, rollback and claim",
);

/// Loads the config and observes the node, and the cluster if that is asked for. This takes no lock and changes nothing.
pub(super) fn look(
    opening: Opening,
    file: Option<&Path>,
    former_name: Option<String>,
    asked: Asked,
) -> Result<(Host, Config, Node), Exit> {
    let (host, identity, config) = opening.load(file)?;
    let identity = Identity { former_name, ..identity };
    let node = observe::node(&Door::of(&host, &config)?, &config, identity, Viewpoint::Reader, asked);
    Ok((host, config, node))
}

/// What the last run said at its end, if it has not done what it was to do, or what it does now; else nothing.
pub(super) fn last_run(host: &Host) -> String {
    let Ok(Some(run)) = run_file::read(host) else { return String::new() };
    let (verb, age) = (follow::clean(&run.verb), follow::age(run.age().as_secs()));
    match &run.result {
        Some(result) if result.code != 0 => {
            format!("`etcd-lun {verb}`, {age} ago: {}", follow::clean(&result.text))
        }
        Some(_) => String::new(),
        None if is_at_work(host, &run) => {
            format!("UNDER WAY for {age}: `etcd-lun {verb}`, {}", follow::clean(&run.step))
        }
        None => String::new(),
    }
}

/// True if a run has not ended. One that was killed has left its file, and holds no lock.
fn is_at_work(host: &Host, run: &RunState) -> bool {
    run.result.is_none()
        && lock_holders(host, LOCK).is_ok_and(|holders| holders.iter().any(|holder| run.may_be(holder.pid)))
}

/// `plan`
pub(super) fn plan(
    file: Option<&Path>,
    goal: Goal,
    former_name: Option<String>,
    output: OutputFormat,
) -> Result<(), Exit> {
    let opening = if goal == Goal::Local { config::TO_LOOK.or_kept() } else { config::TO_LOOK };
    let (host, config, node) = look(opening, file, former_name, apply::asked(goal))?;
    let plan = match goal.plan(&config, &node) {
        Ok(plan) => plan,
        Err(refusal) => {
            // What a run does meanwhile is no reason of the node's.
            if let Ok(Some(run)) = run_file::read(&host)
                && is_at_work(&host, &run)
            {
                fail!(AnotherRun, "{}: ask again when it has ended", follow::describe(&run));
            }
            return Err(refusal.into());
        }
    };
    if output.json {
        return print_json(&PLAN, &plan);
    }
    print_out(&match goal {
        _ if !plan.is_empty() => show::plan(&plan, &config, &node, goal),
        Goal::Claim => show::NOTHING_TO_CLAIM.into(),
        Goal::ClaimLocal | Goal::Lun(_) | Goal::Local => {
            show::nothing_to_do(node.rolled_back(), plan::is_held(&config, &node))
        }
    });
    Ok(())
}

/// `status`
pub(super) fn status(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let machine = config::TO_LOOK.or_kept().machine()?;
    let loaded = machine.config(file);
    let host = machine.host;
    // Somebody whose etcd is down for a wrong config wants to know where the data is.
    if let (Err(Exit::Config(_)), false) = (&loaded, output.json) {
        print_out(&show::status_without_config(&observe::record(&host), &last_run(&host)));
    }
    let (identity, config) = loaded?;
    host.watch_signals().context("setting up signals")?;
    let node =
        observe::node(&Door::of(&host, &config)?, &config, identity, Viewpoint::Reader, Asked::BY_HAND);
    if output.json {
        return print_json(&STATUS, &node);
    }
    print_out(&show::status(&config, &node, &last_run(&host)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::NoTools};

    /// What a person with a wrong config sees.
    #[test]
    fn without_a_config_the_record_says_where_the_data_is() {
        let machine = Files::new("no-config");
        let host = Host::fixture(Root::new(&machine.0), Box::new(NoTools)).unwrap();
        let shown = || show::status_without_config(&observe::record(&host), &last_run(&host));
        assert!(shown().contains("no record here"), "{}", shown());
        let wwid: terms::Wwid = "naa.60014051d8e4a3bd5a94f3f9a1a2b3c4".parse().unwrap();
        let data_dir = "/var/lib/etcd".parse().unwrap();
        let record = node::authority::Record::begin(
            4,
            terms::FsUuid([1; 16]),
            wwid.clone(),
            data_dir,
            terms::Nonce([7; 16]),
        );
        machine.put("var/lib/etcd-lun/authority.json", &record.to_text().unwrap());
        assert!(
            shown().contains("local disk, generation 4") && shown().contains(wwid.as_str()),
            "{}",
            shown()
        );
        let said = |record| config::without(node::Fact::Known(record)).to_string();
        assert!(
            said(None).contains("config example") && said(Some(record.clone())).contains("config example")
        );
        let moved = said(Some(record.commit(None)));
        assert!(moved.contains(wwid.as_str()) && moved.contains("rpm-ostree status"), "{moved}");
        machine.put("var/lib/etcd-lun/authority.json", "{}");
        assert!(shown().contains("unknown: "), "{}", shown());
    }

    /// At a boot nobody sees what the run has said.
    #[test]
    fn a_run_that_failed_is_shown_until_the_next_one() {
        let machine = Files::new("last-run");
        let host = Host::fixture(Root::new(&machine.0), Box::new(NoTools)).unwrap();
        assert_eq!(last_run(&host), "");
        for (result, shown) in [
            (
                r#"{"code":3,"text":"refused [too-small]: x","json":null}"#,
                Some(" ago: refused [too-small]: x"),
            ),
            (r#"{"code":0,"text":"Nothing to do.","json":null}"#, None),
            ("null", None),
        ] {
            let text = format!(
                r#"{{"version":1,"verb":"apply --boot","pid":7,"begun":1,"step":"","lines":[],"result":{result}}}"#
            );
            machine.put("run/etcd-lun/run", &text);
            let said = last_run(&host);
            match shown {
                Some(end) => {
                    assert!(said.starts_with("`etcd-lun apply --boot`, ") && said.ends_with(end), "{said}")
                }
                None => assert_eq!(said, "", "{result}"),
            }
        }
    }
}
