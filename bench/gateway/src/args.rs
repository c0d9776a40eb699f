//! What is measured, and where.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use bench_kit::pick;

use crate::contender::{Contender, Programs};
use crate::features;
use crate::shares;
use crate::turns;

/// Callers at a time.
const CALLERS: [u64; 3] = [1, 8, 32];

/// The arguments.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) programs: Programs,
    /// Who takes part, if the program is there.
    pub(crate) contenders: Vec<Contender>,
    pub(crate) callers: Vec<u64>,
    pub(crate) effort: turns::Effort,
    /// `None` if only calls are measured.
    pub(crate) features: Option<features::Effort>,
    /// `None` if it is not measured what a caller at its limits costs another one.
    pub(crate) shares: Option<shares::Effort>,
    /// Whether nothing else is measured.
    pub(crate) is_only_shares: bool,
    /// Where servers keep what they keep.
    pub(crate) scratch: PathBuf,
    /// The file whose section is replaced.
    pub(crate) write: Option<PathBuf>,
}

impl Args {
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self> {
        let mut programs = Programs::default();
        let (mut contenders, mut callers) = (Contender::ALL.to_vec(), CALLERS.to_vec());
        let (mut rounds, mut is_smoke, mut has_features) = (30, false, true);
        let mut is_only_shares = false;
        let (mut scratch, mut write) = (std::env::temp_dir(), None);
        while let Some(name) = given.next() {
            let mut value = || given.next().with_context(|| format!("{name} wants a value"));
            match name.as_str() {
                "--handback" => programs.handback = Some(absolute(&value()?)?),
                "--mcp-proxy" => programs.mcp_proxy = Some(absolute(&value()?)?),
                "--fastmcp" => programs.fastmcp = Some(absolute(&value()?)?),
                "--fastmcp-script" => programs.fastmcp_script = Some(absolute(&value()?)?),
                "--only" => contenders = pick::named(&Contender::ALL, Contender::key, &value()?)?,
                "--callers" => callers = numbers(&value()?)?,
                "--rounds" => rounds = value()?.parse().context("--rounds wants a number")?,
                "--no-features" => has_features = false,
                "--only-shares" => is_only_shares = true,
                "--smoke" => is_smoke = true,
                "--scratch" => scratch = value()?.into(),
                "--write" => write = Some(value()?.into()),
                other => bail!("there is no option {other}"),
            }
        }
        ensure!((1..=1000).contains(&rounds), "--rounds wants 1 to 1000");
        let mut effort = turns::Effort { rounds, slow_rounds: 5, is_smoke };
        let mut features = features::Effort::full();
        if is_smoke {
            (effort.rounds, features) = (1, features::Effort::smoke());
        }
        let shares = if is_smoke { shares::Effort::smoke() } else { shares::Effort::full() };
        let shares = (has_features || is_only_shares).then_some(shares);
        let features = (has_features && !is_only_shares).then_some(features);
        if is_only_shares {
            contenders = vec![Contender::Handback];
        }
        Ok(Self {
            programs,
            contenders,
            callers,
            effort,
            features,
            shares,
            is_only_shares,
            scratch,
            write,
        })
    }
}

/// Programs are started elsewhere.
fn absolute(path: &str) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("there is no path {path}"))
}

fn numbers(text: &str) -> Result<Vec<u64>> {
    let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
    let numbers = numbers.context("--callers wants numbers")?;
    // A session of each is opened one after the other.
    ensure!(numbers.iter().all(|n| (1..=256).contains(n)), "--callers wants 1 to 256");
    Ok(numbers)
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
        assert_eq!(args.callers, CALLERS);
        assert_eq!(args.effort.rounds, 30);
        assert!(args.features.is_some());
    }

    #[test]
    fn takes_those_that_are_named() {
        let args = parse("--only handback,direct --callers 2,64 --rounds 2 --no-features").unwrap();
        assert_eq!(args.contenders, [Contender::Direct, Contender::Handback]);
        assert_eq!((args.callers, args.effort.rounds), (vec![2, 64], 2));
        assert!(args.features.is_none());
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for args in ["--only x", "--rounds 0", "--callers 0", "--callers x", "--x", "--only"] {
            assert!(parse(args).is_err(), "{args}");
        }
    }
}
