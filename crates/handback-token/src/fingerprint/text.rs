//! Canonical JSON straight from a text, for arguments that are relayed as they came.
//!
//! `serde_json` cannot do this: it reads large integers as doubles and lets the last of two equal
//! members win, so that two texts which an upstream server tells apart would have one fingerprint.
//! One pass, bounded depth; the result is at most about eight times as long as the text (`1e38`).

use super::canonical::{by_utf16, write_double, write_list, write_string};

/// The deepest nesting that is read. A scalar has depth 0, `[]` has depth 1.
pub const MAX_JSON_DEPTH: usize = 32;

/// More digits than any integer below 2^128 has.
const MAX_INTEGER_DIGITS: usize = 39;

/// A text without a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintError {
    /// Not valid UTF-8.
    #[error("the arguments are not valid UTF-8")]
    NotUtf8,
    /// Not exactly one JSON value.
    #[error("the arguments are not valid JSON (byte {at})")]
    Syntax {
        /// Where.
        at: usize,
    },
    /// Deeper than [`MAX_JSON_DEPTH`].
    #[error("the arguments are nested deeper than 32 levels")]
    TooDeep,
    /// Two members of one object have the same key.
    #[error("the arguments have an object with the same member twice")]
    DuplicateMember,
    /// Half of a surrogate pair.
    #[error("the arguments have a lone surrogate (byte {at})")]
    LoneSurrogate {
        /// Where.
        at: usize,
    },
    /// Neither an integer within 128 bits nor a finite double.
    #[error("the arguments have a number that is out of range (byte {at})")]
    Number {
        /// Where.
        at: usize,
    },
}

