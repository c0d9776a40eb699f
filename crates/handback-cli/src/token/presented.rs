//! A token as it was presented: on the command line, or on stdin.

use std::io::{self, Read};

use handback_token::TokenFingerprint;

use crate::error::Failure;

/// The longest text that is read from stdin: four times the longest token.
const MAX_STDIN_BYTES: usize = 64 * 1024;

/// A text that somebody says is a token.
#[derive(Debug)]
pub(super) struct Presented {
    /// The text, or so much of it that it is seen to be too long.
    pub(super) text: String,
    /// What stands for it in audit lines, if all of it was read.
    pub(super) fingerprint: Option<TokenFingerprint>,
}

impl Presented {
    /// Takes the argument, or reads stdin if that is `-`.
    pub(super) fn read(argument: &str) -> Result<Self, Failure> {
        if argument != "-" {
            return Ok(Self::whole(argument.to_owned()));
        }
        Self::from_reader(io::stdin().lock())
            .map_err(|error| Failure::new(format!("cannot read a token from stdin: {error}")))
    }

    fn from_reader(reader: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        reader.take(MAX_STDIN_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        let is_cut = bytes.len() > MAX_STDIN_BYTES;
        match String::from_utf8(bytes) {
            Ok(text) if !is_cut => {
                let line = text.strip_suffix('\n').unwrap_or(&text);
                Ok(Self::whole(line.strip_suffix('\r').unwrap_or(line).to_owned()))
            }
            // A token has ASCII characters only, so what is lost here is refused anyway.
            Ok(text) => Ok(Self { text, fingerprint: None }),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Ok(Self { text, fingerprint: None })
            }
        }
    }

    fn whole(text: String) -> Self {
        let fingerprint = Some(TokenFingerprint::of(&text));
        Self { text, fingerprint }
    }

    pub(super) fn fingerprint_text(&self) -> Option<String> {
        self.fingerprint.map(|fingerprint| fingerprint.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], text: &str, is_whole: bool) {
        let presented = Presented::from_reader(bytes).unwrap();
        assert_eq!(presented.text, text);
        assert_eq!(presented.fingerprint.is_some(), is_whole);
    }

    #[test]
    fn one_line_end_is_dropped_and_nothing_else() {
        check(b"abc", "abc", true);
        check(b"abc\n", "abc", true);
        check(b"abc\r\n", "abc", true);
        check(b" abc\n\n", " abc\n", true);
        check(b"", "", true);
    }

    #[test]
    fn what_is_not_text_has_no_fingerprint() {
        check(b"a\xff", "a\u{fffd}", false);
    }

    #[test]
    fn an_endless_text_is_read_to_its_bound_only() {
        let presented = Presented::from_reader(io::repeat(b'a')).unwrap();
        assert_eq!(presented.text.len(), MAX_STDIN_BYTES + 1);
        assert!(presented.fingerprint.is_none());
    }
}
