//! Which file of a crate uses which: every path in the sources is followed to the file that defines its target.
//!
//! The sources are parsed with `syn`. Paths are taken from imports, types, expressions, patterns and the arguments of
//! macros, and from texts in attributes (`#[serde(with = "…")]`). A re-export of a child (`pub use` in `mod.rs` or `lib.rs`) makes
//! no edge: the edge belongs to the file that uses the name. Calls of methods have no path: the caller has got the
//! value from elsewhere, and that makes the edge. Test modules are left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Path of a module below the crate's root; the root is empty.
type ModulePath = Vec<String>;

/// A file and its text. The name is the path below `src`: `apply/mod.rs`.
pub type Source = (String, String);

#[derive(Debug, Default)]
struct Module {
    file: String,
    /// What is defined here, macros too.
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    imports: BTreeMap<String, Vec<Vec<String>>>,
    globs: Vec<Vec<String>>,
    uses: Vec<Use>,
}

#[derive(Debug)]
struct Use {
    path: Vec<String>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Body,
    Import,
    /// `pub use` of any visibility.
    Export,
    Macro,
}

/// The target of a path.
#[derive(Debug, Clone)]
enum Target {
    Module,
    Item { file: String },
}

/// The result: who uses what.
#[derive(Debug, Default)]
pub struct Graph {
    /// From a file to a file, with the paths as they are written.
    pub files: BTreeMap<(String, String), BTreeSet<String>>,
    /// Paths of other crates, in full (`std::fs::File`), with the file that uses them. A macro ends with `!`.
    pub outside: BTreeSet<(String, String)>,
}

/// The graph of a crate's sources.
pub fn graph(sources: &[Source]) -> Graph {
    let mut modules = Modules::default();
    modules.read(sources, "lib.rs", Vec::new());
    modules.graph()
}

#[derive(Debug, Default)]
struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    fn read(&mut self, sources: &[Source], name: &str, path: ModulePath) {
        let Some((_, text)) = sources.iter().find(|(known, _)| known == name) else {
            panic!("{name}: this module has no file");
        };
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let outside = self.module(name, path.clone(), &file.attrs, &file.items);
        let dir = match name.strip_suffix("mod.rs") {
            Some(dir) => dir.to_owned(),
            None if path.is_empty() => String::new(),
            None => format!("{}/", name.trim_end_matches(".rs")),
        };
        for child in outside {
            let (plain, nested) = (format!("{dir}{child}.rs"), format!("{dir}{child}/mod.rs"));
            let file = if sources.iter().any(|(known, _)| *known == plain) { plain } else { nested };
            self.read(sources, &file, [path.clone(), vec![child]].concat());
        }
    }

    /// Reads a module's items. Returns its children that are files of their own.
    fn module(
        &mut self,
        file: &str,
        path: ModulePath,
        attributes_of_it: &[syn::Attribute],
        items: &[syn::Item],
    ) -> Vec<String> {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let mut outside = Vec::new();
        attributes_of_it
            .iter()
            .for_each(|attribute| Reader { module: &mut module }.visit_attribute(attribute));
        for item in items {
            if attributes(item).iter().any(is_test) {
                continue;
            }
            module.items.extend(defined(item));
            let syn::Item::Mod(child) = item else {
                Reader { module: &mut module }.visit_item(item);
                continue;
            };
            let name = child.ident.to_string();
            module.children.insert(name.clone());
            match &child.content {
                None => {
                    child.attrs.iter().for_each(|one| Reader { module: &mut module }.visit_attribute(one));
                    outside.push(name);
                }
                Some((_, items)) => {
                    let below = self.module(file, [path.clone(), vec![name]].concat(), &child.attrs, items);
                    assert!(below.is_empty(), "{file}: a file below a module within a file");
                }
            }
        }
        self.0.insert(path, module);
        outside
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        for (path, module) in &self.0 {
            for used in &module.uses {
                let target = self.start(path, &used.path, used.kind, 0);
                let as_written = used.path.join("::");
                if target.is_none() {
                    let end = if used.kind == Kind::Macro { "!" } else { "" };
                    for whole in self.expand(path, &used.path, 0) {
                        graph.outside.insert((module.file.clone(), whole.join("::") + end));
                    }
                }
                let Some(Target::Item { file }) = target else { continue };
                let dir = module.file.strip_suffix("mod.rs").or(module.file.strip_suffix("lib.rs"));
                let hands_on = used.kind == Kind::Export && dir.is_some_and(|dir| file.starts_with(dir));
                if file != module.file && !hands_on {
                    graph.files.entry((module.file.clone(), file)).or_default().insert(as_written);
                }
            }
        }
        graph
    }

    /// Follows a path from the module in which it is written.
    fn start(&self, from: &[String], path: &[String], kind: Kind, depth: u8) -> Option<Target> {
        // `use anyhow::{self}` imports a name that is the same as its path.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk(&[], rest, depth),
            "self" if rest.first().is_some_and(|next| next == "super") => self.start(from, rest, kind, depth),
            "self" => self.walk(from, rest, depth),
            "super" => {
                let mut above = from.split_last()?.1;
                let mut rest = rest;
                while rest.first().is_some_and(|next| next == "super") {
                    (above, rest) = (above.split_last()?.1, &rest[1..]);
                }
                self.walk(above, rest, depth)
            }
            _ => {
                let found = self.walk(from, path, depth);
                if found.is_some() || kind != Kind::Macro {
                    return found;
                }
                // Modules below see a macro without an import.
                (0..from.len()).rev().find_map(|end| {
                    let above = self.0.get(&from[..end])?;
                    above.items.contains(first).then(|| Target::Item { file: above.file.clone() })
                })
            }
        }
    }

    /// A path of another crate, with its first name replaced by what it was imported from.
    fn expand(&self, from: &[String], path: &[String], depth: u8) -> Vec<Vec<String>> {
        let imported = path.split_first().and_then(|(first, rest)| {
            let imports = self.0.get(from)?.imports.get(first)?;
            Some(imports.iter().map(|import| [import.as_slice(), rest].concat()).collect::<Vec<_>>())
        });
        match imported {
            Some(wholes) if depth < 4 => wholes
                .iter()
                .flat_map(|whole| {
                    if whole == path { vec![whole.clone()] } else { self.expand(from, whole, depth + 1) }
                })
                .collect(),
            _ => vec![path.to_vec()],
        }
    }

    /// Follows a path within a module.
    fn walk(&self, within: &[String], path: &[String], depth: u8) -> Option<Target> {
        let module = self.0.get(within)?;
        let Some((first, rest)) = path.split_first() else { return Some(Target::Module) };
        let is_child = module.children.contains(first);
        if module.items.contains(first) && (rest.is_empty() || !is_child) {
            return Some(Target::Item { file: module.file.clone() });
        }
        let imported = module.imports.get(first).into_iter().flatten();
        let through = imported.filter_map(|import| {
            let whole = [import.as_slice(), rest].concat();
            self.start(within, &whole, Kind::Body, depth + 1)
        });
        // A name may be that of a module and of a function. Then the function is meant.
        if let Some(target) = through.max_by_key(|target| matches!(target, Target::Item { .. })) {
            return Some(target);
        }
        if is_child {
            return self.walk(&[within, std::slice::from_ref(first)].concat(), rest, depth);
        }
        module.globs.iter().find_map(|glob| {
            let whole = [glob.as_slice(), path].concat();
            let found = (depth < 8).then(|| self.start(within, &whole, Kind::Body, depth + 1))?;
            // The names in the glob of an enum are not known, so only the globs of modules are followed.
            let module = self.start(within, glob, Kind::Body, depth + 1)?;
            if matches!(module, Target::Module) { found } else { None }
        })
    }
}

