#![allow(clippy::unwrap_used)]

use super::pages;
use crate::grammar;

#[test]
fn every_page_has_its_sections_and_the_version() {
    let pages = pages(grammar::command()).unwrap();
    assert!(pages.len() > 20, "{}", pages.len());
    for (name, text) in pages {
        let title = text.lines().find(|line| line.starts_with(".TH")).unwrap();
        assert!(title.contains(concat!("etcd-lun ", env!("CARGO_PKG_VERSION"))), "{title}");
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH \"EXIT STATUS\"", ".SH \"FILES\""] {
            assert!(text.contains(section), "{name} lacks {section}: {text}");
        }
        assert_eq!(text.matches("Exit codes").count(), 0, "{name}: {text}");
    }
}

#[test]
fn a_page_has_the_name_by_which_man_finds_it() {
    let names: Vec<_> = pages(grammar::command()).unwrap().into_iter().map(|(name, _)| name).collect();
    for name in ["etcd-lun", "etcd-lun-apply", "etcd-lun-render", "etcd-lun-render-units", "etcd-lun-let-go"]
    {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.ends_with("help")), "{names:?}");
}

/// What nobody calls by hand stands at the end.
#[test]
fn internal_commands_come_last() {
    let (_, text) = pages(grammar::command()).unwrap().remove(0);
    let places: Vec<_> = text.match_indices("\netcd\\-lun\\-").map(|(at, _)| &text[at + 1..]).collect();
    let last: Vec<_> = places.iter().rev().take(3).map(|rest| rest.lines().next().unwrap()).collect();
    assert_eq!(last, ["etcd\\-lun\\-hands(8)", "etcd\\-lun\\-let\\-go(8)", "etcd\\-lun\\-mark(8)"], "{text}");
    for line in ["mark", "let\\-go", "hands"] {
        let about = text.split(&format!("etcd\\-lun\\-{line}(8)\n")).nth(1).unwrap();
        assert!(about.lines().next().unwrap().contains("(internal"), "{about}");
    }
}
