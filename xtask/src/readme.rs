//! The commands of `README.md` do what it says.
//!
//! In a block marked `console`, lines that start with `$ handback` or `$ cargo run` are run with
//! the development build, one after the other, in one new folder that is also their home; so are
//! lines that make a file with `$ printf`. The
//! lines below a command are the output that it must have; `…` stands for anything within a line,
//! and a line of only `…` for any number of lines. Where nothing is below, only the exit status
//! counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{Finished, Shell, Variables};
use crate::report::{Tally, tail};
use crate::scratch::Scratch;

const README: &str = "README.md";
const PACKAGE: &str = "handback-cli";
const BINARY: &str = "handback";

/// Builds the binary and runs every command.
pub(crate) fn check(shell: &Shell, variables: &Variables, tally: &mut Tally) -> Result<()> {
    let text = fs::read_to_string(shell.config.root.join(README))
        .with_context(|| format!("failed to read {README}"))?;
    let examples = examples(&text);
    if examples.is_empty() {
        bail!("{README} has no command to run");
    }
    build(shell)?;
    let home = Scratch::new("readme")?;
    for example in &examples {
        let what = format!("{README}:{}: {}", example.line, example.command);
        let mut command = command(shell, home.path(), &example.command)?;
        match shell.run(command.envs(variables)) {
            Ok(finished) => judge(tally, &what, example, &finished),
            Err(error) => tally.error(&what, &error),
        }
    }
    Ok(())
}

/// Builds the command in the development profile, and says where it is.
pub(crate) fn build(shell: &Shell) -> Result<PathBuf> {
    let built = shell.run(&mut shell.cargo(&["build", "--package", PACKAGE]))?;
    if !built.success {
        bail!("{PACKAGE} does not build:\n{}", tail(&built.log).join("\n"));
    }
    Ok(shell.config.target_dir.join("debug").join(BINARY))
}

/// A console shows both streams, so the comparison is with both.
fn command(shell: &Shell, home: &Path, line: &str) -> Result<Command> {
    let own = shell.config.target_dir.join("debug");
    let path = [own].into_iter().chain(std::env::split_paths(&shell.config.path));
    let mut command = shell.command("sh");
    command
        .args(["-c", &format!("exec 2>&1\n{line}")])
        .current_dir(home)
        .env("HOME", home)
        .env("PATH", std::env::join_paths(path)?);
    Ok(command)
}

fn judge(tally: &mut Tally, what: &str, example: &Example, finished: &Finished) {
    if !finished.success {
        tally.fail(what, tail(&finished.log));
    } else if !example.expected.is_empty() && !matches(&example.expected, &finished.log) {
        let mut detail = vec!["expected:".to_owned()];
        detail.extend(example.expected.iter().map(|line| format!("  {line}")));
        detail.push("got:".to_owned());
        detail.extend(tail(&finished.log).into_iter().map(|line| format!("  {line}")));
        tally.fail(what, detail);
    } else {
        tally.pass();
    }
}

/// A command with the output below it.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// Finds the commands that can be run.
fn examples(text: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((_, line)) = lines.next() {
        if line.trim() == "```console" {
            let block = lines.by_ref().take_while(|(_, line)| line.trim() != "```");
            examples.extend(examples_of_block(block));
        }
    }
    examples
}

fn examples_of_block<'a>(block: impl Iterator<Item = (usize, &'a str)>) -> Vec<Example> {
    let mut all: Vec<Example> = Vec::new();
    let mut continues = false;
    for (number, line) in block {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => {
                all.push(Example { line: number, command: command.into(), expected: Vec::new() });
                continues = command.ends_with('\\');
            }
            (None, Some(example)) if continues => {
                example.command.push('\n');
                example.command.push_str(line.strip_prefix("> ").unwrap_or(line));
                continues = line.ends_with('\\');
            }
            (None, Some(example)) => example.expected.push(line.trim_end().to_owned()),
            (None, None) => {}
        }
    }
    all.into_iter().filter_map(runnable).collect()
}

