//! Skipping over JSON, and finding every fault on the way.
//!
//! The scanner accepts exactly what `serde_json` makes a `Value` of, so that an item that was
//! indexed can be parsed later: the grammar of RFC 8259, no lone surrogates in escapes, no numbers
//! beyond doubles. Two things are checked elsewhere: UTF-8, which is faster over longer spans, and
//! what follows a document.
//!
//! Bytes may be the start of something longer. A scanner that runs out of bytes says so and keeps
//! nothing; the caller comes back with more bytes from the start of the same value.

use super::stored::whole_characters;
use super::window::MAX_NAME_BYTES;

/// How deep arrays and objects may be nested, the document itself included: what `serde_json`
/// takes for an item in an array, so that no item is refused later. It fits the bits of a `u128`.
pub const MAX_DEPTH: u32 = 128;

/// Why a scan ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes end in the middle.
    Incomplete,
    /// This is not JSON.
    Bad(Fault),
}

/// What is wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The number of the byte.
    pub(crate) at: usize,
    /// For people.
    pub(crate) what: &'static str,
}

impl Fault {
    pub(crate) const fn too_deep(at: usize) -> Self {
        Self { at, what: "arrays and objects are nested too deeply" }
    }

    pub(crate) const fn trailing(at: usize) -> Self {
        Self { at, what: "something follows the JSON value" }
    }

    /// Neither a comma nor the end of an array or object that `close` ends.
    pub(crate) const fn not_between(at: usize, close: u8) -> Self {
        let what = if close == b'}' { "',' or '}' is expected" } else { "',' or ']' is expected" };
        Self { at, what }
    }
}

/// What goes along with a scan.
pub(crate) trait Guide {
    /// Is told of every text that is a value, quotes included; not of the names of members.
    #[inline(always)]
    fn text(&mut self, _quoted: &[u8]) {}

    /// How long the name of a member is that starts with these bytes, what is between it and its
    /// value included; if that is known.
    #[inline(always)]
    fn known(&mut self, _bytes: [u8; Names::LONGEST]) -> Option<usize> {
        None
    }

    /// Is told of the length that it did not know.
    #[inline(always)]
    fn learn(&mut self, _bytes: [u8; Names::LONGEST], _length: usize) {}
}

/// Goes nowhere and learns nothing.
impl Guide for () {}

/// Bytes to scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    bytes: &'a [u8],
    whole: bool,
}

