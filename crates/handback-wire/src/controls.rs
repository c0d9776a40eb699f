//! Control characters in titles, descriptions and instructions of upstreams.
//!
//! A model reads these texts, and people read them on terminals. A control character there can hide a part
//! of the text or move the cursor, so each one is replaced by [`REPLACEMENT`]. Newline and tab stay, and so
//! does a carriage return before a newline. All other bytes stay as they are.

use std::ops::Range;

use bytes::Bytes;

use crate::json::{Lexer, Sink, Token};

/// Takes the place of a control character.
pub const REPLACEMENT: &str = "\u{fffd}";

/// Members whose texts are shown.
const SHOWN: [&str; 3] = ["title", "description", "instructions"];

/// Bytes of a name that are read, as they are written: those of [`SHOWN`] are shorter, even with an escape
/// for every letter.
const NAME_BYTES_MAX: usize = 128;

/// The value with no control characters in texts that are shown. None, if there are none, and the value
/// stays as it is.
#[must_use]
pub fn replaced(json: &Bytes) -> Option<Bytes> {
    // Without any of these there is nothing to replace.
    memchr::memchr3(b'\\', 0x7f, 0xc2, json)?;
    let (mut texts, mut lexer) = (Texts::default(), Lexer::new());
    lexer.feed(json, &mut texts).ok()?;
    lexer.finish(&mut texts).ok()?;
    let mut controls = Vec::new();
    for text in texts.shown {
        find(json.get(text.clone()).unwrap_or_default(), text.start, &mut controls);
    }
    if controls.is_empty() {
        return None;
    }
    let (mut out, mut at) = (Vec::with_capacity(json.len()), 0);
    for control in controls {
        out.extend_from_slice(json.get(at..control.start).unwrap_or_default());
        out.extend_from_slice(REPLACEMENT.as_bytes());
        at = control.end;
    }
    out.extend_from_slice(json.get(at..).unwrap_or_default());
    Some(out.into())
}

/// Adds where the control characters of a JSON text are, which begins at this offset.
fn find(text: &[u8], start: usize, controls: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (length, is_control) = match rest {
            [b'\\', b'b' | b'f', ..] => (2, true),
            [b'\\', b'r', behind @ ..] => (2, !is_newline(behind)),
            [b'\\', b'u', digits @ ..] => {
                let (digits, behind) = digits.split_at(digits.len().min(4));
                let digits = str::from_utf8(digits).unwrap_or_default();
                let is_control = match u32::from_str_radix(digits, 16) {
                    Ok(0x09 | 0x0a) | Err(_) => false,
                    Ok(0x0d) => !is_newline(behind),
                    Ok(code) => char::from_u32(code).is_some_and(char::is_control),
                };
                (6, is_control)
            }
            [b'\\', ..] => (2, false),
            [0x7f, ..] => (1, true),
            [0xc2, 0x80..=0x9f, ..] => (2, true),
            _ => (1, false),
        };
        if is_control {
            controls.push(start + at..start + at + length);
        }
        at += length;
    }
}

/// Whether a text goes on with a newline, as JSON has it.
fn is_newline(text: &[u8]) -> bool {
    text.starts_with(br"\n") || text.get(..6).is_some_and(|it| it.eq_ignore_ascii_case(br"\u000a"))
}

/// Where the texts are that are shown.
#[derive(Debug, Default)]
struct Texts {
    /// The name that passes by.
    name: Option<Vec<u8>>,
    /// Whether the value that comes next is shown.
    is_next: bool,
    start: usize,
    shown: Vec<Range<usize>>,
}

impl Sink for Texts {
    fn begin(&mut self, token: Token, at: u64) {
        match token {
            Token::Name => self.name = Some(Vec::new()),
            Token::Text => self.start = usize::try_from(at).unwrap_or(usize::MAX),
            _ => self.is_next = false,
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        if let Some(name) = &mut self.name {
            let rest = NAME_BYTES_MAX.saturating_sub(name.len());
            name.extend_from_slice(bytes.get(..rest.min(bytes.len())).unwrap_or_default());
        }
    }

    fn end(&mut self, token: Token, at: u64) {
        if let Some(name) = self.name.take() {
            let name = serde_json::from_slice::<String>(&name);
            self.is_next = name.is_ok_and(|name| SHOWN.contains(&name.as_str()));
            return;
        }
        if std::mem::take(&mut self.is_next) && token == Token::Text {
            self.shown.push(self.start..usize::try_from(at).unwrap_or(usize::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(json: &'static str, expected: Option<&str>) {
        let replaced = replaced(&Bytes::from_static(json.as_bytes()));
        assert_eq!(
            replaced.as_deref().map(|json| str::from_utf8(json).unwrap()),
            expected,
            "{json:?}"
        );
    }

    #[test]
    fn replaces_control_characters_in_what_is_shown() {
        check(
            r#"{"tools":[{"title":"a\u001b[2Jb","description":"x\by\u007Fz","name":"\u001b"}]}"#,
            Some(
                "{\"tools\":[{\"title\":\"a\u{fffd}[2Jb\",\"description\":\"x\u{fffd}y\u{fffd}z\",\"name\":\"\\u001b\"}]}",
            ),
        );
        check(
            "{\"instructions\": \"a\u{7f}b\u{85}é\\r\", \"x\":1.50}",
            Some("{\"instructions\": \"a\u{fffd}b\u{fffd}é\u{fffd}\", \"x\":1.50}"),
        );
        check(
            r#"{"inputSchema":{"properties":{"description":{"t\u0069tle":"\u0000"}}}}"#,
            Some(
                "{\"inputSchema\":{\"properties\":{\"description\":{\"t\\u0069tle\":\"\u{fffd}\"}}}}",
            ),
        );
    }

    #[test]
    fn keeps_lines_and_everything_that_is_not_shown() {
        for json in [
            r#"{"description":"a\n\tb\r\nc\r\u000Ad\\u001b\\\\b\u00e9\"\/"}"#,
            r#"{"text":"\u001b","description":["\u001b"],"title":{"x":"\u001b"}}"#,
            r#"{"title":1,"x":"\u001b"}"#,
            r#"["title","\u001b"]"#,
            "{}",
        ] {
            check(json, None);
        }
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(title: String, text: String, is_pretty: bool) {
            let tree = json!({"tools": [{"title": title, "name": text}], "description": text});
            let json = if is_pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            let json = Bytes::from(json.unwrap());
            let out = replaced(&json).unwrap_or(json);
            let out: Value = serde_json::from_slice(&out).unwrap();
            let clean = |text: &str| {
                let mut clean = String::new();
                for (at, c) in text.char_indices() {
                    let is_line = c == '\r' && text[at + 1..].starts_with('\n');
                    let stays = !c.is_control() || matches!(c, '\n' | '\t') || is_line;
                    clean.push(if stays { c } else { '\u{fffd}' });
                }
                clean
            };
            let wanted = json!({"tools": [{"title": clean(&title), "name": text}], "description": clean(&text)});
            prop_assert_eq!(out, wanted);
        }
    }
}
