//! Law 4: a refusal names object, finding and cure. Each variant is read from its source, where its text stands above its fields.

use super::Refusal;

const SOURCES: [&str; 8] = [
    include_str!("mod.rs"),
    include_str!("authority.rs"),
    include_str!("cluster.rs"),
    include_str!("label.rs"),
    include_str!("place.rs"),
    include_str!("retired.rs"),
    include_str!("rollback.rs"),
    include_str!("shut_down.rs"),
];

/// How a cure begins.
const DO: &[&str] = &[
    "add", "attach", "bring", "check", "clear", "correct", "find", "grow", "install", "keep", "leave",
    "look", "lower", "make", "put", "remove", "restore", "run", "see", "set", "stop", "unmount", "wait",
    "{cure}",
];

/// A variant of a refusal.
#[derive(Debug)]
struct Variant {
    name: String,
    /// Its message, with the fields in braces.
    text: String,
    fields: Vec<String>,
}

fn variants(source: &str) -> Vec<Variant> {
    let mut found = Vec::new();
    for part in source.split("    #[error(").skip(1).filter(|part| !part.starts_with("transparent")) {
        let (message, rest) = part.split_once(")]\n").unwrap();
        let rest = rest.lines().skip_while(|line| line.trim_start().starts_with("#["));
        let body: Vec<_> = rest.take_while(|line| !line.starts_with("    }") && !line.is_empty()).collect();
        let fields = body.iter().skip(1).filter_map(|line| {
            let name = line.strip_prefix("        ")?.split_once(": ")?.0;
            name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_').then(|| name.to_owned())
        });
        let name = body.first().unwrap().trim().trim_end_matches([' ', '{', ',']).to_owned();
        found.push(Variant { name, text: message.trim().to_owned(), fields: fields.collect() });
    }
    found
}

/// A clause that tells somebody to do something, at the end of the text or in its last sentence.
fn ends_with_a_cure(text: &str) -> bool {
    let text = text.trim_matches(['"', ',']);
    let told = |clause: &str| {
        let clause = clause.trim_start_matches(['(', ' ']);
        let clause = ["or ", "and ", "then ", "first "]
            .iter()
            .fold(clause, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        let word = clause.split([' ', ',']).next().unwrap_or_default().to_lowercase();
        DO.contains(&word.as_str())
    };
    let last = text.rsplit_once(". ").map_or(text, |(_, last)| last);
    last.split([':', ';', ',']).skip(usize::from(last == text)).any(told) || told(last)
}

#[test]
fn each_refusal_names_object_finding_and_cure() {
    let mut names = Vec::new();
    for Variant { name, text, fields } in SOURCES.iter().flat_map(|source| variants(source)) {
        for field in &fields {
            let is_there = [format!("{{{field}}}"), format!(", {field}.")];
            assert!(
                is_there.iter().any(|place| text.contains(place)),
                "{name} does not say its {field}: {text}"
            );
        }
        assert!(ends_with_a_cure(&text), "{name} ends without a cure: {text}");
        names.push(name);
    }
    // The reader has missed none.
    let schema = serde_json::to_string(&schemars::schema_for!(Refusal)).unwrap();
    assert_eq!(names.len(), schema.matches("\"const\":\"").count(), "{names:?}");
}

#[test]
fn a_text_without_a_cure_is_found() {
    for text in ["something is odd somewhere, and nobody says what", "{found}: the LUN is {wwid}"] {
        assert!(!ends_with_a_cure(text), "{text}");
    }
    assert!(ends_with_a_cure("LUN {wwid} is {found}: correct the mapping at the target"));
}
