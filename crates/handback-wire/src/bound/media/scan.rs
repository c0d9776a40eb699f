//! Finds media blocks in JSON that arrives in pieces.

use std::ops::Range;

use super::{MediaBlock, MediaKind};
use crate::json::lexer::{Sink, Token};

/// Media blocks that are remembered at most, of one value. The bytes of all others are counted, too.
const BLOCKS_MAX: usize = 4_096;

/// Ends of blocks that are remembered at most: a client is shown far fewer at once.
const ENDS_MAX: usize = 16_384;

/// Bytes of a name, a type or a media type that are looked at, with quotes.
const WORD_BYTES: usize = 128;

/// Levels of an array of blocks down to the members of a resource.
const LEVELS: usize = 5;

/// The place of content blocks in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Form {
    /// The elements of the member `content` of the value.
    Result,
    /// The elements of the value.
    Array,
    /// The value itself.
    Block,
}

/// The end of a block, and the media bytes in all blocks up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct End {
    pub(in super::super) at: u64,
    pub(in super::super) media: u64,
}

/// The media blocks of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Found {
    pub(in super::super) blocks: Vec<MediaBlock>,
    /// The ends of the first blocks, whatever they are.
    pub(in super::super) ends: Vec<End>,
    /// Bytes of the media of all blocks, as base64 with quotes.
    pub(in super::super) bytes: u64,
    /// Number of media blocks.
    pub(in super::super) count: u64,
}

impl Found {
    /// The media block of this number.
    pub(in super::super) fn block(&self, number: u64) -> Option<&MediaBlock> {
        let place = self.blocks.binary_search_by_key(&number, |block| block.number).ok()?;
        self.blocks.get(place)
    }
}

/// A container on the path to the members of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Result,
    Blocks,
    Block,
    Resource,
    Other,
}

/// The members that make a block a media block.
#[derive(Debug, Default)]
struct Draft {
    start: u64,
    kind: Option<String>,
    media_type: Option<String>,
    data: Option<Range<u64>>,
    blob: Option<Range<u64>>,
    /// The members that were there, by their place in [`MEMBERS`].
    seen: u8,
    /// A member that matters is there twice: readers differ about the block.
    is_unclear: bool,
}

/// Members that make a block a media block.
const MEMBERS: [(Level, &str); 6] = [
    (Level::Block, "type"),
    (Level::Block, "mimeType"),
    (Level::Block, "data"),
    (Level::Block, "resource"),
    (Level::Resource, "mimeType"),
    (Level::Resource, "blob"),
];

/// Takes tokens of a value, and finds its media blocks.
#[derive(Debug)]
pub(in super::super) struct MediaScan {
    form: Form,
    open: Vec<Level>,
    /// Containers below the last one of `open`.
    below: u64,
    name: Vec<u8>,
    word: Vec<u8>,
    /// True if the bytes of a name, or of a text, are collected.
    is_naming: bool,
    is_reading: bool,
    start: u64,
    draft: Draft,
    blocks_seen: u64,
    found: Found,
}

impl MediaScan {
    pub(in super::super) fn new(form: Form) -> Self {
        Self {
            form,
            open: Vec::with_capacity(LEVELS),
            below: 0,
            name: Vec::with_capacity(WORD_BYTES),
            word: Vec::with_capacity(WORD_BYTES),
            is_naming: false,
            is_reading: false,
            start: 0,
            draft: Draft::default(),
            blocks_seen: 0,
            found: Found::default(),
        }
    }

    pub(in super::super) fn finish(self) -> Found {
        self.found
    }

    /// The level of a container that begins now.
    fn level(&self, token: Token) -> Level {
        let is_named = |name: &str| text(&self.name).is_some_and(|named| named == name);
        match (self.open.last(), token, self.form) {
            (None, Token::Object, Form::Result) => Level::Result,
            (None, Token::Array, Form::Array) => Level::Blocks,
            (Some(Level::Result), Token::Array, _) if is_named("content") => Level::Blocks,
            (None, Token::Object, Form::Block) | (Some(Level::Blocks), Token::Object, _) => {
                Level::Block
            }
            (Some(Level::Block), Token::Object, _) if is_named("resource") => Level::Resource,
            _ => Level::Other,
        }
    }

