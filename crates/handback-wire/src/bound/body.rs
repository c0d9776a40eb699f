//! What a part is: JSON, text, or neither that can be read.

use std::ops::Range;

use handback_page::CollectionError;
use handback_page::json::Pointer;

use super::chunks::{self, Chunks, ReadError, length};
use super::digest::{Digest, ValueDigest};
use super::items::{Items, LongText};
use super::keep::{JSON, TEXT};
use super::media::{End, Found, HeldMedia};
use super::plain::{Plain, Reading};
use super::plan::{Unit, What};
use super::sketch::{Sketch, Sketcher};
use crate::json::lexer::{Lexer, NotJson, Oddities, Token};
use crate::json::unescape::Unescape;

/// What is shown of a part, and what is kept.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) shown: Shown,
    pub(super) held: Held,
    /// Of the document that it is, if it is one.
    pub(super) document: Option<Digest>,
}

/// What is shown of a part.
#[derive(Debug)]
pub(super) enum Shown {
    /// The first items of a document.
    Json(Box<Sketch>),
    /// A document, and the start of the one long text in it.
    Long { sketch: Box<Sketch>, text: Plain },
    /// The start of a text.
    Plain(Plain),
    /// The start of a text up to where it has half a character.
    Half(Plain),
    /// The first blocks of all.
    Blocks(BlockRow),
    /// The same as of the part of this number.
    Same(usize),
    /// Nothing.
    Nothing,
}

/// The blocks of a result, in a row.
#[derive(Debug)]
pub(super) struct BlockRow {
    /// The start of the first one.
    start: u64,
    media: Found,
    media_room: u64,
}

/// Blocks that are shown of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownBlocks {
    /// The bytes of the first ones together, and of media blocks behind them.
    pub(super) ranges: Vec<Range<u64>>,
    /// Number of blocks that are shown from the first one on.
    pub(super) first: u64,
    /// Their bytes beside media.
    pub(super) bytes: usize,
    /// Their bytes of media.
    pub(super) media_bytes: u64,
}

impl ShownBlocks {
    /// The number of the first media block that is not shown.
    pub(super) fn first_hidden(&self, media: &Found) -> Option<u64> {
        let mut shown = self.ranges.iter().skip(usize::from(self.first > 0));
        let mut later = media.blocks.iter().filter(|block| block.number >= self.first);
        later.find(|block| shown.next() != Some(&block.block)).map(|block| block.number)
    }
}

impl BlockRow {
    /// The first blocks that fit, and the media blocks behind them that fit as well.
    pub(super) fn within(&self, room: usize) -> ShownBlocks {
        let text = |end: &End| end.at.saturating_sub(self.start).saturating_sub(end.media);
        let ends = &self.media.ends;
        let first =
            ends.partition_point(|end| text(end) <= room as u64 && end.media <= self.media_room);
        let last = first.checked_sub(1).and_then(|last| ends.get(last));
        let mut shown = ShownBlocks { first: first as u64, ..ShownBlocks::default() };
        if let Some(last) = last {
            shown.ranges.push(self.start..last.at);
            shown.media_bytes = last.media;
            shown.bytes = usize::try_from(text(last)).unwrap_or(usize::MAX);
        }
        for block in self.media.blocks.iter().filter(|block| block.number >= first as u64) {
            let bytes = shown.bytes.saturating_add(narrow(block.beside())).saturating_add(1);
            let media_bytes = shown.media_bytes.saturating_add(length(&block.data));
            if bytes <= room && media_bytes <= self.media_room {
                (shown.bytes, shown.media_bytes) = (bytes, media_bytes);
                shown.ranges.push(block.block.clone());
            }
        }
        shown
    }
}

/// What is kept.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) kind: &'static str,
    /// Where the items are in what is kept.
    pub(super) items: Pointer,
    /// Where what is kept is in the document that the part is; it is all of it if that is empty.
    pub(super) inside: Pointer,
    pub(super) content: Content,
    /// How many items there are.
    pub(super) total: u64,
    /// The same for the same content.
    pub(super) digest: Option<Digest>,
    /// The media blocks in it.
    pub(super) media: Option<HeldMedia>,
}

