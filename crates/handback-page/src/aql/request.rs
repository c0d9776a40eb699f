//! From bytes to a request: encoding, size, depth, and no member twice.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::failure::{Code, Failure};

/// The sizes that a request and its answer may have. [`Limits::default`] has the defaults of the
/// specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with `..Default::default()`")]
pub struct Limits {
    /// Bytes of a request: 64 KB to 10 MB.
    pub request_bytes: usize,
    /// Bytes of an answer: 1 MB to 100 MB.
    pub response_bytes: usize,
    /// Bytes of one text in a request.
    pub string_bytes: usize,
    /// Elements of one array in a request: 100 to 100,000.
    pub array_elements: usize,
    /// Levels of nesting of a request: 8 to 64.
    pub nesting_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 1_000_000,
            response_bytes: 10_000_000,
            string_bytes: 1_000_000,
            array_elements: 10_000,
            nesting_depth: 32,
        }
    }
}

/// Parses a request.
///
/// # Errors
///
/// [`Failure`] if it is too large, not UTF-8, not JSON, too deep, or has a member twice: two readers
/// could understand that differently.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Failure> {
    if bytes.len() > limits.request_bytes {
        return Err(Failure::too_large(
            "request_size",
            limits.request_bytes as u64,
            Some(bytes.len() as u64),
            "bytes",
        ));
    }
    let text = str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        Failure::new(
            Code::InvalidEncoding,
            "The request is not UTF-8",
            serde_json::json!({"location": "request", "byte_offset": offset}),
        )
    })?;
    let mut fault = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let seed = Bounded { limits, depth: 0, fault: &mut fault };
    let parsed = seed.deserialize(&mut deserializer).and_then(|value| {
        deserializer.end()?;
        Ok(value)
    });
    match (parsed, fault) {
        (_, Some(fault)) => Err(fault),
        (Ok(value), None) => Ok(value),
        (Err(error), None) => {
            let place = format!("malformed JSON, line {}, column {}", error.line(), error.column());
            Err(Failure::invalid_type("request", "JSON object", &place))
        }
    }
}

/// Checks a request that was parsed elsewhere.
///
/// # Errors
///
/// [`Failure`] if it is too deep or has a text or array that is too large.
pub(super) fn check(value: &Value, limits: &Limits) -> Result<(), Failure> {
    check_below(value, limits, 1)
}

fn check_below(value: &Value, limits: &Limits, depth: usize) -> Result<(), Failure> {
    match value {
        Value::String(text) => check_text(text, limits),
        Value::Array(values) => {
            check_depth(depth, limits)?;
            check_elements(values.len(), limits)?;
            values.iter().try_for_each(|value| check_below(value, limits, depth + 1))
        }
        Value::Object(members) => {
            check_depth(depth, limits)?;
            members.iter().try_for_each(|(name, value)| {
                check_text(name, limits)?;
                check_below(value, limits, depth + 1)
            })
        }
        _ => Ok(()),
    }
}

fn check_depth(depth: usize, limits: &Limits) -> Result<(), Failure> {
    let limit = limits.nesting_depth;
    if depth > limit {
        let (limit, actual) = (limit as u64, depth as u64);
        return Err(Failure::too_large("nesting_depth", limit, Some(actual), "levels"));
    }
    Ok(())
}

fn check_elements(count: usize, limits: &Limits) -> Result<(), Failure> {
    let limit = limits.array_elements;
    if count > limit {
        let (limit, actual) = (limit as u64, count as u64);
        return Err(Failure::too_large("array_elements", limit, Some(actual), "elements"));
    }
    Ok(())
}

fn check_text(text: &str, limits: &Limits) -> Result<(), Failure> {
    let limit = limits.string_bytes;
    if text.len() > limit {
        let (limit, actual) = (limit as u64, text.len() as u64);
        return Err(Failure::too_large("string_length", limit, Some(actual), "bytes"));
    }
    Ok(())
}

/// Reads a value and stops at the first fault, which it leaves in `fault`.
struct Bounded<'a> {
    limits: &'a Limits,
    depth: usize,
    fault: &'a mut Option<Failure>,
}

