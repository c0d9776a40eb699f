//! What sessions have sent, for clients that come back.
//!
//! rmcp gives every event to an `EventStore` before it sends it, and asks it for those after an id
//! when a client comes back with one. It then forgets about that client: what happens later in the
//! call has to come from here as well. So a replay goes on, until the answer of the call was
//! replayed, the client leaves, or nothing more happens.
//!
//! ```text
//! stream = SHA-256(rmcp's id of the stream), 24 bytes of it
//! number = milliseconds since 1970 << 20, or more: larger than any before in this process
//! key    = "mcp/event/{" || base64url(stream) || "}" || number u64be
//! value  = 01 || 01 if it is the last of its stream, else 00 || retry u32be, in ms || message, JSON
//! id     = base64url(stream || number u64be)
//! ```
//!
//! Nobody outside sees such an id: the front seals them (`seal`).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::stream;
use handback_store::{Change, Condition, Kv, KvBatch, KvError, Millis, StoreError};
use rmcp::ErrorData;
use rmcp::model::{
    CustomNotification, CustomRequest, CustomResult, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerNotification, ServerRequest, ServerResult,
};
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage,
};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, mpsc};

use crate::Clock;
use crate::sessions::blocking;

/// How long an event is kept: as long as its sealed id is good by default.
pub const EVENT_LIFE_MS: Millis = 15 * 60 * 1000;

const FORMAT: u8 = 1;
const STREAM_BYTES: usize = 24;
const NUMBER_BYTES: usize = 8;

/// The bits of a number that count within a millisecond.
const COUNT_BITS: u32 = 20;

/// What a replay reads at once, and what it holds for a slow client.
const PAGE: usize = 16;

/// How long events of another process can stay unseen.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often a number that another process took is tried anew.
const TRIES: usize = 16;

/// How rmcp ends the ids of streams that belong to no request and have no last event.
const COMMON: &str = ":common";

/// The events of a server.
#[derive(Clone)]
pub struct Events(Arc<Shared>);

struct Shared {
    kv: Arc<dyn Kv>,
    clock: Clock,
    life_ms: Millis,
    last_number: AtomicU64,
    /// Replays that have caught up, by stream.
    waiting: Mutex<HashMap<StreamKey, Arc<Notify>>>,
}

type StreamKey = [u8; STREAM_BYTES];

/// The id of an event is not one of ours, or the event is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such event")]
#[non_exhaustive]
pub struct NoSuchEvent;

impl Events {
    /// Events in a store, each for so long.
    #[must_use]
    pub fn new(kv: Arc<dyn Kv>, clock: Clock, life_ms: Millis) -> Self {
        Self(Arc::new(Shared {
            kv,
            clock,
            life_ms,
            last_number: AtomicU64::new(0),
            waiting: Mutex::default(),
        }))
    }
}

impl Events {
    /// Whether an event is still there.
    pub(crate) async fn is_kept(&self, id: &str) -> Result<bool, StoreError> {
        let Some(place) = Place::parse(id) else { return Ok(false) };
        let shared = Arc::clone(&self.0);
        Ok(blocking(move || shared.kv.get(&place.key(), (shared.clock)())).await?.is_some())
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("life_ms", &self.0.life_ms).finish_non_exhaustive()
    }
}

#[async_trait]
impl EventStore for Events {
    async fn store_event(
        &self,
        stream_id: &str,
        event: &ServerSseMessage,
    ) -> Result<EventId, EventStoreError> {
        let stream = stream_key(stream_id);
        let value = write_event(event, !stream_id.ends_with(COMMON))?;
        let shared = Arc::clone(&self.0);
        let number = blocking(move || shared.append(&stream, value)).await?;
        if let Some(waiting) = self.0.waiting().get(&stream) {
            waiting.notify_waiters();
        }
        Ok(Place { stream, number }.to_string())
    }

    async fn replay_events_after(
        &self,
        last_event_id: &str,
    ) -> Result<EventStream, EventStoreError> {
        let place = Place::parse(last_event_id).ok_or(NoSuchEvent)?;
        let shared = Arc::clone(&self.0);
        let known = blocking(move || shared.kv.get(&place.key(), (shared.clock)())).await?;
        known.ok_or(NoSuchEvent)?;
        let (sender, mut receiver) = mpsc::channel(PAGE);
        tokio::spawn(Replay::new(Arc::clone(&self.0), place, sender).run());
        Ok(Box::pin(stream::poll_fn(move |context| receiver.poll_recv(context))))
    }
}

