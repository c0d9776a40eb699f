//! Marks of Handback in messages of upstreams.
//!
//! A member `dev.handback/…` of `_meta` is Handback's word. Such a member of an upstream is moved into
//! [`UPSTREAM`], an object with the members as they were. A client finds there what the upstream claims,
//! and everywhere else what Handback says.
//!
//! | place | moved |
//! |---|---|
//! | `_meta` of a message, a block, an item of a list, and of everything else in a message | yes |
//! | `data` of an error object, where Handback marks errors | yes |
//! | `_meta` of a request in `inputRequests`, under any name | yes |
//! | `_meta` inside of `structuredContent`, of a schema or of the input of a tool | no, these are data |
//! | `_meta` inside of a `_meta` | no, the outer one is moved with all that it has |
//!
//! A `_meta` without such a member keeps its bytes. In one that changes, members keep theirs, and the
//! white space between them goes.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;

use crate::json::{Lexer, NotJson, Sink, Token, Unescape};

/// Begins the name of every mark.
pub const PREFIX: &str = "dev.handback/";

/// The member of `_meta` that has the marks of an upstream.
pub const UPSTREAM: &str = "dev.handback/upstream";

/// Marks of one message at most. Handback writes fewer than ten; with more, what is remembered of them
/// would be larger than the message.
pub const MARKS_MAX: usize = 10_000;

/// Bytes of a name that are read, as they are written: the names that matter are shorter, even with an
/// escape for every letter.
const NAME_BYTES_MAX: usize = 128;

/// The member with requests under names that the upstream chooses. None of these names is the protocol's.
const REQUESTS: &[u8] = b"inputRequests";

/// Values with these names are data of a tool, and no part of the protocol.
const DATA: [&str; 5] =
    ["structuredContent", "inputSchema", "outputSchema", "requestedSchema", "input"];

/// The start of [`PREFIX`], up to the slash, which many writers escape.
const START: &[u8] = b"dev.handback";

/// Bytes that a text has to overlap the one before by, so that [`may_have`] sees what lies on the border.
pub const OVERLAP_BYTES: u64 = START.len() as u64 - 1;

/// Marks of an upstream that cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarksError {
    /// More than [`MARKS_MAX`].
    #[error("the message has more than {MARKS_MAX} marks of Handback")]
    TooMany,
    /// Not JSON.
    #[error(transparent)]
    NotJson(#[from] NotJson),
}

/// The kind of value that may have marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has no third")]
pub enum Root {
    /// A result, or parameters.
    Message,
    /// An error object.
    Error,
}

/// Returns `true` if a text may have a mark, written plainly or with escapes. Looks at every byte twice,
/// and reads nothing.
#[must_use]
pub fn may_have(json: &[u8]) -> bool {
    memmem::find(json, START).is_some()
        || memmem::find_iter(json, br"\u00").any(|at| {
            let digits = json.get(at + 4..at + 6).unwrap_or_default();
            // Cut off by the end of the text, the escape may be any.
            digits.len() < 2
                || str::from_utf8(digits)
                    .ok()
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                    .is_some_and(|letter| PREFIX.as_bytes().contains(&letter))
        })
}

/// The value with the marks of an upstream where they cannot be taken for those of Handback. None, if
/// there are none, and the value stays as it is.
///
/// # Errors
///
/// [`MarksError`]. Such a value is not to be passed on.
pub fn moved(json: &Bytes, root: Root) -> Result<Option<Bytes>, MarksError> {
    if !may_have(json) {
        return Ok(None);
    }
    let mut scan = MarkScan::new(root);
    let mut lexer = Lexer::new();
    lexer.feed(json, &mut scan)?;
    lexer.finish(&mut scan)?;
    let Some(segments) = scan.finish(json.len() as u64)? else { return Ok(None) };
    let mut out = Vec::with_capacity(json.len() + 64);
    for segment in segments {
        match segment {
            Segment::Text(text) => out.extend_from_slice(text.as_bytes()),
            Segment::Copy(range) => {
                let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                out.extend_from_slice(
                    json.get(place(range.start)..place(range.end)).unwrap_or_default(),
                );
            }
        }
    }
    Ok(Some(out.into()))
}

