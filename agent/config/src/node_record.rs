//! What the config says of a node record: open-iscsi's settings, which a session takes at its log-in.

use super::{timeouts::NOT_IN_USE, words::Digests};
use terms::Span;

/// The lines of a node record for the time-outs and the checksums, by open-iscsi's keys.
pub fn record_settings(
    noop_interval: Span,
    noop_timeout: Span,
    digests: Option<Digests>,
) -> Vec<(&'static str, String)> {
    let spans = [
        ("node.session.timeo.replacement_timeout", NOT_IN_USE),
        ("node.conn[0].timeo.noop_out_interval", noop_interval),
        ("node.conn[0].timeo.noop_out_timeout", noop_timeout),
    ]
    .map(|(key, span)| (key, span.0.as_secs().to_string()));
    let digests =
        digests.into_iter().flat_map(|digests| DIGESTS.map(|key| (key, digests.setting().to_owned())));
    spans.into_iter().chain(digests).collect()
}

/// open-iscsi's settings of the checksums.
const DIGESTS: [&str; 2] = ["node.conn[0].iscsi.HeaderDigest", "node.conn[0].iscsi.DataDigest"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::TargetTable;
    use std::time::Duration;

    #[test]
    fn digests_are_in_the_record_only_if_the_config_has_them() {
        let of = |digests| {
            let settings = record_settings(Span(Duration::ZERO), Span(Duration::ZERO), digests);
            settings
                .into_iter()
                .filter(|(key, _)| DIGESTS.contains(key))
                .map(|(_, value)| value)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(None), Vec::<String>::new());
        assert_eq!(of(Some(Digests::None)), ["None", "None"]);
        assert_eq!(of(Some(Digests::Crc32c)), ["CRC32C", "CRC32C"]);
        let word = |text: &str| {
            let table: Result<TargetTable, _> = toml::from_str(&format!("digests = {text}"));
            table.map(|table| table.digests).map_err(|error| error.to_string())
        };
        assert_eq!(word("\"crc32c\""), Ok(Some(Digests::Crc32c)));
        assert!(word("true").is_err() && word("\"crc\"").is_err());
    }
}