impl Held {
    fn json(content: Content, total: u64, digest: Option<Digest>) -> Self {
        let (items, inside) = (Pointer::whole(), Pointer::whole());
        Self { kind: JSON, items, inside, content, total, digest, media: None }
    }

    /// A document with the list in it.
    fn document(sketch: &Sketch, content: Content, digest: Option<Digest>) -> Self {
        let items = Items::of(sketch);
        let held = Self::json(content, items.total(sketch), digest);
        Self { items: items.pointer, ..held }
    }

    fn lines(content: Content, total: u64, digest: Option<Digest>) -> Self {
        Self { kind: TEXT, ..Self::json(content, total, digest) }
    }
}

/// Which bytes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// As they are.
    Raw(Range<u64>),
    /// What a text stands for.
    Unescaped(Range<u64>),
    /// What a text stands for that is in the document that a text stands for.
    Inner { outer: Range<u64>, inner: Range<u64> },
}

/// The same documents are shown in the same way: a text that is what `structuredContent` is.
pub(super) fn tie(units: &[Unit], bodies: &mut [Body]) {
    let Some(first) = units.iter().position(|unit| unit.what == What::Structured) else { return };
    let Some((document, held)) =
        bodies.get(first).and_then(|body| Some((body.document?, body.held.clone())))
    else {
        return;
    };
    for (number, body) in bodies.iter_mut().enumerate() {
        if number != first && body.document == Some(document) {
            body.shown = Shown::Same(first);
            body.held = held.clone();
        }
    }
}

/// Of `structuredContent` all is kept, and not only the one long text in it.
pub(super) fn keep_whole(units: &[Unit], bodies: &mut [Body]) {
    let of_units = units.iter().zip(bodies.iter_mut());
    for (unit, body) in of_units.filter(|(unit, _)| unit.what == What::Structured) {
        match std::mem::replace(&mut body.shown, Shown::Nothing) {
            Shown::Long { sketch, .. } => {
                let content = Content::Raw(unit.value.clone());
                body.held = Held::document(&sketch, content, body.document);
                body.shown = Shown::Json(sketch);
            }
            other => body.shown = other,
        }
    }
    tie(units, bodies);
}

/// Looks at parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) chunks: Chunks<'a>,
    /// For cuts of up to so many bytes.
    pub(super) limit: usize,
    /// What a part will about have room for.
    pub(super) share: usize,
    pub(super) media: &'a Found,
    /// Bytes of media that are shown at most.
    pub(super) media_room: u64,
}