impl<'a> Scan<'a> {
    /// All there is: nothing follows the bytes.
    pub(crate) const fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, whole: true }
    }

    /// Bytes that others follow.
    pub(crate) const fn part(bytes: &'a [u8]) -> Self {
        Self { bytes, whole: false }
    }

    /// The byte at `at`.
    #[inline(always)]
    pub(crate) fn byte(&self, at: usize) -> Result<u8, Stop> {
        self.bytes.get(at).copied().ok_or(Stop::Incomplete)
    }

    /// The bytes between two places.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a [u8] {
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// The first place from `at` on that is not white space; the end if there is none.
    #[inline(always)]
    pub(crate) fn space(&self, mut at: usize) -> usize {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(at) {
            at += 1;
        }
        at
    }

    /// The end of the value that starts at `at`, below `depth` arrays and objects.
    #[inline]
    pub(crate) fn value(
        &self,
        mut at: usize,
        depth: u32,
        guide: &mut impl Guide,
    ) -> Result<usize, Stop> {
        // One bit per open array or object, the innermost lowest: 1 is an object.
        let mut kinds = 0_u128;
        let mut open = 0_u32;
        'value: loop {
            match self.byte(at)? {
                b'"' => {
                    let end = self.string(at)?;
                    guide.text(self.bytes.get(at..end).unwrap_or_default());
                    at = end;
                }
                b'0'..=b'9' | b'-' => at = self.number(at)?,
                b'{' => {
                    if depth + open >= MAX_DEPTH {
                        return Err(Stop::Bad(Fault::too_deep(at)));
                    }
                    kinds = kinds << 1 | 1;
                    open += 1;
                    at = self.space(at + 1);
                    if self.byte(at)? != b'}' {
                        at = self.known_name(at, guide)?;
                        continue 'value;
                    }
                    kinds >>= 1;
                    open -= 1;
                    at += 1;
                }
                b'[' => {
                    if depth + open >= MAX_DEPTH {
                        return Err(Stop::Bad(Fault::too_deep(at)));
                    }
                    kinds <<= 1;
                    open += 1;
                    at = self.space(at + 1);
                    if self.byte(at)? != b']' {
                        continue 'value;
                    }
                    kinds >>= 1;
                    open -= 1;
                    at += 1;
                }
                b't' => at = self.literal(at, b"true")?,
                b'f' => at = self.literal(at, b"false")?,
                b'n' => at = self.literal(at, b"null")?,
                _ => return bad(at, "a value is expected"),
            }
            while open > 0 {
                at = self.space(at);
                match (self.byte(at)?, kinds & 1) {
                    (b',', 1) => {
                        at = self.known_name(self.space(at + 1), guide)?;
                        continue 'value;
                    }
                    (b',', _) => {
                        at = self.space(at + 1);
                        continue 'value;
                    }
                    (b'}', 1) | (b']', 0) => {
                        kinds >>= 1;
                        open -= 1;
                        at += 1;
                    }
                    (_, 1) => return Err(Stop::Bad(Fault::not_between(at, b'}'))),
                    _ => return Err(Stop::Bad(Fault::not_between(at, b']'))),
                }
            }
            return Ok(at);
        }
    }

    /// As [`name`](Self::name), in one step where the name was foreseen.
    #[inline(always)]
    fn known_name(&self, at: usize, guide: &mut impl Guide) -> Result<usize, Stop> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let Some(bytes) = rest.first_chunk() else { return self.name(at) };
        match guide.known(*bytes) {
            Some(length) => Ok(self.space(at + length)),
            None => self.learned_name(at, *bytes, guide),
        }
    }

    #[inline(never)]
    fn learned_name(
        &self,
        at: usize,
        bytes: [u8; Names::LONGEST],
        guide: &mut impl Guide,
    ) -> Result<usize, Stop> {
        let value = self.name(at)?;
        guide.learn(bytes, value - at);
        Ok(value)
    }

    /// From the name of a member to where its value starts.
    #[inline(always)]
    pub(crate) fn name(&self, at: usize) -> Result<usize, Stop> {
        self.member(at).map(|(_, value)| value)
    }

    /// Where the name that starts at `at` ends, and where its value starts.
    #[inline(always)]
    pub(crate) fn member(&self, at: usize) -> Result<(usize, usize), Stop> {
        let end = self.quoted_name(at)?;
        let colon = self.space(end);
        if self.byte(colon)? != b':' {
            return bad(colon, "':' is expected");
        }
        Ok((end, self.space(colon + 1)))
    }

    /// Where the name that starts at `at` ends.
    #[inline(always)]
    pub(super) fn quoted_name(&self, at: usize) -> Result<usize, Stop> {
        match self.byte(at)? {
            b'"' => self.string(at),
            _ => bad(at, "the name of a member is expected, in quotes"),
        }
    }

    /// The end of the text that starts at `at` with a quote.
    #[inline(always)]
    pub(crate) fn string(&self, at: usize) -> Result<usize, Stop> {
        let mut at = at + 1;
        loop {
            at = self.special(at)?;
            match self.byte(at)? {
                b'"' => return Ok(at + 1),
                b'\\' => at = self.escape(at)?,
                _ => return bad(at, "a control character in a text must be escaped"),
            }
        }
    }

    /// Goes on in a text to behind the quote that ends it, or as far as there are whole characters and
    /// escapes.
    pub(super) fn rest_of_text(&self, at: &mut usize) -> Result<(), Stop> {
        loop {
            let found = match self.special(*at) {
                Err(Stop::Incomplete) => {
                    *at = whole_characters(self.bytes).max(*at);
                    return Err(Stop::Incomplete);
                }
                found => found?,
            };
            *at = found;
            match self.byte(found)? {
                b'"' => {
                    *at += 1;
                    return Ok(());
                }
                b'\\' => *at = self.escape(found)?,
                _ => return bad(found, "a control character in a text must be escaped"),
            }
        }
    }

    /// The first quote, backslash or control character from `at` on.
    #[inline(always)]
    fn special(&self, mut at: usize) -> Result<usize, Stop> {
        while let Some(chunk) = self.bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let found = specials(u64::from_le_bytes(*chunk));
            if found != 0 {
                return Ok(at + found.trailing_zeros() as usize / 8);
            }
            at += 8;
        }
        self.special_near_the_end(at)
    }

    #[cold]
    fn special_near_the_end(&self, at: usize) -> Result<usize, Stop> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
        found.map(|found| at + found).ok_or(Stop::Incomplete)
    }

    /// The end of the escape that starts at `at` with a backslash.
    fn escape(&self, at: usize) -> Result<usize, Stop> {
        const LONE: &str = "a surrogate without its other half";
        match self.byte(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => return Ok(at + 2),
            b'u' => {}
            _ => return bad(at, "an escape that JSON does not have"),
        }
        match self.hex(at + 2)? {
            0xd800..=0xdbff => {}
            0xdc00..=0xdfff => return bad(at, LONE),
            _ => return Ok(at + 6),
        }
        if self.byte(at + 6)? != b'\\' || self.byte(at + 7)? != b'u' {
            return bad(at, LONE);
        }
        match self.hex(at + 8)? {
            0xdc00..=0xdfff => Ok(at + 12),
            _ => bad(at, LONE),
        }
    }

    fn hex(&self, at: usize) -> Result<u32, Stop> {
        let mut number = 0;
        for at in at..at + 4 {
            let Some(digit) = char::from(self.byte(at)?).to_digit(16) else {
                return bad(at, "four hexadecimal digits are expected");
            };
            number = number << 4 | digit;
        }
        Ok(number)
    }

    /// The end of the number that starts at `start`.
    #[inline(always)]
    pub(crate) fn number(&self, start: usize) -> Result<usize, Stop> {
        let mut at = start;
        if self.byte(at)? == b'-' {
            at += 1;
        }
        at = match self.byte(at)? {
            b'0' => at + 1,
            b'1'..=b'9' => self.digits(at + 1),
            _ => return bad(at, "a digit is expected"),
        };
        match self.bytes.get(at) {
            Some(b'.') => {
                at = self.some_digits(at + 1)?;
                if let Some(b'e' | b'E') = self.bytes.get(at) {
                    return self.exponent(start, at);
                }
            }
            Some(b'e' | b'E') => return self.exponent(start, at),
            Some(b'0'..=b'9') => return bad(at, "a number must not start with 0"),
            _ => {}
        }
        if at == self.bytes.len() && !self.whole {
            return Err(Stop::Incomplete);
        }
        if at - start > LONGEST_SURE_NUMBER { self.checked(start, at) } else { Ok(at) }
    }

    #[inline(always)]
    fn digits(&self, mut at: usize) -> usize {
        while let Some(b'0'..=b'9') = self.bytes.get(at) {
            at += 1;
        }
        at
    }

    #[inline(always)]
    fn some_digits(&self, at: usize) -> Result<usize, Stop> {
        match self.byte(at)? {
            b'0'..=b'9' => Ok(self.digits(at + 1)),
            _ => bad(at, "a digit is expected"),
        }
    }

    /// The end of the number that starts at `start` and has its exponent at `at`.
    fn exponent(&self, start: usize, at: usize) -> Result<usize, Stop> {
        let signed = matches!(self.byte(at + 1)?, b'+' | b'-');
        let end = self.some_digits(at + 1 + usize::from(signed))?;
        if end == self.bytes.len() && !self.whole {
            return Err(Stop::Incomplete);
        }
        self.checked(start, end)
    }

    /// `end`, if a double can hold the number before it.
    #[cold]
    fn checked(&self, start: usize, end: usize) -> Result<usize, Stop> {
        if end - start > MAX_NAME_BYTES {
            return bad(start, "a number that is too long");
        }
        let digits = self.bytes.get(start..end).and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| digits.parse::<f64>().ok()) {
            Some(number) if number.is_finite() => Ok(end),
            _ => bad(start, "a number that no double can hold"),
        }
    }

    #[inline(always)]
    fn literal(&self, at: usize, word: &'static [u8]) -> Result<usize, Stop> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.starts_with(word) {
            return Ok(at + word.len());
        }
        if word.starts_with(rest) { Err(Stop::Incomplete) } else { bad(at, "a value is expected") }
    }
}

