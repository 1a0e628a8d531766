//! Which known word an unknown one was meant to be.

/// The known word that was probably meant: at most every third letter differs.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let unknown = unknown.to_lowercase();
    let (distance, meant) = known
        .into_iter()
        .map(|word| (strsim::osa_distance(&unknown, word), word))
        .min_by_key(|(distance, _)| *distance)?;
    (3 * distance <= meant.len() + 2).then_some(meant)
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
        assert_eq!(nearest("x", []), None);
    }
}
