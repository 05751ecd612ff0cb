//! The imports between the modules of a crate, read from its sources. The tree of modules begins at `lib.rs`, as for
//! the compiler. Modules for tests are left out.
//!
//! An import is a path that begins with `crate`, `super` or `self`, or with a name that such a path imported. It may
//! be in a `use`, in code, in a type, or in the tokens of a macro. A name that `lib.rs` imports from a module stands
//! for the path in that module. Calls of methods are not imports, even if another module adds the method to a type.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// The path of a module, from the crate's root.
type Path = Vec<String>;

/// The modules of one crate, each with the modules that it imports.
#[derive(Debug, Default)]
pub struct Imports {
    /// The imported modules of each module. A module is a file or a block.
    of: BTreeMap<Path, BTreeSet<Path>>,
}

impl Imports {
    /// Reads a crate. `read` returns the text of the file with a path relative to `src`.
    pub fn read(read: &dyn Fn(&str) -> Option<String>) -> Imports {
        let mut modules = BTreeMap::new();
        let root = syn::parse_file(&read("lib.rs").expect("a crate has a lib.rs")).expect("lib.rs is Rust");
        walk(read, &Path::new(), &root.items, &mut modules);
        let root_names = modules[&Path::new()].names.clone();
        let mut imports = Imports::default();
        for (module, found) in &modules {
            // The imports of the root are left out: it declares modules, and exports names for users.
            if module.is_empty() {
                continue;
            }
            let of = imports.of.entry(module.clone()).or_default();
            for path in &found.paths {
                let path = match path.as_slice() {
                    [name] | [name, ..] if !modules.contains_key(&path[..1]) => {
                        let Some(stands_for) = root_names.get(name) else { continue };
                        [stands_for, &path[1..]].concat()
                    }
                    _ => path.clone(),
                };
                // The imported module is the longest prefix of the path that is a module.
                let owner = (1..=path.len()).rev().map(|len| &path[..len]).find(|part| modules.contains_key(*part));
                of.extend(owner.filter(|owner| *owner != module.as_slice()).map(<[String]>::to_vec));
            }
        }
        imports
    }

    /// Returns the imports between modules of at most this depth. A deeper module counts as part of its ancestor at
    /// this depth.
    pub fn at_depth(&self, depth: usize) -> BTreeMap<String, BTreeSet<String>> {
        let name = |path: &Path| path[..path.len().min(depth)].join("::");
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, imported) in &self.of {
            let module = name(module);
            let of = graph.entry(module.clone()).or_default();
            of.extend(imported.iter().map(name).filter(|other| *other != module));
        }
        graph
    }
}

/// Returns the forbidden imports: each import by a layer from a layer after it in `order`, which begins with the
/// lowest layer.
///
/// # Panics
/// If a layer is not in `order`.
pub fn upward(graph: &BTreeMap<String, BTreeSet<String>>, order: &[&str]) -> Vec<String> {
    let rank = |module: &str| {
        let layer = module.split("::").next().unwrap();
        let rank = order.iter().position(|known| *known == layer);
        rank.unwrap_or_else(|| panic!("{layer} has no place in the order: it takes one there, and in ARCHITECTURE.md"))
    };
    let all = graph.iter().flat_map(|(module, imported)| imported.iter().map(move |other| (module, other)));
    all.filter(|(module, other)| rank(module) < rank(other))
        .map(|(module, other)| format!("{module} → {other}"))
        .collect()
}

/// Returns a cycle if the graph has one: modules of which each imports the next, and the last imports the first.
pub fn cycle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn follow<'a>(
        graph: &'a BTreeMap<String, BTreeSet<String>>,
        module: &'a str,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<String>> {
        if let Some(nth) = way.iter().position(|before| *before == module) {
            return Some(way[nth..].iter().map(|module| (*module).to_owned()).collect());
        }
        if done.contains(module) {
            return None;
        }
        way.push(module);
        let found = graph.get(module).into_iter().flatten().find_map(|other| follow(graph, other, way, done));
        way.pop();
        done.insert(module);
        found
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|module| follow(graph, module, &mut Vec::new(), &mut done))
}

/// The paths and names in one module.
#[derive(Default)]
struct ModulePaths {
    /// The paths, from the crate's root.
    paths: BTreeSet<Path>,
    /// The names that a `use` gives to paths.
    names: BTreeMap<String, Path>,
}