/// A number with fewer characters, and no exponent, is within the doubles: the largest of them has
/// 309 digits.
const LONGEST_SURE_NUMBER: usize = 300;

/// Marks the quotes, backslashes and control characters among eight bytes by their highest bits.
/// Marks above the lowest may be wrong.
#[inline(always)]
const fn specials(bytes: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The quote (0x22) changes places with 0x20, behind the control characters.
    let low = (bytes ^ (0x02 * ONES)).wrapping_sub(0x21 * ONES);
    let backslash = (bytes ^ (0x5c * ONES)).wrapping_sub(ONES);
    (low | backslash) & !bytes & (0x80 * ONES)
}

/// The names of members, as they follow each other in one item after the other.
///
/// Where a name ends is known before its bytes have been looked at, if it is the one that followed
/// the same name the last time: then comparing it is all that is left to do, and the processor need
/// not wait for its length before it goes on. In arrays of like objects this is a third of all
/// work.
pub(crate) struct Names {
    /// By the number of a name: the name that followed it the last time.
    next: [Name; Self::COUNT],
    /// By number, what has this number.
    numbered: [u128; Self::COUNT],
    /// The number of the name that was met last.
    last: u8,
    /// How many names were not foreseen.
    misses: usize,
}

/// A name with its quotes and colon, and the white space up to its value.
#[derive(Clone, Copy)]
struct Name {
    bytes: u128,
    mask: u128,
    length: u8,
    number: u8,
}

