//! Proving what a stream holds: `?records=1`, record by record.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use handback_stream::{
    CommitProof, Head, Path, PublicKey, Record, SIGNATURE_BYTES, StreamId, Verifier, VerifyError,
};
use hyper::StatusCode;
use serde::Deserialize;

use super::{CLOSED, KeptHead, Streams, StreamsError, TIMEOUT, UP_TO_DATE, next_offset};
use crate::keys::Keys;

/// Steps of a proof: a commit of 2^64 streams has no more.
const PATH_STEPS_MAX: usize = 64;

/// How a stream is verified.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct VerifyOptions {
    keys: Keys,
    kept: Option<KeptHead>,
}

impl VerifyOptions {
    /// Verifies by the keys of the server, from the first record on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whose signatures are believed.
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = keys;
        self
    }

    /// The head of an earlier time, which must come again.
    pub const fn kept(mut self, kept: KeptHead) -> Self {
        self.kept = Some(kept);
        self
    }
}

/// What is proved of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The last record that is proved, and what to keep.
    pub proved: Option<KeptHead>,
    /// Records that were read.
    pub records: u64,
    /// Records behind the last commit that is signed yet: they are not proved.
    pub unproved: u64,
    /// Whether the end of the stream is proved.
    pub is_closed: bool,
}

impl Streams {
    /// Walks all records, and proves them. `each` gets every record as it comes, before it is proved.
    ///
    /// # Errors
    ///
    /// [`StreamsError`] if they are not what was signed, or cannot be read.
    pub async fn verify(
        &self,
        path: &str,
        options: &VerifyOptions,
        mut each: impl FnMut(StreamId, u64, &Record),
    ) -> Result<Verified, StreamsError> {
        let keys = options.keys.load(&self.http).await?;
        let mut walk = Walk::new(path, keys, options.kept);
        let mut offset = "-1".to_owned();
        loop {
            let query = format!("?offset={offset}&records=1");
            let request = || self.request("GET", path, &query, None);
            let answer = self.again(Bytes::new(), TIMEOUT, request).await?;
            if answer.status != StatusCode::OK {
                return Err(StreamsError::refused(&answer));
            }
            for line in answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                walk.line(line, &mut each)?;
            }
            let next = next_offset(&answer)?;
            if answer.says(&UP_TO_DATE) {
                return walk.end(answer.says(&CLOSED));
            }
            if next == offset {
                return Err(StreamsError::Misbehaved("a page without an end goes nowhere"));
            }
            offset = next;
        }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    stream: &'a str,
    number: u64,
    record: Option<&'a str>,
    head: Option<&'a str>,
    commit: Option<u64>,
    time: Option<u64>,
    #[serde(borrow)]
    path: Option<Vec<(&'a str, &'a str)>>,
    signature: Option<&'a str>,
}

const BAD_LINE: StreamsError = StreamsError::Misbehaved("a line that is none");

/// A walk over the records of a stream, and of those that it was forked from.
struct Walk<'p> {
    /// What was asked for.
    path: &'p str,
    /// Whether the stream that is read says that it is that.
    is_asked_for: bool,
    keys: Vec<PublicKey>,
    kept: Option<KeptHead>,
    is_kept_seen: bool,
    /// The stream that is read.
    at: Option<(StreamId, Verifier)>,
    records: u64,
    unproved: u64,
}

impl<'p> Walk<'p> {
    const fn new(path: &'p str, keys: Vec<PublicKey>, kept: Option<KeptHead>) -> Self {
        Self {
            path,
            is_asked_for: false,
            keys,
            kept,
            is_kept_seen: false,
            at: None,
            records: 0,
            unproved: 0,
        }
    }

    fn line(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(StreamId, u64, &Record),
    ) -> Result<(), StreamsError> {
        let line: Line<'_> = serde_json::from_slice(line).map_err(|_| BAD_LINE)?;
        let stream: StreamId = line.stream.parse().map_err(|_| BAD_LINE)?;
        match (line.record, line.signature) {
            (Some(record), None) => self.record(stream, line.number, record, each),
            (None, Some(signature)) => self.commit(stream, &line, signature),
            (None, None) => self.go_on(stream, line.number, line.head.ok_or(BAD_LINE)?),
            _ => Err(BAD_LINE),
        }
    }

