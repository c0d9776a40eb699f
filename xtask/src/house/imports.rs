//! Imports between the modules of a crate: cycles, and top-level modules that import each other.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Crate, is_word, keyword};

/// Imports between modules, by the index of the module in its crate.
#[derive(Debug)]
struct Graph<'a> {
    names: Vec<&'a [String]>,
    edges: Vec<BTreeSet<usize>>,
}

/// The import cycles of a crate.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    /// Modules that can reach themselves by imports.
    pub(crate) modules: u64,
    /// Modules of the largest cycle.
    pub(crate) largest: u64,
    /// Top-level modules that import each other, as `a <-> b`.
    pub(crate) pairs: Vec<String>,
}

/// Finds the cycles of a crate. The crate root, which re-exports, is in none of them.
pub(crate) fn cycles(of: &Crate) -> Cycles {
    let graph = Graph::new(of);
    let components = graph.components();
    Cycles {
        modules: components.iter().sum(),
        largest: components.iter().copied().max().unwrap_or(0),
        pairs: graph.pairs(),
    }
}

impl<'a> Graph<'a> {
    fn new(of: &'a Crate) -> Self {
        let names: Vec<&[String]> =
            of.sources.iter().map(|source| source.module.as_slice()).collect();
        let index: BTreeMap<&[String], usize> =
            names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let edges = of.sources.iter().map(|source| {
            let mut targets = BTreeSet::new();
            for path in paths(&source.code) {
                let absolute = absolute(&source.module, &path);
                let target =
                    (1..=absolute.len()).rev().find_map(|len| index.get(absolute.get(..len)?));
                if let Some(target) = target.filter(|at| names.get(**at) != Some(&&*source.module))
                {
                    targets.insert(*target);
                }
            }
            targets
        });
        Self { edges: edges.collect(), names }
    }

    /// The sizes of the strongly connected components of more than one module.
    fn components(&self) -> Vec<u64> {
        let reach: Vec<BTreeSet<usize>> =
            (0..self.edges.len()).map(|at| self.reachable(at)).collect();
        let mut seen = BTreeSet::new();
        let mut sizes = Vec::new();
        for (at, reached) in reach.iter().enumerate() {
            if seen.contains(&at) || !reached.contains(&at) {
                continue;
            }
            let back =
                |other: &usize| reach.get(*other).is_some_and(|reached| reached.contains(&at));
            let component: BTreeSet<usize> = reached.iter().copied().filter(back).collect();
            if component.len() > 1 {
                sizes.push(component.len() as u64);
            }
            seen.extend(component);
        }
        sizes
    }

    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for target in self.edges.get(at).into_iter().flatten() {
                if reached.insert(*target) {
                    open.push(*target);
                }
            }
        }
        reached
    }

    fn pairs(&self) -> Vec<String> {
        let mut top: BTreeSet<(&str, &str)> = BTreeSet::new();
        for (from, targets) in self.names.iter().zip(&self.edges) {
            for target in targets {
                let to = self.names.get(*target).and_then(|name| name.first());
                if let (Some(from), Some(to)) = (from.first(), to) {
                    top.insert((from, to));
                }
            }
        }
        top.iter()
            .filter(|(from, to)| from < to && top.contains(&(*to, *from)))
            .map(|(from, to)| format!("{from} <-> {to}"))
            .collect()
    }
}

/// A path from the root of the crate.
fn absolute(module: &[String], path: &[String]) -> Vec<String> {
    let mut base = module.to_vec();
    let mut rest = path;
    match path.first().map(String::as_str) {
        Some("crate") => (base, rest) = (Vec::new(), path.get(1..).unwrap_or_default()),
        Some("self") => rest = path.get(1..).unwrap_or_default(),
        _ => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = rest.get(1..).unwrap_or_default();
            }
        }
    }
    base.extend_from_slice(rest);
    base
}

/// Every path that begins with `crate`, `super` or `self`, in imports and inline.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for at in keyword(code, "use") {
        let tree = code.get(at + 3..).unwrap_or_default().trim_start();
        let own = ["crate", "super", "self"].iter().any(|root| tree.starts_with(root));
        if let Some(tree) = tree.split_once(';').map(|(tree, _)| tree).filter(|_| own) {
            expand(&[], tree, &mut paths);
        }
    }
    for root in ["crate", "super"] {
        for at in keyword(code, root) {
            if !code.get(..at).unwrap_or_default().ends_with("::") {
                paths.push(inline(code.get(at..).unwrap_or_default()));
            }
        }
    }
    paths
}

/// The path that the code begins with.
fn inline(code: &str) -> Vec<String> {
    let end = code.bytes().position(|byte| !is_word(byte) && byte != b':').unwrap_or(code.len());
    let path = code.get(..end).unwrap_or_default();
    path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The paths of a tree of imports: `a::{b, c::d}`.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    for part in split(tree) {
        let (path, inner) = match part.split_once('{') {
            Some((path, inner)) => (path, inner.rsplit_once('}').map(|(inner, _)| inner)),
            None => (part, None),
        };
        let path = path.split(" as ").next().unwrap_or_default();
        let names = path.split("::").map(str::trim).filter(|name| !name.is_empty());
        let whole: Vec<String> = prefix.iter().cloned().chain(names.map(str::to_owned)).collect();
        match inner {
            Some(inner) => expand(&whole, inner, paths),
            None if !whole.is_empty() => paths.push(whole),
            None => {}
        }
    }
}

/// Splits at the commas outside of braces.
fn split(tree: &str) -> Vec<&str> {
    let (mut depth, mut from) = (0_usize, 0);
    let mut parts = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(tree.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(tree.get(from..));
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    fn of(files: &[(&str, &str)]) -> Crate {
        let sources = files.iter().map(|(module, text)| {
            let module = module.split("::").filter(|part| !part.is_empty());
            Source::new("x.rs".to_owned(), module.map(str::to_owned).collect(), (*text).to_owned())
        });
        Crate { name: "x".to_owned(), sources: sources.collect() }
    }

    #[test]
    fn finds_a_cycle_through_a_tree_of_imports() {
        let found = cycles(&of(&[
            ("", "mod a; mod b; mod c; pub use crate::a::A;"),
            ("a", "use crate::{b::{B, Other as C}, c};"),
            ("b", "fn f() { super::a::g() }"),
            ("c", ""),
        ]));
        assert_eq!((found.modules, found.largest), (2, 2));
        assert_eq!(found.pairs, ["a <-> b"]);
    }

    #[test]
    fn imports_that_point_one_way_are_no_cycle() {
        let found = cycles(&of(&[("a", "use crate::b::B;"), ("b", "use crate::c::C;"), ("c", "")]));
        assert_eq!((found.modules, found.pairs.len()), (0, 0));
    }

    #[test]
    fn cycles_inside_of_a_folder_are_counted() {
        let found =
            cycles(&of(&[("a", ""), ("a::x", "use super::y::Y;"), ("a::y", "use super::x::X;")]));
        assert_eq!((found.modules, found.pairs.len()), (2, 0));
    }

    #[test]
    fn a_path_of_another_crate_is_no_import() {
        assert!(paths("use other::crate_like::a; other::b();").is_empty());
    }
}
