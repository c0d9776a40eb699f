//! What may be shown of a JSON document of any size: its first items, in bounded memory.
//!
//! One pass over the document writes a short copy of it, without white space: of each array its
//! first items, of each text its start, of each object its members. Every cut that is tried
//! afterwards is made of that copy, which is valid JSON itself.

use std::ops::Range;

use crate::json::lexer::{Sink, Token};
use crate::json::unescape;

/// A value that is whole and has no more bytes is shown or not, and never looked into.
pub(super) const SMALL_BYTES: usize = 256;

/// A member with a longer name is not shown. Nor is one whose name takes more than a quarter of a
/// cut, where nothing else would have room.
const NAME_BYTES: usize = 64 << 10;

/// A name of so many bytes is shown however small the cut is.
const SHORT_NAME_BYTES: usize = 256;

/// A longer number is shown as null: no double needs a tenth of it.
const NUMBER_BYTES: usize = 1024;

/// A document, as far as it may be shown.
#[derive(Debug)]
pub(super) struct Sketch {
    text: Vec<u8>,
    root: Node,
}

/// A value of the document.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Token,
    /// Where it is in the sketch.
    pub(super) text: Range<usize>,
    /// Where it is in the document.
    pub(super) source: Range<u64>,
    /// Whether all of it is in the sketch.
    pub(super) whole: bool,
    /// How many elements or members it has in the document.
    pub(super) total: u64,
    /// How many of the first of them are in the sketch: behind those may be others.
    pub(super) leading: usize,
    /// Where those start that are in the sketch, the names of members included.
    starts: Vec<u32>,
    /// Of those, the ones that are not small, by number.
    large: Vec<(u32, Self)>,
}

/// An element or member in the sketch.
#[derive(Clone, Debug)]
pub(super) struct Child<'a> {
    /// Where it is, with its name.
    pub(super) text: Range<usize>,
    /// If it is not small.
    pub(super) node: Option<&'a Node>,
}

impl Sketch {
    pub(super) const fn root(&self) -> &Node {
        &self.root
    }

    /// Bytes of the sketch.
    pub(super) fn slice(&self, range: Range<usize>) -> &[u8] {
        self.text.get(range).unwrap_or_default()
    }

    /// The name of a member, quoted; empty for an element.
    pub(super) fn name(&self, child: &Child<'_>) -> &[u8] {
        let text = self.slice(child.text.clone());
        let length = match child.node {
            Some(node) => node.text.start.saturating_sub(child.text.start + 1),
            None => quoted_length(text),
        };
        text.get(..length).unwrap_or_default()
    }
}

/// The length of the JSON text at the start.
fn quoted_length(text: &[u8]) -> usize {
    unescape::whole_characters(text, text.len()) + 1
}

impl Node {
    /// How many bytes it has in the document.
    pub(super) const fn bytes(&self) -> u64 {
        self.source.end.saturating_sub(self.source.start)
    }

    /// The elements or members that are in the sketch. A small node has forgotten them.
    pub(super) fn children(&self) -> impl Iterator<Item = Child<'_>> {
        let mut large = self.large.iter().peekable();
        (0_u32..).zip(&self.starts).map(move |(number, start)| {
            let next = self.starts.get(number as usize + 1).copied();
            // Before the comma, or the bracket.
            let end = next.map_or(self.text.end, |next| next as usize) - 1;
            let node = large.next_if(|(of, _)| *of == number).map(|(_, node)| node);
            Child { text: *start as usize..end, node }
        })
    }

    /// How many items it has when it is read.
    pub(super) const fn items(&self) -> u64 {
        if self.kind.is_container() { self.total } else { 1 }
    }

    /// Whether all elements or members are in the sketch, if only in part.
    pub(super) fn has_all(&self) -> bool {
        self.starts.len() as u64 == self.total
    }

    const fn is_small(&self) -> bool {
        self.whole && self.text.end - self.text.start <= SMALL_BYTES
    }
}

/// Makes a sketch.
#[derive(Debug)]
pub(super) struct Sketcher {
    text: Vec<u8>,
    /// What is shown of one array or one text at most.
    limit: usize,
    /// What is shown of one name at most.
    name: usize,
    /// When the sketch has so many bytes, arrays and texts that start from there on are shown
    /// empty.
    soft: usize,
    /// When it has so many, nothing is shown any more.
    hard: usize,
    open: Vec<Open>,
    /// What is being written, which is no array or object.
    leaf: Leaf,
    /// The value that follows is not shown: its name was not.
    skip: bool,
    /// So many values that are not shown have begun and not ended.
    muted: u64,
    root: Option<Node>,
}

/// An array or object that has not ended.
#[derive(Debug)]
struct Open {
    kind: Token,
    text: usize,
    source: u64,
    room: usize,
    whole: bool,
    total: u64,
    /// How many were shown before the first one that was not.
    leading: Option<usize>,
    starts: Vec<u32>,
    large: Vec<(u32, Node)>,
}

#[derive(Debug)]
enum Leaf {
    /// Nothing, or something that is not shown.
    Muted,
    Shown {
        text: usize,
        source: u64,
        room: usize,
        whole: bool,
    },
}

/// What sketches take beside the limit, at most.
const SOFT_EXTRA: usize = 1 << 20;

