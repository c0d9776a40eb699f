//! `handback keys rotate`.

use clap::{Args, ValueEnum};
use handback_token::{KeyRing, Mode, SlotInfo, SlotNumber, SlotState};

use super::change::{Action, Change, Next};
use crate::args::{KeyFileArgs, modes, parse_slot};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::{clock, rings};

/// Add a key and let it seal; the old one goes on opening
///
/// No token is lost: what was made before opens until it expires. Where replicas have copies of the
/// ring, a token of the new key could reach a replica that does not have it yet. There, go in
/// steps: `--step add`, bring the ring to every replica, `--step promote`, bring it to every replica
/// again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  action, file, ring, generation, fingerprint, slot (the key that was added or promoted),
  next {command, after, why}

Examples:
  handback keys rotate
  handback keys rotate --keys keys.json --step add
  handback keys rotate --keys keys.json --step promote --slot 1
  handback keys rotate --epoch per-start")]
pub(crate) struct RotateArgs {
    #[command(flatten)]
    file: KeyFileArgs,

    /// Mode of the new key [default: that of the active one]
    #[arg(long, value_parser = modes())]
    mode: Option<Mode>,

    /// Which half of the rotation
    #[arg(long, value_enum, default_value_t = Step::Both)]
    step: Step,

    /// The accepting slot to promote [default: the newest that never sealed]
    #[arg(long, value_name = "SLOT", value_parser = parse_slot)]
    slot: Option<SlotNumber>,

