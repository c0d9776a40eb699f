//! One pass over a document: is it JSON, and where do the items start?

use std::ops::Range;

use super::pick;
use super::pointer::{self, Pointer};
use super::scan::{Fault, Guide, MAX_DEPTH, Names, Scan, Stop};
use super::source::ByteSource;
use super::starts::Starts;
use super::window::{FIRST_READ_BYTES, READ_BYTES, Window};
use crate::collection::CollectionError;

/// Where the items of a document are.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) target: Target,
    pub(super) starts: Starts,
}

/// What items are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The elements of an array.
    Elements,
    /// The members of an object.
    Members,
    /// The value itself: neither array nor object.
    Itself,
}

impl Index {
    /// Checks a document from its first byte to its last, and finds the items of the value at
    /// `pointer`.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Damaged`] if it is not one JSON value, [`CollectionError::NothingAt`] if there
    /// is nothing at the pointer; errors of the source.
    pub(super) fn build(
        source: &dyn ByteSource,
        pointer: &Pointer,
        chunk: usize,
    ) -> Result<Self, CollectionError> {
        let edition = source.edition();
        let size = source.size_bytes();
        let mut builder = Builder::new(Window::new(source, chunk)?);
        let items = &mut |builder: &mut Builder<'_>, depth| builder.items(size, depth);
        let found = builder.find(pointer.tokens(), 0, items)?;
        builder.end()?;
        if source.edition() != edition {
            return Err(CollectionError::Changed);
        }
        found.ok_or_else(|| CollectionError::NothingAt(pointer.clone()))
    }
}

/// Which bytes of a document are the value at `pointer`; nothing, if there is none.
///
/// The whole document is checked, in one pass and bounded memory: no value of it need fit there.
///
/// # Errors
///
/// [`CollectionError::Damaged`] if the source is not one JSON value in UTF-8, or is nested more than
/// 128 deep; errors of the source.
pub fn locate(
    source: &dyn ByteSource,
    pointer: &Pointer,
) -> Result<Option<Range<u64>>, CollectionError> {
    let edition = source.edition();
    let mut builder = Builder::new(Window::new(source, READ_BYTES)?);
    let found = builder.find(pointer.tokens(), 0, &mut Builder::span)?;
    builder.end()?;
    if source.edition() == edition { Ok(found) } else { Err(CollectionError::Changed) }
}

/// Where the value is that the tokens lead to, from the value that is in these bytes, which was
/// checked before. What follows that value does not matter.
///
/// # Errors
///
/// Errors of the source; [`CollectionError::Damaged`] if it was changed since.
pub(super) fn locate_within(
    source: &dyn ByteSource,
    bytes: Range<u64>,
    tokens: &[String],
) -> Result<Option<Range<u64>>, CollectionError> {
    let window = Window::over(source, bytes, FIRST_READ_BYTES..=READ_BYTES)?;
    let mut builder = Builder::new(window);
    builder.find(tokens, 0, &mut Builder::span)
}

struct Builder<'a> {
    window: Window<'a>,
    foresight: Foresight,
}

impl<'a> Builder<'a> {
    const fn new(window: Window<'a>) -> Self {
        Self { window, foresight: Foresight::new() }
    }

    /// Reads a value, and finds what the tokens lead to in it: `found` goes over that.
    fn find<T>(
        &mut self,
        tokens: &[String],
        depth: u32,
        found: &mut impl FnMut(&mut Self, u32) -> Result<T, CollectionError>,
    ) -> Result<Option<T>, CollectionError> {
        let first = self.peek()?;
        let Some((token, rest)) = tokens.split_first() else {
            return found(self, depth).map(Some);
        };
        match first {
            b'{' => self.find_member(token, rest, depth, found),
            b'[' => self.find_element(pointer::element_number(token), rest, depth, found),
            _ => {
                self.skip(depth)?;
                Ok(None)
            }
        }
    }

    fn find_member<T>(
        &mut self,
        token: &str,
        rest: &[String],
        depth: u32,
        found: &mut impl FnMut(&mut Self, u32) -> Result<T, CollectionError>,
    ) -> Result<Option<T>, CollectionError> {
        self.open(depth)?;
        let mut last = None;
        let mut state = State::Start;
        while self.next(&mut state, b'}')? {
            let is_it = self.window.name(|name| pick::is_name(name, token))?;
            self.window.colon()?;
            if is_it == Some(true) {
                // Of several members of one name the last one counts, whatever it is.
                last = self.find(rest, depth + 1, found)?;
            } else {
                self.peek()?;
                self.skip(depth + 1)?;
            }
        }
        Ok(last)
    }

