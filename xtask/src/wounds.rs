//! Fixes taken out again, to see that their tests notice.
//!
//! Each `xtask/wounds/NAME.patch` removes one fix. Its first line names the test that has to fail
//! then: `# test: -p CRATE --test it NAME`, the arguments of `cargo test`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::postgres::Cluster;
use crate::process::{Counts, Finished, Shell, Variables};
use crate::report::{Tally, print_header};
use crate::test;
use crate::tools::{Tool, Tools};

/// The folder of the patches.
const PATCHES: &str = "xtask/wounds";

/// The first line of a patch begins with this.
const HEADER: &str = "# test: ";

/// Seconds for one test with its build. Without its fix a test may hang.
const SECONDS: &str = "1500";

/// Kibibytes of address space for one test with its build. Without its fix a test may take all memory.
const ADDRESS_KIB: &str = "12000000";

/// A patch and the test that has to notice it.
#[derive(Debug)]
struct Wound {
    name: String,
    path: PathBuf,
    /// The arguments of `cargo test`.
    test: Vec<String>,
}

/// `cargo xtask soak wounds [NAME…]`: every test passes as the code is, and fails without its fix.
pub(crate) fn run(shell: &Shell, names: &[&str]) -> Result<bool> {
    let wounds = read(&shell.config.root)?;
    if let Some(unknown) = names.iter().find(|name| wounds.iter().all(|wound| wound.name != **name))
    {
        bail!("there is no {PATCHES}/{unknown}.patch");
    }
    let wounds: Vec<Wound> =
        wounds.into_iter().filter(|it| names.is_empty() || names.contains(&&*it.name)).collect();
    let tree = checkout(shell)?;
    // A test that skips because a service is missing would pass without its fix.
    Tools::new(shell).ensure(Tool::Postgres).map_err(anyhow::Error::msg)?;
    let postgres = Cluster::start(shell)?;
    let variables = test::variables(Some(postgres.url().to_owned()), true);
    let run = Run { shell, tree: &tree, variables };
    let mut tally = Tally::default();
    // First all tests with all fixes, so that they are built once.
    for wound in &wounds {
        print_header(&format!("{} with its fix", wound.name));
        tally.findings(&format!("wounds: {} with its fix", wound.name), run.closed(wound));
    }
    for wound in &wounds {
        print_header(&format!("{} without its fix", wound.name));
        tally.findings(&format!("wounds: {} without its fix", wound.name), run.open(wound));
    }
    tally.print_problems();
    println!();
    Ok(tally.conclude())
}

/// Patches that do not apply to the checkout any more, or that name no test.
pub(crate) fn stale(shell: &Shell) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for wound in read(&shell.config.root)? {
        let mut git = shell.command("git");
        git.args(["apply", "--check"]).arg(&wound.path);
        if let Err(error) = shell.read(&mut git) {
            findings.push(format!("{}: {error:#}", wound.name));
        }
    }
    Ok(findings)
}

fn read(root: &Path) -> Result<Vec<Wound>> {
    let folder = root.join(PATCHES);
    let entries =
        fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))?;
    let mut wounds = Vec::new();
    for entry in entries {
        let path = entry.context("failed to list the patches")?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".patch"))
        else {
            continue;
        };
        let text = fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        let test =
            test_of(&text).with_context(|| format!("{name}.patch has no line `{HEADER}…`"))?;
        wounds.push(Wound { name: name.to_owned(), test, path: path.clone() });
    }
    wounds.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(wounds)
}

fn test_of(patch: &str) -> Option<Vec<String>> {
    let words = patch.lines().next()?.strip_prefix(HEADER)?.split_whitespace();
    let words: Vec<String> = words.map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

/// A clone of the last commit. It is kept between runs, so that only what changed is built again.
fn checkout(shell: &Shell) -> Result<PathBuf> {
    let tree = shell.config.cache.join("wounds");
    if !tree.join(".git").is_dir() {
        let mut clone = shell.command("git");
        clone.args(["clone", "--quiet"]).arg(&shell.config.root).arg(&tree);
        shell.read(&mut clone)?;
    }
    let head = shell.read(shell.command("git").args(["rev-parse", "HEAD"]))?;
    git(shell, &tree, &["fetch", "--quiet", &shell.config.root.display().to_string(), "HEAD"])?;
    git(shell, &tree, &["reset", "--quiet", "--hard", head.trim()])?;
    Ok(tree)
}

fn git(shell: &Shell, tree: &Path, args: &[&str]) -> Result<String> {
    shell.read(shell.command("git").current_dir(tree).args(args))
}

/// What all tests of a run share.
#[derive(Debug)]
struct Run<'a> {
    shell: &'a Shell,
    tree: &'a Path,
    variables: Variables,
}

impl Run<'_> {
    /// Runs the test with the fix: it has to pass.
    fn closed(&self, wound: &Wound) -> Result<Vec<String>> {
        let Finished { success, log, .. } = self.test(wound)?;
        let Counts { passed, failed, .. } = Counts::of_cargo_test(&log);
        if success && passed > 0 {
            return Ok(Vec::new());
        }
        Ok(vec![format!("{passed} passed and {failed} failed")])
    }

    /// Runs the test without the fix: it has to build, and to fail.
    fn open(&self, wound: &Wound) -> Result<Vec<String>> {
        let patch = wound.path.display().to_string();
        git(self.shell, self.tree, &["apply", &patch])?;
        let without = self.test(wound);
        git(self.shell, self.tree, &["apply", "--reverse", &patch])?;
        let without = without?;
        let built = without.log.iter().any(|line| line.trim_start().starts_with("Running "));
        Ok(match (built, without.success) {
            (false, _) => vec!["the code does not build".to_owned()],
            (true, true) => vec!["the test passes".to_owned()],
            (true, false) => Vec::new(),
        })
    }

    fn test(&self, wound: &Wound) -> Result<Finished> {
        let mut command = self.shell.command("bash");
        let limits =
            format!("ulimit -v {ADDRESS_KIB}; exec timeout --kill-after=10 {SECONDS} \"$@\"");
        command.args(["-c", &limits, "bash"]).arg(&self.shell.config.cargo).arg("test");
        command.args(&wound.test).current_dir(self.tree).envs(&self.variables);
        command.env("CARGO_TARGET_DIR", self.shell.config.target_dir.join("wounds"));
        // Every patch links all tests again.
        command.env("CARGO_PROFILE_DEV_DEBUG", "none");
        self.shell.run(&mut command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_test_of_a_patch() {
        let patch = "# test: -p handback-wire --test it wound_a1\ndiff --git a/x b/x\n";
        assert_eq!(test_of(patch).unwrap(), ["-p", "handback-wire", "--test", "it", "wound_a1"]);
        assert!(test_of("diff --git a/x b/x\n# test: late\n").is_none());
        assert!(test_of("# test: \n").is_none());
    }
}