/// Collects the paths of one item.
struct Reader<'module> {
    module: &'module mut Module,
}

impl Reader<'_> {
    fn add(&mut self, path: Vec<String>, kind: Kind) {
        self.module.uses.push(Use { path, kind });
    }

    fn import(&mut self, above: &[String], tree: &syn::UseTree, exported: bool) {
        let mut named = |name: &syn::Ident, alias: &syn::Ident| {
            let path = if name == "self" { above.to_vec() } else { [above, &[name.to_string()]].concat() };
            let alias = if alias == "self" { path[path.len() - 1].clone() } else { alias.to_string() };
            self.module.imports.entry(alias).or_default().push(path.clone());
            self.add(path, if exported { Kind::Export } else { Kind::Import });
        };
        match tree {
            syn::UseTree::Path(path) => {
                self.import(&[above, &[path.ident.to_string()]].concat(), &path.tree, exported);
            }
            syn::UseTree::Name(name) => named(&name.ident, &name.ident),
            syn::UseTree::Rename(name) => named(&name.ident, &name.rename),
            syn::UseTree::Glob(_) => {
                self.module.globs.push(above.to_vec());
                self.add(above.to_vec(), if exported { Kind::Export } else { Kind::Import });
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(above, tree, exported));
            }
        }
    }

    /// Collects paths in the arguments of a macro or an attribute.
    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<_> = tokens.into_iter().collect();
        let is =
            |at: usize, what: char| matches!(trees.get(at), Some(TokenTree::Punct(p)) if p.as_char() == what);
        let mut at = 0;
        while at < trees.len() {
            match &trees[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => self.text(&literal.to_string()),
                // `.name` is a field or a method, but the name in `..name` is a value.
                TokenTree::Ident(_) if at > 0 && is(at - 1, '.') && !(at > 1 && is(at - 2, '.')) => {}
                TokenTree::Ident(ident) => {
                    let mut path = vec![ident.to_string()];
                    while is(at + 1, ':') && is(at + 2, ':') {
                        let Some(TokenTree::Ident(next)) = trees.get(at + 3) else { break };
                        path.push(next.to_string());
                        at += 3;
                    }
                    let called = is(at + 1, '!')
                        && matches!(trees.get(at + 2), Some(TokenTree::Group(g)) if g.delimiter() != Delimiter::None);
                    self.add(path, if called { Kind::Macro } else { Kind::Body });
                }
                TokenTree::Punct(_) => {}
            }
            at += 1;
        }
    }

    /// A path within a text, as in some attributes.
    fn text(&mut self, literal: &str) {
        let text = literal.trim_matches('"');
        let path: Vec<_> = text.split("::").map(str::to_owned).collect();
        let is_name =
            |name: &String| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if literal.starts_with('"') && path.len() > 1 && path.iter().all(is_name) {
            self.add(path, Kind::Body);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&[], &item.tree, !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !attributes(item).iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(is_test) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect(), Kind::Body);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let path = called.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(path, Kind::Macro);
        self.tokens(called.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        match &attribute.meta {
            // A doc comment.
            syn::Meta::NameValue(_) => {}
            // `#[test]`, or a macro of another crate.
            syn::Meta::Path(path) if path.segments.len() == 1 => {}
            syn::Meta::Path(path) => self.visit_path(path),
            syn::Meta::List(list) => self.tokens(list.tokens.clone()),
        }
    }
}

fn is_test(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
