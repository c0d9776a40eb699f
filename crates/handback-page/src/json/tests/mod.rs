//! Collections against models, and what tests share.

mod listing;
mod locate;
mod model;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::Value;

use super::source::ByteSource;
use crate::collection::CollectionError;

/// Any JSON value. Names come from a few, so that they occur twice and follow each other.
pub(super) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000_i32..1000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let name = prop_oneof![
            Just("id".to_owned()),
            Just("name".to_owned()),
            Just("a longer name than is foreseen".to_owned()),
            any_text(),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,20}", "[\"\\\\/\u{0}-\u{1f}a-zäöü€𝄞]{0,12}", any::<String>(),]
}

/// A document as somebody might write it: with white space, or with everything escaped.
pub(super) fn written(value: &Value, style: u8) -> String {
    match style % 4 {
        0 => value.to_string(),
        1 => serde_json::to_string_pretty(value).unwrap(),
        2 => format!("\r\n{}\t", spaced(value)),
        _ => value.to_string().chars().map(escaped).collect(),
    }
}

fn spaced(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(spaced).collect();
            format!("[ {} ]", values.join("\t,\n"))
        }
        Value::Object(members) => {
            let member = |(name, value)| format!("{} :  {}", Value::from(name), spaced(value));
            let members: Vec<_> =
                members.iter().map(|(name, value)| member((name.as_str(), value))).collect();
            format!("{{ {} }}", members.join(" , "))
        }
        single => single.to_string(),
    }
}

fn escaped(c: char) -> String {
    if c.is_ascii() {
        return c.into();
    }
    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect()
}

/// Bytes that are always copied, and are gone after so many reads.
#[derive(Debug)]
pub(super) struct Copied {
    bytes: Vec<u8>,
    reads_left: AtomicUsize,
}

impl Copied {
    pub(super) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self::for_reads(bytes, usize::MAX)
    }

    pub(super) fn for_reads(bytes: impl Into<Vec<u8>>, reads: usize) -> Self {
        Self { bytes: bytes.into(), reads_left: AtomicUsize::new(reads) }
    }
}

impl ByteSource for Copied {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn edition(&self) -> u64 {
        7
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        let one_less = |left: usize| left.checked_sub(1);
        self.reads_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
            .map_err(|_| CollectionError::Gone("test".into()))?;
        let range = range.start.try_into().unwrap()..range.end.try_into().unwrap();
        Ok(Cow::Owned(self.bytes[range].to_vec()))
    }
}
