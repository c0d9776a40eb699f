//! From the body of a request to what is stored, and back.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::record::Payload;

/// Why a body cannot be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// The stream takes JSON, and this is none.
    #[error("the body is not JSON")]
    NotJson,
    /// An empty array has no message.
    #[error("the body is an empty array")]
    NoMessages,
    /// Nothing.
    #[error("the body is empty")]
    Empty,
    /// Arrays and objects are nested too deeply.
    #[error("the body is nested in more than {MAX_JSON_DEPTH} levels")]
    TooDeep,
}

impl ContentError {
    /// The same for callers.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NotJson => "the body is not JSON",
            Self::NoMessages => "the body is an empty array",
            Self::Empty => "the body is empty",
            Self::TooDeep => "the body is nested too deeply",
        }
    }
}

/// Levels of nesting of a JSON message.
pub const MAX_JSON_DEPTH: usize = 32;

/// Whether text has more than so many brackets open at a time. Those in strings do not count.
fn is_too_deep(text: &str) -> bool {
    // The array that messages come in is a level more.
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_JSON_DEPTH + 1 {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

impl Payload {
    /// The body of an append. The elements of a JSON array are messages of their own.
    ///
    /// # Errors
    ///
    /// [`ContentError`] if it cannot be appended.
    pub fn parse(body: Bytes, is_json: bool) -> Result<Self, ContentError> {
        if body.is_empty() {
            return Err(ContentError::Empty);
        }
        if !is_json {
            return Ok(Self { messages: 0, encrypted: false, bytes: body });
        }
        let text = std::str::from_utf8(&body).map_err(|_| ContentError::NotJson)?;
        if is_too_deep(text) {
            return Err(ContentError::TooDeep);
        }
        let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
        if !trimmed.starts_with('[') {
            serde_json::from_str::<&RawValue>(trimmed).map_err(|_| ContentError::NotJson)?;
            let bytes = body.slice_ref(trimmed.as_bytes());
            return Ok(Self { messages: 1, encrypted: false, bytes });
        }
        let messages: Vec<&RawValue> =
            serde_json::from_str(trimmed).map_err(|_| ContentError::NotJson)?;
        let mut joined = Vec::with_capacity(trimmed.len());
        for message in &messages {
            if !joined.is_empty() {
                joined.push(b',');
            }
            joined.extend_from_slice(message.get().as_bytes());
        }
        match u32::try_from(messages.len()) {
            Ok(0) | Err(_) => Err(ContentError::NoMessages),
            Ok(count) => Ok(Self { messages: count, encrypted: false, bytes: joined.into() }),
        }
    }

    /// Its first messages, or bytes; nothing if it has not so many. Nothing of it is no payload.
    #[must_use]
    pub fn part(&self, count: u64) -> Option<Self> {
        let wanted = usize::try_from(count).ok().filter(|count| *count > 0)?;
        if self.messages == 0 {
            let bytes = (wanted <= self.bytes.len()).then(|| self.bytes.slice(..wanted))?;
            return Some(Self { messages: 0, encrypted: false, bytes });
        }
        let text = [b"[", &self.bytes[..], b"]"].concat();
        let messages: Vec<&RawValue> = serde_json::from_slice(&text).ok()?;
        let texts: Vec<_> = messages.get(..wanted)?.iter().map(|message| message.get()).collect();
        let messages = u32::try_from(wanted).ok()?;
        Some(Self { messages, encrypted: false, bytes: texts.join(",").into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<(u32, String), ContentError> {
        let payload = Payload::parse(Bytes::copy_from_slice(text.as_bytes()), true)?;
        Ok((payload.messages, String::from_utf8(payload.bytes.to_vec()).unwrap()))
    }

    #[test]
    fn one_level_of_an_array_is_taken_apart() {
        assert_eq!(json(" {\"a\": 1} "), Ok((1, "{\"a\": 1}".into())));
        assert_eq!(json("[{\"a\":1}, 2]"), Ok((2, "{\"a\":1},2".into())));
        assert_eq!(json("[[1,2], [3]]"), Ok((2, "[1,2],[3]".into())));
        assert_eq!(json("[[[1]]]"), Ok((1, "[[1]]".into())));
        assert_eq!(json("18446744073709551616"), Ok((1, "18446744073709551616".into())));
        assert_eq!(json("[]"), Err(ContentError::NoMessages));
        for text in ["[", "{", "1 2", "[1,]", "\"\\x\"", "nul", " "] {
            assert_eq!(json(text), Err(ContentError::NotJson), "{text}");
        }
        assert_eq!(json(""), Err(ContentError::Empty));
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(json(&nested(33)).is_ok());
        assert_eq!(json(&nested(34)), Err(ContentError::TooDeep));
        assert!(json(&format!("\"{}\"", "[".repeat(99))).is_ok());
    }

    #[test]
    fn the_first_messages_or_bytes_of_a_payload() {
        let payload = Payload::parse(Bytes::from_static(b"[1, \"a,b\", [2]]"), true).unwrap();
        assert_eq!(payload.part(2).unwrap().bytes, "1,\"a,b\"");
        assert_eq!(payload.part(3).unwrap().messages, 3);
        assert_eq!((payload.part(4), payload.part(0)), (None, None));
        let payload = Payload::parse(Bytes::from_static(b"abc"), false).unwrap();
        assert_eq!(payload.part(2).unwrap().bytes, "ab");
        assert_eq!((payload.part(4), payload.part(0)), (None, None));
    }
}