/// Visits a module and all modules below it.
fn walk(
    read: &dyn Fn(&str) -> Option<String>,
    module: &Path,
    items: &[Item],
    modules: &mut BTreeMap<Path, ModulePaths>,
) {
    let children: Vec<&ItemMod> = items
        .iter()
        .filter_map(|item| match item {
            Item::Mod(child) if !is_for_tests(&child.attrs) => Some(child),
            _ => None,
        })
        .collect();
    let mut reader = Reader { module, children: &children, found: ModulePaths::default() };
    let uses = items.iter().filter(|item| matches!(item, Item::Use(_)));
    let others = items.iter().filter(|item| !matches!(item, Item::Use(_)));
    // Names are visited first, because code may be above the `use` that imports them.
    uses.chain(others).for_each(|item| reader.visit_item(item));
    modules.insert(module.clone(), reader.found);
    for child in children {
        let path = [module.as_slice(), &[child.ident.to_string()]].concat();
        match &child.content {
            Some((_, items)) => walk(read, &path, items, modules),
            None => {
                let file = format!("{}.rs", path.join("/"));
                let text = read(&file).unwrap_or_else(|| panic!("there is no {file}"));
                let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
                walk(read, &path, &parsed.items, modules);
            }
        }
    }
}

/// True if an item with these attributes is compiled only for tests.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    // The result is true for `cfg(test)` and `cfg(all(test, …))`, and false for `cfg(not(test))`.
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| {
                let words = words(list.tokens.clone());
                words.iter().any(|word| word == "test") && !words.iter().any(|word| word == "not")
                    || words.starts_with(&["all".to_owned(), "test".to_owned()])
            })
    })
}

/// Returns all words of a stream, including those in brackets.
fn words(tokens: TokenStream) -> Vec<String> {
    let each = tokens.into_iter().flat_map(|token| match token {
        TokenTree::Group(group) => words(group.stream()),
        TokenTree::Ident(word) => vec![word.to_string()],
        _ => Vec::new(),
    });
    each.collect()
}

struct Reader<'a> {
    module: &'a Path,
    children: &'a [&'a ItemMod],
    found: ModulePaths,
}

impl Reader<'_> {
    /// Returns the path from the crate's root. `None` for a path into another crate, or to an item of this module.
    fn absolute(&self, path: &[String]) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let up = |levels: usize| self.module.get(..self.module.len().checked_sub(levels)?);
        let base = match first.as_str() {
            "crate" => Path::new(),
            "self" => self.module.clone(),
            "super" => {
                let more = rest.iter().take_while(|part| *part == "super").count();
                return Some([up(1 + more)?, &rest[more..]].concat());
            }
            name if self.children.iter().any(|child| child.ident == name) => {
                [self.module.as_slice(), &[name.to_owned()]].concat()
            }
            name => self.found.names.get(name)?.clone(),
        };
        Some([base.as_slice(), rest].concat())
    }

    fn note(&mut self, path: &[String]) {
        self.found.paths.extend(self.absolute(path).filter(|path| !path.is_empty()));
    }

    fn note_tree(&mut self, before: &mut Path, tree: &UseTree) {
        let mut leaf = |before: &Path, name: String, called: String| {
            let path = if name == "self" { before.clone() } else { [before.as_slice(), &[name]].concat() };
            let called = if called == "self" { path.last().cloned().unwrap_or_default() } else { called };
            self.note(&path);
            if let Some(path) = self.absolute(&path) {
                self.found.names.insert(called, path);
            }
        };
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.note_tree(before, &path.tree);
                before.pop();
            }
            UseTree::Name(name) => leaf(before, name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(name) => leaf(before, name.ident.to_string(), name.rename.to_string()),
            UseTree::Glob(_) => self.note(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(before, tree)),
        }
    }

    /// Notes the paths among the tokens of a macro.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.note(&std::mem::take(&mut path));
                    }
                    path.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.note(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.note_tokens(group.stream());
                    }
                }
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            // A module is visited separately.
            Item::Mod(_) => return,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.note_tree(&mut Path::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.note(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Path>());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.visit_path(&item.path);
        self.note_tokens(item.tokens.clone());
    }

    /// The path in a visibility is no import.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
