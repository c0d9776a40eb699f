//! Positions in the streams of an owner.

use handback_stream::{StreamName, View};

use super::state::{Position, Tails};
use crate::streams::driver::Streams;

/// The number of the last record of each stream of an owner.
pub(super) fn tails<'a>(streams: &'a Streams, owner: &str) -> Box<Tails<'a>> {
    let owner = owner.to_owned();
    Box::new(move |path| view(streams, &owner, path).map(|view| view.number))
}

/// The stream that is at a path now.
pub(super) fn position(streams: &Streams, owner: &str, path: &str) -> Option<Position> {
    let view = view(streams, owner, path)?;
    let incarnation = view.meta.id().as_bytes().last_chunk().copied().unwrap_or_default();
    Some(Position {
        incarnation: u64::from_be_bytes(incarnation),
        start: view.meta.segments().last().map_or(0, |own| own.after),
        tail: view.number,
    })
}

fn view(streams: &Streams, owner: &str, path: &str) -> Option<View> {
    let name = StreamName::new(owner, path).ok()?;
    streams.view(name.id()).filter(|view| !view.deleted)
}
