//! From a result to a bounded one.

use handback_page::CollectionError;
use handback_page::json::{ByteSource, Pointer};

use super::body::{self, Body, Look};
use super::budget::Budget;
use super::chunks::{CHUNK_BYTES, Chunks, ReadError, length};
use super::compose::{Compose, Links};
use super::hold::{self, BoundError, Place};
use super::keep::Keep;
use super::media::{Found, HeldMedia};
use super::notice::{self, Facts, Line, Reading};
use super::part::Part;
use super::plan::{Plan, Unit, What};
use super::shape::{Member, Shape};
use super::show::{Piece, Pieces, Show};
use crate::json::lexer::{NotJson, Token};
use crate::schema::BoundedValidator;

/// How a result is cut.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Bounding<'a> {
    budget: Budget,
    media: Budget,
    knows_links: bool,
    reading: Reading<'a>,
    schema: Option<&'a BoundedValidator>,
    chunk_bytes: usize,
    reserved_bytes: usize,
}

impl<'a> Bounding<'a> {
    /// To a budget. Agents are told to read on with the tool `mcp_aql_read`.
    pub const fn new(budget: Budget) -> Self {
        let reading = Reading { tool: "mcp_aql_read", offsets: true };
        Self {
            budget,
            media: Budget::MEDIA_DEFAULT,
            knows_links: true,
            reading,
            schema: None,
            chunk_bytes: CHUNK_BYTES,
            reserved_bytes: 0,
        }
    }

    /// The budget of images, audio and blobs, as base64: the other one is for everything beside it.
    pub const fn media(mut self, media: Budget) -> Self {
        self.media = media;
        self
    }

    /// The client knows no `resource_link` blocks: texts take their place.
    pub const fn without_links(mut self) -> Self {
        self.knows_links = false;
        self
    }

    /// Agents are told to read on with the tool of this name.
    pub const fn reading_tool(mut self, name: &'a str) -> Self {
        self.reading.tool = name;
        self
    }

    /// That tool takes cursors only, and no offsets.
    pub const fn without_offsets(mut self) -> Self {
        self.reading.offsets = false;
        self
    }

    /// So much of the result is in memory at once. It makes no difference to what comes of it.
    pub const fn in_chunks_of(mut self, bytes: usize) -> Self {
        self.chunk_bytes = if bytes == 0 { 1 } else { bytes };
        self
    }

    /// So many bytes of the budget are not for the result: something is added to it later.
    ///
    /// They should be few, of what is left of [`Budget::FLOOR_BYTES`] something is to be said.
    pub const fn reserving(mut self, bytes: usize) -> Self {
        self.reserved_bytes = bytes;
        self
    }

    /// True if a result of so many bytes is given as it is, whatever it is.
    #[must_use]
    pub fn allows(&self, bytes: u64) -> bool {
        self.allows_parts(bytes, 0) && self.media.allows(bytes)
    }

    /// True if a result of so many bytes, of which so many are media, is given as it is.
    fn allows_parts(&self, bytes: u64, media_bytes: u64) -> bool {
        let others = bytes.saturating_sub(media_bytes);
        self.budget.allows(others.saturating_add(self.reserved_bytes as u64))
            && self.media.allows(media_bytes)
    }

    /// What a result that is cut has room for.
    pub(super) fn room(&self) -> usize {
        self.budget.room().saturating_sub(self.reserved_bytes)
    }

    /// Bytes of media that are shown at most.
    fn media_bytes_max(&self) -> u64 {
        self.media.room() as u64
    }

    /// What is left of `structuredContent` is valid by this schema.
    pub const fn output_schema(mut self, schema: &'a BoundedValidator) -> Self {
        self.schema = Some(schema);
        self
    }
}

/// A result that is within its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounded {
    /// JSON: the `result` for the client.
    pub result: Vec<u8>,
    /// What is held, in the order of the result.
    pub parts: Vec<Part>,
    /// How many bytes were kept. What is there twice is kept once.
    pub held_bytes: u64,
    /// True if it is the result as it was given, to the byte.
    pub is_as_given: bool,
}

impl Bounded {
    /// Gives up what was kept: nobody gets this result.
    pub fn forget<K: Keep>(&self, keep: &mut K) {
        for (number, part) in self.parts.iter().enumerate() {
            let earlier = self.parts.iter().take(number);
            if !earlier.into_iter().any(|other| other.handle == part.handle) {
                keep.forget(part.handle);
            }
        }
    }
}

