//! Calls that are watched: what a tool tells on its way, then what it gave.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_tool::{Answer, EVENTS_WAITING_MAX, Event, Pipeline, Refusal, Request};
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::answer;
use crate::body::{Making, Pieces, ReplyBody};
use crate::calls;

/// How long a call may take to be refused with a status of its own. After that, the stream is open,
/// and a refusal is an event of it.
const OPEN_AFTER: Duration = Duration::from_millis(250);

/// How long nothing is said at most.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Ended = Result<Answer, Refusal>;

/// Makes a call, and answers with its events.
pub(super) async fn respond(pipeline: &Arc<Pipeline>, call: Request) -> Response<ReplyBody> {
    let (sink, mut events) = mpsc::channel(EVENTS_WAITING_MAX);
    let mut call = calls::spawn(pipeline, call.events(sink));
    let (mut first, mut ended) = (None, None);
    tokio::select! {
        biased;
        Some(event) = events.recv() => first = Some(event),
        done = &mut call => ended = Some(done.unwrap_or(Err(Refusal::Broken))),
        () = tokio::time::sleep(OPEN_AFTER) => {}
    }
    if let Some(Err(refusal)) = &ended
        && events.is_empty()
    {
        return answer::refused(refusal);
    }
    let feed = Feed { first, events, call, ended, is_over: false };
    let mut response = Response::new(ReplyBody::Made(Box::new(feed).next()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The events of one call. Dropped, it leaves the call to itself.
struct Feed {
    first: Option<Event>,
    events: mpsc::Receiver<Event>,
    call: JoinHandle<Ended>,
    ended: Option<Ended>,
    is_over: bool,
}

impl Pieces for Feed {
    fn next(self: Box<Self>) -> Making {
        Box::pin(async move {
            let mut this = self;
            let text = this.piece().await?;
            Some((Bytes::from(text), this as Box<dyn Pieces>))
        })
    }
}

impl Feed {
    async fn piece(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        if let Some(event) = self.first.take() {
            return Some(told(&event));
        }
        if self.ended.is_none() {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => return Some(told(&event)),
                done = &mut self.call => self.ended = Some(done.unwrap_or(Err(Refusal::Broken))),
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(": still there\n\n".to_owned()),
            }
        }
        // What was told before the end comes before the end.
        if let Ok(event) = self.events.try_recv() {
            return Some(told(&event));
        }
        self.is_over = true;
        Some(match answer::text(self.ended.take()?) {
            Ok(text) => event("result", &text),
            Err(refusal) => event("error", &answer::error_text(&refusal)),
        })
    }
}

fn told(what: &Event) -> String {
    match what {
        Event::Progress { done, total, message } => {
            let mut data = json!({ "done": done });
            if let Some(data) = data.as_object_mut() {
                data.extend(total.map(|total| ("total".to_owned(), total.into())));
                data.extend(message.clone().map(|text| ("message".to_owned(), text.into())));
            }
            event("progress", &data.to_string())
        }
        Event::Log { level, data } => {
            event("log", &json!({"level": level, "data": data}).to_string())
        }
        Event::Part(part) => event("part", &part.to_string()),
        _ => ": something else\n\n".to_owned(),
    }
}

/// An event. Each line of its data is a line of its own, as a reader puts them together again.
fn event(name: &str, data: &str) -> String {
    let mut text = format!("event: {name}\n");
    for line in data.split(['\r', '\n']) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_watches_hears_that_it_goes_on() {
        let (sink, events) = mpsc::channel(1);
        let call = tokio::spawn(async {
            tokio::time::sleep(KEEP_ALIVE * 2 + Duration::from_secs(1)).await;
            Err(Refusal::TimedOut)
        });
        let mut feed = Feed { first: None, events, call, ended: None, is_over: false };
        for _ in 0..2 {
            assert_eq!(feed.piece().await.unwrap(), ": still there\n\n");
        }
        sink.send(Event::Part(json!(1))).await.unwrap();
        assert_eq!(feed.piece().await.unwrap(), "event: part\ndata: 1\n\n");
        drop(sink);
        assert!(feed.piece().await.unwrap().starts_with("event: error\ndata: {\"error\""));
        assert_eq!(feed.piece().await, None);
    }

    #[test]
    fn lines_of_data_are_lines_of_the_event() {
        let check = |data: &str, expected: &str| {
            assert_eq!(event("e", data), format!("event: e\n{expected}\n"));
        };
        check("{}", "data: {}\n");
        check("{\r\n}", "data: {\ndata: \ndata: }\n");
        check("", "data: \n");
    }
}
