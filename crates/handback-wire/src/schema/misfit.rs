//! A value that does not fit.

use std::fmt::Write as _;

/// Bytes of a JSON pointer in a message.
const POINTER_BYTES_MAX: usize = 1024;

/// A fault of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misfit {
    /// The place in the value, as a JSON pointer. Long ones are cut.
    pub pointer: String,
    /// The fault. Nothing of the value is repeated.
    pub message: String,
}

/// A token of a JSON pointer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Index(usize),
}

impl Misfit {
    pub(super) fn new(path: &[Token<'_>], message: String) -> Self {
        let mut pointer = String::new();
        for token in path {
            let before = pointer.len();
            pointer.push('/');
            match token {
                Token::Name(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
                // Writing into a string does not fail.
                Token::Index(index) => drop(write!(pointer, "{index}")),
            }
            if pointer.len() > POINTER_BYTES_MAX {
                pointer.truncate(before);
                break;
            }
        }
        Self { pointer, message }
    }
}