/// Cuts the result of a tool call that is over a budget, so that nothing is lost.
///
/// A result within the budget comes back as it is.
///
/// # Errors
///
/// [`BoundError`]; then nothing is kept.
pub fn bound<K: Keep>(
    result: &dyn ByteSource,
    how: &Bounding<'_>,
    keep: &mut K,
) -> Result<Bounded, BoundError<K::Error>> {
    let chunks = Chunks::new(result, how.chunk_bytes);
    let as_given = || {
        let result = chunks.read(chunks.all()).map_err(BoundError::Source)?.into_owned();
        Ok(Bounded { result, parts: vec![], held_bytes: 0, is_as_given: true })
    };
    if how.allows(result.size_bytes()) {
        return as_given();
    }
    let (shape, media) = Shape::read(&chunks).map_err(not_json)?;
    if how.allows_parts(result.size_bytes(), media.bytes) {
        return as_given();
    }
    let job = Job { chunks, shape: &shape, media: &media, how };
    if let Some(plan) = Plan::of(&shape, &media, (how.room(), how.media_bytes_max()))
        && let Some(bounded) = job.taken_apart(&plan, keep)?
    {
        return Ok(bounded);
    }
    job.whole(keep)
}

fn not_json<E: std::error::Error>(error: ReadError<NotJson>) -> BoundError<E> {
    match error {
        ReadError::Source(error) => BoundError::Source(error),
        ReadError::Taker(error) => BoundError::NotJson(error.to_string()),
        ReadError::Lone => BoundError::NotJson("a character is not whole".to_owned()),
    }
}

/// How often it is tried to use what room is left.
const TRIES: usize = 4;

/// Room that is not worth another try.
const SLACK_BYTES: usize = 256;

/// A result that has room.
struct Fitted {
    bounded: Bounded,
    /// Something is neither in it nor kept.
    loses: bool,
}

/// Whether a document is not shown of which only a text is kept.
fn loses(bodies: &[Body], pieces: &Pieces) -> bool {
    let mut parts = bodies.iter().zip(&pieces.all);
    parts.any(|(body, piece)| piece.json.is_none() && !body.held.inside.tokens().is_empty())
}

struct Job<'a> {
    chunks: Chunks<'a>,
    shape: &'a Shape,
    media: &'a Found,
    how: &'a Bounding<'a>,
}

impl Job<'_> {
    /// Cuts the parts that do not fit. Nothing, if that takes more room than there is.
    fn taken_apart<K: Keep>(
        &self,
        plan: &Plan,
        keep: &mut K,
    ) -> Result<Option<Bounded>, BoundError<K::Error>> {
        let units = plan.cut.as_slice();
        let most = self.how.room();
        // Each of several gets twice its share at most.
        let limit = most.min(2 * (most / units.len().max(1)));
        let look = self.look(limit, plan.share);
        let bodies: Result<Vec<_>, _> = units.iter().map(|unit| look.at(unit)).collect();
        let mut bodies = bodies.map_err(BoundError::Source)?;
        body::tie(units, &mut bodies);
        match self.kept(plan, &bodies, keep)? {
            Some(Fitted { loses: false, bounded }) => Ok(Some(bounded)),
            // Whether a document is shown is known when it was tried.
            Some(Fitted { bounded, .. }) => {
                bounded.forget(keep);
                body::keep_whole(units, &mut bodies);
                Ok(self.kept(plan, &bodies, keep)?.map(|fitted| fitted.bounded))
            }
            None => Ok(None),
        }
    }

    /// Keeps what is held of parts, and shows as much of them as there is room for.
    fn kept<K: Keep>(
        &self,
        plan: &Plan,
        bodies: &[Body],
        keep: &mut K,
    ) -> Result<Option<Fitted>, BoundError<K::Error>> {
        let places = hold::all(&self.chunks, bodies, keep)?;
        let fitted = self.fitted(plan, bodies, &places);
        if !matches!(fitted, Ok(Some(_))) {
            hold::forget(&places, keep);
        }
        fitted.map_err(BoundError::Source)
    }

    /// Shows as much of parts that are kept as there is room for.
    fn fitted(
        &self,
        plan: &Plan,
        bodies: &[Body],
        places: &[Place],
    ) -> Result<Option<Fitted>, CollectionError> {
        let (units, most) = (plan.cut.as_slice(), self.how.room());
        let schema = self.how.schema.filter(|_| !self.is_error());
        let show = Show { units, bodies, places, schema };
        let (mut room, mut best) = (plan.room, None::<(Vec<u8>, Vec<Part>, Pieces)>);
        let mut fits = 0;
        for _ in 0..TRIES {
            let pieces = show.within(room);
            // What is valid is not given up for more.
            if pieces.invalid && best.as_ref().is_some_and(|(.., best)| !best.invalid) {
                break;
            }
            let parts = parts(units, bodies, places, &pieces);
            let (result, media_bytes) = self.compose(units, &pieces, &parts)?;
            let bytes = result.len().saturating_sub(media_bytes);
            match most.checked_sub(bytes) {
                Some(left) => {
                    best = Some((result, parts, pieces));
                    if left < SLACK_BYTES {
                        break;
                    }
                    fits = room;
                    room += left;
                }
                None if best.is_some() => room = usize::midpoint(fits, room),
                None => room = room.saturating_sub(bytes - most),
            }
        }
        let held_bytes = places.iter().filter(|place| !place.again).map(|place| place.bytes).sum();
        Ok(best.map(|(result, parts, pieces)| Fitted {
            bounded: Bounded { result, parts, held_bytes, is_as_given: false },
            loses: loses(bodies, &pieces),
        }))
    }

    /// Keeps the whole result as one part, and shows nothing of it.
    fn whole<K: Keep>(&self, keep: &mut K) -> Result<Bounded, BoundError<K::Error>> {
        let value = self.chunks.all();
        let units = [Unit { path: Pointer::whole(), what: What::Whole, value }];
        let look = self.look(0, 0);
        let bodies: Result<Vec<_>, _> = units.iter().map(|unit| look.at(unit)).collect();
        let bodies = bodies.map_err(BoundError::Source)?;
        let places = hold::all(&self.chunks, &bodies, keep)?;
        let invalid = self.how.schema.is_some() && !self.is_error();
        let pieces = Pieces { all: vec![Piece::default()], invalid };
        let parts = parts(&units, &bodies, &places, &pieces);
        let (shape, media) = (self.bare(), Found::default());
        let job = Job { shape: &shape, media: &media, ..*self };
        let (result, _) = job.compose(&units, &pieces, &parts).map_err(|error| {
            hold::forget(&places, keep);
            BoundError::Source(error)
        })?;
        let held_bytes = places.iter().map(|place| place.bytes).sum();
        Ok(Bounded { result, parts, held_bytes, is_as_given: false })
    }
}

