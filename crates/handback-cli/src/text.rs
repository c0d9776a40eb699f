//! Small things between bytes, times and text.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use handback_token::UnixTime;
use jiff::Timestamp;

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes from hexadecimal digits, two for each.
pub(crate) fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("not all of these are hexadecimal digits".to_owned());
    }
    if !text.len().is_multiple_of(2) {
        return Err("a byte has two hexadecimal digits".to_owned());
    }
    (0..text.len())
        .step_by(2)
        .map(|at| {
            let digits = text.get(at..at + 2).unwrap_or_default();
            u8::from_str_radix(digits, 16).map_err(|error| error.to_string())
        })
        .collect()
}

/// A point in time as RFC 3339 in UTC; as seconds, if it is beyond the calendar.
pub(crate) fn rfc3339(time: UnixTime) -> String {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .map_or_else(|| time.as_secs().to_string(), |timestamp| timestamp.to_string())
}

/// A point in time from RFC 3339 or from seconds since 1970.
pub(crate) fn parse_time(text: &str) -> Result<UnixTime, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(UnixTime::from_secs).map_err(|error| error.to_string());
    }
    let timestamp: Timestamp = text.parse().map_err(|_| {
        "neither RFC 3339 (2027-01-15T08:00:00Z) nor seconds since 1970 (1800000000)".to_owned()
    })?;
    u64::try_from(timestamp.as_second())
        .map(UnixTime::from_secs)
        .map_err(|_| "times before 1970 are not used".to_owned())
}

/// Bytes as text, if they are text that a terminal shows as it is.
pub(crate) fn printable(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.chars().all(is_plain).then_some(text)
}

/// Control characters move the cursor, format characters turn the text round or hide in it.
fn is_plain(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    matches!(character, '\n' | '\r' | '\t') || !(character.is_control() || is_format)
}

/// JSON that says the same, without characters that a terminal does not show as they are. Outside
/// of its texts JSON has none.
pub(crate) fn plain_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_plain) {
        return Cow::Borrowed(json);
    }
    let mut plain = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_plain(character) {
            plain.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(plain, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(plain)
}

/// A text of somebody else on one line, without what a terminal would take for commands.
pub(crate) fn one_line(text: &str) -> String {
    plain_json(text).replace(['\n', '\r', '\t'], " ")
}

/// A word as a POSIX shell takes it, quoted where it has to be.
pub(crate) fn shell_word(word: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:,@%=".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Writes one aligned line for each label and value.
pub(crate) fn write_pairs(f: &mut fmt::Formatter<'_>, pairs: &[(&str, &str)]) -> fmt::Result {
    let width = pairs.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    pairs.iter().try_for_each(|(label, value)| writeln!(f, "{label:width$}  {value}"))
}

/// A printable text in quotes, on one line.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_go_both_ways() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(parse_hex(&hex(&bytes)), Ok(bytes));
        assert_eq!(parse_hex("FF"), Ok(vec![255]));
        assert_eq!(parse_hex(""), Ok(Vec::new()));
        for wrong in ["f", "fg", "+1", "é0", " 0", "0x00"] {
            assert!(parse_hex(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_from_both_notations() {
        let expected = Ok(UnixTime::from_secs(1_800_000_000));
        for text in ["1800000000", "2027-01-15T08:00:00Z", "2027-01-15T09:00:00+01:00"] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
        assert_eq!(parse_time("2027-01-15T08:00:00.999Z"), expected);
        let wrong =
            ["", "now", "-1", "1.5", "2027-01-15", "1969-12-31T23:59:59Z", "2027-13-01T00:00Z"];
        for text in wrong.into_iter().chain(["99999999999999999999"]) {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_written_as_rfc_3339() {
        assert_eq!(rfc3339(UnixTime::from_secs(1_800_000_000)), "2027-01-15T08:00:00Z");
        assert_eq!(rfc3339(UnixTime::from_secs(u64::MAX)), u64::MAX.to_string());
    }

    #[test]
    fn only_what_a_terminal_shows_as_it_is_counts_as_printable() {
        for text in ["", "after row 20", "zwölf\n", "हिन्दी", "\\\"'"] {
            assert_eq!(printable(text.as_bytes()), Some(text));
        }
        for text in ["\u{1b}[2J", "\u{7f}", "\u{9b}2J", "a\u{202e}b", "\u{200b}", "\0"] {
            assert_eq!(printable(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(printable(b"\xff"), None);
    }

    #[test]
    fn json_says_the_same_without_hidden_characters() {
        let json = "{\"a\": \"x\u{7f}\u{9b}2J\u{202e}\u{e0001}é\"}\n";
        let plain = plain_json(json);
        assert_eq!(plain, "{\"a\": \"x\\u007f\\u009b2J\\u202e\\udb40\\udc01é\"}\n");
        let parse = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(parse(&plain), parse(json));
    }

    #[test]
    fn words_are_quoted_for_the_shell_where_needed() {
        assert_eq!(shell_word("/a/keys.json"), "/a/keys.json");
        assert_eq!(shell_word("/a b"), "'/a b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
