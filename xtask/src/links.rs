//! Relative links in Markdown files must lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Looks through the Markdown files in the root and below `docs/`.
pub(crate) fn broken(root: &Path) -> Result<Vec<String>> {
    let mut files = markdown_files(root, false)?;
    files.extend(markdown_files(&root.join("docs"), true)?);
    let mut broken = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)
            .with_context(|| format!("failed to read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file).display();
        for (line, target) in relative_links(&text) {
            if !leads_somewhere(root, &file, target) {
                broken.push(format!("{name}:{line}: `{target}` does not exist"));
            }
        }
    }
    Ok(broken)
}

fn markdown_files(dir: &Path, recurse: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && recurse {
            files.extend(markdown_files(&path, true)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn leads_somewhere(root: &Path, file: &Path, target: &str) -> bool {
    let base = if target.starts_with('/') { Some(root) } else { file.parent() };
    base.is_some_and(|base| base.join(target.trim_start_matches('/')).exists())
}

/// The targets of links, without their fragments, with the number of the line.
fn relative_links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if is_fence(line) {
            in_code = !in_code;
        } else if !in_code {
            let targets = inline_targets(line).into_iter().chain(definition_target(line));
            links.extend(targets.filter_map(relative).map(|target| (number, target)));
        }
    }
    links
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// `[text](target)` and `[text](target "title")`, except inside of code spans.
fn inline_targets(line: &str) -> Vec<&str> {
    let outside_code = line.split('`').step_by(2);
    let mut targets = Vec::new();
    for piece in outside_code {
        // A code span in the text of a link splits it: `[` before the span, `](target)` after.
        let starts = piece.split("](").skip(1);
        targets.extend(starts.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target));
    }
    targets
}

/// `[label]: target`.
fn definition_target(line: &str) -> Option<&str> {
    let (label, target) = line.trim_start().strip_prefix('[')?.split_once("]: ")?;
    (!label.contains(']') && !label.starts_with('^')).then_some(target)
}

fn relative(target: &str) -> Option<&str> {
    let target = target.split_whitespace().next()?.trim_matches(['<', '>']);
    let path = target.split('#').next().unwrap_or(target);
    let is_elsewhere = path.contains("://") || path.starts_with("mailto:");
    (!path.is_empty() && !is_elsewhere).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)]) {
        assert_eq!(relative_links(text), expected);
    }

    #[test]
    fn finds_inline_links_and_definitions() {
        check("see [a](a.md) and [b](docs/b.md#part \"b\")", &[(1, "a.md"), (1, "docs/b.md")]);
        check("\n[a]: <a.md>\n", &[(2, "a.md")]);
        check("[`Code`](src/lib.rs)", &[(1, "src/lib.rs")]);
    }

    #[test]
    fn passes_over_other_places_and_fragments() {
        check("[a](https://example.com/x) [b](#part) [c](mailto:a@example.com)", &[]);
    }

    #[test]
    fn passes_over_code() {
        check("```\n[a](a.md)\n```\n`[b](b.md)`\n[^1]: a note", &[]);
    }

    #[test]
    fn resolves_from_the_file_or_from_the_root() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = root.join("src/main.rs");
        assert!(leads_somewhere(root, &file, "../Cargo.toml"));
        assert!(leads_somewhere(root, &file, "/Cargo.toml"));
        assert!(!leads_somewhere(root, &file, "Cargo.toml"));
    }
}
