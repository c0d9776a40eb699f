//! JSON from the first byte to the last, in pieces of any size, whatever the size of its values.
//!
//! The scanner of `handback-page` is several times faster, and wants a value in memory to go over
//! it. Here a single text may be a gigabyte: nothing is kept of it but where in the grammar the
//! reader is.
//!
//! What is JSON by RFC 8259 but cannot be read as a collection is not refused, but noted: see
//! [`Oddities`].

use handback_page::json::MAX_DEPTH;
use memchr::memchr2;

use super::utf8::Utf8;

/// What there is in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing else in JSON")]
pub enum Token {
    /// `{` to `}`.
    Object,
    /// `[` to `]`.
    Array,
    /// The name of a member.
    Name,
    /// A text that is a value.
    Text,
    /// A number.
    Number,
    /// `true`, `false` or `null`.
    Word,
}

impl Token {
    /// Whether there are others in it.
    #[must_use]
    pub const fn is_container(self) -> bool {
        matches!(self, Self::Object | Self::Array)
    }
}

/// Takes what is found, in the order of the document. Offsets are those of the bytes that were fed.
pub trait Sink {
    /// Something starts at an offset.
    fn begin(&mut self, token: Token, at: u64);

    /// Bytes of what began last, which is no array or object: as they are written, with quotes.
    fn piece(&mut self, bytes: &[u8]);

    /// It ended before an offset.
    fn end(&mut self, token: Token, at: u64);
}

/// Takes nothing.
impl Sink for () {
    fn begin(&mut self, _token: Token, _at: u64) {}
    fn piece(&mut self, _bytes: &[u8]) {}
    fn end(&mut self, _token: Token, _at: u64) {}
}

/// Both take everything.
impl<A: Sink, B: Sink> Sink for (A, B) {
    fn begin(&mut self, token: Token, at: u64) {
        self.0.begin(token, at);
        self.1.begin(token, at);
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.0.piece(bytes);
        self.1.piece(bytes);
    }

    fn end(&mut self, token: Token, at: u64) {
        self.0.end(token, at);
        self.1.end(token, at);
    }
}

impl<S: Sink> Sink for &mut S {
    fn begin(&mut self, token: Token, at: u64) {
        (**self).begin(token, at);
    }

    fn piece(&mut self, bytes: &[u8]) {
        (**self).piece(bytes);
    }

    fn end(&mut self, token: Token, at: u64) {
        (**self).end(token, at);
    }
}

/// What is allowed in JSON, and what `serde_json` and the collections of `handback-page` do not
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Oddities {
    /// Arrays and objects are nested deeper than [`MAX_DEPTH`]. What is below is not told to sinks,
    /// and of its grammar only texts and the number of brackets are looked at.
    pub too_deep: bool,
    /// An escape stands for half a character.
    pub lone_surrogate: bool,
    /// A number is beyond the doubles, or has so many digits that nobody looked.
    pub huge_number: bool,
}

impl Oddities {
    /// Whether there is one.
    #[must_use]
    pub const fn any(self) -> bool {
        self.too_deep || self.lone_surrogate || self.huge_number
    }
}

/// Where and why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
#[non_exhaustive]
pub struct NotJson {
    /// Why.
    pub what: &'static str,
    /// Where.
    pub at: u64,
}

/// Where in a document the reader is.
#[derive(Debug)]
pub struct Lexer {
    state: State,
    /// One bit for each open array or object, the innermost lowest: 1 is an object.
    kinds: u128,
    depth: u32,
    /// The offset of the first byte that was not fed yet.
    at: u64,
    utf8: Utf8,
    /// The start of a number that went on in another piece.
    number: Vec<u8>,
    /// A first half of a character came last.
    high: bool,
    oddities: Oddities,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a value; in an array that has none yet, or its end.
    Value {
        first: bool,
    },
    /// Before the name of a member; of an object that has none yet, or its end.
    Name {
        first: bool,
    },
    Colon,
    /// Behind a value: before a comma, or the end of the array or object.
    Between,
    Text(Within),
    Backslash(Within),
    Hex {
        within: Within,
        digits: u8,
        value: u16,
    },
    Number(Digits),
    Word {
        word: &'static [u8],
        matched: usize,
    },
    /// Below the deepest level that is looked at.
    Deep {
        open: u64,
    },
    /// Behind the document.
    Done,
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Name,
    Value,
    Deep { open: u64 },
}