/// A part of a value whose marks were moved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Segment {
    /// These bytes of the value.
    Copy(Range<u64>),
    /// This text.
    Text(&'static str),
}

/// Finds the marks in a value, in pieces of any size.
#[derive(Debug)]
pub struct MarkScan {
    /// The open arrays and objects.
    open: Vec<Inside>,
    root: Inside,
    /// The name that passes by: where it begins, and its first bytes.
    name: Option<(u64, Vec<u8>)>,
    /// The name of the value that comes next.
    named: Named,
    /// The object of marks that is open.
    frame: Option<Frame>,
    edits: Vec<Edit>,
    marks: usize,
}

/// The kind of an open array or object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Plain,
    Error,
    Requests,
    Data,
}

/// The name of a value, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Meta,
    Error,
    ErrorData,
    Requests,
    Data,
    Other,
}

/// An open object that may have marks.
#[derive(Debug)]
struct Frame {
    /// The number of open arrays and objects in it.
    depth: usize,
    start: u64,
    kept: Vec<Range<u64>>,
    marked: Vec<Range<u64>>,
    /// The member that passes by: where it begins, and whether it is a mark.
    member: Option<(u64, bool)>,
    /// Whether the member before it was a mark as well, or there is none.
    is_after_mark: bool,
}

impl Frame {
    fn ended(&mut self, at: u64) {
        let Some((start, is_mark)) = self.member.take() else { return };
        // One more than there may be is enough to refuse them all.
        let is_full = self.marked.len() > MARKS_MAX;
        match (is_mark, self.kept.last_mut()) {
            _ if is_full => {}
            (true, _) => self.marked.push(start..at),
            // Members in a row are copied with what is between them.
            (false, Some(kept)) if !self.is_after_mark => kept.end = at,
            (false, _) => self.kept.push(start..at),
        }
        self.is_after_mark = is_mark;
    }
}

/// An object with marks.
#[derive(Debug)]
struct Edit {
    object: Range<u64>,
    kept: Vec<Range<u64>>,
    marked: Vec<Range<u64>>,
}

impl MarkScan {
    /// Before the first byte of a value of this kind.
    #[must_use]
    pub const fn new(root: Root) -> Self {
        let root = match root {
            Root::Message => Inside::Plain,
            Root::Error => Inside::Error,
        };
        Self {
            open: Vec::new(),
            root,
            name: None,
            named: Named::Other,
            frame: None,
            edits: Vec::new(),
            marks: 0,
        }
    }