impl Job<'_> {
    fn look(&self, limit: usize, share: usize) -> Look<'_> {
        let Self { chunks, media, how, .. } = self;
        Look { chunks: *chunks, limit, share, media, media_room: how.media_bytes_max() }
    }

    /// The result, and the bytes of the media in it.
    fn compose(
        &self,
        units: &[Unit],
        pieces: &Pieces,
        parts: &[Part],
    ) -> Result<(Vec<u8>, usize), CollectionError> {
        let blocks = self.shape.block_count;
        let is_all_media = blocks > 0 && self.media.count == blocks;
        let lines = parts.iter().zip(units).zip(&pieces.all);
        let lines: Vec<_> = lines
            .map(|((part, unit), piece)| Line {
                part,
                unit,
                remark: &piece.remark,
                blocks,
                is_all_media,
                hidden: piece.blocks.as_ref().and_then(|shown| shown.first_hidden(self.media)),
            })
            .collect();
        let facts = Facts {
            lines: &lines,
            bytes: length(&self.chunks.all()),
            reading: self.how.reading,
            invalid: pieces.invalid,
        };
        let notice = (!parts.is_empty()).then(|| notice::write(&facts));
        let Self { chunks, shape, media, how } = self;
        let links = Links { are_known: how.knows_links, tool: how.reading.tool };
        let compose = Compose { chunks: *chunks, shape, units, media, links };
        let result = compose.result(notice.as_deref(), pieces, parts)?;
        let media_bytes = usize::try_from(compose.media_bytes(pieces)).unwrap_or(usize::MAX);
        Ok((result, media_bytes))
    }

    /// Whether the upstream says that the call failed: then no schema holds.
    fn is_error(&self) -> bool {
        let Some(member) = self.shape.find("isError") else { return false };
        member.kind == Token::Word && length(&member.value) == "true".len() as u64
    }

    /// The members of the result that say what it is, where nothing else is shown.
    fn bare(&self) -> Shape {
        let is_bare = |member: &&Member| {
            matches!(member.name.as_str(), "isError" | "resultType")
                && length(&member.value) <= BARE_BYTES
        };
        let mut members: Vec<_> = self.shape.members.iter().filter(is_bare).cloned().collect();
        // Of a name that is there twice, neither counts.
        let names: Vec<_> = self.shape.members.iter().map(|member| member.name.clone()).collect();
        members.retain(|member| names.iter().filter(|name| **name == member.name).count() == 1);
        Shape { members, ..Shape::empty() }
    }
}

/// Longer values are not what they should be.
const BARE_BYTES: u64 = 64;

fn parts(units: &[Unit], bodies: &[Body], places: &[Place], pieces: &Pieces) -> Vec<Part> {
    let of = |(((unit, body), place), piece): (((&Unit, &Body), &Place), &Piece)| Part {
        handle: place.kept.handle,
        path: unit.path.clone(),
        inside: body.held.inside.clone(),
        kind: body.held.kind,
        items: body.held.items.clone(),
        shown: piece.shown,
        total: body.held.total,
        bytes: place.bytes,
        media: match &body.held.media {
            Some(HeldMedia::Block(media)) => Some(media.clone()),
            Some(HeldMedia::Blocks) | None => None,
        },
        until_ms: place.kept.until_ms,
        until_at_most_ms: place.kept.until_at_most_ms,
    };
    units.iter().zip(bodies).zip(places).zip(&pieces.all).map(of).collect()
}