impl Bounded<'_> {
    fn inner(&mut self) -> Bounded<'_> {
        Bounded { limits: self.limits, depth: self.depth, fault: self.fault }
    }

    fn stop<E: serde::de::Error>(&mut self, checked: Result<(), Failure>) -> Result<(), E> {
        checked.map_err(|failure| {
            *self.fault = Some(failure);
            E::custom("refused")
        })
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<Value, E> {
        let checked = check_text(text, self.limits);
        self.stop(checked)?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.depth += 1;
        let checked = check_depth(self.depth, self.limits);
        self.stop(checked)?;
        let mut values = Vec::new();
        while let Some(value) = access.next_element_seed(self.inner())? {
            values.push(value);
            let checked = check_elements(values.len(), self.limits);
            self.stop(checked)?;
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        self.depth += 1;
        let checked = check_depth(self.depth, self.limits);
        self.stop(checked)?;
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let checked = check_text(&name, self.limits);
            self.stop(checked)?;
            let value = access.next_value_seed(self.inner())?;
            if members.contains_key(&name) {
                let name = super::failure::shortened(&name);
                let twice = Failure::invalid_type(&name, "one value", "duplicate member");
                self.stop::<A::Error>(Err(twice))?;
                return Err(A::Error::custom("refused"));
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fails(text: &[u8]) -> (Code, String) {
        let failure = parse(text, &Limits::default()).unwrap_err();
        (failure.code(), failure.message().to_owned())
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        assert_eq!(fails(br#"{"a":1,"a":2}"#).0, Code::InvalidType);
        assert_eq!(fails(br#"{"a":{"b":[{"c":1,"\u0063":2}]}}"#).0, Code::InvalidType);
        assert_eq!(fails(b"{} {}").0, Code::InvalidType);
        assert_eq!(fails(b"").0, Code::InvalidType);
        assert_eq!(fails(b"{").0, Code::InvalidType);
        assert_eq!(fails(br#"{"a":"\ud800"}"#).0, Code::InvalidType);
        assert_eq!(fails(b"{\"a\":\"\xff\"}").0, Code::InvalidEncoding);
    }

    #[test]
    fn each_limit_holds() {
        let limits = Limits {
            request_bytes: 100,
            string_bytes: 5,
            array_elements: 3,
            nesting_depth: 3,
            ..Limits::default()
        };
        let limit_of = |text: &str| {
            let failure = parse(text.as_bytes(), &limits).unwrap_err();
            assert_eq!(failure.code(), Code::PayloadTooLarge);
            failure.details()["limit_type"].as_str().unwrap().to_owned()
        };
        assert_eq!(limit_of(&format!("\"{}\"", "x".repeat(100))), "request_size");
        assert_eq!(limit_of("\"123456\""), "string_length");
        assert_eq!(limit_of("{\"123456\":1}"), "string_length");
        assert_eq!(limit_of("[1,2,3,4]"), "array_elements");
        assert_eq!(limit_of("[[[[]]]]"), "nesting_depth");
        assert_eq!(limit_of("{\"a\":[{\"b\":[1]}]}"), "nesting_depth");
        for text in ["[1,2,3]", "[[[]]]", "\"12345\""] {
            let value = parse(text.as_bytes(), &limits).unwrap();
            assert!(check(&value, &limits).is_ok());
        }
        for value in [json!("123456"), json!([1, 2, 3, 4]), json!([[[[]]]]), json!({"123456": 1})] {
            assert!(check(&value, &limits).is_err(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_serde_json_reads(text in r#"[\[\]{}":,a0-9.eE \-]{0,24}"#) {
            let ours = parse(text.as_bytes(), &Limits::default());
            match serde_json::from_str::<Value>(&text) {
                Ok(value) => match ours {
                    Ok(ours) => prop_assert_eq!(ours, value),
                    Err(failure) => prop_assert!(failure.message().contains("duplicate")),
                },
                Err(_) => prop_assert!(ours.is_err()),
            }
        }
    }
}
