//! Which known word an unknown one was meant to be.

/// The known word that was probably meant: at most every third letter differs.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let unknown = unknown.to_lowercase();
    let near = |word: &str| {
        let distance = strsim::osa_distance(&unknown, word);
        (3 * distance <= word.len() + 2).then_some(distance)
    };
    let (_, meant) = known
        .into_iter()
        .filter_map(|word| Some((near(word)?, word)))
        .min_by_key(|(distance, _)| *distance)?;
    Some(meant)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn words_with_few_other_letters() {
        let known = ["apply", "plan", "status"];
        for (unknown, meant) in [
            ("aply", Some("apply")),
            ("plna", Some("plan")),
            ("STATUS", Some("status")),
            ("destroy", None),
            ("", None),
        ] {
            assert_eq!(nearest(unknown, known), meant, "{unknown}");
        }
        // `lun` is as near, and too short for it.
        assert_eq!(nearest("wwn", ["lun", "wwid"]), Some("wwid"));
        assert_eq!(nearest("x", []), None);
    }
}