    /// The parts of the value with all marks moved, which had so many bytes. None, if it has no marks.
    ///
    /// # Errors
    ///
    /// [`MarksError::TooMany`].
    pub fn finish(self, size_bytes: u64) -> Result<Option<Vec<Segment>>, MarksError> {
        if self.marks > MARKS_MAX {
            return Err(MarksError::TooMany);
        }
        if self.edits.is_empty() {
            return Ok(None);
        }
        let (mut out, mut at) = (Vec::new(), 0);
        for Edit { object, kept, marked } in self.edits {
            out.push(Segment::Copy(at..object.start));
            out.push(Segment::Text("{"));
            for part in kept {
                out.push(Segment::Copy(part));
                out.push(Segment::Text(","));
            }
            for (number, part) in marked.into_iter().enumerate() {
                // The name is `UPSTREAM`.
                let before = if number == 0 { r#""dev.handback/upstream":{"# } else { "," };
                out.push(Segment::Text(before));
                out.push(Segment::Copy(part));
            }
            out.push(Segment::Text("}}"));
            at = object.end;
        }
        out.push(Segment::Copy(at..size_bytes));
        Ok(Some(out))
    }

    fn inside(&self) -> Inside {
        self.open.last().copied().unwrap_or(self.root)
    }

    /// Whether what passes by is a member of the open object of marks.
    fn is_in_frame(&self) -> bool {
        self.frame.as_ref().is_some_and(|frame| frame.depth == self.open.len())
    }

    fn opens(&mut self, token: Token, at: u64) {
        let named = std::mem::replace(&mut self.named, Named::Other);
        let inside = match (self.inside(), named) {
            (Inside::Data, _) | (_, Named::Data) => Inside::Data,
            (_, Named::Meta | Named::ErrorData) if token == Token::Object => {
                self.frame = Some(Frame {
                    depth: self.open.len() + 1,
                    start: at,
                    kept: Vec::new(),
                    marked: Vec::new(),
                    member: None,
                    is_after_mark: true,
                });
                Inside::Data
            }
            // A root that is an array has no members.
            _ if self.open.is_empty() => self.root,
            (_, Named::Error) if token == Token::Object => Inside::Error,
            (_, Named::Requests) if token == Token::Object => Inside::Requests,
            _ => Inside::Plain,
        };
        self.open.push(inside);
    }

    fn closes(&mut self, at: u64) {
        self.open.pop();
        let is_over = self.frame.as_ref().is_some_and(|frame| frame.depth > self.open.len());
        if let Some(frame) = self.frame.take_if(|_| is_over)
            && !frame.marked.is_empty()
        {
            self.marks = self.marks.saturating_add(frame.marked.len());
            if self.marks <= MARKS_MAX {
                let Frame { start, kept, marked, .. } = frame;
                self.edits.push(Edit { object: start..at, kept, marked });
            }
        }
    }

    fn named(&mut self, start: u64, name: &[u8]) {
        if self.is_in_frame() {
            let is_mark = decoded(name).starts_with(PREFIX.as_bytes());
            if let Some(frame) = &mut self.frame {
                frame.member = Some((start, is_mark));
            }
            return;
        }
        let inside = self.inside();
        if matches!(inside, Inside::Data | Inside::Requests) || !name.ends_with(b"\"") {
            return;
        }
        self.named = match decoded(name).as_slice() {
            b"_meta" => Named::Meta,
            b"error" => Named::Error,
            REQUESTS => Named::Requests,
            b"data" if inside == Inside::Error => Named::ErrorData,
            name if DATA.iter().any(|known| known.as_bytes() == name) => Named::Data,
            _ => Named::Other,
        };
    }
}

impl Sink for MarkScan {
    fn begin(&mut self, token: Token, at: u64) {
        match token {
            Token::Name if self.is_in_frame() || self.inside() != Inside::Data => {
                self.name = Some((at, Vec::new()));
            }
            Token::Object | Token::Array => self.opens(token, at),
            _ => {}
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        if let Some((_, name)) = &mut self.name {
            let rest = NAME_BYTES_MAX.saturating_sub(name.len());
            name.extend_from_slice(bytes.get(..rest.min(bytes.len())).unwrap_or_default());
        }
    }

    fn end(&mut self, token: Token, at: u64) {
        if token == Token::Name {
            if let Some((start, name)) = self.name.take() {
                self.named(start, &name);
            }
            return;
        }
        if token.is_container() {
            self.closes(at);
        }
        self.named = Named::Other;
        if self.is_in_frame()
            && let Some(frame) = &mut self.frame
        {
            frame.ended(at);
        }
    }
}

/// The start of a name, as far as it can be read.
fn decoded(written: &[u8]) -> Vec<u8> {
    let written = written.strip_prefix(b"\"").unwrap_or(written);
    let written = match written.len() + 1 < NAME_BYTES_MAX {
        true => written.strip_suffix(b"\"").unwrap_or(written),
        false => written,
    };
    let mut out = Vec::new();
    // Half a character ends what can be read; no name that matters has one.
    let _ = Unescape::new().push(written, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    #[track_caller]
    fn check(root: Root, json: &str, expected: Option<&str>) {
        let whole = Bytes::copy_from_slice(json.as_bytes());
        let moved = moved(&whole, root).unwrap();
        assert_eq!(moved.as_deref().map(|json| str::from_utf8(json).unwrap()), expected, "{json}");
        // In whatever pieces it comes.
        let (mut scan, mut lexer) = (MarkScan::new(root), Lexer::new());
        for byte in json.as_bytes().chunks(1) {
            lexer.feed(byte, &mut scan).unwrap();
        }
        lexer.finish(&mut scan).unwrap();
        let segments = scan.finish(json.len() as u64).unwrap();
        let text = segments.map(|segments| {
            let text = |segment: &Segment| match segment {
                Segment::Text(text) => (*text).to_owned(),
                Segment::Copy(range) => {
                    let place = |at: u64| usize::try_from(at).unwrap();
                    json[place(range.start)..place(range.end)].to_owned()
                }
            };
            segments.iter().map(text).collect::<String>()
        });
        assert_eq!(text.as_deref(), expected, "{json}");
    }

    #[test]
    fn moves_marks_and_nothing_else() {
        let message = |json: &str, expected: &str| check(Root::Message, json, Some(expected));
        message(
            r#"{"a": 1.50,"_meta": {"x":[ 1 ],"dev.handback/held":[{"a":1}]} }"#,
            r#"{"a": 1.50,"_meta": {"x":[ 1 ],"dev.handback/upstream":{"dev.handback/held":[{"a":1}]}} }"#,
        );
        message(
            r#"{"_meta":{"dev.handback/a":1, "x":{"_meta":{}} ,"y":2,"dev.handback/b":"}","z":[]}}"#,
            r#"{"_meta":{"x":{"_meta":{}} ,"y":2,"z":[],"dev.handback/upstream":{"dev.handback/a":1,"dev.handback/b":"}"}}}"#,
        );
        // Its own word for this is one more of its words.
        message(
            r#"{"_meta":{"dev.handback/upstream":{"a":1}}}"#,
            r#"{"_meta":{"dev.handback/upstream":{"dev.handback/upstream":{"a":1}}}}"#,
        );
        // However it is written.
        message(
            r#"{"\u005fmeta":{"\u0064ev.handback\/x":1,"dev\u002Ehandback/y":2}}"#,
            r#"{"\u005fmeta":{"dev.handback/upstream":{"\u0064ev.handback\/x":1,"dev\u002Ehandback/y":2}}}"#,
        );
        // Twice is still none of ours.
        message(
            r#"{"_meta":{"dev.handback/x":1,"dev.handback/x":2},"_meta":{"dev.handback/x":3}}"#,
            r#"{"_meta":{"dev.handback/upstream":{"dev.handback/x":1,"dev.handback/x":2}},"_meta":{"dev.handback/upstream":{"dev.handback/x":3}}}"#,
        );
        message(
            r#"{"content":[{"type":"text","text":"dev.handback/","_meta":{"dev.handback/x":1}}],"tools":[{"_meta":{"dev.handback/y":2}}]}"#,
            r#"{"content":[{"type":"text","text":"dev.handback/","_meta":{"dev.handback/upstream":{"dev.handback/x":1}}}],"tools":[{"_meta":{"dev.handback/upstream":{"dev.handback/y":2}}}]}"#,
        );
        message(
            r#"{"taskId":"t","error":{"code":1,"data":{"dev.handback/replayed":true}}}"#,
            r#"{"taskId":"t","error":{"code":1,"data":{"dev.handback/upstream":{"dev.handback/replayed":true}}}}"#,
        );
        // The names of requests are the upstream's, and none hides a request.
        for name in ["q", "input", "structuredContent", "requestedSchema", "error", "_meta"] {
            let request = |meta: &str| {
                format!(
                    r#"{{"inputRequests":{{"{name}":{{"method":"m","params":{{"input":{{"_meta":{{"dev.handback/x":1}}}},"_meta":{meta}}}}}}}}}"#
                )
            };
            message(
                &request(r#"{"dev.handback/x":1}"#),
                &request(r#"{"dev.handback/upstream":{"dev.handback/x":1}}"#),
            );
        }
        let long = format!("dev.handback/{}", "x".repeat(2 * NAME_BYTES_MAX));
        message(
            &format!(r#"{{"_meta":{{"{long}":1}}}}"#),
            &format!(r#"{{"_meta":{{"dev.handback/upstream":{{"{long}":1}}}}}}"#),
        );
        message(
            r#"{"_meta":{"dev.handback/\ud800":1}}"#,
            r#"{"_meta":{"dev.handback/upstream":{"dev.handback/\ud800":1}}}"#,
        );
        check(
            Root::Error,
            r#"{"code":1,"message":"m","data":{"reason":"r","dev.handback/replayed":true}}"#,
            Some(
                r#"{"code":1,"message":"m","data":{"reason":"r","dev.handback/upstream":{"dev.handback/replayed":true}}}"#,
            ),
        );
    }

    #[test]
    fn keeps_what_is_no_mark() {
        for json in [
            "{}",
            "[]",
            "7",
            r#"{"_meta":{"dev.handback":1,"Dev.handback/x":1,"x.dev.handback/":1}}"#,
            r#"{"_meta":["dev.handback/x"],"dev.handback/x":1}"#,
            r#"{"_meta":{"x":{"dev.handback/x":1}}}"#,
            r#"{"structuredContent":{"_meta":{"dev.handback/x":1}},"data":{"dev.handback/x":1}}"#,
            r#"{"tools":[{"inputSchema":{"_meta":{"dev.handback/x":1}}}]}"#,
            r#"{"content":[{"type":"text","text":"\"_meta\":{\"dev.handback/x\":1}"}]}"#,
        ] {
            check(Root::Message, json, None);
        }
    }

    #[test]
    fn too_many_marks_are_refused() {
        let marks = |count: usize| {
            let marks: Vec<_> = (0..count).map(|n| format!(r#""dev.handback/{n}":{n}"#)).collect();
            Bytes::from(format!(r#"{{"_meta":{{{}}}}}"#, marks.join(",")))
        };
        assert!(moved(&marks(MARKS_MAX), Root::Message).unwrap().is_some());
        assert_eq!(moved(&marks(MARKS_MAX + 1), Root::Message), Err(MarksError::TooMany));
        let more = format!(r#"{{"_meta":{{{},"x":1}}}}"#, {
            let more = marks(2 * MARKS_MAX);
            let more = str::from_utf8(&more).unwrap().trim_end_matches('}');
            more.strip_prefix(r#"{"_meta":{"#).unwrap().to_owned()
        });
        assert_eq!(moved(&more.into(), Root::Message), Err(MarksError::TooMany));
    }

    /// Root has become of a tree, made in the plain way.
    fn expected(tree: &Value, is_data: bool) -> Value {
        match tree {
            Value::Array(items) => items.iter().map(|item| expected(item, is_data)).collect(),
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    let value = match (name.as_str(), value) {
                        ("_meta", Value::Object(meta)) if !is_data => Value::Object(nested(meta)),
                        (name, value) => expected(value, is_data || DATA.contains(&name)),
                    };
                    (name.clone(), value)
                };
                Value::Object(members.iter().map(member).collect())
            }
            other => other.clone(),
        }
    }

    fn nested(meta: &Map<String, Value>) -> Map<String, Value> {
        let is_mark = |name: &str| name.starts_with(PREFIX);
        let (marks, mut rest): (Map<_, _>, Map<_, _>) =
            meta.clone().into_iter().partition(|(name, _)| is_mark(name));
        if !marks.is_empty() {
            rest.insert(UPSTREAM.to_owned(), Value::Object(marks));
        }
        rest
    }

    fn any_tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<u64>().prop_map(Value::from),
            "[a-z\"\\\\/é]{0,6}".prop_map(Value::from),
            Just(json!("dev.handback/x")),
        ];
        let name = prop_oneof![
            Just("_meta".to_owned()),
            Just("dev.handback/held".to_owned()),
            Just(UPSTREAM.to_owned()),
            Just("structuredContent".to_owned()),
            Just("content".to_owned()),
            "[a-z\\\\/]{0,4}",
        ];
        leaf.prop_recursive(6, 60, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name.clone(), inner, 0..5).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn moves_what_a_tree_has(tree in any_tree(), escapes in 0_u8..4) {
            let mut text = if escapes & 2 == 0 {
                tree.to_string()
            } else {
                serde_json::to_string_pretty(&tree).unwrap()
            };
            if escapes & 1 == 1 {
                text = text.replace('/', "\\/").replace("k\\/", "\\u006b\\/").replace("_m", "\\u005Fm");
            }
            let json = Bytes::from(text);
            let moved = moved(&json, Root::Message).unwrap();
            let wanted = expected(&tree, false);
            prop_assert_eq!(moved.is_some(), wanted != tree);
            let moved = moved.unwrap_or(json);
            prop_assert_eq!(serde_json::from_slice::<Value>(&moved).unwrap(), wanted);
        }
    }
}
