//! Whether two documents, or two texts, are the same.

use sha2::{Digest as _, Sha256};

use crate::json::lexer::{Sink, Token};
use crate::json::unescape::Unescape;

/// A document by its values, in their order: white space and the spelling of texts do not count.
/// Or a text by its characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

/// Takes a text.
#[derive(Debug, Default)]
pub(super) struct TextDigest(Sha256);

impl TextDigest {
    pub(super) fn push(&mut self, text: &[u8]) {
        self.0.update(text);
    }

    pub(super) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// Takes a document.
#[derive(Debug)]
pub(super) struct ValueDigest {
    hash: Sha256,
    /// What is not hashed yet: short updates cost more than what they are about.
    pending: Vec<u8>,
    /// In a text.
    text: Option<Unescape>,
}

/// So much is hashed at a time.
const PENDING_BYTES: usize = 8 << 10;

/// Ends texts and numbers: no byte of UTF-8.
const END: u8 = 0xff;

impl ValueDigest {
    pub(super) fn new() -> Self {
        Self { hash: Sha256::new(), pending: Vec::with_capacity(PENDING_BYTES), text: None }
    }

    pub(super) fn finish(mut self) -> Digest {
        self.flush();
        Digest(self.hash.finalize().into())
    }

    fn flush(&mut self) {
        self.hash.update(&self.pending);
        self.pending.clear();
    }
}

impl Sink for ValueDigest {
    fn begin(&mut self, token: Token, _at: u64) {
        if self.pending.len() >= PENDING_BYTES {
            self.flush();
        }
        self.pending.push(match token {
            Token::Object => b'{',
            Token::Array => b'[',
            Token::Name => b':',
            Token::Text => b'"',
            Token::Number => b'0',
            Token::Word => b'a',
        });
        if matches!(token, Token::Name | Token::Text) {
            self.text = Some(Unescape::new());
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        match &mut self.text {
            // The quotes around it count as well, the same for everybody. A document with half
            // characters is not compared.
            Some(text) => drop(text.push(bytes, &mut self.pending)),
            None => self.pending.extend_from_slice(bytes),
        }
        if self.pending.len() >= PENDING_BYTES {
            self.flush();
        }
    }

    fn end(&mut self, token: Token, _at: u64) {
        self.text = None;
        self.pending.push(match token {
            Token::Object => b'}',
            Token::Array => b']',
            Token::Name | Token::Text | Token::Number | Token::Word => END,
        });
    }
}
