//! Rust sources as the checks see them: code without comments, texts and tests.
//!
//! A small lexer instead of a parser crate: the checks count shapes, and have to run in seconds on
//! sources that may not compile yet.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders and files of a crate's `src` that hold tests only.
const TEST_FOLDERS: [&str; 4] = ["tests", "test", "testing", "simulation"];
const TEST_FILES: [&str; 3] = ["tests.rs", "test.rs", "testutil.rs"];

/// A crate of the workspace with its production sources.
#[derive(Debug)]
pub(crate) struct Crate {
    /// The name of its folder.
    pub(crate) name: String,
    pub(crate) sources: Vec<Source>,
}

/// One production source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path from the root of the checkout.
    pub(crate) path: String,
    /// The path of the module in its crate; empty for the crate root.
    pub(crate) module: Vec<String>,
    /// The whole text.
    pub(crate) text: String,
    /// The text with comments, literals and test items blanked; byte positions agree with `text`.
    pub(crate) code: String,
    /// The lines outside of test items.
    pub(crate) lines: usize,
}

/// Reads every crate below `crates`, in the order of their names.
pub(crate) fn crates(root: &Path) -> Result<Vec<Crate>> {
    let mut folders = children(&root.join("crates"))?;
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    folders.iter().map(|folder| read_crate(root, folder)).collect()
}

fn read_crate(root: &Path, folder: &Path) -> Result<Crate> {
    let src = folder.join("src");
    let mut paths = Vec::new();
    collect(&src, &mut paths)?;
    let mut sources = Vec::new();
    for path in paths {
        let inside = path.strip_prefix(&src).context("a source outside of its crate")?;
        if is_test_path(inside) {
            continue;
        }
        let text = fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        sources.push(Source::new(shown, module_of(inside), text));
    }
    Ok(Crate { name: file_name(folder), sources })
}

/// Collects the `.rs` files below a folder, sorted.
pub(crate) fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for child in children(folder)? {
        if child.is_dir() {
            collect(&child, paths)?;
        } else if child.extension().is_some_and(|extension| extension == "rs") {
            paths.push(child);
        }
    }
    Ok(())
}

fn children(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns true for a path below `src` that holds tests.
pub(crate) fn is_test_path(path: &Path) -> bool {
    let name = file_name(path);
    let folders = path.parent().into_iter().flat_map(Path::iter);
    TEST_FILES.contains(&name.as_str())
        || name.ends_with("_tests.rs")
        || name.ends_with("_test.rs")
        || name.starts_with("test_")
        || folders.into_iter().any(|folder| TEST_FOLDERS.iter().any(|test| folder == *test))
}

fn module_of(path: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    if module == ["lib"] || module == ["main"] {
        module.clear();
    }
    module
}

impl Source {
    /// Blanks what is no production code.
    pub(crate) fn new(path: String, module: Vec<String>, text: String) -> Self {
        let mut code = blanked(&text);
        let mut lines = text.lines().count();
        for (from, to) in test_items(&code) {
            let test = code.get(from..to).unwrap_or_default();
            lines = lines.saturating_sub(test.matches('\n').count() + 1);
            let blank: String = test.chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            code.replace_range(from..to, &blank);
        }
        Self { path, module, text, code, lines }
    }

    /// The line of a byte position, from 1.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }

    /// The text of a range, empty if there is none.
    pub(crate) fn raw(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to).unwrap_or_default()
    }
}