    fn find_element<T>(
        &mut self,
        wanted: Option<u64>,
        rest: &[String],
        depth: u32,
        found: &mut impl FnMut(&mut Self, u32) -> Result<T, CollectionError>,
    ) -> Result<Option<T>, CollectionError> {
        self.open(depth)?;
        let mut one = None;
        let mut state = State::Start;
        let mut number = 0;
        while self.next(&mut state, b']')? {
            if wanted == Some(number) {
                one = self.find(rest, depth + 1, found)?;
            } else {
                self.skip(depth + 1)?;
            }
            number += 1;
        }
        Ok(one)
    }

    /// Where the value that starts here is.
    fn span(&mut self, depth: u32) -> Result<Range<u64>, CollectionError> {
        let start = self.window.offset(self.window.done());
        self.skip(depth)?;
        Ok(start..self.window.offset(self.window.done()))
    }

    /// The items of the value that starts here, of a source of this size.
    fn items(&mut self, size: u64, depth: u32) -> Result<Index, CollectionError> {
        let mut starts = Starts::new(size);
        let target = match self.peek()? {
            b'[' => Target::Elements,
            b'{' => Target::Members,
            _ => {
                starts.push(self.window.offset(self.window.done()));
                self.skip(depth)?;
                starts.finish(self.window.offset(self.window.done()));
                return Ok(Index { target: Target::Itself, starts });
            }
        };
        self.open(depth)?;
        let mut walk = Walk { target, depth: depth + 1, state: State::Start, at: 0 };
        loop {
            walk.at = self.window.done();
            let (scan, base) = (self.window.scan(), self.window.offset(0));
            let found = |at| starts.push(base + at as u64);
            let result = if self.foresight.is_worth_it() {
                walk.run(&scan, &mut self.foresight.names, found)
            } else {
                walk.run(&scan, &mut (), found)
            };
            self.foresight.assess(walk.at - self.window.done());
            self.window.set_done(walk.at);
            starts.check_count()?;
            match result {
                Ok(end) => {
                    starts.finish(self.window.offset(end));
                    return Ok(Index { target, starts });
                }
                // The rest of an item comes later, and is not waited for: it may be long.
                Err(Stop::Incomplete) if walk.state == State::Item => {
                    self.peek()?;
                    let start = self.window.offset(self.window.done());
                    if target == Target::Members {
                        self.window.name(|_| ())?;
                        self.window.colon()?;
                    }
                    self.window.skim(depth + 1)?;
                    starts.push(start);
                    walk.state = State::Between;
                }
                Err(stop) => self.window.go_on(stop)?,
            }
        }
    }

    /// Goes on to the next byte that is not white space.
    fn peek(&mut self) -> Result<u8, CollectionError> {
        self.window.space()?;
        self.window.step(|scan, at| Ok((scan.byte(at)?, at)))
    }

    /// Goes into an array or object below `depth` others.
    fn open(&mut self, depth: u32) -> Result<(), CollectionError> {
        self.window.step(|_, at| match depth {
            0..MAX_DEPTH => Ok(((), at + 1)),
            _ => Err(Stop::Bad(Fault::too_deep(at))),
        })
    }

    /// Goes over a value.
    fn skip(&mut self, depth: u32) -> Result<(), CollectionError> {
        let at = self.window.done();
        match self.window.scan().value(at, depth, &mut self.foresight.names) {
            Ok(end) => {
                self.window.set_done(end);
                Ok(())
            }
            Err(Stop::Incomplete) => self.window.skim(depth),
            Err(stop) => self.window.go_on(stop),
        }
    }

    /// Goes on to the next element or member; or out of the array or object, if there is none.
    fn next(&mut self, state: &mut State, close: u8) -> Result<bool, CollectionError> {
        let step = std::mem::replace(state, State::Between);
        let (byte, at) = (self.peek()?, self.window.done());
        match (byte, step) {
            (byte, _) if byte == close => {
                self.window.set_done(at + 1);
                Ok(false)
            }
            (_, State::Start) => Ok(true),
            (b',', _) => {
                self.window.set_done(at + 1);
                self.peek().map(|_| true)
            }
            _ => self.window.go_on(Stop::Bad(Fault::not_between(at, close))).map(|()| false),
        }
    }