impl Within {
    const fn token(self) -> Option<Token> {
        match self {
            Self::Name => Some(Token::Name),
            Self::Value => Some(Token::Text),
            Self::Deep { .. } => None,
        }
    }
}

/// What of a number came last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// A number with fewer characters and no exponent is within the doubles: the largest of them has 309
/// digits.
const SURE_NUMBER: usize = 300;

/// Longer numbers are odd, whatever they are.
const LONGEST_NUMBER: usize = 1024;

impl Default for Lexer {
    fn default() -> Self {
        Self::new()
    }
}

impl Lexer {
    /// At the start of a document.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: State::Value { first: false },
            kinds: 0,
            depth: 0,
            at: 0,
            utf8: Utf8::new(),
            number: vec![],
            high: false,
            oddities: Oddities { too_deep: false, lone_surrogate: false, huge_number: false },
        }
    }

    /// For bytes that start at an offset.
    #[must_use]
    pub const fn starting_at(at: u64) -> Self {
        let mut lexer = Self::new();
        lexer.at = at;
        lexer
    }

    /// Reads on. After an error, nothing more can be read. Of several faults, which is told may depend
    /// on where the pieces end.
    ///
    /// # Errors
    ///
    /// [`NotJson`] as soon as it is known.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<(), NotJson> {
        let length = bytes.len() as u64;
        let mut feed = Feed { lexer: self, bytes, at: 0, run: 0, sink };
        feed.run()?;
        self.at += length;
        Ok(())
    }

    /// Nothing follows: what is odd about the document.
    ///
    /// # Errors
    ///
    /// [`NotJson`] if it has not ended.
    pub fn finish(&mut self, sink: &mut impl Sink) -> Result<Oddities, NotJson> {
        let mut feed = Feed { lexer: self, bytes: &[], at: 0, run: 0, sink };
        if let State::Number(digits) = feed.lexer.state {
            feed.end_number(digits)?;
        }
        match feed.lexer.state {
            State::Done => Ok(self.oddities),
            _ => Err(NotJson { what: "the text ends too early", at: self.at }),
        }
    }
}

/// One piece, while it is read.
struct Feed<'a, S> {
    lexer: &'a mut Lexer,
    bytes: &'a [u8],
    at: usize,
    /// Where in these bytes the token that is being read starts.
    run: usize,
    sink: &'a mut S,
}

impl<'a, S: Sink> Feed<'a, S> {
    fn run(&mut self) -> Result<(), NotJson> {
        while let Some(&byte) = self.bytes.get(self.at) {
            match self.lexer.state {
                State::Text(within) => self.text(within)?,
                State::Value { first } => self.value(byte, first)?,
                State::Between => self.between(byte)?,
                State::Name { first } => self.name(byte, first)?,
                State::Colon => self.colon(byte)?,
                State::Number(digits) => self.digit(byte, digits)?,
                State::Word { word, matched } => self.word(byte, word, matched)?,
                State::Backslash(within) => self.backslash(byte, within)?,
                State::Hex { within, digits, value } => self.hex(byte, within, digits, value)?,
                State::Deep { open } => self.deep(byte, open)?,
                State::Done if is_space(byte) => self.at += 1,
                State::Done => return self.bad("something follows the JSON value"),
            }
        }
        self.pause()
    }

