//! Streams of events, as bytes.
//!
//! The parser takes chunks however they were cut, and gives the data of an event out in slices of
//! them, as it comes: an event may be larger than memory. It does not read anything by itself.

use std::time::Duration;

use bytes::{Buf as _, Bytes};

/// Bytes of the name of a field that are looked at: the longest known one, with a byte order mark.
const NAME_BYTES_MAX: usize = 16;

/// Bytes of an id that is remembered at most, and of the name of a kind, but for one. It goes into a header when a stream is resumed.
pub const VALUE_BYTES_MAX: usize = 4096;

/// Something that was found in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a stream has nothing else")]
pub enum Piece {
    /// A part of the data of an event.
    Data(Bytes),
    /// The end of the event.
    End(Event),
}

/// What an event says beside its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its kind; messages have none, or `message`.
    pub kind: Vec<u8>,
    /// From where on a broken stream is resumed.
    pub id: Option<Vec<u8>>,
    /// How long to wait before that.
    pub retry: Option<Duration>,
}

impl Event {
    /// Whether it is one that carries messages.
    #[must_use]
    pub fn is_message(&self) -> bool {
        matches!(self.kind.as_slice(), b"" | b"message")
    }
}

/// Finds events in chunks.
#[derive(Debug, Default)]
pub struct Parser {
    chunk: Bytes,
    at: At,
    /// The chunk before ended with a carriage return: a line feed now is the same end of a line.
    after_return: bool,
    /// The first line has been seen.
    has_begun: bool,
    /// The name of the field, or its value if that is not data.
    text: Vec<u8>,
    /// The event has data.
    has_data: bool,
    /// The event has anything.
    has_fields: bool,
    event: Event,
}

/// Where in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// In the name of a field.
    #[default]
    Name,
    /// Behind its colon, where one space does not count.
    Space(Field),
    /// In its value.
    Value(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Kind,
    Id,
    Retry,
    /// A comment, or nothing known.
    Other,
}