    /// A page that goes on repeats the head where the one before stopped.
    fn go_on(&self, stream: StreamId, number: u64, head: &str) -> Result<(), StreamsError> {
        let head: Head = head.parse().map_err(|_| BAD_LINE)?;
        let Some((_, verifier)) = &self.at else {
            return Err(StreamsError::Misbehaved("the first page does not start at the beginning"));
        };
        if verifier.last() == (stream, number, head) {
            Ok(())
        } else {
            Err(VerifyError::Head { number }.into())
        }
    }

    fn record(
        &mut self,
        stream: StreamId,
        number: u64,
        record: &str,
        each: &mut impl FnMut(StreamId, u64, &Record),
    ) -> Result<(), StreamsError> {
        let bytes = Bytes::from(STANDARD.decode(record).map_err(|_| BAD_LINE)?);
        let mut source = None;
        if self.at.as_ref().is_none_or(|(before, _)| *before != stream) {
            source = self.at.take().map(|(_, verifier)| verifier.last());
            let verifier = Verifier::from_start(stream, number, self.keys.clone());
            self.at = Some((stream, verifier));
        }
        let (_, verifier) = self.at.as_mut().ok_or(BAD_LINE)?;
        let record = verifier.record(number, &bytes, source)?;
        if let Some(path) = record.path() {
            self.is_asked_for = path == self.path;
            // What a fork shares comes before it.
            if source.is_none() && record.forked_at().is_some_and(|number| number > 0) {
                return Err(VerifyError::Fork.into());
            }
        }
        self.records += 1;
        self.unproved += 1;
        if let Some(kept) = self.kept
            && kept.stream == stream
            && kept.number == number
        {
            let (_, _, head) = verifier.last();
            if head != kept.head {
                return Err(StreamsError::RolledBack { number });
            }
            self.is_kept_seen = true;
        }
        each(stream, number, &record);
        Ok(())
    }

    fn commit(
        &mut self,
        stream: StreamId,
        line: &Line<'_>,
        signature: &str,
    ) -> Result<(), StreamsError> {
        let signature = STANDARD.decode(signature).map_err(|_| BAD_LINE)?;
        let signature: [u8; SIGNATURE_BYTES] = signature.try_into().map_err(|_| BAD_LINE)?;
        let proof = CommitProof {
            commit: line.commit.ok_or(BAD_LINE)?,
            time: line.time.ok_or(BAD_LINE)?,
            number: line.number,
            head: line.head.ok_or(BAD_LINE)?.parse().map_err(|_| BAD_LINE)?,
            path: steps(line.path.as_deref().ok_or(BAD_LINE)?)?,
            signature,
        };
        match &mut self.at {
            Some((at, verifier)) if *at == stream => verifier.commit(&proof)?,
            _ => return Err(BAD_LINE),
        }
        self.unproved = 0;
        Ok(())
    }

    fn end(self, is_closed: bool) -> Result<Verified, StreamsError> {
        let Some((stream, verifier)) = self.at else {
            return Err(StreamsError::Misbehaved("a stream without records"));
        };
        if !self.is_asked_for {
            return Err(StreamsError::OtherStream);
        }
        if let Some(kept) = self.kept
            && !self.is_kept_seen
        {
            return Err(match kept.stream == stream {
                true => StreamsError::RolledBack { number: kept.number },
                false => StreamsError::OtherStream,
            });
        }
        if is_closed && !verifier.is_closed() {
            return Err(VerifyError::Missing { expected: verifier.last().1 + 1 }.into());
        }
        let proved = verifier.proved().map(|(number, head)| KeptHead { stream, number, head });
        Ok(Verified {
            proved,
            records: self.records,
            unproved: self.unproved,
            is_closed: verifier.is_closed() && self.unproved == 0,
        })
    }
}

fn steps(steps: &[(&str, &str)]) -> Result<Path, StreamsError> {
    if steps.len() > PATH_STEPS_MAX {
        return Err(BAD_LINE);
    }
    let step = |(side, node): &(&str, &str)| {
        let is_left = match *side {
            "left" => true,
            "right" => false,
            _ => return Err(BAD_LINE),
        };
        let node: Head = node.parse().map_err(|_| BAD_LINE)?;
        Ok((is_left, *node.as_bytes()))
    };
    let steps: Result<Vec<_>, _> = steps.iter().map(step).collect();
    steps.map(Path::from_steps)
}
