//! `plan` and `status`: verbs that only read.

use super::{
    config,
    document::Document,
    exit::Exit,
    follow,
    output::{OutputFormat, print_err, print_json, print_out},
    show,
};
use ::config::Config;
use anyhow::Context as _;
use apply::run_file::{self, RunState};
use hands::Door;
use host::Host;
use node::{Identity, Node};
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

/// A node, and the run that is at work on it.
type Seen = (Node, Option<RunState>);

/// Observes the node, and the cluster if that is asked for. This takes no lock and changes nothing.
pub(super) fn look(door: &Door<'_>, config: &Config, identity: &Identity, asked: Asked) -> Seen {
    let observe = || observe::node(door, config, identity.clone(), Viewpoint::Reader, asked);
    follow::settled(door.host, observe)
}

/// What the run does that is at work; else what the last run said at its end, if it has not done what it was to do.
pub(super) fn last_run(host: &Host, at_work: Option<&RunState>) -> String {
    if let Some(run) = at_work {
        return follow::under_way(run);
    }
    let Ok(Some(run)) = run_file::read(host) else { return String::new() };
    let (verb, age) = (follow::clean(&run.verb), follow::age(run.age().as_secs()));
    match &run.result {
        Some(result) if result.code != 0 => {
            format!("`etcd-lun {verb}`, {age} ago: {}", follow::clean(&result.text))
        }
        Some(_) | None => String::new(),
    }
}

/// `plan`
pub(super) fn plan(
    file: Option<&Path>,
    goal: Goal,
    former_name: Option<String>,
    output: OutputFormat,
) -> Result<(), Exit> {
    let opening = if goal == Goal::Local { config::TO_LOOK.or_kept() } else { config::TO_LOOK };
    let (host, identity, config) = opening.load(file)?;
    let identity = Identity { former_name, ..identity };
    let (node, at_work) = look(&Door::of(&host, &config)?, &config, &identity, apply::asked(goal));
    let plan = match (goal.plan(&config, &node), &at_work) {
        (Ok(plan), _) => plan,
        // What a run does meanwhile is no reason of the node's.
        (Err(_), Some(run)) => {
            fail!(AnotherRun, "{}: ask again when it has ended", follow::describe(run));
        }
        (Err(refusal), None) => return Err(refusal.into()),
    };
    if output.json {
        return print_json(&PLAN, &plan);
    }
    if let Some(run) = &at_work {
        print_err(&format!("warning: {}: this plan may change until it has ended", follow::describe(run)));
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
        let last_run = last_run(&host, follow::at_work(&host).as_ref());
        print_out(&show::status_without_config(&observe::record(&host), &last_run));
    }
    let (identity, config) = loaded?;
    host.watch_signals().context("setting up signals")?;
    let (node, at_work) = look(&Door::of(&host, &config)?, &config, &identity, Asked::BY_HAND);
    if output.json {
        return print_json(&STATUS, &node);
    }
    print_out(&show::status(&config, &node, &last_run(&host, at_work.as_ref()), at_work.is_some()));
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
        let shown = || show::status_without_config(&observe::record(&host), &last_run(&host, None));
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
        assert_eq!(last_run(&host, None), "");
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
            let said = last_run(&host, None);
            match shown {
                Some(end) => {
                    assert!(said.starts_with("`etcd-lun apply --boot`, ") && said.ends_with(end), "{said}")
                }
                None => assert_eq!(said, "", "{result}"),
            }
        }
    }
}