impl Parser {
    /// Takes the next chunk, once the one before gave all that it had.
    pub fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "the chunk before is used up");
        self.chunk = chunk;
    }

    /// The next thing that the chunk has; nothing, if it is used up.
    pub fn next_piece(&mut self) -> Option<Piece> {
        loop {
            let first = *self.chunk.first()?;
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                self.chunk.advance(1);
                continue;
            }
            let found = match self.at {
                At::Name => self.name(),
                At::Space(field) => self.space(field, first),
                At::Value(Field::Data) => self.data(),
                At::Value(field) => {
                    self.value(field);
                    None
                }
            };
            if found.is_some() {
                return found;
            }
        }
    }

    /// Whether the event that has not ended carries a message, as far as it has said so.
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.event.is_message()
    }

    /// The stream has ended: so has its last event, if it lacks no more than the end of its line and
    /// the empty line behind it.
    pub fn end(&mut self) {
        self.push(Bytes::from_static(b"\n\n"));
    }

    fn name(&mut self) -> Option<Piece> {
        let Some(at) = memchr::memchr3(b':', b'\n', b'\r', &self.chunk) else {
            let all = self.chunk.split_off(0);
            self.keep(&all, NAME_BYTES_MAX);
            return None;
        };
        let name = self.chunk.split_to(at);
        self.keep(&name, NAME_BYTES_MAX);
        let is_named = self.chunk.first() == Some(&b':');
        if is_named {
            self.chunk.advance(1);
            let field = self.field();
            self.at = At::Space(field);
            return None;
        }
        self.end_line();
        let is_blank = self.begun().is_empty();
        let field = self.field();
        if is_blank {
            return self.end_event().map(Piece::End);
        }
        // A field without a value.
        let gap = (field == Field::Data).then(|| self.gap()).flatten();
        self.end_field(field);
        gap
    }

    fn space(&mut self, field: Field, first: u8) -> Option<Piece> {
        if first == b' ' {
            self.chunk.advance(1);
        }
        self.at = At::Value(field);
        if field == Field::Data { self.gap() } else { None }
    }

    fn data(&mut self) -> Option<Piece> {
        let piece = match memchr::memchr2(b'\n', b'\r', &self.chunk) {
            Some(at) => {
                let piece = self.chunk.split_to(at);
                self.end_line();
                self.end_field(Field::Data);
                piece
            }
            None => self.chunk.split_off(0),
        };
        (!piece.is_empty()).then_some(Piece::Data(piece))
    }

    fn value(&mut self, field: Field) {
        match memchr::memchr2(b'\n', b'\r', &self.chunk) {
            Some(at) => {
                let value = self.chunk.split_to(at);
                self.keep(&value, VALUE_BYTES_MAX);
                self.end_line();
                self.end_field(field);
            }
            None => {
                let all = self.chunk.split_off(0);
                self.keep(&all, VALUE_BYTES_MAX);
            }
        }
    }

    /// What is between two lines of data.
    fn gap(&mut self) -> Option<Piece> {
        self.has_fields = true;
        std::mem::replace(&mut self.has_data, true)
            .then_some(Piece::Data(Bytes::from_static(b"\n")))
    }

    /// Passes over the end of a line.
    fn end_line(&mut self) {
        self.after_return = self.chunk.first() == Some(&b'\r');
        self.chunk.advance(1);
        self.at = At::Name;
    }

    /// The name so far, without the mark that a stream may begin with.
    fn begun(&self) -> &[u8] {
        match self.has_begun {
            true => &self.text,
            false => self.text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.text),
        }
    }

    fn field(&mut self) -> Field {
        let field = match self.begun() {
            b"data" => Field::Data,
            b"event" => Field::Kind,
            b"id" => Field::Id,
            b"retry" => Field::Retry,
            _ => Field::Other,
        };
        self.has_begun = true;
        self.text.clear();
        field
    }

    fn end_field(&mut self, field: Field) {
        self.at = At::Name;
        let is_whole = self.text.len() <= VALUE_BYTES_MAX;
        let value = std::mem::take(&mut self.text);
        match field {
            Field::Data | Field::Other => return,
            Field::Kind => self.event.kind = value,
            Field::Id if is_whole && !value.contains(&0) => self.event.id = Some(value),
            Field::Id => return,
            Field::Retry => match milliseconds(&value).filter(|_| is_whole) {
                Some(retry) => self.event.retry = Some(retry),
                None => return,
            },
        }
        self.has_fields = true;
    }

    fn end_event(&mut self) -> Option<Event> {
        self.has_data = false;
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_fields).then_some(event)
    }

    /// Keeps bytes of a text, and one more than it may have if it is too long.
    fn keep(&mut self, bytes: &[u8], bytes_max: usize) {
        let room = (bytes_max + 1).saturating_sub(self.text.len());
        self.text.extend(bytes.iter().take(room));
    }
}

