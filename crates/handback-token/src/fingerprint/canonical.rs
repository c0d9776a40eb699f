//! Canonical JSON of a parsed value, and how its parts are written.

use serde_json::{Number, Value};

/// Integers below this magnitude are written in full.
const TWO_TO_128: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;

/// Arguments are seldom longer.
const EXPECTED_BYTES: usize = 128;

pub(super) fn of_value(value: &Value, excluded: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(EXPECTED_BYTES);
    write_value(&mut out, value, excluded);
    out
}

fn write_value(out: &mut Vec<u8>, value: &Value, excluded: &[&str]) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => write_list(out, b"[]", items, |out, item| {
            write_value(out, item, &[]);
        }),
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().filter(|(key, _)| !excluded.contains(&key.as_str())).collect();
            members.sort_by(|(a, _), (b, _)| by_utf16(a, b));
            write_list(out, b"{}", members, |out, (key, value)| {
                write_string(out, key);
                out.push(b':');
                write_value(out, value, &[]);
            });
        }
    }
}

/// RFC 8785, section 3.2.3: members are sorted by the UTF-16 code units of their keys.
pub(super) fn by_utf16(a: &str, b: &str) -> std::cmp::Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

pub(super) fn write_list<T>(
    out: &mut Vec<u8>,
    [open, close]: &[u8; 2],
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(*open);
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(*close);
}

pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

fn write_number(out: &mut Vec<u8>, number: &Number) {
    if let Some(integer) = number.as_u64() {
        out.extend_from_slice(integer.to_string().as_bytes());
    } else if let Some(integer) = number.as_i64() {
        out.extend_from_slice(integer.to_string().as_bytes());
    } else if let Some(double) = number.as_f64().filter(|double| double.is_finite()) {
        write_double(out, double);
    } else {
        // Not a number that this crate's `serde_json` makes: as it is written.
        out.extend_from_slice(number.to_string().as_bytes());
    }
}

/// Integral doubles below 2^128 in full, others as ECMAScript writes them.
pub(super) fn write_double(out: &mut Vec<u8>, double: f64) {
    if double == 0.0 {
        // Both zeros are the integer 0.
        out.push(b'0');
    } else if double.fract() == 0.0 && double.abs() < TWO_TO_128 {
        out.extend_from_slice(format!("{double:.0}").as_bytes());
    } else {
        out.extend_from_slice(ryu_js::Buffer::new().format_finite(double).as_bytes());
    }
}