pub(super) fn canonical(text: &[u8], excluded: &[&str]) -> Result<Vec<u8>, FingerprintError> {
    let text = std::str::from_utf8(text).map_err(|_| FingerprintError::NotUtf8)?;
    let mut reader = Reader { text, at: 0 };
    let mut out = Vec::new();
    reader.skip_space();
    reader.value(&mut out, 0, excluded)?;
    reader.skip_space();
    if reader.at != text.len() {
        return Err(reader.syntax());
    }
    Ok(out)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn value(
        &mut self,
        out: &mut Vec<u8>,
        depth: usize,
        excluded: &[&str],
    ) -> Result<(), FingerprintError> {
        match self.peek() {
            Some(b'{') => self.object(out, depth + 1, excluded),
            Some(b'[') => self.array(out, depth + 1),
            Some(b'"') => {
                let text = self.string()?;
                write_string(out, &text);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(out),
            Some(b't') => self.literal(out, "true"),
            Some(b'f') => self.literal(out, "false"),
            Some(b'n') => self.literal(out, "null"),
            _ => Err(self.syntax()),
        }
    }

    fn object(
        &mut self,
        out: &mut Vec<u8>,
        depth: usize,
        excluded: &[&str],
    ) -> Result<(), FingerprintError> {
        let mut members: Vec<(String, Vec<u8>)> = Vec::new();
        self.list(b'}', depth, |reader| {
            if reader.peek() != Some(b'"') {
                return Err(reader.syntax());
            }
            let key = reader.string()?;
            reader.skip_space();
            reader.expect(b':')?;
            reader.skip_space();
            let mut value = Vec::new();
            reader.value(&mut value, depth, &[])?;
            members.push((key, value));
            Ok(())
        })?;
        members.sort_by(|(a, _), (b, _)| by_utf16(a, b));
        if members.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
            return Err(FingerprintError::DuplicateMember);
        }
        members.retain(|(key, _)| !excluded.contains(&key.as_str()));
        write_list(out, b"{}", members, |out, (key, value)| {
            write_string(out, &key);
            out.push(b':');
            out.extend_from_slice(&value);
        });
        Ok(())
    }

    fn array(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<(), FingerprintError> {
        out.push(b'[');
        let mut first = true;
        self.list(b']', depth, |reader| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            reader.value(out, depth, &[])
        })?;
        out.push(b']');
        Ok(())
    }

    /// What stands between an opening bracket (which is next) and `close`, separated by commas.
    fn list(
        &mut self,
        close: u8,
        depth: usize,
        mut item: impl FnMut(&mut Self) -> Result<(), FingerprintError>,
    ) -> Result<(), FingerprintError> {
        if depth > MAX_JSON_DEPTH {
            return Err(FingerprintError::TooDeep);
        }
        self.at += 1;
        self.skip_space();
        if self.take(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            self.skip_space();
            if self.take(close) {
                return Ok(());
            }
            self.expect(b',')?;
            self.skip_space();
        }
    }

    /// A string whose opening quote is next, unescaped.
    fn string(&mut self) -> Result<String, FingerprintError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let plain = rest
                .bytes()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
                .ok_or_else(|| self.syntax())?;
            let (text, _) = rest.split_at(plain);
            out.push_str(text);
            self.at += plain;
            if self.take(b'"') {
                return Ok(out);
            }
            self.expect(b'\\')?;
            out.push(self.escape()?);
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, FingerprintError> {
        let byte = self.peek().ok_or_else(|| self.syntax())?;
        let plain = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.syntax()),
        };
        self.at += 1;
        Ok(plain)
    }

    /// `uXXXX`, and a second one where the first is the high half of a pair.
    fn unicode_escape(&mut self) -> Result<char, FingerprintError> {
        let lone = FingerprintError::LoneSurrogate { at: self.at };
        let unit = self.code_unit()?;
        if !(0xd800..0xe000).contains(&unit) {
            return char::from_u32(u32::from(unit)).ok_or(lone);
        }
        if unit >= 0xdc00 || !self.take(b'\\') || self.peek() != Some(b'u') {
            return Err(lone);
        }
        let pair = [unit, self.code_unit()?];
        let mut decoded = char::decode_utf16(pair);
        decoded.next().and_then(Result::ok).ok_or(lone)
    }

    /// The `u` that is next and four hexadecimal digits.
    fn code_unit(&mut self) -> Result<u16, FingerprintError> {
        self.expect(b'u')?;
        let digits = self.rest().get(..4).ok_or_else(|| self.syntax())?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(self.syntax());
        }
        let unit = u16::from_str_radix(digits, 16).map_err(|_| self.syntax())?;
        self.at += 4;
        Ok(unit)
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Result<(), FingerprintError> {
        let start = self.at;
        let rest = self.rest();
        let negative = self.take(b'-');
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(FingerprintError::Syntax { at: start });
        }
        let fraction = if self.take(b'.') { self.digits()? } else { "" };
        let exponent = if self.take(b'e') || self.take(b'E') {
            let minus = self.take(b'-');
            if !minus {
                self.take(b'+');
            }
            // Further away than any number of digits can make up for.
            let magnitude = self.digits()?.parse::<i64>().unwrap_or(i64::MAX / 4);
            if minus { -magnitude } else { magnitude }
        } else {
            0
        };
        let literal = rest.get(..self.at - start).unwrap_or_default();
        if let Some(integer) = exact_integer(whole, fraction, exponent) {
            if negative && integer != 0 {
                out.push(b'-');
            }
            out.extend_from_slice(integer.to_string().as_bytes());
            return Ok(());
        }
        let out_of_range = FingerprintError::Number { at: start };
        if literal.len() == usize::from(negative) + whole.len() {
            // Written out, and too large: some reader would keep digits that a double loses.
            return Err(out_of_range);
        }
        match literal.parse::<f64>() {
            Ok(double) if double.is_finite() => write_double(out, double),
            _ => return Err(out_of_range),
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<&'t str, FingerprintError> {
        let text = self.text;
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match text.get(start..self.at) {
            Some(digits) if !digits.is_empty() => Ok(digits),
            _ => Err(self.syntax()),
        }
    }

    fn literal(&mut self, out: &mut Vec<u8>, word: &str) -> Result<(), FingerprintError> {
        if !self.rest().starts_with(word) {
            return Err(self.syntax());
        }
        out.extend_from_slice(word.as_bytes());
        self.at += word.len();
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), FingerprintError> {
        if self.take(byte) { Ok(()) } else { Err(self.syntax()) }
    }

    /// What was not read yet. `at` always lies between characters: it moves by ASCII bytes, or by
    /// whole runs that end before one.
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    const fn syntax(&self) -> FingerprintError {
        FingerprintError::Syntax { at: self.at }
    }
}

