//! Names: words that the glossary replaces, and public types that share a name.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Crate, Source, identifier, keyword};

/// The heading in the glossary under which the replaced words stand.
const REPLACED: &str = "## Words that names do not use";

/// Public types that every crate may have.
const COMMON: [&str; 3] = ["Error", "Options", "Config"];

/// The words in the first column of the glossary's table of replaced words.
pub(crate) fn replaced(glossary: &str) -> BTreeSet<String> {
    let section = glossary.lines().skip_while(|line| *line != REPLACED);
    section
        .skip_while(|line| !line.starts_with("|--"))
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next())
        .flat_map(|cell| cell.split(','))
        .map(|word| word.trim().trim_matches('`').to_ascii_lowercase())
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic()))
        .collect()
}

/// Modules, public types and functions whose name has a replaced word, as `path:line name`.
pub(crate) fn replaced_in(of: &Crate, words: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for source in &of.sources {
        let module = source.module.last().map(|name| (0, name.as_str()));
        let functions =
            keyword(&source.code, "fn").map(|at| (at, identifier(&source.code, at + 2)));
        for (at, name) in module.into_iter().chain(functions).chain(public_types(source)) {
            if parts(name).iter().any(|part| words.contains(part)) {
                found.push(format!("{}:{} {name}", source.path, source.line_of(at)));
            }
        }
    }
    found
}

/// Public types of which several crates have one of the same name.
pub(crate) fn shared(crates: &[Crate]) -> Vec<String> {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for of in crates {
        for (_, name) in of.sources.iter().flat_map(public_types) {
            owners.entry(name).or_default().insert(&of.name);
        }
    }
    owners
        .into_iter()
        .filter(|(name, owners)| owners.len() > 1 && !COMMON.contains(name))
        .map(|(name, owners)| {
            format!("{name} in {}", owners.into_iter().collect::<Vec<_>>().join(", "))
        })
        .collect()
}

/// Structs, enums and traits that are `pub`, with their positions.
fn public_types(source: &Source) -> Vec<(usize, &str)> {
    let code = &source.code;
    let kinds = ["struct", "enum", "trait"];
    let found = kinds.iter().flat_map(|kind| keyword(code, kind).map(|at| (at, at + kind.len())));
    found
        .filter(|(at, _)| code.get(..*at).unwrap_or_default().ends_with("pub "))
        .map(|(at, after)| (at, identifier(code, after)))
        .collect()
}

/// The words of a name in snake or camel case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_ascii_uppercase() && lower) {
            parts.push(String::new());
        }
        if let Some(last) = parts.last_mut().filter(|_| c != '_') {
            last.push(c.to_ascii_lowercase());
        }
        lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Crate {
        let source = Source::new("a.rs".to_owned(), vec!["said".to_owned()], text.to_owned());
        Crate { name: name.to_owned(), sources: vec![source] }
    }

    #[test]
    fn splits_names() {
        assert_eq!(parts("told_by"), ["told", "by"]);
        assert_eq!(parts("KeptLate"), ["kept", "late"]);
        assert_eq!(parts("said"), ["said"]);
    }

    #[test]
    fn reads_replaced_words_from_the_glossary() {
        let glossary = format!(
            "| a | b |\n{REPLACED}\n\n| word | use |\n|---|---|\n| said, `told` | sent |\n\n## Next\n| late | slow |\n"
        );
        let words = replaced(&glossary);
        assert_eq!(words.into_iter().collect::<Vec<_>>(), ["said", "told"]);
    }

    #[test]
    fn finds_replaced_words_in_names() {
        let words = ["said".to_owned(), "told".to_owned()].into();
        let found = replaced_in(
            &of("x", "fn is_told() {}\npub struct Told;\nstruct Said;\nfn tolded() {}"),
            &words,
        );
        assert_eq!(found, ["a.rs:1 said", "a.rs:1 is_told", "a.rs:2 Told"]);
    }

    #[test]
    fn finds_public_types_of_one_name() {
        let crates = [
            of("x", "pub struct A; pub enum Error {}"),
            of("y", "pub enum A {} pub enum Error {} struct B;"),
        ];
        assert_eq!(shared(&crates), ["A in x, y"]);
    }
}
