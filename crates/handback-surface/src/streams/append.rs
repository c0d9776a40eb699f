//! `POST`: append, close, or both.

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_stream::duplex::{self, CHUNK_BYTES_MAX};
use handback_stream::{Append, Appended, Command, NameId, Payload, Reply};
use hyper::body::Body;
use hyper::header::HeaderValue;
use hyper::{Request, Response, StatusCode};

use super::answer;
use super::params::{self, Bad, CLOSED, NEXT_OFFSET, PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_SEQ};
use super::routes::{Answered, StreamRoutes, body};
use super::ticket::PRODUCER_ACQUIRE;
use crate::body::ReplyBody;

impl StreamRoutes {
    pub(super) async fn append<B>(
        &self,
        name: NameId,
        principal: &VerifiedPrincipal,
        request: Request<B>,
    ) -> Answered
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, incoming) = request.into_parts();
        let headers = &parts.headers;
        let closes = params::closed(headers)?;
        if headers.contains_key(PRODUCER_ACQUIRE) {
            let view = self.view(name).await?;
            let key = params::stream_key(headers)?;
            view.meta.unlock(key.as_ref()).map_err(|why| Box::new(answer::refused(&why)))?;
            return self.acquire(principal, &view, headers).await;
        }
        let producer = params::producer(headers)?;
        let writer_seq = params::writer_seq(headers)?;
        let content_type = params::content_type(headers)?;
        let stream_key = params::stream_key(headers)?;
        let body = body(incoming).await?;
        if body.is_empty() && !closes {
            return Err(Bad("the body is empty").into());
        }
        let size = body.len();
        let now = self.streams.now();
        if !body.is_empty() && content_type.is_none() {
            return Err(Bad("an append needs a content type").into());
        }
        let view = self.view(name).await?;
        if size > CHUNK_BYTES_MAX && duplex::is_path(view.meta.path()) {
            // Clients take no larger events.
            let text = format!("an event has at most {CHUNK_BYTES_MAX} bytes");
            let response = answer::error(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", &text);
            return Err(Box::new(response));
        }
        let keys = view.meta.unlock(stream_key.as_ref());
        let keys = keys.map_err(|refusal| Box::new(answer::refused(&refusal)))?;
        let ticket = self.ticket(principal, &view, producer.as_ref(), headers)?;
        let payload = match body.is_empty() {
            true => None,
            false => {
                // A stream that is closed says so first, whatever the body is.
                let is_json = view.meta.is_json() && !view.closed;
                Some(Payload::parse(body, is_json).map_err(|error| Bad(error.sentence()))?)
            }
        };
        // Who has a ticket may get a fresh one.
        let renewed = ticket.map(|ticket| (ticket, producer.clone()));
        // What the body is depends on the stream: it goes to this one, or to none.
        let mut append = Append::new(name, payload, closes, now)
            .to(view.meta.id())
            .key(keys.into_own())
            .producer(producer)
            .writer_seq(writer_seq);
        if let Some(content_type) = content_type {
            append = append.content_type(content_type);
        }
        let reply = self.command(principal, Command::Append(append.encoded()), size).await?;
        let Reply::Appended(appended) = reply else {
            return Ok(answer::status(StatusCode::NO_CONTENT));
        };
        if appended.differs {
            let producer = headers.get(PRODUCER_ID);
            tracing::warn!(stream = ?name, ?producer, "a sequence came again with other bytes");
        }
        let mut response = appended_response(&appended, size > 0);
        if let Some((ticket, Some(tag))) = renewed {
            self.renew(principal, &view, &tag, &ticket, &mut response);
        }
        Ok(response)
    }
}

fn appended_response(appended: &Appended, has_data: bool) -> Response<ReplyBody> {
    let status = match appended.producer {
        Some(_) if has_data && !appended.is_duplicate => StatusCode::OK,
        _ => StatusCode::NO_CONTENT,
    };
    let mut response = answer::status(status);
    let headers = response.headers_mut();
    headers.insert(NEXT_OFFSET, answer::offset(appended.number));
    if appended.closed {
        headers.insert(CLOSED, HeaderValue::from_static("true"));
    }
    if let Some((epoch, seq)) = appended.producer {
        headers.insert(PRODUCER_EPOCH, epoch.into());
        headers.insert(PRODUCER_SEQ, seq.into());
    }
    response
}
