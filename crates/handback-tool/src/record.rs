//! Outcomes as the journal keeps them: as the tool gave them. A replay seals them again.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::continuation::RoundId;
use crate::input::Inputs;
use crate::outcome::{Content, Position};

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Recorded {
    Done(Content),
    Page {
        items: Vec<Value>,
        next: Option<Position>,
    },
    NeedsInput {
        inputs: Inputs,
        answers: serde_json::Map<String, Value>,
        state: Value,
        round: RoundId,
    },
    Failed {
        message: String,
        data: Option<Value>,
        code: Option<i32>,
    },
    /// It was done, and what it gave is larger than anything that is kept.
    TooLarge,
    /// It was done, and what it gave as JSON is none.
    NotJson,
}

impl Recorded {
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The same, or why it cannot be kept.
    pub(crate) fn or_fault(self, bytes_max: usize) -> Self {
        if self.exceeds(bytes_max) {
            return Self::TooLarge;
        }
        match &self {
            Self::Done(Content::Raw(bytes)) if !is_json(bytes) => Self::NotJson,
            _ => self,
        }
    }

    /// About how many bytes it has, counted no further than to a limit.
    fn exceeds(&self, limit: usize) -> bool {
        struct Counter(usize);

        impl std::io::Write for Counter {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::FileTooLarge)?;
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        let mut left = limit;
        let is_short = match self {
            Self::Done(Content::Text(text)) => return text.len() > limit,
            Self::Done(Content::Raw(bytes)) => return bytes.len() > limit,
            // The writer looks at all of a text before it counts any of it.
            Self::Done(Content::Value(value) | Content::Result(value)) => fits(value, &mut left),
            Self::Page { items, .. } => items.iter().all(|item| fits(item, &mut left)),
            _ => true,
        };
        !is_short || serde_json::to_writer(Counter(limit), self).is_err()
    }
}

/// Whether a value may fit into what is left: its texts do.
fn fits(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::String(text) => takes(left, text.len()),
        Value::Array(items) => items.iter().all(|item| fits(item, left)),
        Value::Object(members) => {
            members.iter().all(|(name, value)| takes(left, name.len()) && fits(value, left))
        }
        _ => takes(left, 1),
    }
}

fn takes(left: &mut usize, bytes: usize) -> bool {
    let rest = left.checked_sub(bytes);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

fn is_json(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes);
    text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn kept(recorded: Recorded, bytes: usize) -> Recorded {
        recorded.or_fault(bytes)
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let page = |items| Recorded::Page { items, next: None };
        let value = |value| Recorded::Done(Content::Value(value));
        for large in [
            Recorded::Done(Content::Text("x".repeat(101))),
            Recorded::Done(Content::Raw("1".repeat(101).into())),
            value("x".repeat(101).into()),
            value(json!({"x".repeat(60): ["x".repeat(60)]})),
            value(json!(vec![1; 101])),
            // Its texts fit, and what JSON makes of them does not.
            value("\n".repeat(60).into()),
            page(vec!["x".repeat(60).into(), "x".repeat(60).into()]),
        ] {
            assert_eq!(kept(large, 100), Recorded::TooLarge);
        }
        for fits in [
            Recorded::Done(Content::Text("x".repeat(100))),
            Recorded::Done(Content::Raw("1".repeat(100).into())),
            value(json!({"x": ["x".repeat(60), 1, null]})),
            page(vec!["x".repeat(30).into()]),
        ] {
            assert_eq!(kept(fits.clone(), 100), fits);
        }
    }

    #[test]
    fn what_is_said_to_be_json_is() {
        for bad in [&b""[..], b"{", b"[1] 2", b"\"\xff\"", b"nul"] {
            let raw = Recorded::Done(Content::Raw(bytes::Bytes::from_static(bad)));
            assert_eq!(kept(raw, 100), Recorded::NotJson, "{bad:?}");
        }
        let raw = Recorded::Done(Content::Raw(bytes::Bytes::from_static(b" {\"a\": [1]} ")));
        assert_eq!(kept(raw.clone(), 100), raw);
    }

    fn rows() -> Vec<Vec<u8>> {
        let outcomes = [
            Recorded::Done(Content::Value(json!({"a": [1, 2.5, null]}))),
            Recorded::Done(Content::Text("text".to_owned())),
            Recorded::Done(Content::Raw(bytes::Bytes::from_static(b"{\"b\":1}"))),
            Recorded::Page { items: vec![json!(1)], next: Some(Position::from_bytes([0, 255])) },
            Recorded::Failed { message: "no".to_owned(), data: Some(json!(7)), code: Some(-1) },
            Recorded::TooLarge,
        ];
        let row = |outcome: Recorded| {
            let row = outcome.to_bytes().unwrap();
            assert_eq!(Recorded::from_bytes(&row), Some(outcome));
            row
        };
        outcomes.map(row).to_vec()
    }

    proptest! {
        #[test]
        fn a_record_that_is_read_comes_back(
            mut row in prop::sample::select(rows()), at: prop::sample::Index, byte: u8, cut: bool,
        ) {
            let at = at.index(row.len());
            if cut {
                row.truncate(at);
                prop_assert_eq!(Recorded::from_bytes(&row), None);
            } else {
                row[at] = byte;
            }
            if let Some(read) = Recorded::from_bytes(&row) {
                prop_assert_eq!(Recorded::from_bytes(&read.to_bytes().unwrap()), Some(read));
            }
        }
    }
}
