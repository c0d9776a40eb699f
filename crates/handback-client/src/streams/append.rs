//! Appending, by a producer or by anyone.

use bytes::Bytes;
use handback_stream::StreamKey;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName};
use hyper::http::request::Builder;

use super::{CLOSED, Streams, StreamsError, TIMEOUT, next_offset};
use crate::http::Answer;

const PRODUCER_ID: HeaderName = HeaderName::from_static("producer-id");
const PRODUCER_EPOCH: HeaderName = HeaderName::from_static("producer-epoch");
const PRODUCER_SEQ: HeaderName = HeaderName::from_static("producer-seq");

/// How something is appended.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AppendOptions {
    content_type: String,
    stream_key: Option<StreamKey>,
    closes: bool,
}

impl AppendOptions {
    /// An append of this content type, which is the stream's.
    pub fn new(content_type: impl Into<String>) -> Self {
        Self { content_type: content_type.into(), ..Self::default() }
    }

    /// The key of the stream.
    pub fn stream_key(mut self, key: StreamKey) -> Self {
        self.stream_key = Some(key);
        self
    }

    /// Closes the stream with it.
    pub const fn closes(mut self) -> Self {
        self.closes = true;
        self
    }
}

/// Who appends, so that an append which was tried twice is there once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the protocol has these three")]
pub struct Producer {
    /// Its id.
    pub id: String,
    /// Its epoch: a later one fences off the earlier ones.
    pub epoch: u64,
    /// The number of its next append.
    pub seq: u64,
}

impl Producer {
    /// A producer that starts an epoch.
    #[must_use]
    pub fn new(id: impl Into<String>, epoch: u64) -> Self {
        Self { id: id.into(), epoch, seq: 0 }
    }
}

/// What came of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// Where the stream ends now.
    pub next_offset: String,
    /// Whether it was there already.
    pub is_duplicate: bool,
    /// Whether the stream is closed.
    pub is_closed: bool,
}

impl Streams {
    /// Appends once. If there is no answer, it may be there or not.
    ///
    /// # Errors
    ///
    /// [`StreamsError`] if it is not there, or nobody knows.
    pub async fn append(
        &self,
        path: &str,
        body: impl Into<Bytes>,
        options: &AppendOptions,
    ) -> Result<Appended, StreamsError> {
        let request = self.post(path, options, None)?;
        appended(&self.once(request, body.into(), TIMEOUT).await?)
    }

    /// Appends as a producer, as often as it takes: it is there once. The producer's number moves on
    /// when it is.
    ///
    /// # Errors
    ///
    /// [`StreamsError::Fenced`] if a later epoch has begun, and whatever else is wrong. The number did
    /// not move, so that the same can be tried again.
    pub async fn produce(
        &self,
        path: &str,
        body: impl Into<Bytes>,
        producer: &mut Producer,
        options: &AppendOptions,
    ) -> Result<Appended, StreamsError> {
        let tag = producer.clone();
        let request = || self.post(path, options, Some(&tag));
        let answer = self.again(body.into(), TIMEOUT, request).await?;
        let appended = appended(&answer)?;
        producer.seq += 1;
        Ok(appended)
    }

    /// Closes a stream. One that is closed is fine.
    ///
    /// # Errors
    ///
    /// [`StreamsError`] if it is not closed.
    pub async fn close(
        &self,
        path: &str,
        stream_key: Option<&StreamKey>,
    ) -> Result<Appended, StreamsError> {
        let options =
            AppendOptions { stream_key: stream_key.cloned(), closes: true, ..<_>::default() };
        let request = || self.post(path, &options, None);
        appended(&self.again(Bytes::new(), TIMEOUT, request).await?)
    }

    fn post(
        &self,
        path: &str,
        options: &AppendOptions,
        producer: Option<&Producer>,
    ) -> Result<Builder, StreamsError> {
        let mut request = self.request("POST", path, "", options.stream_key.as_ref())?;
        if !options.content_type.is_empty() {
            request = request.header(CONTENT_TYPE, &options.content_type);
        }
        if options.closes {
            request = request.header(CLOSED, "true");
        }
        if let Some(producer) = producer {
            request = request
                .header(PRODUCER_ID, &producer.id)
                .header(PRODUCER_EPOCH, producer.epoch)
                .header(PRODUCER_SEQ, producer.seq);
        }
        Ok(request)
    }
}

fn appended(answer: &Answer) -> Result<Appended, StreamsError> {
    match answer.status {
        StatusCode::OK | StatusCode::NO_CONTENT => Ok(Appended {
            next_offset: next_offset(answer)?,
            // Only producers are told which it was.
            is_duplicate: answer.status == StatusCode::NO_CONTENT
                && answer.text(&PRODUCER_EPOCH).is_some(),
            is_closed: answer.says(&CLOSED),
        }),
        StatusCode::FORBIDDEN => match answer.text(&PRODUCER_EPOCH).map(str::parse) {
            Some(Ok(epoch)) => Err(StreamsError::Fenced { epoch }),
            _ => Err(StreamsError::refused(answer)),
        },
        _ => Err(StreamsError::refused(answer)),
    }
}
