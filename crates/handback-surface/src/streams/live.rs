//! Reads that wait: long polls and event streams.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use handback_stream::{NameId, Offset, RecordKeys, View};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::params::{CLOSED, CURSOR, NEXT_OFFSET, Query, SSE_ENCODING, UP_TO_DATE};
use super::read::{Page, page_response};
use super::routes::{Answered, StreamRoutes};
use super::{answer, cursor};
use crate::body::ReplyBody;

/// Parts of an event stream that wait for a slow reader. It reads the rest from the log later.
const EVENTS_AHEAD: usize = 2;

/// Bytes of one event: what a reader that does not read holds a few times.
const EVENT_BYTES: usize = 128 << 10;

impl StreamRoutes {
    pub(super) async fn long_poll(
        &self,
        keys: &RecordKeys,
        view: View,
        after: u64,
        query: &Query,
        asked: &HeaderMap,
    ) -> Answered {
        let deadline = Instant::now() + self.settings.long_poll;
        let (mut view, mut after) = (view, after);
        let name = view.meta.id().name();
        loop {
            let page = self.page(&view, keys, after).await?;
            if !page.is_empty() {
                let cursor = self.cursor(query);
                return Ok(page_response(&view, &page, asked, query, cursor));
            }
            after = page.upto;
            if view.closed && after >= view.number {
                return Ok(self.nothing(&view, after, query));
            }
            match self.changed(name, &view, deadline).await? {
                Some(changed) => view = changed,
                None => return Ok(self.nothing(&view, after, query)),
            }
        }
    }

    fn nothing(&self, view: &View, after: u64, query: &Query) -> Response<ReplyBody> {
        let mut response = answer::status(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        headers.insert(NEXT_OFFSET, answer::offset(after));
        headers.insert(UP_TO_DATE, HeaderValue::from_static("true"));
        if view.closed {
            headers.insert(CLOSED, HeaderValue::from_static("true"));
        } else if let Some(cursor) = self.cursor(query) {
            headers.insert(CURSOR, cursor);
        }
        response
    }

    fn cursor(&self, query: &Query) -> Option<HeaderValue> {
        let cursor = cursor::next(self.streams.now(), query.cursor.as_deref(), rand::random());
        HeaderValue::from_str(&cursor).ok()
    }

    /// The stream once it differs from what was seen, unless that takes too long. A stream that
    /// ended meanwhile is not found.
    async fn changed(
        &self,
        name: NameId,
        seen: &View,
        deadline: Instant,
    ) -> Result<Option<View>, Box<Response<ReplyBody>>> {
        let gone = || Box::new(answer::refused(&handback_stream::Refusal::NotFound));
        let mut watch = self.streams.watch(name).ok_or_else(gone)?;
        let differs = |view: &Option<View>| is_news(view.as_ref(), seen);
        let mut closing = self.streams.closing();
        let waited = tokio::select! {
            waited = tokio::time::timeout_at(deadline, watch.wait_for(differs)) => {
                waited.map(|waited| waited.map(|view| view.clone()))
            }
            _ = closing.wait_for(|closing| *closing) => return Ok(None),
        };
        let view = match waited {
            Err(_) => return Ok(None),
            Ok(Err(_)) => None,
            Ok(Ok(view)) => view,
        };
        match view {
            Some(view) if view.meta.id() == seen.meta.id() && !view.deleted => {
                view.meta.touch(self.streams.now());
                Ok(Some(view))
            }
            _ => Err(gone()),
        }
    }

    pub(super) fn events(
        &self,
        keys: Arc<RecordKeys>,
        view: View,
        after: u64,
        query: &Query,
    ) -> Answered {
        let watch = self.streams.watch(view.meta.id().name());
        let gone = || Box::new(answer::refused(&handback_stream::Refusal::NotFound));
        let watch = watch.ok_or_else(gone)?;
        let is_text = view.meta.is_text();
        let (sender, receiver) = mpsc::channel(EVENTS_AHEAD);
        let events = Events {
            routes: self.clone(),
            watch,
            view,
            keys,
            after,
            cursor: query.cursor.clone(),
            sender,
        };
        tokio::spawn(events.run());
        let mut response = Response::new(ReplyBody::Sent(receiver));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if !is_text {
            headers.insert(SSE_ENCODING, HeaderValue::from_static("base64"));
        }
        Ok(response)
    }
}

fn is_news(view: Option<&View>, seen: &View) -> bool {
    view.is_none_or(|view| {
        view.number != seen.number
            || view.closed != seen.closed
            || view.deleted
            || view.meta.id() != seen.meta.id()
    })
}

/// One event stream.
struct Events {
    routes: StreamRoutes,
    watch: watch::Receiver<Option<View>>,
    view: View,
    keys: Arc<RecordKeys>,
    after: u64,
    cursor: Option<String>,
    sender: mpsc::Sender<Bytes>,
}

impl Events {
    /// Sends events until the stream ends, the reader goes away, or it is time to come back.
    async fn run(mut self) {
        let ends = Instant::now() + self.routes.settings.sse_life;
        let mut is_first = true;
        loop {
            let page = self.routes.page_of(&self.view, &self.keys, self.after, EVENT_BYTES).await;
            let Ok(page) = page else { return };
            self.after = page.upto;
            let is_end = self.after >= self.view.number;
            // Nothing to say of records without data, but at the start and at the end.
            if !page.is_empty() || is_first || (is_end && self.view.closed) {
                is_first = false;
                if self.sender.send(self.text(&page, is_end)).await.is_err() {
                    return;
                }
            }
            if (is_end && self.view.closed) || Instant::now() >= ends {
                return;
            }
            if is_end && !self.wait(ends).await {
                return;
            }
        }
    }