/// Replaces comments and the inside of literals by spaces, byte by byte.
fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before)).copied();
        let hidden = hidden_len(rest, before);
        for &byte in rest.iter().take(hidden.max(1)) {
            let shown = hidden == 0 || byte == b'\n';
            out.push(if shown && byte.is_ascii() { byte } else { b' ' });
        }
        at += hidden.max(1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The length of the comment or literal that `rest` begins with, 0 if it begins with code.
fn hidden_len(rest: &[u8], before: Option<u8>) -> usize {
    if rest.starts_with(b"//") {
        return rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return block_comment_len(rest);
    }
    if rest.first() == Some(&b'\'') {
        return char_len(rest);
    }
    if before.is_some_and(is_word) { 0 } else { string_len(rest) }
}

fn block_comment_len(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(pair) = rest.get(at..at + 2) {
        match pair {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// A character literal; 0 for a lifetime.
fn char_len(rest: &[u8]) -> usize {
    let escaped = rest.get(1) == Some(&b'\\');
    let from = if escaped { 3 } else { 2 };
    // The longest are `'\u{10ffff}'` and a character of four bytes.
    let longest = if escaped { 13 } else { 6 };
    let end = rest.iter().take(longest).skip(from).position(|byte| *byte == b'\'');
    let Some(end) = end else { return 0 };
    let inside = rest.get(1..from + end).unwrap_or_default();
    let one = escaped || std::str::from_utf8(inside).is_ok_and(|text| text.chars().count() == 1);
    if one { from + end + 1 } else { 0 }
}

/// A text literal of any kind; 0 if there is none.
fn string_len(rest: &[u8]) -> usize {
    let prefix = rest.iter().take_while(|byte| matches!(byte, b'b' | b'c' | b'r')).count();
    let raw = rest.iter().take(prefix).any(|byte| *byte == b'r');
    let after = rest.get(prefix..).unwrap_or_default();
    let hashes = after.iter().take_while(|byte| **byte == b'#').count();
    if prefix > 2 || (hashes > 0 && !raw) || after.get(hashes) != Some(&b'"') {
        return 0;
    }
    let start = prefix + hashes + 1;
    let body = rest.get(start..).unwrap_or_default();
    let end = if raw { raw_end(body, hashes) } else { plain_end(body) };
    end.map_or(rest.len(), |end| start + end)
}

fn raw_end(body: &[u8], hashes: usize) -> Option<usize> {
    let closing = [&b"\""[..], &b"#".repeat(hashes)].concat();
    body.windows(closing.len()).position(|part| part == closing).map(|at| at + closing.len())
}

fn plain_end(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match body.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The byte ranges of items under `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let mut items: Vec<(usize, usize)> = Vec::new();
    for (from, _) in code.match_indices("#[cfg(") {
        if items.last().is_some_and(|(_, end)| from < *end) {
            continue;
        }
        let condition = code.get(from + 6..).unwrap_or_default();
        let condition = condition.strip_prefix("all(").unwrap_or(condition);
        if !condition.starts_with("test")
            || condition.as_bytes().get(4).copied().is_some_and(is_word)
        {
            continue;
        }
        let Some(open) = body_of(code, from + 6) else { continue };
        items.push((from, end_of_block(code, open)));
    }
    items
}

/// The position of the next `{` before a `;`.
fn body_of(code: &str, from: usize) -> Option<usize> {
    let rest = code.get(from..)?;
    let at = rest.find(['{', ';'])?;
    (rest.as_bytes().get(at) == Some(&b'{')).then_some(from + at)
}

/// The position after the brace that closes the one at `open`.
pub(crate) fn end_of_block(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Returns true for bytes of identifiers.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The positions at which a keyword stands alone.
pub(crate) fn keyword<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before)).copied();
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The identifier that follows a position, after white space.
pub(crate) fn identifier(code: &str, from: usize) -> &str {
    let rest = code.get(from..).unwrap_or_default().trim_start();
    let end = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("a.rs".to_owned(), Vec::new(), text.to_owned()).code
    }

    fn words(text: &str) -> String {
        code(text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn blanks_comments_and_literals() {
        assert_eq!(words("a // b {\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(words("x = \"a \\\" {\" ;"), "x = ;");
        assert_eq!(words("x = r#\"a \" {\"# ;"), "x = ;");
        assert_eq!(
            words("x = br\"{\" ; y = b'{' ; z = '\\u{7b}' ; w = '€' ;"),
            "x = ; y = b ; z = ; w = ;"
        );
    }

    #[test]
    fn keeps_lifetimes() {
        assert_eq!(
            words("fn f<'a>(x: &'a str, y: &'a str) {}"),
            "fn f<'a>(x: &'a str, y: &'a str) {}"
        );
    }

    #[test]
    fn cuts_test_items_and_counts_other_lines() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { {} }\n}\nfn c() {}\n";
        let source = Source::new("a.rs".to_owned(), Vec::new(), text.to_owned());
        assert_eq!(
            source.code.split_whitespace().collect::<Vec<_>>(),
            ["fn", "a()", "{}", "fn", "c()", "{}"]
        );
        assert_eq!(source.lines, 2);
    }

    #[test]
    fn positions_agree_with_the_text() {
        let text = "let a = \"€€\"; fn b() {}";
        assert_eq!(code(text).find("fn"), text.find("fn"));
    }

    #[test]
    fn modules_are_named_by_their_files() {
        assert_eq!(module_of(Path::new("a/mod.rs")), ["a"]);
        assert_eq!(module_of(Path::new("a/b.rs")), ["a", "b"]);
        assert!(module_of(Path::new("lib.rs")).is_empty());
    }
}
