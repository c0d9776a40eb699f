//! Values that are found by pointer.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use serde_json::Value;

use super::super::index::locate;
use super::super::pointer::Pointer;
use super::super::source::{ByteSource, InMemory};
use super::super::window::{MAX_NAME_BYTES, READ_BYTES};
use super::{any_value, written};
use crate::collection::CollectionError;

fn usizes(range: Range<u64>) -> Range<usize> {
    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
}

/// The pointers of a value and of all in it.
fn pointers(value: &Value) -> Vec<String> {
    let below = |token: String, inner: &Value| -> Vec<String> {
        let token = token.replace('~', "~0").replace('/', "~1");
        pointers(inner).into_iter().map(|rest| format!("/{token}{rest}")).collect()
    };
    let inner: Vec<Vec<String>> = match value {
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| below(at.to_string(), item)).collect()
        }
        Value::Object(members) => {
            members.iter().map(|(name, item)| below(name.clone(), item)).collect()
        }
        _ => vec![],
    };
    std::iter::once(String::new()).chain(inner.into_iter().flatten()).collect()
}

proptest! {
    #[test]
    fn what_is_located_is_what_serde_json_finds(value in any_value(), style: u8) {
        let text = written(&value, style);
        let source = InMemory::new(text.as_str(), 0);
        for pointer in pointers(&value) {
            let parsed: Pointer = pointer.parse().unwrap();
            let range = locate(&source, &parsed).unwrap().unwrap();
            let found: Value = serde_json::from_str(&text[usizes(range)]).unwrap();
            prop_assert_eq!(Some(&found), value.pointer(&pointer));
            let missing = format!("{pointer}/no such thing").parse().unwrap();
            prop_assert_eq!(locate(&source, &missing).unwrap(), None);
        }
    }
}

#[test]
fn a_document_is_checked_to_its_end_wherever_the_value_is() {
    for broken in [r#"{"a":1} x"#, r#"{"a":1,"b":}"#, r#"{"a":1"#, "{\"a\":1,\"b\":\"\u{1}\"}"] {
        let found = locate(&InMemory::new(broken, 0), &"/a".parse().unwrap());
        assert!(matches!(found, Err(CollectionError::Damaged(_))), "{broken} {found:?}");
    }
    let twice = r#"{"a":1,"a":[2]}"#;
    assert_eq!(locate(&InMemory::new(twice, 0), &"/a".parse().unwrap()).unwrap(), Some(11..14));
}

/// A source that notes the most that was asked for at once.
#[derive(Debug)]
struct Measured {
    text: String,
    most: AtomicU64,
}

impl ByteSource for Measured {
    fn size_bytes(&self) -> u64 {
        self.text.len() as u64
    }

    fn edition(&self) -> u64 {
        0
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        self.most.fetch_max(range.end - range.start, Ordering::Relaxed);
        Ok(Cow::Borrowed(&self.text.as_bytes()[usizes(range)]))
    }
}

#[test]
fn long_values_are_never_in_memory_at_once() {
    let long = "x\u{e9}".repeat(2 << 20);
    let many = vec![r#"{"a":[1,2,3]}"#; 500_000].join(",");
    let text = format!(r#"{{"long":"{long}","many":[{many}],"wanted":[7]}}"#);
    let source = Measured { text, most: AtomicU64::new(0) };
    let end = source.text.len() as u64;
    assert_eq!(locate(&source, &"/wanted".parse().unwrap()).unwrap(), Some(end - 4..end - 1));
    let range = locate(&source, &"/many".parse().unwrap()).unwrap().unwrap();
    assert_eq!(range.end - range.start, many.len() as u64 + 2);
    let most = source.most.load(Ordering::Relaxed);
    assert!(most <= READ_BYTES as u64, "{most} bytes at once");
}

/// A document with a name of so many bytes, its quotes included, and much white space.
pub(super) fn named(length: usize) -> (String, String) {
    let name = format!("\"{}\"", "\u{e9}".repeat(length / 2 - 1));
    let space = " ".repeat(1 << 20);
    let text = format!(r#"{{{space}{name}{space}:{space}[1]{space},{space}"wanted":[7]{space}}}"#);
    (name, text)
}

#[test]
fn long_names_and_white_space_are_never_in_memory_at_once() {
    for length in [4 << 20, MAX_NAME_BYTES + 2, MAX_NAME_BYTES] {
        let (name, text) = named(length);
        let source = Measured { text, most: AtomicU64::new(0) };
        let wanted = locate(&source, &"/wanted".parse().unwrap()).unwrap().unwrap();
        assert_eq!(&source.text[usizes(wanted)], "[7]");
        // One that is longer is nothing that a pointer leads to.
        let pointer = Pointer::from_tokens([name.trim_matches('"').to_owned()]);
        let found = locate(&source, &pointer).unwrap();
        assert_eq!(found.is_some(), length == MAX_NAME_BYTES, "{length}");
        let most = source.most.load(Ordering::Relaxed);
        assert!(most <= READ_BYTES as u64, "{most} bytes at once");
    }
    let broken = format!(r#"{{"{}":1,"a":1"#, "x".repeat(1 << 20));
    let found = locate(&InMemory::new(broken, 0), &"/a".parse().unwrap());
    assert!(matches!(found, Err(CollectionError::Damaged(_))), "{found:?}");
}
