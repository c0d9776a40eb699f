//! `cargo xtask test house`: measures of the code that may only get better.
//!
//! Each measure is a number for each crate, or one for the workspace. `xtask/ratchet.json` holds the
//! numbers of the last commit. A number above it fails and names the places; a number below it fails
//! too, so that the file follows: `cargo xtask house --lower` writes it, and never raises a number.

mod imports;
mod names;
mod prose;
mod readers;
mod shape;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::house::prose::Prose;
use crate::house::shape::Sized;
use crate::house::source::Crate;
use crate::process::Shell;
use crate::report::Tally;
use crate::wounds;

/// The numbers that may only fall.
const RATCHET: &str = "xtask/ratchet.json";

/// The words of the project, and those that they replace.
const GLOSSARY: &str = "docs/glossary.md";

/// The row of measures that are of no single crate.
const WORKSPACE: &str = "workspace";

/// The crates from the lowest layer to the highest. A crate depends on crates before it only.
const LAYERS: [&str; 14] = [
    "handback-token",
    "handback-identity",
    "handback-page",
    "handback-wire",
    "handback-collections",
    "handback-stream",
    "handback-client",
    "handback-store",
    "handback-tool",
    "handback-mcp",
    "handback-surface",
    "handback-gateway",
    "handback-server",
    "handback-cli",
];

/// Places that are named when a number rose.
const PLACES_SHOWN: usize = 12;

/// A number, and the places that it counts if it counts places.
#[derive(Debug, Default)]
struct Measured {
    number: u64,
    places: Vec<String>,
}

/// Numbers by measure and crate.
type Numbers = BTreeMap<String, BTreeMap<String, u64>>;
type Measures = BTreeMap<&'static str, BTreeMap<String, Measured>>;

/// The phase `house`: one check for each measure, and one for the layers.
pub(crate) fn check(shell: &Shell, tally: &mut Tally) -> Result<()> {
    let root = &shell.config.root;
    let crates = source::crates(root)?;
    tally.findings("house: layers", upward(root, &crates));
    tally.findings("house: patches of wounds", wounds::stale(shell));
    let allowed = read(&root.join(RATCHET))?;
    let measures = measure(root, &crates)?;
    for (name, rows) in &measures {
        let allowed = allowed.get(*name).cloned().unwrap_or_default();
        tally.findings(&format!("house: {name}"), Ok(compare(rows, &allowed)));
    }
    let unknown = allowed.keys().filter(|name| !measures.contains_key(name.as_str()));
    tally.findings(
        "house: ratchet",
        Ok(unknown.map(|name| format!("no measure `{name}`")).collect()),
    );
    Ok(())
}

/// `cargo xtask house [--lower]`: prints the numbers, or writes those that fell.
pub(crate) fn run(shell: &Shell, options: &[&str]) -> Result<bool> {
    let root = &shell.config.root;
    let measures = measure(root, &source::crates(root)?)?;
    match options {
        [] => {
            for (name, rows) in &measures {
                println!("\n{name}");
                for (row, measured) in rows {
                    println!("  {row:<24} {:>6}", measured.number);
                }
            }
            Ok(true)
        }
        ["--places", name] => {
            let Some(rows) = measures.get(name) else { bail!("no measure `{name}`") };
            rows.values().flat_map(|row| &row.places).for_each(|place| println!("{place}"));
            Ok(true)
        }
        ["--lower"] => lower(&root.join(RATCHET), &measures),
        _ => bail!("`house` takes `--lower`, or `--places MEASURE`"),
    }
}

/// Writes the numbers that fell. A measure that is new to the file is written as it is.
fn lower(path: &Path, measures: &Measures) -> Result<bool> {
    let mut allowed = if path.exists() { read(path)? } else { Numbers::new() };
    allowed.retain(|name, _| measures.contains_key(name.as_str()));
    let mut good = true;
    for (name, rows) in measures {
        let new = !allowed.contains_key(*name);
        let limits = allowed.entry((*name).to_owned()).or_default();
        let numbers = rows.iter().map(|(row, measured)| {
            let limit = limits.get(row).copied().unwrap_or(if new { u64::MAX } else { 0 });
            good &= measured.number <= limit;
            (row.clone(), measured.number.min(limit))
        });
        *limits = numbers.filter(|(_, number)| *number > 0).collect();
    }
    let text = serde_json::to_string_pretty(&allowed).context("failed to write numbers")?;
    fs::write(path, text + "\n").with_context(|| format!("failed to write {}", path.display()))?;
    if !good {
        println!("some numbers rose, and stay as they were: `cargo xtask test house` names them");
    }
    Ok(good)
}

fn read(path: &Path) -> Result<Numbers> {
    let text =
        fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("failed to read {}", path.display()))
}

/// The rows that differ from what is allowed.
fn compare(rows: &BTreeMap<String, Measured>, allowed: &BTreeMap<String, u64>) -> Vec<String> {
    let mut findings = Vec::new();
    for (row, measured) in rows {
        let limit = allowed.get(row).copied().unwrap_or(0);
        if measured.number > limit {
            findings.push(format!("{row}: rose from {limit} to {}", measured.number));
            let places = measured.places.iter().take(PLACES_SHOWN);
            findings.extend(places.map(|place| format!("  {place}")));
        } else if measured.number < limit {
            let number = measured.number;
            findings.push(format!(
                "{row}: fell from {limit} to {number}; `cargo xtask house --lower` records it"
            ));
        }
    }
    let gone = allowed.keys().filter(|row| !rows.contains_key(*row));
    findings
        .extend(gone.map(|row| format!("{row}: is gone; `cargo xtask house --lower` records it")));
    findings
}

