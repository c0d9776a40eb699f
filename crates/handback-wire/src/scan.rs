//! A message that is too large to be in memory, read as it passes by.
//!
//! The scanner sees every byte once, in chunks however they were cut, and remembers little: it proves
//! that the whole is JSON, keeps the small members of the message that say what it is, and finds out
//! where the large ones are. What it makes of a message is what [`Message::read`] makes of it, but for
//! what is nested deeper than [`MAX_DEPTH`], and half characters in long names that it does not know.

use std::ops::Range;

use crate::{MAX_ID_BYTES, MAX_METHOD_BYTES, Message, MessageError};

/// How deep a large message may be nested. Nothing here reads deeper ones later.
pub const MAX_DEPTH: usize = 512;

/// Bytes of a member's name that are looked at: those that matter are short, even with escapes.
const NAME_BYTES_MAX: usize = 64;

/// Bytes of a small member at most: the name of a method, all of it escaped. Ids are shorter.
const KEPT_BYTES_MAX: usize = 6 * MAX_METHOD_BYTES + 2;
const _: () = assert!(KEPT_BYTES_MAX > MAX_ID_BYTES);

/// The bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no message")]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to say")]
pub struct Malformed;

/// What a large message is, and where its parts are.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The same message with nothing in its large members.
    head: Vec<u8>,
    places: [Option<Range<u64>>; Member::COUNT],
}

impl Envelope {
    /// The message, but for what its large members say.
    ///
    /// # Errors
    ///
    /// [`MessageError`] if it is JSON and no message.
    pub fn message(&self) -> Result<Message<'_>, MessageError> {
        Message::read(&self.head)
    }

    /// Where the result is.
    #[must_use]
    pub fn result(&self) -> Option<Range<u64>> {
        self.places.get(Member::Result as usize).cloned().flatten()
    }

    /// Where the error is.
    #[must_use]
    pub fn error(&self) -> Option<Range<u64>> {
        self.places.get(Member::Error as usize).cloned().flatten()
    }
}

/// What a message is, as far as it has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has no third kind")]
pub enum Kind {
    /// It has a method: a request or a notification.
    Asks,
    /// It has a result or an error, of which not all may have passed.
    Answers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl Member {
    const COUNT: usize = 6;

    const ALL: [(Self, &str); Self::COUNT] = [
        (Self::Version, "jsonrpc"),
        (Self::Id, "id"),
        (Self::Method, "method"),
        (Self::Params, "params"),
        (Self::Result, "result"),
        (Self::Error, "error"),
    ];

    /// Whether all of it is kept.
    const fn is_small(self) -> bool {
        matches!(self, Self::Version | Self::Id | Self::Method)
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value.
    Value,
    /// A value, or the end of the array that just began.
    FirstValue,
    /// The name of a member.
    Name,
    /// The name of a member, or the end of the object that just began.
    FirstName,
    /// The colon behind a name.
    Colon,
    /// A comma, or the end of what is open.
    After,
    /// More of a text, which may be a name.
    Text { is_name: bool },
    /// What was escaped.
    Escape { is_name: bool },
    /// So many hexadecimal digits.
    Hex { is_name: bool, left: u8 },
    /// More of a number.
    Number(Number),
    /// The rest of a word.
    Word(&'static [u8]),
    /// Nothing but white space.
    Done,
}

/// Where in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

/// Reads a message as it passes by.
#[derive(Debug)]
pub struct Scan {
    state: State,
    /// What is open, outermost first: objects are true.
    open: Vec<bool>,
    /// Where the chunk before ended.
    passed: u64,
    /// The name of the member of the message that is being read, without quotes.
    name: Vec<u8>,
    /// The member of the message that is being read, if it matters.
    member: Option<Member>,
    /// Where it began.
    began: u64,
    /// Where in the chunk that is looked at its bytes begin, if they are kept.
    keeps_from: Option<usize>,
    kept: [Vec<u8>; 3],
    places: [Option<Range<u64>>; Member::COUNT],
    /// The start of a character that the chunk before cut.
    character: Vec<u8>,
}

impl Default for Scan {
    fn default() -> Self {
        Self::new()
    }
}

impl Scan {
    /// At the start of a message.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Value,
            open: Vec::new(),
            passed: 0,
            name: Vec::new(),
            member: None,
            began: 0,
            keeps_from: None,
            kept: Default::default(),
            places: Default::default(),
            character: Vec::new(),
        }
    }

    /// The JSON of the id, once it has passed.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        let is_known = self.places.get(Member::Id as usize).is_some_and(Option::is_some);
        self.kept.get(Member::Id as usize).filter(|_| is_known).map(Vec::as_slice)
    }

