//! Results that are over a client's budget: cut, so that nothing is lost.
//!
//! [`bound`] takes the result of a tool call and gives one that is within a [`Budget`]. What is not
//! in it is kept under handles (see [`Keep`]), and read later as collections: JSON by items, text by
//! lines.
//!
//! | part of the result | what the client gets | what is kept |
//! |---|---|---|
//! | `structuredContent` | the first items of the list that most of it is in, valid by the output schema | it, as JSON |
//! | a text that is JSON | the same, as text | what the text stands for, as JSON |
//! | one long text in a small document | the document, with the first lines of the text | the text, as lines |
//! | another text | its first lines | the text, as lines |
//! | image, audio or blob over the budget of media | a link | the block, as JSON |
//! | a block that is not known | a text that names it | the block, as JSON |
//! | more blocks than can be cut one by one | the first blocks | all blocks, as JSON |
//! | a large member that is not known | nothing | it, as JSON |
//! | what cannot be taken apart | nothing | the whole result |
//!
//! The first block is a notice: what is shown, how much there is, under which handle, until when, and
//! how to read on. The same is in `_meta` for programs, under [`HELD_KEY`].
//!
//! An error of the protocol is not held: [`bound_error`] shortens its message and leaves its data out.
//!
//! Choices:
//!
//! - **Bounded memory.** A result may be far larger than memory: it is read in pieces, few times. Of a document the first items are copied into a `Sketch`, and every cut that is tried is
//!   made of that.
//! - **What cannot be read as a collection is kept as text**: JSON that is nested too deeply, has
//!   numbers beyond doubles, or half characters in escapes. A text with half characters is kept as it
//!   was written, in quotes and with its escapes. Nothing of these is replaced.
//! - **No cut is silent.** A text that is cut inside a document ends in a mark, and lists that are cut
//!   beside the one that is read are named in the notice.
//! - **A document that is there twice**, as `structuredContent` and as text, is kept once, and shown
//!   twice in the same way. So is a text that is also the one long text of `structuredContent`.
//! - **If no cut is valid** by the output schema, `structuredContent` is left out and the result is a
//!   tool error: clients refuse a success without it. The notice says that the call was made. What is
//!   left out is kept whole, also where only the one long text in it would have been.
//!
//! Rejected: cutting the text of a result at a byte, which is what others do and breaks JSON; and
//! parsing results into trees, which takes several times their size.

mod body;
mod budget;
mod chunks;
mod compose;
mod cut;
mod digest;
mod error;
mod hold;
mod items;
mod keep;
mod media;
mod notice;
mod part;
mod plain;
mod plan;
mod render;
mod shape;
mod share;
mod show;
mod sketch;

#[cfg(test)]
pub(crate) mod tests;

pub use budget::{Budget, BudgetError};
pub use cut::{Bounded, Bounding, bound};
pub use error::{OMITTED_KEY, bound_error};
pub use hold::BoundError;
pub use keep::{JSON, Keep, Kept, NewPart, PartWriter, TEXT};
pub use media::{HELD_URI, HeldMedia, Masked, MediaBlock, MediaKind};
pub use part::Part;
pub use plan::HELD_KEY;
