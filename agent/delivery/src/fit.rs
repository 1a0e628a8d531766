//! The size of an object, as a cluster stores it.

use super::yaml::Yaml;

/// The limit in bytes for all MachineConfigs of a pool together: etcd's limit for one object, and the Machine Config
/// Operator's for the config that it renders for a pool (`MaxMachineConfigSize`).
pub const POOL_LIMIT: usize = 1_572_864;

/// Returns the size of the object as the API server stores it: in JSON as Go's `encoding/json` writes it, where `<`, `>`, `&`
/// and two line separators have six bytes each.
pub(super) fn stored(object: &Yaml) -> usize {
    let text = object.json().to_string();
    let more = text.chars().map(|c| match c {
        '<' | '>' | '&' => 5,
        '\u{2028}' | '\u{2029}' => 3,
        _ => 0,
    });
    text.len() + more.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go writes it: `json.Marshal` of `"a<b>&\u2028\n"` has 30 bytes.
    #[test]
    fn lengths_are_those_of_go() {
        assert_eq!(stored(&Yaml::text("a<b>&\u{2028}\n")), 2 + 2 + 4 * 6 + 2);
        assert_eq!(stored(&Yaml::Map(vec![("a", Yaml::List(vec![Yaml::text("b")]))])), 11);
    }
}