    /// Waits for news; says at times that there are none. False if there is nothing to wait for.
    async fn wait(&mut self, ends: Instant) -> bool {
        let mut closing = self.routes.streams.closing();
        loop {
            let rest = Instant::now() + self.routes.settings.long_poll;
            let seen = &self.view;
            // Cloned, since what it borrows from the channel may not outlive the wait.
            let changed = tokio::select! {
                () = self.sender.closed() => return false,
                _ = closing.wait_for(|closing| *closing) => return false,
                changed = tokio::time::timeout_at(
                    ends.min(rest),
                    self.watch.wait_for(|view| is_news(view.as_ref(), seen)),
                ) => changed.map(|changed| changed.map(|view| view.clone())),
            };
            match changed {
                Ok(Ok(view)) => {
                    let Some(view) = view else { return false };
                    if view.deleted || view.meta.id() != self.view.meta.id() {
                        return false;
                    }
                    view.meta.touch(self.routes.streams.now());
                    self.view = view;
                    return true;
                }
                Ok(Err(_)) => return false,
                Err(_) if Instant::now() >= ends => return false,
                Err(_) => {
                    self.view.meta.touch(self.routes.streams.now());
                    let still = self.control(true);
                    if self.sender.send(still.into()).await.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    /// What was read as an event, and where that leads to.
    fn text(&self, page: &Page, is_end: bool) -> Bytes {
        let mut out = String::new();
        if !page.is_empty() {
            out.push_str("event: data\n");
            let body = page.body(self.view.meta.is_json());
            if self.view.meta.is_text() {
                write_lines(&String::from_utf8_lossy(&body), &mut out);
            } else {
                write_lines(&STANDARD.encode(&body), &mut out);
            }
        }
        out.push_str(&self.control(is_end));
        out.into()
    }

    fn control(&self, is_end: bool) -> String {
        let mut said = serde_json::json!({
            "streamNextOffset": Offset::after(self.after).to_string(),
        });
        if let serde_json::Value::Object(members) = &mut said {
            if is_end && self.view.closed {
                members.insert("streamClosed".to_owned(), true.into());
            } else {
                let (now, sent) = (self.routes.streams.now(), self.cursor.as_deref());
                let cursor = cursor::next(now, sent, rand::random());
                members.insert("streamCursor".to_owned(), cursor.into());
            }
            if is_end {
                members.insert("upToDate".to_owned(), true.into());
            }
        }
        let mut out = String::from("event: control\n");
        write_lines(&said.to_string(), &mut out);
        out
    }
}

/// The data of an event: no line of it is taken for anything else.
fn write_lines(text: &str, out: &mut String) {
    let mut rest = text;
    loop {
        let (line, next) = match rest.find(['\n', '\r']) {
            None => (rest, None),
            Some(end) => {
                let (line, tail) = rest.split_at(end);
                let tail = tail
                    .strip_prefix("\r\n")
                    .unwrap_or_else(|| tail.strip_prefix(['\n', '\r']).unwrap_or(tail));
                (line, Some(tail))
            }
        };
        out.push_str("data:");
        if line.starts_with(' ') {
            // One is taken away by readers.
            out.push(' ');
        }
        out.push_str(line);
        out.push('\n');
        match next {
            None => break,
            Some(next) => rest = next,
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::write_lines;

    #[test]
    fn no_data_is_taken_for_a_field() {
        let lines = |text: &str| {
            let mut out = String::new();
            write_lines(text, &mut out);
            out
        };
        assert_eq!(lines("a"), "data:a\n\n");
        assert_eq!(lines(""), "data:\n\n");
        assert_eq!(lines("a\nevent: x\r\n\r b"), "data:a\ndata:event: x\ndata:\ndata:  b\n\n");
    }
}
