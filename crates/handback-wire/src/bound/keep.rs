//! Where the parts of a result are kept.

use std::error::Error;

use handback_page::json::Pointer;
use handback_token::Handle;

use super::media::HeldMedia;

/// Keeps parts of results for the caller that they are made for.
pub trait Keep {
    /// Why a part was not kept.
    type Error: Error;

    /// Takes the bytes of one part.
    type Writer<'a>: PartWriter<Error = Self::Error>
    where
        Self: 'a;

    /// Starts to keep a part.
    ///
    /// # Errors
    ///
    /// If it cannot be kept.
    fn part(&mut self, part: &NewPart) -> Result<Self::Writer<'_>, Self::Error>;

    /// Gives up a part that was kept: nobody learns its name. What cannot be given up now is kept
    /// until it ends, and nobody is told: this happens where something else went wrong already.
    fn forget(&mut self, handle: Handle);
}

/// Takes the bytes of one part. What is dropped before it is finished is not kept.
pub trait PartWriter {
    /// Why a part was not kept.
    type Error: Error;

    /// Takes bytes that follow those before.
    ///
    /// # Errors
    ///
    /// If they cannot be kept.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// There are no more bytes.
    ///
    /// # Errors
    ///
    /// If the part cannot be kept.
    fn finish(self) -> Result<Kept, Self::Error>;
}

/// What is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewPart {
    /// Its media type: [`JSON`] or [`TEXT`].
    pub kind: &'static str,
    /// Where in it the array or object is whose elements or members are its items.
    pub items: Pointer,
    /// The media blocks in it, if there are any.
    pub media: Option<HeldMedia>,
}

impl NewPart {
    pub(super) const fn new(kind: &'static str, items: Pointer, media: Option<HeldMedia>) -> Self {
        Self { kind, items, media }
    }
}

/// The media type of parts that are read as JSON.
pub const JSON: &str = "application/json";

/// The media type of parts that are read as lines.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// How to come back to what was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal by whoever keeps")]
pub struct Kept {
    /// Its name.
    pub handle: Handle,
    /// Until when it is kept if nobody reads it, in milliseconds since 1970.
    pub until_ms: u64,
    /// Until when it is kept however often it is read.
    pub until_at_most_ms: u64,
}
