//! Keeping parts.

use handback_page::CollectionError;

use super::body::{Body, Content, Held};
use super::chunks::{Chunks, ReadError};
use super::keep::{Keep, Kept, NewPart, PartWriter as _};

/// Why a result was not cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoundError<E: std::error::Error> {
    /// The result is not JSON: the upstream is to blame.
    #[error("the result is not JSON: {0}")]
    NotJson(String),
    /// The result cannot be read any more.
    #[error("the result cannot be read")]
    Source(#[source] CollectionError),
    /// A part was not kept.
    #[error("a part of the result was not kept")]
    Keep(#[source] E),
}

/// What was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) kept: Kept,
    pub(super) bytes: u64,
    /// Whether it was kept for an earlier part already.
    pub(super) again: bool,
}

/// Keeps what is held of each part; what is the same is kept once. All of them, or none.
pub(super) fn all<K: Keep>(
    chunks: &Chunks<'_>,
    bodies: &[Body],
    keep: &mut K,
) -> Result<Vec<Place>, BoundError<K::Error>> {
    let mut places: Vec<Place> = vec![];
    for body in bodies {
        let earlier =
            bodies.iter().zip(&places).find(|(other, _)| is_same(&other.held, &body.held));
        let place = match earlier {
            Some((_, place)) => Ok(Place { again: true, ..*place }),
            None => one(chunks, &body.held, keep),
        };
        match place {
            Ok(place) => places.push(place),
            Err(error) => {
                forget(&places, keep);
                return Err(error);
            }
        }
    }
    Ok(places)
}

/// Gives up what was kept.
pub(super) fn forget<K: Keep>(places: &[Place], keep: &mut K) {
    let own = places.iter().filter(|place| !place.again);
    own.for_each(|place| keep.forget(place.kept.handle));
}

fn is_same(one: &Held, other: &Held) -> bool {
    let is_same = one.digest.is_some() && one.digest == other.digest;
    is_same && one.kind == other.kind && one.items == other.items
}

fn one<K: Keep>(
    chunks: &Chunks<'_>,
    held: &Held,
    keep: &mut K,
) -> Result<Place, BoundError<K::Error>> {
    let Held { kind, items, content, media, .. } = held;
    let part = NewPart::new(kind, items.clone(), media.clone());
    let (kept, bytes) = write(chunks, content, &part, keep)?;
    Ok(Place { kept, bytes, again: false })
}

/// Keeps some bytes.
fn write<K: Keep>(
    chunks: &Chunks<'_>,
    content: &Content,
    part: &NewPart,
    keep: &mut K,
) -> Result<(Kept, u64), BoundError<K::Error>> {
    let mut writer = keep.part(part).map_err(BoundError::Keep)?;
    let mut bytes = 0;
    let written = content.each(chunks, |piece| {
        bytes += piece.len() as u64;
        if piece.is_empty() { Ok(()) } else { writer.write(piece) }
    });
    match written {
        Ok(()) => {}
        Err(ReadError::Taker(error)) => return Err(BoundError::Keep(error)),
        Err(ReadError::Source(error)) => return Err(BoundError::Source(error)),
        // It was read before, and had none.
        Err(ReadError::Lone) => return Err(BoundError::Source(CollectionError::Changed)),
    }
    Ok((writer.finish().map_err(BoundError::Keep)?, bytes))
}
