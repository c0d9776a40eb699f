//! `handback identity remove`.

use std::fmt;

use clap::Args;
use serde::Serialize;

use super::IdentityFileArgs;
use super::file::IdentityFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// Take tokens out of a file of identities
///
/// A server that uses the file notices within seconds, and refuses them from then on. What their
/// owner has at the server stays: a new token for the same subject finds it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  removed (how many), file

Examples:
  handback identity remove --subject alice
  handback identity remove --subject alice --digest 8d70a2c1")]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    file: IdentityFileArgs,

    /// Whose tokens
    #[arg(long, value_name = "NAME")]
    subject: String,

    /// Only the one whose digest starts so, as `handback identity list` shows it
    #[arg(long, value_name = "DIGITS")]
    digest: Option<String>,
}

#[derive(Serialize)]
struct Removed {
    removed: usize,
    file: String,
}

pub(super) fn run(args: &RemoveArgs, output: Output) -> Result<Exit, Failure> {
    let path = args.file.path()?;
    let file = IdentityFile::open(&path, false)?;
    let roster = file.roster()?;
    let is_meant = |entry: &&handback_identity::roster::Entry| {
        let digest = args.digest.as_deref();
        entry.name() == args.subject && digest.is_none_or(|digest| entry.short_digest() == digest)
    };
    let lines: Vec<String> =
        roster.entries().iter().filter(is_meant).map(|entry| format!("{entry}")).collect();
    if lines.is_empty() {
        return Err(
            Failure::new("there is no such token").hint("`handback identity list` shows them")
        );
    }
    let digests: Vec<_> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    file.retain(|line| {
        let digest = line.split_whitespace().next().unwrap_or_default();
        !digests.contains(&digest)
    })?;
    output.answer(&Removed { removed: lines.len(), file: path.display().to_string() })?;
    Ok(Exit::OK)
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.removed == 1 { "token" } else { "tokens" };
        write!(f, "Removed {} {noun} from {}.", self.removed, self.file)
    }
}
