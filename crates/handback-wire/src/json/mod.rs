//! JSON in pieces of any size: its grammar, its texts, and their characters.

pub(crate) mod lexer;
pub(crate) mod unescape;
pub(crate) mod utf8;

pub use lexer::{Lexer, NotJson, Oddities, Sink, Token};
pub use unescape::{LoneSurrogate, Unescape};