    /// Begin an epoch, as a server does that is started with this option: every key that opened is
    /// retired, and tokens made before answer `expired`. Refused for a ring that may be shared
    #[arg(long, value_enum, conflicts_with_all = ["step", "slot"])]
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Add a key that opens only
    Add,
    /// Let an added key seal
    Promote,
    /// Add a key and let it seal, at once
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Epoch {
    /// At every start of a process
    PerStart,
}

pub(super) fn run(args: &RotateArgs, output: Output) -> Result<Exit, Failure> {
    if args.slot.is_some() && args.step != Step::Promote {
        return Err(Failure::usage("--slot names the key to promote: a new key takes a free slot")
            .hint("--step promote --slot SLOT"));
    }
    if args.mode.is_some() && args.step == Step::Promote {
        return Err(Failure::usage("a key has its mode from when it was added")
            .hint("leave --mode away, or add a key of that mode: --step add --mode MODE"));
    }
    let change = match (args.epoch, args.step) {
        (Some(Epoch::PerStart), _) => begin_epoch(args)?,
        (None, Step::Add) => add(args)?,
        (None, Step::Promote) => promote(args)?,
        (None, Step::Both) => rotate(args)?,
    };
    change.tell(output)?;
    Ok(Exit::OK)
}

fn add(args: &RotateArgs) -> Result<Change, Failure> {
    let keys = args.file.keys.as_deref();
    let (file, _) = rings::find_file(keys)?;
    let (slot, ring) =
        file.update(|ring| ring.add(&mut rand::rng(), new_mode(args, ring), clock::now()))?;
    Ok(Change::new(Action::Added, file.path(), &ring, slot).next(Next::promote(slot, keys)))
}

fn promote(args: &RotateArgs) -> Result<Change, Failure> {
    let keys = args.file.keys.as_deref();
    let (file, ring) = rings::find_file(keys)?;
    let slot = match args.slot {
        Some(slot) => slot,
        None => newest_added(&ring)?,
    };
    let now = clock::now();
    let (old, ring) = file.update(|ring| {
        let old = ring.active();
        ring.promote(slot, now)?;
        Ok(old)
    })?;
    let next = Next::retire(old, keys, now);
    Ok(Change::new(Action::Promoted, file.path(), &ring, slot).next(next))
}

fn rotate(args: &RotateArgs) -> Result<Change, Failure> {
    let keys = args.file.keys.as_deref();
    let (file, _) = rings::find_file(keys)?;
    let now = clock::now();
    let ((old, slot), ring) = file.update(|ring| {
        let old = ring.active();
        let slot = ring.rotate(&mut rand::rng(), new_mode(args, ring), now)?;
        Ok((old, slot))
    })?;
    let next = Next::retire(old, keys, now);
    Ok(Change::new(Action::Rotated, file.path(), &ring, slot).next(next))
}

fn begin_epoch(args: &RotateArgs) -> Result<Change, Failure> {
    let mut loaded = rings::find_for_epoch(args.file.keys.as_deref())?;
    let mode = new_mode(args, &loaded.ring);
    let slot = loaded.begin_epoch(&mut rand::rng(), mode, clock::now())?;
    let (path, _) = rings::default_file()?;
    Ok(Change::new(Action::Epoch, &path, &loaded.ring, slot))
}

/// The mode asked for, or that of the active key.
fn new_mode(args: &RotateArgs, ring: &KeyRing) -> Mode {
    args.mode.or_else(|| ring.slot(ring.active()).map(|active| active.mode)).unwrap_or(Mode::Sealed)
}

/// The accepting slot that was added last.
///
/// A slot that used to seal is accepting too, and to promote it would undo a rotation. Its state is
/// never newer than the active slot's, so only newer ones are considered, and where the second does
/// not tell, the slot has to be named.
fn newest_added(ring: &KeyRing) -> Result<SlotNumber, Failure> {
    let slots: Vec<SlotInfo> = ring.slots().collect();
    let sealing_since =
        slots.iter().find(|slot| slot.state == SlotState::Active).map(|active| active.since);
    let accepting = || slots.iter().filter(|slot| slot.state == SlotState::Accepting);
    let added = || accepting().filter(|slot| Some(slot.since) > sealing_since);
    let newest = added().map(|slot| slot.since).max();
    let mut candidates = added().filter(|slot| Some(slot.since) == newest);
    match (candidates.next(), candidates.next()) {
        (Some(only), None) => Ok(only.number),
        _ if accepting().next().is_none() => Err(Failure::new("there is no key to promote")
            .hint("add one first: `handback keys rotate --step add`")),
        _ => {
            let named: Vec<String> =
                accepting().map(|slot| format!("--slot {}", slot.number)).collect();
            Err(Failure::new("it is not clear which key is to be promoted")
                .hint(format!("name its slot: {}", named.join(" or "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use handback_token::UnixTime;

    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
    const LATER: UnixTime = UnixTime::from_secs(1_800_000_010);

    fn ring() -> KeyRing {
        KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW)
    }

    fn add(ring: &mut KeyRing, now: UnixTime) -> SlotNumber {
        ring.add(&mut rand::rng(), Mode::Sealed, now).unwrap()
    }

    #[test]
    fn the_key_that_was_added_last_is_promoted() {
        let mut ring = ring();
        assert!(newest_added(&ring).is_err());
        let one = add(&mut ring, LATER);
        assert_eq!(newest_added(&ring).unwrap(), one);
        let two = add(&mut ring, UnixTime::from_secs(LATER.as_secs() + 1));
        assert_eq!(newest_added(&ring).unwrap(), two);
    }

    #[test]
    fn a_key_that_sealed_before_is_not_promoted_by_chance() {
        let mut ring = ring();
        let one = add(&mut ring, LATER);
        ring.promote(one, LATER).unwrap();
        let hint = newest_added(&ring).unwrap_err();
        assert_eq!(hint.hint_text(), Some("name its slot: --slot 0"));
    }

    #[test]
    fn keys_of_the_same_second_have_to_be_named() {
        let mut ring = ring();
        add(&mut ring, LATER);
        add(&mut ring, LATER);
        let hint = newest_added(&ring).unwrap_err();
        assert_eq!(hint.hint_text(), Some("name its slot: --slot 1 or --slot 2"));
    }
}
