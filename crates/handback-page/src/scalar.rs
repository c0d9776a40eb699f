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
//!
//! A decimal is compared with other numbers without rounding it. A double that is a whole number is
//! what it is; one with a fraction stands for the shortest decimal that is read as it, which is how
//! it is written: `0.1` equals `{"$decimal":"0.1"}`.

use std::cmp::Ordering;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The largest integer that is written as a JSON number: 2^53−1.
pub const MAX_SAFE_INTEGER: i128 = 9_007_199_254_740_991;

/// The names of the members that say what a text stands for.
pub(crate) const TAGS: [&str; 4] = ["$blob", "$integer", "$decimal", "$real"];

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
    /// A decimal that neither an integer nor the text of a double is. Rows of tables have none:
    /// decimals of a database are read as its text.
    Decimal(Decimal),
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

    /// The scalar that a text stands for under one of [`TAGS`].
    pub(crate) fn from_tagged(tag: &str, text: &str) -> Option<Self> {
        match tag {
            "$blob" => URL_SAFE_NO_PAD.decode(text).ok().map(Self::Blob),
            "$integer" => text.parse().ok().map(Self::Int),
            "$decimal" => Decimal::parse(text).map(Decimal::into_scalar),
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
            Self::Decimal(decimal) => write_decimal(decimal.as_str(), out),
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
            Self::Real(_) | Self::Decimal(_) => "number",
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
            Self::Int(_) | Self::Real(_) | Self::Decimal(_) => 2,
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
            (Self::Decimal(a), Self::Decimal(b)) => a.order(b),
            (Self::Decimal(a), Self::Int(b)) => a.order(&Decimal::of_integer(*b)),
            (Self::Int(a), Self::Decimal(b)) => Decimal::of_integer(*a).order(b),
            (Self::Decimal(a), Self::Real(b)) => a.order_real(*b),
            (Self::Real(a), Self::Decimal(b)) => b.order_real(*a).reverse(),
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
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some((plain, special)) =
        rest.split_at_checked(plain_length(rest.as_bytes(), special_bytes))
    {
        out.push_str(plain);
        let Some(byte) = special.bytes().next() else { break };
        match byte {
            b'"' => out.push_str(r#"\""#),
            b'\\' => out.push_str(r"\\"),
            b'\n' => out.push_str(r"\n"),
            b'\r' => out.push_str(r"\r"),
            b'\t' => out.push_str(r"\t"),
            0x08 => out.push_str(r"\b"),
            0x0c => out.push_str(r"\f"),
            _ => write!(out, r"\u{byte:04x}").expect("a String takes everything"),
        }
        rest = special.get(1..).unwrap_or_default();
    }
    out.push('"');
}

/// Whether bytes are ASCII, and stand for themselves in a JSON string: most texts of most tables.
#[must_use]
pub fn is_plain_ascii(text: &[u8]) -> bool {
    plain_length(text, |word| special_bytes(word) | non_ascii_bytes(word)) == text.len()
}

/// How many bytes stand before the first that is marked by its high bit; bytes behind that may be
/// marked as well. Looks at eight at a time: most of a page is text.
#[inline]
fn plain_length(text: &[u8], marked: impl Fn(u64) -> u64) -> usize {
    let (words, rest) = text.as_chunks();
    for (number, word) in words.iter().enumerate() {
        let marked = marked(u64::from_le_bytes(*word));
        if marked != 0 {
            return number * 8 + first_byte(marked);
        }
    }
    if rest.is_empty() {
        return text.len();
    }
    // Eight that overlap with those before; or fewer than eight, before letters.
    let (last, before) = match text.last_chunk() {
        Some(last) => (*last, 8),
        None => {
            let mut word = [b'a'; 8];
            for (to, from) in word.iter_mut().zip(rest) {
                *to = *from;
            }
            (word, rest.len())
        }
    };
    match marked(u64::from_le_bytes(last)) {
        0 => text.len(),
        marked => text.len() - before + first_byte(marked),
    }
}

/// One in every byte of a word.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The high bit of a byte is set if it is one that JSON escapes; those of bytes behind the first
/// one may be set as well.
const fn special_bytes(word: u64) -> u64 {
    let control = word.wrapping_sub(EACH * 0x20) & !word;
    let from_quote = word ^ (EACH * b'"' as u64);
    let from_backslash = word ^ (EACH * b'\\' as u64);
    let quote = from_quote.wrapping_sub(EACH) & !from_quote;
    let backslash = from_backslash.wrapping_sub(EACH) & !from_backslash;
    (control | quote | backslash) & (EACH * 0x80)
}

const fn non_ascii_bytes(word: u64) -> u64 {
    word & (EACH * 0x80)
}

const fn first_byte(marked: u64) -> usize {
    (marked.trailing_zeros() / 8) as usize
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

/// A number in digits: perhaps a sign, at least one digit, perhaps a point and digits behind it. It
/// has no zeros that say nothing, and zero has no sign, so that one number has one text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    text: Box<str>,
    /// How many bytes of the text are in front of the point.
    whole: usize,
}

/// Where a decimal lies among numbers of some kind.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "it is one of them, or between two")]
pub enum Among<T> {
    /// It is this one.
    At(T),
    /// It is above the one and below the other, and nothing else is between them.
    Between(T, T),
}

impl Decimal {
    /// Reads digits, without an exponent.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let (sign, point) = match (whole.is_empty(), fraction.is_empty()) {
            (true, true) => ("", ""),
            (_, true) => (sign, ""),
            (_, false) => (sign, "."),
        };
        let whole = if whole.is_empty() { "0" } else { whole };
        let text = [sign, whole, point, fraction].concat().into_boxed_str();
        Some(Self { text, whole: sign.len() + whole.len() })
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The decimal that an integer is.
    #[must_use]
    pub fn of_integer(int: i128) -> Self {
        let text = int.to_string().into_boxed_str();
        Self { whole: text.len(), text }
    }

    /// The decimal that a double stands for: a whole number its value, another the shortest text
    /// that is read as it. Nothing, if it is not finite.
    #[must_use]
    pub fn of_real(real: f64) -> Option<Self> {
        let text = if real.fract() == 0.0 { format!("{real:.0}") } else { format!("{real}") };
        Self::parse(&text)
    }

    /// The greatest integer that is not above it, if 128 bits hold it.
    #[must_use]
    pub fn floor(&self) -> Option<i128> {
        let whole: i128 = self.text.get(..self.whole)?.parse().ok()?;
        if self.is_negative() && self.has_fraction() { whole.checked_sub(1) } else { Some(whole) }
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.text.starts_with('-')
    }

    /// Whether it is no integer.
    #[must_use]
    pub fn has_fraction(&self) -> bool {
        self.whole < self.text.len()
    }

    /// The double nearest to it; an infinity, if it is beyond all of them.
    #[must_use]
    pub fn nearest(&self) -> f64 {
        self.text.parse().unwrap_or(f64::NAN)
    }

    /// Where it lies among what doubles stand for, infinities included.
    #[must_use]
    pub fn among_doubles(&self) -> Among<f64> {
        let near = self.nearest();
        match self.order_real(near) {
            Ordering::Equal => Among::At(near),
            Ordering::Less => Among::Between(near.next_down(), near),
            Ordering::Greater => Among::Between(near, near.next_up()),
        }
    }

    /// Where it lies among integers of up to 128 bits and what doubles stand for.
    #[must_use]
    pub fn among_numbers(&self) -> Among<Scalar> {
        match self.among_doubles() {
            Among::At(real) => Among::At(Scalar::Real(real)),
            Among::Between(below, above) => {
                // There are integers between two doubles.
                let is_far = above - below > 1.0;
                match self.floor().filter(|_| is_far) {
                    Some(int) if !self.has_fraction() => Among::At(Scalar::Int(int)),
                    Some(int) if int < i128::MAX => {
                        Among::Between(Scalar::Int(int), Scalar::Int(int + 1))
                    }
                    _ => Among::Between(Scalar::Real(below), Scalar::Real(above)),
                }
            }
        }
    }

    /// How two decimals compare.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        match (self.is_negative(), other.is_negative()) {
            (false, false) => self.order_digits(other),
            (true, true) => self.order_digits(other).reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    fn order_real(&self, real: f64) -> Ordering {
        match Self::of_real(real) {
            Some(other) => self.order(&other),
            None if real == f64::NEG_INFINITY => Ordering::Greater,
            None => Ordering::Less,
        }
    }

    /// How they compare without their signs.
    fn order_digits(&self, other: &Self) -> Ordering {
        // The longer whole part is the greater one; among equal ones, the point is at one place.
        fn parts(decimal: &Decimal) -> (usize, &str) {
            let sign = usize::from(decimal.is_negative());
            (decimal.whole - sign, decimal.text.get(sign..).unwrap_or_default())
        }
        parts(self).cmp(&parts(other))
    }

    /// The integer or the double that it is, or itself.
    fn into_scalar(self) -> Scalar {
        match (self.has_fraction(), self.floor(), self.among_doubles()) {
            (false, Some(int), _) => Scalar::Int(int),
            (true, _, Among::At(real)) => Scalar::Real(real),
            _ => Scalar::Decimal(self),
        }
    }
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
                    check_text(&text);
                }
            }
        }
    }

    #[test]
    fn several_bytes_are_escaped_each() {
        let special =
            ['"', '\\', '\u{1}', '\n', '\u{1f}', '!', '#', '[', ']', '\u{ff22}', '\u{7f}'];
        for first in 0..17 {
            for second in 0..17 {
                for (one, two) in special.iter().flat_map(|one| special.map(|two| (*one, two))) {
                    let char_at = |at| match at {
                        _ if at == first => one,
                        _ if at == second => two,
                        _ => 'a',
                    };
                    check_text(&(0..17).map(char_at).collect::<String>());
                }
            }
        }
    }

    fn check_text(text: &str) {
        let mut written = String::new();
        write_text(text, &mut written);
        assert_eq!(written, serde_json::to_string(text).unwrap());
        let is_plain = text.is_ascii() && written == format!("\"{text}\"");
        assert_eq!(is_plain_ascii(text.as_bytes()), is_plain, "{text:?}");
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

    fn tagged(text: &str) -> Scalar {
        Scalar::from_json(&json!({"$decimal": text})).unwrap()
    }

    #[test]
    fn a_decimal_is_the_number_that_it_is() {
        assert!(matches!(tagged("1.5"), Scalar::Real(1.5)));
        assert!(matches!(tagged("0.1"), Scalar::Real(0.1)));
        assert!(matches!(tagged("007.00"), Scalar::Int(7)));
        assert!(matches!(tagged("-0.0"), Scalar::Int(0)));
        assert!(matches!(tagged("-012.50"), Scalar::Real(-12.5)));
        for text in ["0.1000000000000000000001", "12345678901234567890.5", "-9007199254740992.5"] {
            let scalar = tagged(text);
            assert!(matches!(scalar, Scalar::Decimal(_)), "{text}");
            assert_eq!(json_of(&scalar), format!(r#"{{"$decimal":"{text}"}}"#));
        }
        // One that 128 bits do not hold, though a double does.
        let big = format!("{:.0}", 2_f64.powi(200));
        assert_eq!(tagged(&big), Scalar::Real(2_f64.powi(200)));
    }

    #[test]
    fn a_scalar_is_as_small_as_text_and_integers_let_it() {
        assert_eq!(size_of::<Scalar>(), 32);
    }

    #[test]
    fn decimals_are_compared_exactly() {
        // Each is below the next one.
        let ascending = [
            Scalar::Real(f64::NEG_INFINITY),
            tagged(&format!("-1{}", "0".repeat(400))),
            Scalar::Real(-1e300),
            tagged("-9007199254740993.5"),
            Scalar::Int(-9_007_199_254_740_993),
            tagged("-9007199254740992.5"),
            Scalar::Real(-9_007_199_254_740_992.0),
            tagged("-10.25000000000000000001"),
            tagged("-10.25"),
            tagged("-9.25000000000000000001"),
            tagged("-0.00000000000000000000000000000000000001"),
            Scalar::Int(0),
            tagged("0.0999999999999999999999"),
            Scalar::Real(0.1),
            tagged("0.1000000000000000000001"),
            tagged("0.10000000000000000000011"),
            Scalar::Real(1.5),
            tagged("1.50000000000000000000001"),
            Scalar::Int(2),
            Scalar::Real(9_007_199_254_740_992.0),
            tagged("9007199254740992.5"),
            Scalar::Int(9_007_199_254_740_993),
            tagged("9007199254740993.5"),
            Scalar::Real(9_007_199_254_740_994.0),
            Scalar::Int(i128::MAX),
            tagged("170141183460469231731687303715884105727.5"),
            Scalar::Real(170_141_183_460_469_231_731_687_303_715_884_105_728.0),
            Scalar::Real(f64::MAX),
            tagged(&"9".repeat(400)),
            Scalar::Real(f64::INFINITY),
            Scalar::Real(f64::NAN),
        ];
        for (a, low) in ascending.iter().enumerate() {
            for (b, high) in ascending.iter().enumerate() {
                assert_eq!(low.order(high), a.cmp(&b), "{low:?} {high:?}");
            }
        }
    }

    #[test]
    fn a_decimal_is_between_its_neighbours() {
        let among = |text: &str| Decimal::parse(text).unwrap().among_numbers();
        let between = |below, above| Among::Between(below, above);
        assert_eq!(among("1.5"), Among::At(Scalar::Real(1.5)));
        assert_eq!(
            among("1.50000000000000000000001"),
            between(Scalar::Real(1.5), Scalar::Real(1.5_f64.next_up()))
        );
        assert_eq!(among("-0.1000000000000000000001"), {
            between(Scalar::Real((-0.1_f64).next_down()), Scalar::Real(-0.1))
        });
        let far = 9_007_199_254_740_993;
        assert_eq!(among("9007199254740993.5"), between(Scalar::Int(far), Scalar::Int(far + 1)));
        assert_eq!(among("-9007199254740993.5"), between(Scalar::Int(-far - 1), Scalar::Int(-far)));
        assert_eq!(
            among(&"9".repeat(400)),
            between(Scalar::Real(f64::MAX), Scalar::Real(f64::INFINITY))
        );
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