impl Sketcher {
    /// For cuts of up to so many bytes.
    pub(super) fn new(limit: usize) -> Self {
        // Offsets have 32 bits, and several sketches are there at once.
        let limit = limit.min(64 << 20);
        let soft = limit + (3 * limit).min(SOFT_EXTRA);
        let name = (limit / 4).clamp(SHORT_NAME_BYTES, NAME_BYTES);
        let hard = soft + limit + name;
        Self {
            text: vec![],
            limit,
            name,
            soft,
            hard,
            open: vec![],
            leaf: Leaf::Muted,
            skip: false,
            muted: 0,
            root: None,
        }
    }

    /// The sketch, if the document has ended.
    pub(super) fn finish(self) -> Option<Sketch> {
        let root = self.root?;
        Some(Sketch { text: self.text, root })
    }

    /// What an array or text may take that starts here.
    fn room(&self) -> usize {
        if self.text.len() < self.soft { self.limit } else { 0 }
    }

    /// Counts an element or member, and says whether it is shown.
    fn admit(&mut self) -> bool {
        let length = self.text.len();
        let Some(parent) = self.open.last_mut() else { return true };
        parent.total += 1;
        let is_room = match parent.kind {
            Token::Array => length - parent.text <= parent.room,
            _ => parent.room > 0,
        };
        if !is_room || length >= self.hard {
            parent.whole = false;
            return false;
        }
        if !parent.starts.is_empty() {
            self.text.push(b',');
        }
        parent.starts.push(narrow(self.text.len()));
        true
    }

    fn begin_leaf(&mut self, room: usize, source: u64) {
        self.leaf = Leaf::Shown { text: self.text.len(), source, room, whole: true };
    }

    /// A name that is too long takes its member with it.
    fn end_name(&mut self) {
        match self.leaf {
            Leaf::Shown { whole: true, .. } => {
                self.text.push(b':');
                self.leaf = Leaf::Muted;
            }
            Leaf::Shown { .. } => {
                if let Some(parent) = self.open.last_mut() {
                    let start = parent.starts.pop().unwrap_or_default() as usize;
                    let comma = usize::from(!parent.starts.is_empty());
                    self.text.truncate(start - comma);
                    parent.whole = false;
                    parent.leading.get_or_insert(parent.starts.len());
                }
                self.leaf = Leaf::Muted;
                self.skip = true;
            }
            Leaf::Muted => {}
        }
    }

    fn end_leaf(&mut self, kind: Token, end: u64) {
        let Leaf::Shown { text, source, whole, .. } = self.leaf else { return };
        self.leaf = Leaf::Muted;
        if !whole {
            let written = self.text.get(text..).unwrap_or_default();
            match kind {
                Token::Text => {
                    let length = unescape::whole_characters(written, written.len()).max(1);
                    self.text.truncate(text + length);
                    self.text.push(b'"');
                }
                _ => {
                    self.text.truncate(text);
                    self.text.extend_from_slice(b"null");
                }
            }
        }
        let text = text..self.text.len();
        self.ended(Node {
            kind,
            text,
            source: source..end,
            whole,
            total: 0,
            leading: 0,
            starts: vec![],
            large: vec![],
        });
    }

    fn end_container(&mut self, kind: Token, end: u64) {
        let Some(open) = self.open.pop() else { return };
        self.text.push(if kind == Token::Object { b'}' } else { b']' });
        let Open { text, source, whole, total, leading, starts, large, .. } = open;
        let text = text..self.text.len();
        let leading = leading.unwrap_or(starts.len());
        self.ended(Node { kind, text, source: source..end, whole, total, leading, starts, large });
    }

    fn ended(&mut self, node: Node) {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        parent.whole &= node.whole;
        if !node.is_small() {
            parent.large.push((narrow(parent.starts.len()).saturating_sub(1), node));
        }
    }
}

impl Sink for Sketcher {
    fn begin(&mut self, token: Token, at: u64) {
        if self.muted > 0 || self.skip {
            self.muted += u64::from(token != Token::Name);
            self.skip = false;
            return;
        }
        let is_member = self.open.last().is_some_and(|parent| parent.kind == Token::Object);
        if (token == Token::Name) == is_member && !self.admit() {
            match token {
                Token::Name => self.skip = true,
                _ => self.muted = 1,
            }
            return;
        }
        match token {
            Token::Name => self.begin_leaf(self.name, at),
            Token::Text => self.begin_leaf(self.room().max(2), at),
            Token::Number | Token::Word => self.begin_leaf(NUMBER_BYTES, at),
            Token::Object | Token::Array => {
                let (text, room) = (self.text.len(), self.room());
                self.text.push(if token == Token::Object { b'{' } else { b'[' });
                self.open.push(Open {
                    kind: token,
                    text,
                    source: at,
                    room,
                    whole: true,
                    total: 0,
                    leading: None,
                    starts: vec![],
                    large: vec![],
                });
            }
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        let Leaf::Shown { text, room, whole, .. } = &mut self.leaf else { return };
        let left = (*text + *room).saturating_sub(self.text.len());
        let taken = bytes.get(..left).unwrap_or(bytes);
        *whole &= taken.len() == bytes.len();
        self.text.extend_from_slice(taken);
    }

    fn end(&mut self, token: Token, at: u64) {
        if self.muted > 0 {
            self.muted -= u64::from(token != Token::Name);
            return;
        }
        match token {
            Token::Name => self.end_name(),
            Token::Object | Token::Array => self.end_container(token, at),
            Token::Text | Token::Number | Token::Word => self.end_leaf(token, at),
        }
    }
}

/// Sketches have fewer bytes than that.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
