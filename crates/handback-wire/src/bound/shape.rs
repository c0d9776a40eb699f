//! The members and blocks of a result: what they are and where, whatever their size.

use std::ops::Range;

use super::chunks::{Chunks, ReadError};
use super::media::{Form, Found, MediaScan};
use crate::json::lexer::{Lexer, NotJson, Sink, Token};

/// A result with more members is not looked into: those of the protocol are five.
const MEMBERS_MAX: usize = 64;

/// Of more blocks only the first are looked into, and their array is cut as a whole.
pub(super) const BLOCKS_MAX: usize = 64;

/// Longer names are none that anybody knows.
const NAME_BYTES: usize = 128;

/// Where the parts of a result are.
#[derive(Debug)]
pub(super) struct Shape {
    /// Of the result, in their order; none if it is no object.
    pub(super) members: Vec<Member>,
    /// The elements of `content`, as far as they are looked into.
    pub(super) blocks: Vec<Block>,
    /// How many there are.
    pub(super) block_count: u64,
    /// The members of `_meta`.
    pub(super) meta: Vec<Member>,
    /// Whether `_meta` is an object whose members differ, or is not there.
    pub(super) is_meta_plain: bool,
    /// Whether the result is what can be taken apart: an object whose members have names that are
    /// known, and differ.
    pub(super) is_plain: bool,
}

/// A member and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) kind: Token,
    pub(super) value: Range<u64>,
}

/// An element of `content`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) value: Range<u64>,
    pub(super) members: Vec<Member>,
    /// The members of its member `resource`.
    pub(super) resource: Vec<Member>,
    /// Whether it is an object whose members differ, and so are those of its resource.
    pub(super) is_plain: bool,
}

/// The member of this name.
pub(super) fn find<'a>(members: &'a [Member], name: &str) -> Option<&'a Member> {
    members.iter().find(|member| member.name == name)
}

impl Shape {
    /// Reads a result from its first byte to its last: its parts, and the media in it. A result that
    /// cannot be taken apart has no media.
    pub(super) fn read(chunks: &Chunks<'_>) -> Result<(Self, Found), ReadError<NotJson>> {
        let (mut lexer, mut sinks) = (Lexer::new(), (Walk::new(), MediaScan::new(Form::Result)));
        chunks.each(chunks.all(), |piece| lexer.feed(piece, &mut sinks))?;
        lexer.finish(&mut sinks).map_err(ReadError::Taker)?;
        let (walk, scan) = sinks;
        let shape = walk.finish();
        let media = if shape.is_plain { scan.finish() } else { Found::default() };
        Ok((shape, media))
    }

    /// A result without members.
    pub(super) fn empty() -> Self {
        Self {
            members: vec![],
            blocks: vec![],
            block_count: 0,
            meta: vec![],
            is_meta_plain: true,
            is_plain: true,
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Member> {
        find(&self.members, name)
    }
}

/// An array or object whose members are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Result,
    Content,
    Block,
    Resource,
    Meta,
}

#[derive(Debug)]
struct Open {
    watched: Option<Watched>,
    start: u64,
    /// What it is called in what it is in, if that is watched.
    name: Option<String>,
}

#[derive(Debug)]
struct Walk {
    open: Vec<Open>,
    /// Where the value starts that is no array or object.
    start: u64,
    naming: bool,
    /// The name that came last in something watched, quoted.
    name: Vec<u8>,
    /// The block that has not ended.
    block: Block,
    shape: Shape,
}

const NO_BLOCK: Block = Block { value: 0..0, members: vec![], resource: vec![], is_plain: true };

impl Walk {
    fn new() -> Self {
        let shape = Shape::empty();
        let name = Vec::with_capacity(NAME_BYTES);
        Self { open: vec![], start: 0, naming: false, name, block: NO_BLOCK, shape }
    }

    fn finish(self) -> Shape {
        let mut shape = self.shape;
        shape.is_plain &= differ(&shape.members);
        let meta = shape.find("_meta").map(|meta| meta.kind);
        shape.is_meta_plain &= meta.is_none_or(|kind| kind == Token::Object) && differ(&shape.meta);
        shape
    }

