//! Results that no memory should hold.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use handback_page::CollectionError;
use handback_page::json::ByteSource;
use sha2::{Digest as _, Sha256};

use super::super::bound;
use super::super::chunks::CHUNK_BYTES;
use super::*;

/// A text, another one many times, and an end, without being there.
#[derive(Debug)]
struct Repeated {
    start: &'static str,
    unit: String,
    count: u64,
    end: &'static str,
    widest: AtomicUsize,
}

impl Repeated {
    fn new(start: &'static str, unit: String, bytes: u64, end: &'static str) -> Self {
        let count = bytes / unit.len() as u64;
        Self { start, unit, count, end, widest: AtomicUsize::new(0) }
    }

    fn body(&self) -> u64 {
        self.unit.len() as u64 * self.count
    }
}

impl ByteSource for Repeated {
    fn size_bytes(&self) -> u64 {
        (self.start.len() + self.end.len()) as u64 + self.body()
    }

    fn edition(&self) -> u64 {
        0
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        let length = usize::try_from(range.end - range.start).unwrap();
        self.widest.fetch_max(length, Ordering::SeqCst);
        let mut out = Vec::with_capacity(length);
        let (start, unit) = (self.start.as_bytes(), self.unit.as_bytes());
        let mut at = range.start;
        while at < range.end {
            let behind = at.saturating_sub(start.len() as u64);
            let text = if at < start.len() as u64 {
                &start[usize::try_from(at).unwrap()..]
            } else if behind < self.body() {
                &unit[usize::try_from(behind % unit.len() as u64).unwrap()..]
            } else {
                &self.end.as_bytes()[usize::try_from(behind - self.body()).unwrap()..]
            };
            let taken = text.len().min(usize::try_from(range.end - at).unwrap());
            out.extend_from_slice(&text[..taken]);
            at += taken as u64;
        }
        Ok(Cow::Owned(out))
    }
}

/// Counts what is kept.
#[derive(Debug, Default)]
struct Counter {
    widest: usize,
    parts: Vec<(NewPart, u64, [u8; 32])>,
}

#[derive(Debug)]
struct CounterWriter<'a> {
    counter: &'a mut Counter,
    part: NewPart,
    bytes: u64,
    hash: Sha256,
}

impl Keep for Counter {
    type Error = Infallible;
    type Writer<'a> = CounterWriter<'a>;

    fn part(&mut self, part: &NewPart) -> Result<CounterWriter<'_>, Infallible> {
        Ok(CounterWriter { counter: self, part: part.clone(), bytes: 0, hash: Sha256::new() })
    }

    fn forget(&mut self, _handle: Handle) {
        panic!("all of it can be kept and shown");
    }
}

impl PartWriter for CounterWriter<'_> {
    type Error = Infallible;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.counter.widest = self.counter.widest.max(bytes.len());
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
        Ok(())
    }

    fn finish(self) -> Result<Kept, Infallible> {
        let number = self.counter.parts.len();
        self.counter.parts.push((self.part, self.bytes, self.hash.finalize().into()));
        Ok(Kept { handle: handle(number), until_ms: UNTIL_MS, until_at_most_ms: u64::MAX })
    }
}

const LARGE_BYTES: u64 = 200 << 20;

/// Cuts a result to the default budget, and checks that it was never in memory.
fn cut_large(source: &Repeated) -> (Value, Bounded, Counter) {
    let mut counter = Counter::default();
    let bounded = bound(source, &Bounding::new(Budget::DEFAULT), &mut counter).unwrap();
    assert!(bounded.result.len() <= Budget::DEFAULT.as_bytes());
    assert!(source.widest.load(Ordering::SeqCst) <= CHUNK_BYTES);
    assert!(counter.widest <= CHUNK_BYTES);
    (serde_json::from_slice(&bounded.result).unwrap(), bounded, counter)
}

/// What the units of a source are when they are read.
fn expected(start: &str, unit: &str, count: u64, end: &str) -> (u64, [u8; 32]) {
    let mut hash = Sha256::new();
    hash.update(start);
    (0..count).for_each(|_| hash.update(unit));
    hash.update(end);
    ((start.len() + end.len()) as u64 + unit.len() as u64 * count, hash.finalize().into())
}

#[test]
fn a_large_text_is_never_in_memory() {
    let line = "0123456789 é ".repeat(100);
    let unit = format!("{line}\\n");
    let source =
        Repeated::new("{\"content\":[{\"type\":\"text\",\"text\":\"", unit, LARGE_BYTES, "\"}]}");
    let (_, bounded, counter) = cut_large(&source);
    let (bytes, hash) = expected("", &format!("{line}\n"), source.count, "");
    assert_eq!(counter.parts[0], (NewPart::new(TEXT, Default::default(), None), bytes, hash));
    assert_eq!(bounded.parts[0].total, source.count);
    assert!(bounded.parts[0].shown > 20);
}

