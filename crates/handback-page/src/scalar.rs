//! Values that are compared, sorted by and filtered with.
//!
//! A [`Scalar`] is one value of a column, or of a member of a JSON item. Scalars of one kind have
//! their natural order; scalars of different kinds are ordered by kind: booleans, numbers, text,
//! then bytes. Null is not ordered here, but by the [`Nulls`](crate::Nulls) of a sort key.
//!
//! JSON has no place for bytes, for integers beyond ±(2^53−1) that every reader keeps, nor for NaN
//! and infinities. Those are written as an object with one member, and are taken in the same form
//! in filters and ids, so that what was read can be asked for:
//!
//! | value | written as |
//! |---|---|
//! | bytes | `{"$blob":"aGk"}` (base64url without padding) |
//! | integer beyond ±(2^53−1) | `{"$integer":"9007199254740993"}` |
//! | NaN, infinities | `{"$real":"NaN"}`, `"Infinity"`, `"-Infinity"` |
//! | decimal that a double does not hold | `{"$decimal":"0.1000000000000000000001"}` |

use std::cmp::Ordering;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The largest integer that is written as a JSON number: 2^53−1.
pub const MAX_SAFE_INTEGER: i128 = 9_007_199_254_740_991;

/// One comparable value.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "every collection has to map each of them")]
pub enum Scalar {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A double.
    Real(f64),
    /// Text, also of types that are written as text: dates, UUIDs, decimals.
    Text(String),
    /// Bytes. In a JSON collection: an array or object, as its canonical text.
    Blob(Vec<u8>),
}