    fn opened(&mut self, token: Token, start: u64) {
        let parent = self.open.last().map(|parent| parent.watched);
        let name = parent.flatten().and_then(|_| self.decoded());
        let watched = match (parent, token, name.as_deref()) {
            (None, Token::Object, _) => Some(Watched::Result),
            (Some(Some(Watched::Result)), Token::Array, Some("content")) => Some(Watched::Content),
            (Some(Some(Watched::Content)), Token::Object, _)
                if self.shape.blocks.len() < BLOCKS_MAX =>
            {
                Some(Watched::Block)
            }
            (Some(Some(Watched::Result)), Token::Object, Some("_meta")) => Some(Watched::Meta),
            (Some(Some(Watched::Block)), Token::Object, Some("resource")) => {
                Some(Watched::Resource)
            }
            _ => None,
        };
        self.open.push(Open { watched, start, name });
    }

    fn decoded(&self) -> Option<String> {
        serde_json::from_slice(&self.name).ok()
    }

    /// A value ended; if it is an array or object, with what was noted of it.
    fn ended(&mut self, kind: Token, value: Range<u64>, was: Option<Open>) {
        let Some(parent) = self.open.last() else {
            self.shape.is_plain &= kind == Token::Object;
            return;
        };
        match (parent.watched, was) {
            (None, _) => {}
            (Some(Watched::Content), was) => {
                self.block_ended(value, was.and_then(|open| open.watched));
            }
            (Some(watched), Some(open)) => self.member_ended(watched, open.name, kind, value),
            (Some(watched), None) => self.member_ended(watched, self.decoded(), kind, value),
        }
    }

    fn block_ended(&mut self, value: Range<u64>, was: Option<Watched>) {
        self.shape.block_count += 1;
        let mut block = std::mem::replace(&mut self.block, NO_BLOCK);
        if self.shape.blocks.len() >= BLOCKS_MAX {
            return;
        }
        block.value = value;
        block.is_plain &=
            was == Some(Watched::Block) && differ(&block.members) && differ(&block.resource);
        self.shape.blocks.push(block);
    }

    fn member_ended(&mut self, of: Watched, name: Option<String>, kind: Token, value: Range<u64>) {
        let (members, is_plain) = match of {
            Watched::Resource => (&mut self.block.resource, &mut self.block.is_plain),
            Watched::Block => (&mut self.block.members, &mut self.block.is_plain),
            Watched::Meta => (&mut self.shape.meta, &mut self.shape.is_meta_plain),
            _ => (&mut self.shape.members, &mut self.shape.is_plain),
        };
        match name {
            Some(name) if members.len() < MEMBERS_MAX => members.push(Member { name, kind, value }),
            _ => *is_plain = false,
        }
    }
}

impl Sink for Walk {
    fn begin(&mut self, token: Token, at: u64) {
        match token {
            Token::Name => {
                self.naming = self.open.last().is_some_and(|parent| parent.watched.is_some());
                if self.naming {
                    self.name.clear();
                }
            }
            Token::Object | Token::Array => self.opened(token, at),
            Token::Text | Token::Number | Token::Word => self.start = at,
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        if self.naming {
            // One that is cut off is not quoted, and none that is known.
            let left = NAME_BYTES - self.name.len();
            self.name.extend_from_slice(bytes.get(..left).unwrap_or(bytes));
        }
    }

    fn end(&mut self, token: Token, at: u64) {
        match token {
            Token::Name => self.naming = false,
            Token::Object | Token::Array => {
                let Some(open) = self.open.pop() else { return };
                self.ended(token, open.start..at, Some(open));
            }
            Token::Text | Token::Number | Token::Word => self.ended(token, self.start..at, None),
        }
    }
}

/// Whether no two members have one name.
fn differ(members: &[Member]) -> bool {
    let mut names: Vec<_> = members.iter().map(|member| &member.name).collect();
    names.sort_unstable();
    names.windows(2).all(|pair| pair.first() != pair.last())
}