/// Turns `cargo run … -- ARGS` into a call of the binary; `None` for what is not to be run.
fn runnable(mut example: Example) -> Option<Example> {
    let cargo = ["cargo run --release -- ", "cargo run -- "]
        .into_iter()
        .find_map(|prefix| example.command.strip_prefix(prefix));
    match cargo.or_else(|| example.command.strip_prefix("handback ")) {
        Some(args) if args.split_whitespace().next() == Some("serve") => return None,
        Some(args) => example.command = format!("{BINARY} {args}"),
        None if example.command.starts_with("printf ") => {}
        None => return None,
    }
    while example.expected.last().is_some_and(String::is_empty) {
        example.expected.pop();
    }
    Some(example)
}

/// Compares line by line; a line of only `…` takes any number of lines.
fn matches(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=actual.len()).any(|from| actual.get(from..).is_some_and(|a| matches(rest, a)))
        }
        Some((first, rest)) => actual
            .split_first()
            .is_some_and(|(line, lines)| line_matches(first, line) && matches(rest, lines)),
    }
}

/// `…` takes any text within the line.
fn line_matches(expected: &str, actual: &str) -> bool {
    let actual = actual.trim_end();
    let Some((start, rest)) = expected.split_once('…') else {
        return expected == actual;
    };
    let Some(mut left) = actual.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split('…').collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some((_, after)) = left.split_once(piece) else { return false };
        left = after;
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str) -> Vec<String> {
        examples(text).into_iter().map(|example| example.command).collect()
    }

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn takes_commands_of_console_blocks_only() {
        let text = "```sh\n$ handback a\n```\n```console\n$ handback b\n```\n$ handback c\n";
        assert_eq!(commands(text), ["handback b"]);
    }

    #[test]
    fn runs_the_binary_instead_of_cargo() {
        let text = "```console\n$ cargo run --release -- keys new\n$ cargo run -- x 'a b'\n```\n";
        assert_eq!(commands(text), ["handback keys new", "handback x 'a b'"]);
    }

    #[test]
    fn runs_what_makes_a_file() {
        let text = "```console\n$ printf 'a' > file\n```\n";
        assert_eq!(commands(text), ["printf 'a' > file"]);
    }

    #[test]
    fn leaves_out_what_is_not_to_be_run() {
        let text = "```console\n$ cargo xtask test\n$ cargo run --release -- serve --port 1\n\
                    $ git clone x\n$ handback serve\n$ handback-other x\n```\n";
        assert!(commands(text).is_empty());
    }

    #[test]
    fn output_belongs_to_the_command_above() {
        let text =
            "intro\n```console\n$ handback a\none\n\n  two\n\n$ git log\nno\n$ handback b\n```\n";
        let expected = [
            Example {
                line: 3,
                command: "handback a".into(),
                expected: owned(&["one", "", "  two"]),
            },
            Example { line: 10, command: "handback b".into(), expected: Vec::new() },
        ];
        assert_eq!(examples(text), expected);
    }

    #[test]
    fn joins_continued_lines() {
        let text = "```console\n$ handback a \\\n>   --b \\\n    --c\nout\n```\n";
        let examples = examples(text);
        assert_eq!(examples[0].command, "handback a \\\n  --b \\\n    --c");
        assert_eq!(examples[0].expected, ["out"]);
    }

    #[test]
    fn ellipsis_matches_within_a_line() {
        assert!(line_matches("token: hb1.…", "token: hb1.abc"));
        assert!(line_matches("a…c…e", "abcde"));
        assert!(line_matches("…", ""));
        assert!(line_matches("same", "same  "));
        assert!(!line_matches("token: …!", "token: abc"));
        assert!(!line_matches("ab…bc", "abc"));
        assert!(!line_matches("same", "other"));
    }

    #[test]
    fn ellipsis_line_matches_many_lines() {
        let actual = owned(&["a", "b", "c"]);
        assert!(matches(&owned(&["a", "…"]), &actual));
        assert!(matches(&owned(&["a", "…", "c"]), &actual));
        assert!(matches(&owned(&["…", "a", "b", "c"]), &actual));
        assert!(!matches(&owned(&["a", "…", "d"]), &actual));
        assert!(!matches(&owned(&["a", "b"]), &actual));
        assert!(!matches(&owned(&["a", "b", "c", "d"]), &actual));
    }
}
