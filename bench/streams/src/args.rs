//! What is measured, and where.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bench_kit::pick;

use crate::contender::{Contender, Programs};
use crate::scenario::{Effort, Scenario};

/// The arguments.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) programs: Programs,
    /// Who takes part, if the program is there.
    pub(crate) contenders: Vec<Contender>,
    pub(crate) scenarios: Vec<Scenario>,
    /// Turns of each contender.
    pub(crate) rounds: usize,
    pub(crate) effort: Effort,
    /// Whether only to see that everything runs.
    pub(crate) smoke: bool,
    /// Where servers keep their streams.
    pub(crate) scratch: PathBuf,
    /// The file whose section is replaced.
    pub(crate) write: Option<PathBuf>,
}

impl Args {
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self> {
        let mut programs = Programs::default();
        let (mut contenders, mut scenarios) = (Contender::ALL.to_vec(), Scenario::ALL.to_vec());
        let (mut rounds, mut seconds, mut smoke) = (10, 3.0, false);
        let (mut scratch, mut write) = (std::env::temp_dir(), None);
        while let Some(name) = given.next() {
            let mut value = || given.next().with_context(|| format!("{name} wants a value"));
            match name.as_str() {
                "--handback" => programs.handback = Some(value()?.into()),
                "--handback-unsigned" => programs.handback_unsigned = Some(value()?.into()),
                "--wal" => programs.wal = Some(value()?.into()),
                "--acid" => programs.acid = Some(value()?.into()),
                "--node" => programs.node = Some(value()?.into()),
                "--only" => contenders = pick::named(&Contender::ALL, Contender::key, &value()?)?,
                "--scenarios" => scenarios = pick::named(&Scenario::ALL, Scenario::key, &value()?)?,
                "--rounds" => rounds = value()?.parse().context("--rounds wants a number")?,
                "--seconds" => seconds = value()?.parse().context("--seconds wants a number")?,
                "--smoke" => smoke = true,
                "--scratch" => scratch = value()?.into(),
                "--write" => write = Some(value()?.into()),
                other => bail!("there is no option {other}"),
            }
        }
        ensure!((1..=1000).contains(&rounds), "--rounds wants 1 to 1000");
        ensure!((0.1..=600.0).contains(&seconds), "--seconds wants 0.1 to 600");
        let mut effort = Effort::of(Duration::from_secs_f64(seconds));
        if smoke {
            (rounds, effort) = (1, Effort::smoke());
        }
        Ok(Self { programs, contenders, scenarios, rounds, effort, smoke, scratch, write })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<Args> {
        Args::parse(args.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn takes_all_if_nothing_is_named() {
        let args = parse("").unwrap();
        assert_eq!(args.contenders, Contender::ALL);
        assert_eq!(args.scenarios, Scenario::ALL);
        assert_eq!(args.rounds, 10);
    }

    #[test]
    fn takes_those_that_are_named() {
        let args = parse("--only handback,wal --scenarios streams --rounds 2").unwrap();
        assert_eq!(args.contenders, [Contender::Wal, Contender::Handback]);
        assert_eq!(args.scenarios, [Scenario::Streams]);
        assert_eq!(args.rounds, 2);
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for args in ["--only x", "--rounds 0", "--seconds nan", "--seconds -1", "--x", "--only"] {
            assert!(parse(args).is_err(), "{args}");
        }
    }
}