    /// Checks that nothing follows the document.
    fn end(&mut self) -> Result<(), CollectionError> {
        loop {
            let at = self.window.scan().space(self.window.done());
            if at < self.window.bytes().len() {
                return self.window.go_on(Stop::Bad(Fault::trailing(at)));
            }
            self.window.set_done(at);
            if self.window.is_last() {
                return self.window.check_utf8();
            }
            self.window.slide()?;
        }
    }
}

/// Names that are foreseen as long as that pays.
struct Foresight {
    names: Names,
    /// So many windows more do without.
    pause: u32,
}

impl Foresight {
    /// A name that was not foreseen in as many bytes costs what the others save.
    const WORTHLESS_BYTES: usize = 128;

    /// The windows after which it is tried again.
    const PAUSE: u32 = 15;

    const fn new() -> Self {
        Self { names: Names::new(), pause: 0 }
    }

    const fn is_worth_it(&self) -> bool {
        self.pause == 0
    }

    /// After a window, of which so many bytes were dealt with.
    fn assess(&mut self, bytes: usize) {
        let misses = self.names.take_misses();
        if self.pause > 0 {
            self.pause -= 1;
        } else if misses > Names::COUNT + bytes / Self::WORTHLESS_BYTES {
            self.pause = Self::PAUSE;
        }
    }
}

/// Goes over the items of one array or object, as far as there are bytes.
struct Walk {
    target: Target,
    /// How many arrays and objects the items are in.
    depth: u32,
    state: State,
    at: usize,
}

/// Where a walk is in an array or object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first item, or the end.
    Start,
    /// Before an item.
    Item,
    /// Behind an item: before a comma, or the end.
    Between,
}

