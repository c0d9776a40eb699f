//! Reads that wait: long polls and event streams.

use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use handback_stream::{NameId, Offset, RecordKeys, View};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use super::channels::Channel;
use super::params::{CLOSED, CURSOR, NEXT_OFFSET, Query, SSE_ENCODING, UP_TO_DATE};
use super::read::{Page, page_response};
use super::routes::{Answered, StreamRoutes};
use super::{answer, cursor};
use crate::body::{Making, Pieces, ReplyBody};

/// Bytes of a control event, about.
const CONTROL_BYTES: usize = 160;

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
        let name = view.meta.id().name();
        let gone = || Box::new(answer::refused(&handback_stream::Refusal::NotFound));
        let channel = self.streams.channel(name).ok_or_else(gone)?;
        let watch = channel.view.subscribe();
        let is_text = view.meta.is_text();
        let ends = Instant::now() + self.settings.sse_life;
        let events = Events {
            routes: self.clone(),
            closing: self.streams.closing(),
            timer: Box::pin(tokio::time::sleep(self.settings.long_poll)),
            channel,
            watch,
            view,
            keys,
            after,
            cursor: query.cursor.clone(),
            ends,
            state: State::First,
        };
        let mut response = Response::new(ReplyBody::Made(Box::new(events).next()));
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

/// One event stream. Events are made when the connection has room for them, by the task of the
/// connection itself.
struct Events {
    routes: StreamRoutes,
    channel: Arc<Channel>,
    watch: watch::Receiver<Option<View>>,
    closing: watch::Receiver<bool>,
    /// For the next rest: set for an earlier one, it is set again when it fires.
    timer: Pin<Box<Sleep>>,
    view: View,
    keys: Arc<RecordKeys>,
    after: u64,
    cursor: Option<String>,
    /// When it is time to come back.
    ends: Instant,
    state: State,
}

/// Where an event stream is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was said yet.
    First,
    /// There is more to read.
    Reads,
    /// All was read, and more may come.
    Waits,
    /// Nothing more is said.
    Over,
}

/// What a wait ended with.
enum Waited {
    News,
    /// It takes long, and the reader is to be told that nothing came.
    Still,
    Over,
}

impl Pieces for Events {
    fn next(self: Box<Self>) -> Making {
        Box::pin(async move {
            let mut this = self;
            let text = this.event().await?;
            Some((text, this as Box<dyn Pieces>))
        })
    }
}

impl Events {
    /// The next event. Nothing if the stream ends, or if it is time to come back.
    async fn event(&mut self) -> Option<Bytes> {
        loop {
            match self.state {
                State::Over => return None,
                State::First | State::Reads => {}
                State::Waits => match self.wait().await {
                    Waited::News => {}
                    Waited::Still => return Some(self.with_control(&[], true)),
                    Waited::Over => return None,
                },
            }
            let data = self.data().await?;
            let is_end = self.after >= self.view.number;
            let is_over = (is_end && self.view.closed) || Instant::now() >= self.ends;
            // Nothing to say of records without data, but at the start and at the end.
            let says =
                !data.is_empty() || self.state == State::First || (is_end && self.view.closed);
            self.state = match (is_over, is_end) {
                (true, _) => State::Over,
                (false, true) => State::Waits,
                (false, false) => State::Reads,
            };
            if says {
                return Some(self.with_control(&data, is_end));
            }
        }
    }

    /// The next records as an event: those that read along share it.
    async fn data(&mut self) -> Option<Bytes> {
        let after = self.after;
        if let Some(event) = self.channel.event(&self.view, after) {
            self.after = self.view.number;
            return Some(event);
        }
        let page = self.routes.page_of(&self.view, &self.keys, after, EVENT_BYTES).await.ok()?;
        self.after = page.upto;
        let data = self.text(&page);
        if page.upto == self.view.number {
            self.channel.keep_event(&self.view, after, &data);
        }
        Some(data)
    }

    /// Waits for news.
    async fn wait(&mut self) -> Waited {
        let rest = (Instant::now() + self.routes.settings.long_poll).min(self.ends);
        loop {
            let seen = &self.view;
            // Cloned, since what it borrows from the channel may not outlive the wait.
            let changed = tokio::select! {
                biased;
                changed = self.watch.wait_for(|view| is_news(view.as_ref(), seen)) => {
                    changed.map(|view| view.clone())
                }
                _ = self.closing.wait_for(|closing| *closing) => return Waited::Over,
                () = self.timer.as_mut() => {
                    let now = Instant::now();
                    if now >= self.ends {
                        return Waited::Over;
                    }
                    if now >= rest {
                        self.timer.as_mut().reset(now + self.routes.settings.long_poll);
                        self.view.meta.touch(self.routes.streams.now());
                        return Waited::Still;
                    }
                    self.timer.as_mut().reset(rest);
                    continue;
                }
            };
            return match changed {
                Ok(Some(view)) if !view.deleted && view.meta.id() == self.view.meta.id() => {
                    view.meta.touch(self.routes.streams.now());
                    self.view = view;
                    Waited::News
                }
                _ => Waited::Over,
            };
        }
    }

    /// What was read as an event.
    fn text(&self, page: &Page) -> Bytes {
        if page.is_empty() {
            return Bytes::new();
        }
        let mut out = String::from("event: data\n");
        let body = page.body(self.view.meta.is_json());
        if self.view.meta.is_text() {
            write_lines(&String::from_utf8_lossy(&body), &mut out);
        } else {
            write_lines(&STANDARD.encode(&body), &mut out);
        }
        out.into()
    }

    /// An event, and where it leads to.
    fn with_control(&self, event: &[u8], is_end: bool) -> Bytes {
        let mut out = Vec::with_capacity(event.len() + CONTROL_BYTES);
        out.extend_from_slice(event);
        out.extend_from_slice(b"event: control\ndata:{");
        if is_end && self.view.closed {
            out.extend_from_slice(b"\"streamClosed\":true");
        } else {
            let (now, sent) = (self.routes.streams.now(), self.cursor.as_deref());
            let cursor = cursor::next(now, sent, rand::random());
            out.extend_from_slice(b"\"streamCursor\":\"");
            out.extend_from_slice(cursor.as_bytes());
            out.push(b'"');
        }
        out.extend_from_slice(b",\"streamNextOffset\":\"");
        out.extend_from_slice(&Offset::after(self.after).to_bytes());
        out.push(b'"');
        if is_end {
            out.extend_from_slice(b",\"upToDate\":true");
        }
        out.extend_from_slice(b"}\n\n");
        out.into()
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