impl Shared {
    /// Writes an event under the next number.
    fn append(&self, stream: &StreamKey, value: Bytes) -> Result<u64, StoreError> {
        for _ in 0..TRIES {
            let now = (self.clock)();
            let number = self.next_number(now);
            let key = Place { stream: *stream, number }.key();
            let until = Some(now.saturating_add(self.life_ms));
            let change = Change::Put { value: value.clone(), until };
            let conditions = vec![(key.clone(), Condition::Absent)];
            match self.kv.write(&KvBatch { conditions, changes: vec![(key, change)] }, now) {
                Ok(()) => return Ok(number),
                Err(KvError::Unmet(_)) => {}
                Err(KvError::Store(error)) => return Err(error),
                Err(other) => return Err(StoreError::Unavailable(other.to_string())),
            }
        }
        Err(StoreError::Unavailable("no number is free".to_owned()))
    }

    fn next_number(&self, now: Millis) -> u64 {
        let from_clock = now << COUNT_BITS;
        let next = |last: u64| Some(from_clock.max(last + 1));
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        let last = self.last_number.fetch_update(set, fetch, next).unwrap_or_default();
        from_clock.max(last + 1)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<StreamKey, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client that came back.
struct Replay {
    shared: Arc<Shared>,
    /// The last event that it has.
    place: Place,
    sender: mpsc::Sender<ServerSseMessage>,
    notify: Arc<Notify>,
}

impl Replay {
    fn new(shared: Arc<Shared>, place: Place, sender: mpsc::Sender<ServerSseMessage>) -> Self {
        let notify = Arc::clone(shared.waiting().entry(place.stream).or_default());
        Self { shared, place, sender, notify }
    }

    async fn run(mut self) {
        let mut idle_since = (self.shared.clock)();
        loop {
            let notify = Arc::clone(&self.notify);
            // From here on no event is missed.
            let more = notify.notified();
            let page = match self.page().await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "events can not be read");
                    return;
                }
            };
            let is_full = page.len() == PAGE;
            for event in page {
                idle_since = (self.shared.clock)();
                self.place.number = event.number;
                if self.sender.send(event.message).await.is_err() || event.is_last {
                    return;
                }
            }
            if is_full {
                continue;
            }
            // A call that was cut off has no last event.
            let idle = (self.shared.clock)().saturating_sub(idle_since);
            if idle >= self.shared.life_ms {
                return;
            }
            tokio::select! {
                () = more => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = self.sender.closed() => return,
            }
        }
    }

    /// What comes next.
    async fn page(&self) -> Result<Vec<Event>, StoreError> {
        let (shared, place) = (Arc::clone(&self.shared), self.place);
        blocking(move || {
            let (prefix, after) = (place.prefix(), place.key());
            let now = (shared.clock)();
            let rows = shared.kv.scan(&prefix, Some(&after), PAGE, now)?;
            let events = rows.iter().map(|(key, value)| {
                let number = key.get(prefix.len()..).and_then(|number| number.try_into().ok());
                let number = number.map(u64::from_be_bytes);
                let event = number.and_then(|number| read_event(place.stream, number, value));
                event.ok_or_else(|| StoreError::Unavailable("an event can not be read".to_owned()))
            });
            events.collect()
        })
        .await
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        // This one, and the one in the map.
        if Arc::strong_count(&self.notify) <= 2 {
            waiting.remove(&self.place.stream);
        }
    }
}

/// One event of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    stream: StreamKey,
    number: u64,
}

impl Place {
    fn parse(id: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (stream, number) = bytes.split_first_chunk::<STREAM_BYTES>()?;
        let number: [u8; NUMBER_BYTES] = number.try_into().ok()?;
        Some(Self { stream: *stream, number: u64::from_be_bytes(number) })
    }

    fn prefix(&self) -> Vec<u8> {
        format!("mcp/event/{{{}}}", URL_SAFE_NO_PAD.encode(self.stream)).into_bytes()
    }

