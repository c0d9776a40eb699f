//! `GET` and `HEAD`.

use std::sync::Arc;

use bytes::Bytes;
use handback_store::ReadLimit;
use handback_stream::{Life, NameId, Record, RecordKeys, Refusal, Stored, View};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use hyper::{Request, Response, StatusCode};

use super::answer;
use super::params::Bad;
use super::params::{CLOSED, EXPIRES_AT, From, Live, NEXT_OFFSET, Query, TTL, UP_TO_DATE};
use super::routes::{Answered, StreamRoutes};
use crate::body::ReplyBody;

/// Records of a page at most.
const PAGE_RECORDS: usize = 10_000;

impl StreamRoutes {
    pub(super) async fn head(&self, name: NameId) -> Answered {
        let view = self.view(name).await?;
        let mut response = answer::status(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(NEXT_OFFSET, answer::offset(view.number));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        insert_type(headers, &view);
        if view.closed {
            headers.insert(CLOSED, HeaderValue::from_static("true"));
        }
        match view.meta.life() {
            Life::Unlimited => {}
            Life::Sliding { ttl_s } => {
                headers.insert(TTL, ttl_s.into());
            }
            Life::Until(until) => {
                if let Some(until) = rfc3339(until) {
                    headers.insert(EXPIRES_AT, until);
                }
            }
        }
        insert_etag(headers, &etag(&view, "-1", view.number, view.closed));
        Ok(response)
    }

    pub(super) async fn read<B>(&self, name: NameId, request: &Request<B>) -> Answered {
        let query = Query::parse(request.uri().query().unwrap_or_default())?;
        let key = super::params::stream_key(request.headers())?;
        let view = self.view(name).await?;
        // Records are shown as they are stored: who has no key may prove them.
        let needs_no_key = query.records && key.is_none();
        let keys = match needs_no_key {
            true => Arc::default(),
            false => Arc::new(view.meta.unlock(key.as_ref()).map_err(refused)?),
        };
        view.meta.touch(self.streams.now());
        let after = match query.from {
            From::Start => 0,
            From::Now => view.number,
            From::After(offset) if offset.number() > view.number => {
                return Err(Bad("the offset is behind the end").into());
            }
            From::After(offset) => offset.number(),
        };
        match query.live {
            Live::No if query.records => {
                self.records(&view, after, query.from == From::Start).await
            }
            Live::No if query.from == From::Now => Ok(self.now(&view)),
            Live::No => {
                let page = self.page(&view, &keys, after).await?;
                Ok(page_response(&view, &page, request.headers(), &query, None))
            }
            Live::LongPoll => self.long_poll(&keys, view, after, &query, request.headers()).await,
            Live::Sse => self.events(keys, view, after, &query),
        }
    }

    /// Where a stream ends, without any of it.
    fn now(&self, view: &View) -> Response<ReplyBody> {
        let body = if view.meta.is_json() { "[]" } else { "" };
        let mut response = Response::new(ReplyBody::from(Bytes::from_static(body.as_bytes())));
        let headers = response.headers_mut();
        headers.insert(NEXT_OFFSET, answer::offset(view.number));
        headers.insert(UP_TO_DATE, HeaderValue::from_static("true"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        insert_type(headers, view);
        if view.closed {
            headers.insert(CLOSED, HeaderValue::from_static("true"));
        }
        response
    }

    /// The records after a number, as many as a page has.
    pub(super) async fn page(
        &self,
        view: &View,
        keys: &RecordKeys,
        after: u64,
    ) -> Result<Page, Box<Response<ReplyBody>>> {
        self.page_of(view, keys, after, self.settings.page_bytes).await
    }

    /// The same, with so many bytes at most, or one record.
    pub(super) async fn page_of(
        &self,
        view: &View,
        keys: &RecordKeys,
        after: u64,
        bytes: usize,
    ) -> Result<Page, Box<Response<ReplyBody>>> {
        let limit = ReadLimit { records: PAGE_RECORDS, bytes };
        let records = self.streams.read(view, after, limit).await;
        let records = records.map_err(|why| Box::new(answer::unread(&why)))?;
        let unread = |_| {
            let why = handback_store::StoreError::Damaged(format!("{}", view.meta.id()));
            Box::new(answer::unread(&why))
        };
        Page::new(view, keys, after, records).map_err(unread)
    }
}

fn refused(refusal: Refusal) -> Box<Response<ReplyBody>> {
    Box::new(answer::refused(&refusal))
}

/// What was read of a stream.
#[derive(Debug)]
pub(super) struct Page {
    /// The number of the last record.
    pub(super) upto: u64,
    /// What the records have, in order.
    pub(super) payloads: Vec<Bytes>,
}

impl Page {
    fn new(
        view: &View,
        keys: &RecordKeys,
        after: u64,
        records: Vec<(u64, Stored)>,
    ) -> Result<Self, ()> {
        let upto = records.last().map_or(after, |(number, _)| *number);
        let mut payloads = Vec::with_capacity(records.len());
        for (number, stored) in records {
            let record = Record::decode(&stored.record).ok_or(())?;
            if record.payload().is_none() {
                continue;
            }
            let key = keys.of(view.meta.segment_after(number - 1).id);
            payloads.push(record.data(key, number).ok_or(())?);
        }
        Ok(Self { upto, payloads })
    }

    /// Whether there is nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }

    /// The bytes of all of them: for JSON an array of the messages.
    pub(super) fn body(&self, is_json: bool) -> Bytes {
        if let ([only], false) = (self.payloads.as_slice(), is_json) {
            return only.clone();
        }
        let length = self.payloads.iter().map(|payload| payload.len() + 1).sum::<usize>();
        let mut out = Vec::with_capacity(length + 2);
        if is_json {
            out.push(b'[');
        }
        for (place, payload) in self.payloads.iter().enumerate() {
            if is_json && place > 0 {
                out.push(b',');
            }
            out.extend_from_slice(payload);
        }
        if is_json {
            out.push(b']');
        }
        out.into()
    }
}

/// A page of a stream, or that the client has it already.
pub(super) fn page_response(
    view: &View,
    page: &Page,
    asked: &HeaderMap,
    query: &Query,
    cursor: Option<HeaderValue>,
) -> Response<ReplyBody> {
    let is_end = page.upto >= view.number;
    let start = match query.from {
        From::Start => "-1".to_owned(),
        From::Now => "now".to_owned(),
        From::After(offset) => offset.to_string(),
    };
    let tag = etag(view, &start, page.upto, view.closed && is_end);
    if asked.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        let mut response = answer::status(StatusCode::NOT_MODIFIED);
        insert_etag(response.headers_mut(), &tag);
        return response;
    }
    let mut response = Response::new(ReplyBody::from(page.body(view.meta.is_json())));
    let headers = response.headers_mut();
    insert_type(headers, view);
    headers.insert(NEXT_OFFSET, answer::offset(page.upto));
    if is_end {
        headers.insert(UP_TO_DATE, HeaderValue::from_static("true"));
        if view.closed {
            headers.insert(CLOSED, HeaderValue::from_static("true"));
        }
    }
    if let Some(cursor) = cursor {
        headers.insert(super::params::CURSOR, cursor);
    }
    // What was decrypted for one who has the key is for no one else.
    let caching = match view.meta.key_commitment() {
        None => "private, max-age=60, stale-while-revalidate=300",
        Some(_) => "no-store",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    if query.from != From::Now {
        insert_etag(headers, &tag);
    }
    response
}

fn etag(view: &View, start: &str, upto: u64, is_closed: bool) -> String {
    let closed = if is_closed { ":c" } else { "" };
    format!("\"{}:{start}:{upto}{closed}\"", view.meta.id())
}

fn insert_etag(headers: &mut HeaderMap, etag: &str) {
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(ETAG, etag);
    }
}

pub(super) fn insert_type(headers: &mut HeaderMap, view: &View) {
    if let Ok(content_type) = HeaderValue::from_str(view.meta.content_type()) {
        headers.insert(CONTENT_TYPE, content_type);
    }
}

fn rfc3339(millis: u64) -> Option<HeaderValue> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok()?;
    HeaderValue::from_str(&time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()).ok()
}