    /// A name ended in a block or its resource.
    fn name_ended(&mut self, level: Level) {
        let name = text(&self.name);
        let is_it = |(of, known): &(Level, &str)| *of == level && name.as_deref() == Some(*known);
        if let Some(place) = MEMBERS.iter().position(is_it) {
            let bit = 1 << place;
            self.draft.is_unclear |= self.draft.seen & bit != 0;
            self.draft.seen |= bit;
        }
    }

    /// A text ended that is a member of a block or its resource.
    fn member_ended(&mut self, level: Level, value: Range<u64>) {
        let draft = &mut self.draft;
        match (level, text(&self.name).as_deref()) {
            (Level::Block, Some("type")) => draft.kind = text(&self.word),
            (_, Some("mimeType")) => draft.media_type = text(&self.word),
            (Level::Block, Some("data")) => draft.data = Some(value),
            (Level::Resource, Some("blob")) => draft.blob = Some(value),
            _ => {}
        }
    }

    fn block_ended(&mut self, end: u64) {
        let number = self.blocks_seen;
        self.blocks_seen += 1;
        let Draft { start, kind, media_type, data, blob, is_unclear, .. } =
            std::mem::take(&mut self.draft);
        let media = match (kind.as_deref(), data, blob) {
            (Some("image"), Some(data), None) => Some((MediaKind::Image, data)),
            (Some("audio"), Some(data), None) => Some((MediaKind::Audio, data)),
            (Some("resource"), None, Some(blob)) => Some((MediaKind::Resource, blob)),
            _ => None,
        };
        if let Some((kind, data)) = media.filter(|_| !is_unclear) {
            self.found.bytes += data.end - data.start;
            self.found.count += 1;
            if self.found.blocks.len() < BLOCKS_MAX {
                let block = MediaBlock { number, kind, media_type, block: start..end, data };
                self.found.blocks.push(block);
            }
        }
        self.ended_at(end);
    }

    fn ended_at(&mut self, at: u64) {
        if self.found.ends.len() < ENDS_MAX {
            self.found.ends.push(End { at, media: self.found.bytes });
        }
    }
}

impl Sink for MediaScan {
    fn begin(&mut self, token: Token, at: u64) {
        if self.below > 0 {
            self.below += u64::from(token.is_container());
            return;
        }
        match token {
            Token::Name => {
                self.is_naming = true;
                self.name.clear();
            }
            Token::Object | Token::Array => match self.level(token) {
                Level::Other => self.below = 1,
                level => {
                    if level == Level::Block {
                        self.draft = Draft { start: at, ..Draft::default() };
                    }
                    self.open.push(level);
                }
            },
            Token::Text => {
                self.start = at;
                self.is_reading = true;
                self.word.clear();
            }
            Token::Number | Token::Word => {}
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        let collected = match (self.is_naming, self.is_reading) {
            (true, _) => &mut self.name,
            (_, true) => &mut self.word,
            _ => return,
        };
        // One that is cut off is not quoted, and none that matters.
        let left = WORD_BYTES - collected.len();
        collected.extend_from_slice(bytes.get(..left).unwrap_or(bytes));
    }

    fn end(&mut self, token: Token, at: u64) {
        let level = self.open.last().copied();
        if self.below > 0 {
            self.below -= u64::from(token.is_container());
            if self.below == 0 && level == Some(Level::Blocks) {
                self.blocks_seen += 1;
                self.ended_at(at);
            }
            return;
        }
        match token {
            Token::Name => {
                self.is_naming = false;
                if let Some(level @ (Level::Block | Level::Resource)) = level {
                    self.name_ended(level);
                }
            }
            Token::Object | Token::Array => {
                self.open.pop();
                if level == Some(Level::Block) {
                    self.block_ended(at);
                }
            }
            Token::Text | Token::Number | Token::Word => {
                self.is_reading = false;
                match level {
                    Some(level @ (Level::Block | Level::Resource)) if token == Token::Text => {
                        self.member_ended(level, self.start..at);
                    }
                    Some(Level::Blocks) => {
                        self.blocks_seen += 1;
                        self.ended_at(at);
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The text that JSON in quotes stands for.
fn text(quoted: &[u8]) -> Option<String> {
    serde_json::from_slice(quoted).ok()
}