#[test]
fn a_large_image_is_never_in_memory() {
    let start = "{\"content\":[{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"";
    let source = Repeated::new(start, "AbC+".repeat(1 << 14), LARGE_BYTES, "\"}]}");
    let (shown, bounded, counter) = cut_large(&source);
    assert_eq!(counter.parts[0].1, source.size_bytes() - "{\"content\":[]}".len() as u64);
    assert_eq!(bounded.parts[0].path.to_string(), "/content/0");
    assert_eq!(shown["content"][1]["type"], "resource_link");
    assert_eq!(shown["content"][1]["mimeType"], "image/png");
}

#[test]
fn a_large_list_is_never_in_memory() {
    let item = format!("{{\"id\":7,\"text\":\"{}\"}},", "x".repeat(2000));
    let start = "{\"structuredContent\":{\"rows\":[";
    let source = Repeated::new(start, item.clone(), LARGE_BYTES, "{}],\"n\":1}}");
    let (shown, bounded, counter) = cut_large(&source);
    let (bytes, hash) = expected("{\"rows\":[", &item, source.count, "{}],\"n\":1}");
    let items = "/rows".parse().unwrap();
    assert_eq!(counter.parts[0], (NewPart::new(JSON, items, None), bytes, hash));
    assert_eq!((bounded.parts[0].total, bounded.held_bytes), (source.count + 1, bytes));
    assert_eq!(shown["structuredContent"]["n"], 1);
    let rows = shown["structuredContent"]["rows"].as_array().unwrap();
    assert!(rows.len() > 10);
    assert_eq!(rows.len() as u64, bounded.parts[0].shown);
}

#[test]
fn a_large_document_in_a_text_is_never_in_memory() {
    let item = format!("{{\\\"id\\\":7,\\\"text\\\":\\\"{}\\\"}},\\n", "x".repeat(2000));
    let start = "{\"content\":[{\"type\":\"text\",\"text\":\"[";
    let source = Repeated::new(start, item, LARGE_BYTES / 2, "{}]\"}]}");
    let (_, bounded, counter) = cut_large(&source);
    let item = format!("{{\"id\":7,\"text\":\"{}\"}},\n", "x".repeat(2000));
    let (bytes, hash) = expected("[", &item, source.count, "{}]");
    assert_eq!(counter.parts[0], (NewPart::new(JSON, Default::default(), None), bytes, hash));
    assert_eq!(bounded.parts[0].total, source.count + 1);
    assert!(bounded.parts[0].shown > 10);
}

#[test]
fn a_large_text_in_a_document_in_a_text_is_never_in_memory() {
    let start = "{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"log\\\":\\\"";
    let unit = format!("{}\\\\n", "y".repeat(200));
    let source = Repeated::new(start, unit, LARGE_BYTES / 4, "\\\"}\"}]}");
    let (_, bounded, counter) = cut_large(&source);
    let (bytes, hash) = expected("", &format!("{}\n", "y".repeat(200)), source.count, "");
    assert_eq!(counter.parts[0], (NewPart::new(TEXT, Default::default(), None), bytes, hash));
    assert_eq!(bounded.parts[0].inside.to_string(), "/log");
    assert!(bounded.parts[0].shown > 100);
}

#[test]
fn large_names_and_numbers_and_many_small_blocks_are_never_in_memory() {
    let bytes = LARGE_BYTES / 64;
    for (start, unit, end, path) in [
        (
            "{\"structuredContent\":{\"",
            "name".repeat(1000),
            "\":1,\"a\":[1,2]}}",
            "/structuredContent",
        ),
        ("{\"structuredContent\":[1", "0".repeat(1000), ",2]}", "/structuredContent"),
        ("{\"content\":[[]", ",{}".to_owned(), "]}", "/content"),
        ("{\"", "name".repeat(1000), "\":1}", ""),
        ("", "[".to_owned(), "]", "?"),
    ] {
        let source = Repeated::new(start, unit, bytes, end);
        if path == "?" {
            let mut counter = Counter::default();
            let how = Bounding::new(Budget::DEFAULT);
            assert!(bound(&source, &how, &mut counter).is_err());
            continue;
        }
        let (_, bounded, _) = cut_large(&source);
        assert_eq!(bounded.parts[0].path.to_string(), path, "{start}");
    }
}
