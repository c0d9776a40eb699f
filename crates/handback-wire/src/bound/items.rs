//! Where in a document most of it is: what its items are when it is read.

use std::fmt::Write as _;

use handback_page::json::Pointer;

use super::sketch::{Child, Node, Sketch};
use crate::json::lexer::Token;

/// An object with more members is a list of them. One with fewer is a record: each of its members
/// says something else, and should be shown, if only in part.
pub(super) const RECORD_MEMBERS: u64 = 32;

/// A longer pointer is more than a notice has room for: written twice, with every character
/// escaped, it still fits into what a part is allowed.
const POINTER_BYTES: usize = 100;

/// The list among several members is the heaviest one, unless a text beside it is so many times as
/// heavy.
const LIST_SHARE: u64 = 4;

/// What is cut, and how it is read later.
#[derive(Debug)]
pub(super) struct Items<'a> {
    /// From the root of the document.
    pub(super) pointer: Pointer,
    pub(super) node: &'a Node,
    /// Whether it is a list: an array, or an object with many members. Otherwise it is what came
    /// nearest to one.
    pub(super) is_list: bool,
}

impl<'a> Items<'a> {
    /// The deepest list that most of the document is in.
    pub(super) fn of(sketch: &'a Sketch) -> Self {
        let (mut tokens, mut node) = (vec![], sketch.root());
        loop {
            let is_list = match node.kind {
                Token::Array => node.total > 1,
                Token::Object => node.total > RECORD_MEMBERS,
                _ => false,
            };
            let inner = if is_list { None } else { inner(sketch, node) };
            let Some((token, next)) = inner.filter(|(token, _)| fits(&tokens, token)) else {
                // What is no list is read from its root: its members are items.
                let tokens = if is_list { tokens } else { vec![] };
                return Self { pointer: pointer(&tokens), node, is_list };
            };
            tokens.push(token);
            node = next;
        }
    }

    /// How many items there are when it is read.
    pub(super) fn total(&self, sketch: &Sketch) -> u64 {
        if self.is_list { self.node.total } else { sketch.root().items() }
    }
}

/// The heaviest text of a document, and where it is.
#[derive(Debug)]
pub(super) struct LongText<'a> {
    pub(super) pointer: Pointer,
    pub(super) node: &'a Node,
}

impl<'a> LongText<'a> {
    /// The text without which the document is shown whole in so many bytes; if there is one.
    pub(super) fn of(sketch: &'a Sketch, room: usize) -> Option<Self> {
        let (mut tokens, mut node) = (vec![], sketch.root());
        loop {
            if node.kind == Token::Text {
                let others = sketch.root().text.len().saturating_sub(node.text.len());
                let pointer = pointer(&tokens);
                return (others <= room).then_some(Self { pointer, node });
            }
            let child = heaviest(node)?;
            let token = token_of(sketch, node, &child)?;
            if !fits(&tokens, &token) {
                return None;
            }
            tokens.push(token);
            node = child.1.node?;
        }
    }
}

/// The heaviest child, with its number, if all others are whole.
fn heaviest(node: &Node) -> Option<(usize, Child<'_>)> {
    if !node.has_all() {
        return None;
    }
    let (number, heaviest) = node.children().enumerate().max_by_key(|(_, child)| bytes(child))?;
    let is_whole = |child: Child<'_>| child.node.is_none_or(|node| node.whole);
    let others = node.children().enumerate().filter(|(other, _)| *other != number);
    others.map(|(_, child)| child).all(is_whole).then_some((number, heaviest))
}

/// What a child has in the document; what is small counts for nothing.
fn bytes(child: &Child<'_>) -> u64 {
    child.node.map_or(0, Node::bytes)
}

/// The array or object in a value that most of it is in, and how to get there.
fn inner<'a>(sketch: &'a Sketch, node: &'a Node) -> Option<(String, &'a Node)> {
    let heaviest = node.children().map(|child| bytes(&child)).max()?;
    let child = node
        .children()
        .enumerate()
        .filter(|(_, child)| child.node.is_some_and(|node| node.kind.is_container()))
        .max_by_key(|(_, child)| bytes(child))?;
    if bytes(&child.1).saturating_mul(LIST_SHARE) < heaviest {
        return None;
    }
    Some((token_of(sketch, node, &child)?, child.1.node?))
}

/// The name or number of a child, if it leads to this child and no other.
fn token_of(sketch: &Sketch, node: &Node, child: &(usize, Child<'_>)) -> Option<String> {
    let (number, child) = child;
    if node.kind == Token::Array {
        return Some(number.to_string());
    }
    let name = decoded(sketch.name(child))?;
    // Where several members have one name, readers differ.
    let same = |other: &Child<'_>| decoded(sketch.name(other)).as_ref() == Some(&name);
    let is_alone =
        node.has_all() && node.total <= RECORD_MEMBERS && node.children().filter(same).count() == 1;
    is_alone.then_some(name)
}

/// What a name stands for.
pub(super) fn decoded(quoted: &[u8]) -> Option<String> {
    serde_json::from_slice(quoted).ok()
}

/// Whether a pointer with one token more is short enough.
pub(super) fn fits(tokens: &[String], token: &str) -> bool {
    let length: usize = tokens.iter().map(|token| token.len() + 1).sum();
    length + token.len() < POINTER_BYTES && token.chars().all(|c| !c.is_control())
}

fn pointer(tokens: &[String]) -> Pointer {
    Pointer::from_tokens(tokens.iter().cloned())
}

/// The members of an object with their kinds and sizes, or of an array; in so many bytes.
pub(super) fn outline(sketch: &Sketch, node: &Node, room: usize) -> String {
    let mut out = String::new();
    let mut shown = 0;
    for child in node.children() {
        let line = outlined(sketch, &child);
        if out.len() + line.len() > room {
            break;
        }
        out.push_str(if shown == 0 { "" } else { ", " });
        out.push_str(&line);
        shown += 1;
    }
    if shown < node.total {
        let _ = write!(out, "{}{} more", if shown == 0 { "" } else { ", " }, node.total - shown);
    }
    out
}

fn outlined(sketch: &Sketch, child: &Child<'_>) -> String {
    let quoted = sketch.name(child);
    let name = decoded(quoted).unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    let text = sketch.slice(child.text.clone());
    // A name is followed by a colon.
    let value = text.get(quoted.len() + usize::from(!quoted.is_empty())..).unwrap_or_default();
    let kind = match value.first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "text",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    };
    let bytes = child.node.map_or(value.len() as u64, Node::bytes);
    format!("{name} ({kind}, {bytes} bytes)")
}
