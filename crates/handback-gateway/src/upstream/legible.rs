//! Which questions something would answer that is no message.
//!
//! Whoever waits for an answer that is broken would wait for as long as it may: it is told at once. So
//! little is believed of what is broken: an id counts only as a member of an outermost object that looks
//! like an answer, and only if it is asked for by nobody else in that object. Programs log objects with ids,
//! too.

use super::meta;

/// Bytes that some programs begin their text with.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Ids of one object that are looked at: one is the rule.
const IDS_MAX: usize = 4;

/// Bytes that are looked at for the end of an id: it is a number, with white space around it.
const ID_BYTES_MAX: usize = 64;

/// A line without the mark that some programs begin their text with.
pub(super) fn without_bom(line: &[u8]) -> &[u8] {
    line.strip_prefix(BOM).unwrap_or(line)
}

/// Whether a line begins as a message does. Others are what a program prints by the way.
pub(super) fn looks_like_json(line: &[u8]) -> bool {
    matches!(without_bom(line.trim_ascii_start()).trim_ascii_start().first(), Some(b'{' | b'['))
}

/// The questions that objects of a broken line would answer, of those that somebody waits for.
#[cold]
pub(super) fn answered(line: &[u8], is_waiting: impl Fn(u64) -> bool) -> Vec<u64> {
    let line = without_bom(line.trim_ascii_start()).trim_ascii_start();
    // Several messages may be in an array.
    let outermost = usize::from(line.first() == Some(&b'['));
    let mut answered = Vec::new();
    let (mut depth, mut rest) = (0_usize, line);
    let mut object = Object::default();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == outermost {
                    answered.extend(std::mem::take(&mut object).answered(&is_waiting));
                }
            }
            b'"' => {
                let (text, behind) = text(rest);
                rest = behind;
                let value = behind.trim_ascii_start().strip_prefix(b":");
                if let (Some(value), true) = (value, depth == outermost + 1) {
                    object.member(text, value.trim_ascii_start());
                }
            }
            _ => {}
        }
    }
    // It may have been cut off.
    answered.extend(object.answered(&is_waiting));
    answered
}

/// Whether a broken message would answer this question.
#[cold]
pub(super) fn answers(message: &[u8], number: u64) -> bool {
    !answered(message, |id| id == number).is_empty()
}

/// What is known of an outermost object.
#[derive(Default)]
struct Object {
    has_version: bool,
    has_outcome: bool,
    asks: bool,
    /// How many members it has that no answer has.
    others: usize,
    ids: Vec<u64>,
}

impl Object {
    fn member(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"jsonrpc" => self.has_version = true,
            b"result" | b"error" => self.has_outcome = true,
            // Of a broken request, the one may be where the other is not seen.
            b"method" | b"params" => self.asks = true,
            b"id" if self.ids.len() < IDS_MAX => self.ids.extend(number(value)),
            _ => self.others += 1,
        }
    }

    /// The question that it would answer, if there is one, and one only.
    fn answered(self, is_waiting: impl Fn(u64) -> bool) -> Option<u64> {
        // What a program logs may have the id of what it is about, and even the version.
        let is_bare = self.others == 0;
        let looks_so = if self.has_outcome {
            self.has_version || is_bare
        } else {
            self.has_version && is_bare
        };
        let is_answer = !self.asks && looks_so;
        let mut waiting = self.ids.into_iter().filter(|id| is_answer && is_waiting(*id));
        let first = waiting.next()?;
        waiting.all(|other| other == first).then_some(first)
    }
}

/// The number at the start of a value, if all of it is there.
fn number(value: &[u8]) -> Option<u64> {
    let value = value.get(..ID_BYTES_MAX).unwrap_or(value);
    let end = value.iter().position(|byte| matches!(byte, b',' | b'}'))?;
    meta::number(str::from_utf8(value.get(..end)?.trim_ascii_end()).ok()?)
}