/// All measures of all crates.
fn measure(root: &Path, crates: &[Crate]) -> Result<Measures> {
    let path = root.join(GLOSSARY);
    let glossary =
        fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let words = names::replaced(&glossary);
    if words.is_empty() {
        bail!("{GLOSSARY} has no table of words that names do not use");
    }
    let mut measures = Measures::new();
    for of in crates {
        let mut add = |name, measured| {
            measures.entry(name).or_default().insert(of.name.clone(), measured);
        };
        let cycles = imports::cycles(of);
        add("modules in import cycles", number(cycles.modules));
        add("modules of the largest import cycle", number(cycles.largest));
        add("top-level modules that import each other", count(cycles.pairs));
        add("files over 600 lines", count(above(shape::files(of), shape::FILE_LINES)));
        let functions = shape::functions(of);
        add("lines of the longest function", longest(&functions));
        add("functions over 60 lines", count(above(functions, shape::FUNCTION_LINES)));
        let types = shape::types(of);
        add("methods of the largest type", longest(&types));
        add("types over 30 methods", count(above(types, shape::TYPE_METHODS)));
        add("readers of JSON bytes", count(readers::json_readers(of)));
        add("constants for the depth of JSON", count(readers::depth_limits(of)));
        add("fixed sleeps in tests", count(readers::fixed_sleeps(root, of)?));
        add("names with replaced words", count(names::replaced_in(of, &words)));
        let prose = Prose::of(of);
        add("doc comments that begin with a question word, of 1000", number(prose.asking()));
        add("pronouns in 1000 words of doc comments", number(prose.pronouns()));
        add("doc sentences over 30 words", count(prose.long));
    }
    let shared = BTreeMap::from([(WORKSPACE.to_owned(), count(names::shared(crates)))]);
    measures.insert("public types that share a name", shared);
    Ok(measures)
}

fn number(number: u64) -> Measured {
    Measured { number, places: Vec::new() }
}

fn count(places: Vec<String>) -> Measured {
    Measured { number: places.len() as u64, places }
}

/// The size of the largest, with the largest few as places.
fn longest(sizes: &[Sized]) -> Measured {
    let mut sizes: Vec<&Sized> = sizes.iter().collect();
    sizes.sort_by(|a, b| b.cmp(a));
    let places = sizes.iter().take(3).map(|sized| format!("{} has {}", sized.name, sized.size));
    Measured {
        number: sizes.first().map_or(0, |sized| sized.size as u64),
        places: places.collect(),
    }
}

fn above(sizes: Vec<Sized>, limit: usize) -> Vec<String> {
    let large = sizes.into_iter().filter(|sized| sized.size > limit);
    large.map(|Sized { size, name }| format!("{name} has {size}")).collect()
}

/// Dependencies that do not point down, and crates that have no layer.
fn upward(root: &Path, crates: &[Crate]) -> Result<Vec<String>> {
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut findings = Vec::new();
    for of in crates {
        let Some(own) = layer(&of.name) else {
            findings.push(format!("{} has no layer in xtask/src/house/mod.rs", of.name));
            continue;
        };
        let path = root.join("crates").join(&of.name).join("Cargo.toml");
        let manifest = fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        for name in dependencies(&manifest) {
            if layer(name).is_none_or(|other| other >= own) {
                findings.push(format!("{} depends on {name}, which is not below it", of.name));
            }
        }
    }
    Ok(findings)
}

/// Our own crates in the table `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| name.starts_with("handback-"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(number: u64) -> BTreeMap<String, Measured> {
        [("x".to_owned(), Measured { number, places: vec!["a.rs:1".to_owned()] })].into()
    }

    fn compared(number: u64, allowed: u64) -> Vec<String> {
        compare(&rows(number), &[("x".to_owned(), allowed)].into())
    }

    #[test]
    fn a_number_that_rose_names_places() {
        assert_eq!(compared(2, 1), ["x: rose from 1 to 2", "  a.rs:1"]);
        assert_eq!(compare(&rows(1), &BTreeMap::new()).len(), 2);
    }

    #[test]
    fn a_number_that_fell_has_to_be_recorded() {
        assert_eq!(compared(1, 2).len(), 1);
        assert!(compared(2, 2).is_empty());
        assert_eq!(compare(&BTreeMap::new(), &[("x".to_owned(), 1)].into()).len(), 1);
    }

    #[test]
    fn lowering_never_raises() {
        let folder = crate::scratch::Scratch::new("house").unwrap();
        let path = folder.path().join("ratchet.json");
        let write = |number| lower(&path, &[("m", rows(number))].into()).unwrap();
        assert!(write(5));
        assert!(!write(7));
        assert_eq!(read(&path).unwrap()["m"]["x"], 5);
        assert!(write(3));
        assert_eq!(read(&path).unwrap()["m"]["x"], 3);
    }

    #[test]
    fn reads_own_dependencies() {
        let manifest = "[package]\nname = \"handback-a\"\n[dependencies]\nhandback-b.workspace = true\n\
                        serde = \"1\"\nhandback-c = { path = \"\" }\n[dev-dependencies]\nhandback-d = \"\"\n";
        assert_eq!(dependencies(manifest), ["handback-b", "handback-c"]);
    }
}