impl Look<'_> {
    /// Looks at what a unit is.
    pub(super) fn at(&self, unit: &Unit) -> Result<Body, CollectionError> {
        match unit.what {
            What::Structured => self.document(&unit.value),
            What::Text { .. } => self.text(&unit.value),
            What::Content => self.blocks(&unit.value),
            What::Media { block } => self.media_block(block, &unit.value),
            What::Block { .. } | What::Member | What::Whole => self.opaque(&unit.value),
        }
    }

    /// A JSON document of which a cut is shown.
    fn document(&self, value: &Range<u64>) -> Result<Body, CollectionError> {
        let read = self.read(value, self.limit)?;
        let Some(document) = read.readable() else { return self.unread(value) };
        self.cut(document, Content::Unescaped, || Content::Raw(value.clone()))
    }

    /// A document of which nothing is shown.
    fn opaque(&self, value: &Range<u64>) -> Result<Body, CollectionError> {
        let Some(Document { sketch, .. }) = self.read(value, 0)?.readable() else {
            return self.unread(value);
        };
        let held = Held::json(Content::Raw(value.clone()), sketch.root().items(), None);
        Ok(Body { shown: Shown::Nothing, held, document: None })
    }

    /// All blocks, of which whole ones are shown.
    fn blocks(&self, value: &Range<u64>) -> Result<Body, CollectionError> {
        let mut body = self.opaque(value)?;
        if body.held.kind == JSON {
            let (media, media_room) = (self.media.clone(), self.media_room);
            body.shown = Shown::Blocks(BlockRow { start: value.start + 1, media, media_room });
            body.held.media = (self.media.count > 0).then_some(HeldMedia::Blocks);
        }
        Ok(body)
    }

    /// A media block, in whose place a link is shown.
    fn media_block(&self, number: usize, value: &Range<u64>) -> Result<Body, CollectionError> {
        let mut body = self.opaque(value)?;
        let found = self.media.block(number as u64).filter(|_| body.held.kind == JSON);
        body.held.media = found.map(|found| HeldMedia::Block(found.label()));
        Ok(body)
    }

    /// A text, which may be a document.
    fn text(&self, quoted: &Range<u64>) -> Result<Body, CollectionError> {
        let mut plain = Reading::new(self.limit);
        let mut document = Some(DocumentReading::new(0, self.limit));
        let read = self.chunks.each_unescaped(quoted.clone(), |text| {
            plain.push(text);
            if document.as_mut().is_some_and(|document| document.push(text).is_err()) {
                document = None;
            }
            Ok::<_, NotJson>(())
        });
        let has_halves = match read {
            Ok(()) => false,
            Err(ReadError::Source(error)) => return Err(error),
            Err(ReadError::Lone | ReadError::Taker(_)) => true,
        };
        let plain = plain.finish();
        if has_halves {
            return Ok(half_text(quoted, plain));
        }
        let document = document.and_then(|document| document.finish().ok());
        match document.and_then(Read::readable).filter(Document::is_list_or_object) {
            Some(document) => {
                let inner = |inner| Content::Inner { outer: quoted.clone(), inner };
                self.cut(document, inner, || Content::Unescaped(quoted.clone()))
            }
            None => Ok(lines(quoted, plain)),
        }
    }

    /// A document, or the one text in it that is too long.
    fn cut(
        &self,
        document: Document,
        text: impl FnOnce(Range<u64>) -> Content,
        whole: impl FnOnce() -> Content,
    ) -> Result<Body, CollectionError> {
        let Document { sketch, digest } = document;
        let is_list = Items::of(&sketch).is_list;
        let long = LongText::of(&sketch, self.share / 2).filter(|_| !is_list);
        if let Some(LongText { pointer, node }) = long {
            let content = text(node.source.clone());
            let text = self.plain(&content)?;
            let mut held = Held::lines(content, text.lines, Some(text.digest));
            held.inside = pointer;
            let shown = Shown::Long { sketch: Box::new(sketch), text };
            return Ok(Body { shown, held, document: Some(digest) });
        }
        let held = Held::document(&sketch, whole(), Some(digest));
        Ok(Body { shown: Shown::Json(Box::new(sketch)), held, document: Some(digest) })
    }

    fn read(&self, value: &Range<u64>, limit: usize) -> Result<Read, CollectionError> {
        let mut document = DocumentReading::new(value.start, limit);
        let read = self.chunks.each(value.clone(), |piece| document.push(piece));
        match read {
            Ok(()) => Ok(document.finish().unwrap_or_default()),
            Err(ReadError::Source(error)) => Err(error),
            Err(ReadError::Lone | ReadError::Taker(_)) => Ok(Read::default()),
        }
    }

    /// What cannot be read as JSON is kept as text, and not shown.
    pub(super) fn unread(&self, value: &Range<u64>) -> Result<Body, CollectionError> {
        let content = Content::Raw(value.clone());
        let lines = self.plain(&content)?.lines;
        let held = Held::lines(content, lines, None);
        Ok(Body { shown: Shown::Nothing, held, document: None })
    }

    fn plain(&self, content: &Content) -> Result<Plain, CollectionError> {
        let mut plain = Reading::new(self.limit);
        let read = content.each(&self.chunks, |text| {
            plain.push(text);
            Ok::<_, NotJson>(())
        });
        match read {
            Err(ReadError::Source(error)) => Err(error),
            // It was read once, and had none.
            Err(ReadError::Lone | ReadError::Taker(_)) => Err(CollectionError::Changed),
            Ok(()) => Ok(plain.finish()),
        }
    }
}

