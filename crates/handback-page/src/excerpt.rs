//! Values inside of a source, by JSON pointer, whole or in pieces.

use std::ops::Range;

use serde_json::json;

use crate::collection::CollectionError;
use crate::json::stored::whole_characters;
use crate::json::window;
use crate::json::{ByteSource, Pointer};

/// How much of a value is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "collections serve both")]
pub enum Extent {
    /// All of it, if it has at most so many bytes; else only what it is.
    Whole {
        /// How many.
        max_bytes: usize,
    },
    /// A piece of its text.
    Piece {
        /// How many bytes are before it.
        from: u64,
        /// How many bytes it has at most.
        max_bytes: usize,
    },
}

/// What is at a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is another answer")]
pub enum Located {
    /// The source has no pointers: it is neither JSON nor text.
    NotJson,
    /// No value.
    Nothing,
    /// This.
    Found(Excerpt),
}

/// A value, or a piece of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections make it")]
pub struct Excerpt {
    /// What the value is: "array", "object", "string", "number", "boolean", "null"; or "text", which is
    /// no JSON.
    pub kind: &'static str,
    /// How many bytes the text of the value has.
    pub size_bytes: u64,
    /// How many of them are before `text`.
    pub from: u64,
    /// What was asked for, cut between characters. `None` for a whole value that is too long.
    pub text: Option<String>,
}

/// An item that is too long to be read: it is shown in part, and not looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections make it")]
pub struct LongItem {
    /// What it is, how many bytes it has, and how its text starts.
    pub start: Excerpt,
    /// The key of the item, if that is a number that is not in it.
    pub id: Option<u64>,
    /// Where the text goes on behind its start: a pointer that
    /// [`Collection::value_at`](crate::Collection::value_at) takes, and a byte of the value there.
    pub read_on: Option<(Pointer, u64)>,
}

impl LongItem {
    /// Bytes of the text of an item that are its start: enough to know what it is.
    pub(crate) const START: Extent = Extent::Piece { from: 0, max_bytes: 4096 };

    /// How its text starts.
    pub(crate) fn text(&self) -> &str {
        self.start.text.as_deref().unwrap_or_default()
    }

    /// What stands in its place where an item is expected, without how to read on.
    pub(crate) fn to_json(&self) -> String {
        let Excerpt { kind, size_bytes, .. } = self.start;
        let text = self.text();
        json!({EXCERPT: {"kind": kind, "bytes": size_bytes, "text": text, "next": text.len()}})
            .to_string()
    }
}

/// A member that no item of a page is taken for: it stands in the place of a value that is larger
/// than what is shown at once.
pub(crate) const EXCERPT: &str = "$excerpt";

impl Excerpt {
    /// Of a JSON value that is in these bytes of a source.
    pub(crate) fn of_json(
        source: &dyn ByteSource,
        value: Range<u64>,
        extent: Extent,
    ) -> Result<Self, CollectionError> {
        let first = window::read(source, value.start..value.end.min(value.start + 1))?;
        Self::of(source, value, kind(first.first().copied()), extent)
    }

    /// Of what is in these bytes of a source.
    pub(crate) fn of(
        source: &dyn ByteSource,
        value: Range<u64>,
        kind: &'static str,
        extent: Extent,
    ) -> Result<Self, CollectionError> {
        let size_bytes = value.end.saturating_sub(value.start);
        let (from, max_bytes) = match extent {
            Extent::Whole { max_bytes } if size_bytes > max_bytes as u64 => {
                return Ok(Self { kind, size_bytes, from: 0, text: None });
            }
            Extent::Whole { max_bytes } => (0, max_bytes),
            Extent::Piece { from, max_bytes } => (from.min(size_bytes), max_bytes),
        };
        let start = value.start + from;
        let end = value.end.min(start.saturating_add(max_bytes as u64));
        let mut bytes = window::read(source, start..end)?.into_owned();
        if end < value.end {
            bytes.truncate(whole_characters(&bytes));
        }
        // Whoever asks from inside of a character gets what follows it.
        let is_inside = |byte: &&u8| **byte & 0xc0 == 0x80;
        let inside = if from == 0 { 0 } else { bytes.iter().take(3).take_while(is_inside).count() };
        bytes.drain(..inside);
        let text = String::from_utf8(bytes).map_err(|_| CollectionError::Changed)?;
        Ok(Self { kind, size_bytes, from: from + inside as u64, text: Some(text) })
    }
}

/// What a JSON value is that starts with this byte.
pub(crate) const fn kind(first: Option<u8>) -> &'static str {
    match first {
        Some(b'[') => "array",
        Some(b'{') => "object",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::InMemory;

    fn piece(text: &str, from: u64, max_bytes: usize) -> (u64, String) {
        let source = InMemory::new(text.to_owned(), 0);
        let extent = Extent::Piece { from, max_bytes };
        let found = Excerpt::of(&source, 0..text.len() as u64, "text", extent).unwrap();
        (found.from, found.text.unwrap())
    }

    #[test]
    fn pieces_are_cut_between_characters_and_add_up() {
        let text = "aä€𝄞z\u{301}";
        for max_bytes in 4..20 {
            let (mut from, mut seen) = (0, String::new());
            while from < text.len() as u64 {
                let (start, part) = piece(text, from, max_bytes);
                assert_eq!(start, from);
                from += part.len() as u64;
                seen.push_str(&part);
            }
            assert_eq!(seen, text);
        }
        assert_eq!(piece(text, 2, 9), (3, "€𝄞z".to_owned()));
        assert_eq!(piece(text, 2, 7), (3, "€".to_owned()));
        assert_eq!(piece(text, 999, 9), (text.len() as u64, String::new()));
    }
}