    /// What the message is, once that is known. An id alone says nothing: whoever asks chooses it.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        let has_passed =
            |member: Member| self.places.get(member as usize).is_some_and(Option::is_some);
        let has_begun = |member: Member| self.member == Some(member) || has_passed(member);
        if has_passed(Member::Method) {
            Some(Kind::Asks)
        } else if has_begun(Member::Result) || has_begun(Member::Error) {
            Some(Kind::Answers)
        } else {
            None
        }
    }

    /// Looks at the next bytes. After an error, there is nothing to be said of others.
    ///
    /// # Errors
    ///
    /// [`Malformed`] as soon as it is known.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut at = 0;
        while at < bytes.len() {
            at = match self.state {
                State::Text { is_name } => self.text(at, bytes, is_name)?,
                State::Number(number) => self.number(at, bytes, number)?,
                _ => {
                    self.step(at, bytes)?;
                    at + 1
                }
            };
        }
        if let Some(from) = self.keeps_from.take() {
            self.keep(bytes.get(from..).unwrap_or_default())?;
            self.keeps_from = Some(0);
        }
        self.passed += bytes.len() as u64;
        Ok(())
    }

    /// All bytes have passed.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the message has not ended.
    pub fn finish(self) -> Result<Envelope, Malformed> {
        if self.state != State::Done {
            return Err(Malformed);
        }
        let mut head = b"{".to_vec();
        for (member, name) in Member::ALL {
            let is_there = self.places.get(member as usize).is_some_and(Option::is_some);
            if !is_there {
                continue;
            }
            if head.len() > 1 {
                head.push(b',');
            }
            head.extend_from_slice(format!("\"{name}\":").as_bytes());
            let kept = self.kept.get(member as usize).filter(|_| member.is_small());
            head.extend_from_slice(kept.map_or(b"0", Vec::as_slice));
        }
        head.push(b'}');
        Ok(Envelope { head, places: self.places })
    }

    /// Looks at one byte that is not within a text or a number.
    fn step(&mut self, at: usize, bytes: &[u8]) -> Result<(), Malformed> {
        let byte = bytes.get(at).copied().ok_or(Malformed)?;
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match self.state {
            State::Word([wanted, rest @ ..]) if *wanted == byte => match rest {
                [] => self.end_value(at + 1, bytes)?,
                rest => self.state = State::Word(rest),
            },
            State::Escape { is_name } => {
                if is_name {
                    self.note(&[byte]);
                }
                self.state = match byte {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                        State::Text { is_name }
                    }
                    b'u' => State::Hex { is_name, left: 4 },
                    _ => return Err(Malformed),
                };
            }
            State::Hex { is_name, left } if byte.is_ascii_hexdigit() => {
                if is_name {
                    self.note(&[byte]);
                }
                self.state = match left {
                    1 => State::Text { is_name },
                    _ => State::Hex { is_name, left: left - 1 },
                };
            }
            State::Word(_) | State::Hex { .. } => return Err(Malformed),
            _ if is_space => {}
            State::FirstValue if byte == b']' => self.close(false, at, bytes)?,
            State::Value | State::FirstValue => self.value(byte, at)?,
            State::FirstName if byte == b'}' => self.close(true, at, bytes)?,
            State::Name | State::FirstName if byte == b'"' => {
                self.name.clear();
                self.state = State::Text { is_name: true };
            }
            State::Colon if byte == b':' => self.state = State::Value,
            State::After => match byte {
                b',' if self.open.last() == Some(&true) => self.state = State::Name,
                b',' => self.state = State::Value,
                b'}' => self.close(true, at, bytes)?,
                b']' => self.close(false, at, bytes)?,
                _ => return Err(Malformed),
            },
            _ => return Err(Malformed),
        }
        Ok(())
    }

    /// Begins a value.
    fn value(&mut self, byte: u8, at: usize) -> Result<(), Malformed> {
        match self.open.len() {
            // A message is an object.
            0 if byte != b'{' => return Err(Malformed),
            1 => {
                self.began = self.passed + at as u64;
                let is_small = self.member.is_some_and(Member::is_small);
                self.keeps_from = is_small.then_some(at);
            }
            _ => {}
        }
        self.state = match byte {
            b'{' => self.open(true)?,
            b'[' => self.open(false)?,
            b'"' => State::Text { is_name: false },
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Whole),
            b't' => State::Word(b"rue"),
            b'f' => State::Word(b"alse"),
            b'n' => State::Word(b"ull"),
            _ => return Err(Malformed),
        };
        Ok(())
    }

    fn open(&mut self, is_object: bool) -> Result<State, Malformed> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Malformed);
        }
        self.open.push(is_object);
        Ok(if is_object { State::FirstName } else { State::FirstValue })
    }

    fn close(&mut self, is_object: bool, at: usize, bytes: &[u8]) -> Result<(), Malformed> {
        match self.open.pop() {
            Some(opened) if opened == is_object => self.end_value(at + 1, bytes),
            _ => Err(Malformed),
        }
    }

    /// A value ended before `end`.
    fn end_value(&mut self, end: usize, bytes: &[u8]) -> Result<(), Malformed> {
        self.state = if self.open.is_empty() { State::Done } else { State::After };
        if self.open.len() != 1 {
            return Ok(());
        }
        if let Some(from) = self.keeps_from.take() {
            self.keep(bytes.get(from..end).unwrap_or_default())?;
        }
        if let Some(place) = self.member.take().and_then(|m| self.places.get_mut(m as usize)) {
            *place = Some(self.began..self.passed + end as u64);
        }
        Ok(())
    }

    /// Looks at a text from `at` to its end, to something that is escaped, or to the end of the
    /// chunk. Returns where that is.
    fn text(&mut self, at: usize, bytes: &[u8], is_name: bool) -> Result<usize, Malformed> {
        let rest = bytes.get(at..).unwrap_or_default();
        let end = memchr::memchr2(b'"', b'\\', rest);
        let plain = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if plain.iter().any(|byte| *byte < b' ') {
            return Err(Malformed);
        }
        self.characters(plain, end.is_some())?;
        if is_name {
            self.note(plain);
        }
        let Some(end) = end else { return Ok(bytes.len()) };
        let after = at + end + 1;
        if rest.get(end) == Some(&b'\\') {
            self.state = State::Escape { is_name };
            if is_name {
                self.note(b"\\");
            }
        } else if is_name {
            self.state = State::Colon;
            self.end_name()?;
        } else {
            self.end_value(after, bytes)?;
        }
        Ok(after)
    }

    /// Checks that bytes of a text are characters; the last may go on in the next chunk.
    fn characters(&mut self, mut plain: &[u8], is_end: bool) -> Result<(), Malformed> {
        while !self.character.is_empty() {
            let Some((byte, rest)) = plain.split_first() else { break };
            self.character.push(*byte);
            plain = rest;
            match str::from_utf8(&self.character) {
                Ok(_) => self.character.clear(),
                Err(why) if why.error_len().is_some() => return Err(Malformed),
                Err(_) => {}
            }
        }
        if let Err(why) = str::from_utf8(plain) {
            if why.error_len().is_some() {
                return Err(Malformed);
            }
            self.character.extend_from_slice(plain.get(why.valid_up_to()..).unwrap_or_default());
        }
        if is_end && !self.character.is_empty() { Err(Malformed) } else { Ok(()) }
    }

    /// Remembers bytes of a name of the message itself, and one more than it may have.
    fn note(&mut self, bytes: &[u8]) {
        if self.open.len() == 1 {
            let room = (NAME_BYTES_MAX + 1).saturating_sub(self.name.len());
            self.name.extend(bytes.iter().take(room));
        }
    }

    /// A name ended: finds out which member follows.
    fn end_name(&mut self) -> Result<(), Malformed> {
        if self.open.len() != 1 {
            return Ok(());
        }
        self.member = None;
        if self.name.len() > NAME_BYTES_MAX {
            return Ok(());
        }
        let quoted = [b"\"", self.name.as_slice(), b"\""].concat();
        let name: String = serde_json::from_slice(&quoted).map_err(|_| Malformed)?;
        let known = Member::ALL.iter().find(|(_, known)| *known == name);
        if let Some((member, _)) = known {
            if self.places.get(*member as usize).is_some_and(Option::is_some) {
                return Err(Malformed);
            }
            self.member = Some(*member);
        }
        Ok(())
    }

    /// Keeps bytes of a small member.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let kept = self.member.and_then(|member| self.kept.get_mut(member as usize));
        let Some(kept) = kept else { return Ok(()) };
        if kept.len() + bytes.len() > KEPT_BYTES_MAX {
            return Err(Malformed);
        }
        kept.extend_from_slice(bytes);
        Ok(())
    }

    /// Looks at a number from `at` on, to its end or to that of the chunk. Returns where that is.
    fn number(&mut self, at: usize, bytes: &[u8], from: Number) -> Result<usize, Malformed> {
        let mut number = from;
        for (passed, byte) in bytes.get(at..).unwrap_or_default().iter().enumerate() {
            match number.next(*byte) {
                Some(next) => number = next,
                None if number.may_end() => {
                    self.end_value(at + passed, bytes)?;
                    return Ok(at + passed);
                }
                None => return Err(Malformed),
            }
        }
        self.state = State::Number(number);
        Ok(bytes.len())
    }
}

