//! Images, audio and blobs in results: blocks that a model does not pay for by the byte.
//!
//! | block | its media |
//! |---|---|
//! | `type` is `image` or `audio` | the text `data` |
//! | `type` is `resource` | the text `blob` of `resource` |
//!
//! The base64 of a media block counts for the media budget, and everything beside it for the budget of
//! texts. A block with one of these members twice is no media block: readers differ about it.
//!
//! For models that read a held value, [`Masked`] leaves the base64 out.

mod masked;
mod scan;

use std::ops::Range;

use handback_page::CollectionError;
use handback_page::json::ByteSource;
use serde::{Deserialize, Serialize};

use super::chunks::{CHUNK_BYTES, Chunks, ReadError};
use crate::json::lexer::{Lexer, NotJson};

pub use masked::Masked;
pub(super) use scan::{End, Form, Found, MediaScan};

/// The start of the URI of a held media block; the handle follows.
pub const HELD_URI: &str = "handback://held/";

/// Characters of a media type that are shown: it comes from the upstream.
const TYPE_CHARS: usize = 64;

/// The kind of a media block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has no others")]
pub enum MediaKind {
    /// An image.
    Image,
    /// Sound.
    Audio,
    /// An embedded resource with a blob.
    Resource,
}

impl MediaKind {
    /// The `type` of the block.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Resource => "resource",
        }
    }
}

/// A content block with media, and where its parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaBlock {
    /// The number of the block among all blocks, from 0.
    pub number: u64,
    /// The kind of the block.
    pub kind: MediaKind,
    /// The media type, as the upstream wrote it.
    pub media_type: Option<String>,
    /// The bytes of the block.
    pub block: Range<u64>,
    /// The bytes of its base64, with quotes.
    pub data: Range<u64>,
}

impl MediaBlock {
    /// The media type in characters that a media type may have, or the kind of the block.
    #[must_use]
    pub fn label(&self) -> String {
        let plain = |c: &char| c.is_ascii_alphanumeric() || "/+-._; =".contains(*c);
        let named = self.media_type.as_deref().unwrap_or_default();
        let named: String = named.chars().filter(plain).take(TYPE_CHARS).collect();
        if named.is_empty() { self.kind.name().to_owned() } else { named }
    }

    /// The bytes that the base64 stands for, about.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        let characters = (self.data.end - self.data.start).saturating_sub(2);
        characters / 4 * 3
    }

    /// Bytes of the block beside its base64.
    pub(super) const fn beside(&self) -> u64 {
        (self.block.end - self.block.start) - (self.data.end - self.data.start)
    }
}

/// The note beside a held value that has media blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "written and read by the same crates")]
pub enum HeldMedia {
    /// The value is one media block, of this media type.
    Block(String),
    /// The value is an array of content blocks, some of which are media blocks.
    Blocks,
}

impl HeldMedia {
    /// The media blocks of a value of which this is noted; none, if it is not JSON after all.
    ///
    /// # Errors
    ///
    /// [`CollectionError`] if the value cannot be read.
    pub fn blocks(&self, source: &dyn ByteSource) -> Result<Vec<MediaBlock>, CollectionError> {
        let form = match self {
            Self::Block(_) => Form::Block,
            Self::Blocks => Form::Array,
        };
        let chunks = Chunks::new(source, CHUNK_BYTES);
        let (mut lexer, mut scan) = (Lexer::new(), MediaScan::new(form));
        let read = chunks.each(chunks.all(), |piece| lexer.feed(piece, &mut scan));
        match read.and_then(|()| lexer.finish(&mut scan).map_err(ReadError::Taker)) {
            Ok(_) => Ok(scan.finish().blocks),
            Err(ReadError::Source(error)) => Err(error),
            Err(ReadError::Lone | ReadError::Taker(NotJson { .. })) => Ok(Vec::new()),
        }
    }
}
