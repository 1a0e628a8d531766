//! Test cases for the reader of names: source text in, edges out.

use crate::names::{Graph, graph};

/// The graph of files, given by name and text. `lib.rs` declares the modules.
fn of(files: &[(&str, &str)]) -> Graph {
    let sources: Vec<_> = files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    graph(&sources)
}

fn edges(files: &[(&str, &str)]) -> Vec<String> {
    of(files).files.keys().map(|(from, to)| format!("{from} > {to}")).collect()
}

const LIB: (&str, &str) = ("lib.rs", "pub mod a; pub mod b;");
const B: (&str, &str) = ("b/mod.rs", "mod c; mod d; pub use c::C; pub fn own() {} pub use d::*;");
const C: (&str, &str) = ("b/c.rs", "pub struct C; pub fn f() {}");
const D: (&str, &str) = ("b/d.rs", "pub enum D { One, Two } pub trait T {}");

/// The files that `a.rs` uses.
fn used_by_a(text: &str) -> Vec<String> {
    let graph = of(&[LIB, ("a.rs", text), B, C, D]);
    graph.files.keys().filter(|(from, _)| from.starts_with('a')).map(|(_, to)| to.clone()).collect()
}

#[test]
fn every_way_to_name_something_is_seen() {
    for text in [
        "use crate::b::C;",
        "use crate::{b::{C}};",
        "use crate::{b::{self, C}, a as own};",
        "use crate::b; fn f() -> b::C { loop {} }",
        "use crate::b as other; fn f(_: other::C) {}",
        "use crate::b::C as Other; fn f(_: Other) {}",
        "use super::b::C;",
        "use self::super::b::C;",
        "fn f() { let _: crate::b::C; }",
        "fn f() { use crate::b::C; }",
        "fn f() { crate::b::c::f() }",
        "use crate::b::c; fn f() { c::f() }",
        "fn f() { println!(\"{}\", crate::b::C) }",
        "fn f() { vec![super::b::c::f(); 2]; }",
        "fn f() { matches!(1, x if (crate::b::c::f() == x)) }",
        "struct A { #[serde(with = \"crate::b::c\", default = \"crate::b::c::f\")] a: u8 }",
        "#[derive(Debug)] struct A(Vec<Option<crate::b::C>>);",
        "impl Iterator for crate::b::C {}",
        "fn f<X: Into<crate::b::C>>() where X: Copy {}",
        "mod inner { use super::super::b::C; }",
        "mod inner { fn f() -> super::super::b::C { loop {} } }",
        "macro_rules! m { ($x:expr) => { crate::b::c::f($x) } }",
        "const A: crate::b::C = crate::b::C;",
    ] {
        assert_eq!(used_by_a(text), ["b/c.rs"], "{text}");
    }
}

#[test]
fn a_reexport_leads_to_the_file_that_defines_the_name() {
    assert_eq!(used_by_a("use crate::b::own;"), ["b/mod.rs"]);
    assert_eq!(used_by_a("use crate::b::D;"), ["b/d.rs"], "through a glob");
    assert_eq!(used_by_a("use crate::b::D; fn f() { D::One; }"), ["b/d.rs"]);
    assert_eq!(used_by_a("use crate::b::D::*;"), ["b/d.rs"]);
    assert_eq!(used_by_a("use crate::b::*; fn f(_: C) {}"), ["b/c.rs"]);
    assert_eq!(used_by_a("fn f(x: impl crate::b::T) {}"), ["b/d.rs"]);
}

