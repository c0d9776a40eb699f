//! The start of the canonical text of a value, without making a tree of the value.
//!
//! Arrays and objects are sorted by a few bytes of their canonical text, and may have millions of
//! elements. One pass over the text finds these bytes: of an array those of its first elements, of an
//! object those of the members whose names come first. All else is skipped.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::pick::unquoted;
use super::scan::{Fault, Scan, Stop};

/// The shortest member of an object that others follow: `"":1,`.
const SHORTEST_MEMBER_BYTES: usize = 5;

/// So many bytes of the canonical text of a value, which was scanned before: as
/// [`canonical_json`](handback_token::canonical_json) writes what `serde_json` makes of it.
pub(super) fn start(json: &str, bytes: usize) -> Vec<u8> {
    let walk = Walk { scan: Scan::whole(json.as_bytes()), json };
    let mut out = vec![];
    // It was scanned: it ends where it ends.
    let _ = walk.value(walk.scan.space(0), bytes, &mut out);
    out.truncate(bytes);
    out
}

struct Walk<'t> {
    scan: Scan<'t>,
    json: &'t str,
}

impl<'t> Walk<'t> {
    /// Appends the text of the value at `at`, until there are so many bytes, or a few more. Says where
    /// the value ends. It is nested no deeper than what was scanned may be.
    fn value(&self, at: usize, bytes: usize, out: &mut Vec<u8>) -> Result<usize, Stop> {
        match self.scan.byte(at)? {
            _ if out.len() >= bytes => self.scan.value(at, 0, &mut ()),
            b'[' => self.array(at, bytes, out),
            b'{' => self.object(at, bytes, out),
            _ => {
                let end = self.scan.value(at, 0, &mut ())?;
                write_single(self.json.get(at..end).unwrap_or_default(), bytes, out);
                Ok(end)
            }
        }
    }

    fn array(&self, at: usize, bytes: usize, out: &mut Vec<u8>) -> Result<usize, Stop> {
        out.push(b'[');
        let mut at = self.scan.space(at + 1);
        if self.scan.byte(at)? == b']' {
            out.push(b']');
            return Ok(at + 1);
        }
        loop {
            at = self.scan.space(self.value(at, bytes, out)?);
            let between = self.scan.byte(at)?;
            if out.len() < bytes {
                out.push(between);
            }
            match between {
                b',' => at = self.scan.space(at + 1),
                b']' => return Ok(at + 1),
                _ => return Err(Stop::Bad(Fault::not_between(at, b']'))),
            }
        }
    }

    fn object(&self, at: usize, bytes: usize, out: &mut Vec<u8>) -> Result<usize, Stop> {
        let (members, end) = self.members(at, bytes - out.len())?;
        out.push(b'{');
        for (number, (name, value)) in members.iter().enumerate() {
            if out.len() >= bytes {
                return Ok(end);
            }
            if number > 0 {
                out.push(b',');
            }
            write_text(name, bytes, out);
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'}');
        Ok(end)
    }

    /// The members of an object that are within so many bytes of its text, in their order, with their
    /// values; and where the object ends.
    fn members(&self, at: usize, bytes: usize) -> Result<(Vec<Member<'t>>, usize), Stop> {
        // However short their values are: a member that is there twice may get a shorter one.
        let most = bytes / SHORTEST_MEMBER_BYTES + 1;
        let mut members: Vec<Member<'t>> = vec![];
        let mut at = self.scan.space(at + 1);
        if self.scan.byte(at)? == b'}' {
            return Ok((members, at + 1));
        }
        loop {
            let (name_end, value_at) = self.scan.member(at)?;
            let name = unquoted(self.scan.slice(at, name_end));
            let place = members.binary_search_by(|(other, _)| by_utf16(other, &name));
            at = match place {
                Err(place) if place >= most => self.scan.value(value_at, 0, &mut ())?,
                place => {
                    let mut value = vec![];
                    let end = self.value(value_at, bytes, &mut value)?;
                    // Of several members of one name the last one counts.
                    match place.map(|place| members.get_mut(place)) {
                        Ok(Some(member)) => member.1 = value,
                        Ok(None) => {}
                        Err(place) => members.insert(place, (name, value)),
                    }
                    members.truncate(most);
                    end
                }
            };
            at = self.scan.space(at);
            match self.scan.byte(at)? {
                b',' => at = self.scan.space(at + 1),
                b'}' => return Ok((members, at + 1)),
                _ => return Err(Stop::Bad(Fault::not_between(at, b'}'))),
            }
        }
    }
}

/// A name, and the start of the canonical text of its value.
type Member<'t> = (Cow<'t, str>, Vec<u8>);

/// RFC 8785, section 3.2.3: members are sorted by the UTF-16 code units of their names.
fn by_utf16(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

/// Appends JSON that is neither array nor object.
fn write_single(json: &str, bytes: usize, out: &mut Vec<u8>) {
    match json.as_bytes().first() {
        Some(b'"') => write_text(&unquoted(json.as_bytes()), bytes, out),
        _ => write(&serde_json::from_str(json).unwrap_or_default(), out),
    }
}

/// Appends a text, or enough of it that there are so many bytes.
fn write_text(text: &str, bytes: usize, out: &mut Vec<u8>) {
    let start = text.get(..text.ceil_char_boundary(bytes)).unwrap_or(text);
    write(&Value::from(start), out);
}

fn write(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(&handback_token::canonical_json(value, &[]));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{any_value, written};
    use super::*;

    #[track_caller]
    fn check(json: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        let whole = handback_token::canonical_json(&value, &[]);
        for bytes in [1, 2, 7, 20, 256, 100_000] {
            let expected = whole.get(..bytes).unwrap_or(&whole);
            assert_eq!(start(json, bytes), expected, "{bytes} of {json}");
        }
    }

    #[test]
    fn a_member_that_is_there_twice_counts_once() {
        let long = "x".repeat(300);
        check(&format!(r#"{{"a":"{long}","b":1,"a":2}}"#));
        check(&format!(r#"{{"b":1,"a":2,"\u0061":"{long}"}}"#));
        check(r#"{"a":{"a":1,"b":[2,{"c":3}]},"a":{"b":1,"b":0}}"#);
        let many: Vec<_> = (0..1000).map(|n| format!(r#""{}":{n}"#, n * 7919 % 500)).collect();
        check(&format!("{{{}}}", many.join(",")));
        check(&format!("[[{{{}}}],1]", many.join(" , ")));
    }

    #[test]
    fn names_are_sorted_as_utf16() {
        check(r#"{"\ud834\udd1e":1,"\uffff":2,"é":3,"z":4,"":5,"\u0000":6,"\\\"":7}"#);
    }

    #[test]
    fn numbers_and_texts_are_written_anew() {
        check(
            r#"[1.0, -0, 1e3, 1E-7, 18446744073709551616, "\u00e9\/\n\u001f", true, null, {}, []]"#,
        );
        check(&format!("[\"{}\"]", "\\n€".repeat(200)));
        check(&format!("[{}]", vec!["0"; 1000].join(",")));
    }

    proptest! {
        #[test]
        fn the_start_is_that_of_the_whole(value in any_value(), style: u8) {
            check(written(&value, style).trim());
        }
    }
}