impl Number {
    /// Where the number is after a byte, if that belongs to it.
    const fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Self::Whole,
            (Self::Zero | Self::Whole, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Exponent, b'+' | b'-') => Self::Sign,
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Self::Power,
            _ => return None,
        })
    }

    const fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Power)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn scan<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Envelope, Malformed> {
        let mut scan = Scan::new();
        for chunk in chunks {
            scan.push(chunk)?;
        }
        scan.finish()
    }

    /// What can be told of a message, and the text of what it carries.
    fn told(message: &Message<'_>) -> (String, Option<String>) {
        let text = |raw: &RawValue| raw.get().to_owned();
        match message {
            Message::Result { id, result } => (format!("r {}", id.as_json()), Some(text(result))),
            Message::Error { id, error } => {
                (format!("e {:?}", id.as_ref().map(|id| id.as_json())), Some(text(error)))
            }
            Message::Request { id, method, .. } => (format!("q {} {method}", id.as_json()), None),
            Message::Notification { method, .. } => (format!("n {method}"), None),
        }
    }

    /// The scanner agrees with the reader of small messages, however the bytes are cut.
    #[track_caller]
    fn check(bytes: &[u8], cuts: &[usize]) -> bool {
        let chunks = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let scanned = scan(chunks);
        let envelope = scanned.as_ref().map_err(|_| ()).and_then(|e| {
            let message = e.message().map_err(|_| ())?;
            let place = e.result().or_else(|| e.error());
            let text = place.filter(|_| !matches!(message, Message::Request { .. }));
            let text = text.map(|range| {
                let place = |at: u64| usize::try_from(at).unwrap();
                let text = bytes[place(range.start)..place(range.end)].to_vec();
                String::from_utf8(text).unwrap()
            });
            Ok((told(&message).0, text))
        });
        let expected = Message::read(bytes).as_ref().map(told).map_err(|_| ());
        assert_eq!(envelope, expected, "{:?}", String::from_utf8_lossy(bytes));
        expected.is_ok()
    }

    fn check_all_cuts(text: &str) -> bool {
        let bytes = text.as_bytes();
        let every: Vec<usize> = (0..=bytes.len()).collect();
        let is_message = check(bytes, &every);
        for cut in 0..=bytes.len() {
            assert_eq!(check(bytes, &[0, cut, bytes.len()]), is_message);
        }
        is_message
    }

    #[test]
    fn what_a_message_is_is_known_as_soon_as_its_members_say_so() {
        let kind = |text: &str| {
            let mut scan = Scan::new();
            scan.push(text.as_bytes()).unwrap();
            scan.kind()
        };
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"params":{"method":"x","result":1}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"#, Some(Kind::Answers)),
            (r#"{"jsonrpc":"2.0","id":1,"error":{}"#, Some(Kind::Answers)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x""#, Some(Kind::Asks)),
            (r#"{"m\u0065thod":"x","id":1,"params":{"result":1"#, Some(Kind::Asks)),
            (r#"{"id":1,"params":{},"method":"x"}"#, Some(Kind::Asks)),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1,-2.5e+10,true,false,null,"x\u00e9\"€𝄞"]}}"#,
            r#" { "result" : [ ] , "x":{"result":1,"id":2}, "id" : "a\n" , "jsonrpc" : "2.0" } "#,
            r#"{"jsonrpc":"2.0","\u0069d":17,"r\u0065sult":-0}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":{}}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"p\u0069ng"}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":"","":0,"é":[[[]],{}]}"#,
        ] {
            assert!(check_all_cuts(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_none() {
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","result":1}}"#, "x".repeat(9000));
        for text in [
            "",
            " ",
            "[]",
            "1",
            "{",
            "{}",
            "{} {}",
            r#"{"jsonrpc":"2.0","id":1,"result":01}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1.}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":-}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":tru}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":truee}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":[1,]}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":[1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":"\x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":"\u12g4"}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\n\"}",
            r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"result":2}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"result":2}"#,
            r#"{"jsonrpc":"2.0","id":{},"result":2}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":2}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":2,"error":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":2,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
        ] {
            assert!(!check_all_cuts(text), "{text}");
        }
        assert!(!check(long.as_bytes(), &[0, long.len()]));
        for bad in [b"\xff".as_slice(), b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc3\""] {
            let bytes = [br#"{"jsonrpc":"2.0","id":1,"result":""#, bad, br#""}"#].concat();
            let every: Vec<usize> = (0..=bytes.len()).collect();
            assert!(!check(&bytes, &every));
            assert!(!check(&bytes, &[0, bytes.len()]));
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{open}{close}}}"#)
        };
        assert!(scan([nested(MAX_DEPTH - 1).as_bytes()]).is_ok());
        assert_eq!(scan([nested(MAX_DEPTH).as_bytes()]).err(), Some(Malformed));
    }

    #[test]
    fn the_id_is_known_as_soon_as_it_has_passed() {
        let mut scan = Scan::new();
        scan.push(br#"{"id":1"#).unwrap();
        assert_eq!(scan.id(), None);
        scan.push(br#"7,"#).unwrap();
        assert_eq!(scan.id(), Some(b"17".as_slice()));
    }

    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            "-?(0|[1-9][0-9]{0,4})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
            ".{0,8}".prop_map(|text| serde_json::Value::from(text).to_string()),
            Just(r#""\u00e9\\\"""#.to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|items| format!("[{}]", items.join(" , "))),
                prop::collection::vec(("[a-zé\\\\\"]{0,4}", inner), 0..4).prop_map(|members| {
                    let members: Vec<String> = members
                        .into_iter()
                        .map(|(name, value)| format!("{} :{value}", serde_json::Value::from(name)))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    fn any_message() -> impl Strategy<Value = Vec<u8>> {
        let members = prop::collection::vec(
            prop_oneof![
                Just(r#""jsonrpc":"2.0""#.to_owned()),
                Just(r#""id" : 7"#.to_owned()),
                any_json().prop_map(|json| format!("\"result\":{json}")),
                any_json().prop_map(|json| format!("\"error\": {json} ")),
                any_json().prop_map(|json| format!("\"other\":{json}")),
                any_json().prop_map(|json| format!("\"params\":{json}")),
                Just(r#""method":"a/b""#.to_owned()),
            ],
            0..5,
        );
        let damage = prop::option::of((any::<prop::sample::Index>(), any::<u8>()));
        (members, any_json(), any::<bool>(), damage).prop_map(
            |(members, json, is_plain, damage)| {
                let text = match is_plain {
                    true => format!(r#"{{"jsonrpc":"2.0","id":7,"result":{json}}}"#),
                    false => format!("{{{}}}", members.join(",")),
                };
                let mut bytes = text.into_bytes();
                if let Some((at, byte)) = damage {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                bytes
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn agrees_with_the_reader_of_small_messages(
            bytes in any_message(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            check(&bytes, &cuts);
        }
    }
}