impl Scalar {
    /// The scalar of a JSON value, if it is one: also a tagged object, as the module describes.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Null),
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Number(number) => Some(Self::from_number(number)),
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Object(members) => {
                let mut members = members.iter();
                let (Some((tag, Value::String(text))), None) = (members.next(), members.next())
                else {
                    return None;
                };
                Self::from_tagged(tag, text)
            }
            Value::Array(_) => None,
        }
    }

    /// The scalar of a JSON number.
    #[must_use]
    pub fn from_number(number: &serde_json::Number) -> Self {
        match (number.as_i128(), number.as_f64()) {
            (Some(int), _) => Self::Int(int),
            (None, Some(real)) => Self::Real(real),
            (None, None) => Self::Null,
        }
    }

    /// The scalar of a number as JSON writes it: an integer of up to 128 bits as it is, everything
    /// else as the nearest double. Nothing, if it is no number, or beyond all doubles.
    #[must_use]
    pub fn from_number_text(text: &str) -> Option<Self> {
        if let Ok(int) = text.parse::<i64>() {
            return Some(Self::Int(int.into()));
        }
        match text.parse::<i128>() {
            Ok(int) => Some(Self::Int(int)),
            Err(_) => serde_json::from_str(text).ok().map(|number| Self::from_number(&number)),
        }
    }

    fn from_tagged(tag: &str, text: &str) -> Option<Self> {
        match tag {
            "$blob" => URL_SAFE_NO_PAD.decode(text).ok().map(Self::Blob),
            "$integer" => text.parse().ok().map(Self::Int),
            "$decimal" => is_decimal(text).then(|| Self::Text(text.to_owned())),
            "$real" => match text {
                "NaN" => Some(Self::Real(f64::NAN)),
                "Infinity" => Some(Self::Real(f64::INFINITY)),
                "-Infinity" => Some(Self::Real(f64::NEG_INFINITY)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Appends the value as JSON, in the mapping that the module describes.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Int(int) => write_integer(*int, out),
            Self::Real(real) => write_real(*real, out),
            Self::Text(text) => write_text(text, out),
            Self::Blob(bytes) => write_blob(bytes, out),
        }
    }

    /// Whether it is [`Null`](Self::Null).
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// What it is called in error details.
    #[must_use]
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Int(_) => "integer",
            Self::Real(_) => "number",
            Self::Text(_) => "string",
            Self::Blob(_) => "blob",
        }
    }

    /// The place of its kind among the kinds.
    #[must_use]
    pub const fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) | Self::Real(_) => 2,
            Self::Text(_) => 3,
            Self::Blob(_) => 4,
        }
    }

    /// The order of two values: by kind, then by value. All NaNs are equal and above every number;
    /// −0 equals 0. Null is below everything; a sort key decides for itself where nulls go.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Real(a), Self::Real(b)) => order_reals(*a, *b),
            (Self::Int(a), Self::Real(b)) => order_int_real(*a, *b),
            (Self::Real(a), Self::Int(b)) => order_int_real(*b, *a).reverse(),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Blob(a), Self::Blob(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

impl Eq for Scalar {}

/// Appends an integer as JSON: a number if every reader keeps it, else tagged.
pub fn write_integer(int: i128, out: &mut String) {
    match i64::try_from(int) {
        Ok(small) if (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&int) => {
            out.push_str(itoa::Buffer::new().format(small));
        }
        _ => write!(out, r#"{{"$integer":"{int}"}}"#).expect("a String takes everything"),
    }
}

/// Appends a double as JSON: a number if it is finite, else tagged.
pub fn write_real(real: f64, out: &mut String) {
    match real.is_finite() {
        true => out.push_str(zmij::Buffer::new().format_finite(real)),
        false if real.is_nan() => out.push_str(r#"{"$real":"NaN"}"#),
        false if real > 0.0 => out.push_str(r#"{"$real":"Infinity"}"#),
        false => out.push_str(r#"{"$real":"-Infinity"}"#),
    }
}

/// Appends text as a JSON string.
pub fn write_text(text: &str, out: &mut String) {
    if is_plain(text.as_bytes()) {
        out.reserve(text.len() + 2);
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::to_string(text).expect("text is always JSON"));
    }
}

/// Whether text stands for itself in JSON: no control character, quote or backslash. Looks at eight
/// bytes at a time; most of a page is text.
fn is_plain(text: &[u8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = EACH * 0x80;
    let (words, rest) = text.as_chunks();
    let special = words.iter().fold(0, |special, word| {
        let word = u64::from_le_bytes(*word);
        // The high bit of a byte is set if it is what is looked for; those of bytes above it may be
        // set as well then.
        let control = word.wrapping_sub(EACH * 0x20) & !word;
        let is = |byte: u8| {
            let differs = word ^ (EACH * u64::from(byte));
            differs.wrapping_sub(EACH) & !differs
        };
        special | control | is(b'"') | is(b'\\')
    });
    special & HIGH == 0 && rest.iter().all(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
}

/// Appends bytes as JSON, tagged.
pub fn write_blob(bytes: &[u8], out: &mut String) {
    out.push_str(r#"{"$blob":""#);
    URL_SAFE_NO_PAD.encode_string(bytes, out);
    out.push_str("\"}");
}

/// Appends a decimal as JSON: a number if a double holds it exactly as written, else tagged.
///
/// `text` must be a decimal as a database writes it; `NaN` and the infinities are taken as well.
pub fn write_decimal(text: &str, out: &mut String) {
    if matches!(text, "NaN" | "Infinity" | "-Infinity") {
        let _ = write!(out, r#"{{"$real":"{text}"}}"#);
        return;
    }
    if let Ok(int) = text.parse::<i128>() {
        return write_integer(int, out);
    }
    let normal = |text: &str| {
        let text = if text.contains('.') { text.trim_end_matches('0') } else { text };
        text.trim_end_matches('.').to_owned()
    };
    match text.parse::<f64>() {
        Ok(real) if real.is_finite() && normal(&format!("{real}")) == normal(text) => {
            write_real(real, out);
        }
        _ => {
            let _ = write!(out, r#"{{"$decimal":"{text}"}}"#);
        }
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    all_digits(whole) && all_digits(fraction)
}

fn order_reals(a: f64, b: f64) -> Ordering {
    match a.partial_cmp(&b) {
        Some(order) => order,
        None => a.is_nan().cmp(&b.is_nan()),
    }
}

fn order_int_real(int: i128, real: f64) -> Ordering {
    /// 2^127: from here on a double is beyond every `i128`.
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if real.is_nan() || real >= LIMIT {
        return Ordering::Less;
    }
    if real < -LIMIT {
        return Ordering::Greater;
    }
    let whole = real.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "within ±2^127, and without a fraction")]
    let order = int.cmp(&(whole as i128));
    order.then_with(|| order_reals(whole, real))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn json_of(scalar: &Scalar) -> String {
        let mut text = String::new();
        scalar.write_json(&mut text);
        text
    }

    #[test]
    fn every_byte_at_every_place_is_escaped_as_it_must_be() {
        for length in 1..=17 {
            for place in 0..length {
                for byte in (0..0x80).map(char::from).chain(['\u{80}', '\u{7ff}', '\u{ff22}']) {
                    let text: String =
                        (0..length).map(|at| if at == place { byte } else { 'a' }).collect();
                    let mut written = String::new();
                    write_text(&text, &mut written);
                    assert_eq!(written, serde_json::to_string(&text).unwrap());
                }
            }
        }
    }

    #[test]
    fn what_json_cannot_hold_round_trips() {
        for scalar in [
            Scalar::Null,
            Scalar::Bool(true),
            Scalar::Int(0),
            Scalar::Int(-1),
            Scalar::Int(MAX_SAFE_INTEGER),
            Scalar::Int(MAX_SAFE_INTEGER + 1),
            Scalar::Int(i128::MIN),
            Scalar::Int(i128::from(u64::MAX)),
            Scalar::Real(0.1),
            Scalar::Real(-1e308),
            Scalar::Real(f64::NAN),
            Scalar::Real(f64::INFINITY),
            Scalar::Real(f64::NEG_INFINITY),
            Scalar::Text("a\"b\\\n\u{1}é".to_owned()),
            Scalar::Blob(vec![]),
            Scalar::Blob(vec![0, 255, 7]),
        ] {
            let text = json_of(&scalar);
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(Scalar::from_json(&value), Some(scalar), "{text}");
        }
    }

    #[test]
    fn only_safe_integers_are_numbers() {
        assert_eq!(json_of(&Scalar::Int(9_007_199_254_740_991)), "9007199254740991");
        assert_eq!(
            json_of(&Scalar::Int(-9_007_199_254_740_992)),
            r#"{"$integer":"-9007199254740992"}"#
        );
    }

    #[test]
    fn decimals_are_numbers_where_a_double_says_the_same() {
        for (text, expected) in [
            ("12.30", "12.3"),
            ("0.1", "0.1"),
            ("7", "7"),
            ("7.000", "7.0"),
            ("-0.5", "-0.5"),
            ("0.1000000000000000000001", r#"{"$decimal":"0.1000000000000000000001"}"#),
            ("12345678901234567890", r#"{"$integer":"12345678901234567890"}"#),
            ("12345678901234567890.5", r#"{"$decimal":"12345678901234567890.5"}"#),
            ("NaN", r#"{"$real":"NaN"}"#),
        ] {
            let mut out = String::new();
            write_decimal(text, &mut out);
            assert_eq!(out, expected, "{text}");
        }
    }

    #[test]
    fn an_object_that_is_no_tag_is_no_scalar() {
        for value in [
            json!({}),
            json!({"$blob": 1}),
            json!({"$blob": "%%%"}),
            json!({"$real": "1"}),
            json!({"$integer": "1.5"}),
            json!({"$decimal": "x"}),
            json!({"$decimal": "1."}),
            json!({"$other": "x"}),
            json!({"$blob": "aGk", "more": 1}),
            json!([1]),
        ] {
            assert_eq!(Scalar::from_json(&value), None, "{value}");
        }
    }

    #[test]
    fn integers_and_doubles_are_compared_exactly() {
        use Ordering::{Equal, Greater, Less};
        let big = 9_007_199_254_740_993_i128;
        for (int, real, expected) in [
            (1, 1.0, Equal),
            (1, 1.5, Less),
            (-1, -1.5, Greater),
            (big, 9_007_199_254_740_992.0, Greater),
            (i128::MAX, 1e300, Less),
            (i128::MIN, -1e300, Greater),
            (0, f64::NAN, Less),
            (0, f64::NEG_INFINITY, Greater),
            (0, -0.0, Equal),
        ] {
            assert_eq!(Scalar::Int(int).order(&Scalar::Real(real)), expected, "{int} {real}");
            assert_eq!(Scalar::Real(real).order(&Scalar::Int(int)), expected.reverse());
        }
    }

    #[test]
    fn kinds_are_ordered_and_text_by_bytes() {
        let ascending = [
            Scalar::Null,
            Scalar::Bool(false),
            Scalar::Bool(true),
            Scalar::Real(f64::NEG_INFINITY),
            Scalar::Int(3),
            Scalar::Real(f64::NAN),
            Scalar::Text(String::new()),
            Scalar::Text("Z".into()),
            Scalar::Text("a".into()),
            Scalar::Text("é".into()),
            Scalar::Blob(vec![]),
        ];
        for pair in ascending.windows(2) {
            let [low, high] = pair else { unreachable!("windows of two") };
            assert_eq!(low.order(high), Ordering::Less, "{low:?} {high:?}");
        }
    }
}
