//! From a JSON text to the text that it stands for, in pieces.

use memchr::memchr;

/// An escape that stands for half a character. No UTF-8 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to say")]
pub struct LoneSurrogate;

/// Takes the bytes between the quotes of a JSON text, which were found to be one, and gives what
/// they stand for. Escapes may be spread over pieces.
#[derive(Debug)]
pub struct Unescape {
    state: State,
    /// The first half of a character whose second half has to follow.
    high: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Plain,
    Backslash,
    Hex { digits: u32, value: u32 },
}

impl Default for Unescape {
    fn default() -> Self {
        Self::new()
    }
}

impl Unescape {
    /// Behind the first quote.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Plain, high: None }
    }

    /// Adds to `out` what the next bytes stand for.
    ///
    /// # Errors
    ///
    /// [`LoneSurrogate`].
    pub fn push(&mut self, mut raw: &[u8], out: &mut Vec<u8>) -> Result<(), LoneSurrogate> {
        while let Some((&byte, rest)) = raw.split_first() {
            match self.state {
                State::Plain => {
                    let plain = memchr(b'\\', raw).unwrap_or(raw.len());
                    if plain > 0 && self.high.is_some() {
                        return Err(LoneSurrogate);
                    }
                    let (text, escape) = raw.split_at(plain);
                    out.extend_from_slice(text);
                    raw = escape;
                    if let Some((_backslash, rest)) = raw.split_first() {
                        raw = rest;
                        self.state = State::Backslash;
                    }
                    continue;
                }
                State::Backslash => self.escape(byte, out)?,
                State::Hex { digits, value } => self.hex(digits, value, byte, out)?,
            }
            raw = rest;
        }
        Ok(())
    }

    /// Nothing follows.
    ///
    /// # Errors
    ///
    /// [`LoneSurrogate`].
    pub const fn finish(&self) -> Result<(), LoneSurrogate> {
        if self.high.is_some() { Err(LoneSurrogate) } else { Ok(()) }
    }

    fn escape(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), LoneSurrogate> {
        let stands_for = match byte {
            b'u' => {
                self.state = State::Hex { digits: 0, value: 0 };
                return Ok(());
            }
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            itself => itself,
        };
        if self.high.is_some() {
            return Err(LoneSurrogate);
        }
        out.push(stands_for);
        self.state = State::Plain;
        Ok(())
    }

    fn hex(
        &mut self,
        digits: u32,
        value: u32,
        byte: u8,
        out: &mut Vec<u8>,
    ) -> Result<(), LoneSurrogate> {
        let value = value << 4 | char::from(byte).to_digit(16).unwrap_or_default();
        if digits < 3 {
            self.state = State::Hex { digits: digits + 1, value };
            return Ok(());
        }
        self.state = State::Plain;
        let code = match (self.high.take(), value) {
            (None, 0xd800..=0xdbff) => {
                self.high = Some(value);
                return Ok(());
            }
            (Some(high), 0xdc00..=0xdfff) => 0x10000 + ((high - 0xd800) << 10) + (value - 0xdc00),
            (Some(_), _) => return Err(LoneSurrogate),
            (None, value) => value,
        };
        let character = char::from_u32(code).ok_or(LoneSurrogate)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

/// How many of the first `most` bytes of a quoted JSON text can stand alone, the first quote
/// included: no escape and no character is cut.
pub(crate) fn whole_characters(quoted: &[u8], most: usize) -> usize {
    let mut at = 1;
    while let Some(length) = quoted.get(at..).and_then(character) {
        if at + length > most {
            break;
        }
        at += length;
    }
    at.min(most)
}

/// How many bytes the first character takes; none at the last quote, or if it is not all there.
fn character(raw: &[u8]) -> Option<usize> {
    let length = match raw {
        [b'"', ..] | [] => return None,
        [b'\\', b'u', b'd' | b'D', half, ..] if is_high(*half) => 12,
        [b'\\', b'u', ..] => 6,
        [b'\\', ..] => 2,
        [0xf0..=0xff, ..] => 4,
        [0xe0..=0xef, ..] => 3,
        [0xc0..=0xdf, ..] => 2,
        _ => 1,
    };
    (length <= raw.len()).then_some(length)
}

const fn is_high(digit: u8) -> bool {
    matches!(digit, b'8' | b'9' | b'a' | b'A' | b'b' | b'B')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unescaped(raw: &str, chunk: usize) -> Result<String, LoneSurrogate> {
        let (mut unescape, mut out) = (Unescape::new(), vec![]);
        raw.as_bytes().chunks(chunk).try_for_each(|piece| unescape.push(piece, &mut out))?;
        unescape.finish()?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn halves_of_characters_are_noticed_wherever_a_piece_ends() {
        for raw in [
            r"\ud800",
            r"a\ud800b",
            r"\ud800\n",
            r"\udc00",
            r"\ud800\ud800",
            r"\ud800\u0041",
            r"\ud83d\ude00\ud83d",
        ] {
            for chunk in 1..=raw.len() {
                assert_eq!(unescaped(raw, chunk), Err(LoneSurrogate), "{raw} {chunk}");
            }
        }
        assert_eq!(unescaped(r"\ud83d\uDE00\/\b\f", 1).unwrap(), "\u{1f600}/\u{8}\u{c}");
    }

    #[test]
    fn a_cut_leaves_characters_and_escapes_whole() {
        let quoted = r#""aé\n\ud83d\ude00€x""#.as_bytes();
        let places: Vec<_> =
            (1..=quoted.len()).map(|most| whole_characters(quoted, most)).collect();
        let mut expected = vec![1, 2, 2, 4, 4, 6];
        expected.extend([6; 11]);
        expected.extend([18, 18, 18, 21, 22, 22]);
        assert_eq!(places, expected);
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(text: String, ascii: bool, chunk in 1_usize..9) {
            let mut quoted = serde_json::to_string(&text).unwrap();
            if ascii {
                quoted = quoted.chars().map(escaped).collect();
            }
            let raw = &quoted[1..quoted.len() - 1];
            prop_assert_eq!(unescaped(raw, chunk), Ok(text));
        }

        #[test]
        fn every_cut_is_a_start_of_the_text(text in "[a\"\\\\\né€𝄞\u{0}]{0,20}", ascii: bool, most in 1_usize..60) {
            let mut quoted = serde_json::to_string(&text).unwrap();
            if ascii {
                quoted = quoted.chars().map(escaped).collect();
            }
            let end = whole_characters(quoted.as_bytes(), most.min(quoted.len()));
            prop_assert!(end <= most);
            let cut: String = serde_json::from_str(&format!("{}\"", &quoted[..end])).unwrap();
            prop_assert!(text.starts_with(&cut));
        }
    }

    fn escaped(c: char) -> String {
        if c.is_ascii() {
            return c.into();
        }
        c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    }
}
