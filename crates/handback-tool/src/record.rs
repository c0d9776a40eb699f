//! Outcomes as the journal keeps them: as the tool gave them. A replay seals them again.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::continuation::RoundId;
use crate::input::{InputRequest, Inputs};
use crate::outcome::{Content, Position};
use crate::relay::Relayed;

/// Levels of arrays and objects in a value that a tool gives, at most. Readers of JSON stop at about
/// 128, ours as well, and records and answers put levels of their own around a value.
const RESULT_DEPTH_MAX: usize = 100;

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
    /// What an upstream gave.
    Relayed(Relayed),
    /// It was done, and what it gave is larger, or deeper, than anything that is kept.
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
            self.take_apart();
            return Self::TooLarge;
        }
        match &self {
            Self::Done(Content::Raw(bytes)) if !is_json(bytes) => Self::NotJson,
            _ => self,
        }
    }

    /// Drops it level by level: a value drops itself by recursion, however deep it is.
    fn take_apart(self) {
        let mut left = match self {
            Self::Done(Content::Value(value) | Content::Result(value)) => vec![value],
            Self::Page { items, .. } => items,
            Self::NeedsInput { answers, state, .. } => {
                let answers = answers.into_iter();
                answers.map(|(_, answer)| answer).chain([state]).collect()
            }
            Self::Failed { data, .. } => data.into_iter().collect(),
            Self::Done(Content::Text(_) | Content::Raw(_) | Content::Held(_))
            | Self::Relayed(_)
            | Self::TooLarge
            | Self::NotJson => Vec::new(),
        };
        while let Some(value) = left.pop() {
            match value {
                Value::Array(items) => left.extend(items),
                Value::Object(members) => left.extend(members.into_iter().map(|(_, value)| value)),
                _ => {}
            }
        }
    }

    /// Whether it has more than so many bytes, counted no further than that, or a value in it more
    /// levels than any may have.
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

        // The writer looks at all of a text before it counts any of it, and goes down however deep.
        let mut left = limit;
        let mut fits = |value: &Value| fits(value, RESULT_DEPTH_MAX, &mut left);
        let is_short = match self {
            Self::Done(Content::Text(text)) => return text.len() > limit,
            Self::Done(Content::Raw(bytes)) => return bytes.len() > limit || is_deep(bytes),
            Self::Relayed(relayed) => return relayed.json.len() > limit,
            Self::Done(Content::Value(value) | Content::Result(value)) => fits(value),
            Self::Page { items, .. } => items.iter().all(fits),
            Self::NeedsInput { inputs, answers, state, .. } => {
                let asked = inputs.iter().all(|(_, request)| match request {
                    InputRequest::Form { schema, .. } => fits(schema),
                    InputRequest::Sample(parameters) => fits(parameters),
                    InputRequest::Url { .. } | InputRequest::Roots => true,
                });
                asked && fits(state) && answers.values().all(fits)
            }
            Self::Failed { data, .. } => data.iter().all(fits),
            Self::Done(Content::Held(_)) | Self::TooLarge | Self::NotJson => true,
        };
        !is_short || serde_json::to_writer(Counter(limit), self).is_err()
    }
}

/// Whether a value may fit into what is left: its texts do, and it has no more than so many levels.
fn fits(value: &Value, levels: usize, left: &mut usize) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::String(text), _) => takes(left, text.len()),
        (Value::Array(_) | Value::Object(_), None) => false,
        (Value::Array(items), Some(levels)) => items.iter().all(|item| fits(item, levels, left)),
        (Value::Object(members), Some(levels)) => {
            members.iter().all(|(name, value)| takes(left, name.len()) && fits(value, levels, left))
        }
        _ => takes(left, 1),
    }
}

/// Whether a JSON text has more levels than any value may have.
fn is_deep(text: &[u8]) -> bool {
    let (mut levels, mut is_in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'[' | b'{' if !is_in_string => levels += 1,
            b']' | b'}' if !is_in_string => levels = levels.saturating_sub(1),
            _ => {}
        }
        if levels > RESULT_DEPTH_MAX {
            return true;
        }
    }
    false
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

    /// A value of so many levels.
    fn nested(levels: usize) -> Value {
        let around = |value, level: usize| match level % 2 {
            0 => Value::Array(vec![value]),
            _ => Value::Object([("a".to_owned(), value)].into_iter().collect()),
        };
        (0..levels).fold(Value::Null, around)
    }

    /// Outcomes of each kind with this value in them.
    fn with(value: &dyn Fn() -> Value) -> Vec<Recorded> {
        let asks = |inputs, answer, state| {
            let answers = [("a".to_owned(), answer)].into_iter().collect();
            Recorded::NeedsInput { inputs, answers, state, round: RoundId([7; 16]) }
        };
        let data = Some(value());
        vec![
            Recorded::Done(Content::Value(value())),
            Recorded::Done(Content::Result(value())),
            Recorded::Page { items: vec![Value::Null, value()], next: None },
            Recorded::Failed { message: String::new(), data, code: None },
            asks(Inputs::new(), value(), Value::Null),
            asks(Inputs::new(), Value::Null, value()),
        ]
    }

    #[test]
    fn what_is_deeper_than_anybody_reads_is_not_kept() {
        const BYTES: usize = 10_000_000;
        for levels in [RESULT_DEPTH_MAX + 1, 200_000] {
            for deep in with(&|| nested(levels)) {
                assert!(kept(deep, BYTES) == Recorded::TooLarge, "{levels}");
            }
        }
        let asked = |value: Value| {
            let form = InputRequest::Form { message: String::new(), schema: value.clone() };
            let inputs = Inputs::new().ask("form", form).ask("sample", InputRequest::Sample(value));
            let (answers, state) = (serde_json::Map::new(), Value::Null);
            Recorded::NeedsInput { inputs, answers, state, round: RoundId([7; 16]) }
        };
        assert_eq!(kept(asked(nested(RESULT_DEPTH_MAX + 1)), BYTES), Recorded::TooLarge);
        // And what is kept is read.
        let mut kinds = with(&|| nested(RESULT_DEPTH_MAX));
        kinds.push(asked(nested(RESULT_DEPTH_MAX)));
        for deep in kinds {
            assert_eq!(kept(deep.clone(), BYTES), deep);
            assert_eq!(Recorded::from_bytes(&deep.to_bytes().unwrap()), Some(deep));
        }
    }

    #[test]
    fn the_levels_of_a_text_are_counted() {
        let raw = |text: String| Recorded::Done(Content::Raw(text.into()));
        let around = |levels: usize, inner: &str| {
            format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels))
        };
        // Brackets in strings are no levels, and what was closed is none any more.
        let strings = r#""[[{{", {"[\"[\\": "]]}}"}, [[]], [[]]"#;
        let good = around(RESULT_DEPTH_MAX - 2, strings);
        assert_eq!(kept(raw(good.clone()), 1_000), raw(good));
        for deep in [
            around(RESULT_DEPTH_MAX - 1, strings),
            around(RESULT_DEPTH_MAX, "{}"),
            around(RESULT_DEPTH_MAX + 1, ""),
        ] {
            assert_eq!(kept(raw(deep.clone()), 1_000), Recorded::TooLarge, "{deep}");
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
