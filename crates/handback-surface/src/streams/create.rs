//! `PUT`: create a stream, or fork one.

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_stream::{
    Command, ContentError, Create, DEFAULT_CONTENT_TYPE, Fork, Found, Payload, Record, Refusal,
    Reply, StreamKey, StreamName,
};
use hyper::body::Body;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use hyper::{Request, StatusCode};

use super::answer;
use super::params::{self, Bad, CLOSED, ForkParams, NEXT_OFFSET};
use super::routes::{Answered, StreamRoutes, body, stream_name};

impl StreamRoutes {
    pub(super) async fn create<B>(
        &self,
        name: StreamName,
        principal: &VerifiedPrincipal,
        request: Request<B>,
    ) -> Answered
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, incoming) = request.into_parts();
        let headers = &parts.headers;
        let life = params::life(headers)?;
        let closed = params::closed(headers)?;
        let content_type = params::content_type(headers)?.map(str::to_owned);
        let fork = params::fork(headers)?;
        let key = params::stream_key(headers)?;
        let body = body(incoming).await?;
        let size = body.len();
        let fork = match fork {
            Some(fork) => Some(self.fork(name.owner(), fork, key.as_ref())?),
            None => None,
        };
        let effective = content_type.clone().or_else(|| self.source_type(fork.as_ref()));
        let effective = effective.as_deref().unwrap_or(DEFAULT_CONTENT_TYPE);
        let is_json = effective
            .split(';')
            .next()
            .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"));
        let payload = match Payload::parse(body, is_json) {
            Ok(payload) => Some(payload),
            Err(ContentError::Empty | ContentError::NoMessages) => None,
            Err(error) => return Err(Bad(error.sentence()).into()),
        };
        let incarnation = rand::random();
        let create = Create { name, content_type, life, closed, payload, fork, key, incarnation };
        let reply = self.command(principal, Command::Create(Box::new(create)), size).await?;
        let Reply::Created { is_new, number, closed, content_type } = reply else {
            return Ok(answer::status(StatusCode::OK));
        };
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = answer::status(status);
        let headers = response.headers_mut();
        headers.insert(NEXT_OFFSET, answer::offset(number));
        if let Ok(content_type) = HeaderValue::from_str(&content_type) {
            headers.insert(CONTENT_TYPE, content_type);
        }
        if closed {
            headers.insert(CLOSED, HeaderValue::from_static("true"));
        }
        // The host was checked: it is a name of this server.
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let location = format!("http://{host}{}", parts.uri.path());
        if is_new && let Ok(location) = HeaderValue::from_str(&location) {
            headers.insert(LOCATION, location);
        }
        Ok(response)
    }

    fn source_type(&self, fork: Option<&Fork>) -> Option<String> {
        let view = self.streams.view(fork?.source)?;
        Some(view.meta.content_type().to_owned())
    }

    /// Looks up what is to be forked.
    fn fork(&self, owner: &str, asked: ForkParams, key: Option<&StreamKey>) -> Result<Fork, Bad> {
        let name = stream_name(owner, &asked.source)?;
        let found = self.found(&name, &asked, key);
        Ok(Fork { source: name.id(), number: asked.number, part: asked.part, found })
    }

    fn found(
        &self,
        name: &StreamName,
        asked: &ForkParams,
        key: Option<&StreamKey>,
    ) -> Result<Found, Refusal> {
        let view = self.streams.view(name.id()).ok_or(Refusal::NoSource)?;
        if view.deleted {
            return Err(Refusal::SourceGone);
        }
        let keys = view.meta.unlock(key)?;
        let number = asked.number.unwrap_or(view.number);
        if number > view.number {
            return Err(Refusal::ForkBeyond);
        }
        let record = |number| match self.streams.record(&view, number) {
            Ok(Some(stored)) => Ok(stored),
            Ok(None) => Err(Refusal::ForkBeyond),
            Err(why) => {
                tracing::error!(%why, "a stream cannot be read");
                Err(Refusal::NoSource)
            }
        };
        let head = record(number)?.head;
        let part = match asked.part {
            0 => None,
            count => {
                let next = record(number + 1).map_err(|_| Refusal::PartBeyond)?;
                let next = Record::decode(&next.record).ok_or(Refusal::NoSource)?;
                let key = keys.of(view.meta.segment_after(number).id);
                let whole = next.payload().zip(next.data(key, number + 1));
                let part = whole.and_then(|(payload, data)| payload.of(data).part(count));
                Some(part.ok_or(Refusal::PartBeyond)?)
            }
        };
        Ok(Found { id: view.meta.id(), number, head, part })
    }
}