    fn key(&self) -> Bytes {
        [self.prefix().as_slice(), &self.number.to_be_bytes()].concat().into()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.stream.as_slice(), &self.number.to_be_bytes()].concat();
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

struct Event {
    number: u64,
    is_last: bool,
    message: ServerSseMessage,
}

fn stream_key(stream_id: &str) -> StreamKey {
    let digest: [u8; 32] = Sha256::digest(stream_id.as_bytes()).into();
    digest.first_chunk().copied().unwrap_or([0; STREAM_BYTES])
}

fn write_event(event: &ServerSseMessage, has_end: bool) -> Result<Bytes, serde_json::Error> {
    let ends = |message: &ServerJsonRpcMessage| {
        matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
    };
    let is_last = has_end && event.message.as_deref().is_some_and(ends);
    let retry = event.retry.map_or(0, |retry| retry.as_millis());
    let retry = u32::try_from(retry).unwrap_or(u32::MAX);
    let message = event.message.as_deref().map(serde_json::to_vec).transpose()?;
    let head = [FORMAT, u8::from(is_last)];
    let parts = [&head[..], &retry.to_be_bytes(), message.as_deref().unwrap_or_default()];
    Ok(parts.concat().into())
}

fn read_event(stream: StreamKey, number: u64, value: &[u8]) -> Option<Event> {
    let ([format, last], rest) = value.split_first_chunk()?;
    let (retry, message) = rest.split_first_chunk()?;
    if *format != FORMAT {
        return None;
    }
    let retry = u64::from(u32::from_be_bytes(*retry));
    let mut event = ServerSseMessage::default();
    event.event_id = Some(Place { stream, number }.to_string());
    event.retry = (retry > 0).then(|| Duration::from_millis(retry));
    if !message.is_empty() {
        event.message = Some(Arc::new(read_message(message)?));
    }
    Some(Event { number, is_last: *last == 1, message: event })
}

/// Reads a message without looking into it: rmcp's own types guess what a result is, and drop what
/// they do not know.
fn read_message(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    let Value::Object(mut message) = serde_json::from_slice(text).ok()? else { return None };
    let id = message.remove("id").map(serde_json::from_value::<RequestId>).transpose().ok()?;
    if let Some(Value::String(method)) = message.remove("method") {
        // Without them rmcp would write `null`, which the protocol does not have.
        let params = Some(message.remove("params").unwrap_or_else(|| Map::new().into()));
        return Some(match id {
            Some(id) => {
                let request = CustomRequest::new(method, params);
                ServerJsonRpcMessage::request(ServerRequest::CustomRequest(request), id)
            }
            None => {
                let notification = CustomNotification::new(method, params);
                let notification = ServerNotification::CustomNotification(notification);
                ServerJsonRpcMessage::notification(notification)
            }
        });
    }
    if let Some(result) = message.remove("result") {
        let result = ServerResult::CustomResult(CustomResult::new(result));
        return Some(ServerJsonRpcMessage::response(result, id?));
    }
    let error: ErrorData = serde_json::from_value(message.remove("error")?).ok()?;
    Some(ServerJsonRpcMessage::error(error, id))
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use handback_store::MemoryStore;
    use rmcp::model::{CallToolResult, ContentBlock};
    use serde_json::json;

    use super::*;

    fn events() -> (Events, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(1_000_000));
        let clock = Arc::clone(&time);
        let clock: Clock = Arc::new(move || clock.load(Ordering::SeqCst));
        (Events::new(Arc::new(MemoryStore::new()), clock, EVENT_LIFE_MS), time)
    }

    fn told(text: &str) -> ServerSseMessage {
        let told = CustomNotification::new("notifications/told", Some(json!({ "text": text })));
        let told = ServerNotification::CustomNotification(told);
        ServerSseMessage::from_message(ServerJsonRpcMessage::notification(told))
    }

    fn answer() -> ServerSseMessage {
        let result = CallToolResult::success(vec![ContentBlock::text("done")]);
        let result = ServerResult::CallToolResult(result);
        ServerSseMessage::from_message(ServerJsonRpcMessage::response(result, RequestId::Number(7)))
    }

    fn json_of(event: &ServerSseMessage) -> Value {
        serde_json::to_value(event.message.as_deref()).unwrap()
    }

