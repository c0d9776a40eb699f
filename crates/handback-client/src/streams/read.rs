//! Reading: pages, and waiting for more.

use std::time::Duration;

use bytes::Bytes;
use handback_stream::StreamKey;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{CLOSED, CURSOR, Streams, StreamsError, TIMEOUT, UP_TO_DATE, next_offset};

/// How long a poll may take: the server answers after 15 seconds, or as it was told to.
const POLL_TIMEOUT: Duration = Duration::from_secs(120);

/// Where to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum From {
    /// From the first byte on.
    #[default]
    Start,
    /// Only what comes from now on.
    Now,
    /// Behind an offset that the server gave.
    After(String),
}

impl From {
    fn text(&self) -> &str {
        match self {
            Self::Start => "-1",
            Self::Now => "now",
            Self::After(offset) => offset,
        }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The bytes; of a JSON stream an array of its messages.
    pub body: Bytes,
    /// Where to go on.
    pub next_offset: String,
    /// Whether there is no more now.
    pub is_up_to_date: bool,
    /// Whether there will never be more.
    pub is_closed: bool,
    /// What the bytes are.
    pub content_type: Option<String>,
    cursor: Option<String>,
}

impl Streams {
    /// Reads one page.
    ///
    /// # Errors
    ///
    /// [`StreamsError`] if it cannot be read.
    pub async fn read(
        &self,
        path: &str,
        from: &From,
        stream_key: Option<&StreamKey>,
    ) -> Result<Page, StreamsError> {
        self.page(path, &format!("?offset={}", encoded(from.text())), stream_key, TIMEOUT).await
    }

    /// Reads from a place on, and waits for more.
    #[must_use]
    pub fn tail(&self, path: &str, from: From, stream_key: Option<StreamKey>) -> Tail {
        let path = path.to_owned();
        Tail { streams: self.clone(), path, from, stream_key, cursor: None, is_over: false }
    }

    async fn page(
        &self,
        path: &str,
        query: &str,
        stream_key: Option<&StreamKey>,
        timeout: Duration,
    ) -> Result<Page, StreamsError> {
        let request = || self.request("GET", path, query, stream_key);
        let answer = self.again(Bytes::new(), timeout, request).await?;
        if !matches!(answer.status, StatusCode::OK | StatusCode::NO_CONTENT) {
            return Err(StreamsError::refused(&answer));
        }
        Ok(Page {
            next_offset: next_offset(&answer)?,
            is_up_to_date: answer.says(&UP_TO_DATE),
            is_closed: answer.says(&CLOSED),
            content_type: answer
                .headers
                .get(CONTENT_TYPE)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
            cursor: answer.text(&CURSOR).map(str::to_owned),
            body: answer.body,
        })
    }
}

/// A read that waits for more.
///
/// ```no_run
/// # async fn run() -> Result<(), handback_client::streams::StreamsError> {
/// use handback_client::streams::{From, Streams};
///
/// let streams = Streams::new("http://127.0.0.1:8420")?;
/// let mut tail = streams.tail("log", From::Start, None);
/// while let Some(page) = tail.next().await? {
///     println!("{} bytes, go on at {}", page.body.len(), page.next_offset);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Tail {
    streams: Streams,
    path: String,
    from: From,
    stream_key: Option<StreamKey>,
    cursor: Option<String>,
    is_over: bool,
}

impl Tail {
    /// The next page, as soon as there is one. Nothing, when the stream is closed and read. Nothing is
    /// lost if it is dropped while it waits.
    ///
    /// # Errors
    ///
    /// [`StreamsError`] if it cannot be read. It can be called again.
    pub async fn next(&mut self) -> Result<Option<Page>, StreamsError> {
        while !self.is_over {
            let cursor =
                self.cursor.as_deref().map(|cursor| format!("&cursor={}", encoded(cursor)));
            let query = format!(
                "?offset={}&live=long-poll{}",
                encoded(self.from.text()),
                cursor.unwrap_or_default()
            );
            let key = self.stream_key.as_ref();
            let page = self.streams.page(&self.path, &query, key, POLL_TIMEOUT).await?;
            self.from = From::After(page.next_offset.clone());
            self.cursor.clone_from(&page.cursor);
            self.is_over = page.is_closed && page.is_up_to_date;
            if !page.body.is_empty() {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Where it goes on.
    #[must_use]
    pub const fn place(&self) -> &From {
        &self.from
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