/// A text that is not UTF-8 when its escapes are replaced is kept with them: one line, as JSON has
/// no others.
fn half_text(quoted: &Range<u64>, start: Plain) -> Body {
    let held = Held::lines(Content::Raw(quoted.clone()), 1, None);
    Body { shown: Shown::Half(start), held, document: None }
}

fn lines(quoted: &Range<u64>, text: Plain) -> Body {
    let content = Content::Unescaped(quoted.clone());
    let held = Held::lines(content, text.lines, Some(text.digest));
    Body { shown: Shown::Plain(text), held, document: None }
}

impl Content {
    /// Gives the bytes to `take`, piece by piece.
    pub(super) fn each<E>(
        &self,
        chunks: &Chunks<'_>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), ReadError<E>> {
        let (outer, inner) = match self {
            Self::Raw(range) => return chunks.each(range.clone(), take),
            Self::Unescaped(quoted) => return chunks.each_unescaped(quoted.clone(), take),
            Self::Inner { outer, inner } => (outer, chunks::within_quotes(inner)),
        };
        let (mut at, mut unescape, mut out) = (0, Unescape::new(), vec![]);
        let read = chunks.each_unescaped(outer.clone(), |text| {
            let piece = overlap(text, at, &inner);
            at += text.len() as u64;
            out.clear();
            unescape.push(piece, &mut out).map_err(ReadError::from)?;
            take(&out).map_err(ReadError::Taker)
        });
        match read {
            Err(ReadError::Taker(error)) => Err(error),
            Err(ReadError::Source(error)) => Err(ReadError::Source(error)),
            Err(ReadError::Lone) => Err(ReadError::Lone),
            Ok(()) => Ok(unescape.finish()?),
        }
    }
}

/// Of bytes that start at an offset, those in a range.
fn overlap<'t>(text: &'t [u8], at: u64, range: &Range<u64>) -> &'t [u8] {
    let local = |offset: u64| {
        usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(text.len())
    };
    text.get(local(range.start)..local(range.end)).unwrap_or_default()
}

fn narrow(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// A document that was read.
#[derive(Debug)]
struct Document {
    sketch: Sketch,
    digest: Digest,
}

impl Document {
    /// Texts and numbers alone are also JSON, but nobody means that.
    fn is_list_or_object(&self) -> bool {
        matches!(self.sketch.root().kind, Token::Object | Token::Array)
    }
}

/// What was read: nothing, if it is not JSON.
#[derive(Debug, Default)]
struct Read(Option<(Document, Oddities)>);

impl Read {
    /// The document, if collections can read it.
    fn readable(self) -> Option<Document> {
        self.0.filter(|(_, oddities)| !oddities.any()).map(|(document, _)| document)
    }
}

#[derive(Debug)]
struct DocumentReading {
    lexer: Lexer,
    sinks: (Sketcher, ValueDigest),
}

impl DocumentReading {
    fn new(at: u64, limit: usize) -> Self {
        Self { lexer: Lexer::starting_at(at), sinks: (Sketcher::new(limit), ValueDigest::new()) }
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), NotJson> {
        self.lexer.feed(piece, &mut self.sinks)
    }

    fn finish(mut self) -> Result<Read, NotJson> {
        let oddities = self.lexer.finish(&mut self.sinks)?;
        let (sketcher, digest) = self.sinks;
        let document = sketcher.finish().map(|sketch| Document { sketch, digest: digest.finish() });
        Ok(Read(document.map(|document| (document, oddities))))
    }
}
