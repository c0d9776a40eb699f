//! Readers of JSON bytes, tables of depth, and fixed sleeps in tests.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::source::{Crate, collect, is_test_path};

/// A sleep in a test from which on it decides the verdict rather than paces a poll.
const SLEEP_MS: u64 = 100;

/// Files that tell quotes from escapes by themselves, as a reader of JSON bytes does.
pub(crate) fn json_readers(of: &Crate) -> Vec<String> {
    let reads = |text: &str| text.contains("b'\\\\'") && text.contains("b'\"'");
    of.sources
        .iter()
        .filter(|source| reads(&production(&source.text, &source.code)))
        .map(|source| source.path.clone())
        .collect()
}

/// The lines of the text on which there is production code.
fn production(text: &str, code: &str) -> String {
    let lines = text.lines().zip(code.lines());
    lines.filter(|(_, code)| !code.trim().is_empty()).map(|(text, _)| format!("{text}\n")).collect()
}

/// Constants that bound the depth of JSON.
pub(crate) fn depth_limits(of: &Crate) -> Vec<String> {
    let mut found = Vec::new();
    for source in &of.sources {
        for (line, number) in source.code.lines().zip(1..) {
            let declared = line.split_once("const ").and_then(|(_, rest)| rest.split_once(':'));
            if declared.is_some_and(|(name, _)| name.contains("DEPTH")) {
                found.push(format!("{}:{number}", source.path));
            }
        }
    }
    found
}

/// Sleeps of at least [`SLEEP_MS`] with a fixed length, in the tests of a crate.
pub(crate) fn fixed_sleeps(root: &Path, of: &Crate) -> Result<Vec<String>> {
    let folder = root.join("crates").join(&of.name);
    let mut paths = Vec::new();
    collect(&folder, &mut paths)?;
    let mut found = Vec::new();
    for path in paths {
        let shown = path.strip_prefix(&folder).unwrap_or(&path);
        if !shown.starts_with("tests") && !is_test_path(shown) {
            continue;
        }
        let text = fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        for (line, number) in text.lines().zip(1..) {
            if line.contains("sleep(") && fixed_ms(line).is_some_and(|ms| ms >= SLEEP_MS) {
                found.push(format!("{}/{}:{number}", of.name, shown.display()));
            }
        }
    }
    Ok(found)
}

/// The length of a `Duration` that is written out on the line.
fn fixed_ms(line: &str) -> Option<u64> {
    let number = |text: &str| text.split(')').next()?.replace('_', "").parse::<u64>().ok();
    if let Some((_, rest)) = line.split_once("from_millis(") {
        return number(rest);
    }
    number(line.split_once("from_secs(")?.1).map(|seconds| seconds * 1000)
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    fn of(text: &str) -> Crate {
        let source = Source::new("a.rs".to_owned(), Vec::new(), text.to_owned());
        Crate { name: "x".to_owned(), sources: vec![source] }
    }

    #[test]
    fn finds_readers_of_json_bytes() {
        let reader = "match b { b'\\\\' => 1, b'\"' => 2 }";
        assert_eq!(json_readers(&of(reader)), ["a.rs"]);
        assert!(json_readers(&of("match b { b'\"' => 2 }")).is_empty());
        assert!(json_readers(&of(&format!("#[cfg(test)]\nmod tests {{\n{reader}\n}}"))).is_empty());
    }

    #[test]
    fn finds_limits_of_depth() {
        assert_eq!(
            depth_limits(&of("a\npub const MAX_DEPTH: usize = 3;\nlet DEPTH = 1;")),
            ["a.rs:2"]
        );
    }

    #[test]
    fn reads_fixed_lengths() {
        assert_eq!(fixed_ms("sleep(Duration::from_millis(1_500))"), Some(1500));
        assert_eq!(fixed_ms("sleep(Duration::from_secs(2)).await"), Some(2000));
        assert_eq!(fixed_ms("sleep(Duration::from_millis(ms))"), None);
    }
}