/// The value of `whole.fraction × 10^exponent`, if it is an integer below 2^128.
fn exact_integer(whole: &str, fraction: &str, exponent: i64) -> Option<u128> {
    let digits = || whole.bytes().chain(fraction.bytes());
    let Some(first) = digits().position(|digit| digit != b'0') else {
        return Some(0);
    };
    let last = whole.len() + fraction.len() - 1 - digits().rev().position(|digit| digit != b'0')?;
    let significant = last - first + 1;
    // How many zeros follow the last digit that is not one; negative if the point comes before it.
    let zeros = exponent
        .checked_add(i64::try_from(whole.len()).ok()?)?
        .checked_sub(i64::try_from(last).ok()? + 1)?;
    let zeros = usize::try_from(zeros).ok()?;
    if significant.checked_add(zeros)? > MAX_INTEGER_DIGITS {
        return None;
    }
    digits()
        .skip(first)
        .take(significant)
        .chain(std::iter::repeat_n(b'0', zeros))
        .try_fold(0u128, |value, digit| {
            value.checked_mul(10)?.checked_add(u128::from(digit - b'0'))
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::fingerprint::canonical_json;

    fn check(text: &str, expected: &str) {
        let made = canonical(text.as_bytes(), &[]).map(|out| String::from_utf8(out).unwrap());
        assert_eq!(made.as_deref(), Ok(expected), "{text}");
    }

    fn refuses(text: &str, expected: FingerprintError) {
        assert_eq!(canonical(text.as_bytes(), &[]), Err(expected), "{text}");
    }

    #[test]
    fn integers_are_exact_up_to_128_bits() {
        for (text, expected) in [
            ("1.0", "1"),
            ("-0", "0"),
            ("-0.0e5", "0"),
            ("0e99999999999999999999", "0"),
            ("1e25", "10000000000000000000000000"),
            ("100e-2", "1"),
            ("12.5e1", "125"),
            ("0.00125e5", "125"),
            ("9007199254740993", "9007199254740993"),
            ("9007199254740993.0", "9007199254740993"),
            (
                "-340282366920938463463374607431768211455",
                "-340282366920938463463374607431768211455",
            ),
            (
                "34028236692093846346337460743176821145.5e1",
                "340282366920938463463374607431768211455",
            ),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn other_numbers_are_doubles_or_refused() {
        for (text, expected) in [
            ("1.5", "1.5"),
            ("1e300", "1e+300"),
            ("340282366920938463463374607431768211456.0", "3.402823669209385e+38"),
            ("1e-7", "1e-7"),
            ("0.99999999999999999999", "1"),
            ("1e-400", "0"),
            ("1e-99999999999999999999", "0"),
        ] {
            check(text, expected);
        }
        refuses("340282366920938463463374607431768211456", FingerprintError::Number { at: 0 });
        refuses("[1,1e400]", FingerprintError::Number { at: 3 });
        refuses("-1e99999999999999999999", FingerprintError::Number { at: 0 });
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_refused() {
        refuses(r#"{"a":1,"a":1}"#, FingerprintError::DuplicateMember);
        refuses(r#"{"a":1,"\u0061":1}"#, FingerprintError::DuplicateMember);
        refuses(r#""\ud800""#, FingerprintError::LoneSurrogate { at: 2 });
        refuses(r#""\udc00\ud800""#, FingerprintError::LoneSurrogate { at: 2 });
        refuses(r#""\ud800\u0041""#, FingerprintError::LoneSurrogate { at: 2 });
        refuses(r#""\ud800x""#, FingerprintError::LoneSurrogate { at: 2 });
        assert_eq!(canonical(b"\"\xff\"", &[]), Err(FingerprintError::NotUtf8));
        check(r#""\ud83d\ude00""#, "\"\u{1f600}\"");
    }

    #[test]
    fn anything_but_one_json_value_is_refused() {
        for text in [
            "",
            " ",
            "1 2",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "1e+",
            "+1",
            "tru",
            "nul",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "\"a",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u+123\"",
            "\"\n\"",
            "[1",
            "{",
            "NaN",
            "Infinity",
            "'a'",
            "\u{feff}1",
            "1\u{a0}",
        ] {
            let made = canonical(text.as_bytes(), &[]);
            assert!(matches!(made, Err(FingerprintError::Syntax { .. })), "{text:?}: {made:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        check(&nested(MAX_JSON_DEPTH), &nested(MAX_JSON_DEPTH));
        refuses(&nested(MAX_JSON_DEPTH + 1), FingerprintError::TooDeep);
        let objects = |depth| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        check(&objects(MAX_JSON_DEPTH), &objects(MAX_JSON_DEPTH));
        refuses(&objects(MAX_JSON_DEPTH + 1), FingerprintError::TooDeep);
        refuses(&"[".repeat(10_000_000), FingerprintError::TooDeep);
    }

    #[test]
    fn only_declared_members_of_the_outermost_object_are_left_out() {
        let text = r#"{"first":5,"q":{"first":6},"cursor":"x"}"#;
        let made = canonical(text.as_bytes(), &["first"]).unwrap();
        assert_eq!(made, br#"{"cursor":"x","q":{"first":6}}"#);
        assert_eq!(canonical(br#"[{"first":1}]"#, &["first"]).unwrap(), br#"[{"first":1}]"#);
        assert_eq!(
            canonical(br#"{"first":5,"first":6}"#, &["first"]),
            Err(FingerprintError::DuplicateMember)
        );
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e6f64..1e6).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_text_and_its_parsed_value_agree(value in values()) {
            let text = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(canonical(text.as_bytes(), &[]), Ok(canonical_json(&value, &[])));
        }

        #[test]
        fn canonical_json_is_json_and_its_own_canonical_form(value in values()) {
            let once = canonical_json(&value, &[]);
            prop_assert_eq!(canonical(&once, &[]), Ok(once.clone()));
            let back: Value = serde_json::from_slice(&once).unwrap();
            prop_assert_eq!(canonical_json(&back, &[]), once);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = canonical(&bytes, &[]);
        }

        #[test]
        fn accepts_only_what_serde_json_accepts(text in r#"[\[\]{},:"\\ua0-9eE.+ -]{0,24}"#) {
            if canonical(text.as_bytes(), &[]).is_ok() {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
            }
        }
    }
}
