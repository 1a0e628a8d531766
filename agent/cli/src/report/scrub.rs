//! Takes secrets out of texts.

use config::{Config, SecretSource, Target};
use host::Host;
use observe::secrets::in_file;

/// What must not be in a report. It has no `Debug`, so that nothing prints it.
pub(super) struct Secrets(Vec<String>);

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

/// The keys that have a secret or name one. A longer name comes before its beginning.
const KEYS: [&str; 6] =
    ["password_in_file", "password_file", "password_in", "password", "credential_in", "credential"];

impl Secrets {
    /// The secrets of the texts of a config, and of the config that they make. In the texts they are found by their keys,
    /// because a report is also made of a config that is not valid.
    pub(super) fn new(
        host: &Host,
        texts: &[(String, String)],
        config: Option<&Config>,
        credentials: Option<&str>,
    ) -> Self {
        let mut found = Vec::new();
        let mut files = Vec::new();
        let mut take = |key: &str, value: String| match key {
            "password" | "password_in" => found.push(value),
            "password_file" | "password_in_file" => files.push(value),
            _ => files.extend(credentials.map(|dir| format!("{dir}/{value}"))),
        };
        texts
            .iter()
            .flat_map(|(_, text)| text.lines())
            .flat_map(settings)
            .for_each(|(key, value)| take(key, value));
        let targets = config.map_or(&[][..], |config| config.storage.targets());
        for secret in targets.iter().flat_map(Target::secrets) {
            match secret {
                SecretSource::Inline(secret) => take("password", secret.reveal().to_owned()),
                SecretSource::File(path) => take("password_file", path.to_string()),
                SecretSource::Credential(name) => take("credential", name.clone()),
            }
        }
        for path in files {
            if let Ok(bytes) = host.root.read_input(&path) {
                found.extend(in_file(&bytes).ok().map(|secret| secret.reveal().to_owned()));
                found.push(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Self::hidden(found)
    }

    /// These secrets, and the forms that they have in JSON and at the ends of lines.
    fn hidden(found: Vec<String>) -> Self {
        let mut all = Vec::new();
        for secret in found {
            let json = serde_json::to_string(&secret).unwrap_or_default();
            let inner = json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_owned();
            all.extend(
                [secret.trim().to_owned(), inner, secret].into_iter().filter(|form| !form.trim().is_empty()),
            );
        }
        // The longest first: a secret may be a part of another one.
        all.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        all.dedup();
        Self(all)
    }

    /// The text with each secret hidden.
    pub(super) fn scrubbed(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN))
    }
}

/// The keys of a line that have secrets, and their values without quotes.
fn settings(line: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = KEYS.iter().filter_map(|key| rest.find(key)).min() {
        let from = rest.get(at..).unwrap_or_default();
        let Some(key) = KEYS.into_iter().find(|key| from.starts_with(key)) else { break };
        rest = from.get(key.len()..).unwrap_or_default();
        let after = rest.trim_start_matches(['"', '\'']).trim_start();
        let Some(value) = after.strip_prefix('=').map(str::trim_start) else { continue };
        let value = match value.chars().next().filter(|first| ['"', '\''].contains(first)) {
            Some(quote) => closed(value.get(1..).unwrap_or_default(), quote),
            None => value.split(['#', ',', '}']).next().unwrap_or_default().trim().to_owned(),
        };
        found.push((key, value));
    }
    found
}

/// The text up to the closing quote, without the backslashes of a basic string of TOML.
fn closed(value: &str, quote: char) -> String {
    let mut text = String::new();
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quote == '"' => text.extend(letters.next()),
            letter if letter == quote => break,
            letter => text.push(letter),
        }
    }
    text
}