    /// The piece ends: what was read of a token is handed on.
    fn pause(&mut self) -> Result<(), NotJson> {
        match self.lexer.state {
            State::Text(within) | State::Backslash(within) | State::Hex { within, .. } => {
                self.text_piece(within)
            }
            State::Number(_) => {
                let run = self.taken();
                if self.lexer.number.len() <= LONGEST_NUMBER {
                    self.lexer.number.extend_from_slice(run);
                }
                self.sink.piece(run);
                Ok(())
            }
            State::Word { .. } => {
                self.sink.piece(self.taken());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn value(&mut self, byte: u8, first: bool) -> Result<(), NotJson> {
        match byte {
            b'"' => self.begin_text(Within::Value),
            b'{' => return self.open(Token::Object),
            b'[' => return self.open(Token::Array),
            b'-' => self.begin(Token::Number, State::Number(Digits::Minus)),
            b'0' => self.begin(Token::Number, State::Number(Digits::Zero)),
            b'1'..=b'9' => self.begin(Token::Number, State::Number(Digits::Integer)),
            b't' => self.begin_word(b"true"),
            b'f' => self.begin_word(b"false"),
            b'n' => self.begin_word(b"null"),
            b']' if first => return self.close(Token::Array),
            _ if is_space(byte) => self.at += 1,
            _ => return self.bad("a value is expected"),
        }
        Ok(())
    }

    fn between(&mut self, byte: u8) -> Result<(), NotJson> {
        let in_object = self.lexer.kinds & 1 == 1;
        match byte {
            b',' => {
                self.at += 1;
                self.lexer.state = match in_object {
                    true => State::Name { first: false },
                    false => State::Value { first: false },
                };
                Ok(())
            }
            b'}' if in_object => self.close(Token::Object),
            b']' if !in_object => self.close(Token::Array),
            _ if is_space(byte) => {
                self.at += 1;
                Ok(())
            }
            _ if in_object => self.bad("',' or '}' is expected"),
            _ => self.bad("',' or ']' is expected"),
        }
    }

    fn name(&mut self, byte: u8, first: bool) -> Result<(), NotJson> {
        match byte {
            b'"' => self.begin_text(Within::Name),
            b'}' if first => return self.close(Token::Object),
            _ if is_space(byte) => self.at += 1,
            _ => return self.bad("the name of a member is expected, in quotes"),
        }
        Ok(())
    }

    fn colon(&mut self, byte: u8) -> Result<(), NotJson> {
        match byte {
            b':' => self.lexer.state = State::Value { first: false },
            _ if is_space(byte) => {}
            _ => return self.bad("':' is expected"),
        }
        self.at += 1;
        Ok(())
    }

    fn begin(&mut self, token: Token, state: State) {
        self.sink.begin(token, self.offset());
        self.run = self.at;
        self.at += 1;
        self.lexer.state = state;
    }

    fn begin_text(&mut self, within: Within) {
        self.lexer.high = false;
        match within.token() {
            Some(token) => self.begin(token, State::Text(within)),
            None => {
                self.run = self.at;
                self.at += 1;
                self.lexer.state = State::Text(within);
            }
        }
    }

    fn begin_word(&mut self, word: &'static [u8]) {
        self.begin(Token::Word, State::Word { word, matched: 1 });
    }

    fn open(&mut self, token: Token) -> Result<(), NotJson> {
        self.sink.begin(token, self.offset());
        self.at += 1;
        if self.lexer.depth >= MAX_DEPTH {
            self.lexer.oddities.too_deep = true;
            self.lexer.state = State::Deep { open: 1 };
            // Its kind is not known any more when it ends.
            self.sink.end(token, self.offset());
            return Ok(());
        }
        self.lexer.depth += 1;
        self.lexer.kinds <<= 1;
        self.lexer.state = match token {
            Token::Object => {
                self.lexer.kinds |= 1;
                State::Name { first: true }
            }
            _ => State::Value { first: true },
        };
        Ok(())
    }

    fn close(&mut self, token: Token) -> Result<(), NotJson> {
        self.at += 1;
        self.lexer.kinds >>= 1;
        self.lexer.depth -= 1;
        self.sink.end(token, self.offset());
        self.ended();
        Ok(())
    }

    /// A value ended.
    fn ended(&mut self) {
        self.lexer.state = if self.lexer.depth == 0 { State::Done } else { State::Between };
    }

    /// Goes on in a text to its next special byte, or the end of the piece.
    fn text(&mut self, within: Within) -> Result<(), NotJson> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let plain = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        let (text, special) = rest.split_at(plain);
        if let Some(control) = text.iter().position(|byte| *byte < 0x20) {
            self.at += control;
            return self.bad("a control character in a text must be escaped");
        }
        self.at += plain;
        if plain > 0 || special.first() == Some(&b'"') {
            self.low_is_missing();
        }
        match special.first() {
            Some(b'"') => self.end_text(within),
            Some(_) => {
                self.at += 1;
                self.lexer.state = State::Backslash(within);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn end_text(&mut self, within: Within) -> Result<(), NotJson> {
        self.at += 1;
        self.text_piece(within)?;
        match within {
            Within::Name => {
                self.sink.end(Token::Name, self.offset());
                self.lexer.state = State::Colon;
            }
            Within::Value => {
                self.sink.end(Token::Text, self.offset());
                self.ended();
            }
            Within::Deep { open } => self.lexer.state = State::Deep { open },
        }
        Ok(())
    }

    fn text_piece(&mut self, within: Within) -> Result<(), NotJson> {
        let piece = self.taken();
        if let Err(at) = self.lexer.utf8.check(piece) {
            let at = (self.lexer.at + self.run as u64).saturating_add_signed(at);
            return Err(NotJson { what: "the text is not UTF-8", at });
        }
        if within.token().is_some() {
            self.sink.piece(piece);
        }
        Ok(())
    }

    fn backslash(&mut self, byte: u8, within: Within) -> Result<(), NotJson> {
        match byte {
            b'u' => self.lexer.state = State::Hex { within, digits: 0, value: 0 },
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                self.low_is_missing();
                self.lexer.state = State::Text(within);
            }
            _ => return self.bad("an escape that JSON does not have"),
        }
        self.at += 1;
        Ok(())
    }

    fn hex(&mut self, byte: u8, within: Within, digits: u8, value: u16) -> Result<(), NotJson> {
        let Some(digit) = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok())
        else {
            return self.bad("four hexadecimal digits are expected");
        };
        self.at += 1;
        let value = value << 4 | digit;
        if digits < 3 {
            self.lexer.state = State::Hex { within, digits: digits + 1, value };
            return Ok(());
        }
        match value {
            0xd800..=0xdbff => {
                self.low_is_missing();
                self.lexer.high = true;
            }
            0xdc00..=0xdfff if self.lexer.high => self.lexer.high = false,
            0xdc00..=0xdfff => self.lexer.oddities.lone_surrogate = true,
            _ => self.low_is_missing(),
        }
        self.lexer.state = State::Text(within);
        Ok(())
    }

    /// Something else follows where the second half of a character would have to.
    fn low_is_missing(&mut self) {
        self.lexer.oddities.lone_surrogate |= self.lexer.high;
        self.lexer.high = false;
    }

    fn digit(&mut self, byte: u8, digits: Digits) -> Result<(), NotJson> {
        let next = match (digits, byte) {
            (Digits::Minus, b'0') => Digits::Zero,
            (Digits::Minus | Digits::Integer, b'0'..=b'9') => Digits::Integer,
            (Digits::Zero | Digits::Integer, b'.') => Digits::Point,
            (Digits::Point | Digits::Fraction, b'0'..=b'9') => Digits::Fraction,
            (Digits::Zero | Digits::Integer | Digits::Fraction, b'e' | b'E') => Digits::E,
            (Digits::E, b'+' | b'-') => Digits::Sign,
            (Digits::E | Digits::Sign | Digits::Exponent, b'0'..=b'9') => Digits::Exponent,
            (Digits::Zero, b'0'..=b'9') => return self.bad("a number must not start with 0"),
            _ => return self.end_number(digits),
        };
        self.at += 1;
        self.lexer.state = State::Number(next);
        Ok(())
    }

    fn end_number(&mut self, digits: Digits) -> Result<(), NotJson> {
        if !matches!(digits, Digits::Zero | Digits::Integer | Digits::Fraction | Digits::Exponent) {
            return self.bad("a digit is expected");
        }
        let piece = self.taken();
        let is_odd = match self.lexer.number.is_empty() {
            true => is_huge(piece, digits),
            false => is_huge(&[&self.lexer.number, piece].concat(), digits),
        };
        self.lexer.oddities.huge_number |= is_odd;
        self.lexer.number.clear();
        self.sink.piece(piece);
        self.sink.end(Token::Number, self.offset());
        self.ended();
        Ok(())
    }

    fn word(&mut self, byte: u8, word: &'static [u8], matched: usize) -> Result<(), NotJson> {
        if word.get(matched) != Some(&byte) {
            return self.bad("a value is expected");
        }
        self.at += 1;
        if matched + 1 < word.len() {
            self.lexer.state = State::Word { word, matched: matched + 1 };
            return Ok(());
        }
        self.sink.piece(self.taken());
        self.sink.end(Token::Word, self.offset());
        self.ended();
        Ok(())
    }

    fn deep(&mut self, byte: u8, open: u64) -> Result<(), NotJson> {
        let open = match byte {
            b'"' => {
                self.begin_text(Within::Deep { open });
                return Ok(());
            }
            b'{' | b'[' => open + 1,
            b'}' | b']' => open - 1,
            _ if byte.is_ascii() => open,
            _ => return self.bad("a value is expected"),
        };
        self.at += 1;
        match open {
            0 => self.ended(),
            _ => self.lexer.state = State::Deep { open },
        }
        Ok(())
    }

    /// The bytes of the token that is being read, as far as they are in this piece.
    fn taken(&self) -> &'a [u8] {
        self.bytes.get(self.run..self.at).unwrap_or_default()
    }

    fn offset(&self) -> u64 {
        self.lexer.at + self.at as u64
    }

    #[cold]
    fn bad(&self, what: &'static str) -> Result<(), NotJson> {
        Err(NotJson { what, at: self.offset() })
    }
}

/// Whether a number, or the start of one, is beyond the doubles.
fn is_huge(number: &[u8], digits: Digits) -> bool {
    if number.len() > LONGEST_NUMBER {
        return true;
    }
    if number.len() <= SURE_NUMBER && digits != Digits::Exponent {
        return false;
    }
    let number = str::from_utf8(number).ok().and_then(|number| number.parse::<f64>().ok());
    !number.is_some_and(f64::is_finite)
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;
    use crate::bound::tests::any_value;

    /// Writes what it takes.
    #[derive(Debug, Default)]
    struct Copy {
        out: Vec<u8>,
        open: Vec<Token>,
    }

    impl Sink for Copy {
        fn begin(&mut self, token: Token, _at: u64) {
            match token {
                Token::Object => self.out.push(b'{'),
                Token::Array => self.out.push(b'['),
                _ => {}
            }
            self.open.push(token);
        }

        fn piece(&mut self, bytes: &[u8]) {
            self.out.extend_from_slice(bytes);
        }

        fn end(&mut self, token: Token, _at: u64) {
            assert_eq!(self.open.pop(), Some(token));
            if matches!(self.out.last(), Some(b',')) && token.is_container() {
                self.out.pop();
            }
            match token {
                Token::Object => self.out.push(b'}'),
                Token::Array => self.out.push(b']'),
                _ => {}
            }
            self.out.push(if token == Token::Name { b':' } else { b',' });
        }
    }

    fn read(bytes: &[u8], chunk: usize) -> Result<(Vec<u8>, Oddities), NotJson> {
        let (mut lexer, mut copy) = (Lexer::new(), Copy::default());
        bytes.chunks(chunk).try_for_each(|piece| lexer.feed(piece, &mut copy))?;
        let oddities = lexer.finish(&mut copy)?;
        assert!(copy.open.is_empty());
        copy.out.pop();
        Ok((copy.out, oddities))
    }

    /// Whether the bytes are JSON, as everybody says.
    #[track_caller]
    fn check(bytes: &[u8], chunk: usize) -> bool {
        let read = read(bytes, chunk);
        let shown = String::from_utf8_lossy(bytes);
        match (&read, serde_json::from_slice::<Value>(bytes)) {
            (Ok((copy, oddities)), Ok(value)) => {
                // Numbers of a thousand digits are not looked at.
                assert!(!oddities.any() || bytes.len() > LONGEST_NUMBER, "{shown}");
                assert_eq!(serde_json::from_slice::<Value>(copy).unwrap(), value);
            }
            (Ok((_, oddities)), Err(_)) => {
                assert!(oddities.any(), "{shown}");
                let is_json = serde_json::from_slice::<&RawValue>(bytes).is_ok();
                assert!(is_json || oddities.too_deep, "{shown}");
            }
            (Err(error), Ok(_)) => panic!("{error}: {shown}"),
            (Err(_), Err(_)) => {
                assert!(serde_json::from_slice::<&RawValue>(bytes).is_err(), "{shown}")
            }
        }
        read.is_ok()
    }

    #[test]
    fn oddities_are_noted() {
        let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let none = Oddities::default();
        let lone = Oddities { lone_surrogate: true, ..none };
        let huge = Oddities { huge_number: true, ..none };
        let limit = MAX_DEPTH as usize;
        for (text, oddities) in [
            (deep(limit), none),
            (deep(limit + 1), Oddities { too_deep: true, ..none }),
            (format!("[{},{{\"a\":\"]\\\"\"}}]", deep(1000)), Oddities { too_deep: true, ..none }),
            (r#""\ud83d\ude00""#.to_owned(), none),
            (r#""\ud83d""#.to_owned(), lone),
            (r#""\ud83dx\ude00""#.to_owned(), lone),
            (r#"{"\ude00":1}"#.to_owned(), lone),
            (r#"["\ud83d\n"]"#.to_owned(), lone),
            (r#""\ud83d\ud83d\ude00""#.to_owned(), lone),
            ("1e308".to_owned(), none),
            ("[-1e309]".to_owned(), huge),
            (format!("1{}", "0".repeat(308)), none),
            (format!("1{}", "0".repeat(309)), huge),
            (format!("0.{}", "1".repeat(2000)), huge),
        ] {
            for chunk in [1, 2, 7, text.len()] {
                assert_eq!(read(text.as_bytes(), chunk).unwrap().1, oddities, "{text}");
            }
        }
    }

    #[test]
    fn faults_have_their_place() {
        for (text, what, at) in [
            ("", "the text ends too early", 0),
            ("[1,", "the text ends too early", 3),
            ("[1 2]", "',' or ']' is expected", 3),
            ("{\"a\":1;}", "',' or '}' is expected", 6),
            ("[1,]", "a value is expected", 3),
            ("[1]x", "something follows the JSON value", 3),
            ("{\"a\" 1}", "':' is expected", 5),
            ("\"a\u{1}\"", "a control character in a text must be escaped", 2),
            ("[-]", "a digit is expected", 2),
            ("[01]", "a number must not start with 0", 2),
            ("trux", "a value is expected", 3),
            ("\"\\u12x4\"", "four hexadecimal digits are expected", 5),
        ] {
            for chunk in [1, 3, 100] {
                assert_eq!(read(text.as_bytes(), chunk), Err(NotJson { what, at }), "{text}");
            }
        }
    }

    #[test]
    fn a_character_that_is_cut_and_no_character_has_its_place() {
        for (text, at) in
            [(&b"\"ab\xe2\x82\""[..], 3), (b"\"\xf0\x9f\x98x\"", 1), (b"[\"\xe2\x82\xac\xff\"]", 5)]
        {
            for chunk in 1..=text.len() {
                let what = "the text is not UTF-8";
                assert_eq!(read(text, chunk), Err(NotJson { what, at }), "{chunk}");
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(value in any_value(), pretty: bool, chunk in 1_usize..40) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            prop_assert!(check(text.unwrap().as_bytes(), chunk));
        }

        #[test]
        fn agrees_with_serde_json_on_damaged_documents(
            value in any_value(),
            damages in prop::collection::vec((any::<prop::sample::Index>(), any_byte(), 0..4), 1..4),
            chunk in 1_usize..40,
        ) {
            let mut bytes = value.to_string().into_bytes();
            for (at, byte, kind) in damages {
                if bytes.is_empty() {
                    break;
                }
                let at = at.index(bytes.len());
                match kind {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at),
                }
            }
            check(&bytes, chunk);
        }

        #[test]
        fn agrees_with_serde_json_on_short_texts(
            bytes in prop::collection::vec(any_byte(), 0..12),
            chunk in 1_usize..5,
        ) {
            check(&bytes, chunk);
        }
    }

    fn any_byte() -> impl Strategy<Value = u8> {
        let telling = b"\"\\{}[],: \n\t0123456789-+.eEtrufalsn/bdD\x00\x1f\x7f\x80\xc3\xa9\xed\xf0";
        prop_oneof![prop::sample::select(telling.to_vec()), any::<u8>()]
    }
}