impl Walk {
    /// The place of the bracket that closes the array or object. `found` is told of every item.
    fn run(
        &mut self,
        scan: &Scan<'_>,
        guide: &mut impl Guide,
        mut found: impl FnMut(usize),
    ) -> Result<usize, Stop> {
        let close = if self.target == Target::Members { b'}' } else { b']' };
        loop {
            self.at = scan.space(self.at);
            let byte = scan.byte(self.at)?;
            match self.state {
                State::Start | State::Between if byte == close => {
                    let end = self.at;
                    self.at += 1;
                    return Ok(end);
                }
                State::Between if byte != b',' => {
                    return Err(Stop::Bad(Fault::not_between(self.at, close)));
                }
                State::Between => self.at = scan.space(self.at + 1),
                State::Start | State::Item => {}
            }
            self.state = State::Item;
            let value = match self.target {
                Target::Members => scan.name(self.at)?,
                Target::Elements | Target::Itself => self.at,
            };
            let end = match scan.byte(value)? {
                // Numbers are so short that a call would be most of the work.
                b'0'..=b'9' | b'-' => scan.number(value)?,
                _ => scan.value(value, self.depth, guide)?,
            };
            found(self.at);
            self.at = end;
            self.state = State::Between;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::collection::{JsonCollection, JsonOptions};
    use super::super::source::InMemory;
    use super::super::tests::{Copied, any_value, written};
    use super::*;
    use crate::collection::{Collection, Query};
    use crate::filter::Filter;

    fn items_of(
        document: &[u8],
        pointer: &str,
        chunk: usize,
    ) -> Result<Vec<String>, CollectionError> {
        let options = JsonOptions::new().with_pointer(pointer.parse().unwrap());
        let source = Box::new(Copied::new(document));
        let collection = JsonCollection::open_in_chunks(source, options, chunk)?;
        let order = collection.schema()?.total_order(vec![]);
        let query = Query { filter: Filter::EVERYTHING, search: Default::default(), order };
        let mut items = vec![];
        collection.scan(&query, &mut |row| {
            items.push(row.item.to_string());
            Ok(())
        })?;
        Ok(items)
    }

    #[track_caller]
    fn check(document: &str, pointer: &str, expected: &[&str]) {
        for chunk in [1, 2, 3, 7, READ_BYTES] {
            let items = items_of(document.as_bytes(), pointer, chunk).unwrap();
            assert_eq!(items, expected, "{document} {pointer} {chunk}");
        }
    }

    #[track_caller]
    fn fault(document: &[u8], pointer: &str) -> String {
        let mut faults: Vec<_> = [1, 2, 3, 7, READ_BYTES]
            .map(|chunk| items_of(document, pointer, chunk).unwrap_err().to_string())
            .into();
        faults.dedup();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults.remove(0)
    }

    #[test]
    fn items_are_as_they_are_written() {
        check("[]", "", &[]);
        check(" [ ] ", "", &[]);
        check("[1]", "", &["1"]);
        check(
            "[1 , \"a,b]\"\n, [ 2, 3 ] ,{\"x\" : 1}, null ]\n",
            "",
            &["1", "\"a,b]\"", "[ 2, 3 ]", "{\"x\" : 1}", "null"],
        );
    }

    #[test]
    fn members_of_an_object_are_items() {
        check("{}", "", &[]);
        check(
            r#"{"a" : 1 ,"b\n":{"c": []}, "a":2}"#,
            "",
            &[
                r#"{"key":"a","value":1}"#,
                r#"{"key":"b\n","value":{"c": []}}"#,
                r#"{"key":"a","value":2}"#,
            ],
        );
    }

    #[test]
    fn a_single_value_is_one_item() {
        check("42", "", &["42"]);
        check(" \"text\" ", "", &["\"text\""]);
        check(r#"{"a":null}"#, "/a", &["null"]);
    }

    #[test]
    fn a_pointer_selects_what_is_inside() {
        let document = r#"{"a/b":{"m~n":[[1],[2,3],{"":[4]}]},"other":[9],"\u0078":[5]}"#;
        check(document, "/a~1b/m~0n", &["[1]", "[2,3]", r#"{"":[4]}"#]);
        check(document, "/a~1b/m~0n/1", &["2", "3"]);
        check(document, "/a~1b/m~0n/2/", &["4"]);
        check(document, "/x", &["5"]);
        check(r#"{"a":[1],"b":2,"a":[3]}"#, "/a", &["3"]);
        for pointer in ["/nope", "/other/1", "/other/-", "/other/00", "/other/0/x", "/a~1b/m~0n/01"]
        {
            let expected = format!("there is nothing at '{pointer}'");
            assert_eq!(fault(document.as_bytes(), pointer), expected);
        }
        let replaced = br#"{"a":{"b":[1]},"a":7}"#;
        assert_eq!(fault(replaced, "/a/b"), "there is nothing at '/a/b'");
    }

    #[test]
    fn damage_is_told_with_its_place_wherever_it_is() {
        for (document, pointer, expected) in [
            ("", "", "the text ends too early, at byte 0"),
            ("  ", "", "the text ends too early, at byte 2"),
            ("[1,2", "", "the text ends too early, at byte 4"),
            ("[1 2]", "", "',' or ']' is expected at byte 3"),
            ("{\"a\":1;}", "", "',' or '}' is expected at byte 6"),
            ("[1,]", "", "a value is expected at byte 3"),
            ("[,]", "", "a value is expected at byte 1"),
            ("[1] x", "", "something follows the JSON value at byte 4"),
            ("[1]]", "", "something follows the JSON value at byte 3"),
            ("{\"a\":[1],\"b\":nul}", "/a", "a value is expected at byte 13"),
            ("{\"a\":[1],}", "/a", "the name of a member is expected, in quotes at byte 9"),
            ("{\"b\":[1 1],\"a\":[]}", "/a", "',' or ']' is expected at byte 8"),
            ("[[1],[2,,3]]", "/1", "a value is expected at byte 8"),
            ("[\"a\tb\"]", "", "a control character in a text must be escaped at byte 3"),
            ("[1e999]", "", "a number that no double can hold at byte 1"),
        ] {
            let expected = format!("the source is damaged: {expected}");
            assert_eq!(fault(document.as_bytes(), pointer), expected, "{document}");
        }
        let expected = "the source is damaged: the text is not UTF-8 at byte 6";
        assert_eq!(fault(b"[1,2,\"\xff\"]", ""), expected);
        assert_eq!(fault(b"{\"a\":\"\xc3\",\"b\":[1]}", "/b"), expected);
        let deep = "[".repeat(129);
        let expected =
            "the source is damaged: arrays and objects are nested too deeply at byte 128";
        assert_eq!(fault(deep.as_bytes(), ""), expected);
        let pointer = "/0".repeat(130);
        assert_eq!(fault(deep.as_bytes(), &pointer), expected);
    }

    #[test]
    fn a_number_has_a_longest_length() {
        #[derive(Debug)]
        struct Endless;
        impl ByteSource for Endless {
            fn size_bytes(&self) -> u64 {
                1 << 40
            }
            fn edition(&self) -> u64 {
                0
            }
            fn read(
                &self,
                range: Range<u64>,
            ) -> Result<std::borrow::Cow<'_, [u8]>, CollectionError> {
                let length = usize::try_from(range.end - range.start).unwrap();
                let mut bytes = vec![b'1'; length];
                if range.start == 0 {
                    bytes[0] = b'[';
                }
                Ok(bytes.into())
            }
        }
        for pointer in ["", "/1", "/a"] {
            let result = Index::build(&Endless, &pointer.parse().unwrap(), READ_BYTES);
            let why = result.unwrap_err().to_string();
            assert_eq!(why, "a number has more than 65536 bytes", "{pointer}");
        }
    }

    #[test]
    fn a_source_that_changes_meanwhile_is_not_indexed() {
        #[derive(Debug)]
        struct Restless(std::sync::atomic::AtomicU64);
        impl ByteSource for Restless {
            fn size_bytes(&self) -> u64 {
                2
            }
            fn edition(&self) -> u64 {
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
            }
            fn read(&self, _: Range<u64>) -> Result<std::borrow::Cow<'_, [u8]>, CollectionError> {
                Ok(b"[]".into())
            }
        }
        let result = Index::build(&Restless(0.into()), &Pointer::whole(), 64);
        assert!(matches!(result, Err(CollectionError::Changed)));
    }

    #[test]
    fn errors_of_the_source_are_passed_on() {
        let document = format!("[{}]", vec!["12345"; 100].join(","));
        for reads in 0..10 {
            let source = Copied::for_reads(document.as_str(), reads);
            let result = Index::build(&source, &Pointer::whole(), 16);
            assert!(matches!(result, Err(CollectionError::Gone(_))), "{reads}");
        }
    }

    #[test]
    fn many_windows_of_unlike_objects_are_read_right() {
        let mut document = String::from("[");
        for number in 0..20_000_u32 {
            let name = number.wrapping_mul(2_654_435_761) >> 20;
            document.push_str(&format!("{{\"id\":{number},\"n{name}\":\"{name}\"}},"));
        }
        document.push_str("0]");
        let source = InMemory::new(document.clone(), 0);
        let index = Index::build(&source, &Pointer::whole(), 4096).unwrap();
        assert_eq!(index.starts.count(), 20_001);
        let items = items_of(document.as_bytes(), "", 4096).unwrap();
        let values: Vec<Value> = serde_json::from_str(&document).unwrap();
        assert!(
            items
                .iter()
                .zip(&values)
                .all(|(item, value)| { serde_json::from_str::<Value>(item).unwrap() == *value })
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn items_are_those_that_serde_json_finds(
            value in any_value(),
            style in any::<u8>(),
            way in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
            chunk in 1_usize..40,
        ) {
            // A way into the document, as far as it goes.
            let mut pointer = String::new();
            let mut target = &value;
            for step in way {
                let (token, next) = match target {
                    Value::Array(values) if !values.is_empty() => {
                        let number = step.index(values.len());
                        (number.to_string(), &values[number])
                    }
                    Value::Object(members) if !members.is_empty() => {
                        let (name, value) = members.iter().nth(step.index(members.len())).unwrap();
                        (name.replace('~', "~0").replace('/', "~1"), value)
                    }
                    _ => break,
                };
                pointer = format!("{pointer}/{token}");
                target = next;
            }
            let expected = match target {
                Value::Array(values) => values.clone(),
                Value::Object(members) => members
                    .iter()
                    .map(|(key, value)| serde_json::json!({"key": key, "value": value}))
                    .collect(),
                single => vec![single.clone()],
            };
            let document = written(&value, style);
            for chunk in [chunk, READ_BYTES] {
                let items = items_of(document.as_bytes(), &pointer, chunk).unwrap();
                let items: Vec<Value> =
                    items.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
                prop_assert_eq!(&items, &expected);
            }
        }

        #[test]
        fn chunks_make_no_difference_to_damaged_documents(
            value in any_value(),
            style in any::<u8>(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            chunk in 1_usize..40,
        ) {
            let mut document = written(&value, style).into_bytes();
            let at = at.index(document.len());
            document[at] = byte;
            let whole = items_of(&document, "", READ_BYTES);
            let chunked = items_of(&document, "", chunk);
            prop_assert_eq!(whole.is_ok(), serde_json::from_slice::<Value>(&document).is_ok());
            prop_assert_eq!(whole.ok(), chunked.ok());
        }
    }
}