    async fn replayed(events: &Events, after: &str) -> Vec<ServerSseMessage> {
        let replay = events.replay_events_after(after).await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), replay.collect()).await.unwrap()
    }

    #[tokio::test]
    async fn replays_what_came_after_in_its_stream() {
        let (events, _) = events();
        let first = events.store_event("a", &told("1")).await.unwrap();
        events.store_event("b", &told("other")).await.unwrap();
        let second = events.store_event("a", &told("2")).await.unwrap();
        let third = events.store_event("a", &answer()).await.unwrap();
        let after = replayed(&events, &first).await;
        assert_eq!(after.len(), 2);
        assert_eq!(after[0].event_id, Some(second.clone()));
        assert_eq!(json_of(&after[0]), json_of(&told("2")));
        assert_eq!(json_of(&after[1]), json_of(&answer()));
        assert_eq!(replayed(&events, &second).await.len(), 1);
        assert_ne!(first, third);
    }

    #[tokio::test]
    async fn a_replay_goes_on_until_the_answer() {
        let (events, _) = events();
        let first = events.store_event("a", &told("1")).await.unwrap();
        let mut replay = events.replay_events_after(&first).await.unwrap();
        let waiting = tokio::spawn(async move {
            let mut count = 0;
            while replay.next().await.is_some() {
                count += 1;
            }
            count
        });
        for n in 0..40 {
            events.store_event("a", &told(&n.to_string())).await.unwrap();
        }
        events.store_event("a", &answer()).await.unwrap();
        let count = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
        assert_eq!(count.unwrap(), 41);
        while !events.0.waiting().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn answers_do_not_end_the_common_stream() {
        let (events, _) = events();
        let first = events.store_event("s:common", &told("1")).await.unwrap();
        events.store_event("s:common", &answer()).await.unwrap();
        events.store_event("s:common", &told("2")).await.unwrap();
        let replay = events.replay_events_after(&first).await.unwrap();
        assert_eq!(replay.take(2).count().await, 2);
    }

    #[tokio::test]
    async fn gone_and_invented_events_are_no_events() {
        let (events, time) = events();
        let id = events.store_event("a", &told("1")).await.unwrap();
        for invented in ["", "0", "x", &id[1..], &format!("{id}A")] {
            assert!(events.replay_events_after(invented).await.is_err(), "{invented}");
        }
        time.fetch_add(EVENT_LIFE_MS, Ordering::SeqCst);
        assert!(events.replay_events_after(&id).await.is_err());
    }

    #[tokio::test]
    async fn retry_hints_come_back() {
        let (events, _) = events();
        let first = events.store_event("a", &told("1")).await.unwrap();
        let hint = ServerSseMessage::retry(Duration::from_millis(3000));
        events.store_event("a", &hint).await.unwrap();
        events.store_event("a", &answer()).await.unwrap();
        let after = replayed(&events, &first).await;
        assert_eq!(after[0].retry, Some(Duration::from_millis(3000)));
        assert!(after[0].message.is_none());
    }

    #[test]
    fn messages_come_back_whole() {
        for message in [
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "x": { "unknown": [1.5, null] } } }),
            json!({ "jsonrpc": "2.0", "id": "a", "result": { "content": [], "extra": true } }),
            json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": { "_meta": { "a": 1 } } }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "ask", "params": { "a": "b" } }),
            json!({ "jsonrpc": "2.0", "id": 3, "error": { "code": -1, "message": "m", "data": 1 } }),
        ] {
            let read = read_message(message.to_string().as_bytes()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), message);
        }
        let bare = read_message(br#"{"jsonrpc": "2.0", "method": "notifications/x"}"#).unwrap();
        let bare = serde_json::to_value(bare).unwrap();
        assert_eq!(bare.get("params"), Some(&json!({})));
        assert!(read_message(b"[]").is_none());
        assert!(read_message(b"{}").is_none());
    }

    #[test]
    fn numbers_rise_even_if_the_clock_does_not() {
        let (events, _) = events();
        let numbers: Vec<u64> = [5, 5, 4, 9, 9].map(|now| events.0.next_number(now)).to_vec();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_a_reader(mut value: Vec<u8>, id: String, is_ours: bool) {
            if is_ours && let Some(first) = value.first_mut() {
                *first = FORMAT;
            }
            let _ = (read_event([7; STREAM_BYTES], 1, &value), read_message(&value));
            // What names a place is written the same.
            if let Some(place) = Place::parse(&id) {
                proptest::prop_assert_eq!(place.to_string(), id);
            }
        }

        #[test]
        fn places_come_back(stream: [u8; STREAM_BYTES], number: u64) {
            let text = Place { stream, number }.to_string();
            let place = Place::parse(&text).unwrap();
            proptest::prop_assert_eq!((place.stream, place.number), (stream, number));
        }
    }
}