#[test]
fn what_only_looks_like_a_use_is_not_counted() {
    for text in [
        "//! See [`crate::b::C`].\n/// And `crate::b`.\nfn f() {}",
        "#[cfg(test)] mod tests { use crate::b::C; }",
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] use crate::b::C;",
        "struct A; impl A { #[cfg(test)] fn f() { crate::b::own() } }",
        "fn f(x: X) { x.b.own(); format!(\"{}\", x.own()); }",
        "use anyhow::{self, Context as _}; fn f() { std::fs::read(x) }",
        "use crate::b;",
    ] {
        assert_eq!(used_by_a(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_parent_that_only_reexports_its_children_makes_no_circle() {
    let lib = ("lib.rs", "mod p;");
    let child = ("p/c.rs", "use super::own; pub fn f() { own() }");
    let only_hands_on = ("p/mod.rs", "mod c; pub(crate) use c::f; pub fn own() {}");
    assert_eq!(edges(&[lib, only_hands_on, child]), ["p/c.rs > p/mod.rs"]);
    for calls in [
        "mod c; pub fn own() { c::f() }",
        "mod c; use c::f; pub fn own() {}",
        "mod c; pub use c::f; pub fn own() { f() }",
        "mod c; pub fn own() { self::c::f() }",
        "mod c; pub fn own() { vec![c::f()] }",
    ] {
        let both = ["p/c.rs > p/mod.rs", "p/mod.rs > p/c.rs"];
        assert_eq!(edges(&[lib, ("p/mod.rs", calls), child]), both, "{calls}");
    }
    // The module through which a sibling is reached is not itself used.
    let through = ("p/c.rs", "use super::{d::g, f2}; pub fn f() { super::d::g() }");
    let siblings = ("p/mod.rs", "mod c; mod d; pub use c::f; pub use d::g as f2;");
    assert_eq!(edges(&[lib, siblings, through, ("p/d.rs", "pub fn g() {}")]), ["p/c.rs > p/d.rs"]);
    // Modules below see a macro without an import.
    let macros = ("p/mod.rs", "macro_rules! m { () => {} } mod c;");
    assert_eq!(edges(&[lib, macros, ("p/c.rs", "m!();")]), ["p/c.rs > p/mod.rs"]);
}

#[test]
fn a_name_of_a_module_and_of_a_function_leads_to_the_function() {
    let files = [
        ("lib.rs", "mod p; mod q;"),
        ("p/mod.rs", "mod plan; pub use plan::plan;"),
        ("p/plan.rs", "pub fn plan() {}"),
        ("q.rs", "use crate::p::plan; fn f() { plan() }"),
    ];
    assert_eq!(edges(&files), ["q.rs > p/plan.rs"]);
}

#[test]
fn a_root_that_only_reexports_its_children_makes_no_circle() {
    let lib = ("lib.rs", "mod c; pub use c::f; pub fn own() {}");
    assert_eq!(edges(&[lib, ("c.rs", "use crate::own; pub fn f() { own() }")]), ["c.rs > lib.rs"]);
    let calls = ("lib.rs", "mod c; pub fn own() { c::f() }");
    let both = ["c.rs > lib.rs", "lib.rs > c.rs"];
    assert_eq!(edges(&[calls, ("c.rs", "use crate::own; pub fn f() { own() }")]), both);
}

#[test]
fn paths_of_other_crates_are_seen_in_full() {
    for (text, path) in [
        ("use std::fs;", "std::fs"),
        ("use std::{fs, io};", "std::fs"),
        ("use std::{fs::{self, File}};", "std::fs::File"),
        ("use std::fs as files; fn f() { files::read(x) }", "std::fs::read"),
        ("fn f() { std::fs::read(x); }", "std::fs::read"),
        ("use std::{process::Command}; fn f() { Command::new(x); }", "std::process::Command::new"),
        ("fn f() { format!(\"{}\", std::env::var(x)) }", "std::env::var"),
        ("use std::io::{self, Write as _}; fn f() { io::stdout().lock(); }", "std::io::stdout"),
        ("fn f() { println!(\"{x}\") }", "println!"),
        ("#![allow(clippy::disallowed_methods)]", "clippy::disallowed_methods"),
        ("#[allow(clippy::disallowed_methods)] mod inner;", "clippy::disallowed_methods"),
        ("#[allow(clippy::disallowed_methods)] mod inner {}", "clippy::disallowed_methods"),
    ] {
        let graph = of(&[("lib.rs", "mod a;"), ("a.rs", text), ("a/inner.rs", "")]);
        assert!(graph.outside.contains(&("a.rs".into(), path.into())), "{text}: {:?}", graph.outside);
    }
}