impl Names {
    /// Longer names are not foreseen.
    const LONGEST: usize = 16;

    /// As many names are remembered: more than the items of most arrays have.
    pub(crate) const COUNT: usize = 128;

    /// A name has one of so many numbers.
    const CHOICES: u8 = 8;

    pub(crate) const fn new() -> Self {
        // Matches nothing: masked by nothing, no bytes are 1.
        let nothing = Name { bytes: 1, mask: 0, length: 0, number: 0 };
        Self { next: [nothing; Self::COUNT], numbered: [0; Self::COUNT], last: 0, misses: 0 }
    }

    /// How many names were not foreseen since the last time that this was asked.
    pub(crate) fn take_misses(&mut self) -> usize {
        std::mem::take(&mut self.misses)
    }

    /// The number of a name: its own, or else a free one, or else one that it takes over.
    fn number(&mut self, bytes: u128) -> u8 {
        // Fibonacci hashing: the highest bits are the best mixed ones.
        let mixed = (bytes ^ (bytes >> 61)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let [.., hash] = mixed.to_le_bytes();
        let choices = || (0..Self::CHOICES).map(|choice| hash.wrapping_add(choice) & 0x7f);
        let has = |number: &u8, wanted| self.numbered.get(usize::from(*number)) == Some(&wanted);
        let number = choices()
            .find(|number| has(number, bytes))
            .or_else(|| choices().find(|number| has(number, 0)))
            .unwrap_or(hash & 0x7f);
        if let Some(name) = self.numbered.get_mut(usize::from(number)) {
            *name = bytes;
        }
        number
    }
}

impl Guide for Names {
    #[inline(always)]
    fn known(&mut self, bytes: [u8; Self::LONGEST]) -> Option<usize> {
        let name = self.next.get(usize::from(self.last) % Self::COUNT)?;
        if u128::from_le_bytes(bytes) & name.mask != name.bytes {
            return None;
        }
        self.last = name.number;
        Some(usize::from(name.length))
    }

