//! `?records=1`: records as they are stored, with what proves them.
//!
//! One JSON object per line:
//!
//! - `{"stream", "number", "head"}` first, if the read does not start at the beginning: the head
//!   that the next record follows;
//! - `{"stream", "number", "record"}` for each record, in base64;
//! - `{"stream", "number", "head", "commit", "time", "path", "key", "signature"}` after the last
//!   record of each commit that is signed.
//!
//! A fork shows the records of what it was forked from under that stream's identity, then its own
//! first record, which names where that was.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use handback_store::{ReadLimit, StoreError};
use handback_stream::{Segment, Stored, StreamId, View};
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

use super::answer;
use super::driver::Streams;
use super::params::{CLOSED, NEXT_OFFSET, UP_TO_DATE};
use super::routes::{Answered, StreamRoutes};
use crate::body::ReplyBody;

/// Records of one answer at most.
const RECORDS_MAX: usize = 1000;

impl StreamRoutes {
    /// The records after a number; from the very first one on, if that is where to start.
    pub(super) async fn records(&self, view: &View, after: u64, from_start: bool) -> Answered {
        let limit = ReadLimit { records: RECORDS_MAX, bytes: self.settings.page_bytes };
        let (streams, shown) = (self.streams.clone(), view.clone());
        let told =
            tokio::task::spawn_blocking(move || tell(&streams, &shown, after, from_start, limit));
        let (text, upto) = match told.await {
            Ok(Ok(told)) => told,
            Ok(Err(why)) => return Err(Box::new(answer::unread(&why))),
            Err(_) => {
                let why = StoreError::Unavailable("reading was stopped".to_owned());
                return Err(Box::new(answer::unread(&why)));
            }
        };
        let mut response = Response::new(ReplyBody::from(text));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(NEXT_OFFSET, answer::offset(upto.min(view.number)));
        if upto >= view.last {
            headers.insert(UP_TO_DATE, HeaderValue::from_static("true"));
            if view.closed {
                headers.insert(CLOSED, HeaderValue::from_static("true"));
            }
        }
        Ok(response)
    }
}

/// The lines, and the last record that they tell of.
fn tell(
    streams: &Streams,
    view: &View,
    after: u64,
    from_start: bool,
    limit: ReadLimit,
) -> Result<(String, u64), StoreError> {
    let mut lines = Lines { streams, text: String::new() };
    let (mut upto, mut left) = (after, limit.records);
    for (place, segment) in view.meta.segments().iter().enumerate() {
        let end = segment.upto.map_or(view.last, |upto| upto.min(view.number));
        let is_before = end < after || (end == after && !(from_start && place == 0));
        let is_last = segment.upto.is_none();
        if is_before && !is_last {
            continue;
        }
        // A segment that is entered at its first record starts with it, else behind a head.
        let starts = (from_start && place == 0) || (segment.after >= after && place > 0);
        let first = if starts { segment.after } else { segment.after.max(after) };
        if !starts {
            lines.head(*segment, first, streams.record(view, first)?)?;
        }
        let mut next = if starts { first } else { first + 1 };
        while next <= end {
            if left == 0 || lines.text.len() >= limit.bytes {
                return Ok((lines.text, upto));
            }
            let some = ReadLimit { records: left.min(128), bytes: limit.bytes };
            let records = streams.stored(segment.id, next, end, some)?;
            for (number, stored) in records {
                lines.record(segment.id, number, &stored)?;
                (next, upto) = (number + 1, number);
                left -= 1;
            }
        }
    }
    Ok((lines.text, upto))
}

struct Lines<'a> {
    streams: &'a Streams,
    text: String,
}

impl Lines<'_> {
    fn line(&mut self, value: &Value) {
        self.text.push_str(&value.to_string());
        self.text.push('\n');
    }

    fn head(
        &mut self,
        segment: Segment,
        number: u64,
        stored: Option<Stored>,
    ) -> Result<(), StoreError> {
        let missing = || StoreError::Damaged(format!("record {number} of {}", segment.id));
        let head = hex(stored.ok_or_else(missing)?.head.as_bytes());
        self.line(&json!({"stream": segment.id.to_string(), "number": number, "head": head}));
        Ok(())
    }

    fn record(&mut self, id: StreamId, number: u64, stored: &Stored) -> Result<(), StoreError> {
        let record = STANDARD.encode(&stored.record);
        self.line(&json!({"stream": id.to_string(), "number": number, "record": record}));
        let Some((commit, signature)) = self.streams.commit(stored.commit)? else { return Ok(()) };
        let Some((entry, path)) = commit.proof(id).filter(|(entry, _)| entry.number == number)
        else {
            return Ok(());
        };
        let path: Vec<_> = path
            .steps()
            .map(|(is_left, node)| json!([if is_left { "left" } else { "right" }, hex(node)]))
            .collect();
        self.line(&json!({
            "stream": id.to_string(),
            "number": number,
            "head": hex(entry.head.as_bytes()),
            "commit": commit.number,
            "time": commit.time,
            "path": path,
            "key": signature.key.to_string(),
            "signature": STANDARD.encode(signature.bytes),
        }));
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
