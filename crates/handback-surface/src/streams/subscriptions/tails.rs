//! Positions in the streams of an owner.

use handback_stream::{StreamName, View};

use super::state::Tails;
use crate::streams::driver::Streams;

/// The number of the last record of each stream of an owner.
pub(super) fn tails<'a>(streams: &'a Streams, owner: &str) -> Box<Tails<'a>> {
    let owner = owner.to_owned();
    Box::new(move |path| view(streams, &owner, path).map(|view| view.number))
}

/// The number before the first record that is the stream's own.
pub(super) fn start_of(streams: &Streams, owner: &str, path: &str) -> Option<u64> {
    let view = view(streams, owner, path)?;
    Some(view.meta.segments().last().map_or(0, |own| own.after))
}

fn view(streams: &Streams, owner: &str, path: &str) -> Option<View> {
    let name = StreamName::new(owner, path).ok()?;
    streams.view(name.id()).filter(|view| !view.deleted)
}
