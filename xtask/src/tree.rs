//! The state of the checkout, to see that a run leaves it as it was.

use std::process::Command;

use anyhow::Result;

use crate::process::Shell;

/// What Git says about the checkout at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    status: Vec<String>,
    diff: String,
}

impl Snapshot {
    /// Asks Git, without letting it write.
    pub(crate) fn take(shell: &Shell) -> Result<Self> {
        let status =
            shell.read(&mut git(shell, &["status", "--porcelain", "--untracked-files=all"]))?;
        let diff = shell.read(&mut git(shell, &["diff", "--no-ext-diff", "--no-color"]))?;
        Ok(Self { status: status.lines().map(str::to_owned).collect(), diff })
    }

    /// What is different in `later`.
    pub(crate) fn changes(&self, later: &Self) -> Vec<String> {
        let appeared = later.status.iter().filter(|line| !self.status.contains(line));
        let vanished = self.status.iter().filter(|line| !later.status.contains(line));
        let mut changes: Vec<String> = appeared.map(|line| format!("now:    {line}")).collect();
        changes.extend(vanished.map(|line| format!("before: {line}")));
        if changes.is_empty() && self.diff != later.diff {
            changes.push("files that were already modified changed again".to_owned());
        }
        changes
    }
}

fn git(shell: &Shell, args: &[&str]) -> Command {
    let mut command = shell.command("git");
    command.args(args).env("GIT_OPTIONAL_LOCKS", "0");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(status: &[&str], diff: &str) -> Snapshot {
        Snapshot {
            status: status.iter().map(|line| (*line).to_owned()).collect(),
            diff: diff.into(),
        }
    }

    #[test]
    fn an_unchanged_tree_has_no_changes_even_if_it_is_dirty() {
        let tree = snapshot(&[" M a", "?? b"], "-x");
        assert!(tree.changes(&snapshot(&[" M a", "?? b"], "-x")).is_empty());
    }

    #[test]
    fn names_what_appeared_and_what_vanished() {
        let changes = snapshot(&[" M a"], "").changes(&snapshot(&["?? b"], ""));
        assert_eq!(changes, ["now:    ?? b", "before:  M a"]);
    }

    #[test]
    fn notices_a_second_change_of_a_modified_file() {
        let changes = snapshot(&[" M a"], "-x").changes(&snapshot(&[" M a"], "-y"));
        assert_eq!(changes.len(), 1);
    }
}