    fn learn(&mut self, bytes: [u8; Self::LONGEST], length: usize) {
        self.misses += 1;
        let (Some(unused), Ok(length)) = (Self::LONGEST.checked_sub(length), u8::try_from(length))
        else {
            return;
        };
        let mask = u128::MAX >> (8 * unused);
        let bytes = u128::from_le_bytes(bytes) & mask;
        let number = self.number(bytes);
        if let Some(next) = self.next.get_mut(usize::from(self.last) % Self::COUNT) {
            *next = Name { bytes, mask, length, number };
        }
        self.last = number;
    }
}

#[cold]
pub(super) fn bad<T>(at: usize, what: &'static str) -> Result<T, Stop> {
    Err(Stop::Bad(Fault { at, what }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::tests::{any_value, written};
    use super::*;

    /// Whether the bytes are one JSON value, as the scanner and UTF-8 say.
    fn accepts(bytes: &[u8]) -> bool {
        fn end(bytes: &[u8], guide: &mut impl Guide) -> Result<usize, Stop> {
            let scan = Scan::whole(bytes);
            Ok(scan.space(scan.value(scan.space(0), 0, guide)?))
        }
        let result = end(bytes, &mut ());
        assert_eq!(result, end(bytes, &mut Names::new()), "{:?}", String::from_utf8_lossy(bytes));
        result == Ok(bytes.len()) && str::from_utf8(bytes).is_ok()
    }

    #[track_caller]
    fn check(bytes: &[u8]) -> bool {
        let accepted = accepts(bytes);
        let expected = serde_json::from_slice::<Value>(bytes);
        assert_eq!(accepted, expected.is_ok(), "{:?} {expected:?}", String::from_utf8_lossy(bytes));
        accepted
    }

    #[test]
    fn valid_json_is_accepted() {
        for text in [
            "0",
            "-0",
            "-0.0",
            "1",
            "10",
            "1.5",
            "1e5",
            "1E+5",
            "1e-5",
            "0e0",
            "123.456e-7",
            "1e308",
            "-1.7976931348623157e308",
            "1e-400",
            "0e999999999999",
            "true",
            "false",
            "null",
            r#""""#,
            r#""a""#,
            r#""12345678""#,
            r#""1234567\"""#,
            r#""\"\\\/\b\f\n\r\t""#,
            r#""\u0000\uFFFF\ud7ff\uE000""#,
            r#""\ud83d\uDE00""#,
            "\"\u{7f}é€𝄞\"",
            "[]",
            "[ ]",
            "{}",
            "{ }",
            "[1]",
            "[1,2]",
            "[ 1 , [ ] , { } ]",
            r#"{"":0}"#,
            r#"{"a":1,"a":2}"#,
            r#"{ "a" : { "b" : [ true ] } , "c":""}"#,
            " \t\r\n1 \t\r\n",
        ] {
            assert!(check(text.as_bytes()), "{text}");
        }
        assert!(check(format!("1{}", "0".repeat(308)).as_bytes()));
        assert!(check(format!("0.{}", "1".repeat(1000)).as_bytes()));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            " ",
            "-",
            "+1",
            ".5",
            "1.",
            "1.e5",
            "1e",
            "1e+",
            "01",
            "-01",
            "00",
            "0x1",
            "1e400",
            "-1e400",
            "NaN",
            "Infinity",
            "tru",
            "truee",
            "nul",
            "True",
            "\"",
            "\"a",
            r#""\"#,
            r#""\a""#,
            r#""\u12""#,
            r#""\u12g4""#,
            r#""\ud800""#,
            r#""\ud800\n""#,
            r#""\udc00""#,
            r#""\ud800\ud800""#,
            r#""\ud800\u0041""#,
            "\"\n\"",
            "\"\u{0}\"",
            "\"\u{1f}\"",
            "\"12345678\u{1}\"",
            "[",
            "]",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1}",
            "{",
            "}",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{,}",
            "{a:1}",
            "{1:1}",
            "{\"a\" 1}",
            "{\"a\":1]",
            "{\"a\":1 \"b\":2}",
            "1 2",
            "[]]",
            "\u{feff}1",
            "'a'",
            "/* */1",
            "1,",
            "\u{c}1",
            "\u{a0}1",
        ] {
            assert!(!check(text.as_bytes()), "{text}");
        }
        assert!(!check(format!("1{}", "0".repeat(309)).as_bytes()));
        for bytes in [b"\"\xff\"".as_slice(), b"\"\xc3\"", b"\"\xed\xa0\x80\"", b"\xef\xbb\xbf1"] {
            assert!(!check(bytes));
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let limit = MAX_DEPTH as usize;
        assert!(accepts(nested(limit).as_bytes()));
        assert_eq!(
            Scan::whole(nested(limit + 1).as_bytes()).value(0, 0, &mut ()),
            Err(Stop::Bad(Fault::too_deep(limit)))
        );
        assert!(Scan::whole(nested(1).as_bytes()).value(0, MAX_DEPTH, &mut ()).is_err());
        // An item is in an array, so that this is the deepest one.
        assert!(serde_json::from_str::<Value>(&nested(limit - 1)).is_ok());
        let objects = format!("{}1{}", r#"{"a":"#.repeat(limit), "}".repeat(limit));
        assert!(accepts(objects.as_bytes()));
        assert!(!accepts(format!(r#"{{"a":{objects}}}"#).as_bytes()));
    }

    #[test]
    fn every_start_of_a_document_is_incomplete() {
        let text = r#" {"a":[1.5e3,true,"\u00e9\ud83d\ude00x"],"bcd":{"null":null,"e":-12}}"#;
        for length in 0..text.len() {
            let scan = Scan::part(&text.as_bytes()[..length]);
            assert_eq!(scan.value(scan.space(0), 0, &mut ()), Err(Stop::Incomplete), "{length}");
        }
        // More digits may follow, unless nothing does.
        assert_eq!(Scan::part(b"12").value(0, 0, &mut ()), Err(Stop::Incomplete));
        assert_eq!(Scan::whole(b"12").value(0, 0, &mut ()), Ok(2));
    }

    #[test]
    fn names_are_foreseen_and_never_mistaken() {
        let mut names = Names::new();
        let mut misses = |text: &str| {
            let scan = Scan::whole(text.as_bytes());
            assert_eq!(scan.value(0, 0, &mut names), Ok(text.len()), "{text}");
            names.take_misses()
        };
        let padding = r#","padding":"0123456789abcdef""#;
        let item = format!(r#"{{"id":1,"name":"x","more": true{padding}}}"#);
        assert_eq!(misses(&item), 4);
        assert_eq!(misses(&item), 1, "what follows the last name is learned");
        assert_eq!(misses(&item), 0);
        let other = format!(r#"{{"id":1,"namf":"x","more":true{padding}}}"#);
        assert!(misses(&other) > 0);
        // The name is the same up to where it ends.
        let longer = format!(r#"{{"id":1,"name" : "x","more":  true{padding}}}"#);
        assert!(misses(&longer) > 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn agrees_with_serde_json_on_documents(value in any_value(), style in any::<u8>()) {
            prop_assert!(check(written(&value, style).as_bytes()));
        }

        #[test]
        fn agrees_with_serde_json_on_damaged_documents(
            value in any_value(),
            style in any::<u8>(),
            damages in prop::collection::vec((any::<prop::sample::Index>(), any_byte(), 0..4), 1..4),
        ) {
            let mut bytes = written(&value, style).into_bytes();
            for (at, byte, kind) in damages {
                if bytes.is_empty() {
                    break;
                }
                let at = at.index(bytes.len());
                match kind {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at),
                }
            }
            check(&bytes);
        }
    }

    fn any_byte() -> impl Strategy<Value = u8> {
        let telling = b"\"\\{}[],: \n\t0123456789-+.eEtrufalsn/bdD\x00\x1f\x7f\x80\xc3\xa9\xed\xf0";
        prop_oneof![prop::sample::select(telling.to_vec()), any::<u8>()]
    }
}