/// A text to its end, and what is behind it.
fn text(from: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', from.get(at..).unwrap_or_default()) {
        at += found;
        if from.get(at) == Some(&b'"') {
            let (text, behind) = from.split_at(at);
            return (text, behind.get(1..).unwrap_or_default());
        }
        // Whatever is escaped.
        at += 2;
    }
    (from, &[])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(line: &[u8], expected: &[u64]) {
        let found = answered(line, |id| (1..10).contains(&id));
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(line));
    }

    #[test]
    fn the_question_of_a_broken_answer_is_known() {
        let broken: [&[u8]; 20] = [
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"text\":\"a\xffb\"}}",
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"text\":\"a\x01b\"}}",
            br#"{"jsonrpc":"2.0","id":5,"result":{"content":[],}}"#,
            br#"{"jsonrpc":"2.0","id":5,"result":{"content":[}}"#,
            br#"{"jsonrpc":"2.0","id":5,"result":{"x":NaN}}"#,
            br#"{"result":{"x":NaN},"jsonrpc":"2.0","id":5}"#,
            br#"{"jsonrpc":"2.0","id":"5","result":{"x":NaN}}"#,
            br#"{"id":5,"result":{}}"#,
            br#"{"error":{"code":1},"id":5}"#,
            br#"{"jsonrpc":"1.0","id":5,"result":{}}"#,
            br#"{"jsonrpc":"2.0","id":5}"#,
            br#"{"jsonrpc":"2.0" , "id" : 5 , "result":{},"error":{}}"#,
            br#"{"jsonrpc":"2.0","id":77777,"id":5,"result":{}}"#,
            br#"{"jsonrpc":"2.0","id":5,"id":5,"result":{}}"#,
            br#"{"jsonrpc":"2.0","id":5,"result":{},"result":{}}"#,
            br#"{"jsonrpc":"2.0","id":5,"result":{"text":"and then"#,
            br#"{"jsonrpc":"2.0","id":5,"result":{"text":"\"}}\\"},}"#,
            b"\xef\xbb\xbf {\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{,}}",
            br#"[{"jsonrpc":"2.0","id":5,"result":{}}]"#,
            br#"{"jsonrpc":"2.0","x":{"id":6},"id":5,"result":{,}}"#,
        ];
        for line in broken {
            check(line, &[5]);
        }
        let two = br#"{"jsonrpc":"2.0","id":5,"result":{}}{"jsonrpc":"2.0","id":6,"result":{}}"#;
        check(two, &[5, 6]);
    }

    #[test]
    fn what_names_no_question_ends_none() {
        let others: [&[u8]; 16] = [
            b"",
            b"\"id\":5,",
            b"5",
            br#"{"jsonrpc":"2.0","id":"#,
            br#"{"jsonrpc":"2.0","id":5"#,
            br#"{"jsonrpc":"2.0","id":50,"result":{,}}"#,
            br#"{"jsonrpc":"2.0","id":5.0,"result":{,}}"#,
            br#"{"jsonrpc":"2.0","id":5,"method":"ping",}"#,
            br#"{"jsonrpc":"2.0","result":{"id":5},}"#,
            br#"{"jsonrpc":"2.0","result":"\"id\":5,",}"#,
            // What a program logs.
            br#"{"level":"info","id":5,"message":"a request came"}"#,
            br#"{"level":"error","id":5,"error":"it failed"}"#,
            br#"{"level":30,"jsonrpc":"2.0","id":5,"msg":"a request was answered"}"#,
            // A request of its own.
            br#"{"jsonrpc":"2.0","id":5,"params":{"x":[},"method":"ping"}"#,
            // Of two nobody knows which.
            br#"{"jsonrpc":"2.0","id":5,"id":6,"result":{}}"#,
            br#"[[{"jsonrpc":"2.0","id":5,"result":{}}]]"#,
        ];
        for line in others {
            check(line, &[]);
        }
    }

    #[test]
    fn what_a_program_prints_does_not_look_like_a_message() {
        for line in ["{", " [", "\u{feff}{}", "\u{feff} {}"] {
            assert!(looks_like_json(line.as_bytes()), "{line}");
        }
        for line in ["Listening on port 8080", "17", "\"{\"", "<html>", "\u{feff}hello", ""] {
            assert!(!looks_like_json(line.as_bytes()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(line: Vec<u8>) {
            answered(&line, |_| true);
        }

        #[test]
        fn nearly_messages_do_not_break_it(line in r#"[\[\]{}",:\\0-9]{0,60}|(\{"id":1,){1,5}"#) {
            answered(line.as_bytes(), |_| true);
        }
    }
}
