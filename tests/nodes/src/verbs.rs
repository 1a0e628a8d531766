//! What verbs of the agent print with `--json`: steps by their ids, and facts.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::host::Output;
use crate::node::Node;
use crate::scene::agent;

/// Steps by their ids, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps(Vec<String>);

impl Steps {
    fn of(list: &Value, id: impl Fn(&Value) -> Option<&str>) -> Result<Self> {
        let list = list.as_array().context("there is no list of steps")?;
        list.iter()
            .map(|step| id(step).map(String::from).context("a step has no id"))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Whether this step is among them.
    pub fn has_step(&self, id: &str) -> bool {
        self.0.iter().any(|step| step == id)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a verb has printed with `--json`.
pub fn parsed(output: &Output) -> Result<Value> {
    serde_json::from_str(&output.stdout).with_context(|| format!("no JSON: {output}"))
}

/// What a verb prints with `--json`. It must succeed.
pub fn json(node: &Node, verb: &str) -> Result<Value> {
    let output = agent(node, &format!("{verb} --json"))?;
    if output.code != 0 {
        bail!("`etcd-lun {verb}` should have succeeded: {output}");
    }
    parsed(&output)
}

/// The plan of `plan`, or of another verb with `--dry-run`.
pub fn plan(node: &Node, verb: &str) -> Result<Value> {
    json(node, verb).map(|mut value| value["plan"].take())
}

/// The steps of that plan.
pub fn planned(node: &Node, verb: &str) -> Result<Steps> {
    Steps::of(&plan(node, verb)?["steps"], |step| step["step"].as_str())
}

/// Checks that nothing is to be done.
pub fn plans_nothing(node: &Node) -> Result<()> {
    let plan = plan(node, "plan")?;
    let steps = Steps::of(&plan["steps"], |step| step["step"].as_str())?;
    if !steps.is_empty() || !plan["horizon"].is_null() {
        bail!("nothing should be left to do: {plan}");
    }
    Ok(())
}

/// Runs `apply`, `rollback` or `claim`, which must succeed. Returns the steps that it has taken.
pub fn taken(node: &Node, verb: &str) -> Result<Steps> {
    Steps::of(&done(node, verb)?["taken"], Value::as_str)
}

/// Checks that the verb has nothing to do, because a rollback has moved the data back and nobody has moved it again.
pub fn stays_rolled_back(node: &Node, verb: &str) -> Result<()> {
    let done = done(node, verb)?;
    if done["steps"] != 0 || !done["rolled_back"].is_u64() {
        bail!("after a rollback `etcd-lun {verb}` should do nothing: {done}");
    }
    Ok(())
}

fn done(node: &Node, verb: &str) -> Result<Value> {
    let key = verb.split(' ').next().unwrap_or_default();
    json(node, verb).map(|mut value| value[key].take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_are_found_by_their_ids() {
        let plan = json!([{ "step": "log-in", "all": false }, { "step": "attach-lun" }]);
        let steps = Steps::of(&plan, |step| step["step"].as_str()).unwrap();
        assert!(steps.has_step("log-in") && !steps.has_step("log") && !steps.is_empty());
        assert_eq!(Steps::of(&json!(["log-in", "attach-lun"]), Value::as_str).unwrap(), steps);
        assert!(Steps::of(&json!([7]), Value::as_str).is_err());
        assert!(Steps::of(&json!(null), Value::as_str).is_err());
    }
}