fn milliseconds(digits: &[u8]) -> Option<Duration> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_number)?;
    digits.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All events of a stream that arrives in these chunks, with their data.
    fn events<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<(Event, Vec<u8>)> {
        let mut parser = Parser::default();
        let (mut events, mut data) = (Vec::new(), Vec::new());
        for chunk in chunks.into_iter().map(Some).chain([None]) {
            match chunk {
                Some(chunk) => parser.push(Bytes::copy_from_slice(chunk)),
                None => parser.end(),
            }
            while let Some(piece) = parser.next_piece() {
                match piece {
                    Piece::Data(piece) => data.extend_from_slice(&piece),
                    Piece::End(event) => events.push((event, std::mem::take(&mut data))),
                }
            }
        }
        events
    }

    /// The same by the book: lines first, then fields.
    fn by_the_book(stream: &[u8]) -> Vec<(Event, Vec<u8>)> {
        let stream = stream.strip_prefix("\u{feff}".as_bytes()).unwrap_or(stream);
        let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
        let mut bytes = stream.iter().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\r' => {
                    bytes.next_if_eq(&&b'\n');
                    lines.push(Vec::new());
                }
                b'\n' => lines.push(Vec::new()),
                other => lines.last_mut().unwrap().push(*other),
            }
        }
        let mut events = Vec::new();
        let (mut event, mut data) = (Event::default(), None::<Vec<u8>>);
        let mut is_empty = true;
        // The end of the stream ends a line, and an event like an empty one.
        lines.push(Vec::new());
        for line in lines {
            if line.is_empty() {
                let (event, data) = (std::mem::take(&mut event), data.take().unwrap_or_default());
                if !std::mem::replace(&mut is_empty, true) {
                    events.push((event, data));
                }
                continue;
            }
            let (name, value) = match line.iter().position(|byte| *byte == b':') {
                Some(at) => (line[..at].to_vec(), line[at + 1..].to_vec()),
                None => (line, Vec::new()),
            };
            let value = value.strip_prefix(b" ").unwrap_or(&value).to_vec();
            match name.as_slice() {
                b"data" => match &mut data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend(value);
                    }
                    None => data = Some(value),
                },
                b"event" => event.kind = value,
                b"id" if !value.contains(&0) => event.id = Some(value),
                b"retry" if milliseconds(&value).is_some() => event.retry = milliseconds(&value),
                _ => continue,
            }
            is_empty = false;
        }
        events
    }

    #[test]
    fn events_as_servers_write_them() {
        let stream = b": hello\n\nid: 0/1\nretry: 3000\ndata:\n\nevent: message\ndata: {\"a\":1}\n\
            \ndata:1\ndata: 2\r\ndata\rdata:  3\n\nevent: ping\ndata: x\n\nid\n\n";
        let event = |kind: &str, id: Option<&str>, retry: Option<u64>| Event {
            kind: kind.into(),
            id: id.map(Into::into),
            retry: retry.map(Duration::from_millis),
        };
        let expected = vec![
            (event("", Some("0/1"), Some(3000)), b"".to_vec()),
            (event("message", None, None), b"{\"a\":1}".to_vec()),
            (event("", None, None), b"1\n2\n\n 3".to_vec()),
            (event("ping", None, None), b"x".to_vec()),
            (event("", Some(""), None), b"".to_vec()),
        ];
        assert_eq!(events([stream.as_slice()]), expected);
        assert_eq!(by_the_book(stream), expected);
    }

    #[test]
    fn data_is_a_slice_of_the_chunk() {
        let chunk = Bytes::from_static(b"data: {\"a\":1}\n\n");
        let mut parser = Parser::default();
        parser.push(chunk.clone());
        let Some(Piece::Data(data)) = parser.next_piece() else { panic!("data") };
        assert_eq!(data.as_ptr(), chunk.slice(6..).as_ptr());
        assert_eq!(parser.next_piece(), Some(Piece::End(Event::default())));
        assert_eq!(parser.next_piece(), None);
    }

    #[test]
    fn what_is_too_long_is_not_remembered() {
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        let stream = format!("id: {long}\ndata: 1\n\nid: {}\n\n{long}: 2\n\n", &long[1..]);
        let found = events([stream.as_bytes()]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0.id, None);
        assert_eq!(found[1].0.id.as_ref().unwrap().len(), VALUE_BYTES_MAX);
        let zeros = "0".repeat(VALUE_BYTES_MAX);
        assert_eq!(events([format!("retry: {zeros}7\n\n").as_bytes()]), []);
    }

    fn any_stream() -> impl Strategy<Value = Vec<u8>> {
        let part = prop::sample::select(vec![
            "data",
            "event",
            "id",
            "retry",
            "data:",
            "data: ",
            "id: 7",
            "event: message",
            ":",
            "retry: 10",
            " ",
            "\n",
            "\r",
            "\r\n",
            "\n\n",
            "{\"a\":1}",
            "x",
            "\u{feff}",
            "\0",
            "é",
        ]);
        prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat().into_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn however_it_is_cut_it_is_the_same(
            stream in any_stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
            prop_assert_eq!(events(chunks), by_the_book(&stream));
        }

        #[test]
        fn byte_by_byte_it_is_the_same(stream in any_stream()) {
            prop_assert_eq!(events(stream.chunks(1)), by_the_book(&stream));
        }

        #[test]
        fn any_bytes_are_some_events(stream: Vec<u8>) {
            events(stream.chunks(3));
        }
    }
}
