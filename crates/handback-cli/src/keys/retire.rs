//! `handback keys retire`.

use clap::Args;
use handback_token::{Retire, SlotNumber};

use super::change::{Action, Change, Next};
use crate::args::{KeyFileArgs, parse_slot};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::{clock, rings};

/// Retire a key: its tokens answer `expired` from then on
///
/// Refused while tokens of the key may be alive, which is up to a day and two minutes after it stopped sealing.
/// A retired key goes on unwrapping the stored keys that are wrapped under it, until it is dropped.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  action, file, ring, generation, fingerprint, slot, next {command, after, why}

Examples:
  handback keys retire 0
  handback keys retire 0 --now-compromised
  handback keys retire 0 --drop")]
pub(crate) struct RetireArgs {
    /// The slot, 0 to 15
    #[arg(value_parser = parse_slot)]
    slot: SlotNumber,

    #[command(flatten)]
    file: KeyFileArgs,

    /// Retire the key at once, because somebody else may have it: tokens that are alive expire
    #[arg(long)]
    now_compromised: bool,

    /// Empty a slot that is retired already; refused while something is wrapped under it
    #[arg(long, conflicts_with = "now_compromised")]
    drop: bool,
}

pub(super) fn run(args: &RetireArgs, output: Output) -> Result<Exit, Failure> {
    let keys = args.file.keys.as_deref();
    let (file, _) = rings::find_file(keys)?;
    let change = if args.drop {
        let ((), ring) =
            file.update_knowing_wrapped(|ring, wrapped| ring.drop_slot(args.slot, wrapped))?;
        Change::new(Action::Dropped, file.path(), &ring, args.slot)
    } else {
        let when =
            if args.now_compromised { Retire::Immediately } else { Retire::AfterLongestLife };
        let ((), ring) = file.update(|ring| ring.retire(args.slot, when, clock::now()))?;
        Change::new(Action::Retired, file.path(), &ring, args.slot)
            .next(Next::drop(args.slot, keys))
    };
    change.tell(output)?;
    Ok(Exit::OK)
}
