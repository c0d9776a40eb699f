//! From bytes to a request: encoding, size, depth, and no member twice.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

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
    let text = with_exact_integers(text);
    let mut fault = None;
    let mut deserializer = serde_json::Deserializer::from_str(&text);
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

/// The text with integers beyond 64 bits as `{"$integer":"…"}`, which is the same in a filter: they
/// would else be read as doubles, and compared with something that nobody has written.
fn with_exact_integers(text: &str) -> Cow<'_, str> {
    if !has_long_run(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut exact = String::new();
    let mut copied = 0;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let start = text.len() - rest.len() + at;
        let token = text.get(start..).unwrap_or_default();
        let length = if token.starts_with('"') { text_length(token) } else { number_length(token) };
        let (token, after) = token.split_at_checked(length).unwrap_or((token, ""));
        rest = after;
        if is_long_integer(token) {
            exact.push_str(text.get(copied..start).unwrap_or_default());
            exact.push_str(&format!(r#"{{"$integer":"{token}"}}"#));
            copied = start + length;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    exact.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(exact)
}

/// The shortest run of digits that 64 bits may not hold.
const LONG_RUN: usize = 19;

/// Whether there are that many digits in a row. Every such run has one of the bytes that are looked
/// at: most requests have none, and should not pay for this.
fn has_long_run(bytes: &[u8]) -> bool {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let sampled = bytes.iter().enumerate().skip(LONG_RUN - 1).step_by(LONG_RUN);
    sampled.filter(|(_, byte)| byte.is_ascii_digit()).any(|(at, _)| {
        let (before, after) = bytes.split_at(at);
        let before = before.iter().rev().take_while(is_digit).count();
        before + after.iter().take_while(is_digit).count() >= LONG_RUN
    })
}

/// How long the text in quotes is that `token` starts with; all of it, if it has no end.
fn text_length(token: &str) -> usize {
    let mut is_escaped = false;
    let end = token.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(token.len(), |end| end + 2)
}

/// How long the number is that `token` starts with, with whatever else is no end of a number.
fn number_length(token: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    token.find(|c| !is_part(c)).unwrap_or(token.len())
}

/// Whether it is an integer, as JSON writes it, that 64 bits do not hold.
fn is_long_integer(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    digits.len() >= LONG_RUN
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && token.parse::<u64>().is_err()
        && token.parse::<i64>().is_err()
}

/// Checks a request that was parsed elsewhere.
///
/// # Errors
///
/// [`Failure`] if it is too deep, has a text or array that is too large, or a number that may have been
/// another one.
pub(super) fn check(value: &Value, limits: &Limits) -> Result<(), Failure> {
    check_below(value, limits, 1)?;
    check_exact(value)
}

/// From here on a double may have been an integer that 64 bits do not hold.
const INEXACT_FROM: f64 = 9_223_372_036_854_775_808.0;

/// Beyond this one, integers are doubles wherever they are: 128 bits do not hold them. The largest that
/// they hold is read as this.
const INEXACT_TO: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

/// Refuses doubles that may have been integers beyond 64 bits, where they would be compared or kept: the
/// answer would be to something that nobody has written.
fn check_exact(request: &Value) -> Result<(), Failure> {
    let Value::Object(members) = request else { return Ok(()) };
    members.iter().try_for_each(|(name, value)| match (name.as_str(), value) {
        ("operations", Value::Array(requests)) => requests.iter().try_for_each(check_exact),
        ("params", params) => check_exact(params),
        ("filter" | "id", value) if has_double(value, INEXACT_FROM..=INEXACT_TO) => {
            let hint = "An integer beyond 64 bits is written as {\"$integer\": \"N\"} here";
            Err(inexact(name).with_hint(hint))
        }
        ("patch", value) if has_double(value, INEXACT_FROM..=f64::MAX) => {
            let hint = "A patch that comes this way cannot carry an integer beyond 64 bits";
            Err(inexact(name).with_hint(hint))
        }
        _ => Ok(()),
    })
}

fn inexact(name: &str) -> Failure {
    Failure::invalid_type(name, "integers of 64 bits", "number that lost digits on the way")
}

/// Whether there is a double in it whose size is in this range.
fn has_double(value: &Value, sizes: RangeInclusive<f64>) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().is_some_and(|double| sizes.contains(&double.abs()))
        }
        Value::Array(values) => values.iter().any(|value| has_double(value, sizes.clone())),
        Value::Object(members) => members.values().any(|value| has_double(value, sizes.clone())),
        _ => false,
    }
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

    #[test]
    fn integers_beyond_64_bits_are_kept_as_they_are() {
        let read = |text: &str| parse(text.as_bytes(), &Limits::default()).unwrap();
        let max = u64::MAX;
        assert_eq!(
            read(&format!(r#"{{"a":{max},"b":[{max}0,-9223372036854775808,-{max}],"c":1e30}}"#)),
            json!({
                "a": max,
                "b": [{"$integer": format!("{max}0")}, i64::MIN, {"$integer": format!("-{max}")}],
                "c": 1e30,
            })
        );
        let text = format!(r#"["\"{max}0", "\\", {max}0.0, {max}0e2, "x" ]"#);
        assert_eq!(read(&text), serde_json::from_str::<Value>(&text).unwrap());
        for text in ["[0{max}0]", "[{max}0x]", "{{max}0:1}", "[{max}0{max}0.]", "\"{max}0"] {
            let text = text.replace("{max}", &max.to_string());
            assert!(parse(text.as_bytes(), &Limits::default()).is_err(), "{text}");
        }
        assert_eq!(read(&format!("{max}9")), json!({"$integer": format!("{max}9")}));
        for spaces in 0..40 {
            let text = format!("[{}-9223372036854775809]", " ".repeat(spaces));
            assert_eq!(read(&text), json!([{"$integer": "-9223372036854775809"}]));
        }
    }

    #[test]
    fn what_may_have_been_another_integer_is_refused() {
        let check_text = |text: &str| {
            check(&serde_json::from_str(text).unwrap(), &Limits::default())
                .map_err(|failure| json!(failure.details()).to_string())
        };
        let of_filter = |value: &str| {
            check_text(&format!(r#"{{"operation":"x","params":{{"filter":{{"v":{value}}}}}}}"#))
        };
        let (max, most) = (u64::MAX, i128::MAX);
        for value in [
            format!("{max}0"),
            format!("-{max}"),
            format!(r#"{{"lte":{max}9}}"#),
            format!(r#"{{"in":[1,{max}9]}}"#),
            "18446744073709551616".to_owned(),
            "-9223372036854775809".to_owned(),
            most.to_string(),
        ] {
            let details = of_filter(&value).unwrap_err();
            assert!(details.contains("$integer"), "{details}");
        }
        for value in [
            max.to_string(),
            i64::MIN.to_string(),
            format!(r#"{{"$integer":"{max}0"}}"#),
            "1.5".to_owned(),
            "9007199254740993.0".to_owned(),
            // Collections have no integers of this size either.
            "1e300".to_owned(),
            format!("-{most}0"),
        ] {
            of_filter(&value).unwrap();
        }
        let refused =
            |request: &str| check_text(&request.replace('N', &format!("{max}0"))).is_err();
        assert!(refused(r#"{"operation":"get_element","id":N}"#));
        assert!(refused(r#"{"operations":[{"operation":"x"},{"params":{"filter":{"v":N}}}]}"#));
        let patch = r#"{"params":{"patch":[{"op":"replace","path":"/a","value":{"b":[N]}}]}}"#;
        assert!(refused(patch) && refused(&patch.replace('N', "1e300")));
        assert!(!refused(&patch.replace('N', "12.5")) && !refused(&patch.replace('N', "-7")));
        // It is as large as it may be.
        assert!(!refused(r#"{"operation":"list_elements","params":{"first":N}}"#));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_serde_json_reads(text in r#"[\[\]{}":,a0-9.eE \-]{0,18}"#) {
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
