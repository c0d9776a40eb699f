//! `handback keys export`.

use std::fmt;

use clap::Args;
use serde::Serialize;

use crate::args::RingArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::rings::{self, OriginMember};

/// Print the whole ring, keys included, as one line for HANDBACK_KEYS
///
/// Whoever reads that line can make and open every token of the ring. It is also the text of a key
/// file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  handback_keys

Examples:
  HANDBACK_KEYS=\"$(handback keys export --keys keys.json --reveal-all-keys)\"
  (umask 077 && handback keys export --reveal-all-keys > copy.json)")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    ring: RingArgs,

    /// Yes, print every key
    #[arg(long)]
    reveal_all_keys: bool,
}

pub(super) fn run(args: &ExportArgs, output: Output) -> Result<Exit, Failure> {
    if !args.reveal_all_keys {
        return Err(Failure::usage("this would print every key of the ring")
            .hint("--reveal-all-keys says that this is wanted"));
    }
    let found = rings::find(&args.ring)?;
    output.note("ring from", &OriginMember::of(&found.origin).sentence());
    let text = found.ring.dangerous_to_text();
    output.answer(&Export { handback_keys: &text })?;
    Ok(Exit::OK)
}

#[derive(Serialize)]
struct Export<'a> {
    handback_keys: &'a str,
}

impl fmt::Display for Export<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.handback_keys)
    }
}
