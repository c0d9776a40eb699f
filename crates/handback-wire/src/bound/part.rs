//! What is told of the parts that are held.

use std::fmt;

use handback_page::json::Pointer;
use handback_token::Handle;
use jiff::Timestamp;
use serde_json::{Value, json};

/// A part of a result that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// Its name.
    pub handle: Handle,
    /// Where in the result it is.
    pub path: Pointer,
    /// Where in the JSON at the path, which may be JSON in a text; empty if it is all of that.
    pub inside: Pointer,
    /// Its media type.
    pub kind: &'static str,
    /// Where in what is held the array or object is whose elements or members are its items.
    pub items: Pointer,
    /// How many items are shown, from the first one on.
    pub shown: u64,
    /// How many items there are; of a text, lines.
    pub total: u64,
    /// How many bytes are held.
    pub bytes: u64,
    /// The media type of the media block that it is, if it is one.
    pub media: Option<String>,
    /// Until when it is held if nobody reads it, in milliseconds since 1970.
    pub until_ms: u64,
    /// Until when it is held however often it is read.
    pub until_at_most_ms: u64,
}

impl Part {
    /// What `_meta` says of it.
    pub(super) fn entry(&self) -> Value {
        let mut entry = json!({
            "handle": self.handle.to_string(),
            "path": self.path.to_string(),
            "kind": self.kind,
            "items": self.items.to_string(),
            "shown": self.shown,
            "total": self.total,
            "bytes": self.bytes,
            "until": Time(self.until_ms).to_string(),
        });
        if !self.inside.tokens().is_empty()
            && let Value::Object(members) = &mut entry
        {
            members.insert("inside".to_owned(), self.inside.to_string().into());
        }
        if let (Some(media), Value::Object(members)) = (&self.media, &mut entry) {
            members.insert("media".to_owned(), media.as_str().into());
        }
        entry
    }
}

/// Milliseconds since 1970 as RFC 3339, to the second.
pub(super) struct Time(pub(super) u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0 / 1000).ok();
        match seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
            Some(time) => time.fmt(f),
            // Beyond the calendar.
            None => f.write_str("9999-12-30T22:00:00Z"),
        }
    }
}
