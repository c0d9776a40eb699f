//! What this program is asked to do.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Answer the questions.
    Bench(Bench),
    /// Tell what the data is, and write it into a folder.
    Data { folder: Option<PathBuf> },
    /// Be the upstream.
    Upstream { record: Option<PathBuf> },
}

/// How to answer them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bench {
    /// The gateway: `handback wrap` of this program stands in front.
    pub(crate) handback: PathBuf,
    /// Only these questions.
    pub(crate) only: Option<Vec<String>>,
    /// Whether to leave out most of what takes long: pages, and truncated results.
    pub(crate) smoke: bool,
    /// The file whose section is replaced.
    pub(crate) write: Option<PathBuf>,
}

impl Command {
    pub(crate) fn parse(given: impl Iterator<Item = String>) -> Result<Self> {
        let given: Vec<String> = given.collect();
        let words: Vec<&str> = given.iter().map(String::as_str).collect();
        Ok(match words.as_slice() {
            ["data"] => Self::Data { folder: None },
            ["data", "--dump", folder] => Self::Data { folder: Some(folder.into()) },
            ["upstream"] => Self::Upstream { record: None },
            ["upstream", "--record", file] => Self::Upstream { record: Some(file.into()) },
            options => Self::Bench(Bench::parse(options)?),
        })
    }
}

impl Bench {
    fn parse(options: &[&str]) -> Result<Self> {
        let mut bench = Self::default();
        let mut handback = None;
        let mut options = options.iter();
        while let Some(&name) = options.next() {
            let mut value = || options.next().with_context(|| format!("{name} wants a value"));
            match name {
                "--handback" => handback = Some(value()?.into()),
                "--only" => bench.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--smoke" => bench.smoke = true,
                "--write" => bench.write = Some(value()?.into()),
                other => bail!("there is no option {other}"),
            }
        }
        bench.handback = handback.context("--handback PROGRAM is missing")?;
        Ok(bench)
    }

    /// Whether a question takes part.
    pub(crate) fn wants(&self, id: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|one| one == id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<Command> {
        Command::parse(args.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn takes_commands_and_options() {
        assert_eq!(parse("upstream").unwrap(), Command::Upstream { record: None });
        let Command::Bench(bench) = parse("--smoke --only a,b --handback x").unwrap() else {
            panic!()
        };
        assert!(bench.smoke && bench.wants("b") && !bench.wants("c"));
        assert_eq!(bench.handback, PathBuf::from("x"));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for args in
            ["", "--smoke", "--handback", "--handback x --fast", "data --dump", "upstream --record"]
        {
            assert!(parse(args).is_err(), "{args}");
        }
    }
}
