//! What `--json` prints of a failure.

use super::{document::Document, exit::Exit};
use plan::Refusal;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// What every command with `--json` prints when it fails.
pub const FAILURE: Document<Failure> =
    Document::beside_version("error", "What a command with --json prints when it fails: exit code 1, 2 or 3");

/// Why a command failed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Failure {
    #[serde(flatten)]
    why: Why,
    /// The name of the error or refusal, which `etcd-lun explain` takes. Of several errors it is that of the first. `internal` if
    /// the error has no name of its own.
    name: Cow<'static, str>,
    /// The last line on standard error, with the name in brackets. A config with several errors has a line for each, with its own
    /// name.
    message: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Why {
    /// What failed, with all its causes: exit code 1 or 2. A config with several errors has a line for each.
    Error(String),
    /// Why etcd-lun refuses to act: exit code 3. Beside the refusal's name stand the values in the message. Sizes and times are
    /// numbers, in keys that end in `_bytes` or `_seconds`.
    Refused(Refused),
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Refused {
    /// The planner or a step refused.
    Refusal(Box<Refusal>),
    /// `render` refused.
    Render(RenderRefusal),
}

/// Why `render` refuses to print.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
enum RenderRefusal {
    /// A cluster could not store the object.
    ObjectTooLarge {
        /// The sizes, and what can be left out.
        found: String,
    },
}

/// What `--json` prints of this end; nothing if it is no failure.
pub fn failure(exit: &Exit) -> Option<Value> {
    let message = exit.line()?;
    let why = match exit {
        // The report is already on standard output.
        Exit::Success | Exit::Unhealthy(_) => return None,
        Exit::Followed(result) => return Some(result.json.clone()),
        Exit::Error(error) => Why::Error(format!("{error:#}")),
        Exit::Usage(text) => Why::Error(text.clone()),
        Exit::Config(errors) => {
            Why::Error(errors.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n"))
        }
        Exit::TooLarge(found) => {
            Why::Refused(Refused::Render(RenderRefusal::ObjectTooLarge { found: found.clone() }))
        }
        Exit::Awaits(exit, _) => return failure(exit),
        Exit::Refused(refusal) => Why::Refused(Refused::Refusal(refusal.clone())),
    };
    Some(FAILURE.of(&Failure { why, name: exit.name(), message }))
}
